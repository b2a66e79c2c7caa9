"""Adversaries who know Q records of a bucket: every solver against exhaustive search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.caps import Instance
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting
from dalenius.solve.optimal import find_optimum
from dalenius.solve.sizes import why_impossible
from dalenius.verify.proof import certified_bound
from tests.effort import examples
from tests.property import brute_force
from tests.property.strategies import guarded_problems
from tests.property.test_against_brute_force import sizes_of
from tests.property.two_size_searches import assert_agree_on_two_sizes

Search = Callable[[Problem], BucketSetting | None]


def best(problem: Problem, most_sizes: int | None = None) -> brute_force.Sizes | None:
    low, high = problem.min_size, problem.max_size
    return brute_force.best(problem.counts, problem.limits, low, high, most_sizes, problem.known_records)


@given(guarded_problems())
@settings(max_examples=examples(200))
def test_optimal_is_the_best_setting(problem: Problem) -> None:
    expected = best(problem)
    found = find_optimum(problem, gap=0)
    assert (found.setting is None) == (expected is None)
    if found.setting is not None and expected is not None:
        assert found.setting.loss == brute_force.loss(expected) == found.bound
        assert brute_force.assignable(
            problem.counts, problem.limits, sizes_of(found.setting), known=problem.known_records
        )
        assert found.certificate is not None
        assert certified_bound(problem, found.certificate) == found.certificate.bound <= found.bound


@given(guarded_problems(most_records=20))
@settings(max_examples=examples(150))
def test_every_two_size_search_is_the_best_two_size_setting(problem: Problem) -> None:
    assert_agree_on_two_sizes(problem, best(problem, most_sizes=2))


@given(guarded_problems())
@settings(max_examples=examples(60))
def test_multi_size_and_anatomy_are_valid(problem: Problem) -> None:
    known = problem.known_records
    for setting in (
        find_multi_size_setting(problem),
        find_anatomy(problem).setting if find_anatomy(problem).eligible else None,
    ):
        if setting is not None:
            assert brute_force.assignable(problem.counts, problem.limits, sizes_of(setting), known=known)


@given(guarded_problems(), st.data())
@settings(max_examples=examples(150))
def test_validation_decides_every_setting(problem: Problem, data: st.DataObject) -> None:
    sizes = data.draw(st.sampled_from(list(brute_force.settings(problem.total, 1, problem.total))))
    verdict = validate_setting(problem, BucketSetting.of((size, 1) for size in sizes))
    possible = brute_force.assignable(problem.counts, problem.limits, sizes, known=problem.known_records)
    assert isinstance(verdict, Partition) == possible


@given(guarded_problems())
@settings(max_examples=examples(150))
def test_lemma_1_with_known_records(problem: Problem) -> None:
    """Some setting exists iff one bucket that holds everybody is one."""
    anything = replace(problem, min_size=1, max_size=problem.total)
    assert (why_impossible(problem) is None) == (best(anything) is not None)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.fractions(0, 1, max_denominator=12), st.integers(0, 3))
def test_caps_leave_no_share_above_the_limit_whichever_records_are_known(
    bucket: list[int], limit: Fraction, known: int
) -> None:
    """A bucket with so many of each value keeps its caps iff no choice of known records leaves too large a share."""
    limit = max(limit, Fraction(1, 12))
    values = [value for value, count in enumerate(bucket) for _ in range(count)]
    size = len(values)
    if size <= known:
        return
    limits = tuple(limit for _ in bucket)
    caps = Instance(Problem(("v",) * len(bucket), tuple(bucket), limits, 1, size, known)).caps([size])  # type: ignore[arg-type]
    kept = all(count <= cap for count, cap in zip(bucket, caps[:, 0].tolist(), strict=True))
    left = [[v for k, v in enumerate(values) if k not in chosen] for chosen in combinations(range(size), known)]
    private = all(Fraction(rest.count(value), size - known) <= limit for rest in left for value in set(rest))
    if kept:
        assert private
    # Where everybody else can be known, the cap is exact; a value that fills the bucket always leaves itself.
    if all(size - count >= known for count in bucket):
        assert kept == private
