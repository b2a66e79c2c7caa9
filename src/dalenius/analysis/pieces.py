"""Both tables of a release in step: some whole buckets at a time, their rows and what their people may have.

Everybody has one row. Each sensitive column is read by itself; those that are kept together are read as one, by their
table of tuples: whoever has a slot of it has all of its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from dalenius.errors import ReleaseError, UsageError
from dalenius.infer.candidates import Integers
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.release_views import view_of
from dalenius.tables.arrays import arrow_array, filled, numpy_array

ROWS = 2**18  # of a piece
_BATCH = 2**16
_VERIFY = "Run dalenius verify on the release."
_MOST_KEY = 2**62


@dataclass(frozen=True)
class SlotTable:
    """A table of what people may have: the sensitive `names` that it has, and the release as it is for the first."""

    folder: ReleaseFolder
    table: TableName
    names: tuple[str, ...]

    @property
    def most_values(self) -> int:
        """How many values there are, or how many tuples there may be of columns that are kept together."""
        manifest = self.folder.manifest
        places = map(manifest.sensitive_names.index, self.names)
        return prod(len(manifest.view(place).values) for place in places)


@dataclass(frozen=True)
class Piece:
    """Rows and the bucket of each; and for every slot table its slots, and the bucket of each. Both ascend."""

    rows: pa.Table
    buckets: Integers
    slots: tuple[pa.Table, ...]
    slot_buckets: tuple[Integers, ...]

    def __len__(self) -> int:
        return len(self.buckets)

    def some(self, numbers: Integers) -> Piece:
        """The same of some of its buckets."""
        chosen = np.flatnonzero(np.isin(self.buckets, numbers))
        slots = [np.flatnonzero(np.isin(buckets, numbers)) for buckets in self.slot_buckets]
        return Piece(
            rows=self.rows.take(arrow_array(chosen)),
            buckets=self.buckets[chosen],
            slots=tuple(table.take(arrow_array(own)) for table, own in zip(self.slots, slots, strict=True)),
            slot_buckets=tuple(buckets[own] for buckets, own in zip(self.slot_buckets, slots, strict=True)),
        )


def slot_tables(folder: ReleaseFolder, columns: str | Sequence[str] | None = None) -> list[SlotTable]:
    """The tables that have some sensitive columns, or all; a UsageError if one person can have several of their values.

    With several rows a person, or a sensitive column made of several, a bucket does not say how many of its people have
    a value, but how many of their rows, and which values go together in a person is not published at all.
    """
    manifest = folder.manifest
    if manifest.persons is not None:
        raise UsageError(
            f"in this release {manifest.people:,} people have {manifest.rows:,} rows: which of somebody's rows has "
            "which value is not published, so there is no plain table to draw",
            "Count with 'dalenius query', or ask for a release with one row a person.",
        )
    names = manifest.sensitive_names
    wanted = list(dict.fromkeys([columns] if isinstance(columns, str) else names if columns is None else columns))
    if not wanted:
        raise UsageError("no sensitive column is asked for", f"There are {', '.join(map(repr, names))}.")
    for name in wanted:
        several = view_of(folder, name).manifest.columns.sensitive.of
        if len(several) > 1:
            raise UsageError(
                f"the sensitive column {name!r} is made of {len(several):,} columns: which of them has which value is "
                "not published, so there is no plain table to draw",
                "Count with 'dalenius query', or choose other columns with --sensitive.",
            )
    found = []
    for number, kept in enumerate(manifest.together):
        if set(kept.columns) & set(wanted):
            found.append(SlotTable(folder.kept_together(number), "together", tuple(kept.columns)))
            wanted = [name for name in wanted if name not in kept.columns]
    found += [SlotTable(folder.view(names.index(name)), "st", (name,)) for name in wanted]
    return sorted(found, key=lambda one: names.index(one.names[0]))


def distinct_rows(table: pa.Table) -> tuple[pa.Table, Integers]:
    """The different rows of a table, and the place of every row among them. A null is as good as a value."""
    places, number = np.zeros(table.num_rows, np.int64), 1
    for column in table.columns:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        parts = encoded.unify_dictionaries().chunks
        kinds = max((len(part.dictionary) for part in parts), default=0) + 1
        if number * kinds > _MOST_KEY:
            places, number = _ranked(places)
        codes = [filled(part.indices, kinds - 1).astype(np.int64) for part in parts]
        places, number = places * kinds + np.concatenate([np.zeros(0, np.int64), *codes]), number * kinds
    _, firsts, ranks = np.unique(places, return_index=True, return_inverse=True)
    return table.take(arrow_array(firsts)), ranks.astype(np.int64)


def _ranked(keys: Integers) -> tuple[Integers, int]:
    different, ranks = np.unique(keys, return_inverse=True)
    return ranks.astype(np.int64), len(different)


def read_pieces(folder: ReleaseFolder, tables: Sequence[SlotTable], rows: int = ROWS) -> Iterator[Piece]:
    """The whole release, in the order of its buckets; without those that everybody left."""
    manifest = folder.manifest
    bucket, fakes, people_left = manifest.columns.bucket, manifest.adversary.fake_values, manifest.surplus > 0
    names = [column.name for column in manifest.columns.quasi_identifiers]
    with ExitStack() as stack:

        def stream(source: ReleaseFolder, table: TableName, columns: Sequence[str]) -> _Stream:
            batches = source.batches(table, [*columns, bucket], rows=_BATCH, coded=True)
            return _Stream(stack.enter_context(closing(batches)), bucket)

        people = stream(folder, "qit", names)
        slots = [stream(one.folder, one.table, one.names) for one in tables]
        while (taken := people.next(rows)) is not None:
            piece_rows, buckets = taken
            own = [one.through(int(buckets[-1])) for one in slots]
            piece = Piece(piece_rows, buckets, tuple(table for table, _ in own), tuple(held for _, held in own))
            if people_left:
                piece = piece.some(np.unique(buckets))
            _check(piece, fakes, people_left)
            yield piece
        if not people_left and any(one.rest() for one in slots):
            raise ReleaseError("there are values of buckets without a row", _VERIFY)


class _Stream:
    """Rows by ascending bucket, taken from batches; the bucket is the last column, and not given on."""

    def __init__(self, batches: Iterator[pa.RecordBatch], bucket: str) -> None:
        self._batches, self._bucket = batches, bucket
        self._held: list[pa.Table] = []
        self._numbers: list[Integers] = []

    def next(self, rows: int) -> tuple[pa.Table, Integers] | None:
        """Whole buckets with so many rows or a few less, at least one; None at the end."""
        while sum(map(len, self._numbers)) <= rows or self._numbers[0][0] == self._numbers[-1][-1]:
            if not self._fetch():
                return self._take(None)
        numbers = np.concatenate(self._numbers)
        before, first = int(numbers[rows]), int(numbers[0])
        return self._take(before if before > first else first + 1)

    def through(self, last: int) -> tuple[pa.Table, Integers]:
        """All rows up to this bucket."""
        while not self._numbers or self._numbers[-1][-1] <= last:
            if not self._fetch():
                break
        taken = self._take(last + 1)
        if taken is None:
            raise ReleaseError("there are buckets without a value", _VERIFY)
        return taken

    def rest(self) -> bool:
        """Whether there is anything more."""
        return bool(self._numbers) or self._fetch()

    def _fetch(self) -> bool:
        for batch in self._batches:
            if not batch.num_rows:
                continue
            column = batch.column(batch.num_columns - 1)
            if column.null_count:
                raise ReleaseError("the bucket column has nulls", _VERIFY)
            numbers = numpy_array(column).astype(np.int64)
            if (np.diff(numbers) < 0).any() or (self._numbers and numbers[0] < self._numbers[-1][-1]):
                raise ReleaseError("rows are not in the order of their buckets", _VERIFY)
            self._held.append(pa.Table.from_batches([batch.select(batch.schema.names[:-1])]))
            self._numbers.append(numbers)
            return True
        return False

    def _take(self, before: int | None) -> tuple[pa.Table, Integers] | None:
        """All that is held of buckets before this one, or all."""
        if not self._numbers:
            return None
        table = pa.concat_tables(self._held).unify_dictionaries() if self._held[0].num_columns else self._held[0]
        numbers = np.concatenate(self._numbers)
        end = len(numbers) if before is None else int(np.searchsorted(numbers, before))
        kept = end < len(numbers)
        self._held, self._numbers = ([table.slice(end)], [numbers[end:]]) if kept else ([], [])
        return (table.slice(0, end), numbers[:end]) if end else None


def _check(piece: Piece, fakes: int, people_left: bool) -> None:
    """Every bucket has as many slots as rows and fakes together, or more if people left."""
    numbers, rows = np.unique(piece.buckets, return_counts=True)
    for buckets in piece.slot_buckets:
        own, slots = np.unique(buckets, return_counts=True)
        if not np.array_equal(own, numbers) or not (np.equal, np.greater_equal)[people_left](slots, rows + fakes).all():
            raise ReleaseError("there are buckets with more rows than values, or fewer", _VERIFY)
