"""The embedded engine: tables from files and from Python, read by DuckDB. The only module that knows it.

A sensitive value is known everywhere by its text: what DuckDB's CAST to VARCHAR makes of it, which is different for
different values of one type. CSV files are read as text, so that 007 stays 007.

DuckDB's own messages may quote the data, so they are never passed on.
"""

from __future__ import annotations

import csv
import gzip
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import duckdb

from dalenius.errors import CountsError, InputError, NoSuchColumnError, NullsError, UsageError
from dalenius.model.nearest import did_you_mean
from dalenius.model.problem import ValueCounts

_MOST_VALUES = 100_000
_TEXT_SUFFIXES = {".csv": ",;|\t", ".tsv": "\t"}
_DATABASE_SUFFIXES = {".duckdb", ".ddb", ".db"}
_SCALAR = re.compile(r"^(?!.*(\[|\())|^(DECIMAL|ENUM)\(", re.IGNORECASE)


class Table:
    """A table that DuckDB can read, whatever it came from."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation
        self.columns: tuple[str, ...] = tuple(relation.columns)
        self.types: tuple[str, ...] = tuple(str(kind) for kind in relation.types)

    def require_column(self, column: str) -> None:
        """Refuse a column that the table does not have, naming the nearest one."""
        if column not in self.columns:
            raise NoSuchColumnError(f"the table has no column {column!r}", did_you_mean(column, self.columns))

    def count_by_value(self, column: str, null_value: str | None = None) -> ValueCounts:
        """How many records carry each value of the sensitive column.

        Nulls are refused unless `null_value` gives them a name, under which they count as a value like any other.
        """
        self.require_column(column)
        kind = self.types[self.columns.index(column)]
        if not _SCALAR.match(kind):
            raise InputError(
                f"the sensitive column {column!r} has the type {kind}, and single values are wanted",
                "Unnest it, or turn it into text, first.",
            )
        name = _quoted(column)
        with _plain_errors():
            counted = self._relation.query(
                "source",
                f"SELECT CAST({name} AS VARCHAR), count(*) FROM source GROUP BY 1 LIMIT {_MOST_VALUES + 2}",  # noqa: S608
            )
            rows = counted.fetchall() if counted is not None else []
        if len(rows) > _MOST_VALUES:
            raise InputError(
                f"the sensitive column {column!r} has more than {_MOST_VALUES:,} different values",
                "Is it an identifier, or a measurement? Group its values first.",
            )
        nulls = sum(count for value, count in rows if value is None)
        pairs = {value: count for value, count in rows if value is not None}
        if nulls and null_value is None:
            raise NullsError(
                f"the sensitive column {column!r} has {nulls:,} nulls in {nulls + sum(pairs.values()):,} rows",
                "Say what they mean with --null-value NAME (they then count as that value), "
                "or take those rows out of the table first.",
            )
        if nulls and null_value is not None:
            pairs[null_value] = pairs.get(null_value, 0) + nulls
        return ValueCounts.of(pairs.items())


@contextmanager
def open_table(source: Any, table: str | None = None) -> Iterator[Table]:
    """A table from a path (CSV, TSV, Parquet, DuckDB), or from pandas, polars, pyarrow or a DuckDB relation."""
    with ExitStack() as stack:
        if isinstance(source, duckdb.DuckDBPyRelation):
            yield Table(source)
            return
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="dalenius-"))
        if isinstance(source, str | Path):
            relation = _from_path(Path(source), table, scratch, stack)
        else:
            relation = _from_python(source, _connect(scratch, stack))
        yield Table(relation)


def read_counts(path: Path) -> ValueCounts:
    """Counts from a CSV file with the header value,count."""
    with _readable(), _open_text(path) as lines:
        reader = csv.reader(lines, strict=True)
        try:
            return ValueCounts.of(list(_count_rows(reader)))
        except csv.Error as error:
            raise CountsError(f"the counts file is not valid CSV at line {reader.line_num}: {error}") from None


def _count_rows(reader: Any) -> Iterator[tuple[str, int]]:
    header = next(reader, None)
    if header is None:
        raise CountsError("the counts file is empty", "It needs the header value,count and a line a value.")
    names = [name.strip().lower() for name in header]
    if names != ["value", "count"]:
        raise CountsError(
            f"the counts file has the header {','.join(header)!r}",
            "It needs the header value,count and nothing else.",
        )
    for row in reader:
        if not row:
            continue
        if len(row) != 2:
            raise CountsError(
                f"line {reader.line_num} of the counts file has {len(row)} fields, and 2 are wanted",
                "Put values that contain a comma in double quotes.",
            )
        value, text = row
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
            raise CountsError(
                f"line {reader.line_num} of the counts file: the count of {value!r} is not a whole number"
            )
        yield value, int(text)


def _connect(
    scratch: str, stack: ExitStack, database: str = ":memory:", read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": scratch,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return stack.enter_context(duckdb.connect(database, read_only=read_only, config=config))


def _from_path(path: Path, table: str | None, scratch: str, stack: ExitStack) -> duckdb.DuckDBPyRelation:
    if not path.exists():
        raise InputError("there is no file at the path given", "Check the path.")
    if path.is_dir():
        raise InputError("the path given is a folder, and a file is wanted")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]
    if table is not None and kind not in _DATABASE_SUFFIXES:
        raise UsageError("a table name is only for DuckDB files", "Leave --table out.")
    with _readable(), _plain_errors():
        if kind in _TEXT_SUFFIXES:
            return _from_text(path, _TEXT_SUFFIXES[kind], _connect(scratch, stack))
        if kind in (".parquet", ".pq"):
            return _connect(scratch, stack).read_parquet(_literal_path(path))
        if kind in _DATABASE_SUFFIXES:
            return _from_database(_connect(scratch, stack, str(path), read_only=True), table)
    raise InputError(
        f"files of the kind {path.suffix!r} are not read",
        "Give a .csv, .tsv, .parquet or .duckdb file (.csv.gz and .tsv.gz too).",
    )


def _from_text(path: Path, delimiters: str, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """A text file with exactly the columns of its header line, all of them as text."""
    delimiter, header = _header(path, delimiters)
    return connection.read_csv(
        _literal_path(path),
        sep=delimiter,
        quotechar='"',
        escapechar='"',
        header=True,
        auto_detect=False,
        columns=dict.fromkeys(header, "VARCHAR"),
        strict_mode=True,
    )


def _header(path: Path, delimiters: str) -> tuple[str, list[str]]:
    """The delimiter (the one that splits the first line most) and the column names."""
    with _open_text(path) as lines:
        first = lines.readline()
        if not first.strip():
            raise InputError("the table is empty: it has no header line")
        delimiter = max(delimiters, key=first.count)
        lines.seek(0)
        try:
            header = next(csv.reader(lines, delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise InputError(f"the header line is not valid CSV: {error}") from None
    if any(not name.strip() for name in header):
        raise InputError(
            f"column {[bool(name.strip()) for name in header].index(False) + 1} has no name in the header line"
        )
    folded = [name.casefold() for name in header]
    twice = next((name for name in header if folded.count(name.casefold()) > 1), None)
    if twice is not None:
        raise InputError(f"the header line has the column {twice!r} twice (case does not count)", "Rename one of them.")
    return delimiter, header


def _from_database(connection: duckdb.DuckDBPyConnection, table: str | None) -> duckdb.DuckDBPyRelation:
    rows = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
    names = [name for (name,) in rows]
    if table is None and len(names) == 1:
        table = names[0]
    if table is None:
        raise UsageError(
            f"the DuckDB file has {len(names)} tables: {', '.join(map(repr, names[:12]))}",
            "Choose one with --table NAME.",
        )
    if table not in names:
        raise InputError(f"the DuckDB file has no table {table!r}", did_you_mean(table, names))
    return connection.table(_quoted(table))


def _from_python(source: Any, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    origin = type(source).__module__.split(".")[0]
    with _plain_errors():
        if origin == "pandas":
            return connection.from_df(source)
        if origin == "polars" and hasattr(source, "to_arrow"):
            return connection.from_arrow(source.to_arrow())
        if origin == "pyarrow":
            return connection.from_arrow(source)
    raise InputError(
        f"a table of the type {origin}.{type(source).__name__} is not read",
        "Give a path, a pandas or polars DataFrame, a pyarrow Table, a DuckDB relation, or a dict of counts.",
    )


def _open_text(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def _readable() -> Iterator[None]:
    """Files that cannot be read, or are not text, as errors of ours."""
    try:
        yield
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror or 'it is damaged'}") from None
    except EOFError:
        raise InputError("the file cannot be read: it ends too early") from None
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", "Save it as UTF-8.") from None


@contextmanager
def _plain_errors() -> Iterator[None]:
    """DuckDB's errors without what they quote from the data."""
    try:
        yield
    except duckdb.Error as error:
        raise InputError(*_explained(str(error), type(error).__name__)) from None


def _explained(message: str, kind: str) -> tuple[str, str]:
    line = re.search(r"(?:CSV Error on )?Line: (\d+)", message)
    where = f" at line {line[1]}" if line else ""
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if columns:
        return (
            f"the table is ragged{where}: {columns[2]} fields where the header has {columns[1]}",
            "Put values that contain the delimiter or a line break in double quotes.",
        )
    if "quote" in message.lower() and where:
        return (
            f"the table has a quote that does not fit{where}",
            'Double the quotes inside quoted values: "".',
        )
    if "nicode" in message or "UTF-8" in message or "utf-8" in message:
        return f"the table is not UTF-8 text{where}", "Save it as UTF-8."
    return (
        f"the table cannot be read{where}: DuckDB says {kind}",
        "Is the file complete, and of the kind its name says?",
    )


def _literal_path(path: Path) -> str:
    """A path without DuckDB's wildcards: each special character as a character class of its own."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
