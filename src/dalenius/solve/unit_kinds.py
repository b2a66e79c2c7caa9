"""Units by kind: those that a linear program need not tell apart.

Some items are *pressed* for room, and have a row of their own in every size. Of its other items all that matters of a
unit is the smallest bucket that may hold them at all. So units are of one kind if they have the same pressed items and
the same least size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dalenius.errors import SolverError
from dalenius.solve.caps import Integers, Mask, smallest_size
from dalenius.solve.unit_problem import UnitProblem

_PIECE = 2_000_000  # items looked at at once


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kind t has `numbers[t]` units, all of which fit into buckets from `least[t]` units on.

    `pressed` are items in ascending order. Pair p says that kind `holder[p]` has the item `pressed[held[p]]`.
    """

    of_unit: npt.NDArray[np.int32]
    numbers: Integers
    least: Integers
    pressed: Integers
    holder: Integers
    held: Integers

    def __len__(self) -> int:
        return len(self.numbers)


def least_sizes(problem: UnitProblem) -> Integers:
    """The smallest bucket that may hold an item, for each item."""
    found = [max(problem.first_size, smallest_size(limit, problem.known_records)) for limit in problem.limits]
    return np.asarray(found, dtype=np.int64)


def kinds_of(problem: UnitProblem, pressed: Integers, random: np.random.Generator, last_size: int) -> Kinds:
    """The kinds of units; sizes above `last_size` are as good as that one.

    Kinds are told apart by sums of random numbers, and then compared item by item, since a bound rests on it.
    """
    place = np.full(len(problem.limits), -1, dtype=np.int64)
    place[pressed] = np.arange(len(pressed))
    weights = np.zeros(len(problem.limits) + 1, dtype=np.int64)
    weights[pressed] = random.integers(2**62, size=len(pressed))
    least_of_item = np.append(np.minimum(least_sizes(problem), last_size), problem.first_size)
    salt = random.integers(2**62, size=last_size + 1)
    keys = np.empty(problem.units, dtype=np.int64)
    least = np.empty(problem.units, dtype=np.int32)
    for units in _pieces(problem):
        own, starts = _own_items(problem, units)
        least[units] = np.maximum.reduceat(least_of_item[own], starts)
        with np.errstate(over="ignore"):
            keys[units] = np.add.reduceat(weights[own], starts) + salt[least[units]]
    _, first, of_unit, numbers = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    lengths = np.diff(problem.offsets)[first]
    holder = np.repeat(np.arange(len(first)), lengths)
    inside = np.arange(len(holder)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    held = place[problem.items[problem.offsets[first][holder] + inside]]
    kinds = Kinds(
        of_unit=of_unit.astype(np.int32),
        numbers=numbers.astype(np.int64),
        least=least[first].astype(np.int64),
        pressed=pressed,
        holder=holder[held >= 0],
        held=held[held >= 0],
    )
    _compare(problem, kinds, place, least)
    return kinds


def _compare(problem: UnitProblem, kinds: Kinds, place: Integers, least: npt.NDArray[np.int32]) -> None:
    """Raise unless every unit has exactly the pressed items, and the least size, of its kind."""
    number = len(kinds.pressed) + 1
    pairs = np.sort(kinds.holder * number + kinds.held)
    lengths = np.bincount(kinds.holder, minlength=len(kinds))
    same = bool((kinds.least[kinds.of_unit] == least).all())
    for units in _pieces(problem):
        offsets = problem.offsets[units.start : units.stop + 1]
        held = place[problem.items[offsets[0] : offsets[-1]]]
        unit = np.repeat(np.arange(units.start, units.stop), np.diff(offsets))[held >= 0]
        mine = np.bincount(unit - units.start, minlength=units.stop - units.start)
        wanted = kinds.of_unit[unit] * np.int64(number) + held[held >= 0]
        found = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        same = same and bool((mine == lengths[kinds.of_unit[units]]).all())
        same = same and (not len(wanted) or bool((pairs[found] == wanted).all()))
    if not same:
        raise SolverError(
            "units of different kinds were taken for one kind", "This is probably a bug in Dalenius: please report it."
        )


def use_by_size(problem: UnitProblem, kinds: Kinds, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How many units with each item go to each size, if a kind's units go there in these shares."""
    found = np.zeros((len(problem.limits), shares.shape[1]))
    for units in _pieces(problem):
        lengths = np.diff(problem.offsets[units.start : units.stop + 1])
        owner = np.repeat(kinds.of_unit[units], lengths)
        items = problem.items[problem.offsets[units.start] : problem.offsets[units.stop]]
        for k in range(shares.shape[1]):
            found[:, k] += np.bincount(items, weights=shares[owner, k], minlength=len(problem.limits))
    return found


def pressure(problem: UnitProblem, caps: Integers, sizes: Integers) -> npt.NDArray[np.float64]:
    """For each item the part of the room that it needs, in buckets of the size that is best for it."""
    best = (caps / sizes).max(axis=1, initial=0.0)
    return np.asarray(problem.people / np.maximum(problem.units * best, 1e-9))


def ranked_keys(problem: UnitProblem, ranks: Integers) -> Integers:
    """For each unit its three items of lowest rank, as one number: alike units have neighbouring numbers."""
    bits = len(ranks).bit_length()
    none = len(ranks)
    keys = np.empty(problem.units, dtype=np.int64)
    of_item = np.append(ranks, none)
    for units in _pieces(problem):
        own, starts = _own_items(problem, units)
        left = of_item[own]
        lengths = np.diff(np.append(starts, len(left)))
        key = np.zeros(len(starts), dtype=np.int64)
        for _ in range(3):
            least = np.minimum.reduceat(left, starts)
            key = (key << bits) | least
            left[left == np.repeat(least, lengths)] = none
        keys[units] = key
    return keys


def _pieces(problem: UnitProblem) -> list[slice]:
    """All units in runs of about as many items."""
    cuts = np.searchsorted(problem.offsets[:-1], np.arange(0, int(problem.offsets[-1]), _PIECE))
    edges = np.unique(np.concatenate([[0], cuts, [problem.units]]))
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def _own_items(problem: UnitProblem, units: slice) -> tuple[Integers, Integers]:
    """The items of some units, with item m for a unit that has none, and where each unit's begin."""
    offsets = problem.offsets[units.start : units.stop + 1]
    lengths = np.diff(offsets)
    own = problem.items[offsets[0] : offsets[-1]].astype(np.int64)
    empty: Mask = lengths == 0
    if empty.any():
        own = np.insert(own, (offsets[:-1] - offsets[0])[empty], len(problem.limits))
        lengths = np.maximum(lengths, 1)
    return own, np.cumsum(lengths) - lengths
