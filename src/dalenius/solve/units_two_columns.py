"""Units with at most one value of each of two columns, in buckets of one size: an exact condition.

If n = S b and h_x <= cap_x(S) b for every item x, an equitable edge colouring (`edge_colouring.py`) is a valid
bucketization in b buckets of size S; and no other one has b buckets of that size alone. If b does not divide n, the
buckets have floor(n / b) and ceil(n / b) units, and caps of the smaller size are enough.

Which items are of one column is found from the units: items that a unit has together are not. Where units have no
more than two items each, and that leaves two sides, it does not matter which columns the sides were. A unit without a
value on a side gets one of its own there that has no limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import most_values
from dalenius.solve.edge_colouring import colour_edges
from dalenius.solve.unit_problem import UnitProblem

_MOST_WORK = 3_000_000  # kinds of edges x colours
_MOST_CELLS = 4_000_000  # sizes x items


@dataclass(frozen=True)
class OneSize:
    """`buckets` buckets, as equal as they can be, and what they lose."""

    buckets: int
    loss: int


def best_one_size(problem: UnitProblem) -> OneSize | None:
    """The smallest buckets, all of a size or two sizes in a row, that an equitable edge colouring makes valid."""
    units, last = problem.units, min(problem.max_size, problem.units)
    if problem.first_size > last or (last - problem.first_size) * len(problem.limits) > _MOST_CELLS:
        return None
    sizes = np.arange(problem.first_size, last + 1, dtype=np.int64)
    buckets = units // sizes
    floors = units // buckets
    caps = most_values(problem.limits, floors, problem.known_records)
    valid = np.flatnonzero((caps * buckets >= problem.people[:, None]).all(axis=0))
    if not len(valid):
        return None
    number, size = int(buckets[valid[0]]), int(floors[valid[0]])
    if number * len(problem.limits) > 2 * _MOST_WORK:  # there are at least half as many kinds of edges as items
        return None
    larger = units - number * size
    return OneSize(number, (number - larger) * (size - 1) ** 2 + larger * size**2)


def sides_of(problem: UnitProblem) -> npt.NDArray[np.int8] | None:
    """For each item 0 or 1, so that no unit has two items of a side; None if that is not possible."""
    lengths = np.diff(problem.offsets)
    if lengths.max(initial=0) > 2:
        return None
    number = len(problem.limits)
    starts = problem.offsets[:-1][lengths == 2]
    pairs = np.unique(problem.items[starts] * np.int64(number) + problem.items[starts + 1])
    left, right = pairs // number, pairs % number
    side = np.full(number, -1, dtype=np.int8)
    side[np.setdiff1d(np.arange(number), np.union1d(left, right))] = 0
    for item in range(number):
        if side[item] >= 0:
            continue
        side[item] = 0
        while True:
            before = int((side >= 0).sum())
            for one, other in ((left, right), (right, left)):
                known = side[one] >= 0
                side[other[known]] = np.where(side[other[known]] < 0, 1 - side[one[known]], side[other[known]])
            if int((side >= 0).sum()) == before:
                break
    return side if (side[left] != side[right]).all() else None


def colour_units(
    problem: UnitProblem, one: OneSize, side: npt.NDArray[np.int8], random: np.random.Generator, deadline: float
) -> npt.NDArray[np.int32] | None:
    """The bucket of each unit; None if it would take too long."""
    number = len(problem.limits)
    lengths = np.diff(problem.offsets)
    ends = np.full((problem.units, 2), number, dtype=np.int32)
    owner = np.repeat(np.arange(problem.units, dtype=np.int32), lengths)
    ends[owner, side[problem.items]] = problem.items
    keys, kind, counts = np.unique(
        ends[:, 0] * np.int64(number + 1) + ends[:, 1], return_inverse=True, return_counts=True
    )
    if len(keys) * one.buckets > _MOST_WORK:
        return None
    nodes = np.column_stack([keys // (number + 1), keys % (number + 1)])
    nodes[nodes == number] = -1
    coloured = colour_edges(counts, nodes, one.buckets, deadline)
    if coloured is None:
        return None
    order = random.permutation(problem.units)
    order = order[np.argsort(kind[order], kind="stable")]
    bucket_of = np.empty(problem.units, dtype=np.int32)
    bucket_of[order] = np.repeat(np.tile(np.arange(one.buckets, dtype=np.int32), len(keys)), coloured.ravel())
    return bucket_of
