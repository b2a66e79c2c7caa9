"""The tables that Studio may read, and the counts of their sensitive columns.

Tables are given at the start, or uploaded. Studio describes them in the background, and keeps only the facts in
`model.columns`: names, types, numbers of values. It keeps no cell. If the owner replaces the file of a table, Studio
forgets the facts and reads the table again.

A sensitive column is counted once, in the background. All exploring works on the counts.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dalenius.errors import ChangedInputError, DaleniusError, InputError, TooManyValuesError
from dalenius.model.problem import ValueCounts
from dalenius.planning import MANY_NUMBERS, count_in_bands, count_values
from dalenius.policy.bands import BandSpec, exact_text, suggest_bands
from dalenius.policy.grouping import number_of
from dalenius.policy.roles import Suggestion, repeats, suggest_roles
from dalenius.studio.draft import Draft
from dalenius.studio.explorer import Explorer, Explorers
from dalenius.studio.messages import RequestError, error_object, internal_object, not_found
from dalenius.tables.describe import TableFacts, describe, tables_in
from dalenius.tables.number_counts import NumberCounts, no_numbers, numbers_of

_DATABASES = (".duckdb", ".ddb", ".db")

Stamp = tuple[int, ...]  # identity, size and time of a file
Status = Literal["reading", "ready", "failed"]
Origin = Literal["given", "uploaded", "made-up"]


@dataclass(frozen=True)
class TableEntry:
    """A table and its ID. `table` is its name inside a DuckDB file.

    `name` and `file` (its file's name) are for people, and are data. `stamp` is that of the file when it was read.
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
                    "repeats": self.facts is not None and repeats(column, self.facts.rows),
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
    """What the counts of a column depend on. Nulls, and codes that are `missing`, count as `null_name`."""

    table: str
    stamp: Stamp  # of the table's file
    column: str
    null_name: str | None
    missing: tuple[str, ...] = ()
    allow_absent: bool = False  # whether codes may be missing from the column

    @classmethod
    def of(cls, table: TableEntry, draft: Draft) -> CountKey:
        """The sensitive column of a draft, of a table as it was read."""
        roles, missing = draft.roles, tuple(draft.roles.missing)
        absent = bool(missing and draft.limits.allow_absent)
        return cls(table.id, table.stamp, roles.sensitive or "", draft.null_name, missing, absent)


@dataclass(frozen=True)
class ColumnCounts:
    """A column whose values are being counted, or have been.

    `numbers` are there if the column has nothing but numbers and what is missing. `cuts` would put them into bands.
    """

    key: CountKey
    status: Literal["counting", "ready", "failed"] = "counting"
    counts: ValueCounts | TooManyValuesError | None = None
    numbers: NumberCounts | None = None
    cuts: str = ""
    explorers: Explorers | None = None
    error: dict[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it."""
        counts, numbers = self.counts, self.numbers
        return {
            "column": self.key.column,
            "total": counts.total if isinstance(counts, ValueCounts) else None,
            "values": len(counts) if isinstance(counts, ValueCounts) else None,
            "numbers": len(numbers.numbers) if numbers is not None else None,
            "cuts": self.cuts,
            "bands_advised": numbers is not None and len(numbers.numbers) > MANY_NUMBERS and self.cuts != "",
            "status": self.status,
            "error": self.error,
        }

    def explorer(self, bands: BandSpec | None = None, not_applicable: Sequence[str] = ()) -> Explorer:
        """What answers questions about it, or an error that says why nothing can yet."""
        if self.explorers is not None:
            return self.explorers.get(bands, tuple(not_applicable))
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

    def request(self, table: TableEntry, draft: Draft) -> ColumnCounts:
        """The column as far as it is counted. Counting begins if it has not, or if it failed before."""
        key = CountKey.of(table, draft)
        with self._lock:
            current = [old for old in self._columns if old.table != key.table or old.stamp == key.stamp]
            self._columns = {old: self._columns[old] for old in current}  # without those of a file that has changed
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


def _count_column(table: TableEntry, key: CountKey) -> ColumnCounts:
    try:
        counts = _count_values(table, key)
        numbers, values = None, counts.values if isinstance(counts, ValueCounts) else ()
        if all(number_of(value) is not None for value in values if value != key.null_name):
            numbers = numbers_of(table.path, table.table, key.column, key.missing)
        if numbers is None and not isinstance(counts, ValueCounts):
            return ColumnCounts(key, "failed", error=error_object(counts))
        if not table.is_unchanged():
            changed = ChangedInputError("the table changed while it was being counted", "Studio reads it again.")
            return ColumnCounts(key, "failed", error=error_object(changed))
        cuts = suggest_bands(numbers.numbers, numbers.counts).cuts if numbers is not None else ()
        explorers = Explorers(partial(_count, key, counts, numbers))
        return ColumnCounts(key, "ready", counts, numbers, ", ".join(map(exact_text, cuts)), explorers)
    except DaleniusError as error:
        return ColumnCounts(key, "failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return ColumnCounts(key, "failed", error=internal_object(error))


def _count_values(table: TableEntry, key: CountKey) -> ValueCounts | TooManyValuesError:
    try:
        return count_values(table.path, key.column, key.null_name, table.table, key.missing, key.allow_absent)
    except TooManyValuesError as error:  # numbers can be in bands
        return error


def _count(
    key: CountKey, counts: ValueCounts | TooManyValuesError, numbers: NumberCounts | None, bands: BandSpec | None
) -> ValueCounts:
    """The records of each value, or of each band."""
    if bands is not None and numbers is not None:
        return count_in_bands(numbers, bands, key.column, key.null_name)
    if bands is not None:
        raise no_numbers(key.column)
    if isinstance(counts, TooManyValuesError):
        raise counts
    return counts
