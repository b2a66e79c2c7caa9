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

The manifest is measured as well (`require_modest`): JSON can take much more memory than its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from dalenius.errors import ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.release.page_sizes import (
    BYTES,
    ENCODINGS,
    FIXED,
    SNAPPY,
    UNCOMPRESSED,
    WIDTHS,
    Column,
    Pages,
    impossible,
    numbers_of,
)
from dalenius.release.thrift import I32, I64, INTEGERS, STRUCT, Compact, read_at

MOST_ROWS = 2**20  # of a row group: releases are written with 2^17 at most
LARGEST_MANIFEST = 256 * 2**20  # bytes: 100,000 values need about 20 MB, and as many groups 30 MB
_MAGIC = b"PAR1"
_BRANCHES = b"{[,"  # each is followed by something that takes memory
_BRANCH_BYTES = 400  # in memory at the most
_TEXT_GROWS = 8  # bytes in memory for each byte of text
_SPARSE = 4  # bytes of a manifest for each branch at the least; {"stratum":1}, has 7
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_TAIL = len(_MAGIC) + 4
_LARGEST_FOOTER = 2**26
_FOOTER_GROWS = 100  # bytes in memory for each byte of a footer
_FILTER_HEADER = 2**10  # bytes to look at
_OPTIONAL = 1
_WIDE = (5, 6, 7, 9, 10, 11, 14)  # fields of a column's description that have 64 bits
_SIZES = 100  # added to the numbers of fields that are within field 16
_OF_OTHERS = (1, 8, 9)  # fields of a column that is in another file, or encrypted


@dataclass(frozen=True)
class Admitted:
    """What is known of a file that may be read: the bytes of its largest row group, and how its rows expand."""

    group_bytes: int = 0
    expanded: Sequence[tuple[int, int]] = ()  # of each row group: rows, and bytes of all of them in memory

    def rows_at_a_time(self, rows: int, most: int) -> int:
        """So many rows, or as many as take `most` bytes."""
        fitting = [number * most // max(1, size) for number, size in self.expanded]
        return max(1, min([rows, *fitting]))


_Leaf = tuple[int, int, int]  # a column of the file: type, width, and whether it may have nulls


@dataclass
class _Footer:
    start: int
    rows: int = -1
    leaves: list[_Leaf] = field(default_factory=list)
    groups: list[tuple[int, list[Column]]] = field(default_factory=list)


def admit_parquet(file: BinaryIO, name: str, columns: int, memory: ReadingMemory) -> Admitted:
    """Measure a Parquet file of so many columns. ReleaseError if it cannot be, MemoryLimitError if it is too large."""
    try:
        footer = _read_footer(file, name, columns, memory)
        reached = len(_MAGIC)
        for column in (column for _, chunks in footer.groups for column in chunks):
            reached = _end(column, reached, footer.start)
            Pages(file, name, column, memory).measure()
            _measure_filter(file, column, footer.start)
    except (ValueError, IndexError):
        raise ReleaseError(f"{name} is damaged, or not a parquet file") from None
    stored = [sum(column.length for column in chunks) for _, chunks in footer.groups]
    expanded = [(rows, sum(column.expanded for column in chunks)) for rows, chunks in footer.groups]
    return Admitted(max(stored, default=0), expanded)


def _end(column: Column, after: int, before: int) -> int:
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
            footer.rows = reader.integer_of(kind, I64)
        elif number == 4:
            groups = [_read_group(reader, columns) for _ in reader.items(kind, STRUCT)]
        else:
            reader.skip(kind)
    if reader.position != length or not footer.leaves:
        raise ValueError("the footer is not complete, or goes on behind its end")
    for rows, chunks in groups:
        if not 0 < rows <= MOST_ROWS:
            raise impossible(name, f"a row group of {rows:,} rows")
        footer.groups.append((rows, [_column(chunk, leaf) for chunk, leaf in zip(chunks, footer.leaves, strict=True)]))
        if any(column.rows != rows for column in footer.groups[-1][1]):
            raise impossible(name, "columns of other lengths than their row group")
    if sum(rows for rows, _ in groups) != footer.rows:
        raise impossible(name, "other rows than its row groups")
    return footer


def _leaves(reader: Compact, kind: int, columns: int) -> list[_Leaf]:
    """The columns, of which there are so many, all of them flat."""
    elements = reader.items(kind, STRUCT)
    if len(elements) != columns + 1:
        raise ValueError("there are more columns than the manifest says, or fewer")
    root, *leaves = (numbers_of(reader) for _ in elements)
    if root.get(5) != columns:
        raise ValueError("columns within columns")
    found = []
    for leaf in leaves:
        if leaf.get(5) or leaf.get(3) not in (0, _OPTIONAL) or leaf.get(1) not in ENCODINGS:
            raise ValueError("a column is not flat, or of no type")
        width = leaf.get(2, 0) if leaf[1] == FIXED else WIDTHS[leaf[1]]
        if width < 1:
            raise ValueError("values without a byte")
        found.append((leaf[1], width, leaf[3]))
    return found


def _read_group(reader: Compact, columns: int) -> tuple[int, list[dict[int, int]]]:
    rows, chunks = 0, []
    for number, kind in reader.fields():
        if number == 1:
            chunks = [_read_chunk(reader) for _ in reader.items(kind, STRUCT)]
        elif number == 3:
            rows = reader.integer_of(kind, I64)
        else:
            reader.skip(kind)
    if len(chunks) != columns:
        raise ValueError("a row group has more columns than the file, or fewer")
    return rows, chunks


def _read_chunk(reader: Compact) -> dict[int, int]:
    """The numbers of a column's description, within the entry of its row group."""
    column: dict[int, int] = {}
    for number, kind in reader.fields():
        if number in _OF_OTHERS:
            raise ValueError("a column of an encrypted file, or of another")
        if number == 3 and kind == STRUCT:
            column = _read_description(reader)
        else:
            reader.skip(kind)
    return column


def _read_description(reader: Compact) -> dict[int, int]:
    """The numbers of a column's description; under `_SIZES` those of its sizes, with the lengths of histograms."""
    found: dict[int, int] = {}
    for number, kind in reader.fields():
        if number == 16 and kind == STRUCT:
            found |= {_SIZES + inner: _length(reader, inner, of) for inner, of in reader.fields()}
        elif kind in INTEGERS:
            found[number] = reader.integer_of(kind, I64 if number in _WIDE else I32)
        else:
            reader.skip(kind)
    return found


def _length(reader: Compact, number: int, kind: int) -> int:
    """How many numbers a histogram has; of anything else, 0."""
    items = reader.items(kind, I64) if number in (2, 3) else range(0)
    for _ in items:
        reader.skip(I64)
    if number not in (2, 3):
        reader.skip(kind)
    return len(items)


def _column(stated: dict[int, int], leaf: _Leaf) -> Column:
    kind, width, levels = leaf
    if not {1, 4, 5, 7, 9} <= stated.keys() or stated[1] != kind or stated[4] not in (UNCOMPRESSED, SNAPPY):
        raise ValueError("a column is not described, or not as releases are written")
    histograms = stated.get(_SIZES + 2, 0), stated.get(_SIZES + 3, 0)
    if histograms[0] > 1 or histograms[1] not in (0, levels + 1) or (_SIZES + 1 in stated and kind != BYTES):
        raise ValueError("sizes that a column cannot have")  # on which Arrow ends the program
    start = min(stated[9], stated.get(11) or stated[9])  # the dictionary comes first
    if start < len(_MAGIC) or stated[7] < 1:
        raise ValueError("a column is nowhere")
    return Column(kind, width, start, stated[7], stated[5], stated[4], stated.get(14))


def _measure_filter(file: BinaryIO, column: Column, end: int) -> None:
    """A Bloom filter says in its header how long it is, and is within the file."""
    if column.filter is None:
        return
    if not len(_MAGIC) <= column.filter < end:
        raise ValueError("a Bloom filter is nowhere")
    reader = Compact(read_at(file, column.filter, min(end - column.filter, _FILTER_HEADER)))
    if not 0 <= numbers_of(reader).get(1, -1) <= end - column.filter - reader.position:
        raise ValueError("a Bloom filter is longer than the file")


def require_modest(content: bytes, memory: ReadingMemory | None = None) -> None:
    """Refuse JSON that would take much more memory than its length, or than there is, before it is parsed.

    A document of {} takes some 300 times its length.
    """
    if len(content) > LARGEST_MANIFEST:
        raise ReleaseError(f"the manifest is larger than {LARGEST_MANIFEST:,} bytes")
    branches = _branches(content)
    if branches * _SPARSE > len(content):
        branches = _branches(_STRING.sub(b'""', content))  # those within text do not count
        if branches * _SPARSE > len(content):
            raise ReleaseError(f"the manifest has {branches:,} lists, objects and entries, more than a release has")
    memory = memory or ReadingMemory.of(None)
    memory.require(branches * _BRANCH_BYTES + len(content) * _TEXT_GROWS, memory.spare // 2, "the manifest")


def _branches(content: bytes) -> int:
    return sum(content.count(mark) for mark in _BRANCHES)
