"""A table of any origin as a stream of Arrow batches: the reading side of publishing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dalenius.errors import ChangedInputError, InputError, UsageError
from dalenius.tables.arrow import BATCH_ROWS, Batches, ParquetSource, Source, TableSource, bare_schema
from dalenius.tables.delimited import check_names, readable
from dalenius.tables.parquet_folders import PARQUET_SUFFIXES, state_of

# what DuckDB gives to Arrow as something else: other numbers, times without their zone, its own bytes
_NOT_IN_ARROW = {"UHUGEINT", "TIME WITH TIME ZONE", "BIT", "BIGNUM", "VARINT"}


class RelationSource:
    """A text file, a folder of Parquet files, a table of a DuckDB file or a DuckDB relation."""

    def __init__(self, relation: Any, untyped: bool) -> None:
        self._relation = relation
        self.untyped = untyped
        self.rows: int | None = None
        self.names: Sequence[str] = relation.columns

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types that DuckDB gives to Arrow."""
        from dalenius.tables.table_errors import plain_errors

        with plain_errors():
            types = dict(zip(self._relation.columns, map(str, self._relation.types), strict=True))
            for name in columns:
                if types[name] in _NOT_IN_ARROW:
                    raise InputError(
                        f"the column {name!r} has the type {types[name]}, which cannot be published as it is",
                        "Turn it into text first.",
                    )
            return bare_schema(self._chosen(columns).limit(0).to_arrow_table().schema, columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the table."""
        from dalenius.tables.table_errors import naming_column, plain_errors

        with naming_column(lambda: self._unreadable(columns)), plain_errors():
            yield from _read(self._chosen(columns).to_arrow_reader(rows))

    def _unreadable(self, columns: Sequence[str]) -> str | None:
        """The first of some columns that cannot be read by itself."""
        import duckdb

        from dalenius.tables.connections import quote_name

        for name in columns:
            try:
                self._chosen([name]).aggregate(f"max({quote_name(name)})").fetchall()
            except duckdb.Error:
                return name
        return None

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:  # noqa: ARG002
        """Nothing is known without looking."""
        return None

    def _chosen(self, columns: Sequence[str]) -> Any:
        from dalenius.tables.connections import quote_name

        return self._relation.project(", ".join(quote_name(name) for name in columns))


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a reader; what DuckDB complains about comes through Arrow, and may quote a row."""
    from dalenius.tables.table_errors import explain

    batches = iter(reader)
    while True:
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowException) as error:
            if "nterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise InputError(*explain(str(error), type(error).__name__)) from None
        if batch is None:
            return
        yield batch


class FrameSource:
    """A pandas or polars DataFrame; only the columns that are asked for are turned into Arrow."""

    untyped = False

    def __init__(self, frame: Any, convert: Callable[[Any], Any]) -> None:
        self._frame, self._convert = frame, convert
        self._labels = {str(label): label for label in frame.columns}
        self.names: Sequence[str] = [str(label) for label in frame.columns]
        self.rows: int | None = len(frame)
        check_names(list(self.names))
        self._converted: dict[str, pa.ChunkedArray] = {}

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types that Arrow gives to the columns."""
        return bare_schema(self._table(columns).schema, columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the frame."""
        yield from self._table(columns).to_batches(max_chunksize=rows)

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:  # noqa: ARG002
        """Nothing is known without looking."""
        return None

    def _table(self, columns: Sequence[str]) -> pa.Table:
        for name in columns:
            if name not in self._converted:
                try:
                    column = self._convert(self._frame[self._labels[name]])
                except (pa.ArrowException, TypeError, ValueError):
                    raise InputError(
                        f"the column {name!r} holds values of more than one type, or of one that Arrow does not know",
                        "Turn it into text first.",
                    ) from None
                self._converted[name] = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        return pa.table({name: self._converted[name] for name in columns})


@contextmanager
def open_source(source: Any, table: str | None = None, memory: int | None = None) -> Iterator[Source]:
    """A table from a path (CSV, TSV, Parquet, DuckDB, a folder of Parquet files), or from Python."""
    if isinstance(source, str | os.PathLike):
        with _open_path(Path(source), table, memory) as opened:
            yield opened
        return
    in_memory = _from_python(source)
    if in_memory is not None:
        yield in_memory
    else:
        with _open_relation(source, table, memory) as relation:
            yield relation


@contextmanager
def _open_path(path: Path, table: str | None, memory: int | None) -> Iterator[Source]:
    """A file that is written to while it is open is an error at the end: its two readings may not agree."""
    with readable():
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError("the path given is not a regular file", "Give a file that can be read twice.")
        before = state_of(path) if path.exists() else None
    if path.suffix.lower() in PARQUET_SUFFIXES and path.is_file():
        if table is not None:
            raise UsageError("a table name is only for DuckDB files", "Leave the table name out.")
        yield ParquetSource(path)
    else:
        with _open_relation(path, table, memory) as relation:
            yield relation
    if before is None or state_of(path) != before:
        raise ChangedInputError("the table's file was written to while it was being read", "Run again.")


def _from_python(source: Any) -> Source | None:
    """A table in memory; None if only DuckDB knows what it is."""
    origins = {base.__module__.split(".")[0]: base.__name__ for base in reversed(type(source).__mro__)}
    if origins.get("pandas") == "DataFrame":
        return FrameSource(source, pa.Array.from_pandas)
    if origins.get("polars") in ("DataFrame", "LazyFrame"):
        return FrameSource(source.lazy().collect(), _from_polars)
    if isinstance(source, pa.Table):
        return TableSource(source)
    if isinstance(source, pa.RecordBatch):
        return TableSource(pa.Table.from_batches([source]))
    if isinstance(source, pa.RecordBatchReader):
        raise InputError("a stream of batches can be read only once, and twice is needed", "Give a Table or a path.")
    return None


def _from_polars(column: Any) -> Any:
    if str(column.dtype) == "Object":  # which Arrow gives as the addresses of the objects
        raise TypeError("a column of Python objects")
    return column.to_arrow()


@contextmanager
def _open_relation(source: Any, table: str | None, memory: int | None) -> Iterator[RelationSource]:
    from dalenius.tables.open_table import is_text_file, open_table

    text = isinstance(source, str | os.PathLike) and is_text_file(Path(source)) and not Path(source).is_dir()
    with open_table(source, table, memory) as opened:
        yield RelationSource(opened.relation, text)
