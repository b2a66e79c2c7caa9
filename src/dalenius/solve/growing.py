"""A setting for every problem that has one at all: the largest size grows until a method finds a setting.

Lemma 1 is the last resort: where the limits are eligible, one bucket that holds everybody keeps them (`eligible.py`).
"""

from __future__ import annotations

import time
from dataclasses import replace

from dalenius.errors import UndecidedError
from dalenius.model.problem import Problem
from dalenius.model.setting import BucketSetting, Partition
from dalenius.model.solution import Method, Solution, Status
from dalenius.solve.eligible import fakes_can_be_in_proportion, why_impossible
from dalenius.solve.methods import solve
from dalenius.solve.sizes import larger

MOMENT = 1.0  # the least time for a further try, in seconds


def solve_and_grow(problem: Problem, method: Method, gap: float, time_limit: float, moment: float = MOMENT) -> Solution:
    """The method's setting for the first largest size that has one, which is the solution's `max_size`.

    INFEASIBLE if no sizes at all would do (`why_impossible`), or if Anatomy, whose sizes do not grow, has no setting.
    Every try has at least a `moment`.
    """
    if method is Method.ANATOMY:
        if why_impossible(problem) is not None:
            return nothing(problem, method)
        return solve(replace(problem, max_size=problem.max_size + 1), method, gap, time_limit)
    solution = without_search(problem, method)
    deadline = time.monotonic() + time_limit
    while solution is None:
        try:
            found = solve(problem, method, gap, max(moment, deadline - time.monotonic()))
            if found.status is not Status.INFEASIBLE:
                return found
        except UndecidedError:
            if method is not Method.OPTIMAL:
                raise
        next_size = larger(problem.max_size, problem.total)
        if next_size is None or time.monotonic() > deadline:
            return not_found(problem, method)
        problem = replace(problem, max_size=next_size)
    return solution


def without_search(problem: Problem, method: Method) -> Solution | None:
    """Nothing, or nothing but one bucket, where that is clear; None if there is something to look for."""
    if why_impossible(problem) is not None:
        return nothing(problem, method)
    if fakes_can_be_in_proportion(problem):
        return None
    note = "the limits are too tight for fake values in proportion to the records; one bucket holds everybody"
    return _one_bucket(problem, method, note)


def not_found(problem: Problem, method: Method) -> Solution:
    """One bucket that holds everybody, where no setting was found up to the largest size."""
    note = f"no setting was found with sizes up to {problem.max_size:,}; one bucket holds everybody"
    return _one_bucket(problem, method, note)


def nothing(problem: Problem, method: Method) -> Solution:
    """No setting, and no proof."""
    return Solution(method, Status.INFEASIBLE, problem.min_size, problem.max_size, None, None)


def _one_bucket(problem: Problem, method: Method, note: str) -> Solution:
    """Lemma 1: valid for every problem that is not impossible."""
    setting = BucketSetting.of([(problem.total, 1)])
    partition = Partition(setting, tuple((count,) for count in problem.counts))
    return Solution(method, Status.FEASIBLE, problem.min_size, problem.total, setting, partition, notes=(note,))
