"""Which person of the table is where in the release: one of the assignments that are possible.

Places of the release (rows, or people where the release tells them apart) have a bucket and a class, what is published
of them. Units of the table (records, or people) have a class and items, their sensitive values. A unit may be in any
place of its class, as long as each bucket has no more units with an item than it publishes:

    for every bucket g and item x:    |{units with x in the places of g}| <= count of x in g.

Where a class has one place, nothing is open. The others are dealt at random within their classes, and then two units of
a class change places where that takes items out of buckets that have too many of them, or at least brings in no more.
What is left over at the end is the number of items that are where they cannot be.

Exchanges of a round are tried all at once, as arrays, and of those that concern the same bucket and item only the first
is made, so that what is left over never grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Integers

_ROUNDS = 400
_PATIENCE = 60  # rounds in which nothing gets better
_NOWHERE = -1

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
        keys = np.unique(owners[there] * kinds + codes[there])
        first = np.searchsorted(keys, np.arange(units + 1) * kinds)
        return cls(first, keys % kinds, kinds)

    @property
    def keys(self) -> Integers:
        """unit * kinds + item, ascending."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first)) * self.kinds + self.codes

    def take(self, units: Integers) -> tuple[Integers, Integers]:
        """The items of some units: which of these it is, and the item."""
        lengths = np.diff(self.first)[units]
        ends = np.cumsum(lengths)
        places = np.repeat(self.first[units] - ends + lengths, lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        return np.repeat(np.arange(len(units)), lengths), self.codes[places]


@dataclass(frozen=True)
class Linked:
    """The unit of each place, -1 if there is none; `certain` places have no other choice, `misplaced` items no room."""

    units: Integers
    certain: int
    misplaced: int


class Room:
    """How many units with an item a bucket can have, and has. Buckets and items are one key, bucket * kinds + item."""

    def __init__(self, keys: Integers, counts: Integers) -> None:
        """The keys in ascending order."""
        self._keys = keys
        self._left = counts.astype(np.int64).copy()

    def places(self, keys: Integers) -> Integers:
        """Where each key is; -1 for an item that the bucket does not publish."""
        if not len(self._keys):
            return np.full(len(keys), _NOWHERE)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, place, _NOWHERE)

    def change(self, places: Integers, by: Integers | int) -> None:
        """Put units in, or take them out."""
        there = places >= 0
        np.subtract.at(self._left, places[there], by if isinstance(by, int) else by[there])

    def has_too_many(self, places: Integers) -> Bits:
        """Whether taking a unit out makes it better."""
        return (places < 0) | (self._left[places] < 0)

    def is_full(self, places: Integers) -> Bits:
        """Whether putting a unit in makes it worse."""
        return (places < 0) | (self._left[places] <= 0)

    @property
    def overfull(self) -> int:
        """How many are too many, of items that are published."""
        return int(-self._left[self._left < 0].sum())


def link(
    classes: Integers,
    buckets: Integers,
    unit_classes: Integers,
    items: Items,
    room: Room,
    rng: np.random.Generator,
) -> Linked:
    """Deal the units of every class to its places. Units without a class (-1) are in no place."""
    units, several = _deal(classes, unit_classes, rng)
    taken = np.flatnonzero(units >= 0)
    search = _Search(classes, buckets, units, items, room, rng)
    room.change(search.cells(taken), 1)
    search.run(_with_a_choice(taken[several[taken]], classes, buckets))
    nowhere = int((search.cells(taken) < 0).sum())
    return Linked(units, int((~several[taken]).sum()), nowhere + room.overfull)


def _deal(classes: Integers, unit_classes: Integers, rng: np.random.Generator) -> tuple[Integers, Bits]:
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


def _with_a_choice(places: Integers, classes: Integers, buckets: Integers) -> Integers:
    """Those whose class is in several buckets."""
    if not len(places):
        return places
    order = places[np.lexsort((buckets[places], classes[places]))]
    same_class = classes[order][1:] == classes[order][:-1]
    other_bucket = same_class & (buckets[order][1:] != buckets[order][:-1])
    spread = np.zeros(int(classes.max()) + 1, bool)
    spread[classes[order][1:][other_bucket]] = True
    chosen: Integers = order[spread[classes[order]]]
    return chosen


class _Search:
    """Exchanges units of a class until no bucket has too many of an item, or nothing gets better."""

    def __init__(
        self, classes: Integers, buckets: Integers, units: Integers, items: Items, room: Room, rng: np.random.Generator
    ) -> None:
        self._classes, self._buckets, self._units = classes, buckets, units
        self._items, self._room, self._rng = items, room, rng

    def run(self, places: Integers) -> None:
        """Only these places have a choice."""
        waited = 0
        for _ in range(_ROUNDS if len(places) > 1 else 0):
            if not self._room.has_too_many(self.cells(places)).any():
                return
            waited = 0 if self._exchange(*self._pairs(places)) else waited + 1
            if waited == _PATIENCE:
                return

    def cells(self, places: Integers) -> Integers:
        """Where the items are of the units in these places."""
        owner, codes = self._items.take(self._units[places])
        return self._room.places(self._buckets[places][owner] * self._items.kinds + codes)

    def _pairs(self, places: Integers) -> tuple[Integers, Integers]:
        """Places of one class in two buckets, each place in one pair at most."""
        order = places[np.lexsort((self._rng.random(len(places)), self._classes[places]))]
        shifted = order[int(self._rng.integers(2)) :]
        one, other = shifted[:-1:2], shifted[1::2]
        able = (self._classes[one] == self._classes[other]) & (self._buckets[one] != self._buckets[other])
        return one[able], other[able]

    def _exchange(self, one: Integers, other: Integers) -> int:
        """Exchange the units of pairs where it does not make it worse. Gives how many items came into order."""
        owners, cells, signs = self._changes(one, other)
        worse = np.where(signs > 0, self._room.is_full(cells), False).astype(np.int64)
        better = np.where(signs < 0, self._room.has_too_many(cells), False).astype(np.int64)
        gain = np.bincount(owners, weights=better - worse, minlength=len(one))
        wanted = (gain > 0) | ((gain == 0) & (self._rng.random(len(one)) < 0.5))
        chosen = self._first_of_each_cell(owners, cells, wanted)
        mine = chosen[owners]
        self._room.change(cells[mine], signs[mine])
        first, second = one[chosen], other[chosen]
        self._units[first], self._units[second] = self._units[second], self._units[first]
        return int(gain[chosen].sum())

    def _changes(self, one: Integers, other: Integers) -> tuple[Integers, Integers, Integers]:
        """The pair, the cell, and +1 or -1 for what an exchange brings into a bucket, or takes out of it."""
        kinds = self._items.kinds
        held = [self._items.take(self._units[places]) for places in (one, other)]
        keys = [owner * kinds + codes for owner, codes in held]
        parts = []
        for (owner, codes), own, others in ((held[0], keys[0], keys[1]), (held[1], keys[1], keys[0])):
            alone = ~np.isin(own, others, assume_unique=True)  # what both have stays where it is
            parts.append((owner[alone], codes[alone]))
        owners, cells, signs = [], [], []
        for places, comes, goes in ((one, parts[1], parts[0]), (other, parts[0], parts[1])):
            for (owner, codes), sign in ((comes, 1), (goes, -1)):
                owners.append(owner)
                cells.append(self._room.places(self._buckets[places][owner] * kinds + codes))
                signs.append(np.full(len(owner), sign))
        return np.concatenate(owners), np.concatenate(cells), np.concatenate(signs)

    def _first_of_each_cell(self, owners: Integers, cells: Integers, wanted: Bits) -> Bits:
        """Of the pairs that are wanted, those that come first in all cells that they change."""
        mine = wanted[owners] & (cells >= 0)
        order = np.lexsort((owners[mine], cells[mine]))
        cell, owner = cells[mine][order], owners[mine][order]
        starts = np.flatnonzero(np.diff(cell, prepend=_NOWHERE))
        leader = np.repeat(owner[starts], np.diff(np.append(starts, len(cell))))
        chosen = wanted.copy()
        chosen[owner[owner != leader]] = False
        return chosen
