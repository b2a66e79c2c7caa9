"""Which person of the table is where in the release: one of the assignments that are possible.

Places of the release (rows, or people where the release tells them apart) have a bucket and a class, what is published
of them. Units of the table (records, or people) have a class and items, their sensitive values. A unit may be in any
place of its class, as long as each bucket has no more units with an item than it publishes:

    for every bucket g and item x:    |{units with x in the places of g}| <= count of x in g.

Where a class is in one bucket, nothing is open. The others are dealt at random within their classes, and then units
change places (`exchanges`). What is left over at the end is the number of items that are where they cannot be.

Whether there is such an assignment at all is hard to say, but often it is plain that there is none. Of a class, bucket
g takes no more units with x than it has places of the class, and no more than it publishes:

    units of class z with x  <=  sum over g of min(places of z in g, count of x in g).

By how much this is exceeded, over all z and x, is the `surplus`. The table of the release has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Integers
from dalenius.tables.arrays import distinct

_NOWHERE = -1
_TABLE = 2**24  # keys of buckets and items that are looked up in a table; where there are more, they are searched for
_PAIRS = 2**21  # of a class and a bucket, or of a class and a cell, that are looked at at once
_NEVER = -(2**40)  # the room for an item in a bucket that does not publish it

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """The items of units: those of unit u are `codes[first[u]:first[u + 1]]`, in ascending order and all different."""

    first: Integers
    codes: Integers
    kinds: int

    @classmethod
    def of(cls, owners: Integers, codes: Integers, units: int, kinds: int) -> Items:
        """From pairs of a unit and an item, in any order; codes below 0 are none."""
        there = codes >= 0
        keys = distinct(owners[there] * kinds + codes[there])
        first = np.searchsorted(keys, np.arange(units + 1) * kinds)
        return cls(first, keys % kinds, kinds)

    @property
    def owners(self) -> Integers:
        """The unit of each item."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def keys(self) -> Integers:
        """unit * kinds + item, ascending."""
        return self.owners * self.kinds + self.codes

    def take(self, units: Integers) -> tuple[Integers, Integers]:
        """The items of some units: which of these it is, and the item."""
        lengths = np.diff(self.first)[units]
        ends = np.cumsum(lengths)
        places = np.repeat(self.first[units] - ends + lengths, lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        return np.repeat(np.arange(len(units)), lengths), self.codes[places]

    def with_nobody(self) -> Items:
        """With one more unit, that has no items."""
        return Items(np.append(self.first, self.first[-1]), self.codes, self.kinds)


@dataclass(frozen=True)
class Linked:
    """The unit of each place, -1 if there is none, and how well that fits.

    `wrong` are places in buckets that have too many units with an item of theirs. Of the `held` items that units have
    in all, `misplaced` are too many. `certain` places have no other choice.
    """

    units: Integers
    wrong: Bits
    certain: int
    held: int
    misplaced: int


class Room:
    """How many units with an item each bucket can still have. Bucket and item are one key, bucket * kinds + item.

    The cell of a key is its place; all keys that no bucket publishes have the last cell, in which there is never room.
    """

    def __init__(self, keys: Integers, counts: Integers) -> None:
        """The keys in ascending order."""
        self.keys = keys
        self.left = np.append(counts, _NEVER).astype(np.int64)
        self._table: npt.NDArray[np.int32] | None = None
        if len(keys) and keys[-1] < _TABLE:
            self._table = np.full(int(keys[-1]) + 2, len(keys), np.int32)
            self._table[keys] = np.arange(len(keys))

    def cells(self, keys: Integers) -> Integers:
        """The cell of each key."""
        if self._table is not None:
            return self._table.take(keys, mode="clip").astype(np.int64)
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, place, len(self.keys))

    def fill(self, cells: Integers, by: Integers | int = 1) -> None:
        """Put units in; by less than 0, take them out."""
        np.subtract.at(self.left, cells, by)
        self.left[-1] = _NEVER

    def has_too_many(self, cells: Integers) -> Bits:
        """Whether taking a unit out makes it better."""
        return self.left[cells] < 0

    def is_full(self, cells: Integers) -> Bits:
        """Whether putting a unit in makes it worse."""
        return self.left[cells] <= 0

    def too_many(self, cells: Integers) -> int:
        """How many are too many, of units with items in these cells."""
        published = self.left[:-1]
        return int((cells == len(self.keys)).sum()) - int(published[published < 0].sum())


def surplus(classes: Integers, buckets: Integers, unit_classes: Integers, items: Items, room: Room) -> int:
    """How many items have no room at least, wherever the units of a class are. Of classes without places, none."""
    width, kinds = int(max(classes.max(initial=-1), unit_classes.max(initial=-1))) + 1, items.kinds
    has_places = np.append(np.bincount(classes, minlength=width) > 0, [False])  # the last one is that of class -1
    wanted, units = np.unique(
        (unit_classes[items.owners] * kinds + items.codes)[has_places[unit_classes[items.owners]]], return_counts=True
    )
    pairs, places = np.unique(buckets * width + classes, return_counts=True)
    first = np.searchsorted(room.keys, np.arange(int(buckets.max(initial=-1)) + 2) * kinds)
    widths = np.diff(first)[pairs // width]
    taken = np.zeros(len(wanted), np.int64)
    start = 0
    while start < len(pairs) and len(wanted):
        stop = start + max(1, int(np.searchsorted(np.cumsum(widths[start : start + _PAIRS]), _PAIRS)))
        mine = pairs[start:stop]
        which, cells = Items(first, np.arange(len(room.keys)), 0).take(mine // width)
        keys = (mine % width)[which] * kinds + room.keys[cells] % kinds
        able = np.minimum(places[start:stop][which], room.left[cells])
        place = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
        there = wanted[place] == keys
        taken += np.bincount(place[there], able[there], minlength=len(wanted)).astype(np.int64)
        start = stop
    return int(np.maximum(units - taken, 0).sum())


def deal(classes: Integers, unit_classes: Integers, rng: np.random.Generator) -> tuple[Integers, Bits]:
    """The unit of each place at random within its class, and whether the class has several units or places."""
    number = int(max(classes.max(initial=-1), unit_classes.max(initial=-1))) + 1
    by_place = np.argsort(classes, kind="stable")
    by_unit = np.lexsort((rng.random(len(unit_classes)), unit_classes))
    by_unit = by_unit[np.searchsorted(unit_classes[by_unit], 0) :]  # those without a class are in front
    places, there = np.bincount(classes, minlength=number), np.bincount(unit_classes[by_unit], minlength=number)
    first_place, first_unit = np.cumsum(places) - places, np.cumsum(there) - there
    sorted_classes = classes[by_place]
    rank = np.arange(len(by_place)) - first_place[sorted_classes]
    dealt = rank < there[sorted_classes]
    units = np.full(len(classes), _NOWHERE)
    units[by_place[dealt]] = by_unit[first_unit[sorted_classes[dealt]] + rank[dealt]]
    several: Bits = ((places > 1) | (there > 1))[classes]
    return units, several


def with_a_choice(classes: Integers, buckets: Integers) -> Bits:
    """The places whose class is in several buckets."""
    order = np.lexsort((buckets, classes))
    other_bucket = (classes[order][1:] == classes[order][:-1]) & (buckets[order][1:] != buckets[order][:-1])
    spread = np.zeros(int(classes.max(initial=-1)) + 1, bool)
    spread[classes[order][1:][other_bucket]] = True
    chosen: Bits = spread[classes]
    return chosen
