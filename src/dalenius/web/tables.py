"""The tables that Studio may read: those given at the start and those uploaded. They are described in the background.

What is known of a table are the facts in `model.columns`: names, types, numbers of values. No cell of it is kept here.
A table that was given may be replaced by its owner; then it is read again, and what was known of it is forgotten.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dalenius.engines.describing import describe, tables_in
from dalenius.errors import DaleniusError, InputError
from dalenius.model.columns import TableFacts
from dalenius.policy.roles import Suggestion, suggest
from dalenius.web.failures import RequestError, error_object, internal_object, not_found

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
        return replace(entry, status="ready", facts=facts, suggested=suggest(facts))
    except DaleniusError as error:
        return replace(entry, status="failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return replace(entry, status="failed", error=internal_object(error))
