"""On tables of up to 10^12 records: solvers against each other, and against an independent maximum flow."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.caps import Instance, cap_matrix
from dalenius.solve.gale import fill_sizes, validate_setting
from dalenius.solve.multi_size import find_multi_size_setting, validate_two_size
from dalenius.solve.optimal import find_optimum
from dalenius.solve.two_size import find_two_size_setting, most_buckets
from dalenius.verify.proof import certified_bound
from paper.two_size_paper import full_pruning
from tests.effort import examples
from tests.property.strategies import large_problems
from tests.property.test_against_brute_force import assert_partition


@given(large_problems())
@settings(max_examples=examples(60))
def test_methods_are_ordered_and_certified(problem: Problem) -> None:
    best = find_optimum(problem, gap=1e-4, time_limit=60)
    two, many = find_two_size_setting(problem), find_multi_size_setting(problem)
    assert (two is None) == (many is None)
    if best.setting is None:
        assert two is None
        return
    verdict = validate_setting(problem, best.setting)
    assert isinstance(verdict, Partition)
    assert_partition(problem, verdict)
    assert best.bound is not None
    assert best.bound <= best.setting.loss
    assert best.certificate is not None
    assert certified_bound(problem, best.certificate) == best.certificate.bound <= best.bound
    if two is not None and many is not None:
        assert isinstance(validate_setting(problem, many), Partition)
        assert best.bound <= many.loss <= two.loss


@given(large_problems(most_records=10**5))
@settings(max_examples=examples(30))
def test_binary_search_agrees_with_the_closed_form(problem: Problem) -> None:
    if len(Instance(problem).sizes) < 2:
        return  # the paper wants M < M'
    closed, searched = find_two_size_setting(problem), full_pruning(problem)
    assert (closed is None) == (searched is None)
    if closed is not None and searched is not None:
        assert closed.loss == searched.loss
        if len(closed.groups) == 2:
            assert isinstance(validate_two_size(problem, *closed.groups), Partition)


@given(large_problems(), st.data())
@settings(max_examples=examples(60))
def test_gale_agrees_with_an_independent_maximum_flow(problem: Problem, data: st.DataObject) -> None:
    """Settings near a valid one, so that both answers occur."""
    start = find_two_size_setting(problem)
    if start is None:
        return
    sizes = data.draw(st.lists(st.integers(problem.min_size, problem.max_size), min_size=1, max_size=5, unique=True))
    buckets = {group.size: group.buckets for group in start.groups}
    for size in sizes:  # trade lcm-sized blocks between sizes, which keeps the total
        donor = max(buckets, key=lambda s: s * buckets[s])
        block = int(np.lcm(donor, size))
        times = data.draw(st.integers(0, donor * buckets[donor] // block))
        buckets[donor] -= times * block // donor
        buckets[size] = buckets.get(size, 0) + times * block // size
    setting = BucketSetting.of(buckets.items())
    verdict = validate_setting(problem, setting)
    assert isinstance(verdict, Partition) == (_flow_value(problem, setting) == problem.total)
    if isinstance(verdict, Partition):
        assert_partition(problem, verdict)
    else:
        assert_violated(problem, setting, verdict)


def _flow_value(problem: Problem, setting: BucketSetting) -> int:
    graph = networkx.DiGraph()
    for i, (count, limit) in enumerate(zip(problem.counts, problem.limits, strict=True)):
        graph.add_edge("source", f"value {i}", capacity=count)
        for group in setting.groups:
            graph.add_edge(f"value {i}", f"size {group.size}", capacity=int(limit * group.size) * group.buckets)
    for group in setting.groups:
        graph.add_edge(f"size {group.size}", "sink", capacity=group.records)
    return int(networkx.maximum_flow_value(graph, "source", "sink"))


def assert_violated(problem: Problem, setting: BucketSetting, violation: Violation) -> None:
    """The violation's numbers follow from the limits alone."""
    groups = [group for group in setting.groups if group.size in violation.sizes]
    room = [sum(int(limit * g.size) * g.buckets for g in groups) for limit in problem.limits]
    assert violation.have < violation.need
    if violation.constraint == "privacy":
        (value,) = violation.values
        assert (violation.have, violation.need) == (room[value], problem.counts[value])
    else:
        assert violation.need == sum(group.records for group in groups)
        assert violation.have == sum(min(r, count) for r, count in zip(room, problem.counts, strict=True))


@given(large_problems())
@settings(max_examples=examples(60))
def test_most_buckets_is_where_filling_ends(problem: Problem) -> None:
    instance = Instance(problem)
    caps = instance.caps(instance.sizes)
    most = most_buckets(caps, instance.counts, instance.sizes)

    def fills(j: int, b: int) -> bool:
        filled = sum(min(int(c) * b, o) for c, o in zip(caps[:, j], problem.counts, strict=True))
        return filled >= int(instance.sizes[j]) * b

    for j, size in enumerate(instance.sizes.tolist()):
        assert fills(j, int(most[j]))
        assert most[j] == problem.total // size or not fills(j, int(most[j]) + 1)


@given(large_problems())
def test_caps_are_floors_of_exact_products(problem: Problem) -> None:
    sizes = np.arange(1, 60)
    caps = cap_matrix(problem.limits, sizes)
    for limit, row in zip(problem.limits, caps.tolist(), strict=True):
        assert row == [limit.numerator * s // limit.denominator for s in sizes.tolist()]


def test_a_flow_that_needs_augmenting_paths_is_found() -> None:
    """A greedy start that cannot be right everywhere: value 0 fits anywhere, the others in one size each."""
    counts = np.asarray([10, 5, 5])
    room = np.asarray([[10, 10, 10], [5, 0, 0], [0, 5, 0]])
    quotas, cut = fill_sizes(counts, room, np.asarray([7, 7, 6]))
    assert cut is None
    assert quotas.sum(axis=0).tolist() == [7, 7, 6]
    assert quotas.sum(axis=1).tolist() == [10, 5, 5]
