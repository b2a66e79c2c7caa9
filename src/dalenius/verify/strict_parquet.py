"""The Parquet files of a release since format 4, page by page: nothing is in them but the rows, in their one spelling.

`parquet_file.walk` has shown that headers and footer are those that belong to the pages. What is left are the pages
themselves (docs/release-format.md, "Parquet"). Each is taken apart here by code of the judge's own:

- places in a dictionary: of the right width, in one run, within the dictionary, with zeros where there are no rows;
- dictionaries: ascending, so every value is there once, each used by a row, in bytes that the values give back;
- nulls, truth values and buckets: a bit a row, with zeros behind the last.

Whatever is otherwise is a ValueError. Columns come out as dictionaries whose values are in the order of the release, so
that the order of rows is that of small integers. What it takes is a group of rows at a time.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.parquet_file import Chunk, ColumnLayout, FileLayout, Page, index_width, run_header, walk
from dalenius.release.parquet_pages import STEPS, comparable, plain_values, steps_header, with_one_nan
from dalenius.release.parquet_types import BOOLEAN, is_variable
from dalenius.release.thrift import read_varint
from dalenius.release.two_tables import is_text
from dalenius.verify.row_order import as_arrow, falls

Bytes = npt.NDArray[np.uint8]

_MOST_FIRST = 32  # bytes before the steps of buckets
_WIDEST_STEP = 63  # bits


class StrictFile:
    """A file of a table, of which the manifest says the columns and the number of rows."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, bucket: str, rows: int) -> None:
        self._file, self._schema = file, schema
        self._groups = walk(file, FileLayout(schema, bucket), rows)
        self._last: dict[str, tuple[bytes, pa.Array]] = {}  # the dictionaries of the group before

    @property
    def group_rows(self) -> int:
        """The rows of the first group, and of every other but the last."""
        return self._groups[0][0].rows

    @property
    def is_one_group(self) -> bool:
        """Whether there is no other: groups of the table may be longer then."""
        return len(self._groups) == 1

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, group by group."""
        for group in self._groups:
            columns = [self._column(chunk) for chunk in group]
            yield pa.RecordBatch.from_arrays(columns, self._schema.names)

    def _column(self, chunk: Chunk) -> pa.Array:
        data = np.frombuffer(self._read(chunk.data), np.uint8)
        valid, data = _take_nulls(data, chunk.rows) if chunk.column.has_nulls else (None, data)
        present = chunk.rows if valid is None else int(valid.sum())
        if chunk.column.is_bucket:
            return _buckets(data, chunk.rows)
        if chunk.column.physical == BOOLEAN:
            return _booleans(data, present, valid)
        places = _places(data, present, chunk.entries)
        return pa.DictionaryArray.from_arrays(_spread(places, valid), self._dictionary(chunk), safe=False)

    def _dictionary(self, chunk: Chunk) -> pa.Array:
        """The values of a dictionary. Those of one group are often those of the group before."""
        content = self._read(chunk.dictionary) if chunk.dictionary is not None else b""
        last = self._last.pop(chunk.column.name, None)  # which makes room for the next one
        if last is None or last[0] != content or len(last[1]) != chunk.entries:
            last = None
            last = content, _entries(chunk.column, chunk.entries, content)
        self._last[chunk.column.name] = last
        return last[1]

    def _read(self, page: Page) -> bytes:
        self._file.seek(page.start)
        content = self._file.read(page.length)
        if len(content) != page.length:
            raise ValueError("it ends too soon")
        return content


def _take_nulls(data: Bytes, rows: int) -> tuple[npt.NDArray[np.bool_], Bytes]:
    """Which rows are not null, and what follows on that."""
    header = run_header(rows)
    length = len(header) + -(-rows // 8)
    if data[:4].tobytes() != length.to_bytes(4, "little") or data[4 : 4 + len(header)].tobytes() != header:
        raise ValueError("nulls are told in another way than those of a release")
    return _bits(data[4 + len(header) : 4 + length], rows).view(bool), data[4 + length :]


def _bits(data: Bytes, rows: int) -> Bytes:
    """A bit a row, and zeros behind them."""
    bits = np.unpackbits(data, bitorder="little")
    if len(bits) < rows or bits[rows:].any():
        raise ValueError("there is something behind the last row of a page")
    return bits[:rows]


def _buckets(data: Bytes, rows: int) -> pa.Array:
    """The first bucket and the steps to the next ones."""
    head, place = data[:_MOST_FIRST].tobytes(), 0
    for _ in range(4):  # of which the last is the first bucket
        first, place = read_varint(head, place)
    first = (first >> 1) ^ -(first & 1)
    width = head[place + 1] if rows > 1 and place + 1 < len(head) else 1  # behind the least step
    header = steps_header(rows, first, width)
    packed = data[len(header) :]
    length = -(-(rows - 1) // STEPS) * STEPS // 8 * width
    if data[: len(header)].tobytes() != header or len(packed) != length or not 1 <= width <= _WIDEST_STEP:
        raise ValueError("buckets are told in another way than those of a release")
    steps = _steps(packed, rows - 1, width)
    if width > 1 and int(steps.max()) >> (width - 1) == 0:
        raise ValueError("steps between buckets are told in more bits than they need")
    buckets = np.full(rows, first, np.int64)
    np.cumsum(steps, out=buckets[1:], dtype=np.int64)  # a sum that is too large comes out as a bucket that is smaller
    buckets[1:] += first
    return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(buckets)])


def _steps(packed: Bytes, number: int, width: int) -> npt.NDArray[Any]:
    """So many steps, and zeros behind them."""
    bits = _bits(packed, number * width)
    if width == 1:
        return bits
    steps = np.zeros(number, np.int64)
    for place, column in enumerate(bits.reshape(number, width).T):
        steps |= column.astype(np.int64) << place
    return steps


def _booleans(data: Bytes, present: int, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    if len(data) != -(-present // 8):
        raise ValueError("truth values are told in another way than those of a release")
    own = _bits(data, present)
    if valid is not None:
        own, known = np.zeros(len(valid), np.uint8), own
        own[valid] = known
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    bits = pa.py_buffer(np.packbits(own, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(own), [validity, bits])


def _places(data: Bytes, present: int, entries: int) -> npt.NDArray[Any]:
    """Places in a dictionary: all within it, and none of it unused."""
    width, header = index_width(entries), run_header(present)
    packed = data[1 + len(header) :]
    if data[: 1 + len(header)].tobytes() != bytes([width]) + header or len(packed) != -(-present // 8) * width:
        raise ValueError("places in a dictionary are told in another way than those of a release")
    places = unpack(packed, width)
    if places[present:].any():
        raise ValueError("there is something behind the last row of a page")
    places = places[:present]
    if present and int(places.max()) >= entries:
        raise ValueError("places in a dictionary lead out of it")
    used = np.zeros(entries, bool)
    used[places] = True
    if not used.all():
        raise ValueError(f"it spells out {int(np.count_nonzero(~used)):,} values that no row of theirs has")
    return places


def unpack(packed: Bytes, width: int) -> npt.NDArray[Any]:
    """Numbers of so many bits, the first one in the lowest."""
    if width == 1:
        return np.unpackbits(packed, bitorder="little")
    if width in (8, 16, 32):
        return packed.view(f"<u{width // 8}") if len(packed) else np.empty(0, np.uint8)
    together = 8 if width < 8 else 4 if width < 16 else 2
    octets = together * width // 8
    words = np.zeros((len(packed) // octets, 8), np.uint8)
    words[:, :octets] = packed.reshape(-1, octets)
    whole = words.view("<u8").ravel()
    kind: Any = np.uint8 if width < 8 else np.uint16 if width < 16 else np.uint32
    numbers = np.empty((len(whole), together), kind)
    for place in range(together):
        numbers[:, place] = (whole >> np.uint64(width * place)) & np.uint64(2**width - 1)
    return numbers.ravel()


def _spread(places: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Places as Arrow takes them, with nulls between them."""
    kind = np.dtype({1: np.int16, 2: np.int32, 4: np.int32}[places.itemsize])
    if valid is None:
        own, validity = places.astype(kind), None
    else:
        own, validity = np.zeros(len(valid), kind), pa.py_buffer(np.packbits(valid, bitorder="little"))
        own[valid] = places
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(own), [validity, pa.py_buffer(own)])


def _entries(column: ColumnLayout, count: int, content: bytes) -> pa.Array:
    """The values of a dictionary: ascending, and in the bytes that they would be written in."""
    again: bytes | memoryview
    if pa.types.is_null(column.data_type):
        values, again = pa.nulls(count), b""
    elif is_variable(column.data_type):
        values = _texts(column.data_type, count, content)
        again = plain_values(column, comparable(values))
    elif pa.types.is_decimal(column.data_type) or pa.types.is_fixed_size_binary(column.data_type):
        values = _wide_values(column, count, content)
        again = plain_values(column, comparable(values))
    else:
        values, again = _numbers(column, count, content)
    if again != content:
        raise ValueError(f"values of {column.name!r} are spelled in another way than those of a release")
    if not _ascends(comparable(values)):
        raise ValueError(f"the values of {column.name!r} are not in their order, or not each once")
    return values


def _ascends(values: pa.Array) -> bool:
    """Whether each value is more than the one before it."""
    if is_variable(values.type):  # which may be long: without a copy of them
        return pc.all(pc.less(values[:-1], values[1:])).as_py() is not False
    backwards = values.take(as_arrow(np.arange(len(values))[::-1]))
    return not len(values) or falls([backwards]) == len(values) - 1


def _numbers(column: ColumnLayout, count: int, content: bytes) -> tuple[pa.Array, bytes]:
    """Values of 64 bits at most, and how they should be written."""
    stored = np.frombuffer(content, f"<i{column.width}")
    own = stored.astype(f"i{column.data_type.bit_width // 8}")  # a narrow type is stored in a wider one
    if pa.types.is_floating(column.data_type):
        own, unsigned = with_one_nan(own), False
    else:
        unsigned = pa.types.is_unsigned_integer(column.data_type)
    values = pa.Array.from_buffers(column.data_type, count, [None, pa.py_buffer(own)])
    wide = own.view(f"u{own.itemsize}") if unsigned else own
    return values, wide.astype(np.int64).astype(stored.dtype).tobytes()


def _texts(data_type: pa.DataType, count: int, content: bytes) -> pa.Array:
    """Text or bytes, each with its length before it."""
    starts, place = [], 0
    for _ in range(count):
        starts.append(place + 4)
        place += 4 + int.from_bytes(content[place : place + 4], "little")
    if place != len(content):
        raise ValueError("a dictionary is not as long as its values")
    ends = np.append(np.asarray(starts[1:], np.int64) - 4, place)[:count]
    joined = b"".join(content[start:end] for start, end in zip(starts, ends.tolist(), strict=True))
    offsets = np.append(0, np.cumsum(ends - np.asarray(starts, np.int64)))
    kind = pa.large_string() if is_text(data_type) else pa.large_binary()
    values = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(joined)])
    values.validate(full=True)
    return values.cast(data_type)


def _wide_values(column: ColumnLayout, count: int, content: bytes) -> pa.Array:
    """Decimals, whose highest byte is the first, and bytes of one length."""
    data_type, raw = column.data_type, np.frombuffer(content, np.uint8).reshape(count, column.width)
    if not pa.types.is_decimal(data_type):
        return pa.Array.from_buffers(data_type, count, [None, pa.py_buffer(content)])
    wide = pa.types.is_decimal256(data_type)
    numbers = np.zeros((count, 32 if wide else 16), np.uint8)
    numbers[raw[:, 0] > 127] = 255  # the sign
    numbers[:, : column.width] = raw[:, ::-1]
    plain = (pa.decimal256 if wide else pa.decimal128)(data_type.precision, data_type.scale)
    values = pa.Array.from_buffers(plain, count, [None, pa.py_buffer(numbers)])
    values.validate(full=True)
    return values.cast(data_type)
