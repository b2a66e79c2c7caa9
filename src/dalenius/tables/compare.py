"""Two tables as multisets of rows: what one has and the other has not, counted exactly.

DuckDB groups the rows of both sides together and adds +1 for one side and -1 for the other, so that what is left over
is the difference. It spills to a scratch folder when memory runs short. No row ever leaves the engine: only counts do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow

from dalenius.errors import TooManyValuesError
from dalenius.model.entries import Occurrences
from dalenius.model.problem import MOST_VALUES
from dalenius.tables.connections import connect, named_nulls, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.open_table import Table, open_table
from dalenius.tables.table_errors import out_of_memory, plain_errors

_BATCH_ROWS = 2**17
FLOATING = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Difference:
    """Rows of the table that the release lacks, and rows of the release that the table has not."""

    missing: int
    extra: int

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)


class SourceTable:
    """The table that a release is said to be made of: opened once, and compared in a connection beside its own."""

    def __init__(self, table: Table, connection: duckdb.DuckDBPyConnection) -> None:
        self._table = table
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, source: Any, table: str | None, memory: int | None) -> Iterator[SourceTable]:
        """From whatever `open_table` takes; DuckDB takes `memory` bytes at the most before it spills."""
        with ExitStack() as stack:
            opened = stack.enter_context(open_table(source, table, memory))
            scratch = stack.enter_context(scratch_folder())
            yield cls(opened, connect(scratch, stack, memory))

    def require_columns(self, columns: Sequence[str]) -> None:
        """Refuse a table that lacks one of the published columns: it is another table altogether."""
        for column in columns:
            self._table.require_column(column)

    @property
    def columns(self) -> list[str]:
        """Of the table."""
        return list(self._table.relation.columns)

    def occurrences(self, column: str) -> Occurrences:
        """How often its values repeat; nulls do not count."""
        with plain_errors():
            return occurrences_of(self._table.relation, column)

    def difference(self, release: pyarrow.RecordBatchReader) -> Difference:
        """The rows of the release against the same columns of the table, value by value; nulls are alike."""
        columns = release.schema.names
        if not columns:
            return Difference(0, 0)
        with self.both_sides(columns, release):
            types = {side: column_types(self._connection, side) for side in ("source", "release")}
            keys = [
                key
                for column in columns
                for key in comparable(quote_name(column), types["source"][column], types["release"][column])
            ]
            return _left_over(self._connection, keys)

    def difference_of_values(
        self, release: pyarrow.RecordBatchReader, column: str, null_value: str | None, missing: Sequence[str] = ()
    ) -> Difference:
        """The sensitive values by their texts; nulls, and what is `missing`, are the same as the name they have.

        `column` is that of the table; in the release it may be called otherwise.
        """
        (named,) = release.schema.names
        with self.both_sides([column], release):
            own = {"source": column, "release": named}
            types = {column_types(self._connection, side)[name] for side, name in own.items()}
            floating = types <= set(FLOATING)
            keys = {side: [text_of_value(name, null_value, missing, floating)] for side, name in own.items()}
            return _left_over(self._connection, keys["source"], keys["release"])

    def counts_of_values(self, column: str, null_value: str | None, missing: Sequence[str] = ()) -> dict[str, int]:
        """How many rows of the table have each text of a column; nulls count under their name alone."""
        self.require_columns([column])
        with plain_errors():
            relation = self._table.relation
            floating = str(dict(zip(relation.columns, relation.types, strict=True))[column]) in FLOATING
            counted = relation.aggregate(
                f"{text_of_value(column, null_value, missing, floating)} AS text, count(*) AS n"
            )
            rows = counted.limit(MOST_VALUES + 1).fetchall()
        if len(rows) > MOST_VALUES:
            raise TooManyValuesError.in_column(column, MOST_VALUES)
        return {text: int(count) for text, count in rows if text is not None}

    @contextmanager
    def both_sides(
        self, columns: Sequence[str], release: pyarrow.RecordBatchReader
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """For as long as this lasts, `source` and `release` can each be read once."""
        self.require_columns(columns)
        with plain_errors(), _within_memory():
            chosen = self._table.relation.project(", ".join(quote_name(column) for column in columns))
            sides = {"source": chosen.to_arrow_reader(_BATCH_ROWS), "release": release}
            for name, rows in sides.items():
                self._connection.register(name, rows)
            try:
                yield self._connection
            finally:
                for name in sides:
                    self._connection.unregister(name)

    def fetch(self, query: str) -> list[Any]:
        """What a query of the connection gives, once both sides were read."""
        with plain_errors(), _within_memory():
            return self._connection.execute(query).fetchall()


@contextmanager
def _within_memory() -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise out_of_memory() from None


def occurrences_of(relation: duckdb.DuckDBPyRelation, column: str) -> Occurrences:
    """How often the values of a column repeat; nulls do not count."""
    name = quote_name(column)
    each = relation.filter(f"{name} IS NOT NULL").aggregate("count(*) AS n", name)
    found = each.aggregate("coalesce(sum(n), 0), count(*), count(*) FILTER (n = 1)").fetchall()[0]
    records, different, once = (int(number) for number in found)
    return Occurrences(records, different, once)


def text_of_value(column: str, null_value: str | None, missing: Sequence[str], floating: bool) -> str:
    """The text of a value; all NaNs have one, whatever their sign."""
    text = f"CAST({quote_name(column)} AS VARCHAR)"
    text = f"replace({text}, '-nan', 'nan')" if floating else text
    return named_nulls(text, null_value, missing)


def column_types(connection: duckdb.DuckDBPyConnection, side: str) -> dict[str, str]:
    """The columns of one side, with their types."""
    rows = connection.execute(f"DESCRIBE {side}").fetchall()
    return {name: data_type for name, data_type, *_ in rows}


def comparable(name: str, source: str, release: str) -> list[str]:
    """What to compare: the values themselves if both sides have one type, else their texts."""
    if source != release and not (_is_local_time(source) and _is_local_time(release)):
        return [f"CAST({name} AS VARCHAR)"]
    if source in FLOATING:  # 0.0 and -0.0 are one group to SQL
        return [name, f"signbit({name}) AND NOT isnan({name})"]
    return [name]


def _is_local_time(data_type: str) -> bool:
    """Dates and times of every resolution, which SQL compares exactly; those with a time zone are another thing."""
    return data_type == "DATE" or (data_type.startswith("TIMESTAMP") and "ZONE" not in data_type)


def _left_over(
    connection: duckdb.DuckDBPyConnection, keys: Sequence[str], of_release: Sequence[str] | None = None
) -> Difference:
    """The keys are those of both sides, or of the source, if the release has others."""
    both = [", ".join(f"{key} AS key_{place}" for place, key in enumerate(own)) for own in (keys, of_release or keys)]
    rows = f"(SELECT {both[0]}, 1 AS side FROM source UNION ALL SELECT {both[1]}, -1 AS side FROM release)"  # noqa: S608
    names = [f"key_{place}" for place in range(len(keys))]
    return difference_of(lambda query: connection.execute(query).fetchall(), rows, names)


def difference_of(fetch: Callable[[str], list[Any]], rows: str, keys: Sequence[str]) -> Difference:
    """Rows with a side, 1 for the table and -1 for the release, by their keys; `fetch` reads to the end."""
    query = f"""
        SELECT coalesce(sum(balance) FILTER (balance > 0), 0), coalesce(-sum(balance) FILTER (balance < 0), 0)
        FROM (SELECT sum(side) AS balance FROM {rows} GROUP BY {", ".join(keys)} HAVING sum(side) <> 0)"""  # noqa: S608
    ((missing, extra),) = fetch(query)
    return Difference(int(missing), int(extra))
