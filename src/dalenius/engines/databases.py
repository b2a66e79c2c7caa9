"""DuckDB files, which anybody may have made: what they define is theirs, and reaches nothing but the file.

A file is attached beside the connection's own catalog, which is where the names in our SQL are looked up: a function of
the file does not stand in for a built-in one. Views are the file's own SQL. They are read, but the connection is locked
first, so that neither they nor computed columns can read any other file of this machine.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb

from dalenius.engines.connections import lock, quoted
from dalenius.engines.sql_writer import literal
from dalenius.errors import InputError, UsageError
from dalenius.model.nearest import did_you_mean

_ATTACHED = "dalenius_attached_file"
_FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")  # the file itself, and what may lie beside it


def attach(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """Attach a DuckDB file (a path without links), and lock the connection."""
    before, mark, after = str(path).partition("?")  # to DuckDB, what comes then is not part of the name
    lock(connection, [Path(f"{before}{suffix}{mark}{after}") for suffix in _FILES])
    connection.execute(f"ATTACH {literal(str(path))} AS {_ATTACHED} (TYPE duckdb, READ_ONLY)")


def attached_table(connection: duckdb.DuckDBPyConnection, table: str | None) -> duckdb.DuckDBPyRelation:
    """A table of the attached file, or the only one that it has."""
    tables = attached_tables(connection)
    if not tables:
        raise InputError("the DuckDB file has no tables")
    if table is None and len(tables) == 1:
        table = next(iter(tables))
    if table is None:
        listed = ", ".join(map(repr, list(tables)[:12]))
        raise UsageError(f"the DuckDB file has {len(tables)} tables: {listed}", "Choose one with --table NAME.")
    if table not in tables:
        raise InputError(f"the DuckDB file has no table {table!r}", did_you_mean(table, tables))
    schema, name = tables[table]
    try:
        return connection.sql(f"SELECT * FROM {_ATTACHED}.{quoted(schema)}.{quoted(name)}")  # noqa: S608
    except (duckdb.CatalogException, duckdb.BinderException):
        raise InputError(
            f"the table {table!r} is computed from something that is not built in, or not there",
            "Copy it in DuckDB (CREATE TABLE copied AS FROM ...), and give the copy.",
        ) from None


def attached_tables(connection: duckdb.DuckDBPyConnection, views: bool = True) -> dict[str, tuple[str, str]]:
    """Schema and name of each table; without `views`, only of base tables whose name here stands for nothing else."""
    rows = connection.execute(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        "WHERE table_catalog = ? ORDER BY ALL",
        [_ATTACHED],
    ).fetchall()
    names = [name if schema == "main" else f"{schema}.{name}" for schema, name, _ in rows]
    often = Counter(names)
    return {
        shown: (schema, name)
        for shown, (schema, name, kind) in zip(names, rows, strict=True)
        if views or (kind == "BASE TABLE" and often[shown] == 1)
    }
