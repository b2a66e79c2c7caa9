"""Expected errors of counts: against every possible condition on small buckets, and against counts from a release."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
from dalenius.fakes.quotas import draw_fakes
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import BucketSetting, Partition, SizeGroup
from dalenius.planning import count_values, plan_counts
from dalenius.policy.limits import LimitPolicy
from dalenius.query.count import Counter
from dalenius.release.folder import open_release
from dalenius.solve.foresight import relative_errors

Bucket = list[tuple[int, bool]]  # values, each with whether a record is behind it


def dealt(partition: Partition) -> list[Bucket]:
    """Buckets as they are dealt: of each value, round-robin through the group; records first, then fakes."""
    buckets: list[Bucket] = []
    for j, group in enumerate(partition.setting.groups):
        own: list[Bucket] = [[] for _ in range(group.buckets)]
        place = 0
        for value, quotas in enumerate(partition.quotas):
            fakes = partition.fakes[value][j] if partition.fakes else 0
            for k in range(quotas[j] + fakes):
                own[place % group.buckets].append((value, k < quotas[j]))
                place += 1
        buckets += own
    return buckets


def squared_errors(buckets: list[Bucket], values: int, share: Fraction) -> list[Fraction]:
    """The expected square of each value's error, over every set of records that a condition can choose."""
    records = [(place, value) for place, bucket in enumerate(buckets) for value, real in bucket if real]
    found = [Fraction(0)] * values
    for chosen in product((False, True), repeat=len(records)):
        matching = [0] * len(buckets)
        truth = [0] * values
        for (place, value), yes in zip(records, chosen, strict=True):
            matching[place] += yes
            truth[value] += yes
        probability = share ** sum(chosen) * (1 - share) ** (len(records) - sum(chosen))
        for value in range(values):
            estimate = sum(
                Fraction(matching[place] * sum(own == value for own, _ in bucket), len(bucket))
                for place, bucket in enumerate(buckets)
            )
            found[value] += probability * (estimate - truth[value]) ** 2
    return found


def assert_expected(partition: Partition, share: Fraction) -> None:
    squares = squared_errors(dealt(partition), len(partition.quotas), share)
    counts = [sum(row) for row in partition.quotas]
    found = relative_errors([partition], float(share))
    for square, count, error in zip(squares, counts, found.tolist(), strict=True):
        assert error == pytest.approx(math.sqrt(square) / float(share * count), rel=1e-12)


def of(
    groups: list[tuple[int, int]], quotas: list[tuple[int, ...]], fakes: list[tuple[int, ...]] | None = None
) -> Partition:
    setting = BucketSetting(tuple(SizeGroup(*group) for group in groups))
    return Partition(setting, tuple(quotas), tuple(fakes or ()))


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize(
    "partition",
    [
        of([(4, 1)], [(3,), (1,)]),
        of([(3, 3)], [(4,), (3,), (2,)]),
        of([(1, 3), (3, 2)], [(2, 2), (1, 1), (0, 3)]),
        of([(2, 2), (5, 1)], [(2, 3), (1, 1), (1, 1)]),
    ],
    ids=str,
)
def test_every_condition_on_small_buckets(partition: Partition, share: Fraction) -> None:
    assert_expected(partition, share)


@pytest.mark.parametrize(
    "partition",
    [
        of([(3, 2)], [(4,), (2,)], [(0,), (2,)]),  # fakes far from proportion: estimates are off on the average, too
        of([(3, 2)], [(4,), (2,)], [(2,), (0,)]),
        of([(2, 2), (4, 1)], [(2, 2), (2, 2)], [(2, 1), (0, 0)]),
    ],
    ids=str,
)
def test_fakes_that_are_drawn_already(partition: Partition) -> None:
    assert_expected(partition, Fraction(1, 4))


@given(st.data())
def test_without_fakes_it_is_the_mean_of_what_counts_say_of_themselves(data: st.DataObject) -> None:
    """The hypergeometric variance, of which `query.count` takes the root, on the average over the matching rows."""
    size = data.draw(st.integers(2, 9))
    buckets = data.draw(st.integers(1, 6))
    own = data.draw(st.integers(1, size * buckets - 1))
    partition = of([(size, buckets)], [(own,), (size * buckets - own,)])
    share = 0.3
    variance = 0.0
    for bucket in dealt(partition):
        c = sum(value == 0 for value, _ in bucket)
        for a in range(size + 1):
            weight = math.comb(size, a) * share**a * (1 - share) ** (size - a)
            variance += weight * a * c * (size - a) * (size - c) / (size**2 * (size - 1))
    assert relative_errors([partition], share)[0] == pytest.approx(math.sqrt(variance) / (share * own))


def test_before_fakes_are_drawn_they_are_taken_in_proportion() -> None:
    counts = count_values({f"v{k}": 900 + 40 * k for k in range(12)}, None)
    plan = plan_counts(counts, LimitPolicy.of(uniform="1/5"), options=PlanOptions(fake_values=2))
    partition = plan.solution.partition
    assert partition is not None
    drawn = draw_fakes(plan.problem, partition, random.Random(3))  # noqa: S311 (a test)
    assert relative_errors([drawn], 0.1) == pytest.approx(relative_errors([partition], 0.1, 2), rel=0.02)
    assert (relative_errors([partition], 0.1, 2) > relative_errors([partition], 0.1)).all()


@pytest.mark.parametrize("fakes", [0, 2])
def test_counts_from_a_release_are_as_far_off(fakes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows, conditions = 6000, 50
    weights = 1 / np.arange(1, 9)
    values = rng.choice(8, rows, p=weights / weights.sum())
    columns = {f"c{k}": rng.random(rows) < 0.1 for k in range(conditions)}
    table = pa.table({**columns, "s": values})
    limits = LimitPolicy.of(theta=3, base="0.05")
    release = dalenius.publish(
        table,
        limits,
        sensitive="s",
        quasi_identifiers=list(columns),
        out=tmp_path / "release",
        strata="none",
        fake_values=fakes,
        publish_in_the_clear=True,
        seed=5,
    )
    counts = count_values(table, "s")
    plan = plan_counts(counts, limits, options=PlanOptions(fake_values=fakes))
    assert plan.solution.partition is not None
    expected = relative_errors([plan.solution.partition], 0.1, fakes)
    errors = np.zeros((conditions, 8))
    with Counter(open_release(release.path)) as counter:
        for k, column in enumerate(columns.values()):
            truth = np.bincount(values[column], minlength=8)
            for group in counter.count_by(f"c{k}", ["s"]):
                value = int(group.group["s"])
                errors[k, value] = (group.estimate.estimate - truth[value]) / (0.1 * counts.counts[value])
    measured = np.sqrt((errors**2).mean(axis=0))
    assert measured == pytest.approx(expected, rel=0.3)
    assert measured.mean() == pytest.approx(expected.mean(), rel=0.1)
