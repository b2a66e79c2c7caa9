"""Examples 2 to 5 and Remark 2 of the paper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dalenius.model.problem import BucketSetting, Partition, SizeGroup, Violation
from dalenius.solve.gale import fill_sizes, validate_setting
from dalenius.solve.multi_size import validate_one_size, validate_two_size
from dalenius.solve.optimal import find_optimum
from dalenius.solve.two_size import feasible_positions, find_two_size_setting
from tests.contents import bucket_contents
from tests.problems import example_3, problem


def test_example_2_the_hospital_table() -> None:
    """Four diseases in two buckets of two: Alice has Cancer or HIV with probability 1/2 each."""
    hospital = problem([1, 1, 1, 1], [Fraction(1, 2)] * 4)
    found = find_optimum(hospital, gap=0)
    assert found.setting == BucketSetting((SizeGroup(2, 2),))
    verdict = validate_one_size(hospital, SizeGroup(2, 2))
    assert isinstance(verdict, Partition)
    contents = bucket_contents(np.asarray([row[0] for row in verdict.quotas]), 2)
    assert contents.sum(axis=0).tolist() == [2, 2]
    assert contents.max() / 2 == 0.5


def test_example_3_two_sizes_are_valid_and_partitioned() -> None:
    table = example_3()
    assert {str(limit) for limit in table.limits} == {"9/100", "29/100", "41/100"}
    verdict = validate_two_size(table, SizeGroup(4, 9), SizeGroup(14, 1))
    assert isinstance(verdict, Partition)
    # One record of each of x_1..x_8 goes to B_2, and six more of x_9..x_14 (the paper takes one of each).
    assert [row[1] for row in verdict.quotas[:8]] == [1] * 8
    assert sum(row[1] for row in verdict.quotas[8:]) == 6
    for j, (size, buckets) in enumerate([(4, 9), (14, 1)]):
        contents = bucket_contents(np.asarray([row[j] for row in verdict.quotas]), buckets)
        assert contents.sum(axis=0).tolist() == [size] * buckets
        for held, limit in zip(contents, table.limits, strict=True):
            assert all(Fraction(int(count), size) <= limit for count in held)


def test_example_3_limits_are_exact() -> None:
    """floor(0.29 * 100) is 28 in binary floating point; with 29 records of 100 the bucket is valid."""
    assert int(0.29 * 100) == 28
    table = problem([29, 71], [Fraction("0.29"), Fraction(1)], max_size=100)
    assert isinstance(validate_one_size(table, SizeGroup(100, 1)), Partition)


def test_example_4_the_list_of_feasible_pairs() -> None:
    positions = feasible_positions(np.asarray([2]), np.asarray([4]), 28)
    pairs = [
        (int(positions.first1[0] - k * positions.step1[0]), int(positions.first2[0] + k * positions.step2[0]))
        for k in range(int(positions.last[0]) + 1)
    ]
    assert pairs == [(14, 0), (12, 1), (10, 2), (8, 3), (6, 4), (4, 5), (2, 6), (0, 7)]


def test_example_5_three_sizes_need_more_than_privacy_and_fill() -> None:
    """PC, FC and CC hold, and there is no valid assignment: Gale's condition fails for B_1 and B_2 together."""
    counts = np.asarray([5] * 10 + [20])
    room = np.asarray([[0, 0, 5]] * 10 + [[20, 20, 20]])
    need = np.asarray([20, 20, 30])
    assert (room.sum(axis=1) >= counts).all()
    assert (np.minimum(room, counts[:, None]).sum(axis=0) >= need).all()
    assert need.sum() == counts.sum()
    _, cut = fill_sizes(counts, room, need)
    assert cut is not None
    assert np.minimum(room[:, cut].sum(axis=1), counts).sum() < need[cut].sum()


def test_a_setting_of_three_sizes_that_only_gale_rejects() -> None:
    """The shape of Example 5 with real limits: values 0..9 fit only in buckets of 30, of which there is one."""
    limits = [Fraction(1, 6)] * 10 + [Fraction(1)]
    table = problem([5] * 10 + [20], limits, max_size=30)
    setting = BucketSetting.of([(4, 5), (5, 4), (30, 1)])
    verdict = validate_setting(table, setting)
    assert isinstance(verdict, Violation)
    assert verdict.constraint == "cut"
    assert verdict.sizes == (4, 5)
    assert (verdict.have, verdict.need) == (20, 40)


def test_remark_2_counts_the_feasible_settings() -> None:
    """The paper prints 2,077,869 settings for sizes in [3, 20] and a million records; there are 2,653,977."""
    total, low, high = 1_000_000, 3, 20
    first, second = np.triu_indices(high - low + 1, k=1)
    positions = feasible_positions(first + low, second + low, total)
    assert int((positions.last + 1).sum()) == 2_653_977
    directly = sum(
        1
        for s1 in range(low, high)
        for s2 in range(s1 + 1, high + 1)
        for b2 in range(total // s2 + 1)
        if (total - s2 * b2) % s1 == 0
    )
    assert directly == 2_653_977


def test_two_size_is_at_least_as_good_as_example_3s_setting() -> None:
    found = find_two_size_setting(example_3())
    assert found is not None
    assert found.loss <= 9 * 9 + 13 * 13


def test_the_constraint_that_fails_is_named() -> None:
    table = example_3()
    capacity = validate_two_size(table, SizeGroup(4, 9), SizeGroup(13, 1))
    assert isinstance(capacity, Violation)
    assert (capacity.constraint, capacity.have, capacity.need) == ("capacity", 49, 50)
    privacy = validate_two_size(table, SizeGroup(4, 10), SizeGroup(10, 1))
    assert isinstance(privacy, Violation)
    assert (privacy.constraint, privacy.values) == ("privacy", (0,))
    fill = validate_two_size(table, SizeGroup(1, 8), SizeGroup(42, 1))
    assert isinstance(fill, Violation)
    assert (fill.constraint, fill.sizes, fill.have) == ("fill", (1,), 0)
    single = validate_one_size(table, SizeGroup(5, 10))
    assert isinstance(single, Violation)
    assert (single.constraint, single.values) == ("privacy", (0,))
