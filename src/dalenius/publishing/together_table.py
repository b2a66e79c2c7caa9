"""The table of sensitive columns that are kept together: what goes with what in a row, person by person.

It has a line for each person and tuple of values, in the order of buckets and tuples: of a person with one row the one
tuple, of one with several each that is in any of them, and in how many. The tables of the single columns are beside it,
as of columns that are apart: how many people have a value does not follow from tuples, two of which may be one
person's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dalenius.place.domains import Integers
from dalenius.place.items import Items, Tuples
from dalenius.place.sensitive import SensitiveColumn
from dalenius.release.column_entries import KeptTogether
from dalenius.release.writer import TableWriter
from dalenius.tables.arrays import arrow_array

PIECE_ROWS = 2**18

Lines = Iterator[tuple[Integers, Integers, Integers]]


def lines_of(items: Items, people: Integers, buckets: Integers, strata: Sequence[int]) -> Lines:
    """For each stratum bucket, code and rows of each item, in this order. `people` are in that of their `buckets`."""
    for start, end in pairwise(np.cumsum([0, *strata]).tolist()):
        mine = items.take(people[start:end])
        of_items = np.repeat(buckets[start:end], np.diff(mine.offsets))
        order = np.lexsort((mine.rows, mine.codes, of_items))
        yield of_items[order], mine.codes[order].astype(np.int64), mine.rows[order].astype(np.int64)


def write_together(
    writer: TableWriter, lines: Lines, tuples: Tuples, columns: Sequence[SensitiveColumn], *, with_rows: bool
) -> KeptTogether:
    """Write the lines of tuples, decoded column by column, and describe the table."""
    try:
        for buckets, codes, of_rows in lines:
            for start in range(0, len(codes), PIECE_ROWS):
                piece = slice(start, start + PIECE_ROWS)
                values = tuples.values[codes[piece]].astype(np.int64)
                cells = [column.decode(values[:, place]) for place, column in enumerate(columns)]
                last = [arrow_array(of_rows[piece])] if with_rows else []
                writer.write([arrow_array(buckets[piece]), *cells, *last])
        return KeptTogether(table=writer.finish(), columns=[column.name for column in columns])
    finally:
        writer.close()


def together_fields(columns: Sequence[SensitiveColumn]) -> list[pa.Field]:
    """The columns of the tuples as they are published."""
    return [pa.field(column.name, column.listing.data_type, column.publishes_nulls) for column in columns]
