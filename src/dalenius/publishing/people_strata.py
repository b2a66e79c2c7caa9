"""People cut into strata, and each of them solved.

People with different numbers of rows are not alike: who has more rows has more values. So the number of rows is the
first question of the tree, and strata never have people with different numbers. The other questions are about the
least value of a person's rows in a column, in the order of its type, nulls last: where a column says the same in all
rows of a person, that is what it says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dalenius.errors import UsageError
from dalenius.model.plan import Status
from dalenius.model.progress import Progress
from dalenius.place.budget import MOST_CELLS
from dalenius.place.cutting import Cutter, OrderedColumn
from dalenius.place.domains import Integers
from dalenius.place.people import People
from dalenius.place.permutation import KeyStream, Purpose
from dalenius.place.survey import Survey
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.people_limits import LimitedSet, all_items
from dalenius.publishing.telling_numbers import more_by_chance, refuse_telling_numbers, too_few
from dalenius.solve.sizes import HIDING_SIZE, automatic_max_size, check_options, least_min_size
from dalenius.solve.units import UnitProblem, UnitSolution, solve_units
from dalenius.strata.growing import (
    MOST_COMBINATIONS,
    SAMPLE_ROWS,
    automatic_leaves,
    every_combination,
    grow_tree,
    least_stratum_rows,
    most_shares,
)
from dalenius.strata.merging import merge_leaves

Question = tuple[str | None, str, int, int] | int  # column (None: number of rows), text, below, above; or a stratum

_MOMENT = 1.0  # second, the least for a stratum
_SHARE_OF_TIME = 0.8  # of the time limit, for solving; the rest is for tables and verification
_ROOM_FOR_SIZES = 2  # times the largest size that one column would need: sets of values fit better with some more
_MOST_TARGETS = 8  # values of each set that a tree is to tell apart, if there are several sets


@dataclass(frozen=True)
class PeopleStratum:
    """Some people with equally many rows, and the buckets that they are in, counted from the stratum's first."""

    people: Integers
    rows_each: int
    solution: UnitSolution


@dataclass(frozen=True)
class PeopleCut:
    """All strata in the order of their buckets, and the questions that lead people there."""

    strata: tuple[PeopleStratum, ...]
    questions: tuple[Question, ...]

    @property
    def loss(self) -> int:
        """That of all strata together."""
        return sum(stratum.solution.setting.loss for stratum in self.strata)

    @property
    def bound(self) -> int:
        """No buckets of these strata lose less."""
        return sum(stratum.solution.bound for stratum in self.strata)

    @property
    def gap(self) -> float:
        """(loss - bound) / loss."""
        return (self.loss - self.bound) / self.loss if self.loss else 0.0

    def status(self, gap: float) -> Status:
        """Whether the bound proves the loss good enough."""
        return Status.OPTIMAL if self.gap <= gap else Status.FEASIBLE


class PeopleStratifier:
    """Cuts people as the publisher asked, and solves every stratum."""

    def __init__(self, request: PublishRequest, survey: Survey, people: People, sets: Sequence[LimitedSet]) -> None:
        self._request, self._survey, self._people, self._sets = request, survey, people, sets
        self._items = all_items(people.number, sets)
        self._options, self._known = request.solving, request.solving.known_records
        self._deadline = time.monotonic() + _SHARE_OF_TIME * request.solving.time_limit
        self._random = np.random.default_rng(
            KeyStream(request.key, Purpose.PEOPLE, 1).words(4).tolist()
        )  # for the search alone: people are dealt in an order of the key's
        self._order = np.argsort(KeyStream(request.key, Purpose.PEOPLE, 2).words(people.number), kind="stable")
        rows = people.rows_each
        self._waiting = sum(self._work(np.flatnonzero(rows == number)) for number in np.unique(rows))
        check_options(self._options, people.number)

    def cut(self, progress: Progress) -> PeopleCut:
        """The strata of everybody, those with fewer rows first."""
        rows_each = self._people.rows_each
        classes = np.unique(rows_each).tolist()
        shortened = self._people.shortened
        more = partial(more_by_chance, shortened, self._sets) if shortened is not None else None
        refuse_telling_numbers(rows_each, self._items, self._least_size, self._known, more)
        cuts = []
        for number in classes:
            mine = self._order[rows_each[self._order] == number]
            cutter, of_person = self._strata_of(mine)
            cuts.append((number, mine, cutter, self._fit(mine, of_person, number)))
        progress.stage("Solving", sum(int(of_person.max()) + 1 for *_, of_person in cuts), "strata")
        strata: list[PeopleStratum] = []
        trees: list[list[Question]] = []
        for number, mine, cutter, of_person in cuts:
            if cutter is not None and of_person.any():
                questions: list[Question] = [*cutter.merge(self._by_leaf(cutter, of_person, mine)).questions()]
            else:
                questions = [0]
            trees.append([one + len(strata) if isinstance(one, int) else one for one in questions])
            for stratum in range(int(of_person.max()) + 1):
                strata.append(self._solve(mine[of_person == stratum], number, progress))
                progress.advance(1)
        return PeopleCut(tuple(strata), tuple(_chain(classes, trees)))

    def _strata_of(self, mine: Integers) -> tuple[Cutter | None, Integers]:
        """The leaves of a tree for some people, each a stratum, or merged so that every stratum is fit; the stratum of
        each of these people."""
        choice = self._request.strata
        one = np.zeros(len(mine), dtype=np.int64)
        columns = {name: OrderedColumn.if_possible(domain) for name, domain in self._survey.domains.items()}
        possible = {name: column for name, column in columns.items() if column is not None}
        leaf_rows, most = automatic_leaves(len(mine), len(self._items.limits))
        if choice.kind == "number":
            most = choice.number
        if choice.kind == "none" or (choice.kind != "columns" and (most < 2 or not possible)):
            return None, one
        if choice.kind == "columns":
            possible = self._named(possible)
        codes = {name: column.order_codes(self._people.least_codes(name)[mine]) for name, column in possible.items()}
        if choice.kind == "columns":
            tree = every_combination({place: column.codes for place, column in enumerate(possible.values())})
        else:
            sample = slice(0, SAMPLE_ROWS)  # people are in a random order
            least = -(-leaf_rows * min(len(mine), SAMPLE_ROWS) // len(mine))
            tree = grow_tree([own[sample] for own in codes.values()], self._targets(mine[sample]), least, most)
        if tree.leaves < 2:
            return None, one
        leaves = tree.leaves_of(list(codes.values())).astype(np.int64)
        cutter = Cutter(tree, possible)
        empty = np.bincount(leaves, minlength=tree.leaves) == 0
        place = np.cumsum(~empty) - 1
        if choice.kind == "columns":
            cutter = cutter.at_values({name: np.unique(own) for name, own in codes.items()})
        stratum_of_leaf = self._merge(mine, place[leaves], int((~empty).sum()), least_stratum_rows(leaf_rows))
        return cutter.remove_leaves(empty).merge(stratum_of_leaf), stratum_of_leaf[place[leaves]]

    def _named(self, possible: dict[str, OrderedColumn]) -> dict[str, OrderedColumn]:
        named = self._request.strata.columns
        unordered = next((name for name in named if name not in possible), None)
        if unordered is not None:
            raise UsageError(
                f"no strata can be made of the column {unordered!r}: it has too many values, or they have no order",
                "Name another column.",
            )
        leaves = math.prod(possible[name].codes for name in named)
        if leaves > MOST_COMBINATIONS or leaves * len(self._items.limits) > MOST_CELLS:
            raise UsageError(
                f"the columns of the strata have up to {leaves:,} combinations of values: too many",
                "Name fewer columns, or let the strata be found with --strata auto.",
            )
        return {name: possible[name] for name in named}

    def _targets(self, people: Integers) -> Integers:
        """What a tree is to tell apart: a person's first value, or of several sets the most frequent combinations."""
        target = np.zeros(len(people), dtype=np.int64)
        for items in self._people.items:
            first = items.codes[items.offsets[people]].astype(np.int64)
            if len(self._people.items) > 1:
                frequent = np.argsort(-np.bincount(first), kind="stable")[: _MOST_TARGETS - 1]
                rank = np.full(int(first.max()) + 1, _MOST_TARGETS - 1)
                rank[frequent] = np.arange(len(frequent))
                first = rank[first]
                target *= _MOST_TARGETS
            target += first
        return target

    def _merge(self, mine: Integers, leaves: Integers, number: int, least: int) -> Integers:
        """The stratum of each leaf: unfit ones are merged with others. A share is one among people with as many rows,
        since these alone can be merged."""
        offsets, items = self._items.take(mine)
        many = len(self._items.limits)
        owner = np.repeat(leaves, np.diff(offsets))
        counts = np.bincount(owner * many + items, minlength=number * many).reshape(number, many)
        there = np.flatnonzero(counts.sum(axis=0))
        most = most_shares(counts.sum(axis=0)[there].tolist(), [self._items.limits[i] for i in there], len(mine))
        rows = np.bincount(leaves, minlength=number)
        return merge_leaves(counts[:, there], most, max(least, self._least_size), rows=rows)

    @property
    def _least_size(self) -> int:
        return max(self._options.min_size or HIDING_SIZE, self._known + 1)

    def _by_leaf(self, cutter: Cutter, of_person: Integers, mine: Integers) -> Integers:
        """The stratum of each leaf of a cutter, given that of each person."""
        codes = {name: self._people.least_codes(name)[mine] for name in cutter.columns}
        of_leaf = np.zeros(cutter.number, dtype=np.int64)
        of_leaf[cutter.strata_of_codes(codes)] = of_person
        return of_leaf[cutter.strata]

    def _fit(self, mine: Integers, of_person: Integers, rows_each: int) -> Integers:
        """The stratum of each of these people; those that can have no buckets are joined with the largest."""
        while True:
            number = int(of_person.max()) + 1
            failed = [one for one in range(number) if impossible_items(self._problem(mine[of_person == one]))]
            if not failed:
                return of_person
            if number == 1:
                raise too_few(rows_each, len(mine))
            of_person = _join(of_person, failed)

    def _problem(self, people: Integers) -> UnitProblem:
        """The buckets that are wanted for some people, with the items that they have."""
        offsets, items = self._items.take(people)
        there = np.unique(items)
        limits = tuple(self._items.limits[i] for i in there.tolist())
        low = max(least_min_size(limits, self._known), self._options.min_size or HIDING_SIZE)
        high = self._options.max_size or _ROOM_FOR_SIZES * automatic_max_size(limits, len(people), self._known)
        return UnitProblem(
            offsets=offsets,
            items=np.searchsorted(there, items).astype(np.int32),
            limits=limits,
            min_size=low,
            max_size=max(low, high),
            known_records=self._known,
        )

    def _work(self, people: Integers) -> float:
        """People, weighted by how many items each has: people with many take longer."""
        number = int((self._items.offsets[people + 1] - self._items.offsets[people]).sum())
        return float(number**1.5 / max(1, len(people)) ** 0.5)

    def _solve(self, people: Integers, rows_each: int, progress: Progress) -> PeopleStratum:
        """Buckets for a stratum, in its share of the time that is left: that of its work among all that waits."""
        share = min(1.0, self._work(people) / max(self._waiting, 1.0))
        self._waiting -= self._work(people)
        seconds = max(_MOMENT, (self._deadline - time.monotonic()) * share)
        problem = self._problem(people)
        solution = solve_units(
            problem,
            gap=self._options.strata_gap,
            time_limit=seconds,
            random=self._random,
            each=lambda: progress.advance(0),  # somebody may have asked to stop
        )
        return PeopleStratum(people, rows_each, solution)


def impossible_items(problem: UnitProblem) -> list[int]:
    """The items for which even one bucket of all people breaks the limit."""
    people = len(problem.offsets) - 1
    if people < problem.min_size:
        return list(range(len(problem.limits)))
    counts = np.bincount(problem.items, minlength=len(problem.limits)).tolist()
    left = max(0, people - problem.known_records)
    return [i for i, (count, limit) in enumerate(zip(counts, problem.limits, strict=True)) if count > limit * left]


def _join(of_person: Integers, failed: Sequence[int]) -> Integers:
    """Join some strata with the largest of the others, or with each other, and number all of them anew."""
    rows = np.bincount(of_person)
    others = rows.copy()
    others[list(failed)] = -1
    into = np.arange(len(rows))
    into[list(failed)] = others.argmax() if others.max() >= 0 else 0
    if others.max() < 0:
        into[:] = 0
    _, joined = np.unique(into[of_person], return_inverse=True)
    return joined


def _chain(classes: Sequence[int], trees: Sequence[list[Question]]) -> list[Question]:
    """One tree that asks for the number of rows first, and then goes on with the tree of people with as many."""
    places: list[Question] = []
    for place, (number, tree) in enumerate(zip(classes, trees, strict=True)):
        last = place == len(classes) - 1
        if not last:
            start = len(places)
            places.append((None, str(number), start + 1, start + 1 + len(tree)))
        start = len(places)
        places += [one if isinstance(one, int) else (one[0], one[1], one[2] + start, one[3] + start) for one in tree]
    return places
