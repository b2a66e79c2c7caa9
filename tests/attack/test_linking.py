"""People of a table in places of a release: assignments that are known, or can all be tried."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dalenius.attack import linking
from dalenius.attack.exchanges import link
from dalenius.attack.linking import Items, Linked, Room, surplus
from dalenius.infer.candidates import Integers


@dataclass(frozen=True)
class Problem:
    """Places with a bucket and a class, units with a class and items, and what buckets publish."""

    classes: Integers
    buckets: Integers
    unit_classes: Integers
    items: Items
    keys: Integers
    counts: Integers

    @classmethod
    def planted(cls, rng: np.random.Generator, buckets: int, size: int, classes: int, kinds: Sequence[int]) -> Problem:
        """Units were dealt to places in some way, and buckets publish what they then have. Columns have many values."""
        places, starts = buckets * size, np.cumsum([0, *kinds]).tolist()
        of_places = rng.integers(0, classes, places)
        of_buckets = np.repeat(np.arange(buckets), size)
        codes = [
            start + np.minimum((2 * rng.pareto(1.0, places)).astype(np.int64), number - 1)
            for start, number in zip(starts, kinds, strict=False)
        ]
        place_of = rng.permutation(places)
        items = Items.of(
            np.tile(np.arange(places), len(kinds)), np.concatenate([own[place_of] for own in codes]), places, starts[-1]
        )
        keys, counts = np.unique(np.concatenate([of_buckets * starts[-1] + own for own in codes]), return_counts=True)
        return cls(of_places, of_buckets, of_places[place_of], items, keys, counts)

    def shuffled(self, rng: np.random.Generator) -> Problem:
        """With the items of others."""
        units = len(self.unit_classes)
        return replace(self, items=Items.of(*self.items.take(rng.permutation(units)), units, self.items.kinds))

    def link(self, seed: int = 0) -> Linked:
        room = Room(self.keys, self.counts)
        return link(self.classes, self.buckets, self.unit_classes, self.items, room, np.random.default_rng(seed))

    def surplus(self) -> int:
        return surplus(self.classes, self.buckets, self.unit_classes, self.items, Room(self.keys, self.counts))

    def held(self, unit: int) -> list[int]:
        first, last = self.items.first[unit : unit + 2].tolist()
        return [int(code) for code in self.items.codes[first:last]]

    def too_many(self, units: Sequence[int]) -> Counter[int]:
        """By bucket and item, how many more units have it than the bucket publishes."""
        there = Counter(
            bucket * self.items.kinds + item
            for bucket, unit in zip(self.buckets.tolist(), units, strict=True)
            if unit >= 0
            for item in self.held(unit)
        )
        return there - Counter(dict(zip(self.keys.tolist(), self.counts.tolist(), strict=True)))

    def fewest(self) -> int:
        """The least number of misplaced items, by trying all assignments."""
        groups = [
            (np.flatnonzero(self.classes == one).tolist(), np.flatnonzero(self.unit_classes == one).tolist())
            for one in np.unique(self.classes).tolist()
        ]
        fewest = len(self.items.codes)
        for orders in itertools.product(*(itertools.permutations(units) for _, units in groups)):
            units = [-1] * len(self.classes)
            for (places, _), order in zip(groups, orders, strict=True):
                for place, unit in zip(places, order, strict=True):
                    units[place] = unit
            fewest = min(fewest, self.too_many(units).total())
        return fewest


def check(problem: Problem, linked: Linked) -> None:
    """Everybody is in a place of their class, once, and what is said of it is so."""
    there = linked.units >= 0
    units = linked.units[there]
    assert len(set(units.tolist())) == len(units)
    assert (problem.unit_classes[units] == problem.classes[there]).all()
    too_many = problem.too_many(linked.units.tolist())
    assert linked.misplaced == too_many.total()
    assert linked.held == sum(len(problem.held(unit)) for unit in units.tolist())
    for place, (bucket, unit) in enumerate(zip(problem.buckets.tolist(), linked.units.tolist(), strict=True)):
        items = problem.held(unit) if unit >= 0 else []
        assert linked.wrong[place] == any(too_many[bucket * problem.items.kinds + item] for item in items)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_of_all_assignments_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem.planted(rng, buckets=4, size=2, classes=2, kinds=(4, 2))
    linked = problem.link(seed)
    check(problem, linked)
    assert (problem.fewest(), linked.misplaced, problem.surplus()) == (0, 0, 0)
    other = problem.shuffled(rng)
    linked, fewest = other.link(seed), other.fewest()
    check(other, linked)
    assert linked.misplaced == fewest
    assert other.surplus() <= fewest


@pytest.mark.parametrize(("buckets", "classes", "kinds"), [(1000, 3, (200, 4, 3)), (1500, 2, (300,))])
def test_few_classes_and_many_buckets(buckets: int, classes: int, kinds: Sequence[int]) -> None:
    """Exchanges with anybody leave 7 % of the items where they cannot be."""
    problem = Problem.planted(np.random.default_rng(0), buckets, 5, classes, kinds)
    linked = problem.link()
    check(problem, linked)
    assert linked.held == 5 * buckets * len(kinds)
    assert linked.misplaced < 0.01 * linked.held
    assert problem.surplus() == 0


def test_values_that_are_shuffled_have_no_room() -> None:
    problem = Problem.planted(np.random.default_rng(1), 400, 5, 40, (200, 4))
    assert problem.surplus() == 0
    other = problem.shuffled(np.random.default_rng(2))
    assert 0 < other.surplus() <= other.link().misplaced


def test_the_surplus_is_that_of_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.planted(np.random.default_rng(3), 30, 4, 6, (12, 3)).shuffled(np.random.default_rng(4))
    kinds, published = problem.items.kinds, dict(zip(problem.keys.tolist(), problem.counts.tolist(), strict=True))
    places = Counter(zip(problem.classes.tolist(), problem.buckets.tolist(), strict=True))
    units = Counter(
        (own, item) for unit, own in enumerate(problem.unit_classes.tolist()) for item in problem.held(unit)
    )
    room = {
        (own, item): sum(
            min(number, published.get(bucket * kinds + item, 0))
            for (one, bucket), number in places.items()
            if one == own
        )
        for own, item in units
    }
    by_formula = sum(max(0, number - room[key]) for key, number in units.items())
    assert by_formula > 0
    assert problem.surplus() == by_formula
    monkeypatch.setattr(linking, "_PAIRS", 20)  # a few at a time
    assert problem.surplus() == by_formula


def test_places_and_units_that_are_left_over() -> None:
    """Some units are not in the release, and are known by having no class; so some places have nobody."""
    problem = Problem.planted(np.random.default_rng(5), 200, 5, 3, (60, 4))
    classes = problem.unit_classes.copy()
    classes[::4] = -1
    classes[1::40] = 7  # a class that has no places
    part = replace(problem, unit_classes=classes)
    linked = part.link()
    check(part, linked)
    assert int((linked.units >= 0).sum()) == int(((classes >= 0) & (classes < 7)).sum())
    assert linked.misplaced == part.surplus() == 0


def test_classes_in_one_bucket_are_certain_or_wrong() -> None:
    """One place a class: everybody is where they are, and the second bucket has no room for item 1."""
    classes, buckets = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1])
    items = Items.of(np.arange(4), np.array([0, 1, 1, 0]), 4, 2)
    room = Room(np.array([0, 1, 2]), np.array([1, 1, 2]))
    assert surplus(classes, buckets, classes, items, room) == 1
    linked = link(classes, buckets, classes, items, room, np.random.default_rng(0))
    assert linked.units.tolist() == [0, 1, 2, 3]
    assert linked.wrong.tolist() == [False, False, True, False]
    assert (linked.certain, linked.held, linked.misplaced) == (4, 4, 1)


@pytest.mark.parametrize("table", [2**24, 0])
def test_cells_are_found_in_a_table_or_by_searching(table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_TABLE", table)
    room = Room(np.array([2, 3, 7]), np.array([1, 2, 1]))
    assert room.cells(np.array([0, 2, 3, 4, 7, 8, 900])).tolist() == [3, 0, 1, 3, 2, 3, 3]
    room.fill(room.cells(np.array([2, 2, 7, 8])))
    assert room.has_too_many(np.arange(4)).tolist() == [True, False, False, True]
    assert room.is_full(np.arange(4)).tolist() == [True, False, True, True]
    assert room.too_many(np.array([0, 0, 2, 3])) == 2  # one of item 2 in bucket 0, and the one that has no cell
    nothing = Room(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert nothing.cells(np.array([0, 5])).tolist() == [0, 0]
    assert nothing.is_full(np.array([0])).tolist() == [True]
