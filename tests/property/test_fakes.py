"""Fake values: settings against exhaustive search in exact proportion, and the fakes themselves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.fakes.quotas import draw_fakes, fakes_of_a_group
from dalenius.fakes.rooms import portion
from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting, validate_one_size, validate_two_size
from dalenius.solve.optimal import find_optimum, lower_bound
from dalenius.solve.sizes import fakes_can_be_in_proportion, why_impossible
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from tests.effort import examples
from tests.property import brute_force
from tests.property.strategies import guarded_problems, large_problems
from tests.property.two_size_searches import assert_agree_on_two_sizes

Search = Callable[[Problem], BucketSetting | None]

problems_with_fakes = guarded_problems(most_records=16, known=(0, 1), fakes=(1, 3))


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 (a test)


def in_proportion(problem: Problem, sizes: brute_force.Sizes) -> bool:
    adversary = problem.known_records, problem.fake_values
    return brute_force.in_proportion(problem.counts, problem.limits, sizes, *adversary)


def best(problem: Problem, most_sizes: int | None = None) -> brute_force.Sizes | None:
    return brute_force.first_of_least_loss(
        problem.total, problem.min_size, problem.max_size, most_sizes, lambda sizes: in_proportion(problem, sizes)
    )


def assert_fits(problem: Problem, partition: Partition) -> None:
    """Every record and every fake has its place, and no value is over its limit among the records that are unknown."""
    groups = partition.setting.groups
    assert partition.fake_values == problem.fake_values
    for records, slots, count, limit in zip(
        partition.quotas, partition.slots, problem.counts, problem.limits, strict=True
    ):
        assert sum(records) == count
        for quota, slot, group in zip(records, slots, groups, strict=True):
            assert 0 <= quota <= slot <= math.floor(limit * max(0, group.size - problem.known_records)) * group.buckets
    for j, group in enumerate(groups):
        assert sum(row[j] for row in partition.quotas) == group.records
        assert sum(row[j] for row in partition.fakes) == group.buckets * problem.fake_values


@given(problems_with_fakes)
@settings(max_examples=examples(200))
def test_optimal_is_the_best_setting_in_proportion(problem: Problem) -> None:
    expected = best(problem)
    found = find_optimum(problem, gap=0)
    assert (found.setting is None) == (expected is None)
    if found.setting is not None and expected is not None:
        assert found.setting.loss == brute_force.loss(expected) == found.bound
        assert found.certificate is not None
        assert certified_bound(problem, found.certificate) == found.certificate.bound <= found.bound


@given(problems_with_fakes)
@settings(max_examples=examples(100))
def test_every_two_size_search_is_the_best_two_size_setting(problem: Problem) -> None:
    assert_agree_on_two_sizes(problem, best(problem, most_sizes=2))


@given(problems_with_fakes)
@settings(max_examples=examples(100))
def test_the_bound_is_below_every_setting_in_proportion(problem: Problem) -> None:
    expected, proof = best(problem), lower_bound(problem)
    if proof.bound is None:
        assert expected is None
    elif expected is not None:
        assert proof.bound <= brute_force.loss(expected)


@given(problems_with_fakes, st.data())
@settings(max_examples=examples(200))
def test_validation_decides_every_setting_and_whole_fakes_fit(problem: Problem, data: st.DataObject) -> None:
    sizes = data.draw(st.sampled_from(list(brute_force.settings(problem.total, 1, problem.total))))
    setting = BucketSetting.of((size, 1) for size in sizes)
    verdicts = [validate_setting(problem, setting)]
    if len(setting.groups) == 1:
        verdicts.append(validate_one_size(problem, setting.groups[0]))
    if len(setting.groups) == 2:
        verdicts.append(validate_two_size(problem, *setting.groups))
    for verdict in verdicts:
        assert isinstance(verdict, Partition) == in_proportion(problem, sizes)
        if isinstance(verdict, Violation):
            assert verdict.have < verdict.need
        else:
            assert_fits(problem, draw_fakes(problem, verdict, seeded(1)))


@given(problems_with_fakes)
@settings(max_examples=examples(60))
def test_multi_size_and_anatomy_are_valid(problem: Problem) -> None:
    for setting in (
        find_multi_size_setting(problem),
        find_anatomy(problem).setting if find_anatomy(problem).eligible else None,
    ):
        if setting is not None:
            verdict = validate_setting(problem, setting)
            assert isinstance(verdict, Partition)
            assert_fits(problem, draw_fakes(problem, verdict, seeded(2)))


@given(problems_with_fakes)
@settings(max_examples=examples(100))
def test_lemma_1_with_fakes(problem: Problem) -> None:
    every = brute_force.settings(problem.total, 1, problem.total)
    possible = any(in_proportion(problem, sizes) for sizes in every)
    assert fakes_can_be_in_proportion(problem) == possible
    if possible:
        assert why_impossible(problem) is None
    if why_impossible(problem) is None:  # one bucket of everybody then has room, in proportion or not
        setting = BucketSetting.of([(problem.total, 1)])
        whole = Partition(setting, tuple((count,) for count in problem.counts))
        assert_fits(problem, draw_fakes(problem, whole, seeded(3)))


@given(large_problems(most_records=10**9), st.integers(0, 2), st.integers(1, 3))
@settings(max_examples=examples(25))
def test_large_tables(plain: Problem, known: int, fakes: int) -> None:
    limits = tuple(min(Fraction(1), limit + Fraction(1, 10)) for limit in plain.limits)
    problem = Problem(plain.values, plain.counts, limits, plain.min_size + known, plain.max_size, known, fakes)
    found = find_optimum(problem, gap=1e-3, time_limit=60)
    two = find_two_size_setting(problem)
    if found.setting is None:
        assert two is None
        return
    assert found.bound is not None
    assert found.bound <= found.setting.loss
    for setting in (found.setting, two):
        if setting is not None:
            verdict = validate_setting(problem, setting)
            assert isinstance(verdict, Partition)
            assert found.bound <= setting.loss
            assert_fits(problem, draw_fakes(problem, verdict, seeded(4)))


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[int], int, int, int]:
    """Records and slots of a size group of b buckets of size S, with room for its fakes."""
    size, buckets, fakes = draw(st.integers(1, 12)), draw(st.integers(1, 40)), draw(st.integers(1, 4))
    cuts = sorted(draw(st.lists(st.integers(0, size * buckets), max_size=7)))
    ends = [0, *cuts, size * buckets]
    records = [b - a for a, b in pairwise(ends)]
    extra = draw(st.lists(st.integers(0, fakes * buckets), min_size=len(records), max_size=len(records)))
    extra[0] += max(0, fakes * buckets - sum(extra))
    return records, [a + more for a, more in zip(records, extra, strict=True)], size, buckets, fakes


@given(groups(), st.integers(0, 2**32))
@settings(max_examples=examples(400))
def test_fakes_of_a_group(group: tuple[list[int], list[int], int, int, int], seed: int) -> None:
    records, slots, size, buckets, fakes = group
    found = fakes_of_a_group(np.asarray(records), np.asarray(slots), size, buckets, fakes, seeded(seed)).tolist()
    room = [slot - count for slot, count in zip(slots, records, strict=True)]
    shares = [Fraction(fakes * count, size) for count in records]
    assert sum(found) == fakes * buckets
    assert all(0 <= number <= most for number, most in zip(found, room, strict=True))
    if sum(most for most, count in zip(room, records, strict=True) if count) >= fakes * buckets:
        assert all(number == 0 for number, count in zip(found, records, strict=True) if not count)
    fits = all(math.ceil(share) <= most for share, most in zip(shares, room, strict=True))
    rare = [share for share in shares if 0 < share < 1]
    spare = sum((min(share - 1, share / 2) for share in shares if share > 1), Fraction(0))
    if fits and not rare:
        for number, share in zip(found, shares, strict=True):
            assert number in (math.floor(share), math.ceil(share))
    if fits and rare and sum(1 - share for share in rare) < spare * Fraction(999, 1000):
        for number, share in zip(found, shares, strict=True):
            assert number >= 1 or share == 0
            assert number >= math.floor(share / 2)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20), st.data())
def test_portions_add_up(available: list[int], data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, sum(available)))
    found = portion(np.asarray(available), amount).tolist()
    assert sum(found) == amount
    assert all(0 <= part <= whole for part, whole in zip(found, available, strict=True))
    for part, whole in zip(found, available, strict=True):
        assert abs(part - whole * Fraction(amount, max(1, sum(available)))) <= len(available) + whole * 1e-9
