"""The same condition on the table that a release was made of: what is true, for whoever holds that table.

The columns come in the types of the release and under the same identifiers, so that a condition means the same in both
places. They come as a stream into a connection that reaches no file at all; only counts leave it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dalenius.engines.connections import connect, lock, quoted
from dalenius.engines.counting import Group, ReleaseTables, same_group
from dalenius.engines.duckdb import open_table
from dalenius.engines.query_errors import query_errors
from dalenius.engines.sql_writer import literal
from dalenius.engines.table_errors import plain_errors
from dalenius.errors import QueryError

_MEMORY = 10**9  # bytes, before either connection spills
_BATCH_ROWS = 2**17


@dataclass(frozen=True)
class GroupCounts:
    """Matching records by group (one empty group if there is nothing to group by), and all records of the table."""

    counts: dict[Group, int]
    total: int


def true_counts(
    tables: ReleaseTables,
    source: Any,
    table: str | None,
    condition: str,
    columns: Collection[str],
    by: Sequence[str] = (),
    null_value: str | None = None,
    most_groups: int = 100_000,
) -> GroupCounts:
    """Count records of `source` that meet a condition in checked SQL (of `ReleaseTables.conditions`).

    `columns` are those that the condition names. Nulls of the sensitive column are the value `null_value` where the
    release has them so.
    """
    needed = [name for name in tables.identifiers if name in {*columns, *by}]
    groups, shown, _ = tables.grouped(by)
    with ExitStack() as stack:
        opened = stack.enter_context(open_table(source, table, _MEMORY))
        for name in needed:
            opened.require_column(name)
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="dalenius-"))
        connection = connect(scratch, stack, _MEMORY)
        with plain_errors():
            chosen = [_as_published(tables, name, null_value) for name in needed]
            stream = opened.relation.project(", ".join([*chosen, "0 AS nothing"])).to_arrow_reader(_BATCH_ROWS)
            connection.register("truth", stream)
            lock(connection)
        grouped = f"GROUP BY {groups.rstrip(', ')}" if by else ""
        query = f"SELECT {shown} count(*) FILTER (WHERE {condition}), count(*) FROM truth {grouped}"  # noqa: S608
        try:
            with query_errors():
                rows = connection.execute(f"{query} LIMIT {most_groups + 1}").fetchall()
        except pa.ArrowException:
            raise QueryError("the table cannot be read in the types of the release") from None
    if len(rows) > most_groups:
        raise QueryError(
            f"there are more than {most_groups:,} groups", "Group by fewer columns, or by columns with fewer values."
        )
    return GroupCounts({same_group(row[:-2]): int(row[-2]) for row in rows}, sum(int(row[-1]) for row in rows))


def _as_published(tables: ReleaseTables, name: str, null_value: str | None) -> str:
    """A column of the table in the type that the release has it in."""
    identifier = tables.identifiers[name]
    kind = tables.types[identifier]
    value = f"CAST({quoted(name)} AS {kind})"
    if identifier == "s" and null_value is not None:
        # where the type has a value with this text, nulls are published as that value; else they stay nulls
        named = f"TRY_CAST({literal(null_value)} AS {kind})"
        value = f"coalesce({value}, CASE WHEN CAST({named} AS VARCHAR) = {literal(null_value)} THEN {named} END)"
    return f"{value} AS {identifier}"
