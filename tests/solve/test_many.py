"""Many problems at once: the strata of a table of usual size."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dalenius.model.plan import Method, Solution, Status
from dalenius.model.problem import Partition, Problem
from dalenius.solve import family as many_family
from dalenius.solve import many
from dalenius.solve.caps import Instance
from dalenius.solve.certificate import dense_bound, exact_bound
from dalenius.solve.gale import validate_setting
from dalenius.solve.highs import LinearFamily, LinearTrouble
from dalenius.solve.many import solve_many
from dalenius.solve.methods import solve, solve_and_grow
from dalenius.solve.optimal import lower_bound
from dalenius.solve.relaxation import Relaxation, relax
from dalenius.solve.sizes import least_min_size
from dalenius.verify.proof import certified_bound
from tests.effort import cases
from tests.problems import acs, theta_limits


def strata(column: str, theta: int, number: int, known: int = 0, fakes: int = 0, seed: int = 1) -> list[Problem]:
    """Parts of the ACS table whose frequencies differ from the table's, and in which some values are absent."""
    rng = np.random.default_rng(seed)
    table = acs(column, 300, theta)
    limits = theta_limits(list(table.counts), theta)
    shares = np.asarray(table.counts) / table.total
    made: list[Problem] = []
    while len(made) < number:
        tilted = shares * np.exp(rng.normal(0, 0.3, len(shares)))
        counts = rng.multinomial(int(rng.integers(200, 5000)), tilted / tilted.sum())
        if (counts > 0.8 * np.asarray(limits, dtype=float) * counts.sum()).any():
            continue
        kept = np.flatnonzero(counts)
        own = tuple(limits[i] for i in kept)
        values = tuple(table.values[i] for i in kept)
        low = least_min_size(tuple(limits), known)
        made.append(Problem(values, tuple(counts[kept].tolist()), own, low, 50 + known, known, fakes))
    return made


def total_gap(problems: list[Problem], solutions: list[Solution]) -> float:
    """The gap of the sums; every partition is checked on the way, and every certificate of a quick setting."""
    losses = bounds = 0
    for problem, solution in zip(problems, solutions, strict=True):
        assert solution.setting is not None
        assert solution.loss is not None
        assert solution.bound is not None
        assert validate_setting(problem, solution.setting) == solution.partition
        assert solution.certificate is not None
        assert certified_bound(problem, solution.certificate) == solution.certificate.bound
        losses, bounds = losses + solution.loss, bounds + solution.bound
    return (losses - bounds) / losses


@pytest.mark.parametrize(("column", "theta"), [("Occupation", 4), ("Occupation", 32), ("Education", 4)])
@pytest.mark.parametrize("known", [0, 2])
def test_together_they_are_within_the_gap(column: str, theta: int, known: int) -> None:
    problems = strata(column, theta, 30, known)
    assert total_gap(problems, solve_many(problems, 0.01, 60)) <= 0.01


def test_a_smaller_gap_can_be_had() -> None:
    problems = strata("Education", 4, 12)
    assert total_gap(problems, solve_many(problems, 1e-4, 60)) <= 1e-4


def test_fake_values_have_a_weaker_bound() -> None:
    problems = strata("Education", 8, 10, known=1, fakes=2)
    assert total_gap(problems, solve_many(problems, 0.01, 60)) <= 0.05


def test_fake_values_are_proven_where_a_small_gap_is_asked_for() -> None:
    problems = strata("Education", 8, 3, known=1, fakes=2)
    assert total_gap(problems, solve_many(problems, 0.004, 120)) <= 0.004


@pytest.mark.parametrize(
    ("number", "known", "fakes", "gap", "most_sizes"),
    cases((20, 1, 2, 0.01, 400), (6, 0, 0, 1e-3, 0), (10, 0, 0, 1e-5, 400), (2, 1, 2, 0.004, 400), usually=2),
)
def test_the_clock_has_no_say_within_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, number: int, known: int, fakes: int, gap: float, most_sizes: int
) -> None:
    """Settings are those of a machine on which everything takes a hundred times as long."""
    monkeypatch.setattr(many, "_MOST_SIZES", most_sizes)
    problems = strata("Occupation", 8, number, known, fakes)
    usual = solve_many(problems, gap, 1e5)
    clock, begun = time.monotonic, time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun + 100 * (clock() - begun))
    slow = solve_many(problems, gap, 1e5)
    assert [(one.setting, one.bound, one.status) for one in slow] == [
        (one.setting, one.bound, one.status) for one in usual
    ]


@pytest.mark.parametrize("most_cuts", [100, -45])
def test_bounds_are_nearly_those_of_the_relaxation(monkeypatch: pytest.MonkeyPatch, most_cuts: int) -> None:
    """Also where most cuts are forgotten again and again."""
    monkeypatch.setattr(many_family, "_MANY_CUTS", most_cuts)
    problems = strata("Occupation", 8, 20)
    for problem, solution in zip(problems, solve_many(problems, 1.0, 60), strict=True):
        best = lower_bound(problem).bound
        assert best is not None
        assert solution.bound is not None
        assert 0.999 * best <= solution.bound <= best


def test_the_order_of_problems_is_kept_and_each_is_told() -> None:
    told: list[int] = []
    problems = strata("Education", 8, 6)
    mixed = [
        problems[0],
        replace(problems[1], max_size=3),
        *problems[2:4],
        replace(problems[4], max_size=49),
        problems[5],
    ]
    solutions = solve_many(mixed, 0.01, 60, lambda: told.append(1))
    assert len(told) == len(mixed)
    assert solutions[1].status is Status.INFEASIBLE
    for problem, solution in zip(mixed, solutions, strict=True):
        assert solution.max_size == problem.max_size
        assert solution.setting is None or solution.setting.records == problem.total


def test_nothing_to_solve() -> None:
    assert solve_many([], 0.01, 60) == []


@pytest.mark.usefixtures("clock")
def test_out_of_time_settings_are_valid_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick looks are taken nevertheless, and no search has more than a moment."""
    moments: list[float] = []

    def solve_in(problem: Problem, method: Method, gap: float, seconds: float, *more: float) -> Solution:
        moments.append(seconds)
        return (solve_and_grow if more else solve)(problem, method, gap, seconds, *more)

    monkeypatch.setattr(many, "solve", solve_in)
    monkeypatch.setattr(many, "solve_and_grow", solve_in)
    problems = strata("Occupation", 8, 40)
    solutions = solve_many(problems, 0, 0, grow=True)
    assert all(seconds <= many._MOMENT for seconds in moments)
    assert total_gap(problems, solutions) < 0.05


@pytest.mark.usefixtures("clock")
def test_out_of_time_for_a_quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the method for a single problem finds in a moment."""
    monkeypatch.setattr(many, "_MOST_SIZES", 0)
    problems = strata("Education", 8, 5)
    solutions = solve_many(problems, 0, 0, grow=True)
    assert total_gap(problems, solutions) < 1
    for problem, solution in zip(problems, solutions, strict=True):
        best = solve(problem, Method.OPTIMAL, 0, 60)
        assert best.loss is not None
        assert solution.bound is not None
        assert solution.loss is not None
        assert solution.bound <= best.loss <= solution.loss < problem.total * 50


def test_out_of_patience_one_bucket_holds_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_A_SECOND", -1.0)
    problems = strata("Education", 8, 3)
    for problem, solution in zip(problems, solve_many(problems, 0, -1, grow=True), strict=True):
        assert solution.setting is not None
        assert str(solution.setting) == f"1 x {problem.total}"
        assert solution.partition == validate_setting(problem, solution.setting)
        assert (solution.status, solution.bound) == (Status.FEASIBLE, None)


def test_more_sizes_than_a_quick_look_has() -> None:
    limits = (Fraction(1, 1000), Fraction(1))
    problems = [Problem(("rare", "usual"), (k, 5000), limits, 1, 1200) for k in (1, 2, 4)]
    for problem, solution in zip(problems, solve_many(problems, 0.01, 60), strict=True):
        single = solve(problem, Method.OPTIMAL, 0.01, 60)
        assert (solution.setting, solution.bound, solution.status) == (single.setting, single.bound, single.status)


@pytest.mark.parametrize("method", [Method.TWO_SIZE, Method.MULTI_SIZE, Method.ANATOMY])
@pytest.mark.parametrize("grow", [False, True])
def test_other_methods_are_as_they_are(method: Method, grow: bool) -> None:
    problems = strata("Education", 8, 3)
    for problem, solution in zip(problems, solve_many(problems, 0.01, 60, method=method, grow=grow), strict=True):
        single = solve(problem, method, 0.01, 60)
        assert (solution.setting, solution.bound, solution.status) == (single.setting, single.bound, single.status)


def test_trouble_with_a_linear_program_is_left_to_the_single_method(monkeypatch: pytest.MonkeyPatch) -> None:
    def trouble(*_: object) -> None:
        raise LinearTrouble("kUnknown")

    monkeypatch.setattr(LinearFamily, "solve", trouble)
    problems = strata("Education", 8, 2)
    assert total_gap(problems, solve_many(problems, 0.01, 60)) <= 0.01


def test_two_ways_to_the_same_bound() -> None:
    for problem in strata("Occupation", 4, 5, known=1, fakes=1):
        instance = Instance(problem)
        relaxed = relax(instance)
        assert isinstance(relaxed, Relaxation)
        cuts, multipliers = relaxed.bound.cuts, relaxed.bound.multipliers
        caps = instance.caps(instance.sizes)
        matrix = np.stack([cut.coefficients(instance.sizes, caps) for cut in cuts])
        assert dense_bound(instance, instance.sizes, matrix, cuts, multipliers) == exact_bound(
            instance, cuts, multipliers
        )


def test_every_solution_has_its_partition() -> None:
    for solution in solve_many(strata("Education", 16, 5), 0.01, 60):
        assert isinstance(solution.partition, Partition)
        assert solution.partition.setting == solution.setting
        assert solution.seconds > 0
