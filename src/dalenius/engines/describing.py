"""What a table's columns are, in one reading: types, nulls, and how many different values. Never a cell.

A sketch of fixed size says about how many different values a column has (DuckDB's HyperLogLog, a few percent off), so
that memory does not grow with the table. Where the table has at most `EXACT_ROWS` rows, columns of not too many values
are counted exactly in a second reading.

Text files are read as text. What kind a column of texts is, its values say: numbers or dates if nearly all of them are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from dalenius.engines.duckdb import Table, open_table, plain_errors, quoted, tables_of_file
from dalenius.model.columns import ColumnFacts, Kind, TableFacts

EXACT_ROWS = 2_000_000
_EXACT_VALUES = 100_000  # of a column, about: more of them are known well enough
_NEARLY_ALL = 0.95  # of the values, beside codes such as "N/A"
_MEMORY = 2**30  # bytes, before the engine spills to the disk
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)")
_DATES = re.compile(r"DATE|TIME.*")


def describe(source: Any, table: str | None = None) -> TableFacts:
    """The columns of a table: a path, or whatever else `engines.duckdb.open_table` opens."""
    with open_table(source, table, _MEMORY) as opened, plain_errors():
        rows, columns = _described(opened)
        few = [column for column in columns if rows <= EXACT_ROWS and column.distinct <= _EXACT_VALUES]
        if not few:
            return TableFacts(rows, columns)
        counted = _row(opened, [f"count(DISTINCT {_countable(quoted(column.name), column.kind)})" for column in few])
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


def _described(opened: Table) -> tuple[int, tuple[ColumnFacts, ...]]:
    kinds = [_kind(kind) for kind in opened.types]
    wanted = ["count(*)"]
    for name, kind in zip(opened.columns, kinds, strict=True):
        column = quoted(name)
        text = kind == "text"
        wanted += [
            f"count({column})",
            f"approx_count_distinct({_countable(column, kind)})",
            f"count(TRY_CAST({column} AS DOUBLE))" if text else "0",
            f"count(TRY_CAST({column} AS TIMESTAMP))" if text else "0",
        ]
    rows, *numbers = _row(opened, wanted)
    columns = []
    for place, (name, kind) in enumerate(zip(opened.columns, kinds, strict=True)):
        there, distinct, as_numbers, as_dates = numbers[4 * place : 4 * place + 4]
        looks: Kind = kind
        if kind == "text" and there:
            nearly_all = _NEARLY_ALL * there
            looks = "number" if as_numbers >= nearly_all else "date" if as_dates >= nearly_all else kind
        columns.append(ColumnFacts(name, opened.types[place], looks, min(distinct, there), False, rows - there))
    return rows, tuple(columns)


def _row(opened: Table, wanted: list[str]) -> tuple[int, ...]:
    found = opened.relation.query("source", f"SELECT {', '.join(wanted)} FROM source")  # noqa: S608 (names are quoted)
    rows = found.fetchall() if found is not None else []
    return tuple(int(number) for number in rows[0])


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
