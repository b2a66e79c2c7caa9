"""The expected error of counts, against releases that are made and counted many times over."""

from __future__ import annotations

import numpy as np
import pytest

from dalenius.model.problem import BucketSetting, Partition
from dalenius.strata.tree import Floats, Integers
from dalenius.strata.worth import association, chance, expected_error, is_worth_it

LEAVES = np.array([[30, 10, 2, 0], [5, 20, 20, 9], [1, 3, 8, 12]])


def partition_of(pairs: list[tuple[int, int]], quotas: list[list[int]]) -> Partition:
    return Partition(BucketSetting.of(pairs), tuple(map(tuple, quotas)))


PARTITION = partition_of([(2, 15), (3, 10), (5, 12)], [[12, 8, 16], [10, 9, 14], [5, 7, 18], [3, 6, 12]])


def dealt(partition: Partition) -> Integers:
    """How many records of each value each bucket has, dealt in turn: a line for each bucket."""
    lines = []
    for place, group in enumerate(partition.setting.groups):
        kinds = np.repeat(np.arange(len(partition.quotas)), [row[place] for row in partition.quotas])
        held = np.zeros((group.buckets, len(partition.quotas)), np.int64)
        np.add.at(held, (np.arange(len(kinds)) % group.buckets, kinds), 1)
        lines.append(held)
    return np.concatenate(lines)


def mean_estimates(leaves: Integers, held: Integers) -> Floats:
    """The mean over all ways to place the records of each value: sum over buckets of c_j c_i / S."""
    pairs = np.einsum("bj,bi->ji", held / held.sum(axis=1, keepdims=True), held)
    estimates: Floats = leaves / np.maximum(leaves.sum(axis=0), 1) @ pairs
    return estimates


def test_chance_is_the_sum_over_buckets() -> None:
    held = dealt(PARTITION)
    size = held.sum(axis=1, keepdims=True)
    assert held.sum(axis=0).tolist() == LEAVES.sum(axis=0).tolist()
    assert chance(PARTITION) == pytest.approx((held * (size - held) / size).sum(axis=0))


def test_association_is_close_to_what_buckets_give() -> None:
    expected = mean_estimates(LEAVES, dealt(PARTITION)) - LEAVES
    found = association(LEAVES, PARTITION)
    assert found.sum(axis=0) == pytest.approx(0, abs=1e-9)  # nobody is lost
    assert found.sum(axis=1) == pytest.approx(0, abs=1e-9)
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def test_two_values_are_exact() -> None:
    leaves = np.array([[30, 4], [3, 20]])
    partition = partition_of([(2, 9), (3, 13)], [[11, 22], [7, 17]])
    expected = mean_estimates(leaves, dealt(partition)) - leaves
    assert association(leaves, partition) == pytest.approx(expected, abs=0.05)


def test_buckets_of_one_record_have_no_error() -> None:
    partition = partition_of([(1, 120)], [[36], [33], [30], [21]])
    assert chance(partition) == pytest.approx(0, abs=1e-9)
    assert association(LEAVES, partition) == pytest.approx(0, abs=1e-9)
    one = expected_error(LEAVES, np.zeros(3, np.int64), [partition])
    assert one == pytest.approx(0, abs=1e-9)
    assert not is_worth_it(0, one, strict=False)


def test_a_leaf_that_is_a_stratum_has_no_association() -> None:
    assert association(LEAVES.sum(axis=0, keepdims=True), PARTITION) == pytest.approx(0, abs=1e-9)


def test_unlike_leaves_are_worth_strata_and_like_ones_are_not() -> None:
    """Two leaves, all in buckets of four with two records of each of two values: the same buckets with strata."""
    unlike = np.array([[300, 300, 0, 0], [0, 0, 300, 300]])
    like = np.array([[150, 150, 150, 150], [150, 150, 150, 150]])
    one = partition_of([(4, 300)], [[300]] * 4)
    halves = [partition_of([(4, 150)], [[300], [300], [0], [0]]), partition_of([(4, 150)], [[0], [0], [300], [300]])]
    same = [partition_of([(4, 150)], [[150]] * 4)] * 2
    together, apart = np.zeros(2, np.int64), np.arange(2)
    assert is_worth_it(expected_error(unlike, apart, halves), expected_error(unlike, together, [one]), strict=False)
    assert not is_worth_it(expected_error(like, apart, same), expected_error(like, together, [one]), strict=False)
    assert expected_error(like, apart, same) == pytest.approx(expected_error(like, together, [one]), rel=0.05)


@pytest.mark.parametrize(
    ("error", "strict", "worth"), [(0.94, False, True), (0.96, False, False), (0.94, True, False), (0.89, True, True)]
)
def test_how_much_is_enough(error: float, strict: bool, worth: bool) -> None:
    assert is_worth_it(error, 1.0, strict=strict) is worth


def test_leaves_that_differ_by_chance_are_not_worth_strata() -> None:
    """Records in random leaves, with many rare values: the same buckets with strata and without."""
    rng = np.random.default_rng(3)
    leaves = rng.multinomial(2000, np.full(100, 0.01), size=4)
    one = partition_of([(100, 80)], [[count] for count in leaves.sum(axis=0).tolist()])
    strata = [partition_of([(100, 20)], [[count] for count in leaf.tolist()]) for leaf in leaves]
    apart, together = expected_error(leaves, np.arange(4), strata), expected_error(leaves, np.zeros(4, int), [one])
    assert apart == pytest.approx(together, rel=0.02)


def test_larger_buckets_cost_what_strata_gain() -> None:
    """Leaves that hardly differ, in strata with buckets of fifty instead of two."""
    leaves = np.array([[104, 96] * 5, [96, 104] * 5])
    one = partition_of([(2, 1000)], [[200]] * 10)
    large = [partition_of([(50, 20)], [[count] for count in leaf.tolist()]) for leaf in leaves]
    assert expected_error(leaves, np.arange(2), large) > expected_error(leaves, np.zeros(2, np.int64), [one])
