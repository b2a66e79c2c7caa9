"""Many small problems at once against exhaustive search: with and without known records and fake values."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.plan import Method, Solution, Status
from dalenius.model.problem import Partition, Problem
from dalenius.solve.gale import validate_setting
from dalenius.solve.many import solve_many
from dalenius.solve.methods import solve, solve_and_grow
from dalenius.solve.sizes import fakes_can_be_in_proportion, least_min_size, why_impossible
from dalenius.verify.proof import certified_bound
from tests.effort import examples
from tests.property import brute_force
from tests.property.strategies import guarded_problems, small_problems

LONG = 600.0


@st.composite
def strata(draw: st.DrawFn, known: tuple[int, int] = (0, 0), fakes: tuple[int, int] = (0, 0)) -> list[Problem]:
    """Small problems with the limits of one table; values may be absent, and problems too tight for any setting."""
    lowest = draw(st.sampled_from(["1/8", "2/5"]))
    limits = draw(st.lists(st.fractions(lowest, 1, max_denominator=12), min_size=2, max_size=5))
    known_records, fake_values = draw(st.integers(*known)), draw(st.integers(*fakes))
    min_size = max(least_min_size(tuple(limits), known_records), draw(st.integers(1, 2)))
    max_size = min_size + draw(st.integers(0, 9))
    made = []
    for counts in draw(st.lists(st.lists(st.integers(0, 4), min_size=len(limits), max_size=len(limits)), max_size=6)):
        kept = [i for i, count in enumerate(counts) if count]
        if kept:
            values, own = tuple(f"v{i}" for i in kept), tuple(limits[i] for i in kept)
            few = tuple(counts[i] for i in kept)
            made.append(Problem(values, few, own, min_size, max_size, known_records, fake_values))
    return made


def is_valid(problem: Problem, sizes: brute_force.Sizes) -> bool:
    guard = problem.counts, problem.limits, sizes, problem.known_records
    return (
        brute_force.in_proportion(*guard, problem.fake_values)
        if problem.fake_values
        else brute_force.assignable(*guard)
    )


def least_loss(problem: Problem) -> int | None:
    found = brute_force.first_of_least_loss(
        problem.total, problem.min_size, problem.max_size, None, lambda sizes: is_valid(problem, sizes)
    )
    return None if found is None else brute_force.loss(found)


def check(problem: Problem, solution: Solution) -> None:
    """What holds of every solution with a setting."""
    assert solution.setting is not None
    assert solution.partition is not None
    assert solution.method is Method.OPTIMAL
    assert solution.setting.records == problem.total
    assert all(solution.min_size <= group.size <= solution.max_size for group in solution.setting.groups)
    assert isinstance(validate_setting(problem, solution.setting), Partition)
    assert solution.partition.setting == solution.setting
    assert tuple(map(sum, solution.partition.quotas)) == problem.counts
    for row, limit in zip(solution.partition.quotas, problem.limits, strict=True):
        for quota, group in zip(row, solution.setting.groups, strict=True):
            assert quota <= math.floor(limit * max(0, group.size - problem.known_records)) * group.buckets


def check_bound(problem: Problem, solution: Solution, best: int) -> None:
    assert solution.loss is not None
    assert solution.loss >= best
    assert solution.bound is not None
    assert solution.bound <= best
    assert solution.certificate is not None
    assert certified_bound(problem, solution.certificate) == solution.certificate.bound <= best


def check_all(problems: list[Problem], gap: float) -> None:
    solutions = solve_many(problems, gap, LONG)
    assert len(solutions) == len(problems)
    losses, bounds = 0, 0
    for problem, solution in zip(problems, solutions, strict=True):
        best = least_loss(problem)
        assert (solution.status is Status.INFEASIBLE) == (best is None)
        if best is None:
            assert solution.setting is None
            continue
        check(problem, solution)
        check_bound(problem, solution, best)
        assert (solution.status is Status.OPTIMAL) == ((solution.gap or 0.0) <= gap)
        losses, bounds = losses + (solution.loss or 0), bounds + (solution.bound or 0)
    assert losses - bounds <= gap * losses


@given(strata())
@settings(max_examples=examples(150))
def test_without_a_gap_every_setting_is_the_best(problems: list[Problem]) -> None:
    check_all(problems, gap=0)


@given(strata(), st.sampled_from([0.01, 0.1, 1.0]))
@settings(max_examples=examples(150))
def test_every_bound_is_one(problems: list[Problem], gap: float) -> None:
    check_all(problems, gap)


@given(strata(known=(1, 2)), st.sampled_from([0, 0.1, 1.0]))
def test_known_records(problems: list[Problem], gap: float) -> None:
    check_all(problems, gap)


@given(strata(known=(0, 1), fakes=(1, 3)), st.sampled_from([0, 0.1, 1.0]))
@settings(max_examples=examples(60))
def test_fake_values(problems: list[Problem], gap: float) -> None:
    """The exhaustive search is in exact proportion; the solver's units are rounded up, and so allow a little more."""
    for problem, solution in zip(problems, solve_many(problems, gap, LONG), strict=True):
        best = least_loss(problem)
        assert solution.status is not Status.INFEASIBLE or best is None
        if solution.setting is not None:
            check(problem, solution)
            if best is not None:
                assert solution.bound is not None
                assert solution.bound <= best


@given(st.lists(small_problems(), max_size=5))
@settings(max_examples=examples(60))
def test_problems_that_share_nothing(problems: list[Problem]) -> None:
    check_all(problems, gap=0)


@given(st.lists(guarded_problems(fakes=(0, 2)), max_size=4))
@settings(max_examples=examples(60))
def test_as_the_method_for_a_single_problem(problems: list[Problem]) -> None:
    for problem, solution in zip(problems, solve_many(problems, 0, LONG), strict=True):
        single = solve(problem, Method.OPTIMAL, 0, LONG)
        assert (solution.loss, solution.bound, solution.status) == (single.loss, single.bound, single.status)
        assert (solution.min_size, solution.max_size) == (problem.min_size, problem.max_size)


@given(strata(known=(0, 1), fakes=(0, 1)))
@settings(max_examples=examples(60))
def test_sizes_grow_until_there_is_a_setting(problems: list[Problem]) -> None:
    for problem, solution in zip(problems, solve_many(problems, 0, LONG, grow=True), strict=True):
        single = solve_and_grow(problem, Method.OPTIMAL, 0, LONG)
        assert (solution.loss, solution.max_size) == (single.loss, single.max_size)
        assert (solution.status, solution.notes) == (single.status, single.notes)
        assert (solution.setting is None) == (why_impossible(problem) is not None)
        if solution.setting is not None and fakes_can_be_in_proportion(problem):
            check(problem, solution)


def test_growth_by_hand() -> None:
    """A limit of 3/100 lets one record into 34 to 66 others, and 3 into 100: 12 of 400 need sizes of at least 67."""
    limits = (Fraction(3, 100), Fraction(1))
    tight = Problem(("rare", "usual"), (12, 388), limits, 1, 50)
    easy = Problem(("rare", "usual"), (1, 399), limits, 1, 50)
    absent = Problem(("usual",), (40,), limits[1:], 1, 50)
    impossible = Problem(("rare", "usual"), (13, 387), limits, 1, 50)
    problems = [tight, easy, absent, impossible]
    assert [s.status.value for s in solve_many(problems, 0, LONG)] == ["infeasible", "optimal", "optimal", "infeasible"]
    grown = solve_many(problems, 0, LONG, grow=True)
    assert [str(solution.setting) for solution in grown] == ["4 x 100", "366 x 1 + 1 x 34", "40 x 1", "None"]
    assert [solution.max_size for solution in grown] == [100, 50, 50, 50]
    assert grown[3].status is Status.INFEASIBLE
