"""Connections to DuckDB, what they may reach, and how names and paths are written in its SQL.

Anybody may have made a DuckDB file. What it defines is its own, and reaches nothing but the file: it is attached beside
the connection's own catalog, which is where the names in our SQL are looked up, so that a function of the file does not
stand in for a built-in one. Views are the file's own SQL. They are read, but the connection is locked first, so that
neither they nor computed columns can read any other file of this machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb

from dalenius.errors import InputError, UsageError, did_you_mean

_ATTACHED = "dalenius_attached_file"
_FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")  # the file itself, and what may lie beside it


def connect(
    scratch: str | None, stack: ExitStack, memory: int | None = None, threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """A connection that spills into `scratch`, fetches no extensions and is closed with the stack.

    Times with a zone are written in UTC: their text must not depend on where the program runs.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if scratch is not None:
        config["temp_directory"] = scratch
    if memory is not None:
        config["memory_limit"] = f"{memory}B"
    if threads is not None:
        config["threads"] = threads
    connection = stack.enter_context(duckdb.connect(":memory:", config=config))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, files: Iterable[Path] = ()) -> None:
    """From here on the connection reaches these files and its scratch folder, nothing else, whatever is executed."""
    allowed = ", ".join(literal(text) for path in files for text in dict.fromkeys([str(path), literal_path(path)]))
    for setting in (f"allowed_paths = [{allowed}]", "enable_external_access = false", "lock_configuration = true"):
        connection.execute(f"SET {setting}")


def literal(text: str) -> str:
    """Text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def literal_path(path: Path) -> str:
    """A path without DuckDB's wildcards: each special character as a character class of its own."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def quote_name(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def named_nulls(text: str, null_value: str | None, missing: Sequence[str] = ()) -> str:
    """SQL for a text under the name of nulls where it is null, or a code for what is missing."""
    if null_value is None:
        return text
    name = literal(null_value)
    if missing:
        text = f"CASE WHEN {text} IN ({literals(missing)}) THEN {name} ELSE {text} END"
    return f"coalesce({text}, {name})"


def literals(texts: Sequence[str]) -> str:
    """Texts as a list in SQL."""
    return ", ".join(map(literal, texts))


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
        return connection.sql(f"SELECT * FROM {_ATTACHED}.{quote_name(schema)}.{quote_name(name)}")  # noqa: S608
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
    number_of = Counter(names)
    return {
        full: (schema, name)
        for full, (schema, name, kind) in zip(names, rows, strict=True)
        if views or (kind == "BASE TABLE" and number_of[full] == 1)
    }
