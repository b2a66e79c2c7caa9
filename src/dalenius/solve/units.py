"""Buckets for units that have sets of items: the entry.

Minimise sum (P - 1)^2 over bucketizations that keep every item's cap (`unit_problem.py`).

1. Items that cannot break a limit in any bucket are left out. With at most one item a unit left, the problem is that
   of one value a record: solved as such (`methods.py`), and dealt round robin.
2. Otherwise representatives give a proven bound, and a setting to begin with (`units_bound.py`). The units are dealt to
   its buckets by representatives, and exchanged until no cap is broken (`units_search.py`).
3. Where that is not within the gap, a linear program shares out kinds of units to sizes (`units_share.py`). Its prices
   prove a larger bound (`units_prices.py`), and attempts go on from there.
4. Two columns of one value each have buckets of equal size whenever counts allow it (`units_two_columns.py`).

Whatever comes out is checked by code that shares nothing with the search (`units_check.py`), in integers. The status is
OPTIMAL only if the loss is within the gap of the proven bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dalenius.errors import SolverError
from dalenius.model.plan import Method, Solution, Status
from dalenius.model.problem import BucketSetting
from dalenius.solve.caps import Integers
from dalenius.solve.methods import solve_and_grow
from dalenius.solve.unit_problem import (
    IneligibleItem,
    IneligibleItems,
    UnitProblem,
    UnitSolution,
    is_eligible,
)
from dalenius.solve.units_bound import UnitBound, bound_units, unit_instance
from dalenius.solve.units_check import check_buckets
from dalenius.solve.units_deal import deal
from dalenius.solve.units_search import search_buckets

__all__ = [
    "IneligibleItem",
    "IneligibleItems",
    "UnitProblem",
    "UnitSolution",
    "is_eligible",
    "solve_units",
]

_SHARE_OF_BOUND = 0.25  # of the time, at most


def solve_units(
    problem: UnitProblem,
    *,
    gap: float,
    time_limit: float,
    random: np.random.Generator,
    each: Callable[[], None] | None = None,
) -> UnitSolution:
    """A valid bucketization with its proven bound; raises `IneligibleItems` if there is none at all.

    The search ends within the gap of the bound, or after about `time_limit` seconds, in which it goes on improving.
    Units with equal items are interchangeable: who of them goes where is up to the caller. `each` is called every now
    and then, and may raise to stop the work.
    """
    deadline = time.monotonic() + time_limit
    ineligible = is_eligible(problem)
    if ineligible:
        raise IneligibleItems(ineligible)
    if problem.units < problem.first_size:
        raise SolverError(f"{problem.units} units cannot fill a bucket of {problem.first_size}")
    limited = without_unlimited(problem)
    if np.diff(limited.offsets).max() <= 1:
        return _solve_single_items(problem, limited, gap, time_limit, random)
    bound = bound_units(limited, gap, time.monotonic() + _SHARE_OF_BOUND * time_limit)
    buckets, bound = search_buckets(limited, bound, gap, deadline, random, each or _nothing)
    return _solution(problem, limited, buckets, bound, gap)


def without_unlimited(problem: UnitProblem) -> UnitProblem:
    """The same without the items that no bucket can have too often: h_x <= cap_x(P) for the smallest P already."""
    caps = np.asarray([problem.most(x, problem.first_size) for x in range(len(problem.limits))], dtype=np.int64)
    sure = [limit >= 1 and not problem.known_records for limit in problem.limits]
    keep = (problem.people > caps) & ~np.asarray(sure, dtype=np.bool_)
    if keep.all():
        return problem
    kept = keep[problem.items]
    place = np.cumsum(keep, dtype=np.int64).astype(np.int32) - np.int32(1)
    number = np.zeros(problem.units + 1, dtype=np.int64)
    before = np.append(0, np.cumsum(kept))
    number[:] = before[problem.offsets]
    return UnitProblem(
        offsets=number,
        items=place[problem.items[kept]],
        limits=tuple(limit for limit, stays in zip(problem.limits, keep.tolist(), strict=True) if stays),
        min_size=problem.min_size,
        max_size=problem.max_size,
        known_records=problem.known_records,
    )


def _solve_single_items(
    problem: UnitProblem, limited: UnitProblem, gap: float, time_limit: float, random: np.random.Generator
) -> UnitSolution:
    """Today's problem: one value a record, and one without a limit for units that have no item left."""
    values = np.full(limited.units, len(limited.limits), dtype=np.int64)
    values[np.diff(limited.offsets) > 0] = limited.items
    records = unit_instance(limited, values, max(limited.max_size, limited.first_size)).problem
    present = [x for x, count in enumerate(records.counts) if count]
    solution = solve_and_grow(records.take(present), Method.OPTIMAL, gap, time_limit)
    if solution.partition is None:
        raise SolverError("no setting was found although one bucket of everybody is one")
    quotas = np.zeros((len(records.counts), len(solution.partition.setting.groups)), dtype=np.int64)
    quotas[present] = solution.partition.quotas
    bucket_of = deal(values, quotas, solution.partition.setting, random)
    bound = _bound_of(solution)
    return _checked(problem, bucket_of, bound, gap, solution.max_size)


def _bound_of(solution: Solution) -> int:
    return solution.bound if solution.bound is not None else 0


def _solution(
    problem: UnitProblem, limited: UnitProblem, bucket_of: npt.NDArray[np.int32], bound: UnitBound, gap: float
) -> UnitSolution:
    """If buckets grew beyond the largest size, the bound is for what they grew to."""
    largest = int(np.bincount(bucket_of).max())
    if largest > bound.max_size:
        bound = bound_units(limited, gap, time.monotonic(), largest)
    return _checked(problem, bucket_of, bound.bound, gap, bound.max_size)


def _checked(
    problem: UnitProblem, bucket_of: npt.NDArray[np.int32], bound: int, gap: float, max_size: int
) -> UnitSolution:
    bucket_of, sizes = by_size(bucket_of)
    check_buckets(problem, bucket_of)
    numbers = np.bincount(sizes)
    setting = BucketSetting.of((size, int(number)) for size, number in enumerate(numbers.tolist()) if number)
    if bound > setting.loss:
        raise SolverError(
            f"a loss of {setting.loss} is below the proven bound of {bound}",
            "This is probably a bug in Dalenius: please report it.",
        )
    left = (setting.loss - bound) / setting.loss if setting.loss else 0.0
    status = Status.OPTIMAL if left <= gap else Status.FEASIBLE
    return UnitSolution(setting, bucket_of, bound, status, left, max_size)


def by_size(bucket_of: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], Integers]:
    """Buckets numbered by ascending size, without empty ones; and their sizes."""
    sizes = np.bincount(bucket_of)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    number = np.zeros(len(sizes), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[bucket_of], sizes[order]


def _nothing() -> None:
    """Nobody is told."""
