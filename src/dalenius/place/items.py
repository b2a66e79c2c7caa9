"""What people have: the values of a sensitive set, or the tuples of values of several sets that are in one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.place.domains import Integers
from dalenius.tables.arrays import distinct

Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_MOST_KEYS = 2**63


@dataclass(frozen=True)
class Items:
    """The values that people have: those of person u are `codes[offsets[u]:offsets[u + 1]]`, ascending.

    `rows` says in how many rows of the person each is.
    """

    offsets: Integers
    codes: Numbers
    rows: Numbers

    @property
    def people(self) -> Integers:
        """The person of each item."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def take(self, people: Integers) -> Items:
        """The items of some people, in this order."""
        lengths = np.diff(self.offsets)[people]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = np.repeat(self.offsets[people] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Items(offsets, self.codes[places], self.rows[places])

    def only(self, codes: Integers) -> Items:
        """Those with some codes alone, ascending, which are counted anew."""
        numbers = np.searchsorted(codes, self.codes)
        there = numbers < len(codes)
        there[there] = codes[numbers[there]] == self.codes[there]
        offsets = np.concatenate(([0], np.cumsum(there)))[self.offsets]
        return Items(offsets, numbers[there].astype(np.int32), self.rows[there])


@dataclass(frozen=True)
class Shortened:
    """People who keep `most` of their rows, chosen at random: how many rows they had, and what they had in all of them.

    `items` is a list by set of how many of these rows each value is in.
    """

    people: Integers
    rows: Integers
    most: int
    items: tuple[Items, ...]

    @classmethod
    def of(
        cls, persons: Integers, many: Integers, most: int, sets: Sequence[Sequence[Numbers]], kinds: Sequence[int]
    ) -> Shortened:
        """The people of these rows, `many`, of all rows. Each person's are neighbours, in the order of `persons`."""
        people, rows = np.unique(persons[many], return_counts=True)
        offsets = np.concatenate(([0], np.cumsum(rows)))
        items = [
            items_of(offsets, [one[many] for one in of_set], kind) for of_set, kind in zip(sets, kinds, strict=True)
        ]
        return cls(people, rows, most, tuple(items))

    def chances(self, people: Integers, rows: Integers) -> Floats:
        """How likely it is that one of so many rows of a person, counted within these people, is kept.

        Of r rows k are kept, and c of them have a value: all with it are left out with C(r - c, k) / C(r, k).
        """
        of = self.rows[people]
        none = np.ones(len(rows))
        for place in range(self.most):
            none *= np.maximum(0, of - rows - place) / (of - place)
        return 1 - none


@dataclass(frozen=True)
class Tuples:
    """The tuples of values that people have in their rows, of sensitive sets of one column each.

    `sets` are the numbers of the sets, and `values[t]` the codes of tuple t, set by set. Tuples are in the order of
    their values; each is in some row.
    """

    sets: tuple[int, ...]
    values: Numbers
    items: Items


def items_of(offsets: Integers, columns: Sequence[Numbers], values: int) -> Items:
    """What people have in any of their rows, in any of the columns; each value once, with the rows that have it."""
    people, rows = len(offsets) - 1, int(offsets[-1])
    if len(columns) == 1 and people == rows:
        return Items(offsets, columns[0], np.ones(rows, dtype=np.int32))
    person = np.repeat(np.arange(people), np.diff(offsets))
    if len(columns) == 1:
        pairs = person * values + columns[0]
    else:
        cells = np.concatenate([np.arange(rows) * values + column for column in columns])
        cells = distinct(cells)
        pairs = person[cells // values] * values + cells % values
    pairs.sort()
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    different = pairs[starts]
    counts = np.bincount(different // values, minlength=people)
    return Items(
        np.concatenate(([0], np.cumsum(counts))),
        (different % values).astype(np.int32),
        np.diff(starts, append=len(pairs)).astype(np.int32),
    )


def tuples_of(offsets: Integers, sets: Sequence[int], columns: Sequence[Numbers]) -> Tuples:
    """The tuples of each row as items of people. A code that is in no row does not count: `values` are without it."""
    keys, size = np.zeros(int(offsets[-1]), dtype=np.int64), 1
    ranks = [_ranks(column) for column in columns]
    for column in ranks:
        many = int(column.max(initial=0)) + 1
        if size * many >= _MOST_KEYS:
            keys = np.unique(keys, return_inverse=True)[1]
            size = int(keys.max(initial=0)) + 1
        keys *= many
        keys += column
        size *= many
    different, codes = np.unique(keys, return_inverse=True)
    somewhere = np.empty(len(different), dtype=np.int64)  # a row with each tuple
    somewhere[codes] = np.arange(len(codes))
    values = np.stack([column[somewhere] for column in ranks], axis=1).astype(np.int32)
    return Tuples(tuple(sets), values, items_of(offsets, [codes.astype(np.int32)], len(different)))


def _ranks(codes: Numbers) -> Integers:
    """The place of each code among those that occur."""
    there = np.bincount(codes) > 0
    ranks: Integers = (np.cumsum(there) - 1)[codes]
    return ranks
