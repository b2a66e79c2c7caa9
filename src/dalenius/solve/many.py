"""Many problems under the same limits: the strata of a table, each solved by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dalenius.model.problem import Problem
from dalenius.model.solution import Method, Solution
from dalenius.solve.growing import solve_and_grow
from dalenius.solve.methods import solve


def solve_many(
    problems: Sequence[Problem],
    gap: float,
    time_limit: float,
    each: Callable[[], None] | None = None,
    *,
    method: Method = Method.OPTIMAL,
    grow: bool = False,
) -> list[Solution]:
    """A solution of each problem, in their order; `each` is called once a problem."""
    deadline = time.monotonic() + time_limit
    solutions = []
    for done, problem in enumerate(problems):
        seconds = max(0.0, deadline - time.monotonic()) / (len(problems) - done)
        solutions.append((solve_and_grow if grow else solve)(problem, method, gap, seconds))
        if each is not None:
            each()
    return solutions
