"""One door to all methods: a problem and a method in, a checked solution out."""

from __future__ import annotations

import time
from dataclasses import replace

from dalenius.errors import SolverError
from dalenius.model.problem import Problem
from dalenius.model.setting import BucketSetting, Partition, Violation
from dalenius.model.solution import Certificate, Method, Solution, Status
from dalenius.solve.anatomy import anatomy
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import multi_size
from dalenius.solve.optimal import Optimum, lower_bound, optimal
from dalenius.solve.two_size import two_size


def solve(problem: Problem, method: Method, gap: float, time_limit: float) -> Solution:
    """The method's setting, validated, with a proven lower bound on the loss of any setting in the range of sizes.

    `seconds` is what the method took; for methods other than `optimal` the bound is extra and not counted.
    """
    started = time.monotonic()
    if method is Method.OPTIMAL:
        found = optimal(problem, gap, time_limit)
        seconds = time.monotonic() - started
        return _solution(problem, method, found.setting, found, gap, seconds)
    if method is Method.ANATOMY:
        return _anatomy(problem, gap)
    setting = two_size(problem) if method is Method.TWO_SIZE else multi_size(problem)
    seconds = time.monotonic() - started
    return _solution(problem, method, setting, lower_bound(problem), gap, seconds)


def _anatomy(problem: Problem, gap: float) -> Solution:
    """Anatomy's own sizes, l and l + 1, whatever the largest size; a setting that is not eligible is only reported."""
    started = time.monotonic()
    found = anatomy(problem)
    seconds = time.monotonic() - started
    wide = replace(problem, max_size=max(problem.max_size, found.diversity + 1))
    if found.eligible:
        return _solution(wide, Method.ANATOMY, found.setting, lower_bound(wide), gap, seconds)
    if found.setting is None:
        note = f"{problem.total:,} records do not make buckets of {found.diversity} and {found.diversity + 1}"
    else:
        largest, allowed = float(found.largest_frequency), 1 / found.diversity
        note = (
            f"Anatomy is not eligible for {found.diversity}-diversity: the most frequent value has {largest:.4%} "
            f"of the records, and at most 1/{found.diversity} = {allowed:.4%} is allowed; "
            "its setting only serves to compare losses"
        )
    return Solution(
        Method.ANATOMY,
        Status.INFEASIBLE,
        wide.min_size,
        wide.max_size,
        found.setting,
        None,
        seconds=seconds,
        notes=(note,),
    )


def _solution(
    problem: Problem,
    method: Method,
    setting: BucketSetting | None,
    proof: Optimum,
    gap: float,
    seconds: float,
) -> Solution:
    sizes = (problem.min_size, problem.max_size)
    certificate: Certificate | None = proof.certificate
    if setting is None:
        return Solution(method, Status.INFEASIBLE, *sizes, None, None, seconds=seconds, certificate=certificate)
    partition = _checked(problem, setting, method)
    solution = Solution(method, Status.FEASIBLE, *sizes, setting, partition, proof.bound, seconds, certificate)
    proven = solution.gap is not None and solution.gap <= gap
    return replace(solution, status=Status.OPTIMAL) if proven else solution


def _checked(problem: Problem, setting: BucketSetting, method: Method) -> Partition:
    verdict = validate_setting(problem, setting)
    if isinstance(verdict, Violation):
        failed = f"{verdict.constraint} constraint fails: {verdict.have} of {verdict.need}"
        raise SolverError(
            f"{method} returned a setting whose {failed}",
            "This is probably a bug in Dalenius: please report it.",
        )
    return verdict
