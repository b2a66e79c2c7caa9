"""Tables as streams of Arrow batches that can be read more than once, with the types that they came with."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dalenius.errors import ChangedInputError, InputError
from dalenius.tables.delimited import check_names, readable

BATCH_ROWS = 2**18
Batches = Generator[pa.RecordBatch, None, None]
_REFERENCE_BYTES, _SMALL_DICTIONARY = 4, 2**16
_READ_BYTES = 2**20  # at a time from each column: a row group may be as large as the file


class Source(Protocol):
    """What the stages of publishing read from."""

    @property
    def untyped(self) -> bool:
        """Whether this is a text file, in which everything is text."""

    @property
    def names(self) -> Sequence[str]:
        """All columns."""

    @property
    def rows(self) -> int | None:
        """How many rows there are, if that is known without reading them."""

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of some columns, without whatever metadata came with them."""

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows of some columns, in an order that is the same every time; text may come as dictionaries."""

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:
        """The smallest and the largest value of a column and its nulls, where the file says so; None if not."""


class ParquetSource:
    """A Parquet file, read by Arrow so that its types stay what they are."""

    untyped = False

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet  # a fifth of a second that only Parquet files need

        self._path = path
        with readable(), _whole_parquet(), pyarrow.parquet.ParquetFile(path) as file:
            self._schema: pa.Schema = file.schema_arrow
            self._metadata = file.metadata
        self._columns = {self._metadata.schema.column(i).path: i for i in range(len(self._metadata.schema))}
        self.names: Sequence[str] = self._schema.names
        self.rows: int | None = self._metadata.num_rows
        check_names(list(self.names))

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types as Arrow reads them."""
        return bare_schema(self._schema, columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the file."""
        import pyarrow.parquet

        text = [name for name in columns if _is_text(self._schema.field(name).type) and self._repeats(name)]
        text = readable_as_dictionaries(self._metadata, text)
        with (
            readable(),
            _whole_parquet(),
            pyarrow.parquet.ParquetFile(
                self._path, read_dictionary=text, pre_buffer=False, buffer_size=_READ_BYTES
            ) as file,
        ):
            if file.schema_arrow.names != self._schema.names:
                raise ChangedInputError("the table changed while it was being read", "Run again.")
            yield from file.iter_batches(batch_size=rows, columns=list(columns))

    def _repeats(self, column: str) -> bool:
        """Whether values are stored once and then referred to; reading others as dictionaries would take a lot."""
        place = self._columns.get(column)
        if place is None:
            return False
        chunks = [self._metadata.row_group(group).column(place) for group in range(self._metadata.num_row_groups)]
        stored = sum(int(chunk.total_uncompressed_size) for chunk in chunks)
        return (
            stored
            <= _REFERENCE_BYTES * sum(int(chunk.num_values) for chunk in chunks) + len(chunks) * _SMALL_DICTIONARY
        )

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:
        """From the statistics in the file's footer, if every row group has them."""
        place = self._columns.get(column)
        if place is None:
            return None
        lows, highs, nulls = [], [], 0
        for group in range(self._metadata.num_row_groups):
            chunk = self._metadata.row_group(group).column(place)
            if chunk.num_values == 0:
                continue
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            nulls += statistics.null_count
            if statistics.null_count == chunk.num_values:
                continue
            if not statistics.has_min_max:
                return None
            try:
                lows.append(statistics.min)
                highs.append(statistics.max)
            except (OverflowError, ValueError):  # a date that Python does not have
                return None
        return (min(lows), max(highs), nulls) if lows else None


def readable_as_dictionaries(metadata: Any, columns: Sequence[str]) -> list[str]:
    """Those of the columns of a Parquet file that Arrow can read as dictionaries: not if they are stored as deltas."""
    places = {metadata.schema.column(place).path: place for place in range(len(metadata.schema))}
    return [
        column
        for column in columns
        if column in places
        and not any(
            encoding.startswith("DELTA")
            for group in range(metadata.num_row_groups)
            for encoding in metadata.row_group(group).column(places[column]).encodings
        )
    ]


class TableSource:
    """A table in memory."""

    untyped = False

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.names: Sequence[str] = table.schema.names
        self.rows: int | None = table.num_rows
        check_names(list(self.names))

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of the table."""
        return bare_schema(self._table.schema, columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the table."""
        yield from self._table.select(list(columns)).to_batches(max_chunksize=rows)

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:  # noqa: ARG002
        """Nothing is known without looking."""
        return None


def bare_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Some columns of a schema, with names and types alone: metadata may name other columns, or paths."""
    return pa.schema([(name, schema.field(name).type) for name in columns])


class _whole_parquet:  # noqa: N801 (used like a function)
    """Arrow's complaints about a Parquet file without what they quote from it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, pa.ArrowException | OSError) and not isinstance(error, MemoryError):
            code = getattr(error, "errno", None)
            if isinstance(error, FileNotFoundError | PermissionError) or code:
                return
            raise InputError("the file is not a complete Parquet file") from None


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
