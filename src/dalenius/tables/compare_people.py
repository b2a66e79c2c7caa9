"""The people of a table against those of a release: who has which rows, and who has which sensitive values.

A person is compared by all of their rows together. Rows that are alike, on either side, get the same number, a person
is the ascending list of the numbers of their rows, and the lists are counted as the rows of plain tables are: +1 for
one side and -1 for the other. DuckDB does it, and spills to a scratch folder when memory runs short. Only counts leave
the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow

from dalenius.tables.compare import (
    FLOATING,
    Difference,
    SourceTable,
    column_types,
    comparable,
    difference_of,
    text_of_value,
)
from dalenius.tables.connections import quote_name


@dataclass(frozen=True)
class PeopleDifference:
    """What differs in people, all with their rows. `people` has the table, of whom `above` have more rows than kept.

    `missing` are people of the table, and `extra` those of the release, to whom nobody on the other side is alike;
    `short` of the extra ones have fewer rows than are kept.
    """

    people: int
    above: int
    missing: int
    extra: int
    short: int


@dataclass(frozen=True)
class SensitiveColumns:
    """The columns of the table that a sensitive column has the values of, and what counts as null in them."""

    columns: tuple[str, ...]
    null_value: str | None
    missing: tuple[str, ...]


def difference_of_people(
    source: SourceTable, person: str, columns: Sequence[str], release: pyarrow.RecordBatchReader, most_rows: int | None
) -> PeopleDifference:
    """`release` has the bucket, the number of a person in it, and then the columns."""
    bucket, number, *_ = release.schema.names
    with source.both_sides([person, *columns], release) as connection:
        types = {side: column_types(connection, side) for side in ("source", "release")}
        keys = [
            key
            for column in columns
            for key in comparable(quote_name(column), types["source"][column], types["release"][column])
        ]
        listed = ", ".join(f"{key} AS key_{place}" for place, key in enumerate(keys))
        names = ", ".join(f"key_{place}" for place in range(len(keys)))
        who = f"{quote_name(bucket)} || ':' || {quote_name(number)}"
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE people AS
            SELECT side, list(id ORDER BY id) AS ids
            FROM (
                SELECT side, who, dense_rank() OVER (ORDER BY {names}) AS id
                FROM (
                    SELECT 1 AS side, CAST({quote_name(person)} AS VARCHAR) AS who, {listed} FROM source
                    UNION ALL
                    SELECT -1 AS side, {who} AS who, {listed} FROM release
                )
            )
            GROUP BY side, who""")  # noqa: S608
    most = most_rows if most_rows is not None else 2**62
    with _dropped_after(source, "people"):
        ((people, above),) = source.fetch(
            f"SELECT count(*), count(*) FILTER (len(ids) > {most}) FROM people WHERE side = 1"  # noqa: S608
        )
        ((missing, extra, short),) = source.fetch(f"""
            SELECT coalesce(sum(balance) FILTER (balance > 0), 0), coalesce(-sum(balance) FILTER (balance < 0), 0),
                coalesce(-sum(balance) FILTER (balance < 0 AND rows < {most}), 0)
            FROM (
                SELECT len(ids) AS rows, sum(side) AS balance FROM people WHERE side = -1 OR len(ids) <= {most}
                GROUP BY ids HAVING sum(side) <> 0
            )""")  # noqa: S608
    return PeopleDifference(int(people), int(above), int(missing), int(extra), int(short))


def difference_of_items(
    source: SourceTable, person: str | None, sensitive: SensitiveColumns, release: pyarrow.RecordBatchReader
) -> Difference:
    """The values of every person, each with the number of their rows that have it, if the release says that.

    `release` has the values, by their texts, and the numbers, if it has any.
    """
    named, *rows = release.schema.names
    with _items(source, person, sensitive, release) as connection:
        floating = column_types(connection, "release")[named] in FLOATING
        text = text_of_value(named, sensitive.null_value, sensitive.missing, floating)
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE lines AS
            SELECT text, {"count(*)" if rows else "1"} AS rows, 1 AS side FROM items GROUP BY who, text
            UNION ALL
            SELECT {text} AS text, {quote_name(rows[0]) if rows else "1"} AS rows, -1 AS side FROM release""")  # noqa: S608
    with _dropped_after(source, "lines"):
        return difference_of(source.fetch, "lines", ["text", "rows"])


def difference_of_tuples(
    source: SourceTable, person: str | None, columns: Sequence[SensitiveColumns], release: pyarrow.RecordBatchReader
) -> Difference:
    """What goes with what in the rows of every person, in columns of one column of the table each.

    `release` has the values of a tuple, column by column, and in how many rows it is, if the release says that.
    """
    names = release.schema.names[: len(columns)]
    rows = release.schema.names[len(columns) :]
    of_source = [one.columns[0] for one in columns]
    with source.both_sides([*([person] if person is not None else []), *of_source], release) as connection:

        def tuple_of(side: str, named: Sequence[str]) -> str:
            types = column_types(connection, side)
            pairs = zip(named, columns, strict=True)
            texts = [text_of_value(name, one.null_value, one.missing, types[name] in FLOATING) for name, one in pairs]
            return f"[{', '.join(texts)}]"

        who = f"CAST({quote_name(person)} AS VARCHAR)" if person is not None else "row_number() OVER ()"
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE lines AS
            SELECT text, {"count(*)" if rows else "1"} AS rows, 1 AS side
            FROM (SELECT {who} AS who, {tuple_of("source", of_source)} AS text FROM source) GROUP BY who, text
            UNION ALL
            SELECT {tuple_of("release", names)} AS text, {quote_name(rows[0]) if rows else "1"} AS rows, -1 AS side
            FROM release""")  # noqa: S608
    with _dropped_after(source, "lines"):
        return difference_of(source.fetch, "lines", ["text", "rows"])


def difference_of_groups(
    source: SourceTable,
    person: str | None,
    sensitive: SensitiveColumns,
    groups: Mapping[str, Sequence[str]],
    release: pyarrow.RecordBatchReader,
) -> Difference:
    """The groups of every person; `groups` has those of each value, and `release` a column of them."""
    pairs = [(value, name) for value, names in groups.items() for name in names]
    paths = pyarrow.table(
        {"value": pyarrow.array([value for value, _ in pairs], "string"), "name": [name for _, name in pairs]},
        schema=pyarrow.schema([("value", pyarrow.string()), ("name", pyarrow.string())]),
    )
    (named,) = release.schema.names
    with _items(source, person, sensitive, release) as connection:
        connection.register("paths", paths)
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE lines AS
            SELECT DISTINCT name AS text, who, 1 AS side FROM items LEFT JOIN paths ON text = value
            UNION ALL
            SELECT {quote_name(named)} AS text, NULL AS who, -1 AS side FROM release""")  # noqa: S608
        connection.unregister("paths")
    with _dropped_after(source, "lines"):
        return difference_of(source.fetch, "lines", ["text"])


@contextmanager
def _items(
    source: SourceTable, person: str | None, sensitive: SensitiveColumns, release: pyarrow.RecordBatchReader
) -> Iterator[duckdb.DuckDBPyConnection]:
    """For as long as this lasts, `items` has a line for every row of the table and value in it, and whose row it is."""
    columns = [*([person] if person is not None else []), *sensitive.columns]
    with source.both_sides(columns, release) as connection:
        types = column_types(connection, "source")
        texts = ", ".join(
            text_of_value(column, sensitive.null_value, sensitive.missing, types[column] in FLOATING)
            for column in sensitive.columns
        )
        who = f"CAST({quote_name(person)} AS VARCHAR)" if person is not None else "''"
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE items AS
            SELECT DISTINCT {"who" if person is not None else "place AS who"}, place, unnest(texts) AS text
            FROM (SELECT {who} AS who, row_number() OVER () AS place, [{texts}] AS texts FROM source)""")  # noqa: S608
        with _dropped_after(source, "items"):
            yield connection


@contextmanager
def _dropped_after(source: SourceTable, table: str) -> Iterator[None]:
    try:
        yield
    finally:
        source.fetch(f"DROP TABLE IF EXISTS {table}")
