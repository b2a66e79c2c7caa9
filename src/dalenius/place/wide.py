"""Records that do not fit into 64 bits: Arrow batches, stored in a nameless scratch file and sorted piece by piece.

They are slower than packed records, and need no assumption about the columns.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.place.domains import (
    Codes,
    Domain,
    Integers,
    codes_of,
    distinct_values,
    from_integers,
    is_integer_like,
    listing_type,
    sort_values,
    to_integers,
)
from dalenius.place.packed import PieceFill, Pieces, read_at, write_at
from dalenius.tables.arrays import arrow_array, filled, null_mask, numpy_array


class WideRecords:
    """The records of a release while they are being placed."""

    def __init__(self, schema: pa.Schema, domains: Mapping[str, Domain | None], pieces: Pieces, scratch: Path) -> None:
        """`schema` has the quasi-identifiers, and the bucket as its last column."""
        self._layout = WideLayout(schema, domains)
        self._fill = PieceFill(pieces)
        self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115 (closed in close())
        self._slices = [array("q") for _ in range(len(pieces))]  # of each, in turn: where it is, how long it is
        self._end = 0

    def part(self, columns: Sequence[pa.Array], order: Integers, buckets: Integers) -> pa.RecordBatch:
        """A batch, ready to be stored. May run in any thread."""
        return self._layout.part(columns, order, buckets)

    def store(self, batch: pa.RecordBatch) -> None:
        """Put a batch where it belongs. One thread at a time."""
        for piece, _, where in self._fill.add(numpy_array(batch.column(batch.num_columns - 1))):
            message = batch.slice(where.start, where.stop - where.start).serialize()
            write_at(self._file, self._end, memoryview(message))
            self._slices[piece].extend((self._end, message.size))
            self._end += message.size

    def pieces(self) -> Iterator[int]:
        """The numbers of the pieces, once every record is stored."""
        return self._fill.full_pieces()

    def piece(self, number: int) -> list[pa.Array]:
        """The columns of QIT for one piece, in the order of the release. May run in any thread."""
        batches, slices = [], self._slices[number]
        for offset, size in zip(slices[::2], slices[1::2], strict=True):
            message = bytearray(size)
            read_at(self._file, offset, memoryview(message))
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(message), self._layout.schema))
        return self._layout.sort(batches)

    def close(self) -> None:
        """Let go of the scratch file, which has no name and so is gone."""
        self._file.close()


class WideLayout:
    """The layout of such records, before they are sorted and after. Categories are stored as what they stand for."""

    def __init__(self, schema: pa.Schema, domains: Mapping[str, Domain | None]) -> None:
        """`schema` has the quasi-identifiers, and the bucket as its last column."""
        self._categories = {
            place: domains.get(field.name) for place, field in enumerate(schema) if pa.types.is_dictionary(field.type)
        }
        plain = [
            field.type.value_type if place in self._categories else field.type for place, field in enumerate(schema)
        ]
        self.schema = pa.schema(zip(schema.names, plain, strict=True))

    def part(self, columns: Sequence[pa.Array], order: Integers, buckets: Integers) -> pa.RecordBatch:
        """A batch in the order of its buckets, ready to be stored. May run in any thread."""
        # By bucket, and then as in the batch: `order` is by value, of which no trace may be left among equal rows.
        by_bucket = np.lexsort((order, buckets))
        places = arrow_array(order[by_bucket])
        taken = [column.take(places) for column in columns]
        plain = [_one_nan(column.cast(field.type)) for column, field in zip(taken, self.schema, strict=False)]
        return pa.record_batch([*plain, arrow_array(buckets[by_bucket])], schema=self.schema)

    def sort(self, batches: Sequence[pa.RecordBatch]) -> list[pa.Array]:
        """The columns of QIT for some whole buckets, in the order of the release."""
        columns = pa.Table.from_batches(batches, self.schema).combine_chunks()
        arrays = [column.chunk(0) for column in columns.columns]
        order = arrow_array(in_release_order([arrays[-1], *arrays[:-1]]))
        return [self._restore_categories(place, array.take(order)) for place, array in enumerate(arrays)]

    def _restore_categories(self, place: int, array: pa.Array) -> pa.Array:
        """Categories become categories again."""
        if place not in self._categories:
            return array
        domain = self._categories[place]
        return array.dictionary_encode() if domain is None else domain.decode(codes_of(domain, array))


def in_release_order(columns: Sequence[pa.Array]) -> Integers:
    """The order of rows by several columns, the first one first, each in the order of its values with nulls last.

    Columns become codes, neighbouring columns share 64-bit words, and the words are sorted.
    """
    words: list[Codes] = []
    room = 0
    for column in columns:
        codes = _codes(column)
        bits = int(codes.max()).bit_length() if len(codes) else 0
        if words and bits <= room:
            words[-1] = (words[-1] << np.uint64(bits)) | codes
            room -= bits
        else:
            words.append(codes)
            room = 64 - bits
    if len(words) == 1:
        return np.argsort(words[0], kind="stable")
    return np.lexsort(words[::-1])


def _one_nan(column: pa.Array) -> pa.Array:
    """A column in which all NaNs are one: bits that no order sees could tell rows apart that are equal."""
    if not pa.types.is_floating(column.type):
        return column
    return from_integers(to_integers(column).astype(np.int64), column.type, null_mask(column))


def _codes(column: pa.Array) -> Codes:
    """Numbers in the order of the values, from 0; the same for equal values alone."""
    nulls = null_mask(column)
    if is_integer_like(column.type):
        integers = to_integers(column).astype(np.int64)
        if nulls is None:
            return integers.view(np.uint64) - np.uint64(int(integers.min()) % 2**64)
        known = integers[~nulls]
        low, high = (int(known.min()), int(known.max())) if known.size else (0, 0)
        if high - low < 2**63:
            codes = integers.view(np.uint64) - np.uint64(low % 2**64)
            codes[nulls] = high - low + 1
            return codes
    values = (
        sort_values(distinct_values(column)) if not is_integer_like(column.type) else distinct_values(column).sort()
    )
    if is_integer_like(column.type):
        column = arrow_array(to_integers(column).astype(np.int64), nulls)
    plain = column.cast(listing_type(column.type))
    return filled(pc.index_in(plain, value_set=values), len(values)).astype(np.uint64)
