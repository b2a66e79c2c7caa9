"""A release on disk, as a stream of Arrow batches. Reading trusts nothing: what the files say is checked elsewhere."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dalenius.errors import ReleaseError
from dalenius.release.manifest import Column, Manifest, TableFile, read_manifest
from dalenius.release.types import is_text, named_type

TableName = Literal["qit", "st"]
BATCH_ROWS = 2**18


@dataclass(frozen=True)
class ReleaseFolder:
    """The folder of a release and its manifest."""

    path: Path
    manifest: Manifest

    def file(self, table: TableName) -> Path:
        """Where a table is."""
        return self.path / self._entry(table).file

    def schema(self, table: TableName) -> pa.Schema:
        """The columns that the manifest says a table has, with their types."""
        columns = self.manifest.columns
        bucket = Column(name=columns.bucket, type="int64")
        ordered = [*columns.quasi_identifiers, bucket] if table == "qit" else [bucket, columns.sensitive]
        try:
            return pa.schema([(column.name, named_type(column.type)) for column in ordered])
        except ValueError as error:
            raise ReleaseError(f"the manifest names a type that cannot be: {error}") from None

    def batches(
        self, table: TableName, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS, coded: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows in the order of the file. `coded` gives text columns as dictionaries, which is much faster."""
        name = self._entry(table).file
        try:
            if name.endswith(".csv"):
                yield from self._csv_batches(table, columns, rows)
            else:
                yield from self._parquet_batches(table, columns, rows, coded)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else "it is damaged"  # Arrow's own words have the path
            raise ReleaseError(f"{self._entry(table).file} cannot be read: {why}") from None
        except (pa.ArrowException, ValueError):
            raise ReleaseError(f"{name} is damaged, or not what the manifest says it is") from None

    def table(self, table: TableName) -> pa.Table:
        """A whole table, in memory."""
        schema = self.schema(table)
        batches = [batch.cast(schema) for batch in self.batches(table)]
        return pa.Table.from_batches(batches, schema)

    def _entry(self, table: TableName) -> TableFile:
        return self.manifest.tables.qit if table == "qit" else self.manifest.tables.st

    def _parquet_batches(
        self, table: TableName, columns: Sequence[str] | None, rows: int, coded: bool
    ) -> Generator[pa.RecordBatch, None, None]:
        chosen = list(columns) if columns is not None else self.schema(table).names
        text = [name for name in chosen if is_text(self.schema(table).field(name).type)] if coded else None
        with pyarrow.parquet.ParquetFile(self.file(table), read_dictionary=text, pre_buffer=False) as file:
            yield from file.iter_batches(batch_size=rows, columns=chosen)

    def _csv_batches(
        self, table: TableName, columns: Sequence[str] | None, rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        schema = self.schema(table)
        options: dict[str, Any] = {
            "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in schema.names},
                include_columns=list(columns) if columns is not None else schema.names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }
        with pyarrow.csv.open_csv(self.file(table), **options) as reader:
            for batch in reader:
                typed = pa.schema([schema.field(name) for name in batch.schema.names])
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows).cast(typed)


def open_release(folder: Path) -> ReleaseFolder:
    """The release in a folder, its manifest checked."""
    return ReleaseFolder(folder, read_manifest(folder))
