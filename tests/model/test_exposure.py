"""Exposure against what the buckets of a release show when they are read one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.model.concern import Advice, Concern, Severity, advise, by_weight
from dalenius.model.exposure import BANDS, Exposure, exposure_sentence
from dalenius.model.problem import BucketSetting, Partition
from dalenius.solve.foresight import foresee_exposure
from dalenius.verify.bucket_limits import ExposureOfBuckets
from tests.effort import examples

VALUES = ["a", "b", "c", "d"]


def people_by_hand(buckets: list[Counter[str]]) -> dict[tuple[str, Fraction], int]:
    """People by their value and the probability that their bucket gives to it."""
    found: dict[tuple[str, Fraction], int] = defaultdict(int)
    for bucket in buckets:
        for value, count in bucket.items():
            found[value, Fraction(count, bucket.total())] += count
    return found


def assert_exposure(exposure: Exposure | None, buckets: list[Counter[str]]) -> None:
    by_hand = people_by_hand(buckets)
    assert exposure is not None
    everybody = sum(by_hand.values())
    levels: dict[Fraction, int] = defaultdict(int)
    for (_, share), people in by_hand.items():
        levels[share] += people
    assert dict(exposure.levels) == levels
    assert exposure.people == everybody
    assert exposure.outright == levels.get(Fraction(1), 0)
    assert exposure.highest == max(levels)
    assert exposure.mean == pytest.approx(float(sum(share * people for share, people in levels.items()) / everybody))
    in_order = sorted(share for share, people in levels.items() for _ in range(people))
    assert exposure.quantile(0.5) == in_order[(everybody - 1) // 2]
    for value in exposure.values:
        own = {share: people for (name, share), people in by_hand.items() if name == value.value}
        assert value.people == sum(own.values())
        assert value.outright == own.get(Fraction(1), 0)
        assert value.highest == max(own, default=0)
        bands = [0] * (BANDS + 1)
        for share, people in own.items():
            bands[int(share * BANDS)] += people
        assert list(value.bands) == bands


def tallied(buckets: list[Counter[str]], fakes: int = 0) -> Exposure:
    """As `verify` adds it up, bucket by bucket."""
    tally = ExposureOfBuckets(fakes)
    for bucket in buckets:
        codes = np.array([VALUES.index(value) for value in bucket], np.int32)
        tally.add(bucket.total(), codes, np.array(list(bucket.values())), len(VALUES))
    return tally.conclude(VALUES)


@given(st.lists(st.lists(st.sampled_from(VALUES), min_size=1, max_size=7), min_size=1, max_size=8))
def test_of_buckets(buckets: list[list[str]]) -> None:
    counted = [Counter(bucket) for bucket in buckets]
    assert_exposure(tallied(counted), counted)


@settings(max_examples=examples(40))
@given(
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    odds=st.fractions(min_value=1, max_value=12),
    cut=st.booleans(),
)
def test_a_release_is_as_exposed_as_was_foreseen(counts: list[int], odds: Fraction, cut: bool) -> None:
    values = [name for name, count in zip("vwxyz", counts, strict=False) for _ in range(count)]
    table = pa.table({"q": [k % 2 for k in range(len(values))], "s": values})
    asked: dict[str, Any] = {"strata": ["q"] if cut else "none", "sensitive": "s", "quasi_identifiers": ["q"]}
    release = dalenius.publish(table, {"odds": odds}, **asked)
    buckets: dict[int, Counter[str]] = defaultdict(Counter)
    for bucket, value in zip(release.st["bucket"].to_pylist(), release.st["s"].to_pylist(), strict=True):
        buckets[bucket][value] += 1
    assert_exposure(release.exposure, list(buckets.values()))
    if not cut:
        plan = dalenius.plan(table, {"odds": odds}, sensitive="s")
        assert plan.exposure is not None
        assert release.exposure is not None
        assert plan.exposure.levels == release.exposure.levels
        assert plan.exposure.bands == release.exposure.bands


def test_fake_values_hide_people() -> None:
    """Three people and one fake in a bucket: a, a, b, c. Nobody knows which is fake: 3/4 of each value is real."""
    bucket = Counter({"a": 2, "b": 1, "c": 1})
    exposure = tallied([bucket], fakes=1)
    assert exposure.levels == ((Fraction(1, 4), 1.5), (Fraction(1, 2), 1.5))
    assert exposure.people == 3
    partition = Partition(BucketSetting.of([(3, 1)]), ((2,), (1,), (0,), (0,)), ((0,), (0,), (1,), (0,)))
    assert foresee_exposure(VALUES, [partition]) == exposure


def test_the_sentence_names_whom_it_hits_most() -> None:
    alone = [Counter({value: 2}) for k, value in enumerate(VALUES) for _ in range(k + 1)]
    together = [Counter({"a": 1, "b": 1})] * 5
    assert exposure_sentence(tallied(alone + together)) == (
        "20 of 30 people have their value published outright ('d' 8, 'c' 6, 'b' 4 and 1 more values)"
    )
    assert exposure_sentence(tallied([*together, Counter("abcd")])) == (
        "nobody's value is published outright; people's own value has a probability of 43% on the average, and 50% "
        "at most"
    )


@given(st.lists(st.tuples(st.sampled_from(Severity), st.integers(0, 99) | st.none())))
def test_the_worst_concern_decides(given_: list[tuple[Severity, int | None]]) -> None:
    concerns = [Concern("x", severity, "m", people=people) for severity, people in given_]
    ordered = by_weight(concerns)
    assert sorted(map(repr, ordered)) == sorted(map(repr, concerns))
    weights = [list(Severity).index(concern.severity) for concern in ordered]
    assert weights == sorted(weights, reverse=True)
    wanted = {None: Advice.PUBLISH, Severity.NOTE: Advice.PUBLISH}
    wanted |= {Severity.LOOK: Advice.LOOK_FIRST, Severity.STOP: Advice.DO_NOT_PUBLISH}
    assert advise(concerns) is wanted[ordered[0].severity if ordered else None]
