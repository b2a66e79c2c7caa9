"""Delimited text without an engine: header lines, files of counts, and what is wrong with a file, in words."""

from __future__ import annotations

import csv
import errno
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

from dalenius.errors import CountsError, InputError
from dalenius.model.problem import ValueCounts

Explanation = tuple[str, str]  # a message and a hint
NOT_REGULAR = "it is not a regular file"


@contextmanager
def readable() -> Iterator[None]:
    """Turn the errors of files that cannot be read, or are not text, into ours."""
    try:
        yield
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror or 'it is damaged'}") from None
    except zlib.error:
        raise InputError("the file cannot be read: it is damaged") from None
    except EOFError:
        raise InputError("the file cannot be read: it ends too early") from None
    except UnicodeError:
        raise InputError("the file is not UTF-8 text", "Save it as UTF-8.") from None


def require_regular(path: Path) -> None:
    """OSError for anything but a regular file, or a link to one: a pipe may never begin, and a device never end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, NOT_REGULAR)


def read_header(path: Path, delimiters: str) -> tuple[str, list[str]]:
    """The delimiter (the one that splits the header line into the most names) and the column names."""
    headers = {}
    for delimiter in delimiters:
        with _open_text(path) as lines:
            try:
                headers[delimiter] = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
            except csv.Error:
                continue
    if not headers:
        raise InputError("the header line is not valid CSV", 'Double the quotes inside quoted names: "".')
    delimiter = max(headers, key=lambda candidate: len(headers[candidate]))
    header = headers[delimiter]
    if not any(name.strip() for name in header):
        raise InputError("the table is empty: it has no header line")
    unnamed = [position for position, name in enumerate(header, 1) if not name.strip()]
    if unnamed:
        raise InputError(f"column {unnamed[0]} has no name in the header line", "Give every column a name.")
    check_names(header)
    return delimiter, header


def check_names(names: list[str]) -> None:
    """Refuse names that are the same but for case, which engines rename silently, and such with a null character."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if "\0" in name:
            raise InputError(f"the name of column {place} has a null character", "Rename the column.")
        if name.casefold() in seen:
            # without the name: in a file without a header line it is somebody's data
            raise InputError(
                f"columns {seen[name.casefold()]} and {place} have the same name (case does not count)",
                "Rename one of them.",
            )
        seen[name.casefold()] = place


def read_counts(path: Path) -> ValueCounts:
    """Counts from a CSV file with the header value,count."""
    with readable(), _open_text(path) as lines:
        reader = csv.reader(lines, strict=True)
        try:
            return ValueCounts.of(list(_count_rows(reader)))
        except csv.Error:
            raise CountsError(f"the counts file is not valid CSV at line {reader.line_num}") from None


def _count_rows(reader: Any) -> Iterator[tuple[str, int]]:
    header = next(reader, None)
    if header is None:
        raise CountsError("the counts file is empty", "It needs the header value,count and a line a value.")
    if [name.strip().lower() for name in header] != ["value", "count"]:
        raise CountsError(
            "the first line of the counts file is not its header", "It needs the header value,count and nothing else."
        )
    for row in reader:
        if not row:
            continue
        where = f"line {reader.line_num} of the counts file"
        if len(row) != 2:
            raise CountsError(
                f"{where} has {len(row)} fields, and 2 are wanted", "Put values with a comma in double quotes."
            )
        value, text = row
        if not re.fullmatch(r"\s*[+-]?\d{1,40}\s*", text):
            raise CountsError(f"{where}: the count of {value!r} is not a whole number")
        yield value, int(text)


def open_bytes(path: Path) -> BufferedIOBase:
    """A file as it is, or what is compressed in it."""
    require_regular(path)
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _open_text(path: Path) -> IO[str]:
    require_regular(path)
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


class FileState:
    """What a file looks like from outside: if this is the same before and after, the file was not written to."""

    def __init__(self, path: Path) -> None:
        with readable():
            state = path.stat()
        self._state = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileState) and self._state == other._state

    def __hash__(self) -> int:
        return hash(self._state)


# What is wrong with a record. Here and not in table_errors, because `plan --counts` reads text and needs no DuckDB.


def not_utf8(line: int | None) -> Explanation:
    """Bytes that are no text."""
    return f"the table is not UTF-8 text{at_line(line)}", "Save it as UTF-8."


def not_utf8_column(name: str | None) -> Explanation:
    """Bytes in a text column, of a file that is not text itself. Nobody may know of which."""
    which = f"the text column {name!r}" if name is not None else "a text column of the table"
    return (
        f"{which} has bytes that are not UTF-8",
        "Write the table anew with the column as UTF-8 text, or with the type binary.",
    )


def ragged(line: int | None, fields: int, columns: int) -> Explanation:
    """A record with more fields than the header, or fewer."""
    return (
        f"the table is ragged{at_line(line)}: {fields} fields where the header has {columns}",
        "Put values that contain the delimiter or a line break in double quotes.",
    )


def bad_quote(line: int | None) -> Explanation:
    """A quote inside a quoted value, blanks around one, or one that is not closed."""
    return (
        f"the table has a quote that does not fit{at_line(line)}",
        'Double the quotes inside quoted values: "". Leave no blanks between a quote and the delimiter.',
    )


def too_long(line: int | None) -> Explanation:
    """A record of megabytes."""
    return f"the table has a line that is too long{at_line(line)}", "Is a closing quote missing?"


def not_csv(line: int | None) -> Explanation:
    """Something else."""
    return (
        f"the table is not valid CSV{at_line(line)}",
        "Are line ends mixed (CRLF and LF), or is a quote out of place?",
    )


def at_line(line: int | None) -> str:
    """Where in the file, as far as it is known."""
    return f" at line {line}" if line is not None else ""
