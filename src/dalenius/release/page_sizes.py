"""The pages of a column: what each of them comes to once it is expanded, from its header.

The header is walked through by code of our own (`thrift`). Nothing that is compressed is expanded, but for text that
goes on from the text before: how long it is, is in the page.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import BinaryIO

from dalenius.errors import ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.release.thrift import BOOLEANS, I32, I64, INTEGERS, STRUCT, Compact, read_at, sum_of_deltas

_FIRST_LOOK, _LARGEST_HEADER = 2**10, 2**24  # bytes of the header of a page
_DICTIONARY_ENTRY = 16  # bytes in memory for each entry, besides its text

UNCOMPRESSED, SNAPPY = 0, 1
_SNAPPY_GROWS = 24  # 3 bytes stand for 64 at the most
_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, BYTES, FIXED = range(8)
WIDTHS = {_BOOLEAN: 1, _INT32: 4, _INT64: 8, _INT96: 12, _FLOAT: 4, _DOUBLE: 8, BYTES: 4}
_PLAIN, _OLD_DICTIONARY, _RLE, _BIT_PACKED, _DELTA, _DELTA_TEXT, _DICTIONARY = 0, 2, 3, 4, 5, 7, 8
_REFERENCES = frozenset({_OLD_DICTIONARY, _DICTIONARY})
_LEVELS = frozenset({_RLE, _BIT_PACKED})
ENCODINGS = {
    **dict.fromkeys(WIDTHS, frozenset({_PLAIN, *_REFERENCES})),
    _BOOLEAN: frozenset({_PLAIN, _RLE}),
    _INT32: frozenset({_PLAIN, _DELTA, *_REFERENCES}),
    _INT64: frozenset({_PLAIN, _DELTA, *_REFERENCES}),
    BYTES: frozenset({_PLAIN, _DELTA_TEXT, *_REFERENCES}),
    FIXED: frozenset({_PLAIN, _DELTA_TEXT, *_REFERENCES}),
}
_DATA_PAGE, _DICTIONARY_PAGE, _SECOND_DATA_PAGE = 0, 2, 3


@dataclass
class Column:
    """A column of a row group, as the footer has it."""

    type: int
    width: int
    start: int
    length: int
    rows: int
    codec: int
    filter: int | None
    expanded: int = 0


class Pages:
    """The pages of one column of a row group, from the first to the last."""

    def __init__(self, file: BinaryIO, name: str, column: Column, memory: ReadingMemory) -> None:
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
            if size > stored * (_SNAPPY_GROWS if column.codec == SNAPPY else 1):
                raise impossible(self._name, f"a page of {size:,} bytes in {stored:,}")
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
                raise impossible(self._name, "pages of more rows than their column")
        if rows < column.rows:
            raise impossible(self._name, "pages of fewer rows than their column")
        column.expanded += references * self._reference_width()

    def _header(self, place: int, end: int) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """The numbers of a page's header, its length as number 0; and those of the structures within it."""
        look = _FIRST_LOOK
        while True:
            data = read_at(self._file, place, min(look, end - place))
            try:
                reader = Compact(data)
                within: dict[int, dict[int, int]] = {}
                numbers = numbers_of(reader, within)
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
            raise impossible(self._name, f"a dictionary of {entries:,} entries in {size:,} bytes")
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
        if rows < 0 or encoding not in ENCODINGS[column.type] or not levels <= _LEVELS:
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
        if self._column.codec == UNCOMPRESSED or not compressed:
            return data
        import pyarrow as pa  # here, because hardly any release has such pages

        try:
            return bytes(pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True))
        except (pa.ArrowException, OSError):
            raise ValueError("a page cannot be expanded") from None

    def _reference_width(self) -> int:
        """Bytes in memory for a reference: of text, that of a number, unless Arrow has to resolve it while reading."""
        column = self._column
        if column.type != BYTES or not (self._has_references and self._has_deltas):
            return column.width
        data = self._expand(read_at(self._file, *self._dictionary[:2]), self._dictionary[2])
        position = longest = 0
        while position < len(data):
            length = int.from_bytes(data[position : position + 4], "little")
            longest, position = max(longest, length), position + 4 + length
        return column.width + longest


def numbers_of(
    reader: Compact, within: dict[int, dict[int, int]] | None = None, wide: Container[int] = ()
) -> dict[int, int]:
    """The numbers of a structure, by their fields; and those of the structures within it, if they are wanted.

    Fields that are `wide` have 64 bits, and others 32: readers do not see a number of another width.
    """
    numbers: dict[int, int] = {}
    for number, kind in reader.fields():
        if kind in INTEGERS:
            numbers[number] = reader.integer_of(kind, I64 if number in wide else I32)
        elif kind in BOOLEANS:
            numbers[number] = BOOLEANS[kind]
        elif kind == STRUCT and within is not None:
            within[number] = numbers_of(reader)
        else:
            reader.skip(kind)
    return numbers


def impossible(name: str, what: str) -> ReleaseError:
    """The error for a file that says of itself what cannot be."""
    return ReleaseError(f"{name} says that it has {what}, and it cannot")
