from __future__ import annotations

from fractions import Fraction

import pytest

from dalenius.errors import CountsError, did_you_mean, nearest_name
from dalenius.model.problem import BucketSetting, SizeGroup, ValueCounts


def test_counts_are_sorted_and_zeros_left_out() -> None:
    counts = ValueCounts.of([("b", 2), ("a", 1), ("c", 0)])
    assert (counts.values, counts.counts, counts.total) == (("a", "b"), (1, 2), 3)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "the table is empty"),
        ([("a", 0)], "every count is 0"),
        ([("a", 1), ("a", 2)], "'a' has more than one count"),
        ([("a", -1)], "is -1; a count cannot be negative"),
        ([("a", 1.5)], "not a whole number"),
        ([("a", True)], "not a whole number"),
        ([("a", 2**60)], "can count exactly"),
    ],
)
def test_bad_counts_are_refused(pairs: list[tuple[str, int]], message: str) -> None:
    with pytest.raises(CountsError, match=message):
        ValueCounts.of(pairs)


def test_loss_and_mse_of_a_setting() -> None:
    setting = BucketSetting.of([(14, 1), (4, 9), (7, 0)])
    assert setting.groups == (SizeGroup(4, 9), SizeGroup(14, 1))
    assert (setting.records, setting.buckets, setting.loss) == (50, 10, 9 * 9 + 13 * 13)
    assert setting.mse == Fraction(250, 49)
    assert BucketSetting.of([(1, 1)]).mse == 0
    assert str(setting) == "9 x 4 + 1 x 14"


def test_equal_sizes_are_added_up() -> None:
    assert BucketSetting.of([(2, 1), (2, 3)]).groups == (SizeGroup(2, 4),)


@pytest.mark.parametrize("pair", [(0, 1), (2, -1)])
def test_impossible_groups_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="a size group needs"):
        BucketSetting.of([pair])


def test_nearest_names() -> None:
    assert nearest_name("disease", ["Disease", "Zipcode"]) == "Disease"
    assert nearest_name("Xyz", ["Disease"]) is None
    assert did_you_mean("Xyz", ["Disease", "Age"]) == "Known: 'Disease', 'Age'."
