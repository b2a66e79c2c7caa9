"""Conditions that tie quasi-identifiers to the sensitive column: evaluated on what is different, counted by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.counting import ReleaseTables
from dalenius.engines.expressions import Condition
from dalenius.engines.query_errors import query_errors
from dalenius.errors import QueryError

MOST_PAIRS = 2**22
_ROWS_AT_ONCE = 2**20

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TypeCounts:
    """So many (count) things of a type in a bucket, known by its position: parallel arrays."""

    bucket: Integers
    type: Integers
    count: Integers


@dataclass(frozen=True)
class TypedBuckets:
    """Some buckets: their sizes, and the types of their rows and of their values."""

    sizes: Integers
    rows: TypeCounts
    values: TypeCounts


def accepted_pairs(tables: ReleaseTables, mixed: Condition, rows: str, values: str) -> npt.NDArray[np.bool_]:
    """Where `mixed` is true: a matrix of the combinations of its quasi-identifiers by the sensitive values.

    Only rows and values that meet their own conditions are there.
    """
    columns = ", ".join(_row_columns(tables, mixed))
    with query_errors():
        combinations = _numbered(tables, "combinations", f"SELECT DISTINCT {columns} FROM qit WHERE {rows}")  # noqa: S608
        kinds = _numbered(tables, "kinds", f"SELECT DISTINCT s FROM st WHERE {values}")  # noqa: S608
        if combinations * kinds > MOST_PAIRS:
            raise QueryError(
                f"a part of the query ties quasi-identifiers to the sensitive column in {combinations:,} x {kinds:,} "
                f"combinations, and at most {MOST_PAIRS:,} are evaluated",
                "Name fewer columns in that part, or narrow it with AND.",
            )
        found = _fetched(
            tables,
            f"""SELECT combinations.i::INTEGER AS row, kinds.i::INTEGER AS kind
            FROM combinations, kinds WHERE {mixed.sql}""",  # noqa: S608
        )
    matrix = np.zeros((combinations, kinds), dtype=np.bool_)
    matrix[found["row"].to_numpy(), found["kind"].to_numpy()] = True
    return matrix


def typed_buckets(
    tables: ReleaseTables, mixed: Condition, rows: str, values: str, row_types: Integers, value_types: Integers
) -> Iterator[TypedBuckets]:
    """After `accepted_pairs`, given a type (-1: none) for each row and column of the matrix: some buckets at a time."""
    _typed(tables, "combinations", row_types)
    _typed(tables, "kinds", value_types)
    with query_errors():
        ranges = tables.connection.execute(
            f"""SELECT min(b), max(b)
            FROM (SELECT b, (sum(slots) OVER (ORDER BY b) - 1) // {_ROWS_AT_ONCE} AS part FROM sizes)
            GROUP BY part ORDER BY 1"""  # noqa: S608
        ).fetchall()
    for first, last in ranges:
        span = f"b BETWEEN {int(first)} AND {int(last)}"
        with query_errors():
            sizes = _fetched(tables, f"SELECT b, slots FROM sizes WHERE {span} ORDER BY b")  # noqa: S608
            buckets = _integers(sizes["b"])
            of_rows = _type_counts(
                tables, f"qit WHERE {span} AND ({rows})", "combinations", _row_columns(tables, mixed)
            )
            of_values = _type_counts(tables, f"st WHERE {span} AND ({values})", "kinds", ["s"])
        yield TypedBuckets(_integers(sizes["slots"]), _positioned(buckets, of_rows), _positioned(buckets, of_values))


def _row_columns(tables: ReleaseTables, mixed: Condition) -> list[str]:
    return tables.sides(sorted(mixed.columns))[0]


def _numbered(tables: ReleaseTables, name: str, query: str) -> int:
    """Keep what is different, numbered from 0; how many there are."""
    tables.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT row_number() OVER () - 1 AS i, * FROM ({query})"  # noqa: S608
    )
    ((count,),) = tables.connection.execute(f"SELECT count(*) FROM {name}").fetchall()  # noqa: S608
    return int(count)


def _typed(tables: ReleaseTables, name: str, types: Integers) -> None:
    kept = np.flatnonzero(types >= 0)
    with query_errors():
        tables.connection.register("found", pa.table({"i": kept, "type": types[kept]}))
        tables.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE typed_{name} AS SELECT * FROM {name} JOIN found USING (i)"  # noqa: S608
        )
        tables.connection.unregister("found")


def _type_counts(tables: ReleaseTables, wanted: str, name: str, columns: list[str]) -> pa.Table:
    same = " AND ".join(f"wanted.{column} IS NOT DISTINCT FROM typed_{name}.{column}" for column in columns)
    return _fetched(
        tables,
        f"""SELECT b, type, count(*) AS n FROM (SELECT * FROM {wanted}) AS wanted JOIN typed_{name} ON {same}
        GROUP BY b, type""",  # noqa: S608
    )


def _fetched(tables: ReleaseTables, query: str) -> pa.Table:
    return tables.connection.sql(query).to_arrow_table()


def _positioned(buckets: Integers, found: pa.Table) -> TypeCounts:
    bucket, kind, count = (_integers(found[name]) for name in ("b", "type", "n"))
    return TypeCounts(np.searchsorted(buckets, bucket), kind, count)


def _integers(column: pa.ChunkedArray) -> Integers:
    return np.asarray(column.to_numpy(), dtype=np.int64)
