"""What is known of a table before it has any roles: its columns with types, nulls and different values, never a cell.

It takes one reading. A sketch of fixed size says about how many different values a column has (DuckDB's HyperLogLog, a
few percent off), so that memory does not grow with the table. Where the table has at most `EXACT_ROWS` rows, columns of
not too many values are counted exactly in a second reading.

Text files are read as text. The first rows of a column of texts say whether it holds numbers or dates: it does if
nearly all of them are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dalenius.tables.connections import quote_name
from dalenius.tables.open_table import Table, open_table, tables_of_file
from dalenius.tables.table_errors import plain_errors

Kind = Literal["text", "number", "date", "boolean", "other"]

EXACT_ROWS = 2_000_000
_EXACT_VALUES = 100_000  # of a column, about: more of them are known well enough
_NEARLY_ALL = 0.95  # of the values, beside codes such as "N/A"
_FIRST_ROWS = 100_000  # rows that say what kind of texts a column has
_MEMORY = 2**30  # bytes, before the engine spills to the disk
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)")
_DATES = re.compile(r"DATE|TIME.*")


@dataclass(frozen=True)
class ColumnFacts:
    """One column. `type` is what the file says, `kind` what the values look like.

    `distinct` is the number of different values that are not null, about right if it is not exact. `nulls` is exact.
    """

    name: str
    type: str
    kind: Kind
    distinct: int
    distinct_is_exact: bool
    nulls: int


@dataclass(frozen=True)
class TableFacts:
    """The columns in the order of the table, and the number of its rows."""

    rows: int
    columns: tuple[ColumnFacts, ...]


def describe(source: Any, table: str | None = None) -> TableFacts:
    """The columns of a table: a path, or whatever else `open_table` opens."""
    with open_table(source, table, _MEMORY) as opened, plain_errors():
        rows, columns = _describe_columns(opened)
        few = [column for column in columns if rows <= EXACT_ROWS and column.distinct <= _EXACT_VALUES]
        if not few:
            return TableFacts(rows, columns)
        counted = _row(
            opened, [f"count(DISTINCT {_countable(quote_name(column.name), column.kind)})" for column in few]
        )
        exact = {column.name: distinct for column, distinct in zip(few, counted, strict=True)}
        return TableFacts(
            rows,
            tuple(
                replace(column, distinct=exact[column.name], distinct_is_exact=True) if column.name in exact else column
                for column in columns
            ),
        )


def tables_in(path: Path, *, views: bool = True) -> list[str]:
    """The tables of a DuckDB file by the names that `describe` takes; none of any other file.

    Without `views`, neither views, which may read other files, nor names that stand for two things.
    """
    return tables_of_file(path, views)


def _describe_columns(opened: Table) -> tuple[int, tuple[ColumnFacts, ...]]:
    kinds = _kinds(opened)
    named = [(quote_name(name), kind) for name, kind in zip(opened.columns, kinds, strict=True)]
    counted = [
        f"{function}({_countable(name, kind)})"
        for name, kind in named
        for function in ("count", "approx_count_distinct")
    ]
    rows, *numbers = _row(opened, ["count(*)", *counted])
    columns = []
    for place, (name, kind) in enumerate(zip(opened.columns, kinds, strict=True)):
        there, distinct = numbers[2 * place : 2 * place + 2]
        columns.append(
            ColumnFacts(
                name=name,
                type=opened.types[place],
                kind=kind,
                distinct=min(distinct, there),
                distinct_is_exact=False,
                nulls=rows - there,
            )
        )
    return rows, tuple(columns)


def _kinds(opened: Table) -> list[Kind]:
    """What columns hold: what their types say, and of texts, what the first rows look like."""
    kinds = [_kind(kind) for kind in opened.types]
    texts = [place for place, kind in enumerate(kinds) if kind == "text"]
    if not texts:
        return kinds
    names = [quote_name(opened.columns[place]) for place in texts]
    tests = ("count({})", "count(TRY_CAST({} AS DOUBLE))", "count(TRY_CAST({} AS TIMESTAMP))")
    counts = _row(opened, [test.format(name) for name in names for test in tests], _FIRST_ROWS)
    for place, there, numbers, dates in zip(texts, counts[::3], counts[1::3], counts[2::3], strict=True):
        nearly_all = max(1, _NEARLY_ALL * there)
        kinds[place] = "number" if numbers >= nearly_all else "date" if dates >= nearly_all else "text"
    return kinds


def _row(opened: Table, expressions: list[str], first: int | None = None) -> tuple[int, ...]:
    """Numbers from the table, or from its first rows."""
    rows = "source" if first is None else f"(SELECT * FROM source LIMIT {first})"  # noqa: S608 (a number)
    (row,) = opened.query(f"SELECT {', '.join(expressions)} FROM {rows}").fetchall()  # noqa: S608 (names are quoted)
    return tuple(int(number) for number in row)


def _countable(name: str, kind: Kind) -> str:
    """Nested values by their text."""
    return name if kind != "other" else f"CAST({name} AS VARCHAR)"


def _kind(name: str) -> Kind:
    """What a type of DuckDB's holds."""
    if _NUMBERS.fullmatch(name):
        return "number"
    if _DATES.fullmatch(name):
        return "date"
    if name == "BOOLEAN":
        return "boolean"
    return "text" if name in ("VARCHAR", "UUID") or name.startswith("ENUM(") else "other"
