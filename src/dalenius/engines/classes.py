"""Buckets in classes under DuckDB: the values of ST as a stream of codes, and matching rows of QIT by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.codes import Codes, Dictionary
from dalenius.engines.counting import Group, ReleaseTables
from dalenius.engines.query_errors import query_errors, release_errors

_ROWS_AT_ONCE = 2**18
_FETCHED_AT_ONCE = 10_000

Integers = npt.NDArray[np.int64]


def coded_values(
    tables: ReleaseTables, values: Dictionary, rows: int = _ROWS_AT_ONCE
) -> Iterator[tuple[Integers, Codes]]:
    """The buckets of ST and the codes of its values, in the order of the file."""
    with release_errors():
        stream = tables.connection.table("st").project("b, CAST(s AS VARCHAR) AS s")
        for batch in stream.to_arrow_reader(rows):
            yield np.asarray(batch["b"]).astype(np.int64), values.encode(batch["s"])


def keep_runs(tables: ReleaseTables, firsts: Integers, classes: Integers) -> None:
    """Note the class of every bucket: that of the last run that begins at it, or before."""
    with release_errors():
        tables.connection.register("found", pa.table({"first": firsts, "class": classes}))
        tables.connection.execute("CREATE OR REPLACE TEMP TABLE runs AS SELECT * FROM found")
        tables.connection.unregister("found")


def rows_by_class(tables: ReleaseTables, rows: str, by: Sequence[str]) -> Iterator[tuple[Group, int, int]]:
    """After `keep_runs`: group, class and number of the rows that match, groups of columns of QIT one after another."""
    names, shown, order = tables.grouped(by)
    return _fetched(
        tables,
        f"""SELECT {shown} class, count(*)
        FROM (SELECT * FROM qit WHERE {rows}) AS q ASOF JOIN runs ON q.b >= runs.first
        GROUP BY {names} class ORDER BY {order} class""",  # noqa: S608
    )


def values_that_match(tables: ReleaseTables, values: str, sensitive: str) -> list[tuple[str | None, Group]]:
    """The values of ST that match: as text, and as groups show them."""
    _, shown, _ = tables.grouped([sensitive])
    query = f"SELECT CAST(s AS VARCHAR), {shown} 0 FROM st WHERE {values} GROUP BY s"  # noqa: S608
    with query_errors():
        return [(text, (value,)) for text, value, _ in tables.connection.execute(query).fetchall()]


def _fetched(tables: ReleaseTables, query: str) -> Iterator[tuple[Group, int, int]]:
    with query_errors():
        found = tables.connection.execute(query)
        while batch := found.fetchmany(_FETCHED_AT_ONCE):
            for row in batch:
                yield tuple(row[:-2]), int(row[-2]), int(row[-1])
