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

_MOMENT = 1.0  # the least time for a further try


def solve_and_grow(problem: Problem, method: Method, gap: float, time_limit: float) -> Solution:
    """The method's setting for the first largest size that has one, which is the solution's `max_size`.

    INFEASIBLE if no sizes at all would do (`why_impossible`), or if Anatomy, whose sizes do not grow, has no setting.
    """
    if why_impossible(problem) is not None:
        return Solution(method, Status.INFEASIBLE, problem.min_size, problem.max_size, None, None)
    if method is Method.ANATOMY:
        return solve(replace(problem, max_size=problem.max_size + 1), method, gap, time_limit)
    if not fakes_can_be_in_proportion(problem):
        note = "the limits are too tight for fake values in proportion to the records; one bucket holds everybody"
        return one_bucket(problem, method, note)
    deadline = time.monotonic() + time_limit
    while True:
        next_size = larger(problem.max_size, problem.total)
        try:
            solution = solve(problem, method, gap, max(_MOMENT, deadline - time.monotonic()))
            if solution.status is not Status.INFEASIBLE:
                return solution
        except UndecidedError:
            if method is not Method.OPTIMAL:
                raise
        if next_size is None or time.monotonic() > deadline:
            note = f"no setting was found with sizes up to {problem.max_size:,}; one bucket holds everybody"
            return one_bucket(problem, method, note)
        problem = replace(problem, max_size=next_size)


def one_bucket(problem: Problem, method: Method, note: str) -> Solution:
    """Lemma 1: one bucket that holds everybody, for a problem that is not impossible."""
    setting = BucketSetting.of([(problem.total, 1)])
    partition = Partition(setting, tuple((count,) for count in problem.counts))
    return Solution(method, Status.FEASIBLE, problem.min_size, problem.total, setting, partition, notes=(note,))
