"""What is found out in parts comes together as if it had been found out at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.errors import TooManyValuesError
from dalenius.model.problem import BucketSetting, Partition
from dalenius.place.columns import ListTracker, RangeTracker
from dalenius.place.sensitive import SensitiveCounter
from dalenius.place.slots import values_by_bucket, values_of_buckets
from tests.place.test_slots import partitions

numbers = st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), max_size=30)
words = st.lists(st.one_of(st.none(), st.text("abü", max_size=3)), max_size=30)


@given(parts=st.lists(numbers, min_size=1, max_size=4))
def test_ranges(parts: list[list[int | None]]) -> None:
    whole = RangeTracker(pa.int64())
    merged = RangeTracker(pa.int64())
    for part in parts:
        array = pa.array(part, pa.int64())
        whole.add(array)
        one = RangeTracker(pa.int64())
        one.add(array)
        merged.merge(one)
    assert merged.domain() == whole.domain()
    assert merged.has_nulls == whole.has_nulls


def test_a_list_that_one_part_gave_up_is_given_up() -> None:
    long = RangeTracker(pa.int64())
    long.add(pa.array(np.arange(0, 2**18, 2)))
    few = RangeTracker(pa.int64())
    few.add(pa.array([1, 2**30]))
    for one, other in ((long, few), (few, long)):
        whole = RangeTracker(pa.int64())
        whole.merge(one)
        whole.merge(other)
        assert whole.domain().codes == 2**30 + 1


@given(parts=st.lists(words, min_size=1, max_size=4))
def test_lists(parts: list[list[str | None]]) -> None:
    whole, merged = ListTracker(pa.string(), 2**20), ListTracker(pa.string(), 2**20)
    for part in parts:
        array = pa.array(part, pa.string())
        whole.add(array)
        one = ListTracker(pa.string(), 2**20)
        one.add(array)
        merged.merge(one)
    rows = sum(map(len, parts))
    assert merged.domain() == whole.domain()
    assert merged.bytes(rows) == whole.bytes(rows)


def test_a_list_that_is_too_long_only_together() -> None:
    merged = ListTracker(pa.string(), 1000)
    for first in (0, 50, 100):
        one = ListTracker(pa.string(), 1000)
        one.add(pa.array([f"value {number}" for number in range(first, first + 50)]))
        assert one.domain() is not None
        merged.merge(one)
    assert merged.domain() is None
    late = ListTracker(pa.string(), 1000)
    late.add(pa.array(["x"]))
    late.merge(merged)
    assert late.domain() is None


@given(parts=st.lists(words, min_size=1, max_size=4))
def test_counts(parts: list[list[str | None]]) -> None:
    if not any(parts):
        return
    whole, merged = SensitiveCounter("s", pa.string()), SensitiveCounter("s", pa.string())
    ones = []
    for part in parts:
        array = pa.array(part, pa.string())
        whole.add(array)
        one = SensitiveCounter("s", pa.string())
        one.add(array)
        ones.append(one.totals())
        merged.add_totals(*ones[-1])
    found = merged.finish("ü?")
    assert found == whole.finish("ü?")
    by_part = np.stack([found.counts_in_order(*one) for one in ones])
    assert tuple(by_part.sum(axis=0)) == found.counts
    for part, line in zip(parts, by_part, strict=True):
        named = ["ü?" if word is None else word for word in part]
        assert [named.count(text) for text in found.texts] == line.tolist()


def test_too_many_values_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.place.sensitive.MOST_VALUES", 10)
    merged = SensitiveCounter("s", pa.int64())
    for first in (0, 8, 16):
        one = SensitiveCounter("s", pa.int64())
        one.add(pa.array(range(first, first + 8)))
        counted = one.totals()
        if first < 16:
            merged.add_totals(*counted)
        else:
            with pytest.raises(TooManyValuesError):
                merged.add_totals(*counted)


@given(parts=st.lists(partitions(), min_size=1, max_size=3), data=st.data(), rows=st.integers(1, 50))
def test_values_of_some_buckets(parts: list[Partition], data: st.DataObject, rows: int) -> None:
    buckets = sum(part.setting.buckets for part in parts)
    first = data.draw(st.integers(1, buckets))
    last = data.draw(st.integers(first, buckets + 1))

    def pairs(pieces: list[tuple[object, ...]]) -> list[tuple[int, int]]:
        return [(int(b), int(v)) for bs, vs in pieces for b, v in zip(bs, vs, strict=True)]  # type: ignore[call-overload]

    everything = pairs(list(values_by_bucket(parts, 10**6)))
    assert pairs(list(values_of_buckets(parts, first, last, rows))) == [p for p in everything if first <= p[0] < last]


def test_values_of_buckets_with_fakes() -> None:
    partition = Partition(BucketSetting.of([(2, 3)]), ((4,), (2,)), ((1,), (2,)))
    found = [pair for some in values_of_buckets([partition], 1, 4, 100) for pair in zip(*some, strict=True)]
    assert len(found) == 9
    assert [bucket for bucket, _ in found] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [value for _, value in found].count(0) == 5
