"""The tables that Studio may read, and the counts of their sensitive columns.

Tables are given at the start, or uploaded. Studio describes them in the background, and keeps only the facts in
`model.columns`: names, types, numbers of values. It keeps no cell. If the owner replaces the file of a table, Studio
forgets the facts and reads the table again.

A sensitive column is counted once, in the background. All exploring works on the counts.
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

Stamp = tuple[int, ...]  # identity, size and time of a file
Status = Literal["reading", "ready", "failed"]
Origin = Literal["given", "uploaded", "made-up"]


@dataclass(frozen=True)
class TableEntry:
    """A table and its ID. `table` is its name inside a DuckDB file.

    `name` and `file` (the name of its file) are for people, and are data like any other. `stamp` is that of the file
    when it was read.
    """

    id: str
    name: str
    file: str
    origin: Origin
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
        """Whether its file is still the one that was read."""
        return stamp_of(self.path) == self.stamp

    def require_unchanged(self) -> None:
        """Raise an error if its file has changed since it was read."""
        if not self.is_unchanged():
            raise RequestError(
                409,
                "table-changed",
                "the table has changed since this release was made from it",
                "Ask without the table, or publish the new table.",
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
    """All tables, in order of arrival."""

    def __init__(self, described: Callable[[TableEntry], None]) -> None:
        """`described` is called with every table that is ready."""
        self._described = described
        self._lock = threading.Lock()
        self._entries: dict[str, TableEntry] = {}
        self._reader = ThreadPoolExecutor(1, "describing")

    def add(self, path: Path, name: str, origin: Origin, table: str | None = None) -> list[str]:
        """Add the table in a file, or all tables of a DuckDB file (of an uploaded one, no views). Returns their IDs."""
        inside: list[str | None] = [table] if table is not None else [*tables_in(path, views=origin == "given")]
        if not inside and path.suffix.lower() in _DATABASES:  # without a name, a view might be read
            raise InputError("the DuckDB file has no tables", "Views are not read from files that are uploaded.")
        entries = [
            TableEntry(
                id=secrets.token_urlsafe(12),
                name=f"{name}: {one}" if len(inside) > 1 else name,
                file=name,
                origin=origin,
                path=path,
                table=one,
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
        """The table with an ID. If its file has changed, it is read again."""
        entry = self.get(identifier)
        if entry.status == "reading" or entry.is_unchanged():
            return entry
        with self._lock:
            if self._entries.get(identifier) is not entry:  # another thread saw it first
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
        """Forget a table that was not given at the start, and remove its file if it holds no other table."""
        entry = self.get(identifier)
        if entry.origin == "given":
            raise not_found()
        with self._lock:
            self._entries.pop(identifier, None)
            last = not any(other.path == entry.path for other in self._entries.values())
        if last:
            with suppress(OSError):
                entry.path.unlink()

    def close(self) -> None:
        """Stop describing tables."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _describe(self, identifier: str) -> None:
        with suppress(Exception):  # the table was removed meanwhile
            entry = _describe(self.get(identifier))
            with self._lock:
                if identifier in self._entries:
                    self._entries[identifier] = entry
            if entry.status == "ready":
                self._described(entry)


def stamp_of(path: Path) -> Stamp:
    """Which file is at a path, and when it was last written; for a database, with its write-ahead log."""
    stamp: list[int] = []
    for part in (path, path.with_name(f"{path.name}.wal")):
        with suppress(OSError):
            state = part.stat()
            stamp += [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns]
    return tuple(stamp)


def _describe(entry: TableEntry) -> TableEntry:
    entry = replace(entry, stamp=stamp_of(entry.path))
    try:
        facts = describe(entry.path, entry.table)
        return replace(entry, status="ready", facts=facts, suggested=suggest_roles(facts))
    except DaleniusError as error:
        return replace(entry, status="failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return replace(entry, status="failed", error=internal_object(error))


class CountKey(NamedTuple):
    """What the counts of a column depend on."""

    table: str
    stamp: Stamp  # of the table's file
    column: str
    null_value: str | None

    @classmethod
    def of(cls, table: TableEntry, column: str, null_value: str | None) -> CountKey:
        """A column of a table as it was read."""
        return cls(table.id, table.stamp, column, null_value)


@dataclass(frozen=True)
class ColumnCounts:
    """A column whose values are being counted, or have been."""

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
        """The counts, or an error that says why there are none yet."""
        if self.counts is not None and self.explorer is not None:
            return self.counts, self.explorer
        if self.status == "counting":
            raise RequestError(409, "counting", "the sensitive column is being counted", "Ask again in a moment.")
        error = self.error or {}
        raise RequestError(
            400, error.get("kind", "input"), error.get("message", "the column cannot be counted"), error.get("hint")
        )


class Counts:
    """Every requested column, counted once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns: dict[CountKey, ColumnCounts] = {}
        self._counter = ThreadPoolExecutor(1, "counting")

    def request(self, table: TableEntry, column: str, null_value: str | None) -> ColumnCounts:
        """The column as far as it is counted. Counting begins if it has not, or if it failed before."""
        key = CountKey.of(table, column, null_value)
        with self._lock:
            self._columns = {old: column for old, column in self._columns.items() if not _is_outdated(old, key)}
            entry = self._columns.get(key)
            if entry is None or entry.status == "failed":
                entry = self._columns[key] = ColumnCounts(key)
                self._counter.submit(self._count, table, key)
        return entry

    def get(self, key: CountKey) -> ColumnCounts | None:
        """What is known about a column that was requested."""
        with self._lock:
            return self._columns.get(key)

    def forget(self, table: str) -> None:
        """Forget the columns of a table."""
        with self._lock:
            self._columns = {key: column for key, column in self._columns.items() if key.table != table}

    def close(self) -> None:
        """Stop counting."""
        self._counter.shutdown(wait=False, cancel_futures=True)

    def _count(self, table: TableEntry, key: CountKey) -> None:
        with suppress(Exception):
            column = _count_column(table, key)
            with self._lock:
                if key in self._columns:
                    self._columns[key] = column


def _is_outdated(key: CountKey, now: CountKey) -> bool:
    """Whether a key is about the same table before its file changed."""
    return key.table == now.table and key.stamp != now.stamp


def _count_column(table: TableEntry, key: CountKey) -> ColumnCounts:
    try:
        counts = count_values(table.path, key.column, key.null_value, table.table)
        if not table.is_unchanged():
            return ColumnCounts(key, "failed", error=error_object(_changed()))
        return ColumnCounts(key, "ready", counts, Explorer(counts))
    except DaleniusError as error:
        return ColumnCounts(key, "failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return ColumnCounts(key, "failed", error=internal_object(error))


def _changed() -> ChangedInputError:
    return ChangedInputError("the table changed while it was being counted", "Studio reads it again.")


def by_count(counts: ValueCounts) -> tuple[list[str], list[int]]:
    """Values and counts, the most frequent first, as the page shows them."""
    pairs = sorted(zip(counts.values, counts.counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [value for value, _ in pairs], [count for _, count in pairs]
