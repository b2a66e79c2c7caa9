"""Merged leaves meet their limits, exactly, or there is one stratum; and nothing is merged without need."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.strata.merging import merge_leaves
from dalenius.strata.tree import Integers
from tests.effort import examples


def is_fit(row: list[int], most: list[Fraction], least_rows: int) -> bool:
    """By fractions alone."""
    return sum(row) >= least_rows and all(count <= share * sum(row) for count, share in zip(row, most, strict=True))


def by_stratum(counts: Integers, stratum: Integers) -> list[list[int]]:
    return [counts[stratum == s].sum(axis=0).tolist() for s in range(int(stratum.max()) + 1)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Integers, list[Fraction], int]:
    values, leaves = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    count = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 10**12))
    counts = draw(st.lists(st.lists(count, min_size=values, max_size=values), min_size=leaves, max_size=leaves))
    share = st.builds(Fraction, st.integers(1, 12), st.sampled_from([12, 15, 24]))
    most = draw(st.lists(share, min_size=values, max_size=values))
    return np.array(counts, np.int64), most, draw(st.integers(0, 20))


@settings(max_examples=examples(400))
@given(cases())
def test_strata_are_fit_or_one_and_numbered_in_order(case: tuple[Integers, list[Fraction], int]) -> None:
    counts, most, least_rows = case
    stratum = merge_leaves(counts, most, least_rows)
    assert len(stratum) == len(counts)
    seen: list[int] = []
    for number in stratum.tolist():
        if number not in seen:
            seen.append(number)
    assert seen == list(range(len(seen)))
    strata = by_stratum(counts, stratum)
    if len(strata) > 1:
        assert all(is_fit(row, most, least_rows) for row in strata)
        assert all(sum(row) for row in strata)


@settings(max_examples=examples(200))
@given(cases())
def test_fit_leaves_are_merged_only_to_make_up_for_others(case: tuple[Integers, list[Fraction], int]) -> None:
    counts, most, least_rows = case
    filled = counts[counts.sum(axis=1) > 0]
    if len(filled):
        stratum = merge_leaves(filled, most, least_rows)
        unfit = np.array([not is_fit(row, most, least_rows) for row in filled.tolist()])
        members = np.bincount(stratum)
        assert all(unfit[stratum == s].any() for s in np.flatnonzero(members > 1))
        # as many strata as fit leaves at most, and those which unfit leaves form among themselves
        assert len(members) <= (~unfit).sum() + unfit.sum() // 2 or len(members) == 1


@pytest.mark.parametrize("scale", [1, 10**6, 10**13])
def test_at_the_boundary(scale: int) -> None:
    """4 of 10 are just fit where 2/5 are allowed; one row more is not, be it one in 10^14."""
    most = [Fraction(2, 5), Fraction(1), Fraction(1)]
    just = np.array([4, 3, 3], np.int64) * scale
    assert merge_leaves(np.array([just, just]), most, 0).tolist() == [0, 1]
    for more in ([1, 0, 0], [1, 0, 1], [0, -1, 0]):
        assert merge_leaves(np.array([just, just + more]), most, 0).tolist() == [0, 0]


def test_of_partners_that_make_up_as_much_the_one_most_alike() -> None:
    most = [Fraction(1, 2), Fraction(1), Fraction(1)]
    counts = np.array([[60, 40, 0], [10, 0, 90], [10, 90, 0], [52, 24, 24]])
    assert merge_leaves(counts, most, 1).tolist()[:3] == [0, 1, 0]


def test_two_that_are_unfit_can_make_up_for_each_other() -> None:
    counts = np.array([[90, 10], [50, 50], [10, 90]])
    assert merge_leaves(counts, [Fraction(3, 5)] * 2, 1).tolist() == [0, 1, 0]


def test_small_leaves_are_merged() -> None:
    counts = np.array([[5, 5], [500, 500], [4, 6], [700, 300]])
    stratum = merge_leaves(counts, [Fraction(1)] * 2, 100)
    assert stratum.tolist() == [0, 0, 0, 1]


def test_all_together_are_not_fit() -> None:
    counts = np.array([[50, 50], [49, 51], [30, 70]])
    assert merge_leaves(counts, [Fraction(387, 1000), Fraction(27, 50)], 1).tolist() == [0, 0, 0]


def test_empty_leaves_go_with_the_leaf_before() -> None:
    counts = np.array([[0, 0], [5, 5], [0, 0], [0, 0], [6, 6], [0, 0]])
    most = [Fraction(3, 5)] * 2
    assert merge_leaves(counts, most, 1).tolist() == [0, 0, 0, 0, 1, 1]
    assert merge_leaves(np.zeros((3, 2), np.int64), most, 1).tolist() == [0, 0, 0]


def test_the_order_of_values_does_not_matter() -> None:
    random = np.random.default_rng(0)
    counts = random.poisson(random.gamma(0.5, 40, (60, 12)))
    most = [Fraction(int(c) * 8, int(counts.sum()) * 5) + Fraction(2, 125) for c in counts.sum(axis=0)]
    stratum = merge_leaves(counts, most, 50)
    assert 1 < stratum.max() + 1 < 60
    order = random.permutation(12)
    assert (merge_leaves(counts[:, order], [most[i] for i in order], 50) == stratum).all()


def test_the_order_of_leaves_matters_to_their_numbers_alone() -> None:
    random = np.random.default_rng(1)
    counts = random.poisson(random.gamma(0.5, 40, (60, 12)))
    most = [Fraction(int(c) * 8, int(counts.sum()) * 5) + Fraction(2, 125) for c in counts.sum(axis=0)]
    stratum = merge_leaves(counts, most, 50)
    order = random.permutation(60)
    other = merge_leaves(counts[order], most, 50)
    together = stratum[:, None] == stratum[None, :]
    assert ((other[:, None] == other[None, :]) == together[np.ix_(order, order)]).all()


def set_partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    found = []
    for rest in set_partitions(items[1:]):
        found.append([[items[0]], *rest])
        found += [[*rest[:i], [items[0], *part], *rest[i + 1 :]] for i, part in enumerate(rest)]
    return found


def information(counts: Integers) -> float:
    """What the stratum tells about the value: rows times mutual information."""

    def total(numbers: Integers) -> float:
        return sum(n * log(n) for n in numbers.ravel().tolist() if n)

    return total(counts) - total(counts.sum(axis=1)) - total(counts.sum(axis=0)) + total(counts.sum(keepdims=True))


def test_nearly_as_good_as_any_way_of_merging() -> None:
    """Of what the best of all fit partitions tells about the value, most is kept, over many small instances."""
    random = np.random.default_rng(2)
    kept = possible = 0.0
    for _ in range(40):
        counts = random.poisson(random.gamma(0.7, 10, (6, 4))) + 1
        most = [min(Fraction(9, 10), Fraction(9 * int(c), 4 * int(counts.sum()))) for c in counts.sum(axis=0)]
        best = 0.0
        for way in set_partitions(list(range(6))):
            strata = np.array([counts[part].sum(axis=0) for part in way])
            if all(is_fit(row, most, 1) for row in strata.tolist()):
                best = max(best, information(strata))
        possible += best
        kept += information(np.array(by_stratum(counts, merge_leaves(counts, most, 1))))
    assert 0.9 * possible <= kept <= possible * (1 + 1e-9)


def test_a_leaf_is_fit_only_if_its_groups_are() -> None:
    """Every value keeps its share, and two of them together do not."""
    counts = np.array([[30, 30, 40], [10, 10, 80]])
    most = [Fraction(1, 2), Fraction(1, 2), Fraction(9, 10)]
    assert merge_leaves(counts, most, 1).tolist() == [0, 1]
    assert merge_leaves(counts, [*most, Fraction(59, 100)], 1, [[0, 1]]).tolist() == [0, 0]
    assert merge_leaves(counts, [*most, Fraction(60, 100)], 1, [[0, 1]]).tolist() == [0, 1]
