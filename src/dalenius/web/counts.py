"""The sensitive column is counted once, in the background; all exploring works on the counts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dalenius.errors import ChangedInputError, DaleniusError
from dalenius.exploring.explorer import Explorer
from dalenius.model.problem import ValueCounts
from dalenius.planning import count_values
from dalenius.web.failures import RequestError, error_object, internal_object
from dalenius.web.tables import Stamp, TableEntry


class CountKey(NamedTuple):
    """What a count depends on."""

    table: str
    stamp: Stamp  # of the table's file
    column: str
    null_value: str | None

    @classmethod
    def of(cls, table: TableEntry, column: str, null_value: str | None) -> CountKey:
        """A column of a table as it was read."""
        return cls(table.id, table.stamp, column, null_value)


@dataclass(frozen=True)
class Counted:
    """A column that is being counted, or was."""

    key: CountKey
    status: Literal["counting", "ready", "failed"] = "counting"
    counts: ValueCounts | None = None
    explorer: Explorer | None = None
    error: dict[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it."""
        return {
            "column": self.key.column,
            "total": self.counts.total if self.counts is not None else None,
            "values": len(self.counts) if self.counts is not None else None,
            "status": self.status,
            "error": self.error,
        }

    def ready(self) -> tuple[ValueCounts, Explorer]:
        """The counts; an error that says why there are none, or none yet."""
        if self.counts is not None and self.explorer is not None:
            return self.counts, self.explorer
        if self.status == "counting":
            raise RequestError(409, "counting", "the sensitive column is being counted", "Ask again in a moment.")
        error = self.error or {}
        raise RequestError(
            400, error.get("kind", "input"), error.get("message", "the column cannot be counted"), error.get("hint")
        )


class Counts:
    """Every column that was asked for, counted once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[CountKey, Counted] = {}
        self._counter = ThreadPoolExecutor(1, "counting")

    def want(self, table: TableEntry, column: str, null_value: str | None) -> Counted:
        """The column as far as it is counted; counting begins if it has not. One that failed is tried again."""
        key = CountKey.of(table, column, null_value)
        with self._lock:
            self._found = {other: found for other, found in self._found.items() if not _is_past(other, key)}
            found = self._found.get(key)
            if found is None or found.status == "failed":
                found = self._found[key] = Counted(key)
                self._counter.submit(self._count, table, key)
        return found

    def get(self, key: CountKey) -> Counted | None:
        """What is known of a column that was asked for."""
        with self._lock:
            return self._found.get(key)

    def forget(self, table: str) -> None:
        """A table is gone."""
        with self._lock:
            self._found = {key: found for key, found in self._found.items() if key.table != table}

    def close(self) -> None:
        """Count no more."""
        self._counter.shutdown(wait=False, cancel_futures=True)

    def _count(self, table: TableEntry, key: CountKey) -> None:
        with suppress(Exception):
            done = _counted(table, key)
            with self._lock:
                if key in self._found:
                    self._found[key] = done


def _is_past(key: CountKey, now: CountKey) -> bool:
    """Whether it is of the same table as it was before its file changed."""
    return key.table == now.table and key.stamp != now.stamp


def _counted(table: TableEntry, key: CountKey) -> Counted:
    try:
        counts = count_values(table.path, key.column, key.null_value, table.table)
        if not table.is_unchanged():
            return Counted(key, "failed", error=error_object(_changed()))
        return Counted(key, "ready", counts, Explorer(counts))
    except DaleniusError as error:
        return Counted(key, "failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return Counted(key, "failed", error=internal_object(error))


def _changed() -> ChangedInputError:
    return ChangedInputError("the table changed while it was being counted", "It is read again.")


def by_count(counts: ValueCounts) -> tuple[list[str], list[int]]:
    """Values and counts, the most frequent first, as the page shows them."""
    pairs = sorted(zip(counts.values, counts.counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [value for value, _ in pairs], [count for _, count in pairs]
