"""The one spelling of a Parquet file in a release: whoever has the rows can write every byte of it.

Parquet leaves much to the writer: encodings, runs, pages, compression, statistics, fields that nobody reads. Each of
these choices could carry something that is not in the table. Here none is left (docs/release-format.md, "Parquet"):

- The rows are in groups of one size. A column of a group is a dictionary page and a data page, or a data page alone.
- Dictionaries have the values of the group once, in the order of the release. A row has the place of its value, in as
  many bits as the dictionary asks for (`index_width`), in a single run. Truth values are bits. Buckets are the steps
  from row to row, a bit each unless some are passed over. Nulls are bits before that, in columns that have any.
- Nothing is compressed. There are no statistics, no indexes, no optional fields.

So a row takes a bit in each column at least, and a small file cannot hold many rows. `FileLayout` writes headers and
the footer. It is the writer's and the judge's: the judge writes them again and compares (`walk`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import pyarrow as pa

from dalenius.release.parquet_types import BOOLEAN, physical_type, schema_element, stored_type, value_bytes
from dalenius.release.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    items,
    read_at,
    read_varint,
    struct,
    text,
    varint,
    whole,
    whole_fields,
)

MAGIC = b"PAR1"
CREATED_BY = b"dalenius version 4 (build release)"
MOST_GROUP_ROWS = 2**17

_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)  # some of which fill whole bytes
_LONGEST_HEADER = 64  # bytes
_PLAIN, _RLE, _DELTA, _DICTIONARY = 0, 3, 5, 8  # encodings
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2


def index_width(entries: int) -> int:
    """The bits of a place in a dictionary."""
    needed = (max(entries, 2) - 1).bit_length()
    return next(width for width in _WIDTHS if width >= needed)


def run_header(values: int) -> bytes:
    """What comes before a single run of packed values, which are in groups of eight."""
    return varint((-(-values // 8) << 1) | 1)


@dataclass(frozen=True)
class ColumnLayout:
    """A column as Parquet has it."""

    name: str
    data_type: pa.DataType  # as it is stored
    has_nulls: bool
    is_bucket: bool

    @cached_property
    def physical(self) -> int:
        """Parquet's own type."""
        return physical_type(self.data_type)

    @cached_property
    def width(self) -> int:
        """The bytes of a value, if all are of one length; else 0."""
        return value_bytes(self.data_type)

    @property
    def has_dictionary(self) -> bool:
        """Whether values are listed once and referred to."""
        return not self.is_bucket and self.physical != BOOLEAN

    @property
    def encoding(self) -> int:
        """How the data page has its values."""
        return _DELTA if self.is_bucket else _DICTIONARY if self.has_dictionary else _PLAIN

    @property
    def encodings(self) -> tuple[int, ...]:
        """All encodings of its pages, with that of nulls."""
        return (_PLAIN, _RLE, _DICTIONARY) if self.has_dictionary else (self.encoding, _RLE)


@dataclass(frozen=True)
class Page:
    """Where the body of a page is."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """Where the next one starts, with its header."""
        return self.start + self.length


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a group of rows. One with a dictionary has so many `entries` in it."""

    column: ColumnLayout
    rows: int
    entries: int
    dictionary: Page | None
    data: Page

    @property
    def start(self) -> int:
        """Where the header of the first page is."""
        if self.dictionary is not None:
            return self.dictionary.start - len(dictionary_header(self.entries, self.dictionary.length))
        return self._header_of_data

    @property
    def _header_of_data(self) -> int:
        return self.data.start - len(data_header(self.column, self.rows, self.data.length))

    def described(self) -> bytes:
        """What the footer says of it."""
        column, size = self.column, self.data.end - self.start
        fields: list[Field] = [
            (1, I32, whole(column.physical)),
            (2, LIST, items(I32, [whole(encoding) for encoding in column.encodings])),
            (3, LIST, items(BINARY, [text(column.name.encode())])),
            (4, I32, whole(0)),  # not compressed
            (5, I64, whole(self.rows)),
            (6, I64, whole(size)),
            (7, I64, whole(size)),
            (9, I64, whole(self._header_of_data)),
        ]
        if self.dictionary is not None:
            fields.append((11, I64, whole(self.start)))
        return struct([(2, I64, whole(0)), (3, STRUCT, struct(fields))])


Group = Sequence[Chunk]


def dictionary_header(entries: int, size: int) -> bytes:
    """What comes before a dictionary."""
    return _page_header(_DICTIONARY_PAGE, size, 7, whole_fields(entries, _PLAIN))


def data_header(column: ColumnLayout, rows: int, size: int) -> bytes:
    """What comes before the values of a column."""
    return _page_header(_DATA_PAGE, size, 5, whole_fields(rows, column.encoding, _RLE, _RLE))


def _page_header(kind: int, size: int, place: int, of_page: bytes) -> bytes:
    numbers: list[Field] = [(1, I32, whole(kind)), (2, I32, whole(size)), (3, I32, whole(size))]
    return struct([*numbers, (place, STRUCT, of_page)])


class FileLayout:
    """The columns of a file, and what it says of its pages."""

    def __init__(self, schema: pa.Schema, bucket: str) -> None:
        """Columns of the schema that are nullable have nulls."""
        self.schema = schema
        self.columns = [
            ColumnLayout(field.name, stored_type(field.type), field.nullable, field.name == bucket) for field in schema
        ]

    def footer(self, groups: Sequence[Group]) -> bytes:
        """All that comes behind the last page."""
        root = struct([(4, BINARY, text(b"schema")), (5, I32, whole(len(self.columns)))])
        elements = [schema_element(one.name, one.data_type, one.has_nulls) for one in self.columns]
        content = struct(
            [
                (1, I32, whole(2)),
                (2, LIST, items(STRUCT, [root, *elements])),
                (3, I64, whole(sum(group[0].rows for group in groups))),
                (4, LIST, items(STRUCT, [_described(group) for group in groups])),
                (5, LIST, items(STRUCT, [self._arrow_schema()])),
                (6, BINARY, text(CREATED_BY)),
            ]
        )
        return content + len(content).to_bytes(4, "little") + MAGIC

    def _arrow_schema(self) -> bytes:
        """Arrow's own description of the columns, from which readers know time zones and categories."""
        stored = base64.b64encode(self.schema.remove_metadata().serialize())
        return struct([(1, BINARY, text(b"ARROW:schema")), (2, BINARY, text(stored))])


def _described(group: Group) -> bytes:
    size = group[-1].data.end - group[0].start
    return struct(
        [
            (1, LIST, items(STRUCT, [chunk.described() for chunk in group])),
            (2, I64, whole(size)),
            (3, I64, whole(group[0].rows)),
        ]
    )


def walk(file: BinaryIO, layout: FileLayout, rows: int) -> list[Group]:
    """The pages of a file of so many rows, group by group; ValueError unless it is spelled as above.

    What is in the pages is not looked at. Nothing is allocated by what the file says of itself.
    """
    end = file.seek(0, 2)
    if read_at(file, 0, len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as a Parquet file")
    groups: list[Group] = []
    position, left = len(MAGIC), rows
    while left:
        group: list[Chunk] = []
        for column in layout.columns:
            group.append(_walk_chunk(file, column, position, end))
            position = group[-1].data.end
        _check_rows(group, groups[0][0].rows if groups else group[0].rows, left)
        groups.append(group)
        left -= group[0].rows
    footer = layout.footer(groups)
    if end - position != len(footer) or read_at(file, position, len(footer)) != footer:
        raise ValueError("its footer is not the one that belongs to its pages")
    return groups


def _check_rows(group: Group, first: int, left: int) -> None:
    rows = group[0].rows
    if any(chunk.rows != rows for chunk in group) or rows != min(first, left):
        raise ValueError("its rows are not in groups of one size")
    if not 0 < rows <= MOST_GROUP_ROWS or (rows < left and rows & (rows - 1)):
        raise ValueError("its groups are of a size that no release has")


def _walk_chunk(file: BinaryIO, column: ColumnLayout, position: int, end: int) -> Chunk:
    dictionary, entries = None, 0
    if column.has_dictionary:
        entries, dictionary = _walk_page(file, position, end, dictionary_header)
        if column.width and entries * column.width != dictionary.length:
            raise ValueError("a dictionary is not as long as its values")
        position = dictionary.end
    rows, data = _walk_page(file, position, end, lambda rows, size: data_header(column, rows, size))
    if entries > rows:
        raise ValueError("a dictionary has more values than there are rows")
    return Chunk(column, rows, entries, dictionary, data)


def _walk_page(file: BinaryIO, position: int, end: int, header: Callable[[int, int], bytes]) -> tuple[int, Page]:
    """The number of values that the page at a position states, and the page."""
    head = read_at(file, position, min(_LONGEST_HEADER, end - position))
    numbers: list[int] = []
    place = 0
    for _ in range(4):  # kind, both sizes, and the number of values, which is the first of a structure
        place += 2 if len(numbers) == 3 else 1
        number, place = read_varint(head, place)
        numbers.append(number >> 1)
    stated = header(numbers[3], numbers[1])
    if not head.startswith(stated):
        raise ValueError("a page is described in another way than those of a release")
    page = Page(position + len(stated), numbers[1])
    if page.end > end:
        raise ValueError("a page goes on behind the end")
    return numbers[3], page
