"""Fake values on examples that can be done by hand, and on real counts."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from dalenius.errors import CountsError
from dalenius.fakes.quotas import draw_fakes, fakes_of_a_group
from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.caps import Instance, units_of_a_record
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting
from dalenius.solve.optimal import find_optimum
from dalenius.solve.sizes import least_min_size
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from tests.effort import cases
from tests.problems import acs
from tests.property.test_fakes import assert_fits, seeded


def alike(values: int, count: int, limit: Fraction, known: int = 0, fakes: int = 0, max_size: int = 50) -> Problem:
    """So many values with the same count and limit."""
    low = least_min_size((limit,), known)
    return Problem(tuple(map(str, range(values))), (count,) * values, (limit,) * values, low, max_size, known, fakes)


def test_six_values_and_one_fake_fill_buckets_of_five() -> None:
    """Five of six values are a bucket's records, and the sixth is its fake: the same sizes as without fakes."""
    table = alike(6, 10, Fraction(1, 5), fakes=1)
    found = find_optimum(table, gap=0)
    assert str(found.setting) == "12 x 5" == str(find_optimum(alike(6, 10, Fraction(1, 5)), gap=0).setting)
    assert found.setting is not None
    partition = validate_setting(table, found.setting)
    assert isinstance(partition, Partition)
    full = draw_fakes(table, partition, seeded(1))
    assert full.slots == ((12,),) * 6
    assert full.fakes == ((2,),) * 6


def test_two_fakes_need_a_seventh_value() -> None:
    assert find_optimum(alike(6, 10, Fraction(1, 5), fakes=2, max_size=5)).setting is None
    assert str(find_optimum(alike(7, 10, Fraction(1, 5), fakes=2)).setting) == "14 x 5"


def test_a_known_record_makes_buckets_larger_by_one() -> None:
    assert str(find_optimum(alike(6, 10, Fraction(1, 5), known=1), gap=0).setting) == "10 x 6"


def test_without_fakes_a_partition_stays_as_it_is() -> None:
    table = alike(6, 10, Fraction(1, 5))
    partition = validate_setting(table, BucketSetting.of([(5, 12)]))
    assert isinstance(partition, Partition)
    assert draw_fakes(table, partition) is partition


def test_the_operating_systems_randomness_is_the_default() -> None:
    table = Problem(("a", "b", "c"), (31, 32, 37), (Fraction(3, 5),) * 3, 2, 10, fake_values=1)
    partition = validate_setting(table, BucketSetting.of([(5, 20)]))
    assert isinstance(partition, Partition)
    drawn = {draw_fakes(table, partition).fakes for _ in range(60)}
    assert len(drawn) > 1
    for _ in range(5):
        assert_fits(table, draw_fakes(table, partition))
    assert draw_fakes(table, partition, seeded(5)) == draw_fakes(table, partition, seeded(5))


def test_what_is_rounded_up_is_as_likely_as_its_fraction_is_large() -> None:
    """Shares 6.2, 6.4 and 7.4: over many draws the means are these."""
    records, slots = np.asarray([31, 32, 37]), np.asarray([100, 100, 100])
    draws = [fakes_of_a_group(records, slots, 5, 20, 1, seeded(seed)).tolist() for seed in range(4000)]
    for value, share in enumerate((6.2, 6.4, 7.4)):
        mean = sum(draw[value] for draw in draws) / len(draws)
        assert mean == pytest.approx(share, abs=0.04)  # five standard errors


def test_a_rare_value_has_a_fake_wherever_there_is_one_to_spare() -> None:
    records, slots = np.asarray([1, 3, 96]), np.asarray([20, 20, 200])
    for seed in range(50):
        found = fakes_of_a_group(records, slots, 5, 20, 1, seeded(seed)).tolist()
        assert found == [1, 1, 18]


def test_many_rare_values_leave_the_common_one_half_of_its_fakes() -> None:
    """A share of 5 for the common value, and 0.1 for each of 50: the 2.5 that are to spare lift them all alike."""
    records, slots = np.asarray([50] + [1] * 50), np.asarray([200] + [10] * 50)
    draws = [fakes_of_a_group(records, slots, 10, 10, 1, seeded(seed)) for seed in range(2000)]
    assert {int(draw[0]) for draw in draws} == {2, 3}
    means = np.mean(draws, axis=0)
    assert means[0] == pytest.approx(2.5, abs=0.06)
    assert means[1:] == pytest.approx(0.15, abs=0.05)


def test_a_limit_that_bites_is_made_up_for_where_it_only_rounds_up() -> None:
    """Shares 1.2, 1.8 and 2: the first has room for 1, and what it leaves goes to the second, not to the third."""
    records, slots = np.asarray([12, 18, 20]), np.asarray([13, 40, 40])
    for seed in range(50):
        assert fakes_of_a_group(records, slots, 10, 5, 1, seeded(seed)).tolist() == [1, 2, 2]


def test_values_without_records_are_the_last_resort() -> None:
    """The two values that occur have room for three of the four fakes."""
    found = fakes_of_a_group(np.asarray([6, 2, 0]), np.asarray([8, 3, 4]), 2, 4, 1, seeded(3)).tolist()
    assert found == [2, 1, 1]


def test_a_split_that_would_leave_fakes_without_room_is_not_made() -> None:
    """Recursion would end in 13 x 4 + 4 x 6, each part valid with its records, and the whole not in proportion."""
    limits = (Fraction(194, 475), Fraction(1), Fraction(789, 1900))
    table = Problem(("a", "b", "c"), (14, 53, 9), limits, 1, 25, fake_values=2)
    assert not isinstance(validate_setting(table, BucketSetting.of([(4, 13), (6, 4)])), Partition)
    found = find_multi_size_setting(table)
    assert found is not None
    assert isinstance(validate_setting(table, found), Partition)


def test_counts_of_any_size_are_counted_in_units_that_fit() -> None:
    assert units_of_a_record(300_000, 50, 0) == 1
    assert units_of_a_record(300_000, 50, 1) == 2**20
    assert units_of_a_record(10, 100_000, 20) > 100_000 * 21
    for total in (10**10, 10**12, 10**14):
        units = units_of_a_record(total, 50, 2)
        assert units > 50 * 3
        assert units * total * 3 <= 2**58
    with pytest.raises(CountsError, match="cannot be shared out exactly"):
        units_of_a_record(2**53, 1000, 5)


def test_caps_with_fakes_are_rounded_up_from_the_exact_ones() -> None:
    table = acs("Occupation", 300, 8)
    guarded = Problem(table.values, table.counts, table.limits, 3, 50, known_records=2, fake_values=3)
    instance = Instance(guarded)
    sizes = np.asarray([1, 2, 3, 10, 37, 300_000])
    caps = instance.caps(sizes).tolist()
    assert instance.caps(sizes)[0].tolist() == instance.distinct_caps(sizes)[0].tolist()
    for row, limit in zip(caps, table.limits, strict=True):
        for cap, size in zip(row, sizes.tolist(), strict=True):
            exact = Fraction(max(0, limit * (size - 2)) // 1 * size, size + 3) * instance.units
            assert exact <= cap < exact + 1


@pytest.mark.parametrize("column", ["Occupation", "Education"])
@pytest.mark.parametrize(("known", "fakes"), cases((1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 2), usually=3))
def test_acs_counts_to_the_usual_gap(column: str, known: int, fakes: int) -> None:
    plain = acs(column, 300, 8)
    low = least_min_size(plain.limits, known)
    table = Problem(plain.values, plain.counts, plain.limits, low, 52, known, fakes)
    found = find_optimum(table, time_limit=3600)
    assert found.setting is not None
    assert found.bound is not None
    assert found.certificate is not None
    assert found.setting.loss - found.bound <= 1e-4 * found.setting.loss
    assert certified_bound(table, found.certificate) == found.certificate.bound <= found.bound
    unprotected = find_optimum(plain)
    assert unprotected.bound is not None
    assert unprotected.bound < found.setting.loss
    for setting in (found.setting, find_two_size_setting(table), find_multi_size_setting(table)):
        assert setting is not None
        assert found.bound <= setting.loss
        partition = validate_setting(table, setting)
        assert isinstance(partition, Partition)
        full = draw_fakes(table, partition, random.SystemRandom())
        if fakes:
            assert_fits(table, full)
            assert_near_proportion(table, full)


def assert_near_proportion(table: Problem, full: Partition) -> None:
    """In groups of some size: a common value has its share of the fakes to within what the rare ones were given."""
    for j, group in enumerate(full.setting.groups):
        shares = [table.fake_values * row[j] / group.size for row in full.quotas]
        lifted = sum(1 - share for share in shares if 0 < share < 1)
        for share, row in zip(shares, full.fakes, strict=True):
            if share > 50 + 20 * lifted:
                assert row[j] == pytest.approx(share, rel=0.1)
