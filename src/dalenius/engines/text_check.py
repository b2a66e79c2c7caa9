"""Whether a text file is whole, before an engine reads it: quotes that pair, and as many fields as the header has.

DuckDB cuts a text file into pieces, and looks for the first record of each. A record that is not as it should be may
then be taken for the end of another one and be lost without a word, with all that follows in its piece; so may records
with line ends inside their values. Nobody would notice rows that are missing from a release. So records are checked
here first, and a file with such values is not cut into pieces.

Most files are checked at a glance, by the places of their delimiters, quotes and line ends. Where quotes stand anywhere
but around fields, and where something is wrong, records are looked at one by one.

A field is in quotes (with blanks around them, perhaps, and quotes doubled inside), or it is text without delimiters and
line ends that does not begin with a quote. All lines end alike. An empty line is no record.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dalenius.engines.arrow import FileState
from dalenius.engines.delimited import open_bytes
from dalenius.engines.table_errors import Explained, bad_quote, not_csv, not_utf8, ragged, too_long
from dalenius.errors import InputError

LONGEST = 2_000_000  # bytes in a record, as in DuckDB
_BLOCK = 2**22
_QUOTE, _LF, _CR = b'"\n\r'

Places = npt.NDArray[np.int64]


def is_in_one_piece(path: Path, delimiter: str, fields: int) -> bool:
    """Check all records of a text file; whether it must be read from its beginning to its end, by one thread."""
    return _checked(path, FileState(path), delimiter.encode(), fields)


@lru_cache(maxsize=16)  # a table is opened more than once
def _checked(path: Path, state: FileState, delimiter: bytes, fields: int) -> bool:  # noqa: ARG001
    in_one_piece = _at_a_glance(_blocks(path), delimiter[0], fields)
    if in_one_piece is None:
        _one_by_one(_blocks(path), delimiter, fields)
    return in_one_piece is not False


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file without its byte order mark, found to be UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with open_bytes(path) as file:
        block = file.read(_BLOCK).removeprefix(codecs.BOM_UTF8)
        while block or decoder.getstate()[0]:
            if decoder.getstate()[0] or not block.isascii():
                try:
                    decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    raise InputError(*not_utf8(line + error.object[: error.start].count(b"\n"))) from None
            line += block.count(b"\n")
            yield block
            block = file.read(_BLOCK)


@dataclass(frozen=True)
class _Records:
    """The records that a piece of text begins with: where they end, how lines do, and whether values hold line ends."""

    end: int
    line_end: bytes
    line_ends_inside: bool


def _at_a_glance(blocks: Iterator[bytes], delimiter: int, fields: int) -> bool | None:
    """Whether values have line ends inside; None if a closer look is needed."""
    rest, line_end, inside = b"", None, False
    for block in chain(blocks, [b""]):
        text = rest + block if block else rest and rest + (line_end or b"\n")
        records = _records(text, delimiter, fields)
        if records is None or line_end not in (None, records.line_end):
            return None
        rest = text[records.end :]
        if len(rest) > LONGEST or (rest and not block):
            return None
        line_end = records.line_end if records.end else line_end
        inside = inside or records.line_ends_inside
    return inside


def _records(text: bytes, delimiter: int, fields: int) -> _Records | None:
    """What text begins with, if that is whole records whose quotes are all around fields."""
    cells = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(cells == _QUOTE)
    ends = _outside(quotes, np.flatnonzero(cells == _LF))
    end = int(ends[-1]) + 1 if len(ends) else 0
    cells, quotes = cells[:end], quotes[quotes < end]
    returns = np.flatnonzero(cells == _CR)
    outer_returns = _outside(quotes, returns)
    delimiters = _outside(quotes, np.flatnonzero(cells == delimiter))
    lengths = np.diff(ends, prepend=-1) - (2 if len(outer_returns) else 1)
    found = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
    if (
        not _around_fields(cells, quotes, delimiter)
        or (len(outer_returns) and not np.array_equal(outer_returns + 1, ends))
        or ((found != fields) & (lengths > 0)).any()
        or (lengths > LONGEST).any()
    ):
        return None
    inside = len(returns) > len(outer_returns) or int((cells == _LF).sum()) > len(ends)
    return _Records(end, b"\r\n" if len(outer_returns) else b"\n", inside)


def _outside(quotes: Places, places: Places) -> Places:
    """Those of the places that have an even number of quotes before them."""
    return places[np.searchsorted(quotes, places) % 2 == 0] if len(quotes) else places


def _around_fields(cells: npt.NDArray[np.uint8], quotes: Places, delimiter: int) -> bool:
    """Whether quotes that open come first in a field, and those that close last; between them they are doubled."""
    opening, closing = quotes[::2], quotes[1::2]
    before = cells[opening[opening > 0] - 1]
    after = cells[closing + 1]
    return bool(np.isin(before, [delimiter, _LF, _QUOTE]).all() and np.isin(after, [delimiter, _LF, _CR, _QUOTE]).all())


def _one_by_one(blocks: Iterator[bytes], delimiter: bytes, fields: int) -> None:
    """Raise an error about the first record that is not as it should be, if there is one."""
    rest, line, pattern = b"", 1, None
    for block in chain(blocks, [b""]):
        text = rest + block
        if pattern is None:
            pattern = _Pattern(text, delimiter, fields)
        if not block and (text := text.rstrip(b"\r\n")):
            text += pattern.line_end
        start = 0
        while (found := pattern.record.match(text, start)) and found.end() - start <= LONGEST:
            line += found[0].count(pattern.line_end)
            start = found.end()
        rest = text[start:]
        if len(rest) > LONGEST + 2 or (rest and not block):
            raise InputError(*pattern.fault(rest, line))


class _Pattern:
    """Records as regular expressions. The first line says how lines end."""

    def __init__(self, text: bytes, delimiter: bytes, fields: int) -> None:
        self._fields = fields
        mark = re.escape(delimiter)
        field = rb'(?: *+"(?:[^"]++|"")*+" *+|(?! *+")[^%b\r\n]*+)' % mark
        self._field = re.compile(rb"%b(?:%b|[\r\n]++)" % (field, mark))
        self._any_line = re.compile(rb"%b(?:%b%b)*+(\r\n|\n|\r)" % (field, mark, field))
        self._closed_early = re.compile(rb'(?:%b%b)*+ *+"(?:[^"]++|"")*+" *+[^%b\r\n]' % (field, mark, mark))
        first = self._any_line.match(text)
        self.line_end: bytes = first[1] if first else b"\n"
        record = rb"%b(?:%b%b){%d}%b?" % (field, mark, field, fields - 1, mark)  # DuckDB lets it end with a delimiter
        self.record = re.compile(rb"(?:%b)?%b" % (record, self.line_end))

    def fault(self, text: bytes, line: int) -> Explained:
        """What is wrong with the record that text begins with."""
        found = self._any_line.match(text)
        if found is None:
            return too_long(line) if len(text) > LONGEST and not self._closed_early.match(text) else bad_quote(line)
        if found.end() > LONGEST:
            return too_long(line)
        if found[1] != self.line_end:
            return not_csv(line)
        return ragged(line, len(self._field.findall(found[0])), self._fields)
