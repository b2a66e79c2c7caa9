"""Conditions φ(row, value) that tie quasi-identifiers to the sensitive column, counted bucket by bucket.

A bucket has S rows and S values, and the truth is one of the S! ways π to give each row a value. The count is
X = Σ_r φ(r, π(r)). Let N = Σ_{r,v} φ, u_r = Σ_v φ(r, v) and w_v = Σ_r φ(r, v).

- If every π is equally likely (Hoeffding 1951), E X = N / S and, with d = φ minus its row mean minus its column mean
  plus its mean,
      Var X = Σ d² / (S - 1) = (S² N - S (Σ u² + Σ w²) + N²) / (S² (S - 1)).
- Whatever π is, X is at most the largest matching in the graph φ, and at least S minus the largest matching in its
  complement; both are attained. By König's theorem the largest matching is the smallest vertex cover.

Only rows that accept different values differ, and only values that are accepted by different rows: a type is such a
class. With Y a set of value types, "Y, and the rows that accept a value outside Y" is a cover, and a smallest cover has
a Y that is a union of the accepted sets of rows. So it suffices to try the unions, or the same with sides exchanged.
If both families are larger than MOST_COVERS, only a part is tried: the bounds hold, but may not be the tightest.

Where values are nobody's, S counts the values, and rows that accept nothing are added to make up S: those are theirs.

DuckDB evaluates the condition once on the distinct combinations of quasi-identifiers and values, and counts the types
in each bucket, a range of buckets at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import QueryError
from dalenius.query.conditions import Condition
from dalenius.query.release_tables import ReleaseTables
from dalenius.tables.table_errors import query_errors

MOST_PAIRS = 2**22
MOST_COVERS = 1024
_ROWS_AT_ONCE = 2**20
_CELLS_AT_ONCE = 2**22
_LARGE = 2**12  # the sum of fourth powers of larger bucket sizes may not fit in 64 bits

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TypeCounts:
    """How many (`count`) things of a type are in a bucket, given by its position: parallel arrays."""

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

    It has only the rows and values that meet their own conditions.
    """
    columns = ", ".join(_row_columns(tables, mixed))
    with query_errors():
        combinations = _number(tables, "combinations", f"SELECT DISTINCT {columns} FROM qit WHERE {rows}")  # noqa: S608
        kinds = _number(tables, "kinds", f"SELECT DISTINCT s FROM st WHERE {values}")  # noqa: S608
        if combinations * kinds > MOST_PAIRS:
            raise QueryError(
                f"a part of the query ties quasi-identifiers to the sensitive column in {combinations:,} x {kinds:,} "
                f"combinations, and at most {MOST_PAIRS:,} are evaluated",
                "Name fewer columns in that part, or narrow it with AND.",
            )
        accepted = _fetch(
            tables,
            f"""SELECT combinations.i::INTEGER AS row, kinds.i::INTEGER AS kind
            FROM combinations, kinds WHERE {mixed.sql}""",  # noqa: S608
        )
    matrix = np.zeros((combinations, kinds), dtype=np.bool_)
    matrix[accepted["row"].to_numpy(), accepted["kind"].to_numpy()] = True
    return matrix


def typed_buckets(
    tables: ReleaseTables, mixed: Condition, rows: str, values: str, row_types: Integers, value_types: Integers
) -> Iterator[TypedBuckets]:
    """After `accepted_pairs`, whose rows and columns have types (-1: none): buckets by type, some at a time."""
    _join_types(tables, "combinations", row_types)
    _join_types(tables, "kinds", value_types)
    with query_errors():
        ranges = tables.connection.execute(
            f"""SELECT min(b), max(b)
            FROM (SELECT b, (sum(slots) OVER (ORDER BY b) - 1) // {_ROWS_AT_ONCE} AS part FROM sizes)
            GROUP BY part ORDER BY 1"""  # noqa: S608
        ).fetchall()
    for first, last in ranges:
        span = f"b BETWEEN {int(first)} AND {int(last)}"
        with query_errors():
            sizes = _fetch(tables, f"SELECT b, slots FROM sizes WHERE {span} ORDER BY b")  # noqa: S608
            buckets = _integers(sizes["b"])
            of_rows = _type_counts(
                tables, f"qit WHERE {span} AND ({rows})", "combinations", _row_columns(tables, mixed)
            )
            of_values = _type_counts(tables, f"st WHERE {span} AND ({values})", "kinds", ["s"])
        yield TypedBuckets(_integers(sizes["slots"]), _by_position(buckets, of_rows), _by_position(buckets, of_values))


def _row_columns(tables: ReleaseTables, mixed: Condition) -> list[str]:
    return tables.sides(sorted(mixed.columns))[0]


def _number(tables: ReleaseTables, name: str, query: str) -> int:
    """Keep the distinct rows of a query, numbered from 0. Returns how many there are."""
    tables.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT row_number() OVER () - 1 AS i, * FROM ({query})"  # noqa: S608
    )
    ((count,),) = tables.connection.execute(f"SELECT count(*) FROM {name}").fetchall()  # noqa: S608
    return int(count)


def _join_types(tables: ReleaseTables, name: str, types: Integers) -> None:
    places = np.flatnonzero(types >= 0)
    with query_errors():
        tables.connection.register("new_types", pa.table({"i": places, "type": types[places]}))
        tables.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE typed_{name} AS SELECT * FROM {name} JOIN new_types USING (i)"  # noqa: S608
        )
        tables.connection.unregister("new_types")


def _type_counts(tables: ReleaseTables, source: str, name: str, columns: list[str]) -> pa.Table:
    same = " AND ".join(f"source.{column} IS NOT DISTINCT FROM typed_{name}.{column}" for column in columns)
    return _fetch(
        tables,
        f"""SELECT b, type, count(*) AS n FROM (SELECT * FROM {source}) AS source JOIN typed_{name} ON {same}
        GROUP BY b, type""",  # noqa: S608
    )


def _fetch(tables: ReleaseTables, query: str) -> pa.Table:
    return tables.connection.sql(query).to_arrow_table()


def _by_position(buckets: Integers, counts: pa.Table) -> TypeCounts:
    bucket, kind, count = (_integers(counts[name]) for name in ("b", "type", "n"))
    return TypeCounts(np.searchsorted(buckets, bucket), kind, count)


def _integers(column: pa.ChunkedArray) -> Integers:
    return np.asarray(column.to_numpy(), dtype=np.int64)


@dataclass(frozen=True)
class Types:
    """Rows and values by type: -1 accepts nothing (is accepted by nothing); `accepts` is types by types."""

    rows: Integers
    values: Integers
    accepts: Booleans


@dataclass(frozen=True)
class Covers:
    """Vertex covers of a graph of types, one in each line: its row types and its value types."""

    rows: Booleans
    values: Booleans
    complete: bool  # a smallest cover is among them, whatever the numbers of rows and values of each type


@dataclass
class Totals:
    """Sums over buckets, by size: of N, and of S² N - S (Σ u² + Σ w²) + N². And the bounds."""

    low: int = 0
    high: int = 0
    means: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    spreads: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def types_of(matrix: Booleans) -> Types:
    """The types of a matrix of accepted pairs: equal rows, and equal columns, have one type."""
    lines, rows = _distinct(matrix)
    columns, values = _distinct(np.ascontiguousarray(lines.T))
    return Types(rows, values, np.ascontiguousarray(columns.T))


def _distinct(matrix: Booleans) -> tuple[Booleans, Integers]:
    """The distinct rows that are not all false, and for each row its number among them, or -1."""
    numbers = np.full(len(matrix), -1, dtype=np.int64)
    some = np.flatnonzero(matrix.any(axis=1))
    if not len(some):
        return matrix[:0], numbers
    packed = np.packbits(matrix[some], axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    numbers[some] = inverse.reshape(-1)
    return matrix[some[first]], numbers


def covers(accepts: Booleans, most: int = MOST_COVERS) -> Covers:
    """A family of covers; it contains a smallest one if a family of at most `most` covers can."""
    by_values, all_by_values = _unions(accepts, most)
    by_rows, all_by_rows = _unions(accepts.T, most)
    from_values = Covers(_touching(accepts, by_values), by_values, all_by_values)
    from_rows = Covers(by_rows, _touching(accepts.T, by_rows), all_by_rows)
    complete = [family for family in (from_values, from_rows) if family.complete]
    if complete:
        return min(complete, key=lambda family: len(family.rows))
    return Covers(
        np.vstack([from_values.rows, from_rows.rows]), np.vstack([from_values.values, from_rows.values]), False
    )


def _touching(accepts: Booleans, chosen: Booleans) -> Booleans:
    """For each set of columns, the rows that accept something outside of it."""
    result: Booleans = (~chosen).astype(np.float32) @ accepts.T.astype(np.float32) > 0
    return result


def _unions(accepts: Booleans, most: int) -> tuple[Booleans, bool]:
    """Unions of rows, with the empty one, at most `most` of them; and whether these are all."""
    width = accepts.shape[1]
    if not width:
        return np.zeros((1, 0), dtype=np.bool_), True
    lines = [int("".join("01"[bit] for bit in line), 2) for line in accepts.astype(int)]
    unions = _union_numbers(lines, most)
    complete = len(unions) <= most
    if not complete:
        everything = reduce(or_, lines, 0)
        unions = list(dict.fromkeys([0, everything, *lines[: most // 2], *unions[:most]]))[:most]
    bits = [[character == "1" for character in format(union, f"0{width}b")] for union in unions]
    return np.array(bits, dtype=np.bool_).reshape(len(unions), width), complete


def _union_numbers(lines: Iterable[int], most: int) -> list[int]:
    """Unions of lines as bit sets: all of them, or more than `most` if there are more."""
    unions = {0: None}
    for line in lines:
        if len(unions) > most:
            break
        unions |= dict.fromkeys(union | line for union in list(unions))
    return list(unions)


class Matcher:
    """Sums over buckets what a graph of types gives."""

    def __init__(self, accepts: Booleans, most_covers: int = MOST_COVERS) -> None:
        padded = np.pad(accepts, ((1, 0), (1, 0)))
        self._accepts = accepts.astype(np.float64)
        self._upper = covers(accepts, most_covers)
        self._lower = covers(~padded, most_covers)
        self.totals = Totals()

    @property
    def tight(self) -> bool:
        """Whether the bounds are attained."""
        return self._upper.complete and self._lower.complete

    def add(self, buckets: TypedBuckets) -> None:
        """Add some buckets. Those without a matching row or value contribute nothing to any sum."""
        row_types, value_types = self._accepts.shape
        width = row_types + value_types + 2 * max(len(self._upper.rows), len(self._lower.rows))
        at_once = max(1, _CELLS_AT_ONCE // width)
        active = np.intersect1d(buckets.rows.bucket, buckets.values.bucket)
        all_rows = _dense_chunks(buckets.rows, active, row_types, at_once)
        all_values = _dense_chunks(buckets.values, active, value_types, at_once)
        for start, rows, values in zip(range(0, len(active), at_once), all_rows, all_values, strict=True):
            self._add_dense(buckets.sizes[active[start : start + at_once]], rows, values)

    def _add_dense(self, sizes: Integers, rows: Floats, values: Floats) -> None:
        row_sums, value_sums = values @ self._accepts.T, rows @ self._accepts  # u and w, exact below 2^53
        wide: Any = object if sizes.max() > _LARGE else np.int64
        size: Any = sizes.astype(wide)
        total = (value_sums * values).sum(axis=1).astype(np.int64).astype(wide)
        squares = (rows * row_sums**2).sum(axis=1) + (values * value_sums**2).sum(axis=1)
        spread = size * size * total - size * squares.astype(np.int64).astype(wide) + total * total
        for one in np.unique(sizes).tolist():
            here = sizes == one
            self.totals.means[one] += int(total[here].sum())
            self.totals.spreads[one] += int(spread[here].sum())
        self.totals.high += int(_smallest(self._upper, rows, values).sum())
        all_rows = np.column_stack([sizes - rows.sum(axis=1), rows])
        all_values = np.column_stack([sizes - values.sum(axis=1), values])
        self.totals.low += int((sizes - _smallest(self._lower, all_rows, all_values)).sum())


def _smallest(family: Covers, rows: Floats, values: Floats) -> Floats:
    weights = rows @ family.rows.T.astype(np.float64) + values @ family.values.T.astype(np.float64)
    smallest: Floats = weights.min(axis=1)
    return smallest


def _dense_chunks(counts: TypeCounts, active: Integers, types: int, at_once: int) -> Iterator[Floats]:
    """Matrices of buckets by types, for this many active buckets at a time."""
    is_active = np.isin(counts.bucket, active)
    position = np.searchsorted(active, counts.bucket[is_active])
    order = np.argsort(position, kind="stable")
    position, kind, count = position[order], counts.type[is_active][order], counts.count[is_active][order]
    for start in range(0, len(active), at_once):
        stop = min(start + at_once, len(active))
        first, last = np.searchsorted(position, [start, stop])
        cells = (position[first:last] - start) * types + kind[first:last]
        dense = np.bincount(cells, weights=count[first:last], minlength=(stop - start) * types)
        yield dense.astype(np.float64).reshape(stop - start, types)
