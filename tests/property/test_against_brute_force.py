"""On small tables, every solver against exhaustive search."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting, Partition, Problem, SizeGroup, Violation
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting, validate_one_size, validate_two_size
from dalenius.solve.optimal import find_optimum, lower_bound
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from paper.two_size_paper import full_pruning, loss_pruning, no_pruning
from tests.effort import examples
from tests.property import brute_force
from tests.property.strategies import small_problems


def sizes_of(setting: BucketSetting) -> tuple[int, ...]:
    return tuple(group.size for group in setting.groups for _ in range(group.buckets))


def assert_valid(problem: Problem, setting: BucketSetting) -> None:
    assert all(problem.min_size <= group.size <= problem.max_size for group in setting.groups)
    assert brute_force.assignable(problem.counts, problem.limits, sizes_of(setting))


@given(small_problems())
@settings(max_examples=examples(300))
def test_optimal_is_the_best_setting(problem: Problem) -> None:
    expected = brute_force.best(problem.counts, problem.limits, problem.min_size, problem.max_size)
    found = find_optimum(problem, gap=0)
    if expected is None:
        assert found.setting is None
        return
    assert found.setting is not None
    assert_valid(problem, found.setting)
    assert found.setting.loss == brute_force.loss(expected) == found.bound


@given(small_problems(most_records=25))
@settings(max_examples=examples(150))
def test_optimal_is_the_best_setting_up_to_25_records(problem: Problem) -> None:
    expected = brute_force.best(problem.counts, problem.limits, problem.min_size, problem.max_size)
    found = find_optimum(problem, gap=0)
    assert (found.setting is None) == (expected is None)
    if found.setting is not None and expected is not None:
        assert_valid(problem, found.setting)
        assert found.setting.loss == brute_force.loss(expected)


@given(small_problems(most_records=25))
@settings(max_examples=examples(300))
def test_two_size_is_the_best_two_size_setting(problem: Problem) -> None:
    expected = brute_force.best(problem.counts, problem.limits, problem.min_size, problem.max_size, most_sizes=2)
    found = find_two_size_setting(problem)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert_valid(problem, found)
        assert found.loss == brute_force.loss(expected)


@given(small_problems(most_records=25))
def test_the_papers_searches_agree_with_the_closed_form(problem: Problem) -> None:
    if problem.min_size >= min(problem.max_size, problem.total):
        return  # the paper wants M < M'
    closed = find_two_size_setting(problem)
    for search in (no_pruning, loss_pruning, full_pruning):
        found = search(problem)
        assert (found is None) == (closed is None)
        if found is not None and closed is not None:
            assert found.loss == closed.loss


@given(small_problems())
def test_multi_size_is_valid_and_never_better_than_the_optimum(problem: Problem) -> None:
    found = find_multi_size_setting(problem)
    assert (found is None) == (find_two_size_setting(problem) is None)
    if found is not None:
        assert_valid(problem, found)
        best = find_optimum(problem, gap=0)
        assert best.setting is not None
        assert found.loss >= best.setting.loss


@given(small_problems())
@settings(max_examples=examples(150))
def test_the_bound_is_a_bound_and_its_certificate_checks(problem: Problem) -> None:
    expected = brute_force.best(problem.counts, problem.limits, problem.min_size, problem.max_size)
    proof = lower_bound(problem)
    if proof.bound is None:
        assert expected is None
        return
    assert proof.certificate is not None
    assert certified_bound(problem, proof.certificate) == proof.certificate.bound
    assert proof.certificate.bound <= proof.bound
    if expected is not None:
        assert proof.bound <= brute_force.loss(expected)


@given(small_problems(), st.data())
@settings(max_examples=examples(200))
def test_validation_decides_every_setting(problem: Problem, data: st.DataObject) -> None:
    every = list(brute_force.settings(problem.total, 1, problem.total))
    sizes = data.draw(st.sampled_from(every))
    setting = BucketSetting.of((size, 1) for size in sizes)
    possible = brute_force.assignable(problem.counts, problem.limits, sizes)
    verdict = validate_setting(problem, setting)
    assert isinstance(verdict, Partition) == possible
    if len(setting.groups) == 1:
        assert isinstance(validate_one_size(problem, setting.groups[0]), Partition) == possible
    if len(setting.groups) == 2:
        assert isinstance(validate_two_size(problem, *setting.groups), Partition) == possible
    if isinstance(verdict, Violation):
        assert verdict.have < verdict.need


@given(small_problems())
def test_partitions_add_up_and_keep_the_limits(problem: Problem) -> None:
    setting = find_two_size_setting(problem)
    if setting is None:
        return
    verdicts = [validate_setting(problem, setting)]
    if len(setting.groups) == 2:
        verdicts.append(validate_two_size(problem, *setting.groups))
    else:
        verdicts.append(validate_one_size(problem, setting.groups[0]))
    for verdict in verdicts:
        assert isinstance(verdict, Partition)
        assert_partition(problem, verdict)


def assert_partition(problem: Problem, partition: Partition) -> None:
    groups: tuple[SizeGroup, ...] = partition.setting.groups
    for row, count, limit in zip(partition.quotas, problem.counts, problem.limits, strict=True):
        assert sum(row) == count
        for quota, group in zip(row, groups, strict=True):
            assert 0 <= quota <= int(limit * group.size) * group.buckets
    for column, group in zip(zip(*partition.quotas, strict=True), groups, strict=True):
        assert sum(column) == group.records
