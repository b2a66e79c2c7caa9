"""Tasks that place the records of a partition, and tasks that make a file of the records of a piece.

Placing shuffles nothing: how many records of each value are in earlier partitions is known, so a task knows the ranks
of its own. What it gives goes through the one shuffle there is: for every piece of the release, that is for every range
of buckets, the records that belong there, 8 bytes each (or as Arrow batches, where they do not fit into 64 bits). A
piece holds a number of records that is known beforehand and small enough for one task, however the values are skewed.
There they get into the order of the release, and become the bytes of a file: those that any engine would write.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model.problem import Partition
from dalenius.place.packed import Keys, Layout, Pieces
from dalenius.place.sensitive import SensitiveColumn
from dalenius.place.slots import Placement, values_of_buckets
from dalenius.place.wide import WideLayout, in_release_order
from dalenius.publishing.spark.rereading import Batches, PackedRecordsOf, RawRecordsOf, rows_moved
from dalenius.publishing.spark.spark_errors import carry_errors
from dalenius.release.parquet_pages import FileWriter
from dalenius.tables.arrays import arrow_array, numpy_array

Integers = npt.NDArray[np.int64]

PLACED = "piece int, records binary"
ENCODED = "piece int, content binary"
_KEYS_AT_ONCE = 2**21
_BYTES_AT_ONCE = 2**26
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Ranks:
    """How many records of each number are in earlier partitions, and, a line further, in this one as well."""

    starts: Integers

    @classmethod
    def of(cls, counts: Integers) -> Ranks:
        """From the counts of every partition, a line each."""
        starts = np.zeros((len(counts) + 1, counts.shape[1]), dtype=np.int64)
        np.cumsum(counts, axis=0, out=starts[1:])
        return cls(starts)

    def batch(self, partition: int, numbers: npt.NDArray[np.integer], before: Integers) -> Integers:
        """What is before the next batch, if this one fits into its partition."""
        after: Integers = before + np.bincount(numbers, minlength=len(before))
        if partition + 1 >= len(self.starts) or (after > self.starts[partition + 1]).any():
            raise rows_moved()
        return after

    def check_finished(self, partition: int, placed: Integers) -> None:
        """An error if a partition has fewer records than it had."""
        if (placed != self.starts[partition + 1]).any():
            raise rows_moved()


class PlaceTask:
    """Gives every record of a partition its bucket."""

    def __init__(
        self,
        records: PackedRecordsOf | RawRecordsOf,
        ranks: Ranks,
        placement: Placement,
        pieces: Pieces,
        layout: Layout | WideLayout,
    ) -> None:
        self._records, self._ranks, self._placement = records, ranks, placement
        self._pieces, self._layout = pieces, layout

    def __call__(self, batches: Batches) -> Batches:
        """Rows of a piece and records that belong to it."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        waiting: list[Any] = []
        held, partition = 0, -1
        placed = np.empty(0, dtype=np.int64)
        records: Any = self._records
        for number, numbers, columns in records.batches(batches):
            if partition < 0:
                partition, placed = number, self._ranks.starts[min(number, len(self._ranks.starts) - 1)]
            after = self._ranks.batch(partition, numbers, placed)
            order, buckets = self._placement.buckets(numbers, placed)
            placed = after
            if isinstance(self._layout, Layout):
                waiting.append(self._layout.keys(columns, order, buckets))
                held += _BYTES_AT_ONCE // _KEYS_AT_ONCE * len(order)
            else:
                waiting.append(self._layout.part(columns, order, buckets))
                held += int(waiting[-1].nbytes)
            if held >= _BYTES_AT_ONCE:
                yield self._cut(waiting)
                waiting, held = [], 0
        if waiting:
            yield self._cut(waiting)
        if partition >= 0:
            self._ranks.check_finished(partition, placed)

    def _cut(self, waiting: list[Any]) -> pa.RecordBatch:
        """What waits, cut into pieces."""
        cut: Callable[[slice], Any]
        if isinstance(self._layout, Layout):
            keys: Keys = np.concatenate(waiting)
            keys.sort()
            buckets = self._layout.buckets(keys)
            cut = lambda where: keys[where].tobytes()  # noqa: E731
        else:
            table = pa.Table.from_batches(waiting).combine_chunks()
            unsorted = numpy_array(table.column(table.num_columns - 1).chunk(0))
            order = np.argsort(unsorted, kind="stable")
            buckets = unsorted[order]
            (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
            cut = lambda where: batch.slice(where.start, where.stop - where.start).serialize().to_pybytes()  # noqa: E731
        ends = self._pieces.cut(buckets)
        some = np.flatnonzero(np.diff(ends)).tolist()
        records = [cut(slice(int(ends[piece]), int(ends[piece + 1]))) for piece in some]
        return pa.record_batch([pa.array(some, pa.int32()), pa.array(records, pa.binary())], names=["piece", "records"])


@dataclass(frozen=True)
class PieceEncoder:
    """Makes files of a table's pieces: its columns, which of them has the buckets, and the rows of a row group."""

    schema: pa.Schema
    bucket: str
    group: int

    def file(self, piece: int, groups: Iterable[Sequence[pa.Array]]) -> pa.RecordBatch:
        """The row of a piece, from the columns of its row groups."""
        content = io.BytesIO()
        writer = FileWriter(content, self.schema, self.bucket)
        for columns in groups:
            writer.write_group(columns)
        writer.finish()
        row = [pa.array([piece], pa.int32()), pa.array([content.getbuffer()], pa.binary())]
        return pa.record_batch(row, names=["piece", "content"])

    def groups(self, rows: int) -> Iterator[slice]:
        """Which rows of a piece are in which row group."""
        return (slice(first, min(first + self.group, rows)) for first in range(0, rows, self.group))


class SortTask:
    """Puts the records of one piece into the order of the release, and makes its file of QIT.

    Where the last column of records is their sensitive number, it makes the file of all other columns, or of ST.
    """

    def __init__(
        self,
        pieces: Pieces,
        layout: Layout | WideLayout,
        encoder: PieceEncoder,
        part: Literal["all", "all but numbers", "numbers"] = "all",
    ) -> None:
        self._rows, self._layout, self._encoder, self._part = pieces.rows, layout, encoder, part

    def __call__(self, batches: Batches) -> Batches:
        """The file of a piece, in a row."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        piece, parts = -1, []
        for batch in batches:
            numbers = set(numpy_array(batch.column(0)).tolist())
            if len(numbers | {piece} - {-1}) > 1:
                raise SelfCheckError("records of two pieces came to one task")
            (piece,) = numbers
            parts += batch.column(1).to_pylist()
        if piece < 0:
            return
        rows, columns = self._sorted(parts)
        if rows != self._rows[piece]:
            raise rows_moved()
        yield self._encoder.file(piece, map(columns, self._encoder.groups(rows)))

    def _sorted(self, parts: list[bytes]) -> tuple[int, Callable[[slice], list[pa.Array]]]:
        """How many records there are, and the columns of some, by their places in the order of the release."""
        layout = self._layout
        if isinstance(layout, Layout):
            keys: Keys = np.concatenate([np.frombuffer(part, dtype=np.uint64) for part in parts])
            keys.sort()
            if self._part != "numbers":
                most = None if self._part == "all" else -1
                return len(keys), lambda where: layout.unpack(keys[where], most)
            columns = layout.unpack_last(keys)
        else:
            batches = [pa.ipc.read_record_batch(pa.py_buffer(part), layout.schema) for part in parts]
            columns = layout.sort(batches)
            if self._part == "all but numbers":
                columns = [*columns[:-2], columns[-1]]
            elif self._part == "numbers":
                columns = [columns[-1], columns[-2]]
                order = arrow_array(in_release_order(columns))
                columns = [column.take(order) for column in columns]
        return len(columns[0]), lambda where: [one.slice(where.start, where.stop - where.start) for one in columns]


class ValuesTask:
    """Makes the files of ST, piece by piece, from the quotas alone."""

    def __init__(
        self,
        parts: tuple[Partition, ...],
        sensitive: SensitiveColumn,
        pieces: Pieces,
        buckets: int,
        encoder: PieceEncoder,
    ) -> None:
        self._parts, self._sensitive, self._encoder = parts, sensitive, encoder
        self._firsts = np.append(pieces.first_buckets, buckets + 1)

    def __call__(self, batches: Batches) -> Batches:
        """The files of the pieces whose numbers come, a row each."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        for batch in batches:
            for piece in numpy_array(batch.column(0)).tolist():
                yield self._file(piece)

    def _file(self, piece: int) -> pa.RecordBatch:
        first, last = self._firsts[piece : piece + 2].tolist()
        made = zip(*values_of_buckets(self._parts, first, last, _ROWS_AT_ONCE, self._sensitive.published), strict=True)
        buckets, values = (np.concatenate(some) for some in made)
        groups = self._encoder.groups(len(buckets))
        return self._encoder.file(
            piece, ([arrow_array(buckets[where]), self._sensitive.decode(values[where])] for where in groups)
        )
