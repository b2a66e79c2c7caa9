"""How many people have what, counted without the rest of their rows: for whoever chooses limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dalenius.place.columns import cast_to_published
from dalenius.place.domains import Integers
from dalenius.place.items import items_of
from dalenius.place.numbering import number_people, persons_in
from dalenius.place.people import Items, Numbers, SetSpec, only_present
from dalenius.place.sensitive import SensitiveColumn
from dalenius.tables.arrow import Source


@dataclass(frozen=True)
class CountedPeople:
    """Everybody's number of rows, and for each sensitive set what people have in any of them."""

    rows_each: Integers
    columns: tuple[SensitiveColumn, ...]
    items: tuple[Items, ...]

    @property
    def number(self) -> int:
        """How many people there are."""
        return len(self.rows_each)

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return int(self.rows_each.sum())


def count_people(
    source: Source,
    sets: Sequence[SetSpec],
    columns: Sequence[SensitiveColumn],
    person: str | None,
    batch_rows: int,
) -> CountedPeople:
    """Read who has what. `columns` are those of `count_sets`. Whether there is room is for the caller to check."""
    rows = sum(columns[0].counts) // len(sets[0].columns)
    codes, persons = _read(source, sets, columns, person, batch_rows)
    if person is None:
        order, rows_each = None, np.ones(rows, dtype=np.int64)
    else:
        numbers, _ = number_people(persons, person)
        order, rows_each = np.argsort(numbers, kind="stable"), np.bincount(numbers)
    offsets = np.concatenate(([0], np.cumsum(rows_each)))
    found = []
    for column, of_set in zip(columns, codes, strict=True):
        ordered = of_set if order is None else [one[order] for one in of_set]
        found.append(only_present(column, items_of(offsets, ordered, len(column.texts))))
    return CountedPeople(rows_each, tuple(column for column, _ in found), tuple(items for _, items in found))


def _read(
    source: Source, sets: Sequence[SetSpec], columns: Sequence[SensitiveColumn], person: str | None, batch_rows: int
) -> tuple[list[list[Numbers]], list[pa.Array]]:
    """The codes of all values by set and column, and what identifies the people."""
    sensitive = list(dict.fromkeys(name for one in sets for name in one.columns))
    types = {name: column.listing.data_type for one, column in zip(sets, columns, strict=True) for name in one.columns}
    codes: list[list[list[Numbers]]] = [[[] for _ in one.columns] for one in sets]
    persons: list[pa.Array] = []
    for batch in source.batches([*sensitive, *([person] if person is not None else [])], batch_rows):
        given = dict(zip(sensitive, batch.columns, strict=False))
        for one, column, of_set in zip(sets, columns, codes, strict=True):
            for name, of_column in zip(one.columns, of_set, strict=True):
                of_column.append(column.encode(cast_to_published(given[name], types[name])).astype(np.int32))
        if person is not None:
            persons.append(persons_in(batch.columns[-1]))
    return [[np.concatenate(parts) for parts in of_set] for of_set in codes], persons
