"""Writing one table of a release, batch by batch: into one file, or into a folder of parts.

The file holds the columns and nothing else: no metadata of the source, no time. What Parquet's own types cannot say
(time zones, categories) is in the Arrow schema that Arrow itself keeps in such files.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dalenius.errors import OutputError
from dalenius.release.two_tables import TableFile, TablePart, text_can_carry

Format = Literal["parquet", "csv", "parts"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "parts")

_CHUNK = 2**20


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

    Rows are stored in groups of `group`, whatever pieces they come in. `short` names integer columns of few bits, which
    are stored as such. Columns that the schema says are not nullable are stored without room for nulls, which makes
    them faster to write and to read.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, file_format: Format, group: int, short: Collection[str] = ()
    ) -> None:
        self._path, self._schema, self._format, self._short = path, schema, file_format, short
        self._group = group
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._parquet: pyarrow.parquet.ParquetWriter | None = None
        self._csv: pyarrow.csv.CSVWriter | None = None
        self._rows = 0

    def write(self, columns: Sequence[pa.Array]) -> None:
        """Append rows. Text may come as dictionaries: they are stored as text all the same."""
        fields = [field.with_type(column.type) for field, column in zip(self._schema, columns, strict=True)]
        batch = pa.record_batch(columns, schema=pa.schema(fields))
        if self._format == "csv":
            if self._csv is None:
                self._csv = pyarrow.csv.CSVWriter(self._path, self._schema)
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
            self._parquet = self._parquet_writer(table.schema)
        self._parquet.write_table(table.slice(0, rows), row_group_size=self._group)
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
            schema = base64.b64encode(self._schema.serialize()).decode()
            self._parquet.add_key_value_metadata({"ARROW:schema": schema})
        self.close()
        digest = hashlib.sha256()
        with self._path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            return file.tell(), digest.hexdigest()

    def close(self) -> None:
        """Close the file, complete or not."""
        for writer in (self._parquet, self._csv):
            if writer is not None:
                writer.close()
        self._parquet = self._csv = None

    def _parquet_writer(self, schema: pa.Schema) -> pyarrow.parquet.ParquetWriter:
        short = [name for name in schema.names if name in self._short]
        return pyarrow.parquet.ParquetWriter(
            self._path,
            schema,
            store_schema=False,
            compression="snappy",
            use_dictionary=[name for name in schema.names if name not in short],
            column_encoding=dict.fromkeys(short, "DELTA_BINARY_PACKED") or None,
            # readers skip row groups by the range of a column, and a range does not show NaN
            write_statistics=[field.name for field in schema if not pa.types.is_floating(field.type)],
        )


class PartsWriter:
    """A table on its way to a folder of Parquet files, each of exactly `part_rows` rows but the last.

    `part_rows` is a multiple of `group`. What is not said here is as with one file.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, group: int, part_rows: int, short: Collection[str] = ()
    ) -> None:
        if part_rows < 1 or part_rows % group:
            raise ValueError("a part has whole row groups")
        self._folder, self._schema, self._short = folder, schema, short
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
            self._open = TableWriter(self._folder / self._name(), self._schema, "parquet", self._group, self._short)
        return self._open

    def _finish_part(self) -> None:
        size, digest = self._writer().close_and_hash()
        self._parts.append(TablePart(file=self._name(), rows=self._rows, bytes=size, sha256=digest))
        self._open, self._rows = None, 0

    def _name(self) -> str:
        return f"part-{len(self._parts):05d}.parquet"
