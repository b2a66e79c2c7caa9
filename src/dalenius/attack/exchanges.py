"""The search for places: units of a class exchange them, so that buckets have no more of an item than they publish.

In each round some of the places that are wrong (their bucket has too many of an item x of their unit) look for somebody
of their class to exchange with. Those who may be worth it are

    in a bucket that can have x,
    like the unit but for one item: in place of x they have a y that the bucket lacks,
    with such a y, whatever else they have,
    with the rarest item of the unit, if that is not x,
    anybody.

Of some of each, the exchange that brings most items into order is chosen, if it does not bring more into disorder:
exchanges that change nothing lead to others that do. Of those that concern the same bucket and item, the best is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.attack.linking import Bits, Items, Linked, Room, deal, with_a_choice
from dalenius.infer.candidates import Integers

_ROUNDS = 600
_SWEEPS = 20  # how often a place may look for somebody, in the mean
_PART = 32  # of the places look at once, ...
_LEAST = 256  # ... or so many, if that is more
_AT_ONCE = 2**13  # places whose exchanges are weighed at once

Numbers = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.uint64]
Offers = list[tuple[Integers, Integers]]  # of a wrong place, by its number, and a place that it may exchange with


def link(
    classes: Integers,
    buckets: Integers,
    unit_classes: Integers,
    items: Items,
    room: Room,
    rng: np.random.Generator,
) -> Linked:
    """Deal the units of every class to its places. Units without a class (-1) are in no place."""
    units, several = deal(classes, unit_classes, rng)
    taken = units >= 0
    units[~taken] = len(unit_classes)
    choice = with_a_choice(classes, buckets)
    search = _Search(classes, buckets, units, items.with_nobody(), room, rng)
    everywhere = np.arange(len(classes))
    cells = search.cells(everywhere)[1]
    room.fill(cells)
    search.run(choice)
    misplaced = room.too_many(search.cells(everywhere)[1])
    units[units == len(unit_classes)] = -1
    return Linked(units, search.wrong, int((taken & ~several).sum()), len(cells), misplaced)


class _Drawers:
    """Things by a key, of which one is drawn at random."""

    def __init__(self, keys: npt.NDArray[np.generic], things: Integers, rng: np.random.Generator) -> None:
        order = np.argsort(keys, kind="stable")
        self._things, self._rng = things[order], rng
        self._keys, self._first = np.unique(keys[order], return_index=True)
        self._counts = np.diff(np.append(self._first, len(keys)))

    def draw(self, keys: npt.NDArray[np.generic]) -> tuple[Integers, Integers]:
        """The places of the keys that there is something for, and a thing for each."""
        if not len(self._keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        drawer = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = np.flatnonzero(self._keys[drawer] == keys)
        drawer = drawer[found]
        which = self._first[drawer] + (self._rng.random(len(found)) * self._counts[drawer]).astype(np.int64)
        return found, self._things[which]


@dataclass(frozen=True)
class _Changes:
    """What exchanges change: the exchange, the cell, and whether an item comes into it (1) or goes (-1)."""

    owners: Integers
    cells: Integers
    signs: Integers


class _Search:
    """Exchanges units until no bucket has too many of an item, or there have been enough attempts."""

    def __init__(
        self, classes: Integers, buckets: Integers, units: Integers, items: Items, room: Room, rng: np.random.Generator
    ) -> None:
        self._classes, self._buckets, self.units = classes, buckets, units
        self._items, self._room, self._rng = items, room, rng
        self.wrong: Bits = np.zeros(len(classes), bool)

    def cells(self, places: Integers) -> tuple[Integers, Integers]:
        """Where the items are of the units in these places: which of the places it is, and the cell."""
        owners, codes = self._items.take(self.units[places])
        return owners, self._room.cells(self._buckets[places][owners] * self._items.kinds + codes)

    def run(self, choice: Bits) -> None:
        """Only places with a choice are looked at."""
        self._mark(np.arange(len(self._classes)))
        places = np.flatnonzero(choice)
        if not len(places) or not self._items.kinds:
            return
        at_once = max(_LEAST, len(places) // _PART)
        left = _SWEEPS * len(places) + _LEAST
        self._prepare(places)
        for _ in range(_ROUNDS):
            wrong = np.flatnonzero(self.wrong & choice)
            if not len(wrong) or left <= 0:
                return
            if len(wrong) > at_once:
                wrong = np.sort(self._rng.choice(wrong, at_once, replace=False))
            left -= len(wrong)
            self._round(wrong)

    def _mark(self, places: Integers) -> None:
        """Note which of the places have a unit with an item of which their bucket has too many."""
        owners, cells = self.cells(places)
        self.wrong[places] = False
        self.wrong[places[owners[self._room.has_too_many(cells)]]] = True

    def _prepare(self, places: Integers) -> None:
        """Where to look for units and places; none of it changes when units change places."""
        items, rng, kinds = self._items, self._rng, self._items.kinds
        units = self.units[places]
        self._place_of = np.full(len(items.first) - 1, -1)
        self._place_of[units] = places
        owner, codes = items.take(units)
        self._width = int(self._classes.max()) + 1
        self._in_class = _Drawers(self._classes[places], places, rng)
        self._in_bucket = _Drawers(self._buckets[places] * self._width + self._classes[places], places, rng)
        self._with_item = _Drawers(self._classes[places][owner] * kinds + codes, units[owner], rng)
        self._hashes: Hashes = rng.integers(0, 2**63, (2, kinds), np.int64).astype(np.uint64)
        class_hashes = rng.integers(0, 2**63, self._width, np.int64).astype(np.uint64)
        self._all = np.zeros(len(items.first) - 1, np.uint64)
        self._all[units] = class_hashes[self._classes[places]]
        np.add.at(self._all, units[owner], self._hashes[0][codes])
        # all items but one of a unit, and that one
        self._but_one = _Drawers(
            self._all[units[owner]] - self._hashes[0][codes] + self._hashes[1][codes], units[owner], rng
        )
        self._rarest = np.full(len(items.first) - 1, -1)
        order = np.argsort(-np.bincount(codes, minlength=kinds)[codes], kind="stable")
        self._rarest[units[owner][order]] = codes[order]  # the last one stays
        by_bucket = np.argsort(self._buckets, kind="stable")
        self._by_bucket = Items(
            np.searchsorted(self._buckets[by_bucket], np.arange(int(self._buckets.max()) + 2)), by_bucket, 0
        )

    def _round(self, wrong: Integers) -> None:
        """One exchange at most for each of the places."""
        free = np.flatnonzero(self._room.left > 0)
        keys = self._room.keys[free]
        with_room = _Drawers(keys % self._items.kinds, keys // self._items.kinds, self._rng)
        lacking = _Drawers(keys // self._items.kinds, keys % self._items.kinds, self._rng)
        one, other, gain = [], [], []
        for start in range(0, len(wrong), _AT_ONCE):
            part = wrong[start : start + _AT_ONCE]
            mine, place = self._offers(part, self._wrong_item(part), with_room, lacking)
            gains = self._gains(self._changes(part[mine], place), len(mine))
            order = np.lexsort((self._rng.random(len(mine)) - gains, mine))
            best = order[np.flatnonzero(np.diff(mine[order], prepend=-1))]
            best = best[gains[best] >= 0]
            one.append(part[mine[best]])
            other.append(place[best])
            gain.append(gains[best])
        self._exchange(np.concatenate(one), np.concatenate(other), np.concatenate(gain))

    def _wrong_item(self, wrong: Integers) -> Integers:
        """One of the items that each place has too many of."""
        owners, cells = self.cells(wrong)
        codes = self._items.take(self.units[wrong])[1]
        bad = np.flatnonzero(self._room.has_too_many(cells))
        chosen = np.zeros(len(wrong), np.int64)
        bad = self._rng.permutation(bad)
        chosen[owners[bad]] = codes[bad]
        return chosen

    def _offers(
        self, wrong: Integers, item: Integers, with_room: _Drawers, lacking: _Drawers
    ) -> tuple[Integers, Integers]:
        """Which of the wrong places, and whom it may exchange with: some places for each."""
        kinds, units = self._items.kinds, self.units[wrong]
        classes, buckets = self._classes[wrong], self._buckets[wrong]
        everybody = np.arange(len(wrong))
        rare = self._rarest[units]
        offers: Offers = []

        def offer(which: Integers, drawers: _Drawers, keys: npt.NDArray[np.generic], of_units: bool = True) -> None:
            found, things = drawers.draw(keys)
            offers.append((which[found], self._place_of[things] if of_units else things))

        for _ in range(2):
            which, bucket = with_room.draw(item)
            offer(which, self._in_bucket, bucket * self._width + classes[which], of_units=False)
            which = everybody[rare != item]
            offer(which, self._with_item, classes[which] * kinds + rare[which])
        for attempt in range(6):
            which, lack = lacking.draw(buckets)
            key = self._all[units[which]] - self._hashes[0][item[which]] + self._hashes[1][lack]
            offer(which, self._but_one, key)
            if attempt < 2:
                offer(which, self._with_item, classes[which] * kinds + lack)
        offer(everybody, self._in_class, classes, of_units=False)
        which, place = (np.concatenate(parts) for parts in zip(*offers, strict=True))
        able = (buckets[which] != self._buckets[place]) & (classes[which] == self._classes[place])
        which, place = which[able], place[able]
        order = np.argsort(which, kind="stable")
        return which[order], place[order]

    def _changes(self, one: Integers, other: Integers) -> _Changes:
        """What it changes if the units of two places are exchanged."""
        kinds = self._items.kinds
        held = [self._items.take(self.units[places]) for places in (one, other)]
        keys = [owners * kinds + codes for owners, codes in held]
        changed, owners, signs = [], [], []
        for (owner, codes), own, others, home, away in (
            (held[0], keys[0], keys[1], one, other),
            (held[1], keys[1], keys[0], other, one),
        ):
            alone = ~_among(own, others)  # what both have stays where it is
            owner, codes = owner[alone], codes[alone]
            for places, sign in ((home, -1), (away, 1)):
                owners.append(owner)
                changed.append(self._buckets[places][owner] * kinds + codes)
                signs.append(np.full(len(owner), sign))
        return _Changes(np.concatenate(owners), self._room.cells(np.concatenate(changed)), np.concatenate(signs))

    def _gains(self, changes: _Changes, number: int) -> Integers:
        """How many items each exchange would bring into order, less those that it would bring into disorder."""
        comes = changes.signs > 0
        better = ~comes & self._room.has_too_many(changes.cells)
        worse = comes & self._room.is_full(changes.cells)
        gains = np.bincount(changes.owners, better.astype(np.float64) - worse, minlength=number)
        return gains.astype(np.int64)

    def _exchange(self, one: Integers, other: Integers, gains: Integers) -> None:
        """Exchange the units of pairs, the best first, if no better pair changes the same cell or place."""
        order = np.argsort(self._rng.random(len(one)) - gains)
        one, other = one[order], other[order]
        changes, rank = self._changes(one, other), np.arange(len(one))
        published = changes.cells < len(self._room.keys)
        owners, cells = changes.owners[published], changes.cells[published]
        chosen = np.ones(len(one), bool)
        chosen[owners[_first(cells, owners, len(self._room.left))[cells] != owners]] = False
        both = np.concatenate([one, other])
        first = _first(both, np.concatenate([rank, rank]), len(self._classes))
        chosen &= (first[one] == rank) & (first[other] == rank)
        mine = chosen[changes.owners]
        self._room.fill(changes.cells[mine], changes.signs[mine])
        one, other = one[chosen], other[chosen]
        self.units[one], self.units[other] = self.units[other], self.units[one]
        self._place_of[self.units[one]], self._place_of[self.units[other]] = one, other
        self._mark(self._by_bucket.take(np.unique(self._buckets[np.concatenate([one, other])]))[1])


def _among(own: Integers, others: Integers) -> Bits:
    """Which keys are among the others; both are in ascending order."""
    if not len(others):
        return np.zeros(len(own), bool)
    place = np.minimum(np.searchsorted(others, own), len(others) - 1)
    there: Bits = others[place] == own
    return there


def _first(things: Integers, ranks: Integers, number: int) -> Integers:
    """The least rank of each thing."""
    least = np.full(number, len(ranks) + 1)
    np.minimum.at(least, things, ranks)
    return least
