"""What a release tells, by hand and against placements that are really made."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dalenius.dp_risk.release_shares import own_shares, release_view
from dalenius.dp_risk.risk import dp_risk
from dalenius.model.problem import BucketSetting, Partition, ValueCounts
from dalenius.place.slots import Placement
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy
from tests.dp_risk.people import LIMITS, people, risk, table

# three buckets of 2 and two of 3; A has 3 + 3 records, B 3 + 1, C 0 + 2
SMALL = Partition(BucketSetting.of([(2, 3), (3, 2)]), ((3, 3), (3, 1), (0, 2)))


def test_own_shares_by_hand() -> None:
    found = [own_shares(SMALL, value, Fraction(1, 2)) for value in range(3)]
    # A: three with 1 of 2; of the others two share a bucket of 3, and one is alone in one
    assert found[0].mean == (3 * Fraction(1, 2) + 2 * Fraction(2, 3) + Fraction(1, 3)) / 6
    assert found[1].mean == (3 * Fraction(1, 2) + Fraction(1, 3)) / 4
    assert found[2].mean == Fraction(1, 3)
    assert [own.largest for own in found] == [Fraction(2, 3), Fraction(1, 2), Fraction(1, 3)]
    assert [own.above for own in found] == [Fraction(2, 6), 0, 0]


def test_own_shares_with_fakes_by_hand() -> None:
    # two buckets of 1 record and 1 fake: A in both, once as a fake; B has one record and one fake
    partition = Partition(BucketSetting.of([(1, 2)]), ((1,), (1,)), ((1,), (1,)))
    assert own_shares(partition, 0, Fraction(1, 2)) == own_shares(partition, 1, Fraction(1, 2))
    assert own_shares(partition, 0, Fraction(1, 2)).mean == Fraction(1, 2)


def test_own_shares_against_placements() -> None:
    values = np.repeat(np.arange(3), [6, 4, 2])
    sums, draws = np.zeros(12), 2_000
    for number in range(draws):
        order, buckets = Placement([SMALL], number.to_bytes(32, "big")).buckets(values, np.zeros(3, dtype=np.int64))
        placed = np.empty(12, dtype=np.int64)
        placed[order] = buckets
        size, held = Counter(placed.tolist()), Counter(zip(placed.tolist(), values.tolist(), strict=True))
        sums += [held[b, v] / size[b] for b, v in zip(placed.tolist(), values.tolist(), strict=True)]
    expected = [float(own_shares(SMALL, v, Fraction(1)).mean) for v in values.tolist()]
    assert sums / draws == pytest.approx(expected, abs=0.02)  # each person, whatever their rank


def test_by_size_by_hand() -> None:
    """The best buckets of two or more: all four in one. Those who have B find 3/4 of it."""
    rows: list[tuple[str | None, int, str]] = [("F", 1, "A"), ("F", 1, "B"), ("F", 2, "B"), ("F", 3, "B")]
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [1], "draws": 100}
    found = dp_risk(table(rows), {"A": "1/3", "B": 1}, **settings)
    single, pair = (entry.release for entry in found.sizes)
    own_b = 3 / 4
    assert single is not None
    assert pair is not None
    assert single.mean_share == pytest.approx(own_b)
    assert pair.mean_share == pytest.approx((1 / 4 + own_b) / 2)
    assert single.largest_share == pair.largest_share == 3 / 4
    assert single.above_limit == pair.above_limit == 0
    (group,) = (listed for listed in found.top if listed.size == 2)
    assert group.release == pair


def test_by_size_and_by_group_it_is_the_mean_over_people() -> None:
    plan = plan_counts(ValueCounts.of([("HIV", 10), ("Flu", 19), ("Cold", 39)]), LimitPolicy.of(values=LIMITS))
    partition = plan.solution.partition
    assert partition is not None
    limits = dict(zip(plan.problem.values, plan.problem.limits, strict=True))
    own = {value: own_shares(partition, i, limits[value]) for i, value in enumerate(plan.problem.values)}
    found = risk(draws=100, where="Age = 40")
    sizes = Counter((gender, age) for gender, age, _ in people())
    for entry in found.sizes:
        carried = [value for gender, age, value in people() if entry.least <= sizes[gender, age] <= entry.most]
        assert entry.release is not None
        assert entry.release.mean_share == pytest.approx(
            float(sum(own[value].mean for value in carried) / len(carried))
        )
        assert entry.release.largest_share == pytest.approx(float(max(own[value].largest for value in carried)))
        assert entry.release.above_limit == 0
    assert found.release is not None
    shares = [entry.release.mean_share * entry.people for entry in found.sizes if entry.release is not None]
    assert sum(shares) / found.people == pytest.approx(found.release.mean_share)
    group = found.predicate
    assert group is not None
    assert group.release is not None
    expected = (3 * own["HIV"].mean + own["Flu"].mean + 2 * own["Cold"].mean) / 6
    assert group.release.mean_share == pytest.approx(float(expected))
    assert group.release.largest_share == pytest.approx(float(max(entry.largest for entry in own.values())))
    assert group.release.above_limit == 0
    assert group.release == next(listed.release for listed in found.top if listed.size == 6)


def test_people_above_are_counted_from_the_plan_and_not_assumed() -> None:
    plan = plan_counts(ValueCounts.of([("A", 2), ("B", 2)]), LimitPolicy.of(values={"A": "1/2", "B": "1/2"}))
    seen = release_view(plan)
    assert seen is not None
    assert (seen.of([(0, 2), (1, 1)]).above_limit, seen.of([(0, 2)]).mean_share) == (0, 0.5)
    problem = replace(plan.problem, limits=(Fraction(1, 3), Fraction(1, 3)))
    broken = release_view(replace(plan, problem=problem))
    assert broken is not None
    assert broken.risk.above_limit == 4
    assert broken.of([(0, 2), (1, 1)]).above_limit == 3
