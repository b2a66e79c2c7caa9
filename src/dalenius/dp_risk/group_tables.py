"""Groups of people with the same quasi-identifiers under DuckDB: their sizes, and the sensitive values in them.

The table is read once into `cells`, one row for each group and value that occur together:

    q0, q1, ...   the quasi-identifiers, as text
    v             the position of the sensitive value in the counts
    x, y          people in the group, and those of them who carry the value

What does not fit into memory goes to a temporary folder that nobody else may read. The quasi-identifiers of a group
leave this module only if the group has at least as many people as the caller requires.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from dalenius.errors import InputError, NoSuchColumnError, QueryError, ReleaseError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.query.conditions import conjuncts
from dalenius.query.sql import Names
from dalenius.tables.connections import connect, literal, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.open_table import Table, open_table
from dalenius.tables.table_errors import plain_errors, query_errors

MEMORY = 2 * 10**9  # bytes, for each of two connections
_TRIPLES_AT_ONCE = 2**14
_ROWS_AT_ONCE = 2**15


@dataclass(frozen=True)
class Group:
    """One group: its people by value (positions in the counts), and its quasi-identifiers as text, or None."""

    size: int
    counts: tuple[tuple[int, int], ...]
    key: tuple[str | None, ...] | None


class TableNames(Names):
    """The columns of a table, for conditions on it."""

    def column(self, name: str) -> str:
        """The column with a name. The error is about a table, and lists no columns."""
        for known in self.identifiers:
            if known.casefold() == name.casefold():
                return known
        raise NoSuchColumnError.in_table(name, tuple(self.identifiers))


class GroupTables:
    """A table, open for grouping."""

    def __init__(
        self,
        table: Table,
        sensitive: str,
        null_value: str | None,
        connection: duckdb.DuckDBPyConnection,
        missing: Sequence[str] = (),
    ) -> None:
        self.counts: ValueCounts = table.count_by_value(sensitive, null_value, missing, allow_absent=True)
        self._column = quote_name(sensitive)
        if missing:
            codes = ", ".join(map(literal, missing))
            self._column = f"CASE WHEN CAST({self._column} AS VARCHAR) NOT IN ({codes}) THEN {self._column} END"
        self._table, self._sensitive, self._null_value = table, sensitive, null_value
        self._codes = {value: code for code, value in enumerate(self.counts.values)}
        self._connection = connection
        self._key: tuple[str, ...] = ()

    def group_by(self, columns: Sequence[str]) -> None:
        """Read the table into cells."""
        for column in columns:
            self._table.require_column(column)
        if len({column.casefold() for column in columns}) < len(columns):
            raise UsageError("a quasi-identifier is named twice", "Name it once.")
        if self._sensitive in columns:
            raise UsageError(
                f"the sensitive column {self._sensitive!r} is also named as a quasi-identifier",
                "Leave it out of the quasi-identifiers.",
            )
        self._key = tuple(f"q{i}" for i in range(len(columns)))
        raw = [f"{quote_name(column)} AS {name}" for column, name in zip(columns, self._key, strict=True)]
        key = ", ".join(self._key)
        counts = f"SELECT {', '.join(raw)}, {self._column} AS s, count(*) AS n FROM source GROUP BY ALL"  # noqa: S608
        texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in (*self._key, "s"))
        with plain_errors():
            cells = self._table.query(f"SELECT {texts}, n FROM ({counts})")  # noqa: S608
            self._register("stream", cells.to_arrow_reader(2**16))
            self._register("listing", _listing(self.counts.values))
            self._connection.execute(
                f"""CREATE OR REPLACE TEMP TABLE cells AS
                SELECT {key}, v, y, CAST(sum(y) OVER (PARTITION BY {key}) AS BIGINT) AS x
                FROM (SELECT {key}, v, CAST(sum(n) AS BIGINT) AS y
                      FROM stream JOIN listing ON listing.text = coalesce(s, CAST($null AS VARCHAR)) GROUP BY ALL)""",  # noqa: S608
                {"null": self._null_value},
            )
            for name in ("stream", "listing"):
                self._connection.unregister(name)
        self._require_all_rows()

    def _require_all_rows(self) -> None:
        ((rows,),) = self._connection.execute("SELECT coalesce(sum(y), 0) FROM cells").fetchall()
        if rows != self.counts.total:
            raise InputError("the table changed while it was being read", "Run again.")

    def sizes(self) -> list[tuple[int, int]]:
        """How many groups there are of each size, smallest first. Each of size x has x people in its cells."""
        query = "SELECT x, CAST(sum(y) // x AS BIGINT) FROM cells GROUP BY x ORDER BY x"
        with plain_errors():
            return [(int(size), int(groups)) for size, groups in self._connection.execute(query).fetchall()]

    def triples(self) -> Iterator[pa.RecordBatch]:
        """The distinct (x, y, v), in order, and the number of cells that have them."""
        query = "SELECT x, y, v, count(*) AS cells FROM cells GROUP BY ALL ORDER BY x, y, v"
        with plain_errors():
            yield from self._connection.sql(query).to_arrow_reader(_TRIPLES_AT_ONCE)

    def leading(self, scores: pa.Table, top: int, least_shown: int) -> list[Group]:
        """The groups with the largest sum of y * score, where it is above 0. `scores` has x, y, v and score."""
        key = ", ".join(self._key)
        with plain_errors():
            self._register("scores", scores)
            rows = self._connection.execute(
                f"""SELECT {key}, x, total
                FROM (SELECT {key}, any_value(x) AS x, sum(y * score) AS total
                      FROM cells JOIN scores USING (x, y, v) GROUP BY {key})
                WHERE total > 0 ORDER BY total DESC, x DESC, {self._order(least_shown)} LIMIT {int(top)}"""  # noqa: S608
            ).fetchall()
            self._connection.unregister("scores")
            return [self._group(tuple(row[:-2]), int(row[-2]), least_shown) for row in rows]

    def keep(self, simulated: pa.Table) -> None:
        """Keep simulated figures of triples for `every_row`, by x, y, v and the position e of the epsilon."""
        with plain_errors(), self._connection.cursor() as other:  # `triples` may not be at its end yet
            other.register("part", simulated)
            other.execute("CREATE TABLE IF NOT EXISTS simulated AS SELECT * FROM part LIMIT 0")
            other.execute("INSERT INTO simulated SELECT * FROM part")
            other.unregister("part")

    def every_row(self, values: pa.Table, least_shown: int) -> Iterator[pa.RecordBatch]:
        """Every group, value in it and epsilon, largest groups first, in batches: the kept figures beside `values`.

        `values` has v, the value, and its shares in a release. Groups of fewer than `least_shown` people have nulls for
        their quasi-identifiers, and come in an order that does not depend on them.
        """
        named = f"x >= {int(least_shown)}"
        shown = [f"CASE WHEN {named} THEN {name} END AS {name}" for name in self._key]
        query = f"""
            SELECT number AS "group", {named} AS named, {", ".join(shown)}, value, x, y, "limit", above, epsilon,
                theorem_mean, theorem_variance, median, low, high, pinned,
                release_mean_share, release_largest_share, release_group_mean_share
            FROM (SELECT *, sum(y * release_mean_share) OVER (PARTITION BY number) / x AS release_group_mean_share
                  FROM (SELECT *, dense_rank() OVER (ORDER BY x DESC, {self._order(least_shown)}) AS number FROM cells)
                  JOIN listing USING (v))
            JOIN simulated USING (x, y, v) ORDER BY number, v, e"""  # noqa: S608
        with plain_errors():
            self._register("listing", values)
            yield from self._connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE)
            self._connection.unregister("listing")

    def _order(self, least_shown: int) -> str:
        """An order of groups of one size that reveals nothing about quasi-identifiers that are not shown."""
        shown = [f"CASE WHEN x >= {int(least_shown)} THEN {name} END" for name in self._key]
        key = ", ".join(self._key)
        return f"{', '.join(shown)}, hash({secrets.randbits(63)}, {key}), {key}"

    def _group(self, key: tuple[str | None, ...], size: int, least_shown: int) -> Group:
        same = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in self._key)
        query = f"SELECT v, y FROM cells WHERE {same} ORDER BY v"  # noqa: S608
        counts = tuple((int(v), int(y)) for v, y in self._connection.execute(query, list(key)).fetchall())
        return Group(size, counts, key if size >= least_shown else None)

    def group_where(self, condition: str) -> Group:
        """The group of all people who meet a condition on columns that others may know."""
        names = TableNames({column: quote_name(column) for column in self._table.columns}, "")
        parts = conjuncts(self._connection, condition, names)
        if any(self._sensitive in part.columns for part in parts):
            raise QueryError(
                f"the condition names the sensitive column {self._sensitive!r}",
                "It says who is meant; the sensitive value is what is inferred about them.",
            )
        for part in parts:
            (data_type,) = self._query(f"SELECT {part.sql} AS truth FROM source LIMIT 0").types  # noqa: S608
            if str(data_type) != "BOOLEAN":
                raise QueryError(
                    f"the condition has the type {data_type}, but must be true or false",
                    "Compare it with something: Age > 50.",
                )
        where = " AND ".join(part.sql for part in parts)
        query = f"SELECT CAST({self._column} AS VARCHAR), count(*) FROM source WHERE {where} GROUP BY 1"  # noqa: S608
        counts: dict[int, int] = {}
        for text, count in self._query(query, fetch=True):
            code = self._codes[self._null_value or "" if text is None else text]
            counts[code] = counts.get(code, 0) + int(count)
        if not counts:
            raise QueryError("nobody in the table meets the condition", "A ratio needs somebody: widen it.")
        return Group(sum(counts.values()), tuple(sorted(counts.items())), None)

    def _query(self, query: str, fetch: bool = False) -> Any:
        try:
            with query_errors():
                relation = self._table.query(query)
                return relation.fetchall() if fetch else relation
        except ReleaseError:  # this is how it reports files that cannot be read
            raise InputError(
                "the table cannot be read", "Is the file complete, and of the kind its name says?"
            ) from None

    def _register(self, name: str, data: Any) -> None:
        self._connection.register(name, data)


@contextmanager
def open_groups(
    source: Any,
    sensitive: str,
    null_value: str | None = None,
    table: str | None = None,
    memory: int = MEMORY,
    missing: Sequence[str] = (),
) -> Iterator[GroupTables]:
    """A table from a path, a data frame or a relation, open for grouping. Nulls are treated as in planning."""
    with ExitStack() as stack:
        opened = stack.enter_context(open_table(source, table, memory))
        scratch = stack.enter_context(scratch_folder())
        yield GroupTables(opened, sensitive, null_value, connect(scratch, stack, memory), missing)


def _listing(values: Sequence[str]) -> pa.Table:
    return pa.table({"text": pa.array(values, pa.string()), "v": pa.array(range(len(values)), pa.int32())})
