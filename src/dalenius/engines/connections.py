"""Connections to DuckDB, and how names and paths are written in its SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import duckdb

from dalenius.engines.sql_writer import literal


def connect(scratch: str | None, stack: ExitStack, memory: int | None = None) -> duckdb.DuckDBPyConnection:
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
    connection = stack.enter_context(duckdb.connect(":memory:", config=config))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, files: Iterable[Path] = ()) -> None:
    """From here on the connection reaches these files and its scratch folder, nothing else, whatever is executed."""
    allowed = ", ".join(literal(form) for path in files for form in dict.fromkeys([str(path), literal_path(path)]))
    for setting in (f"allowed_paths = [{allowed}]", "enable_external_access = false", "lock_configuration = true"):
        connection.execute(f"SET {setting}")


def literal_path(path: Path) -> str:
    """A path without DuckDB's wildcards: each special character as a character class of its own."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
