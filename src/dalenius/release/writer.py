"""Writing one table of a release, batch by batch: into one file, or into a folder of parts.

The file holds the rows and nothing else: every byte of it follows from them (`parquet_file`).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dalenius.errors import OutputError
from dalenius.release.parquet_pages import FileWriter
from dalenius.release.two_tables import TableFile, TablePart, text_can_carry

Format = Literal["parquet", "csv", "parts"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "parts")


def published_schema(schema: pa.Schema, file_format: Format) -> pa.Schema:
    """The types that a reader will find: Parquet stores a few in a wider one, and text has times of zones in UTC.

    (In old times local clocks differed from UTC by odd seconds, which the text of a local time does not say.)
    """
    if file_format == "csv":
        for field in schema:
            if not text_can_carry(field.type):
                raise OutputError(
                    f"the column {field.name!r} has the type {field.type}, which a CSV file cannot carry",
                    "Publish as Parquet.",
                )
        return pa.schema([field.with_type(_in_utc(field.type)) for field in schema])
    stored = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.Table.from_batches([], schema), stored)
    return pyarrow.parquet.read_schema(pa.BufferReader(stored.getvalue())).remove_metadata()


def _in_utc(data_type: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(data_type) and data_type.tz is not None
    return pa.timestamp(data_type.unit, "UTC") if zoned else data_type


class TableWriter:
    """A table on its way to a file.

    Rows are stored in groups of `group`, whatever pieces they come in. Columns that the schema says are not nullable
    have no nulls, and the others have some.
    """

    def __init__(self, path: Path, schema: pa.Schema, file_format: Format, group: int, bucket: str) -> None:
        self._path, self._schema, self._format = path, schema, file_format
        self._group, self._bucket = group, bucket
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._file: _HashedFile | None = None
        self._parquet: FileWriter | None = None
        self._csv: pyarrow.csv.CSVWriter | None = None
        self._rows = 0

    def write(self, columns: Sequence[pa.Array]) -> None:
        """Append rows. Text may come as dictionaries: they are stored as text all the same."""
        fields = [field.with_type(column.type) for field, column in zip(self._schema, columns, strict=True)]
        batch = pa.record_batch(columns, schema=pa.schema(fields))
        if self._format == "csv":
            if self._csv is None:
                self._csv = pyarrow.csv.CSVWriter(self._opened(), self._schema)
            self._csv.write(batch.cast(self._schema))
        else:
            self._waiting.append(batch)
            self._waiting_rows += batch.num_rows
            if self._waiting_rows >= self._group:
                self._write_groups(self._waiting_rows - self._waiting_rows % self._group)
        self._rows += batch.num_rows

    def _write_groups(self, rows: int) -> None:
        """Write so many of the rows that wait, in row groups; the rest wait on."""
        table = pa.Table.from_batches(self._waiting)
        if self._parquet is None:
            self._parquet = FileWriter(self._opened(), self._schema, self._bucket)
        for start in range(0, rows, self._group):
            group = table.slice(start, min(self._group, rows - start)).unify_dictionaries().combine_chunks()
            self._parquet.write_group([column.chunk(0) for column in group.columns])
        self._waiting, self._waiting_rows = table.slice(rows).to_batches(), self._waiting_rows - rows

    def finish(self) -> TableFile:
        """Close the file and describe it."""
        size, digest = self.close_and_hash()
        return TableFile(file=self._path.name, rows=self._rows, bytes=size, sha256=digest, parts=None)

    def close_and_hash(self) -> tuple[int, str]:
        """Close the file; gives its length and its SHA-256."""
        if self._waiting_rows:
            self._write_groups(self._waiting_rows)
        if self._parquet is not None:
            self._parquet.finish()
        if self._csv is not None:
            self._csv.close()
            self._csv = None
        file = self._opened()
        self.close()
        return file.written, file.digest.hexdigest()

    def close(self) -> None:
        """Close the file, complete or not."""
        if self._csv is not None:
            self._csv.close()
        if self._file is not None:
            self._file.close()
        self._csv = self._parquet = self._file = None

    def _opened(self) -> _HashedFile:
        if self._file is None:
            self._file = _HashedFile(self._path)
        return self._file


class _HashedFile(io.RawIOBase):
    """A file that is written from start to end, with its SHA-256."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.digest = hashlib.sha256()
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.digest.update(content)
        self._file.write(content)
        self.written += len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


class PartsWriter:
    """A table on its way to a folder of Parquet files, each of exactly `part_rows` rows but the last.

    `part_rows` is a multiple of `group`. What is not said here is as with one file.
    """

    def __init__(self, folder: Path, schema: pa.Schema, group: int, part_rows: int, bucket: str) -> None:
        if part_rows < 1 or part_rows % group:
            raise ValueError("a part has whole row groups")
        self._folder, self._schema, self._bucket = folder, schema, bucket
        self._group, self._part_rows = group, part_rows
        self._parts: list[TablePart] = []
        self._open: TableWriter | None = None
        self._rows = 0  # in the part that is open

    def write(self, columns: Sequence[pa.Array]) -> None:
        """Append rows, on to the next part where one is full."""
        start, rows = 0, len(columns[0])
        while start < rows:
            taken = min(rows - start, self._part_rows - self._rows)
            self._writer().write([column.slice(start, taken) for column in columns])
            start, self._rows = start + taken, self._rows + taken
            if self._rows == self._part_rows:
                self._finish_part()

    def finish(self) -> TableFile:
        """Close the last part and describe the table."""
        if self._rows:
            self._finish_part()
        return TableFile.of_parts(self._folder.name, self._parts)

    def close(self) -> None:
        """Close the file that is open, complete or not."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _writer(self) -> TableWriter:
        if self._open is None:
            self._folder.mkdir(exist_ok=True)
            self._open = TableWriter(self._folder / self._name(), self._schema, "parquet", self._group, self._bucket)
        return self._open

    def _finish_part(self) -> None:
        size, digest = self._writer().close_and_hash()
        self._parts.append(TablePart(file=self._name(), rows=self._rows, bytes=size, sha256=digest))
        self._open, self._rows = None, 0

    def _name(self) -> str:
        return part_name(len(self._parts))


def part_name(number: int) -> str:
    """The name of a part, of which the first is number 0."""
    return f"part-{number:05d}.parquet"
