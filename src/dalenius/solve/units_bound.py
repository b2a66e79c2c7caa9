"""A lower bound on the loss of units with sets of items, and a setting to begin with.

Give each unit one of its items, its representative. A bucketization that is valid for the sets is valid for the
representatives alone, which is the problem of one value a record (`optimal.py`); and for every item x, represented or
not, the buckets have room for all units that have it:

    PC   sum_S cap_x(S) b(S)  >=  h_x.

So the least loss of a setting that is valid for the representatives and satisfies all PC is a lower bound, whatever the
representatives are. The largest of a few is taken: for each unit its tightest item, the item that is most pressed for
room, and, where all units have equally many items (columns of one value each), the items of each place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.errors import UndecidedError
from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.caps import Instance, Integers, smallest_size
from dalenius.solve.certificate import loss_costs, reduced_rates
from dalenius.solve.gale import validate_setting
from dalenius.solve.optimal import find_optimum_of, lower_bound_of
from dalenius.solve.relaxation import NoSetting, relax
from dalenius.solve.sizes import larger_size
from dalenius.solve.unit_problem import UnitProblem

_MOST_PLACES = 8
_MOMENT = 1.0
_PROMISING = 14  # sizes
_ROOM = 0.05


@dataclass(frozen=True, eq=False)
class UnitInstance(Instance):
    """Representatives as records, with room for all units of every item."""

    people: Integers

    @property
    def demands(self) -> Integers:
        """h_x; the units without an item have no limit."""
        return self.people

    @property
    def fits_one_bucket(self) -> bool:
        """Whether one bucket may hold everybody."""
        return bool((self.caps(np.asarray([self.total]))[:, 0] >= self.people).all())


@dataclass(frozen=True, eq=False)
class UnitBound:
    """A proven bound over sizes up to `max_size`, the item that stands for each unit, and the best setting for them.

    The partition says how many units of each representative go to which size. Item m is that of units without items.
    `promising` are sizes in which representatives would lose little.
    """

    bound: int
    max_size: int
    representatives: Integers
    partition: Partition
    promising: Integers


def bound_units(problem: UnitProblem, gap: float, deadline: float, max_size: int = 0) -> UnitBound:
    """The bound for the first largest size that leaves a setting possible; the problem must be eligible.

    That size is at least the problem's, and at least `max_size`. The deadline is one of `time.monotonic`.
    """
    choices = list(_representatives(problem))
    max_size = max(max_size, problem.max_size, problem.first_size)
    while True:
        instances = [unit_instance(problem, chosen, max_size) for chosen in choices]
        left = max(_MOMENT, deadline - time.monotonic())
        bounds = [lower_bound_of(instance, left / 4).bound for instance in instances]
        if all(bound is not None for bound in bounds):
            best = max(range(len(bounds)), key=lambda k: bounds[k] or 0)
            setting, bound = _search(instances[best], gap, left / 4)
            if setting is not None:
                verdict = validate_setting(instances[best].problem, setting)
                if isinstance(verdict, Partition):
                    bound = max(bound, bounds[best] or 0)
                    promising = promising_sizes(instances[best])
                    return UnitBound(bound, max_size, choices[best], verdict, promising)
        grown = larger_size(max_size, problem.units)
        if grown is None:
            return _one_bucket(problem, choices[0])
        max_size = grown


def promising_sizes(instance: UnitInstance) -> Integers:
    """Sizes in which representatives would lose little, with some room to spare if possible; and the last size."""
    wanted = np.ceil(instance.people * (1 + _ROOM)).astype(np.int64)
    relaxed = relax(UnitInstance(instance.problem, wanted))
    if isinstance(relaxed, NoSetting):
        relaxed = relax(instance)
    if isinstance(relaxed, NoSetting):
        return np.asarray([instance.last_size], dtype=np.int64)
    sizes = np.sort(relaxed.master.sizes)
    rates, _ = reduced_rates(instance, sizes, relaxed.bound.cuts, relaxed.bound.multipliers, loss_costs)
    found = sizes[np.argsort(rates, kind="stable")[:_PROMISING]]
    least = max(smallest_size(limit, instance.problem.known_records) for limit in instance.problem.limits)
    return np.union1d(found, [min(least, instance.last_size), instance.last_size])


def _search(instance: UnitInstance, gap: float, time_limit: float) -> tuple[BucketSetting | None, int]:
    try:
        optimum = find_optimum_of(instance, gap, time_limit)
    except UndecidedError:
        return None, 0
    return optimum.setting, optimum.bound or 0


def _one_bucket(problem: UnitProblem, representatives: Integers) -> UnitBound:
    """Everybody in one bucket, and the bound that every setting has: all buckets of the smallest size."""
    counts = np.bincount(representatives, minlength=len(problem.limits) + 1).tolist()
    setting = BucketSetting.of([(problem.units, 1)])
    bound = lower_bound_of(unit_instance(problem, representatives, problem.units), _MOMENT).bound or 0
    partition = Partition(setting, tuple((count,) for count in counts))
    return UnitBound(bound, problem.units, representatives, partition, np.asarray([problem.units]))


def _representatives(problem: UnitProblem) -> Iterator[Integers]:
    """Several choices of an item for each unit; m stands for no item."""
    limits = problem.limits
    numbers = np.diff(problem.offsets)
    looseness = sorted(range(len(limits)), key=lambda x: (limits[x], -int(problem.people[x])))
    yield first_of_each(problem, looseness)
    pressure = sorted(range(len(limits)), key=lambda x: -Fraction(int(problem.people[x])) / limits[x])
    yield first_of_each(problem, pressure)
    if numbers.min() == numbers.max() <= _MOST_PLACES:
        for place in range(int(numbers[0])):
            yield problem.items[problem.offsets[:-1] + place].astype(np.int64)


def first_of_each(problem: UnitProblem, order: list[int]) -> Integers:
    """For each unit the item that comes first in the order; m if it has none."""
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[len(order)] = len(order)
    some = np.flatnonzero(np.diff(problem.offsets))
    found = np.full(problem.units, len(order), dtype=np.int32)
    found[some] = np.minimum.reduceat(rank[problem.items], problem.offsets[some])
    return np.asarray([*order, len(order)], dtype=np.int64)[found]


def unit_instance(problem: UnitProblem, representatives: Integers, max_size: int) -> UnitInstance:
    """The problem of the representatives; a value more, without a limit that matters, is for units without items."""
    number = len(problem.limits) + 1
    counts = np.bincount(representatives, minlength=number)
    unlimited = Fraction(problem.first_size, problem.first_size - problem.known_records)
    records = Problem(
        values=tuple(str(x) for x in range(number)),
        counts=tuple(counts.tolist()),
        limits=(*problem.limits, unlimited),
        min_size=problem.first_size,
        max_size=max_size,
        known_records=problem.known_records,
    )
    return UnitInstance(records, np.append(problem.people, counts[-1]))
