"""The embedded engine: tables from files and from Python, read by DuckDB.

A sensitive value is known everywhere by its text: what DuckDB's CAST to VARCHAR makes of it, which is different for
different values of one type. Text files are read as text, so that 007 stays 007.

Whatever a table is read from, the connection reaches that file, or the files of that folder, and its own scratch
folder, and nothing else.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from dalenius.errors import (
    AbsentCodesError,
    InputError,
    NoSuchColumnError,
    NullsError,
    TooManyValuesError,
    UsageError,
)
from dalenius.model.problem import MOST_VALUES, ValueCounts
from dalenius.tables.connections import (
    attach,
    attached_table,
    attached_tables,
    connect,
    literal_path,
    lock,
    quote_name,
)
from dalenius.tables.delimited import check_names, read_header, readable, require_regular
from dalenius.tables.killable import scratch_folder
from dalenius.tables.parquet_folders import PARQUET_SUFFIXES, parquet_folder
from dalenius.tables.table_errors import naming_column, plain_errors
from dalenius.tables.text_check import is_in_one_piece

if TYPE_CHECKING:
    import pyarrow

_TEXT_SUFFIXES = {".csv": ",;|\t", ".tsv": "\t"}
_DATABASE_SUFFIXES = {".duckdb", ".ddb", ".db"}
_FOLDER = "a folder"  # in the place of a suffix
_VIEW = f"dalenius_{secrets.token_hex(8)}"  # a name that no view of somebody's file can mean
Connect = Callable[[], duckdb.DuckDBPyConnection]

_SCALAR = re.compile(r"[^(\[]*|DECIMAL\([^)]*\)|ENUM\(.*\)", re.IGNORECASE | re.DOTALL)


class Table:
    """A table that DuckDB can read, whatever it came from."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self.relation = relation
        self.columns: tuple[str, ...] = tuple(relation.columns)
        self.types: tuple[str, ...] = tuple(str(data_type) for data_type in relation.types)

    def require_column(self, column: str) -> None:
        """Refuse a column that the table does not have."""
        if column not in self.columns:
            raise NoSuchColumnError.in_table(column, self.columns)

    def query(self, select: str) -> duckdb.DuckDBPyRelation:
        """A SELECT from `source`, which is the table."""
        relation = self.relation.query(_VIEW, f"WITH source AS NOT MATERIALIZED (FROM {_VIEW}) {select}")
        if relation is None:
            raise InputError("the table cannot be read")
        return relation

    def count_by_value(
        self, column: str, null_value: str | None = None, missing: Sequence[str] = (), allow_absent: bool = False
    ) -> ValueCounts:
        """How many records carry each value of the sensitive column.

        Nulls are refused unless `null_value` gives them a name, under which they count as a value like any other. So
        do the texts that are `missing`; one that no record has is an error, unless `allow_absent`.
        """
        self.require_column(column)
        data_type = self.types[self.columns.index(column)]
        if not _SCALAR.fullmatch(data_type):
            raise InputError(
                f"the sensitive column {column!r} has the type {data_type}, and single values are wanted",
                "Unnest it, or turn it into text, first.",
            )
        name = quote_name(column)
        query = f"SELECT CAST({name} AS VARCHAR), count(*) FROM source GROUP BY 1 LIMIT {MOST_VALUES + 2}"  # noqa: S608
        with naming_column(lambda: column), plain_errors():
            rows = self.query(query).fetchall()
        if len(rows) > MOST_VALUES:
            raise TooManyValuesError.in_column(column, MOST_VALUES)
        absent = [code for code in missing if code not in {value for value, _ in rows}]
        if absent and not allow_absent:
            raise AbsentCodesError.of(absent, "missing", [value for value, _ in rows if value is not None])
        nulls = sum(count for value, count in rows if value is None or value in missing)
        pairs = {value: count for value, count in rows if value is not None and value not in missing}
        if nulls and null_value is None:
            raise NullsError.in_column(column, nulls, nulls + sum(pairs.values()))
        if nulls and null_value is not None:
            pairs[null_value] = pairs.get(null_value, 0) + nulls
        return ValueCounts.of(pairs.items())


def cast_to_text(values: pyarrow.Array) -> list[str | None]:
    """The values as DuckDB writes them; a null stays a null."""
    import pyarrow  # here and below, because text files need no Arrow

    with plain_errors(), _casting() as connection:
        relation = connection.from_arrow(pyarrow.table({"value": values}))
        return [text for (text,) in relation.project("CAST(value AS VARCHAR)").fetchall()]


def hash_values(values: pyarrow.Array) -> Any:
    """A hash of 64 bits for each of some values that are not null, as an array of numpy's."""
    import pyarrow

    with plain_errors(), _casting() as connection:
        relation = connection.from_arrow(pyarrow.table({"value": values}))
        return relation.project("hash(value) AS hash").fetchnumpy()["hash"]


def hash_agreeing(batch: pyarrow.RecordBatch) -> list[Any]:
    """Hashes of 64 bits of the rows in which the first column is not null: of it, of all others, and of all."""
    import pyarrow

    names = [f"c{place}" for place in range(batch.num_columns)]
    columns = [column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column for column in batch]
    table = pyarrow.Table.from_arrays(columns, names=names)
    sets = [names[:1], names[1:], names]
    with plain_errors(), _casting() as connection:
        relation = connection.from_arrow(table).filter("c0 IS NOT NULL")
        listed = ", ".join(f"hash({', '.join(one)}) AS h{place}" for place, one in enumerate(sets))
        found = relation.project(listed).fetchnumpy()
    return [found[f"h{place}"] for place in range(len(sets))]


@contextmanager
def _casting() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for a short list. After an error inside of DuckDB, as by a time before 00:00, it is made anew."""
    try:
        with _caster().cursor() as connection:
            yield connection
    except (duckdb.InternalException, duckdb.FatalException):
        _caster.cache_clear()
        raise


@cache
def _caster() -> duckdb.DuckDBPyConnection:
    """A DuckDB for short lists of values, kept because a new one takes longer than they do. It has no threads."""
    connection = connect(None, ExitStack(), threads=1)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # for cursors, which have settings of their own
    return connection


@contextmanager
def open_table(source: Any, table: str | None = None, memory: int | None = None) -> Iterator[Table]:
    """A table from a path (CSV, TSV, Parquet, DuckDB, a folder of Parquet files), or from Python.

    From Python come pandas and polars DataFrames, what pyarrow has, and DuckDB relations.

    `memory` is the most, in bytes, that DuckDB may take before it spills.
    """
    with ExitStack() as stack:
        if isinstance(source, duckdb.DuckDBPyRelation):
            relation = source  # its connection is the caller's, and so are its settings
        else:
            scratch = stack.enter_context(scratch_folder())
            if isinstance(source, str | os.PathLike):
                relation = _from_path(Path(source), table, partial(connect, scratch, stack, memory))
            else:
                connection = connect(scratch, stack, memory)
                lock(connection)
                relation = _from_python(source, connection)
        with plain_errors():
            opened = Table(relation)
        yield opened


def file_suffix(path: Path) -> str:
    """The suffix that says what kind of table a file holds: .gz does not count."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]


def is_text_file(path: Path) -> bool:
    """Whether a file's name says that it is CSV or TSV."""
    return file_suffix(path) in _TEXT_SUFFIXES


def _from_path(path: Path, table: str | None, connect_new: Connect) -> duckdb.DuckDBPyRelation:
    with readable():
        if not path.exists():
            raise InputError("there is no file at the path given", "Check the path.")
        if not path.is_dir():
            require_regular(path)
        suffix = file_suffix(path) if not path.is_dir() else _FOLDER
    if table is not None and suffix not in _DATABASE_SUFFIXES:
        raise UsageError("a table name is only for DuckDB files", "Leave the table name out.")
    with readable(), plain_errors():
        if suffix == _FOLDER:
            return _from_folder(path.resolve(), connect_new())
        if suffix in _TEXT_SUFFIXES:
            return _from_text(path, _TEXT_SUFFIXES[suffix], connect_new())
        if suffix in PARQUET_SUFFIXES:
            return _from_parquet(path.resolve(), connect_new())
        if suffix in _DATABASE_SUFFIXES:
            connection = connect_new()
            attach(path.resolve(), connection)
            return attached_table(connection, table)
    raise InputError(
        f"files of the kind {path.suffix!r} are not read",
        "Give a .csv, .tsv, .parquet or .duckdb file (.csv.gz and .tsv.gz too), or a folder of Parquet files.",
    )


def _from_text(path: Path, delimiters: str, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """A text file with exactly the columns of its header line, all of them as text."""
    delimiter, header = read_header(path, delimiters)
    in_one_piece = is_in_one_piece(path, delimiter, len(header))
    real = path.resolve()
    lock(connection, [real])
    return connection.read_csv(
        literal_path(real),
        sep=delimiter,
        quotechar='"',
        escapechar='"',
        header=True,
        auto_detect=False,
        columns=dict.fromkeys(header, "VARCHAR"),
        strict_mode=True,
        parallel=not in_one_piece,
        hive_partitioning=False,
        allow_quoted_nulls=False,
        compression="gzip" if path.suffix.lower() == ".gz" else "none",
    )


def _from_parquet(path: Path, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    import pyarrow.parquet  # a fifth of a second that only Parquet files need

    try:
        names = pyarrow.parquet.read_schema(path).names
    except (pyarrow.ArrowException, OSError):
        raise InputError("the file is not a complete Parquet file") from None
    check_names(names)
    lock(connection, [path])
    return connection.read_parquet(literal_path(path), hive_partitioning=False)


def _from_folder(folder: Path, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """All files of a folder, with the columns that folders below it name, and not those that folders above do."""
    parquet = parquet_folder(folder)
    lock(connection, parquet.files)
    relation = connection.read_parquet(
        [literal_path(path) for path in parquet.files], hive_partitioning=bool(parquet.keys), union_by_name=False
    )
    return relation.project(", ".join(quote_name(name) for name in (*parquet.columns, *parquet.keys)))


def tables_of_file(path: Path, views: bool = True) -> list[str]:
    """The tables of a DuckDB file, as `open_table` names them; none of a file of another kind."""
    if file_suffix(path) not in _DATABASE_SUFFIXES:
        return []
    with readable(), plain_errors(), ExitStack() as stack:
        require_regular(path)
        connection = connect(None, stack)
        attach(path.resolve(), connection)
        return list(attached_tables(connection, views))


def _from_python(source: Any, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    import pyarrow

    origins = {base.__module__.split(".")[0]: base.__name__ for base in reversed(type(source).__mro__)}
    try:
        if origins.get("pandas") == "DataFrame":
            check_names([str(name) for name in source.columns])
            return connection.from_df(source)
        if origins.get("polars") in ("DataFrame", "LazyFrame"):
            return _from_arrow(_without_objects(source.lazy().collect()).to_arrow(), connection)
        if "pyarrow" in origins and hasattr(source, "schema") and hasattr(source.schema, "names"):
            return _from_arrow(source, connection)
    except (duckdb.Error, pyarrow.ArrowException, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"the table has a column of a type that cannot be read ({type(error).__name__})",
            "Turn columns of unusual types into text, or leave them out.",
        ) from None
    raise InputError(
        f"a table of the type {type(source).__module__.split('.')[0]}.{type(source).__name__} is not read",
        "Give a path, a pandas or polars DataFrame, a pyarrow Table, a DuckDB relation, or a dict of counts.",
    )


def _from_arrow(source: Any, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    import pyarrow

    check_names(source.schema.names)
    if isinstance(source, pyarrow.RecordBatch):
        source = pyarrow.Table.from_batches([source])
    if isinstance(source, pyarrow.Table):
        source = pyarrow.table({name: _readable(source.column(name)) for name in source.schema.names})
    if any(pyarrow.types.is_fixed_size_binary(field.type) for field in source.schema):
        raise InputError("the table has a column of raw bytes of a fixed length", "Turn it into text first.")
    return connection.from_arrow(source)


def _readable(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """A column in a type that DuckDB reads, if there is one that holds the same."""
    import pyarrow

    from dalenius.tables.arrays import widened

    if pyarrow.types.is_dictionary(column.type):
        inner = column.type.value_type
        return column if pyarrow.types.is_string(inner) else _readable(column.cast(inner))
    return column.cast(pyarrow.binary()) if pyarrow.types.is_fixed_size_binary(column.type) else widened(column)


def _without_objects(frame: Any) -> Any:
    """A frame of polars; its Python objects would come to Arrow as their addresses."""
    if any(str(kind) == "Object" for kind in frame.dtypes):
        raise InputError("the table has a column of Python objects", "Turn it into text first.")
    return frame
