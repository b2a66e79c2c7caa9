"""The two tables of a release under DuckDB, for counting: scans, joins and sums, in bounded memory.

Inside, columns are called q0, q1, ... and s; the bucket is b. `attached_tables` holds the connection.

`published_columns` describes the columns for somebody who picks values: the values if they are few, else their range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dalenius.errors import ReleaseError
from dalenius.query.attached_tables import MEMORY, AttachedTables, Group, attachment, both
from dalenius.release.folder import ReleaseFolder
from dalenius.tables.connections import literal, quote_name
from dalenius.tables.delimited import check_names
from dalenius.tables.table_errors import query_errors, release_errors

if TYPE_CHECKING:
    from dalenius.infer.candidates import Integers
    from dalenius.tables.describe import Kind

MOST_LISTED = 500
_ROOM_FOR_ERROR = 2  # of approximate numbers of distinct values
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_FLOATING = {"FLOAT", "DOUBLE"}


@dataclass(frozen=True)
class SizeSums:
    """Sums over the buckets of one size S, with a rows and c values that match in a bucket."""

    size: int
    products: int  # sum of a c
    spreads: int  # sum of a c (S - a) (S - c)
    low: int  # sum of max(0, a + c - S)
    high: int  # sum of min(a, c)


class ReleaseTables(AttachedTables):
    """A connection to the tables of one release: the views qit and st, and the table sizes (bucket, rows, slots).

    Buckets without rows are not in `sizes`. `values` is ST without them, in no particular order.
    """

    def __init__(self, folder: ReleaseFolder, memory: str = MEMORY) -> None:
        columns = folder.manifest.columns
        self._fakes, self.people_left = folder.manifest.adversary.fake_values, folder.manifest.surplus > 0
        # values of buckets that everybody left are nobody's for certain
        self.values = "(SELECT * FROM st SEMI JOIN sizes USING (b))" if self.people_left else "st"
        rows = {column.name: f"q{i}" for i, column in enumerate(columns.quasi_identifiers)}
        values = {columns.sensitive.name: "s"}
        check_names([*rows, *values, columns.bucket])
        tables = {"qit": attachment(folder, "qit", rows), "st": attachment(folder, "st", values)}
        super().__init__(tables, rows | values, columns.bucket, memory)

    def sums(self, rows: str, values: str, by: Sequence[str]) -> Iterator[tuple[Group, SizeSums]]:
        """For a condition on rows and one on values: sums by group and bucket size, groups in order.

        Without `by`, only sizes with a match appear; with it, every group that occurs appears.
        """
        row_groups, value_groups = self.sides(by)
        matching_rows = _matches_by_bucket("qit", row_groups, rows, keep_empty=bool(by))
        matching_values = _matches_by_bucket("st", value_groups, values, keep_empty=bool(by))
        groups = "".join(f"{self.identifiers[name]}, " for name in by)
        return self._fetch_sums(
            by,
            f"""WITH a AS ({matching_rows}), c AS ({matching_values})
            SELECT {self._selected(by)} slots, sum(a.n * c.n), sum(a.n::HUGEINT * c.n * (slots - a.n) * (slots - c.n)),
                   sum(greatest(0, a.n + c.n - slots)), sum(least(a.n, c.n))
            FROM a JOIN c USING (b) JOIN sizes USING (b)
            GROUP BY {groups} slots ORDER BY {self._order(by)} slots""",  # noqa: S608
        )

    def _fetch_sums(self, by: Sequence[str], query: str) -> Iterator[tuple[Group, SizeSums]]:
        for row in self.fetch(query):
            yield tuple(row[: len(by)]), SizeSums(*map(int, row[len(by) :]))

    def counts(self, table: Literal["qit", "st"], condition: str, by: Sequence[str]) -> Iterator[tuple[Group, int]]:
        """The matching rows of one table by group, which answers a condition on that table alone."""
        groups = f" GROUP BY {', '.join(self.identifiers[name] for name in by)}" if by else ""
        query = f"""SELECT {self._selected(by)} count(*) FILTER (WHERE {condition}) FROM {table}{groups}
            ORDER BY {self._order(by)} 1"""  # noqa: S608
        for row in self.fetch(query):
            yield tuple(row[:-1]), int(row[-1])

    def groups(self, by: Sequence[str], most: int) -> list[tuple[Group, str, str]]:
        """At most this many of the groups that occur: their values, and their conditions on rows and on values."""
        row_groups, value_groups = self.sides(by)
        listed = ", ".join(self.identifiers[name] for name in by)
        with query_errors():
            self.connection.execute(
                f"""CREATE OR REPLACE TEMP TABLE groups AS
                SELECT row_number() OVER (ORDER BY {self._order(by).rstrip(", ")}) AS id, {listed}
                FROM (SELECT DISTINCT {listed} FROM (SELECT DISTINCT {", ".join(["b", *row_groups])} FROM qit)
                      JOIN (SELECT DISTINCT {", ".join(["b", *value_groups])} FROM st) USING (b))
                QUALIFY id <= {most}"""  # noqa: S608
            )
            rows = self.connection.execute(f"SELECT {self._selected(by)} id FROM groups ORDER BY id").fetchall()  # noqa: S608

        def is_group(row: int, columns: Sequence[str]) -> str:
            return both(*(f"{c} IS NOT DISTINCT FROM (SELECT {c} FROM groups WHERE id = {row})" for c in columns))  # noqa: S608

        return [
            (tuple(values), is_group(int(row), row_groups), is_group(int(row), value_groups)) for *values, row in rows
        ]

    def sides(self, columns: Sequence[str]) -> tuple[list[str], list[str]]:
        """The identifiers of columns, those of QIT and those of ST."""
        names = [self.identifiers[name] for name in columns]
        return [name for name in names if name != "s"], [name for name in names if name == "s"]

    def _measure(self) -> None:
        """Count the values of each bucket: as many as rows and fake values together, or more if people left."""
        self.connection.execute(
            """CREATE TEMP TABLE sizes AS SELECT b, rows, slots
            FROM (SELECT b, count(*) AS rows FROM qit GROUP BY b)
            FULL JOIN (SELECT b, count(*) AS slots FROM st GROUP BY b) USING (b)"""
        )
        records = f"coalesce(slots, 0) - {int(self._fakes)}"
        fits = f"coalesce(rows, 0) <= {records}" if self.people_left else f"rows IS NOT DISTINCT FROM {records}"
        ((wrong,),) = self.connection.execute(
            f"SELECT count(*) FROM sizes WHERE b IS NULL OR NOT ({fits})"  # noqa: S608
        ).fetchall()
        if wrong:
            raise ReleaseError(
                f"{wrong:,} buckets do not have as many values as rows and fake values",
                "Run dalenius verify on the release.",
            )
        if self.people_left:
            self.connection.execute("DELETE FROM sizes WHERE rows IS NULL")

    def filled_buckets(self) -> tuple[Integers, Integers]:
        """The numbers of the buckets with rows, ascending, and how many rows each has."""
        import numpy as np  # imported here: other questions need no arrays

        with release_errors():
            found = self.connection.execute("SELECT b, rows FROM sizes ORDER BY b").fetchnumpy()
        return np.asarray(found["b"], np.int64), np.asarray(found["rows"], np.int64)

    def _everything(self) -> str:
        return "qit, (SELECT s FROM st)"


def _matches_by_bucket(table: str, groups: Sequence[str], condition: str, keep_empty: bool) -> str:
    """Matching rows by bucket and group: for all buckets and groups, or for those with a match."""
    if not keep_empty:
        return f"SELECT b, count(*) AS n FROM {table} WHERE {condition} GROUP BY b"  # noqa: S608
    columns = ", ".join(["b", *groups])
    return f"SELECT {columns}, count(*) FILTER (WHERE {condition}) AS n FROM {table} GROUP BY {columns}"  # noqa: S608


@dataclass(frozen=True)
class PublishedColumn:
    """A column of QIT or ST. `values` are texts in the order of the type, without nulls; None if there are too many.

    `literals` and `sql` are the values and the name of the column as a query writes them.
    """

    name: str
    type: str
    kind: Kind
    sql: str
    nulls: bool
    values: tuple[str, ...] | None
    literals: tuple[str, ...] | None
    smallest: str | None
    largest: str | None

    def literal(self, text: str) -> str:
        """A value of this column as a query writes it."""
        return _literal(text, self.type)


def published_columns(
    tables: AttachedTables, names: Sequence[str], most: int = MOST_LISTED
) -> tuple[PublishedColumn, ...]:
    """Describe columns of one table: one pass for all of them, and one for each whose values are listed."""
    identifiers = [tables.identifiers[name] for name in names]
    if not identifiers:
        return ()
    view = f"st{identifiers[0][1:]}" if identifiers[0].startswith("s") else "qit"  # s3 is a column of st3
    figures = ", ".join(
        f"approx_count_distinct({c}), count({c}) < count(*), CAST(min({c}) AS VARCHAR), CAST(max({c}) AS VARCHAR)"
        for c in identifiers
    )
    with release_errors():
        (row,) = tables.connection.execute(f"SELECT {figures} FROM {view}").fetchall()  # noqa: S608
        columns = []
        for place, (name, identifier) in enumerate(zip(names, identifiers, strict=True)):
            about, nulls, smallest, largest = row[4 * place : 4 * place + 4]
            values = _values_of(tables, view, identifier, most) if about <= _ROOM_FOR_ERROR * most else None
            data_type = tables.types[identifier]
            listed = values is not None
            columns.append(
                PublishedColumn(
                    name=name,
                    type=data_type,
                    kind=kind_of_type(data_type),
                    sql=quote_name(name),
                    nulls=bool(nulls),
                    values=values,
                    literals=None if values is None else tuple(_literal(text, data_type) for text in values),
                    smallest=None if listed else smallest,
                    largest=None if listed else largest,
                )
            )
    return tuple(columns)


def kind_of_type(data_type: str) -> Kind:
    """What a DuckDB type holds."""
    if data_type in _WHOLE or data_type in _FLOATING or data_type.startswith("DECIMAL"):
        return "number"
    if data_type == "DATE" or data_type.startswith("TIMESTAMP"):
        return "date"
    if data_type == "BOOLEAN":
        return "boolean"
    return "text" if data_type == "VARCHAR" or data_type.startswith("ENUM") else "other"


def _values_of(tables: AttachedTables, view: str, identifier: str, most: int) -> tuple[str, ...] | None:
    query = f"""SELECT CAST(v AS VARCHAR) FROM (SELECT DISTINCT {identifier} AS v FROM {view}) WHERE v IS NOT NULL
        ORDER BY v LIMIT {most + 1}"""  # noqa: S608
    values = [text for (text,) in tables.connection.execute(query).fetchall()]
    return tuple(values) if len(values) <= most else None


def _literal(text: str, data_type: str) -> str:
    if data_type in _WHOLE or data_type.startswith("DECIMAL") or data_type == "BOOLEAN":
        return text
    if data_type in _FLOATING:
        return f"CAST({literal(text)} AS {data_type})"
    if data_type == "DATE":
        return f"DATE {literal(text)}"
    if data_type.startswith("TIMESTAMP"):
        return f"CAST({literal(text)} AS {'TIMESTAMPTZ' if 'ZONE' in data_type else data_type})"
    return literal(text)
