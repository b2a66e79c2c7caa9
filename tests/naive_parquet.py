"""A second writer of the Parquet files of format 4, in plain loops: the oracle of the program's encoder.

It goes by docs/release-format.md. It knows columns by the text of their Arrow types, and cells as Python has them: days
and times may also be the whole numbers that Arrow has for them, and floating point its bits, as `Bits`.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import math
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)
BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTES, FIXED = 0, 1, 2, 4, 5, 6, 7
PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
THE_NAN = {"halffloat": 0x7E00, "float": 0x7FC00000, "double": 0x7FF8000000000000}
FLOATS = {"halffloat": (2, "e"), "float": (4, "f"), "double": (8, "d")}
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


@dataclass(frozen=True)
class Bits:
    """A cell of floating point by its bits: NaNs have several."""

    pattern: int


Page = tuple[int, int, bytes]  # its kind, the number of its values, and its content


@dataclass(frozen=True)
class Edit:
    """What to write otherwise, for files that are wrong on purpose. All lengths and places still fit.

    `structure` gets the name of a structure ("page", "of page", "chunk", "column", "group", "element", "entry", "file")
    and its fields. `pages` gets a column, its cells and whether it may have nulls, and the pages it would have.
    """

    structure: Callable[[str, dict[int, Any]], dict[int, Any]] = lambda _, fields: fields
    pages: Callable[[str, pa.DataType, Sequence[Any], bool, list[Page]], list[Page]] = lambda *args: args[-1]


@dataclass(frozen=True)
class Raw:
    """Bytes in the place of a value."""

    content: bytes


AS_IT_IS = Edit()
LONG = 100  # added to the type of a field whose header is to be of the long form


# Thrift's compact protocol: structures are written as dicts of (type, value) by the numbers of their fields.


def varint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    return bytes([number % 128 + 128]) + varint(number // 128)


def zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


TRUE, FALSE, BYTE, SMALL, LARGE, TEXT, LIST, STRUCT = 1, 2, 3, 5, 6, 8, 9, 12


def thrift(kind: int, value: Any) -> bytes:
    if isinstance(value, Raw):
        return value.content
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value])
    if kind in (SMALL, LARGE):
        return zigzag(value)
    if kind == TEXT:
        return varint(len(value)) + bytes(value)
    if kind == LIST:
        of, values = value
        head = bytes([len(values) * 16 + of]) if len(values) < 15 else bytes([0xF0 + of]) + varint(len(values))
        return head + b"".join(thrift(of, each) for each in values)
    written, before = b"", 0
    for number in sorted(value):
        of, content = value[number]
        if of >= LONG or number - before > 15:
            of %= LONG
            written += bytes([of]) + zigzag(number) + thrift(of, content)
        else:
            written += bytes([(number - before) * 16 + of]) + thrift(of, content)
        before = number
    return written + b"\0"


# Types, by their names.


def stored(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if str(kind).startswith("dictionary<") else kind


def physical(kind: pa.DataType) -> int:
    name = str(kind)
    if name == "bool":
        return BOOLEAN
    if name.startswith(("decimal", "fixed_size_binary")) or name == "halffloat":
        return FIXED
    if name in ("float", "double"):
        return FLOAT if name == "float" else DOUBLE
    if name in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        return BYTES
    if name in ("int64", "uint64") or name.startswith(("timestamp", "duration", "time64")):
        return INT64
    assert name in ("null", "date32[day]", "time32[ms]") or name.lstrip("u") in ("int8", "int16", "int32"), name
    return INT32


def width(kind: pa.DataType) -> int:
    """The bytes of a value, if all are equally long."""
    name, of = str(kind), physical(kind)
    if name.startswith("decimal"):
        octets = 1
        while 2 ** (8 * octets - 1) < 10**kind.precision:
            octets += 1
        return octets
    if of == FIXED:
        return 2 if name == "halffloat" else int(name[name.index("[") + 1 : -1])
    return {INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8}.get(of, 0)


def described(name: str, kind: pa.DataType, optional: bool) -> dict[int, Any]:
    """A column in the schema of the file."""
    text = str(kind)
    element: dict[int, Any] = {
        1: (SMALL, physical(kind)),
        3: (SMALL, 1 if optional else 0),
        4: (TEXT, name.encode()),
    }
    if physical(kind) == FIXED:
        element[2] = (SMALL, width(kind))
    if text in ("string", "large_string", "string_view"):
        element[6], element[10] = (SMALL, 0), (STRUCT, {1: (STRUCT, {})})
    elif text.startswith("decimal"):
        scale, precision = (SMALL, kind.scale), (SMALL, kind.precision)
        element |= {6: (SMALL, 5), 7: scale, 8: precision, 10: (STRUCT, {5: (STRUCT, {1: scale, 2: precision})})}
    elif text == "date32[day]":
        element |= {6: (SMALL, 6), 10: (STRUCT, {6: (STRUCT, {})})}
    elif text.startswith(("time32", "time64", "timestamp")):
        unit = {"ms": 1, "us": 2, "ns": 3}[kind.unit]
        universal = text.startswith("timestamp") and kind.tz is not None
        of_time: dict[int, Any] = {1: (TRUE if universal else FALSE, None), 2: (STRUCT, {unit: (STRUCT, {})})}
        element[10] = (STRUCT, {8 if text.startswith("timestamp") else 7: (STRUCT, of_time)})
        if universal and unit < 3:
            element[6] = (SMALL, {1: 9, 2: 10}[unit])
    elif text in ("int8", "int16", "uint8", "uint16", "uint32", "uint64"):
        bits, signed = int(text.lstrip("uint")), not text.startswith("u")
        first = 15 if signed else 11
        element[6] = (SMALL, first + [8, 16, 32, 64].index(bits))
        element[10] = (STRUCT, {10: (STRUCT, {1: (BYTE, bits), 2: (TRUE if signed else FALSE, None)})})
    elif text == "null":
        element[10] = (STRUCT, {11: (STRUCT, {})})
    elif text == "halffloat":
        element[10] = (STRUCT, {15: (STRUCT, {})})
    return element


# Cells: what they are sorted by, and their bytes.


def number_of(kind: pa.DataType, cell: Any) -> int:
    """Whole numbers, days and times as Arrow counts them."""
    if isinstance(cell, int):
        return int(cell)
    if isinstance(cell, datetime.datetime):
        if cell.tzinfo is not None:
            cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
        cell = cell - EPOCH
    if isinstance(cell, datetime.date):
        return (cell - EPOCH.date()).days
    if isinstance(cell, datetime.time):
        cell = datetime.datetime.combine(EPOCH, cell) - EPOCH
    assert isinstance(cell, datetime.timedelta)
    micros = (cell.days * 86_400 + cell.seconds) * 10**6 + cell.microseconds
    return micros * UNITS[kind.unit] // 10**6


def bits_of(kind: pa.DataType, cell: float | Bits) -> int:
    octets, code = FLOATS[str(kind)]
    if isinstance(cell, Bits):
        pattern = cell.pattern
    elif math.isnan(cell):
        return THE_NAN[str(kind)]
    else:
        pattern = int.from_bytes(struct.pack(f"<{code}", cell), "little")
    (value,) = struct.unpack(f"<{code}", pattern.to_bytes(octets, "little"))
    return THE_NAN[str(kind)] if math.isnan(value) else pattern


def encoded(kind: pa.DataType, cell: Any) -> tuple[Any, bytes]:
    """What a cell is sorted by, and its bytes in a dictionary."""
    name, octets = str(kind), width(kind)
    if name in FLOATS:
        pattern = bits_of(kind, cell)
        sign = 1 << (8 * octets - 1)
        return (pattern if pattern < sign else sign - 1 - pattern), pattern.to_bytes(octets, "little")
    if name.startswith("decimal"):
        digits = int(Fraction(cell) * 10**kind.scale)
        return digits, digits.to_bytes(octets, "big", signed=True)
    if physical(kind) == BYTES:
        raw = cell.encode() if isinstance(cell, str) else bytes(cell)
        return raw, len(raw).to_bytes(4, "little") + raw
    if physical(kind) == FIXED:
        return bytes(cell), bytes(cell)
    number = number_of(kind, cell)
    return number, (number % 2 ** (8 * octets)).to_bytes(octets, "little")


# Pages.


def packed(numbers: Sequence[int], bits: int, multiple: int = 8) -> bytes:
    """So many bits for each, the first in the lowest ones, filled up with zeros to a multiple of so many numbers."""
    filled = [*numbers, *([0] * (-len(numbers) % multiple))]
    written = b""
    for first in range(0, len(filled), 8):
        together = sum(number << (place * bits) for place, number in enumerate(filled[first : first + 8]))
        written += together.to_bytes(bits, "little")
    return written


def run(numbers: Sequence[int], bits: int) -> bytes:
    """A single run: how many groups of eight, and the numbers."""
    return varint(-(-len(numbers) // 8) * 2 + 1) + packed(numbers, bits)


def index_width(entries: int) -> int:
    return next(bits for bits in WIDTHS if 2**bits >= entries)


def pages(kind: pa.DataType, cells: Sequence[Any], optional: bool, bucket: bool) -> list[Page]:
    """Of a column: the kind of each page, the number of its values, and its content."""
    there = [cell for cell in cells if cell is not None]
    assert optional or len(there) == len(cells), "a null where there are none"
    before = b""
    if optional:
        levels = run([int(cell is not None) for cell in cells], 1)
        before = len(levels).to_bytes(4, "little") + levels
    if bucket:
        return [(0, len(cells), before + steps(there))]
    if physical(kind) == BOOLEAN:
        return [(0, len(cells), before + packed([int(cell) for cell in there], 1))]
    coded = [encoded(kind, cell) for cell in there]
    entries = sorted(set(coded))
    place_of = {entry: place for place, entry in enumerate(entries)}
    bits = index_width(len(entries))
    places = bytes([bits]) + run([place_of[each] for each in coded], bits)
    return [(2, len(entries), b"".join(raw for _, raw in entries)), (0, len(cells), before + places)]


class BucketsError(ValueError):
    """A file of format 4 cannot say these buckets."""


def steps(buckets: Sequence[int]) -> bytes:
    """Buckets as steps, in as many bits as the largest takes."""
    between = [later - earlier for earlier, later in itertools.pairwise(buckets)]
    if min(between, default=0) < 0 or max(between, default=0) >= 2**63:
        raise BucketsError
    bits = max(1, max(between, default=0).bit_length())
    content = packed(between, bits, 128)
    head = varint(max(128, len(content) * 8 // bits)) + varint(1) + varint(len(buckets)) + zigzag(buckets[0])
    return head + (zigzag(0) + bytes([bits]) + content if between else b"")


# Files.


def parquet(
    types: Mapping[str, pa.DataType],
    rows: Sequence[Sequence[Any]],
    *,
    bucket: str = "bucket",
    group: int = 2**17,
    nulls: Collection[str] | None = None,
    edit: Edit = AS_IT_IS,
) -> bytes:
    """A whole file. `nulls` are the columns with nulls, of the whole table; without them, those of these rows."""
    names = list(types)
    if nulls is None:
        nulls = [name for place, name in enumerate(names) if any(row[place] is None for row in rows)]
    content = b"PAR1"
    groups = []
    for first in range(0, len(rows), group):
        mine = rows[first : first + group]
        start, chunks = len(content), []
        for place, name in enumerate(names):
            cells = [row[place] for row in mine]
            written, chunk = column_chunk(
                len(content), name, stored(types[name]), cells, name in nulls, name == bucket, edit
            )
            content += written
            chunks.append(chunk)
        of_group: dict[int, Any] = {
            1: (LIST, (STRUCT, chunks)),
            2: (LARGE, len(content) - start),
            3: (LARGE, len(mine)),
        }
        groups.append(edit.structure("group", of_group))
    schema = pa.schema([pa.field(name, kind, name in nulls) for name, kind in types.items()])
    entry: dict[int, Any] = {1: (TEXT, b"ARROW:schema"), 2: (TEXT, base64.b64encode(schema.serialize().to_pybytes()))}
    elements = [edit.structure("element", described(name, stored(kind), name in nulls)) for name, kind in types.items()]
    root: dict[int, Any] = {4: (TEXT, b"schema"), 5: (SMALL, len(names))}
    file = {
        1: (SMALL, 2),
        2: (LIST, (STRUCT, [edit.structure("root", root), *elements])),
        3: (LARGE, len(rows)),
        4: (LIST, (STRUCT, groups)),
        5: (LIST, (STRUCT, [edit.structure("entry", entry)])),
        6: (TEXT, b"dalenius version 4 (build release)"),
    }
    footer = thrift(STRUCT, edit.structure("file", file))
    return content + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def column_chunk(
    start: int, name: str, kind: pa.DataType, cells: Sequence[Any], optional: bool, bucket: bool, edit: Edit
) -> tuple[bytes, dict[int, Any]]:
    """The pages of a column with their headers, and what the footer says of them."""
    content = b""
    places: dict[int, int] = {}  # of the pages, by their kind
    encoding = DELTA if bucket else PLAIN if physical(kind) == BOOLEAN else DICTIONARY
    for page, number, body in edit.pages(name, kind, cells, optional, pages(kind, cells, optional, bucket)):
        places.setdefault(page, start + len(content))
        size = (SMALL, len(body))
        fields = (number, PLAIN) if page == 2 else (number, encoding, RLE, RLE)
        of_page = edit.structure("of page", {place: (SMALL, value) for place, value in enumerate(fields, 1)})
        header: dict[int, Any] = {1: (SMALL, page), 2: size, 3: size, {0: 5, 1: 6, 2: 7}[page]: (STRUCT, of_page)}
        content += thrift(STRUCT, edit.structure("page", header)) + body
    encodings = [PLAIN, RLE, DICTIONARY] if encoding == DICTIONARY else [encoding, RLE]
    chunk: dict[int, Any] = {
        1: (SMALL, physical(kind)),
        2: (LIST, (SMALL, encodings)),
        3: (LIST, (TEXT, [name.encode()])),
        4: (SMALL, 0),
        5: (LARGE, len(cells)),
        6: (LARGE, len(content)),
        7: (LARGE, len(content)),
        9: (LARGE, places[0]),
    }
    if 2 in places:
        chunk[11] = (LARGE, places[2])
    return content, edit.structure("chunk", {2: (LARGE, 0), 3: (STRUCT, edit.structure("column", chunk))})
