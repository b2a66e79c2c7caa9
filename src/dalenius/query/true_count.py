"""True counts beside estimates, for those who have the table that a release was made from.

The columns come in the types of the release and under the same identifiers, so that a condition means the same in both
places. They come as a stream into a connection that reaches no file at all; only counts leave it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dalenius.errors import InputError, QueryError
from dalenius.model.estimate import GroupEstimate
from dalenius.query.attached_tables import Group, both, same_group
from dalenius.query.count import MOST_GROUPS, Counter
from dalenius.query.release_tables import ReleaseTables
from dalenius.tables.connections import connect, literal, lock, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.open_table import open_table
from dalenius.tables.table_errors import plain_errors, query_errors

_MEMORY = 10**9  # bytes, before either connection spills
_BATCH_ROWS = 2**17


@dataclass(frozen=True)
class GroupCounts:
    """Matching records by group (one empty group without grouping), and all records of the table."""

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
    missing: Sequence[str] = (),
) -> GroupCounts:
    """Count the records of `source` that meet a condition in checked SQL (from `ReleaseTables.conditions`).

    `columns` are those that the condition names. Nulls of the sensitive column count as `null_value` if the release
    has such a value.
    """
    needed = [name for name in tables.identifiers if name in {*columns, *by}]
    groups, selected, _ = tables.group_sql(by)
    with ExitStack() as stack:
        opened = stack.enter_context(open_table(source, table, _MEMORY))
        for name in needed:
            opened.require_column(name)
        scratch = stack.enter_context(scratch_folder())
        connection = connect(scratch, stack, _MEMORY)
        with plain_errors():
            columns_sql = [_as_published(tables, name, null_value, missing) for name in needed]
            stream = opened.relation.project(", ".join([*columns_sql, "0 AS nothing"])).to_arrow_reader(_BATCH_ROWS)
            connection.register("truth", stream)
            lock(connection)
        grouped = f"GROUP BY {groups.rstrip(', ')}" if by else ""
        query = f"SELECT {selected} count(*) FILTER (WHERE {condition}), count(*) FROM truth {grouped}"  # noqa: S608
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


def _as_published(tables: ReleaseTables, name: str, null_value: str | None, missing: Sequence[str]) -> str:
    """A column of the table in its type in the release."""
    identifier = tables.identifiers[name]
    data_type = tables.types[identifier]
    own = quote_name(name)
    if identifier == "s" and missing:
        own = f"CASE WHEN CAST({own} AS VARCHAR) NOT IN ({', '.join(map(literal, missing))}) THEN {own} END"
    value = f"CAST({own} AS {data_type})"
    if identifier == "s" and null_value is not None:
        # nulls are published as this value if the type has one with this text; otherwise they stay nulls
        null = f"TRY_CAST({literal(null_value)} AS {data_type})"
        value = f"coalesce({value}, CASE WHEN CAST({null} AS VARCHAR) = {literal(null_value)} THEN {null} END)"
    return f"{value} AS {identifier}"


def true_count(counter: Counter, source: Any, expression: str, *, table: str | None = None) -> int:
    """How many records of the table meet the condition that `Counter.count` estimates."""
    return _counts(counter, source, expression, (), table).get((), 0)


def true_counts_of(
    counter: Counter, source: Any, expression: str, answers: Sequence[GroupEstimate], *, table: str | None = None
) -> list[int]:
    """The same for each group in the answers of `Counter.count_by`, in their order."""
    if not answers:
        return []
    by = tuple(answers[0].group)
    counts = _counts(counter, source, expression, by, table)
    return [counts.get(same_group(answer.group[name] for name in by), 0) for answer in answers]


def _but_held_back(counter: Counter) -> str:
    held_back = counter.manifest.chain.held_back if counter.manifest.chain is not None else 0
    return f", without the {held_back:,} people who were held back" if held_back else ""


def _counts(
    counter: Counter, source: Any, expression: str, by: Sequence[str], table: str | None
) -> dict[tuple[Any, ...], int]:
    conditions = counter.tables.conditions(expression)
    columns = frozenset[str]().union(*(condition.columns for condition in conditions))
    sql = both(*(condition.sql for condition in conditions))
    null_value = counter.manifest.null_value
    counted = true_counts(
        counter.tables, source, table, sql, columns, by, null_value, MOST_GROUPS, counter.manifest.missing
    )
    if counted.total != counter.manifest.rows:
        raise InputError(
            f"the table has {counted.total:,} rows and the release {counter.manifest.rows:,}",
            f"Give the table that the release was made from{_but_held_back(counter)}.",
        )
    return counted.counts
