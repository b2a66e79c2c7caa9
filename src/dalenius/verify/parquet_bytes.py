"""The bytes of a Parquet file from its first to its last: every one of them belongs to something that a reader reads.

There are columns, what helps to find rows in them (indexes, Bloom filters), and the footer. The footer is read by code
of our own: Arrow does not tell where the indexes are that Spark's writer puts behind the columns, nor what else a
footer says. Numbers of fields are those of the format's parquet.thrift.

What is read may be written by anybody: whatever cannot be is a ValueError (`release.thrift`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from dalenius.release.folder import ReleaseFolder
from dalenius.release.thrift import INTEGERS, STRUCT, Compact, read_at
from dalenius.verify.findings import SCHEMA, Report

_MAGIC = b"PAR1"
_TAIL = len(_MAGIC) + 4  # the length of the footer stands before the last word
_LARGEST = 2**28  # bytes of a footer or an index
_LARGEST_HEADER = 2**8  # bytes of a Bloom filter's header

# Other fields are of encrypted files, or name other files, or are entries of metadata of a column's own.
_OF_FILE = frozenset(range(1, 8))
_OF_GROUP = frozenset(range(1, 8))
_OF_CHUNK = frozenset(range(2, 8))
_OF_COLUMN = frozenset({*range(1, 8), *range(9, 17)})
_OF_FILTER = frozenset(range(1, 5))

Region = tuple[int, int]  # the first byte, and how many


@dataclass
class Footer:
    """What a footer says of the bytes of its file."""

    start: int
    entries: int = 0  # of metadata
    unknown: int = 0  # fields that no release has
    rows: list[int] = field(default_factory=list)  # of the row groups
    columns: list[Region] = field(default_factory=list)
    indexes: list[Region] = field(default_factory=list)
    filters: list[Region] = field(default_factory=list)  # with 0 where the length is not stated


def check_coverage(release: ReleaseFolder, name: str, report: Report) -> None:
    """A Parquet file has its columns one after the other, then indexes and Bloom filters if any, then the footer.

    Every byte belongs to one of them. And its row groups say nothing themselves, being all of one size.
    """
    try:
        with release.store.open(name) as file:
            footer = read_footer(file)
            covers = _covers(file, footer)
    except (OSError, ValueError):
        report.fail(SCHEMA, f"{name} has a footer or indexes that cannot be read")
    else:
        if footer.unknown:
            report.fail(SCHEMA, f"the footer of {name} says more than that of a release", footer.unknown)
        rows = footer.rows
        if len(set(rows[:-1])) > 1 or (len(rows) > 1 and not 0 < rows[-1] <= rows[0]):
            report.fail(SCHEMA, f"the row groups of {name} are not all of one size")
        if not covers:
            report.fail(SCHEMA, f"{name} has bytes that belong to no column")


def read_footer(file: BinaryIO) -> Footer:
    """The footer of a file; ValueError if it has none that can be."""
    end = file.seek(0, 2) - _TAIL
    if end < len(_MAGIC):
        raise ValueError("the file is too short")
    length = int.from_bytes(read_at(file, end, 4), "little")
    if not 0 < length <= min(end - len(_MAGIC), _LARGEST):
        raise ValueError("the footer is longer than the file")
    footer = Footer(end - length)
    reader = Compact(read_at(file, footer.start, length))
    for number, kind in _known(reader, _OF_FILE, footer):
        if number == 4:
            for _ in reader.items(kind, STRUCT):
                _read_group(reader, footer)
        elif number == 5:
            for _ in reader.items(kind, STRUCT):
                footer.entries += 1
                reader.skip(STRUCT)
        else:
            reader.skip(kind)
    if reader.position != length:
        raise ValueError("the footer goes on behind its end")
    return footer


def _read_group(reader: Compact, footer: Footer) -> None:
    rows = 0
    for number, kind in _known(reader, _OF_GROUP, footer):
        if number == 1:
            for _ in reader.items(kind, STRUCT):
                _read_chunk(reader, footer)
        elif number == 3:
            rows = reader.integer(kind)
        else:
            reader.skip(kind)
    footer.rows.append(rows)


def _read_chunk(reader: Compact, footer: Footer) -> None:
    """A column of a row group: where it is, and its indexes."""
    chunk: dict[int, int] = {}
    column: dict[int, int] = {}
    for number, kind in _known(reader, _OF_CHUNK, footer):
        if number == 3 and kind == STRUCT:
            column = _integers(reader, _OF_COLUMN, footer)
        elif kind in INTEGERS:
            chunk[number] = reader.integer(kind)
        else:
            raise ValueError("something else is wanted")
    if not {7, 9} <= column.keys() or (4 in chunk) != (5 in chunk) or (6 in chunk) != (7 in chunk):
        raise ValueError("a place or a length is not stated")
    start = min(column[9], column.get(11) or column[9])  # the dictionary comes first
    footer.columns.append((start, column[7]))
    footer.indexes += [(chunk[place], chunk[place + 1]) for place in (4, 6) if place in chunk]
    if 14 in column:
        footer.filters.append((column[14], column.get(15, 0)))


def _covers(file: BinaryIO, footer: Footer) -> bool:
    """Whether every byte before the footer is spoken for, once."""
    reached = len(_MAGIC)
    for start, length in footer.columns:
        if start != reached or length < 0:
            return False
        reached += length
    behind = [(*region, _index_length) for region in footer.indexes]
    behind += [(*region, _filter_length) for region in footer.filters]
    for start, length, measured in sorted(behind, key=lambda region: region[0]):
        if start != reached or start >= footer.start:
            return False
        reached += measured(file, start, length, footer.start - start)
    return reached == footer.start


def _index_length(file: BinaryIO, start: int, length: int, most: int) -> int:
    """The bytes of an index, which is one structure and no more."""
    if not 0 < length <= min(most, _LARGEST):
        raise ValueError("an index is longer than the file")
    reader = Compact(read_at(file, start, length))
    reader.skip(STRUCT)
    return _same(reader.position, length)


def _filter_length(file: BinaryIO, start: int, length: int, most: int) -> int:
    """The bytes of a Bloom filter: a header, which says how many bytes follow. Some writers do not state the sum."""
    reader = Compact(read_at(file, start, min(most, _LARGEST_HEADER)))
    header = Footer(start)
    follow = _integers(reader, _OF_FILTER, header).get(1, 0)
    if header.unknown:
        raise ValueError("a Bloom filter has something else in its header")
    if not 0 <= follow <= most - reader.position:
        raise ValueError("a Bloom filter is longer than the file")
    return _same(reader.position + follow, length or reader.position + follow)


def _same(real: int, stated: int) -> int:
    if real != stated:
        raise ValueError("a length is not the one that is stated")
    return real


def _integers(reader: Compact, known: frozenset[int], footer: Footer) -> dict[int, int]:
    """The numbers of a structure, by their fields."""
    numbers: dict[int, int] = {}
    for number, kind in _known(reader, known, footer):
        if kind in INTEGERS:
            numbers[number] = reader.integer(kind)
        else:
            reader.skip(kind)
    return numbers


def _known(reader: Compact, known: frozenset[int], footer: Footer) -> Iterator[tuple[int, int]]:
    """The fields of a structure; those that no release has are counted, and left out."""
    for number, kind in reader.fields():
        if number in known:
            yield number, kind
        else:
            footer.unknown += 1
            reader.skip(kind)
