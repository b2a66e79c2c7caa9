"""The canonical order of rows, as docs/release-format.md states it, and Arrow's columns as numpy's arrays.

Numbers, dates and times are in their natural order (floating point in the total order: -0.0 before 0.0, NaN last),
false is before true, text and bytes are in the order of their bytes, categories in the order of their text, and nulls
come after everything else.

A column is compared by one or more arrays of integers, most significant first, which are in order where the column
is. Later columns matter only among rows that are equal so far.

The arrays are over the same memory as the columns. The judge has its own code for this, beside the author's in
`tables.arrays`: a bug there must not hide a wrong release. pyarrow's own `to_numpy`, `fill_null` and `array` load
pandas where it is installed, which takes longer than verifying ten million rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.two_tables import is_text

Bits = npt.NDArray[np.bool_]
AnyIntegers = npt.NDArray[np.integer[Any]]

_INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}  # as bits, by the width in bytes
_MUCH = 2**26  # bytes of text
_FEW = 16  # text is compared by rank where there are so many rows to a different text


class OrderOfRows:
    """Counts the rows that come before the row above them, batch by batch.

    `ranked` says that the dictionaries of columns are in the order of their values, each value once.
    """

    def __init__(self, ranked: bool = False) -> None:
        self.falls = 0
        self._ranked = ranked
        self._last: list[pa.Array] | None = None

    def add(self, columns: Sequence[pa.Array]) -> None:
        """The next batch, its columns in the order in which they are compared."""
        if len(columns[0]) == 0:
            return
        if self._last is not None:
            pairs = zip(self._last, columns, strict=True)
            self.falls += falls([pa.concat_arrays([last, _row(column, 0)]) for last, column in pairs])
        self.falls += falls(columns, self._ranked)
        self._last = [_row(column, len(column) - 1) for column in columns]


def falls(columns: Iterable[pa.Array], ranked: bool = False) -> int:
    """How many rows come before the row above them; `ranked` as above. No more columns are asked for than needed."""
    count = 0
    equal: Bits | None = None
    for column in columns:
        equal = np.ones(max(0, len(column) - 1), dtype=bool) if equal is None else equal
        if not equal.any():
            break
        for less, same in _steps(column, equal, ranked):
            count += int(np.count_nonzero(less))
            equal = same
    return count


def _row(column: pa.Array, place: int) -> pa.Array:
    """One row of a column, without the dictionary of the batch that it comes from."""
    row = column.slice(place, 1)
    return row.dictionary_decode() if pa.types.is_dictionary(column.type) else row


def _steps(column: pa.Array, equal: Bits, ranked: bool) -> Iterator[tuple[Bits, Bits]]:
    """For each row but the first, among those equal so far: is it less than the row above, is it equal to it."""
    column = simple(column) if not ranked else column
    if ranked and pa.types.is_dictionary(column.type):
        keys = iter([integers(column.indices, len(column.dictionary))])
    elif pa.types.is_dictionary(column.type) or is_bytes(column.type):
        if pa.types.is_dictionary(column.type) and _has_few_texts(column):
            keys = iter([_ranks(column)])
        else:
            yield _compare_texts(column, equal)
            return
    else:
        keys = order_keys(column)
    for key in keys:
        above, below = key[:-1], key[1:]
        less = below < above
        less &= equal
        same = below == above
        same &= equal
        equal = same
        yield less, same


def simple(column: pa.Array) -> pa.Array:
    """The column in a layout that can be compared: categories that are not text count as what they stand for."""
    data_type = column.type
    if pa.types.is_dictionary(data_type) and not is_bytes(data_type.value_type):
        column = column.dictionary_decode()
    elif pa.types.is_string_view(data_type):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(data_type):
        column = column.cast(pa.large_binary())
    return column


def is_bytes(data_type: pa.DataType) -> bool:
    """Whether values are compared byte by byte."""
    binary = (
        pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_fixed_size_binary(data_type)
    )
    return bool(is_text(data_type) or binary)


def _has_few_texts(column: pa.DictionaryArray) -> bool:
    """Whether ranks are the better way: for rows that share texts, or whose texts would take too much spelled out."""
    if len(column.dictionary) * _FEW <= len(column):
        return True
    return (pc.max(pc.binary_length(column.dictionary)).as_py() or 0) * len(column) > _MUCH


def _ranks(column: pa.DictionaryArray) -> AnyIntegers:
    """The place of each row's text among the texts of the batch; equal texts have equal places, nulls the last."""
    last = len(column.dictionary)
    ranks = np.append(integers(pc.rank(column.dictionary, tiebreaker="dense")), last + 1).astype(np.uint32)
    ranks[:last][nulls(column.dictionary)] = last + 1
    return ranks[integers(column.indices, last)]


def _compare_texts(column: pa.Array, equal: Bits) -> tuple[Bits, Bits]:
    """Text of many kinds: each row with the one above, where the columns before are equal."""
    rows = np.flatnonzero(equal)
    above, below = column.take(as_arrow(rows)), column.take(as_arrow(rows + 1))
    if pa.types.is_dictionary(column.type):
        above, below = above.dictionary_decode(), below.dictionary_decode()
    above_null, below_null = nulls(above), nulls(below)
    less, same = np.zeros_like(equal), np.zeros_like(equal)
    less[rows] = bits(pc.less(below, above)) | (above_null & ~below_null)
    same[rows] = bits(pc.equal(below, above)) | (above_null & below_null)
    return less, same


def order_keys(column: pa.Array) -> Iterator[AnyIntegers]:
    """Fixed-width values as integers, most significant first; before them, whether they are null."""
    data_type = column.type
    if pa.types.is_null(data_type):
        return
    if column.null_count:
        yield nulls(column).view(np.uint8)
    if pa.types.is_boolean(data_type):
        yield bits(column).view(np.uint8)
    elif pa.types.is_integer(data_type):
        yield integers(column)
    elif data_type.bit_width > 64:
        yield from _words(column)
    else:
        width = data_type.bit_width // 8
        viewed = column.view({1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[width])
        yield _total_order(viewed) if pa.types.is_floating(data_type) else integers(viewed)


def _words(column: pa.Array) -> Iterator[AnyIntegers]:
    """Wide decimals: the most significant word with its sign, the others without."""
    *lower, highest = words(column).T
    yield np.ascontiguousarray(highest).view(np.int64)
    yield from reversed(lower)


def _total_order(column: pa.Array) -> AnyIntegers:
    """Floating-point bits as integers in the same order: -0.0 below 0.0, and every NaN above everything."""
    pattern = integers(column).astype(f"i{column.type.bit_width // 8}")
    largest = np.iinfo(pattern.dtype).max
    magnitude = pattern & largest
    ordered = np.where(pattern < 0, -1 - magnitude, magnitude)
    ordered[magnitude > _INFINITY[pattern.dtype.itemsize]] = largest
    return ordered


def integers(column: pa.Array, filler: int = 0) -> AnyIntegers:
    """A column of integers; without copying if it has no nulls, else with the filler in their places."""
    data_type = column.type
    dtype = np.dtype(f"{'i' if pa.types.is_signed_integer(data_type) else 'u'}{data_type.bit_width // 8}")
    if not len(column):
        return np.empty(0, dtype)
    place = column.offset * dtype.itemsize
    values: AnyIntegers = np.frombuffer(column.buffers()[1], dtype, len(column), place)
    if not column.null_count:
        return values
    # a filler may be more than the type holds, but not for 64 bits, which must not become floating point
    filled = values.copy() if dtype.itemsize == 8 else values.astype(np.int64)
    filled[nulls(column)] = filler
    return filled


def words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A column of wide decimals, each in words of 64 bits, the least significant first; nulls are zeros."""
    width = column.type.bit_width // 64
    if not len(column):
        return np.empty((0, width), np.uint64)
    place = column.offset * width * 8
    numbers = np.frombuffer(column.buffers()[1], np.uint64, len(column) * width, place).reshape(-1, width)
    return np.where(nulls(column)[:, None], np.uint64(0), numbers) if column.null_count else numbers


def bits(column: pa.Array) -> Bits:
    """A column of truth values; nulls are false."""
    if not len(column):
        return np.empty(0, bool)
    values = _unpack(column.buffers()[1], column)
    return values & ~nulls(column) if column.null_count else values


def nulls(column: pa.Array) -> Bits:
    """Where a column is null."""
    if pa.types.is_null(column.type):
        return np.ones(len(column), bool)
    if not column.null_count:
        return np.zeros(len(column), bool)
    return ~_unpack(column.buffers()[0], column)


def as_arrow(array: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Places of rows, for Arrow to take."""
    places = np.ascontiguousarray(array, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])


def as_text(texts: Sequence[str]) -> pa.Array:
    """Texts, for Arrow to cast."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def _unpack(bitmap: pa.Buffer, column: pa.Array) -> Bits:
    first, last = column.offset // 8, (column.offset + len(column) + 7) // 8
    packed = np.frombuffer(bitmap, np.uint8, last - first, first)
    start = column.offset - first * 8
    return np.unpackbits(packed, bitorder="little")[start : start + len(column)].view(bool)
