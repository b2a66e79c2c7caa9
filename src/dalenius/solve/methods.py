"""One door to all methods: a problem and a method in, a checked solution out.

`solve` stays in the problem's range of sizes. `solve_and_grow` finds a setting for every problem that has one at all:
the largest size grows until the method finds a setting. Lemma 1 is the last resort: where the limits are eligible
(`sizes.py`), one bucket that holds everybody keeps them.
"""

from __future__ import annotations

import time
from dataclasses import replace

from dalenius.errors import SolverError, UndecidedError
from dalenius.model.plan import Certificate, Method, Solution, Status
from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.anatomy import Anatomy, find_anatomy
from dalenius.solve.contraction import contract
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting
from dalenius.solve.optimal import Optimum, find_optimum, lower_bound
from dalenius.solve.sizes import fakes_can_be_in_proportion, larger_size, why_impossible
from dalenius.solve.two_size import find_two_size_setting

MOMENT = 1.0  # the least time for a further try, in seconds


def solve(problem: Problem, method: Method, gap: float, time_limit: float) -> Solution:
    """The method's setting, validated, with a proven lower bound on the loss of any setting in the range of sizes.

    `seconds` is what the method took; for other methods than OPTIMAL the bound is extra, and its time is not counted.
    """
    contraction = contract(problem)
    if contraction is None:
        return _solve(problem, method, gap, time_limit)
    return contraction.expand(_solve(contraction.problem, method, gap, time_limit))


def _solve(problem: Problem, method: Method, gap: float, time_limit: float) -> Solution:
    started = time.monotonic()
    if method is Method.OPTIMAL:
        optimum = find_optimum(problem, gap, time_limit)
        seconds = time.monotonic() - started
        return _solution(problem, method, optimum.setting, optimum, gap, seconds)
    if method is Method.ANATOMY:
        return _anatomy(problem, gap, time_limit)
    search = find_two_size_setting if method is Method.TWO_SIZE else find_multi_size_setting
    setting = search(problem, started + time_limit)
    seconds = time.monotonic() - started
    return _solution(problem, method, setting, lower_bound(problem, max(1.0, time_limit - seconds)), gap, seconds)


def solve_and_grow(problem: Problem, method: Method, gap: float, time_limit: float, moment: float = MOMENT) -> Solution:
    """The method's setting for the first largest size that has one, which is the solution's `max_size`.

    INFEASIBLE if no sizes at all would do (`why_impossible`), or if Anatomy, whose sizes do not grow, has no setting.
    Every try has at least a `moment`.
    """
    if method is Method.ANATOMY:
        if why_impossible(problem) is not None:
            return infeasible_solution(problem, method)
        return solve(replace(problem, max_size=problem.max_size + 1), method, gap, time_limit)
    solution = solve_without_search(problem, method)
    deadline = time.monotonic() + time_limit
    while solution is None:
        try:
            attempt = solve(problem, method, gap, max(moment, deadline - time.monotonic()))
            if attempt.status is not Status.INFEASIBLE:
                return attempt
        except UndecidedError:
            if method is not Method.OPTIMAL:
                raise
        next_size = larger_size(problem.max_size, problem.total)
        if next_size is None or time.monotonic() > deadline:
            return one_bucket_solution(problem, method)
        problem = replace(problem, max_size=next_size)
    return solution


def solve_without_search(problem: Problem, method: Method) -> Solution | None:
    """No setting, or one bucket, where it is clear that there is nothing else; None if a search makes sense."""
    if why_impossible(problem) is not None:
        return infeasible_solution(problem, method)
    if fakes_can_be_in_proportion(problem):
        return None
    note = "the limits are too tight for fake values in proportion to the records; one bucket holds everybody"
    return _one_bucket(problem, method, note)


def solution_with_proof(
    problem: Problem, method: Method, partition: Partition, proof: Optimum, gap: float, seconds: float
) -> Solution:
    """The solution with this partition, which is known to be valid; OPTIMAL if it is within the gap of the bound."""
    setting = partition.setting
    solution = Solution(
        method=method,
        status=Status.FEASIBLE,
        min_size=problem.min_size,
        max_size=problem.max_size,
        setting=setting,
        partition=partition,
        bound=proof.bound,
        seconds=seconds,
        certificate=proof.certificate,
    )
    if proof.bound is not None and proof.bound > setting.loss:
        raise SolverError(
            f"{method} returned a loss of {setting.loss}, below the proven bound of {proof.bound}",
            "This is probably a bug in Dalenius: please report it.",
        )
    proven = solution.gap is not None and solution.gap <= gap
    return replace(solution, status=Status.OPTIMAL) if proven else solution


def one_bucket_solution(problem: Problem, method: Method) -> Solution:
    """One bucket that holds everybody, where no setting was found up to the largest size."""
    note = f"no setting was found with sizes up to {problem.max_size:,}; one bucket holds everybody"
    return _one_bucket(problem, method, note)


def infeasible_solution(problem: Problem, method: Method) -> Solution:
    """No setting, and no proof."""
    return Solution(
        method=method,
        status=Status.INFEASIBLE,
        min_size=problem.min_size,
        max_size=problem.max_size,
        setting=None,
        partition=None,
    )


def why_not_anatomy(anatomy: Anatomy, problem: Problem) -> str:
    """Why Anatomy's setting cannot be, or is not private."""
    diversity, size = anatomy.diversity, anatomy.size
    if anatomy.setting is None:
        return f"Anatomy cannot make buckets of {size} and {size + 1} from {problem.total:,} records"
    if not anatomy.eligible:
        different = size + problem.fake_values
        largest, allowed = float(anatomy.largest_frequency), 1 / different
        return (
            f"Anatomy is not eligible for {diversity}-diversity: the most frequent value has {largest:.4%} of the "
            f"records, and at most 1/{different} = {allowed:.4%} is allowed; its setting only serves to compare losses"
        )
    return f"Anatomy makes buckets of {size} and {size + 1}, which are not in the range of sizes"


def _anatomy(problem: Problem, gap: float, time_limit: float) -> Solution:
    """Anatomy's buckets of l and l + 1, which must be in the range of sizes; an ineligible setting is only reported."""
    started = time.monotonic()
    anatomy = find_anatomy(problem)
    seconds = time.monotonic() - started
    sizes = (problem.min_size, problem.max_size)
    in_range = anatomy.setting is not None and all(sizes[0] <= g.size <= sizes[1] for g in anatomy.setting.groups)
    if anatomy.eligible and in_range:
        return _solution(problem, Method.ANATOMY, anatomy.setting, lower_bound(problem, time_limit), gap, seconds)
    note = why_not_anatomy(anatomy, problem)
    return Solution(
        method=Method.ANATOMY,
        status=Status.INFEASIBLE,
        min_size=sizes[0],
        max_size=sizes[1],
        setting=anatomy.setting,
        partition=None,
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
    certificate: Certificate | None = proof.certificate
    if setting is None:
        proof_of_that = certificate if certificate is not None and certificate.proves == "no-setting" else None
        return replace(infeasible_solution(problem, method), seconds=seconds, certificate=proof_of_that)
    return solution_with_proof(problem, method, _check_setting(problem, setting, method), proof, gap, seconds)


def _check_setting(problem: Problem, setting: BucketSetting, method: Method) -> Partition:
    verdict = validate_setting(problem, setting)
    if isinstance(verdict, Violation):
        failed = f"{verdict.constraint} constraint fails: {verdict.have} of {verdict.need}"
        raise SolverError(
            f"{method} returned a setting whose {failed}",
            "This is probably a bug in Dalenius: please report it.",
        )
    return verdict


def _one_bucket(problem: Problem, method: Method, note: str) -> Solution:
    """Lemma 1: valid for every problem that is not impossible."""
    setting = BucketSetting.of([(problem.total, 1)])
    partition = Partition(setting, tuple((count,) for count in problem.counts))
    return Solution(
        method=method,
        status=Status.FEASIBLE,
        min_size=problem.min_size,
        max_size=problem.total,
        setting=setting,
        partition=partition,
        notes=(note,),
    )
