"""The tables of a release since format 4, file by file: every byte of each follows from the rows.

Parquet files are taken apart (`strict_parquet`). A text file is written again from the rows that it holds, and has to
come out as it is.
"""

from __future__ import annotations

import io
from collections.abc import Generator, MutableMapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from dalenius.errors import ReleaseError
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.verify.findings import SCHEMA, Report, plural
from dalenius.verify.strict_parquet import StrictFile


def strict_batches(
    release: ReleaseFolder, table: TableName, nulls: MutableMapping[str, int]
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a table; `nulls` are counted by column. A ReleaseError says what is not as it should be."""
    entry = release.entry(table)
    stated = [entry.rows] if entry.parts is None else [part.rows for part in entry.parts]
    lengths = GroupLengths()
    for name, rows in zip(entry.files, stated, strict=True):
        try:
            with release.store.open(name) as file:
                if name.endswith(".csv"):
                    yield from _text_batches(release, table, name, file, nulls)
                    continue
                release.admit(table, name)
                strict = StrictFile(file, release.schema(table), release.manifest.columns.bucket, rows)
                lengths.check(strict)
                for batch in strict.batches():
                    for column in batch.schema.names:
                        nulls[column] += batch.column(column).null_count
                    yield batch
        except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
            raise ReleaseError(f"{name} is damaged, or not spelled as a release is{_why(error)}") from None


class GroupLengths:
    """The groups of all parts are of one length, but for the last of each part, which may be its only one."""

    def __init__(self) -> None:
        self._repeated: set[int] = set()
        self._longest = 0

    def check(self, part: StrictFile) -> None:
        """ValueError if the next part has groups of another length than those before."""
        self._longest = max(self._longest, part.group_rows)
        if not part.is_one_group:
            self._repeated.add(part.group_rows)
        if self._repeated and self._repeated != {self._longest}:
            raise ValueError("its groups of rows are not as long as those of the parts before")


def _text_batches(
    release: ReleaseFolder, table: TableName, name: str, file: BinaryIO, nulls: MutableMapping[str, int]
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a text file, while what is written of them is compared with the file."""
    same = _SameBytes(file)
    with pyarrow.csv.CSVWriter(same, release.schema(table)) as writer:
        for batch in release.batches_of(table, name):
            writer.write(batch)
            for column in batch.schema.names:
                nulls[column] += batch.column(column).null_count
            yield batch
    same.check_end()


class _SameBytes(io.RawIOBase):
    """Takes what is written only if a file has it too."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: pa.Buffer | bytes) -> int:
        if self._file.read(len(content)) != bytes(content):
            raise ValueError("quotes, blanks, digits or ends of lines differ")
        return len(content)

    def check_end(self) -> None:
        """An error if the file goes on."""
        if self._file.read(1):
            raise ValueError("it goes on behind the last row")


def _why(error: Exception) -> str:
    """What is said of a file by code of ours; Arrow and the system would name paths and values."""
    if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
        return ": it has text that is not UTF-8"
    return f": {error}" if type(error) is ValueError else ""


def check_nulls(release: ReleaseFolder, table: TableName, nulls: MutableMapping[str, int], report: Report) -> None:
    """A column is said to have nulls if and only if it has one: there would be room for something else."""
    without = [field.name for field in release.schema(table) if field.nullable and not nulls[field.name]]
    beyond = [field.name for field in release.schema(table) if not field.nullable and nulls[field.name]]
    if without:
        are = plural(len(without), "column is", "columns are")
        report.fail(SCHEMA, f"{are} said to have nulls, and have none; the first: {without[0]!r}", len(without))
    if beyond:
        are = plural(len(beyond), "column is", "columns are")
        report.fail(SCHEMA, f"{are} said to have no nulls, and have some; the first: {beyond[0]!r}", len(beyond))
