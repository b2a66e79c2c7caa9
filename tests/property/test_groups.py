"""Limits on groups of values: every solver against exhaustive search, on small tables under random trees."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import UndecidedError
from dalenius.fakes.quotas import draw_fakes
from dalenius.model.plan import Method, Status
from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.contraction import contract
from dalenius.solve.gale import validate_setting
from dalenius.solve.many import solve_many
from dalenius.solve.methods import solve, solve_and_grow
from dalenius.solve.optimal import find_optimum
from dalenius.solve.sizes import why_impossible
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from tests.effort import examples
from tests.property import brute_force
from tests.property.strategies import grouped_problems


def sizes_of(setting: BucketSetting) -> tuple[int, ...]:
    return tuple(group.size for group in setting.groups for _ in range(group.buckets))


def assert_partition(problem: Problem, partition: Partition) -> None:
    """Rows and columns add up, and of every value and group no size has more than its buckets may."""
    assert problem.groups is not None
    known = problem.known_records
    for row, count, limit in zip(partition.quotas, problem.counts, problem.limits, strict=True):
        assert sum(row) == count
        for quota, group in zip(row, partition.setting.groups, strict=True):
            assert 0 <= quota <= int(limit * max(0, group.size - known)) * group.buckets
    for j, group in enumerate(partition.setting.groups):
        column = [row[j] for row in partition.quotas]
        assert sum(column) == group.records
        for node, inside in zip(problem.groups.groups, problem.groups.sums(column), strict=True):
            if node.limit is not None:
                assert inside <= int(node.limit * max(0, group.size - known)) * group.buckets


@given(grouped_problems(known=(0, 2)), st.data())
@settings(max_examples=examples(600))
def test_validation_decides_every_setting(problem: Problem, data: st.DataObject) -> None:
    sizes = data.draw(st.sampled_from(list(brute_force.settings(problem.total, 1, problem.total))))
    setting = BucketSetting.of((size, 1) for size in sizes)
    verdict = validate_setting(problem, setting)
    assert isinstance(verdict, Partition) == brute_force.assignable_in_groups(problem, sizes)
    if isinstance(verdict, Violation):
        assert verdict.have < verdict.need
    else:
        assert_partition(problem, verdict)


@given(grouped_problems(known=(0, 1)))
@settings(max_examples=examples(400))
def test_optimal_is_the_best_setting(problem: Problem) -> None:
    expected = brute_force.best_in_groups(problem)
    found = find_optimum(problem, gap=0)
    assert (found.setting is None) == (expected is None)
    if found.setting is not None and expected is not None:
        assert brute_force.assignable_in_groups(problem, sizes_of(found.setting))
        assert found.setting.loss == brute_force.loss(expected) == found.bound


@given(grouped_problems(most_records=20))
@settings(max_examples=examples(400))
def test_two_size_is_the_best_two_size_setting(problem: Problem) -> None:
    expected = brute_force.best_in_groups(problem, most_sizes=2)
    found = find_two_size_setting(problem)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert brute_force.assignable_in_groups(problem, sizes_of(found))
        assert found.loss == brute_force.loss(expected)


@given(grouped_problems(known=(0, 1)))
@settings(max_examples=examples(300))
def test_every_method_solves_the_problem_as_it_is(problem: Problem) -> None:
    """Values that are one to the solvers have their quotas back, and what is not valid is not returned."""
    expected = brute_force.best_in_groups(problem)
    for method in (Method.OPTIMAL, Method.TWO_SIZE, Method.MULTI_SIZE, Method.ANATOMY):
        solution = solve(problem, method, 0.0, 60.0)
        if solution.status is Status.INFEASIBLE:
            assert method is not Method.OPTIMAL or expected is None
            continue
        assert expected is not None
        assert solution.partition is not None
        assert solution.setting is not None
        assert_partition(problem, solution.partition)
        assert brute_force.assignable_in_groups(problem, sizes_of(solution.setting))
        assert solution.setting.loss >= brute_force.loss(expected)
        assert method is not Method.OPTIMAL or solution.setting.loss == brute_force.loss(expected)


@given(grouped_problems(known=(0, 1), fakes=(0, 1)))
@settings(max_examples=examples(300))
def test_the_judge_proves_exactly_what_the_solver_says(problem: Problem) -> None:
    """For values and groups as they are, though the solver sees fewer; and no valid setting loses less."""
    solution = solve(problem, Method.OPTIMAL, 0.0, 60.0)
    certificate = solution.certificate
    if certificate is None:
        return
    assert certified_bound(problem, certificate) == certificate.bound
    if certificate.proves == "no-setting":
        assert certificate.bound > 0
        assert problem.fake_values or brute_force.best_in_groups(problem) is None
    elif not problem.fake_values:
        expected = brute_force.best_in_groups(problem)
        assert expected is None or certificate.bound <= brute_force.loss(expected)


@given(grouped_problems())
@settings(max_examples=examples(200))
def test_a_contraction_has_the_same_valid_settings(problem: Problem) -> None:
    fewer = contract(problem)
    assert fewer is not None
    assert fewer.problem.total == problem.total
    for sizes in brute_force.settings(problem.total, 1, problem.total):
        setting = BucketSetting.of((size, 1) for size in sizes)
        assert isinstance(validate_setting(problem, setting), Partition) == isinstance(
            validate_setting(fewer.problem, setting), Partition
        )


@given(grouped_problems(known=(0, 1), fakes=(1, 2)))
@settings(max_examples=examples(200))
def test_with_fakes_quotas_leave_room_for_them(problem: Problem) -> None:
    """What is valid with fakes is valid without them, and has whole quotas within the limits of values and groups."""
    found = find_optimum(problem, gap=0)
    if found.setting is None:
        return
    verdict = validate_setting(problem, found.setting)
    assert isinstance(verdict, Partition)
    assert_partition(problem, verdict)
    assert isinstance(validate_setting(replace(problem, fake_values=0), found.setting), Partition)


@given(grouped_problems(most_records=40, known=(0, 1), fakes=(1, 3)), st.randoms(use_true_random=False))
@settings(max_examples=examples(200))
def test_fakes_keep_the_limits_of_groups_too(problem: Problem, random: Random) -> None:
    """With the values depth first, every bucket keeps every limit, fakes included, and has its number of fakes."""
    assert problem.groups is not None
    problem = problem.take(problem.groups.order())
    solution = solve_and_grow(problem, Method.OPTIMAL, 0.01, 10.0)
    if solution.partition is None:
        assert why_impossible(problem) is not None
        return
    try:
        partition = draw_fakes(problem, solution.partition, random)
    except UndecidedError:
        return
    assert problem.groups is not None
    for j, group in enumerate(partition.setting.groups):
        assert sum(row[j] for row in partition.fakes) == problem.fake_values * group.buckets
        left, column = group.size - problem.known_records, [row[j] for row in partition.slots]
        for inside, limit in zip(column, problem.limits, strict=True):
            assert -(-inside // group.buckets) <= limit * left
        for inside, node in zip(problem.groups.sums(column), problem.groups.groups, strict=True):
            assert node.limit is None or -(-inside // group.buckets) <= node.limit * left


@given(grouped_problems(most_records=30), st.data())
@settings(max_examples=examples(150))
def test_strata_share_their_groups(whole: Problem, data: st.DataObject) -> None:
    """Problems with the same limits and groups, solved together, have valid settings as good as one by one."""
    strata = []
    for _ in range(3):
        counts = [data.draw(st.integers(0, count + 3)) for count in whole.counts]
        there = [i for i, count in enumerate(counts) if count]
        if there:
            strata.append(whole.take(there, [counts[i] for i in there]))
    for problem, solution in zip(strata, solve_many(strata, 0.0, 30.0, grow=True), strict=True):
        alone = solve_and_grow(problem, Method.OPTIMAL, 0.0, 30.0)
        assert (solution.partition is None) == (alone.partition is None)
        if solution.partition is not None:
            assert_partition(problem, solution.partition)
            if solution.max_size == alone.max_size:
                assert solution.loss == alone.loss
            assert solution.bound is None or solution.loss is None or solution.bound <= solution.loss
