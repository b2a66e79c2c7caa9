"""Writing one table of a release, batch by batch.

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
from dalenius.release.manifest import TableFile
from dalenius.release.types import text_can_carry

Format = Literal["parquet", "csv"]
FORMATS: tuple[Format, ...] = ("parquet", "csv")

_CHUNK = 2**20


def published_schema(schema: pa.Schema, form: Format) -> pa.Schema:
    """The types that a reader will find: Parquet stores a few in a wider one."""
    if form == "csv":
        for field in schema:
            if not text_can_carry(field.type):
                raise OutputError(
                    f"the column {field.name!r} has the type {field.type}, which a CSV file cannot carry",
                    "Publish as Parquet.",
                )
        return schema
    stored = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.Table.from_batches([], schema), stored)
    return pyarrow.parquet.read_schema(pa.BufferReader(stored.getvalue())).remove_metadata()


class TableWriter:
    """A table on its way to a file.

    Rows are stored in groups of `group`, whatever pieces they come in. `short` names integer columns of few bits, which
    are stored as such. Columns that the schema says are not nullable are stored without room for nulls, which makes
    them faster to write and to read.
    """

    def __init__(self, path: Path, schema: pa.Schema, form: Format, group: int, short: Collection[str] = ()) -> None:
        self._path, self._schema, self._form, self._short = path, schema, form, short
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
        if self._form == "csv":
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
            size = file.tell()
        return TableFile(file=self._path.name, rows=self._rows, bytes=size, sha256=digest.hexdigest())

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
