"""Who comes in: a file of a table is measured before Arrow or DuckDB reads it, by its bytes and not by what it says.

Parquet is compressed three times over: pages by Snappy, runs of equal values by their length, and text by references
into a dictionary, or to the text before. So a few bytes can say that they are billions of rows, or gigabytes of text,
and readers allocate what they are told. Here the footer and the headers of all pages are walked through (numbers of
fields are those of parquet.thrift), and nothing that is compressed is expanded but what has to be:

- columns are flat, and as many as the manifest says; rows of the file, of its row groups, of their columns and of
  their pages are the same;
- a row group, and so a page, has at most `MOST_ROWS` rows, a page is of a kind and an encoding that a release has been
  written with, and is not larger, expanded, than its bytes can be;
- what cannot be read in pieces fits into memory: `MemoryLimitError` if not.

What such a file is read into is bounded by its length, and by `rows_at_a_time`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from dalenius.errors import ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.release.thrift import BOOLEANS, INTEGERS, STRUCT, Compact, read_at, sum_of_deltas

MOST_ROWS = 2**20  # of a row group: releases are written with 2^17 at most
_MAGIC = b"PAR1"
_TAIL = len(_MAGIC) + 4
_LARGEST_FOOTER = 2**26
_FOOTER_GROWS = 100  # bytes in memory for each byte of a footer
_FIRST_LOOK, _LARGEST_HEADER = 2**10, 2**24  # bytes of the header of a page
_DICTIONARY_ENTRY = 16  # bytes in memory for each entry, besides its text

_UNCOMPRESSED, _SNAPPY = 0, 1
_SNAPPY_GROWS = 24  # 3 bytes stand for 64 at the most
_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTES, _FIXED = range(8)
_WIDTHS = {_BOOLEAN: 1, _INT32: 4, _INT64: 8, _INT96: 12, _FLOAT: 4, _DOUBLE: 8, _BYTES: 4}
_PLAIN, _OLD_DICTIONARY, _RLE, _BIT_PACKED, _DELTA, _DELTA_TEXT, _DICTIONARY = 0, 2, 3, 4, 5, 7, 8
_REFERENCES = frozenset({_OLD_DICTIONARY, _DICTIONARY})
_LEVELS = frozenset({_RLE, _BIT_PACKED})
_ENCODINGS = {
    **dict.fromkeys(_WIDTHS, frozenset({_PLAIN, *_REFERENCES})),
    _BOOLEAN: frozenset({_PLAIN, _RLE}),
    _INT32: frozenset({_PLAIN, _DELTA, *_REFERENCES}),
    _INT64: frozenset({_PLAIN, _DELTA, *_REFERENCES}),
    _BYTES: frozenset({_PLAIN, _DELTA_TEXT, *_REFERENCES}),
    _FIXED: frozenset({_PLAIN, _DELTA_TEXT, *_REFERENCES}),
}
_DATA_PAGE, _DICTIONARY_PAGE, _SECOND_DATA_PAGE = 0, 2, 3
_REPEATED = 2


@dataclass(frozen=True)
class Admitted:
    """What is known of a file that may be read: the bytes of its largest row group, and how its rows expand."""

    group_bytes: int = 0
    expanded: Sequence[tuple[int, int]] = ()  # of each row group: rows, and bytes of all of them in memory

    def rows_at_a_time(self, rows: int, most: int) -> int:
        """So many rows, or as many as take `most` bytes."""
        fitting = [number * most // max(1, size) for number, size in self.expanded]
        return max(1, min([rows, *fitting]))


@dataclass
class _Column:
    """A column of a row group, as the footer has it."""

    type: int
    width: int
    start: int
    length: int
    rows: int
    codec: int
    filter: int | None
    expanded: int = 0


@dataclass
class _Footer:
    start: int
    rows: int = -1
    leaves: list[tuple[int, int]] = field(default_factory=list)  # type and width
    groups: list[tuple[int, list[_Column]]] = field(default_factory=list)


def admit_parquet(file: BinaryIO, name: str, columns: int, memory: ReadingMemory) -> Admitted:
    """Measure a Parquet file of so many columns. ReleaseError if it cannot be, MemoryLimitError if it is too large."""
    try:
        footer = _read_footer(file, name, columns, memory)
        reached = len(_MAGIC)
        for column in (column for _, chunks in footer.groups for column in chunks):
            reached = _end(column, reached, footer.start)
            _Pages(file, name, column, memory).measure()
            _measure_filter(file, column, footer.start)
    except (ValueError, IndexError):
        raise ReleaseError(f"{name} is damaged, or not a parquet file") from None
    stored = [sum(column.length for column in chunks) for _, chunks in footer.groups]
    expanded = [(rows, sum(column.expanded for column in chunks)) for rows, chunks in footer.groups]
    return Admitted(max(stored, default=0), expanded)


def _end(column: _Column, after: int, before: int) -> int:
    """Where a column ends, which is after the last one and before the footer: no two share their bytes."""
    if column.start < after or column.length > before - column.start:
        raise ValueError("a column is not within the file, or within another")
    return column.start + column.length


def _read_footer(file: BinaryIO, name: str, columns: int, memory: ReadingMemory) -> _Footer:
    end = file.seek(0, 2) - _TAIL
    if end < len(_MAGIC):
        raise ValueError("the file is too short")
    length = int.from_bytes(read_at(file, end, 4), "little")
    if not 0 < length <= min(end - len(_MAGIC), _LARGEST_FOOTER):
        raise ValueError("the footer is longer than the file, or too long")
    memory.require(length * _FOOTER_GROWS, memory.piece, f"the footer of {name}")
    footer = _Footer(end - length)
    reader = Compact(read_at(file, footer.start, length))
    groups: list[tuple[int, list[dict[int, int]]]] = []
    for number, kind in reader.fields():
        if number == 2:
            footer.leaves = _leaves(reader, kind, columns)
        elif number == 3:
            footer.rows = reader.integer(kind)
        elif number == 4:
            groups = [_read_group(reader, columns) for _ in reader.items(kind, STRUCT)]
        else:
            reader.skip(kind)
    if reader.position != length or not footer.leaves:
        raise ValueError("the footer is not complete, or goes on behind its end")
    for rows, chunks in groups:
        if not 0 < rows <= MOST_ROWS:
            raise _impossible(name, f"a row group of {rows:,} rows")
        footer.groups.append((rows, [_column(chunk, leaf) for chunk, leaf in zip(chunks, footer.leaves, strict=True)]))
        if any(column.rows != rows for column in footer.groups[-1][1]):
            raise _impossible(name, "columns of other lengths than their row group")
    if sum(rows for rows, _ in groups) != footer.rows:
        raise _impossible(name, "other rows than its row groups")
    return footer


def _leaves(reader: Compact, kind: int, columns: int) -> list[tuple[int, int]]:
    """Types and widths of the columns, of which there are so many, all of them flat."""
    elements = reader.items(kind, STRUCT)
    if len(elements) != columns + 1:
        raise ValueError("there are more columns than the manifest says, or fewer")
    root, *leaves = (_numbers(reader) for _ in elements)
    if root.get(5) != columns:
        raise ValueError("columns within columns")
    found = []
    for leaf in leaves:
        if leaf.get(5) or leaf.get(3) == _REPEATED or leaf.get(1) not in _ENCODINGS:
            raise ValueError("a column is not flat, or of no type")
        width = leaf.get(2, 0) if leaf[1] == _FIXED else _WIDTHS[leaf[1]]
        if width < 1:
            raise ValueError("values without a byte")
        found.append((leaf[1], width))
    return found


def _read_group(reader: Compact, columns: int) -> tuple[int, list[dict[int, int]]]:
    rows, chunks = 0, []
    for number, kind in reader.fields():
        if number == 1:
            chunks = [_read_chunk(reader) for _ in reader.items(kind, STRUCT)]
        elif number == 3:
            rows = reader.integer(kind)
        else:
            reader.skip(kind)
    if len(chunks) != columns:
        raise ValueError("a row group has more columns than the file, or fewer")
    return rows, chunks


def _read_chunk(reader: Compact) -> dict[int, int]:
    """The numbers of a column's description, within the entry of its row group."""
    column: dict[int, int] = {}
    for number, kind in reader.fields():
        if number == 3 and kind == STRUCT:
            column = _numbers(reader)
        else:
            reader.skip(kind)
    return column


def _column(stated: dict[int, int], leaf: tuple[int, int]) -> _Column:
    if not {1, 4, 5, 7, 9} <= stated.keys() or stated[1] != leaf[0] or stated[4] not in (_UNCOMPRESSED, _SNAPPY):
        raise ValueError("a column is not described, or not as releases are written")
    start = min(stated[9], stated.get(11) or stated[9])  # the dictionary comes first
    if start < len(_MAGIC) or stated[7] < 1:
        raise ValueError("a column is nowhere")
    return _Column(*leaf, start, stated[7], stated[5], stated[4], stated.get(14))


class _Pages:
    """The pages of one column of a row group, from the first to the last."""

    def __init__(self, file: BinaryIO, name: str, column: _Column, memory: ReadingMemory) -> None:
        self._file, self._name, self._column, self._memory = file, name, column, memory
        self._has_dictionary = self._has_references = self._has_deltas = False
        self._dictionary = (0, 0, 0)  # its place, its length, and its length expanded

    def measure(self) -> None:
        """Walk through all pages; what their rows come to in memory is added to the column."""
        column = self._column
        place, end, rows, references = column.start, column.start + column.length, 0, 0
        while place < end:
            header, fields = self._header(place, end)
            size, stored = header.get(2, -1), header.get(3, -1)
            place += header[0]
            if not 0 <= stored <= end - place or size < 0:
                raise ValueError("a page is longer than its column")
            if size > stored * (_SNAPPY_GROWS if column.codec == _SNAPPY else 1):
                raise _impossible(self._name, f"a page of {size:,} bytes in {stored:,}")
            self._memory.require(2 * size, self._memory.piece, f"a page of {self._name}")
            if header.get(1) == _DICTIONARY_PAGE:
                self._add_dictionary(fields.get(7, {}), place, stored, size, rows)
            else:
                found, expanded = self._data_page(header, fields, place, stored, size)
                rows += found
                references += found if expanded is None else 0
                column.expanded += expanded or 0
            place += stored
            if rows > column.rows:
                raise _impossible(self._name, "pages of more rows than their column")
        if rows < column.rows:
            raise _impossible(self._name, "pages of fewer rows than their column")
        column.expanded += references * self._reference_width()

    def _header(self, place: int, end: int) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """The numbers of a page's header, its length as number 0; and those of the structures within it."""
        look = _FIRST_LOOK
        while True:
            data = read_at(self._file, place, min(look, end - place))
            try:
                reader = Compact(data)
                within: dict[int, dict[int, int]] = {}
                numbers = _numbers(reader, within)
            except ValueError:
                if look >= min(_LARGEST_HEADER, end - place):
                    raise
                look *= 16
            else:
                return {**numbers, 0: reader.position}, within

    def _add_dictionary(self, stated: dict[int, int], place: int, stored: int, size: int, rows: int) -> None:
        if self._has_dictionary or rows or self._column.type == _BOOLEAN or stated.get(2) not in (0, _OLD_DICTIONARY):
            raise ValueError("a dictionary where there is none")
        entries = stated.get(1, -1)
        if not 0 <= entries * self._column.width <= size:
            raise _impossible(self._name, f"a dictionary of {entries:,} entries in {size:,} bytes")
        needed = size + entries * _DICTIONARY_ENTRY
        self._memory.require(2 * needed, self._memory.piece, f"a dictionary of {self._name}")
        self._has_dictionary, self._dictionary = True, (place, stored, size)
        self._column.expanded += needed

    def _data_page(
        self, header: dict[int, int], within: dict[int, dict[int, int]], place: int, stored: int, size: int
    ) -> tuple[int, int | None]:
        """The rows of a page, and what they come to in memory; None if they are references into a dictionary."""
        kind, column = header.get(1), self._column
        if kind == _DATA_PAGE:
            stated = within.get(5, {})
            encoding, levels = stated.get(2), {stated.get(3), stated.get(4)}
        elif kind == _SECOND_DATA_PAGE:
            stated = within.get(8, {})
            encoding, levels = stated.get(4), {_RLE}
            if stated.get(3) != stated.get(1):
                raise ValueError("rows of another number than values")
        else:
            raise ValueError("a page that no release has")
        rows = stated.get(1, -1)
        if rows < 0 or encoding not in _ENCODINGS[column.type] or not levels <= _LEVELS:
            raise ValueError("a page that no release has")
        if encoding in _REFERENCES:
            if not self._has_dictionary:
                raise ValueError("references to nowhere")
            self._has_references = True
            return rows, None
        if encoding == _DELTA_TEXT:
            if kind != _SECOND_DATA_PAGE:
                raise ValueError("a page that no release has")
            self._has_deltas = True
            expanded = size + self._repeated_text(stated, rows, place, stored, size)
            self._memory.require(expanded, self._memory.piece, f"a page of {self._name}")
            return rows, expanded + 4 * rows
        return rows, max(size, column.width * rows)

    def _repeated_text(self, stated: dict[int, int], rows: int, place: int, stored: int, size: int) -> int:
        """What a page does not spell out, because each text goes on from the start of the one before."""
        levels = stated.get(5, 0) + stated.get(6, 0)
        if min(stated.get(5, 0), stated.get(6, 0)) < 0 or levels > min(stored, size):
            raise ValueError("levels that are longer than their page")
        data = read_at(self._file, place + levels, stored - levels)
        return sum_of_deltas(self._expand(data, size - levels, bool(stated.get(7, 1))), rows, size)

    def _expand(self, data: bytes, size: int, compressed: bool = True) -> bytes:
        if self._column.codec == _UNCOMPRESSED or not compressed:
            return data
        import pyarrow as pa  # here, because hardly any release has such pages

        try:
            return bytes(pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True))
        except (pa.ArrowException, OSError):
            raise ValueError("a page cannot be expanded") from None

    def _reference_width(self) -> int:
        """Bytes in memory for a reference: of text, that of a number, unless Arrow has to resolve it while reading."""
        column = self._column
        if column.type != _BYTES or not (self._has_references and self._has_deltas):
            return column.width
        data = self._expand(read_at(self._file, *self._dictionary[:2]), self._dictionary[2])
        position = longest = 0
        while position < len(data):
            length = int.from_bytes(data[position : position + 4], "little")
            longest, position = max(longest, length), position + 4 + length
        return column.width + longest


def _measure_filter(file: BinaryIO, column: _Column, end: int) -> None:
    """A Bloom filter says in its header how long it is, and is within the file."""
    if column.filter is None:
        return
    if not len(_MAGIC) <= column.filter < end:
        raise ValueError("a Bloom filter is nowhere")
    reader = Compact(read_at(file, column.filter, min(end - column.filter, _FIRST_LOOK)))
    if not 0 <= _numbers(reader).get(1, -1) <= end - column.filter - reader.position:
        raise ValueError("a Bloom filter is longer than the file")


def _numbers(reader: Compact, within: dict[int, dict[int, int]] | None = None) -> dict[int, int]:
    """The numbers of a structure, by their fields; and those of the structures within it, if they are wanted."""
    numbers: dict[int, int] = {}
    for number, kind in reader.fields():
        if kind in INTEGERS:
            numbers[number] = reader.integer(kind)
        elif kind in BOOLEANS:
            numbers[number] = BOOLEANS[kind]
        elif kind == STRUCT and within is not None:
            within[number] = _numbers(reader)
        else:
            reader.skip(kind)
    return numbers


def _impossible(name: str, what: str) -> ReleaseError:
    return ReleaseError(f"{name} says that it has {what}, and it cannot")
