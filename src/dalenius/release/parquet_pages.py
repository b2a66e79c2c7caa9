"""Writing a Parquet file in the one way that a release has (`parquet_file`): the values of a column as pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.parquet_file import (
    MAGIC,
    Chunk,
    ColumnLayout,
    FileLayout,
    Group,
    Page,
    data_header,
    dictionary_header,
    index_width,
    run_header,
)
from dalenius.release.parquet_types import BYTES, FIXED, is_variable
from dalenius.release.thrift import varint, whole

Bits = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer[Any]]

STEPS = 128  # steps between buckets come in blocks of a multiple of this
_NARROW = 2**16
_NOTHING = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])[0]
_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}  # the one NaN there is, as bits, by the width in bytes
_INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


class Sink(Protocol):
    """What a file is written to, from its start to its end."""

    def write(self, content: bytes | memoryview, /) -> int | None:
        """The next bytes."""


class FileWriter:
    """Writes a file group by group, from its first byte to its last."""

    def __init__(self, file: Sink, schema: pa.Schema, bucket: str) -> None:
        self._file, self._layout = file, FileLayout(schema, bucket)
        self._groups: list[Group] = []
        self._position = 0
        self._put(MAGIC)

    def write_group(self, columns: Sequence[pa.Array]) -> None:
        """The next rows. All groups have equally many, but for the last, which may have fewer.

        Columns may come in a narrower type than is published, and text as a dictionary.
        """
        self._groups.append([self._write_chunk(*column) for column in zip(self._layout.columns, columns, strict=True)])

    def finish(self) -> None:
        """The footer."""
        self._put(self._layout.footer(self._groups))

    def _write_chunk(self, column: ColumnLayout, values: pa.Array) -> Chunk:
        stated = values if pa.types.is_dictionary(values.type) else values.cast(column.data_type)
        entries, dictionary, data = encode(column, stated)
        listed = None
        if dictionary is not None:
            listed = self._write_page(dictionary_header(entries, len(dictionary)), dictionary)
        page = self._write_page(data_header(column, len(values), len(data)), data)
        return Chunk(column, len(values), entries, listed, page)

    def _write_page(self, header: bytes, body: bytes | memoryview) -> Page:
        self._put(header)
        page = Page(self._position, len(body))
        self._put(body)
        return page

    def _put(self, content: bytes | memoryview) -> None:
        self._file.write(content)
        self._position += len(content)


def encode(column: ColumnLayout, values: pa.Array) -> tuple[int, bytes | memoryview | None, bytes]:
    """The number of entries of the dictionary, the dictionary if there is one, and the data page."""
    if values.null_count and not column.has_nulls:
        raise ValueError("a column without nulls has one")
    values = values if pa.types.is_dictionary(values.type) else comparable(values)
    before = nulls_page(values) if column.has_nulls else b""
    present = values.drop_null() if values.null_count else values
    if column.is_bucket:
        return 0, None, before + steps_page(_numbers(present))
    if not column.has_dictionary:
        return 0, None, before + np.packbits(_numbers(present.cast(pa.uint8())), bitorder="little").tobytes()
    entries: tuple[int, bytes | memoryview]
    if column.physical not in (BYTES, FIXED) or pa.types.is_float16(column.data_type):
        entries, places = _listed_numbers(column, present)
    else:
        entries, places = _listed_values(column, present)
    return entries[0], entries[1], before + places_page(places, entries[0])


def nulls_page(values: pa.Array) -> bytes:
    """A bit a row, which is 0 for a null, with their length before them."""
    present = _numbers(values.is_valid().cast(pa.uint8()))
    packed = run_header(len(values)) + np.packbits(present, bitorder="little").tobytes()
    return len(packed).to_bytes(4, "little") + packed


def places_page(places: Places, entries: int) -> bytes:
    """Places in a dictionary, in a single run."""
    width = index_width(entries)
    return bytes([width]) + run_header(len(places)) + pack(places, width)


def pack(places: Places, width: int) -> bytes:
    """Numbers of so many bits, eight at a time, the first one in the lowest bits."""
    padded = _padded(places, 8)
    if width == 1:
        return np.packbits(padded.astype(np.uint8), bitorder="little").tobytes()
    if width in (8, 16, 32):
        return padded.astype(f"<u{width // 8}").tobytes()
    together = 8 if width < 8 else 4 if width < 16 else 2  # which fill whole bytes
    numbers = padded.reshape(-1, together)
    words = numbers[:, 0].astype("<u8")
    for place in range(1, together):
        words |= numbers[:, place].astype("<u8") << np.uint64(width * place)
    return np.ascontiguousarray(words.view(np.uint8).reshape(-1, 8)[:, : together * width // 8]).tobytes()


def steps_page(buckets: npt.NDArray[np.int64]) -> bytes:
    """The first bucket, and for each row but the first how much further its own is, in one block.

    That is 0 or 1, a bit each, unless buckets without rows are passed over.
    """
    steps = np.diff(buckets)
    if len(steps) and int(steps.min()) < 0:
        raise ValueError("buckets are not in ascending order")
    width = steps_width(steps)
    bits = _padded(steps, STEPS)
    if width > 1:
        bits = (bits[:, np.newaxis] >> np.arange(width)) & 1
    packed = np.packbits(bits.astype(np.uint8).ravel(), bitorder="little")
    return steps_header(len(buckets), int(buckets[0]), width) + packed.tobytes()


def steps_width(steps: npt.NDArray[np.int64]) -> int:
    """The bits of the largest step."""
    return max(1, int(steps.max(initial=0)).bit_length())


def steps_header(rows: int, first: int, width: int = 1) -> bytes:
    """What comes before the bits: the block's length, its one part, and of its steps the least and the bits of each."""
    block = max(1, -(-(rows - 1) // STEPS)) * STEPS
    steps = whole(0) + bytes([width]) if rows > 1 else b""
    return varint(block) + varint(1) + varint(rows) + whole(first) + steps


def _padded(numbers: Places, multiple: int) -> Places:
    """With zeros behind."""
    lacking = -len(numbers) % multiple
    return np.append(numbers, np.zeros(lacking, numbers.dtype)) if lacking else numbers


def _listed_numbers(column: ColumnLayout, values: pa.Array) -> tuple[tuple[int, bytes], Places]:
    """Values of fixed width, of 64 bits at most: the different ones in order, and for each row its place among them."""
    if pa.types.is_null(column.data_type):
        return (0, b""), np.empty(0, np.uint8)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    numbers = _ordered_numbers(values)
    if not len(numbers):
        return (0, b""), np.empty(0, np.uint8)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _NARROW:
        bits = 8 * numbers.itemsize
        offsets = numbers.view(f"u{numbers.itemsize}") - np.asarray(low % 2**bits, f"u{numbers.itemsize}")
        offsets = offsets.astype(np.min_scalar_type(high - low))
        there = np.zeros(high - low + 1, np.uint32)
        there[offsets] = 1
        distinct = np.flatnonzero(there).astype(numbers.dtype) + numbers.dtype.type(low)
        places: Places = (np.cumsum(there, dtype=np.uint32) - 1).astype(np.uint16).take(offsets)
    else:
        distinct, places = _sorted_numbers(numbers, low, high)
    return (len(distinct), _plain_numbers(column, distinct)), places


def _sorted_numbers(numbers: npt.NDArray[Any], low: int, high: int) -> tuple[npt.NDArray[Any], Places]:
    """The different numbers in order, and the place of each: sorted by 16 bits at a time, which is NumPy's fastest."""
    offsets = (numbers.astype(np.int64).view(np.uint64) - np.uint64(low % 2**64)).astype(np.min_scalar_type(high - low))
    order = np.argsort(offsets.astype(np.uint16), kind="stable")
    for shift in range(16, (high - low).bit_length(), 16):
        digits = (offsets >> offsets.dtype.type(shift)).astype(np.uint16)
        order = order.take(np.argsort(digits.take(order), kind="stable"))
    offsets = offsets.take(order)
    new = np.append(True, offsets[1:] != offsets[:-1])
    places = np.empty(len(numbers), np.uint32)
    places[order] = np.cumsum(new, dtype=np.uint32) - np.uint32(1)
    return (offsets[new].astype(np.uint64) + np.uint64(low % 2**64)).view(np.int64).astype(numbers.dtype), places


def _ordered_numbers(values: pa.Array) -> npt.NDArray[Any]:
    """Values as integers that are in the same order."""
    width = values.type.bit_width // 8
    unsigned = pa.types.is_unsigned_integer(values.type)
    raw = np.frombuffer(values.buffers()[1], f"{'u' if unsigned else 'i'}{width}") if len(values) else np.empty(0, "i8")
    numbers = raw[values.offset : values.offset + len(values)]
    return in_total_order(numbers) if pa.types.is_floating(values.type) else numbers


def in_total_order(patterns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits of floating point as integers in the same order: -0.0 below 0.0, and NaN, of which there is one, last."""
    patterns = with_one_nan(patterns)
    magnitude = patterns & np.iinfo(patterns.dtype).max
    return np.where(patterns < 0, -1 - magnitude, magnitude)


def with_one_nan(patterns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits of floating point, those of every NaN being the same."""
    width = patterns.dtype.itemsize
    is_nan = (patterns & np.iinfo(patterns.dtype).max) > _INFINITY[width]
    return np.where(is_nan, patterns.dtype.type(_NAN[width]), patterns)


def _plain_numbers(column: ColumnLayout, distinct: npt.NDArray[Any]) -> bytes:
    """As Parquet has numbers: in 4 or 8 bytes, or 2 for the shortest floating point."""
    if pa.types.is_floating(column.data_type):
        return np.where(distinct < 0, (-1 - distinct) | np.iinfo(distinct.dtype).min, distinct).tobytes()
    return distinct.astype(np.int64).astype(f"<i{column.width}").tobytes()


def _listed_values(column: ColumnLayout, values: pa.Array) -> tuple[tuple[int, bytes | memoryview], Places]:
    """Text, bytes and decimals: the same."""
    listed, places = _in_order(values if pa.types.is_dictionary(values.type) else values.dictionary_encode())
    return (len(listed), plain_values(column, listed)), places


def _in_order(coded: pa.Array) -> tuple[pa.Array, Places]:
    """The values that occur, ascending, and for each row the place of its value."""
    entries, indices = comparable(coded.dictionary), _numbers(coded.indices)
    used = np.zeros(len(entries), bool)
    used[indices] = True
    order = _numbers(pc.array_sort_indices(entries)).astype(np.int64)
    order = order[used[order]]
    ranks = np.zeros(len(entries), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    return entries.take(_arrow(order)), ranks.take(indices)


def comparable(values: pa.Array) -> pa.Array:
    """The values in a layout that Arrow can sort and join."""
    data_type = values.type
    if pa.types.is_decimal32(data_type) or pa.types.is_decimal64(data_type):
        return values.cast(pa.decimal128(data_type.precision, data_type.scale))
    if is_variable(data_type):
        return values.cast(pa.large_binary())
    return values


def plain_values(column: ColumnLayout, values: pa.Array) -> bytes | memoryview:
    """Text and bytes with their lengths before them; decimals with the highest byte first."""
    if not len(values):
        return b""
    if column.width:
        width = values.type.bit_width // 8
        start = values.offset * width
        raw = np.frombuffer(values.buffers()[1], np.uint8)[start : start + len(values) * width].reshape(-1, width)
        return (raw[:, ::-1][:, -column.width :] if pa.types.is_decimal(values.type) else raw).tobytes()
    lengths = pc.binary_length(values).cast(pa.int32())
    prefixes = pa.Array.from_buffers(pa.binary(4), len(values), [None, lengths.buffers()[1]], offset=lengths.offset)
    joined = pc.binary_join_element_wise(prefixes.cast(pa.large_binary()), values, _NOTHING)
    ends = np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2]).cast("B")[int(ends[0]) : int(ends[-1])]


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Integers without nulls, over the same memory."""
    kind = f"{'u' if pa.types.is_unsigned_integer(array.type) else 'i'}{array.type.bit_width // 8}"
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def _arrow(places: npt.NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(np.ascontiguousarray(places))])
