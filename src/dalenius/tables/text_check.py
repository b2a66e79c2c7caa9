"""Whether a text file is whole, before an engine reads it: quotes that pair, and as many fields as the header has.

DuckDB cuts a text file into pieces, and looks for the first record of each. A record that is not as it should be may
then be taken for the end of another one and be lost without a word, with all that follows in its piece; so may records
with line ends inside their values. Nobody would notice rows that are missing from a release. So records are checked
here first, and a file with such values is not cut into pieces (`is_in_one_piece`).

A field is in quotes (doubled inside), or it is text without delimiters and line ends that does not begin with a quote.
Blanks around quotes are refused: DuckDB drops them, and to others they are part of the value, with quotes or without.
Every record has as many fields as the header, where DuckDB would let one end with a delimiter. All lines end alike. An
empty line is no record.

Most text is checked at a glance, by the places of its delimiters, quotes and line ends. Where quotes stand anywhere but
around fields, and where something is wrong, regular expressions say what is a record.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dalenius.errors import InputError
from dalenius.tables.delimited import Explanation, FileState, bad_quote, not_csv, not_utf8, open_bytes, ragged, too_long

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Truths = npt.NDArray[np.bool_]

LONGEST = 2_000_000  # bytes in a record, as in DuckDB
_BLOCK = 2**22
_QUOTE, _LF, _CR = b'"\n\r'


def is_in_one_piece(path: Path, delimiter: str, fields: int) -> bool:
    """Check all records of a text file; whether it must be read from its beginning to its end, by one thread."""
    return _check_records(path, FileState(path), delimiter.encode(), fields)


@lru_cache(maxsize=16)  # a table is opened more than once
def _check_records(path: Path, state: FileState, delimiter: bytes, fields: int) -> bool:  # noqa: ARG001
    check = _Check(delimiter, fields)
    with open_bytes(path) as file:
        block = file.read(_BLOCK).removeprefix(codecs.BOM_UTF8)
        while block:
            check.go_on(block)
            block = file.read(_BLOCK)
    check.go_on(b"")
    return check.in_one_piece


class _Check:
    """Goes through a file block by block. What is left of a block is the beginning of a record."""

    def __init__(self, delimiter: bytes, fields: int) -> None:
        self.in_one_piece = False
        self._delimiter, self._fields = delimiter, fields
        self._rest, self._line = b"", 1
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._grammar: _Grammar | None = None

    def go_on(self, block: bytes) -> None:
        """Check the records that end in a block; an empty one is the end of the file, and of the last record."""
        self._require_utf8(block)
        text = self._rest + block
        if self._grammar is None:
            self._grammar = _Grammar(text, self._delimiter, self._fields)
        if not block and text:
            text += self._grammar.line_end
        most_left = LONGEST if block else 0
        end = self._end_at_a_glance(text, self._grammar.line_end)
        if end is None or len(text) - end > most_left:
            self.in_one_piece = True
            end = self._grammar.end_of_records(text)
        self._line += text.count(self._grammar.line_end, 0, end)
        self._rest = text[end:]
        if len(self._rest) > most_left:
            raise InputError(*self._grammar.fault(self._rest, self._line))

    def _require_utf8(self, block: bytes) -> None:
        begun = self._decoder.getstate()[0]
        if begun or not block.isascii():
            try:
                self._decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                before = self._rest.removesuffix(begun) + error.object[: error.start]
                raise InputError(*not_utf8(self._line + before.count(b"\n"))) from None

    def _end_at_a_glance(self, text: bytes, line_end: bytes) -> int | None:
        """Where the records end that text begins with; None if something is unusual about them."""
        import numpy as np  # here, because queries need names checked and no arrays

        if line_end == b"\r":
            return None
        cells = np.frombuffer(text, np.uint8)
        outside = _outside(cells) if b'"' in text else None
        ends = _places(cells, _LF, outside)
        if not len(ends):
            return 0
        end = int(ends[-1]) + 1
        cells, outside = cells[:end], outside[:end] if outside is not None else None
        lengths = np.diff(ends, prepend=-1)
        fields = np.diff(np.searchsorted(_places(cells, self._delimiter[0], outside), ends), prepend=0) + 1
        returns = _places(cells, _CR, outside) if b"\r" in text else ends[:0]
        if (
            not np.array_equal(returns, ends - 1 if line_end == b"\r\n" else ends[:0])
            or ((fields != self._fields) & (lengths > len(line_end))).any()
            or (lengths > LONGEST).any()
        ):
            return None
        if outside is not None:
            if not _around_fields(cells, self._delimiter[0]):
                return None
            line_ends_inside = ((cells == _LF) | (cells == _CR)) & ~outside
            self.in_one_piece = self.in_one_piece or bool(line_ends_inside.any())
        return end


def _outside(cells: Bytes) -> Truths:
    """Which bytes have an even number of quotes up to them."""
    import numpy as np

    inside: Truths = np.logical_xor.accumulate(cells == _QUOTE)
    return ~inside


def _places(cells: Bytes, byte: int, where: Truths | None = None) -> npt.NDArray[np.int64]:
    import numpy as np

    same = cells == byte
    return np.flatnonzero(same if where is None else same & where)


def _around_fields(cells: Bytes, delimiter: int) -> bool:
    """Whether quotes that open come first in a field, and those that close last; between them they are doubled."""
    import numpy as np

    quotes = _places(cells, _QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    before, after = cells[opening[opening > 0] - 1], cells[closing + 1]
    return bool(np.isin(before, [delimiter, _LF, _QUOTE]).all() and np.isin(after, [delimiter, _LF, _CR, _QUOTE]).all())


class _Grammar:
    """Records as regular expressions. The first line of a file says how lines end.

    A possessive group that fails halfway through its last repetition leaves Python before 3.11.5 at the wrong place
    (gh-106052). So repetitions whose end matters are counted here, many at a time.
    """

    def __init__(self, text: bytes, delimiter: bytes, fields: int) -> None:
        self._fields = fields
        mark = re.escape(delimiter)
        quoted = rb'"(?:[^"]++|"")*+"'
        field = rb'(?:%b|(?! *+")[^%b\r\n]*+)' % (quoted, mark)
        self._field = re.compile(rb"%b(?:%b|[\r\n]++)" % (field, mark))
        self._any_line = re.compile(rb"%b(?:%b%b)*+(\r\n|\n|\r)" % (field, mark, field))
        self._whole_fields = re.compile(rb"(?:%b%b){1,1000}" % (field, mark))
        self._stray_quote = re.compile(rb'%b[^%b\r\n]| ++"' % (quoted, mark))
        first = self._any_line.match(text)
        self.line_end: bytes = first[1] if first else b"\n"
        record = rb"%b(?:%b%b){%d}" % (field, mark, field, fields - 1)
        self._records = re.compile(rb"(?:(?:%b)?%b){1,1000}" % (record, self.line_end))

    def end_of_records(self, text: bytes) -> int:
        """Where the records end that text begins with."""
        return _end_of_all(self._records, text)

    def fault(self, text: bytes, line: int) -> Explanation:
        """What is wrong with the record that text begins with."""
        line_match = self._any_line.match(text)
        if line_match is None:
            stray = self._stray_quote.match(text, _end_of_all(self._whole_fields, text))
            return bad_quote(line) if stray or len(text) <= LONGEST else too_long(line)
        if line_match.end() > LONGEST:
            return too_long(line)
        if line_match[1] != self.line_end:
            return not_csv(line)
        return ragged(line, len(self._field.findall(line_match[0])), self._fields)


def _end_of_all(pattern: re.Pattern[bytes], text: bytes) -> int:
    """Where the matches end, one right after another, that text begins with."""
    end = 0
    while match := pattern.match(text, end):
        end = match.end()
    return end
