"""Limits on groups of values: every solver against exhaustive search, on small tables under random trees."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.plan import Method, Status
from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.contraction import contract
from dalenius.solve.gale import validate_setting
from dalenius.solve.methods import solve
from dalenius.solve.optimal import find_optimum
from dalenius.solve.two_size import find_two_size_setting
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
