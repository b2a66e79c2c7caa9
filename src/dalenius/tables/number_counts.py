"""How often a table has each number of a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dalenius.errors import InputError, TooManyValuesError
from dalenius.tables.connections import literals, quote_name
from dalenius.tables.open_table import Table, open_table
from dalenius.tables.table_errors import naming_column, plain_errors

MOST_NUMBERS = 2**24  # different ones: 256 MB
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|U?INTEGER|FLOAT|DOUBLE|DECIMAL\([^)]*\)")


@dataclass(frozen=True, eq=False)
class NumberCounts:
    """Different numbers in ascending order, the records of each, and of nulls."""

    numbers: Any
    counts: Any
    nulls: int


def count_numbers(table: Table, column: str, missing: Sequence[str] = ()) -> NumberCounts:
    """How many records have each number of a column; text counts as the number that it is, or as null."""
    table.require_column(column)
    data_type = table.types[table.columns.index(column)]
    name = quote_name(column)
    if data_type == "VARCHAR":
        found = f"coalesce(TRY_CAST({name} AS BIGINT), TRY_CAST({name} AS DOUBLE))"
    elif _NUMBERS.fullmatch(data_type):
        found = name
    else:
        raise no_numbers(column, data_type)
    absent = literals(missing)
    found = f"CASE WHEN CAST({name} AS VARCHAR) IN ({absent}) THEN NULL ELSE {found} END" if missing else found
    texts_found = f"count(*) FILTER (CAST({name} AS VARCHAR) NOT IN ({absent}))" if missing else f"count({name})"
    query = f"""SELECT {found} AS number, count(*) AS records, {texts_found} AS texts FROM source
        GROUP BY 1 ORDER BY 1 NULLS LAST LIMIT {MOST_NUMBERS + 2}"""  # noqa: S608
    with naming_column(lambda: column), plain_errors():
        answer = table.query(query).fetchnumpy()
    numbers, records, texts = answer["number"], answer["records"], answer["texts"]
    nulls = numpy.ma.getmaskarray(numbers)
    if (texts[nulls] > 0).any():
        raise no_numbers(column)
    if len(numbers) > MOST_NUMBERS:
        raise TooManyValuesError.in_column(column, MOST_NUMBERS)
    return NumberCounts(numpy.ma.getdata(numbers)[~nulls], records[~nulls], int(records[nulls].sum()))


def numbers_of(source: Any, table: str | None, column: str, missing: Sequence[str] = ()) -> NumberCounts | None:
    """The numbers of a column; None if it has something else as well, or no number at all."""
    try:
        with open_table(source, table) as opened:
            found = count_numbers(opened, column, missing)
    except InputError:
        return None
    return found if len(found.numbers) else None


def no_numbers(column: str, found: str = "text that is no number") -> InputError:
    """The error for bands of a column that has something else."""
    return InputError(
        f"bands need numbers, and the sensitive column {column!r} has {found}",
        "Give groups of values instead; or make numbers of it, and nulls of what is no number.",
    )
