"""The tables that Studio may read: those given at the start and those uploaded. They are described in the background.

What is known of a table are the facts in `model.columns`: names, types, numbers of values. No cell of it is kept here.
A table that was given may be replaced by its owner; then it is read again, and what was known of it is forgotten.

The sensitive column is counted once, in the background; all exploring works on the counts.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dalenius.errors import ChangedInputError, DaleniusError, InputError
from dalenius.model.problem import ValueCounts
from dalenius.planning import count_values
from dalenius.policy.roles import Suggestion, suggest_roles
from dalenius.studio.explorer import Explorer
from dalenius.studio.messages import RequestError, error_object, internal_object, not_found
from dalenius.tables.describe import TableFacts, describe, tables_in

_DATABASES = (".duckdb", ".ddb", ".db")

Stamp = tuple[int, ...]  # what a file looks like from outside
Status = Literal["reading", "ready", "failed"]


@dataclass(frozen=True)
class TableEntry:
    """A table by its ID; `table` is its name inside a DuckDB file.

    `name`, and `file`, that of its file alone, are for people: they are data like any other. `stamp` is of the file as
    it was when it was read.
    """

    id: str
    name: str
    file: str
    origin: Literal["given", "uploaded"]
    path: Path
    table: str | None = None
    status: Status = "reading"
    stamp: Stamp = ()
    facts: TableFacts | None = None
    suggested: dict[str, Suggestion] | None = None
    error: dict[str, Any] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, once they are known."""
        return tuple(column.name for column in self.facts.columns) if self.facts is not None else ()

    def is_unchanged(self) -> bool:
        """Whether its file is the one that was read."""
        return stamp_of(self.path) == self.stamp

    def require_unchanged(self) -> None:
        """Refuse to take another file for the one that was read."""
        if not self.is_unchanged():
            raise RequestError(
                409,
                "table-changed",
                "the table changed since this release was made of it",
                "Ask without the table, or publish the new one.",
            )

    def state(self) -> dict[str, Any]:
        """The entry as GET /api/state has it."""
        suggested = self.suggested or {}
        return {
            "id": self.id,
            "name": self.name,
            "origin": self.origin,
            "status": self.status,
            "error": self.error,
            "rows": self.facts.rows if self.facts is not None else None,
            "columns": [
                {
                    "name": column.name,
                    "type": column.type,
                    "kind": column.kind,
                    "distinct": column.distinct,
                    "distinct_is_exact": column.distinct_is_exact,
                    "nulls": column.nulls,
                    "suggested": str(suggested[column.name].role),
                    "why": suggested[column.name].why,
                }
                for column in (self.facts.columns if self.facts is not None else ())
            ],
        }


class Tables:
    """All tables, in the order in which they came."""

    def __init__(self, described: Callable[[TableEntry], None]) -> None:
        """`described` is told of every table that is ready."""
        self._described = described
        self._lock = threading.Lock()
        self._entries: dict[str, TableEntry] = {}
        self._reader = ThreadPoolExecutor(1, "describing")

    def add(self, path: Path, name: str, origin: Literal["given", "uploaded"], table: str | None = None) -> list[str]:
        """The IDs of the table in a file, or of each table of a DuckDB file. Views of an uploaded one are left out."""
        inside: list[str | None] = [table] if table is not None else [*tables_in(path, views=origin == "given")]
        if not inside and path.suffix.lower() in _DATABASES:  # without a name, a view might be read
            raise InputError("the DuckDB file has no tables", "Views are not read from files that are uploaded.")
        entries = [
            TableEntry(
                secrets.token_urlsafe(12), f"{name}: {one}" if len(inside) > 1 else name, name, origin, path, one
            )
            for one in inside or [None]
        ]
        with self._lock:
            self._entries.update({entry.id: entry for entry in entries})
        for entry in entries:
            self._reader.submit(self._describe, entry.id)
        return [entry.id for entry in entries]

    def get(self, identifier: str) -> TableEntry:
        """The table with an ID."""
        with self._lock:
            entry = self._entries.get(identifier)
        if entry is None:
            raise not_found()
        return entry

    def current(self, identifier: str) -> TableEntry:
        """The same; if its file is another one by now, it is read again."""
        entry = self.get(identifier)
        if entry.status == "reading" or entry.is_unchanged():
            return entry
        with self._lock:
            if self._entries.get(identifier) is not entry:  # somebody else saw it first
                return self._entries.get(identifier, entry)
            again = replace(entry, status="reading", stamp=(), facts=None, suggested=None, error=None)
            self._entries[identifier] = again
        with suppress(RuntimeError):  # Studio is being closed
            self._reader.submit(self._describe, identifier)
        return again

    def all(self) -> list[TableEntry]:
        """Every table."""
        with self._lock:
            return list(self._entries.values())

    def remove(self, identifier: str) -> None:
        """Forget an uploaded table, and remove its file when no other table is in it."""
        entry = self.get(identifier)
        if entry.origin != "uploaded":
            raise not_found()
        with self._lock:
            self._entries.pop(identifier, None)
            last = not any(other.path == entry.path for other in self._entries.values())
        if last:
            with suppress(OSError):
                entry.path.unlink()

    def close(self) -> None:
        """Describe no more."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _describe(self, identifier: str) -> None:
        with suppress(Exception):  # it was removed meanwhile
            entry = self.get(identifier)
            done = _described(entry)
            with self._lock:
                if identifier in self._entries:
                    self._entries[identifier] = done
            if done.status == "ready":
                self._described(done)


def stamp_of(path: Path) -> Stamp:
    """Which file is at a path, and when it was last written to; for a database, what is not yet in the file as well."""
    found: list[int] = []
    for part in (path, path.with_name(f"{path.name}.wal")):
        with suppress(OSError):
            state = part.stat()
            found += [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns]
    return tuple(found)


def _described(entry: TableEntry) -> TableEntry:
    entry = replace(entry, stamp=stamp_of(entry.path))
    try:
        facts = describe(entry.path, entry.table)
        return replace(entry, status="ready", facts=facts, suggested=suggest_roles(facts))
    except DaleniusError as error:
        return replace(entry, status="failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return replace(entry, status="failed", error=internal_object(error))


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
