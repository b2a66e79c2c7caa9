"""Some of the buckets and all of their units, with how much room each bucket has for each item.

Everything that exchanges, moves or merges works on a block. Its tables have a cell for every bucket and item, so
blocks are small where there are many buckets (`units_search.py`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers, Mask, most_values
from dalenius.solve.unit_problem import UnitProblem

Small = npt.NDArray[np.int32]

_PLENTY = 2**28  # room for the item that is none


class Block:
    """Units 0 .. n-1 in buckets 0 .. B-1; `items` are those of each unit, filled up with m, which is no item.

    `room[b, x]` = cap_x(P_b) - h_x(b) is negative where a cap is broken. `order[first[b] : first[b] + sizes[b]]` are
    the units of bucket b.
    """

    def __init__(self, items: Small, limits: tuple[Fraction, ...], bucket_of: Integers, known_records: int) -> None:
        self.items = items
        self.bucket_of = bucket_of
        self.number = len(limits)
        self.sizes = np.bincount(bucket_of).astype(np.int64)
        self._limits, self._known = limits, known_records
        self._row_of_size = np.full(2, -1, dtype=np.int64)
        self._caps = np.zeros((0, self.number + 1), dtype=np.int32)
        self.arrange()
        self.room = self.caps(self.sizes) - self._counts()

    @classmethod
    def of(cls, problem: UnitProblem, units: Integers, bucket_of: Integers) -> Block:
        """The block of some units, with only the items that they have, and their buckets numbered anew."""
        numbers = np.diff(problem.offsets)[units]
        width = int(numbers.max(initial=0))
        place = np.repeat(np.arange(len(units)), numbers)
        column = np.arange(len(place)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        own = problem.items[problem.offsets[units][place] + column]
        present = np.unique(own)
        items = np.full((len(units), width), len(present), dtype=np.int32)
        items[place, column] = np.searchsorted(present, own)
        _, buckets = np.unique(bucket_of, return_inverse=True)
        limits = tuple(problem.limits[x] for x in present.tolist())
        return cls(items, limits, buckets.astype(np.int64), problem.known_records)

    @property
    def loss(self) -> int:
        """The sum of (P - 1)^2."""
        return int(((self.sizes[self.sizes > 0] - 1) ** 2).sum())

    def caps(self, sizes: Integers) -> Small:
        """cap_x(P), one row for each of the sizes; there is always room for no item."""
        largest = int(sizes.max(initial=0))
        if largest >= len(self._row_of_size):
            longer = np.full(2 * largest + 1, -1, dtype=np.int64)
            longer[: len(self._row_of_size)] = self._row_of_size
            self._row_of_size = longer
        new = np.unique(sizes[self._row_of_size[sizes] < 0])
        if new.size:
            self._row_of_size[new] = len(self._caps) + np.arange(len(new))
            caps = np.full((len(new), self.number + 1), _PLENTY, dtype=np.int32)
            caps[:, : self.number] = most_values(self._limits, new, self._known).T
            self._caps = np.concatenate([self._caps, caps])
        return self._caps[self._row_of_size[sizes]]

    def arrange(self) -> None:
        """List the units by bucket again, after sizes have changed."""
        self.order = np.argsort(self.bucket_of, kind="stable")
        self.first = np.cumsum(self.sizes) - self.sizes
        self._place = np.empty(len(self.order), dtype=np.int64)
        self._place[self.order] = np.arange(len(self.order))

    def swap(self, units: Integers, partners: Integers) -> None:
        """Let units and partners, all different, change places."""
        here, there = self._place[units], self._place[partners]
        self.order[here], self.order[there] = partners, units
        self._place[units], self._place[partners] = there, here
        self.bucket_of[units], self.bucket_of[partners] = self.bucket_of[partners], self.bucket_of[units]

    def resize(self, buckets: Integers, change: int) -> None:
        """Let some buckets, all different, be larger or smaller, and have the room for that."""
        sizes = self.sizes[buckets]
        self.room[buckets] += self.caps(sizes + change) - self.caps(sizes)
        self.sizes[buckets] += change

    def _counts(self) -> Small:
        cells = len(self.sizes) * (self.number + 1)
        counts = np.zeros(cells, dtype=np.int32)
        for column in self.items.T:
            counts += np.bincount(self.bucket_of * (self.number + 1) + column, minlength=cells).astype(np.int32)
        table: Small = counts.reshape(len(self.sizes), self.number + 1)
        table[:, self.number] = 0
        return table

    def broken(self, among: Integers | None = None) -> Integers:
        """The buckets, of these or of all, that break a cap."""
        room = self.room if among is None else self.room[among]
        bad = np.flatnonzero((room < 0).any(axis=1))
        return bad if among is None else among[bad]

    def excess(self, buckets: Integers) -> Integers:
        """By how much caps are broken in all, for each of some buckets."""
        return np.asarray(-np.minimum(self.room[buckets], 0).sum(axis=1, dtype=np.int64))

    def shared(self, buckets: Integers) -> tuple[Integers, Integers]:
        """The units of some buckets, one bucket after the other; and for each the place of its bucket in the list."""
        sizes = self.sizes[buckets]
        which = np.repeat(np.arange(len(buckets)), sizes)
        places = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + self.first[buckets][which]
        return self.order[places], which

    def have(self, units: Integers, items: Integers) -> Mask:
        """Whether each unit has the item beside it."""
        return np.asarray((self.items[units] == items[:, None]).any(axis=1))
