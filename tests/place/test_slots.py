from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting, Partition
from dalenius.place.slots import Placement, values_by_bucket

KEY = bytes(range(32))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Quotas that fill a setting; limits do not matter here."""
    groups = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), min_size=1, max_size=5))
    setting = BucketSetting.of(groups)
    values = draw(st.integers(1, 6))
    columns = []
    for group in setting.groups:
        cuts = sorted(draw(st.lists(st.integers(0, group.records), min_size=values - 1, max_size=values - 1)))
        columns.append(np.diff([0, *cuts, group.records]))
    quotas = np.asarray(columns).T
    kept = quotas[quotas.sum(axis=1) > 0]
    return Partition(setting, tuple(tuple(int(q) for q in row) for row in kept))


def naive_contents(partition: Partition) -> dict[int, list[int]]:
    """Round-robin as the paper tells it: deal the records of one value after the other."""
    contents: dict[int, list[int]] = {}
    first = 1
    for j, group in enumerate(partition.setting.groups):
        turn = 0
        for value, row in enumerate(partition.quotas):
            for _ in range(row[j]):
                contents.setdefault(first + turn % group.buckets, []).append(value)
                turn += 1
        first += group.buckets
    return contents


@given(partition=partitions(), rows=st.sampled_from([1, 3, 1000]), data=st.data())
def test_values_dealt_in_another_order_are_published_in_theirs(
    partition: Partition, rows: int, data: st.DataObject
) -> None:
    """`published` has the place of every value in the order of the type: buckets hold the same, sorted by it."""
    order = data.draw(st.permutations(range(len(partition.quotas))))
    pieces = list(values_by_bucket([partition], rows, np.asarray(order)))
    listed = list(zip(*(np.concatenate(side).tolist() for side in zip(*pieces, strict=True)), strict=True))
    assert listed == [
        (bucket, place)
        for bucket, values in sorted(naive_contents(partition).items())
        for place in sorted(order[value] for value in values)
    ]


@given(partition=partitions(), seed=st.integers(0, 2**32), batches=st.integers(1, 5))
def test_records_in_any_batches_fill_the_buckets_as_round_robin_does(
    partition: Partition, seed: int, batches: int
) -> None:
    rng = np.random.default_rng(seed)
    counts = [sum(row) for row in partition.quotas]
    values = rng.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.uint16)
    placement = Placement([partition], KEY)
    starts = np.zeros(len(counts), dtype=np.int64)
    contents: dict[int, list[int]] = {}
    for batch in np.array_split(values, batches):
        order, buckets = placement.buckets(batch, starts)
        assert sorted(order.tolist()) == list(range(len(batch)))
        for record, bucket in zip(order, buckets, strict=True):
            contents.setdefault(int(bucket), []).append(int(batch[record]))
        starts = starts + np.bincount(batch, minlength=len(counts))
    expected = naive_contents(partition)
    assert {bucket: sorted(held) for bucket, held in contents.items()} == expected


@given(partition=partitions(), seed=st.integers(0, 2**32))
def test_the_bucket_depends_on_value_and_rank_alone(partition: Partition, seed: int) -> None:
    """One batch or many, in one order or another: the r-th record of a value goes to the same bucket."""
    rng = np.random.default_rng(seed)
    counts = [sum(row) for row in partition.quotas]
    values = rng.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.uint16)
    placement = Placement([partition], KEY)

    def by_rank(batch: np.ndarray, starts: np.ndarray) -> dict[tuple[int, int], int]:
        order, buckets = placement.buckets(batch, starts)
        seen: Counter[int] = Counter()
        rank = {}
        for record, value in enumerate(batch.tolist()):
            rank[record] = (value, int(starts[value]) + seen[value])
            seen[value] += 1
        return {rank[int(record)]: int(bucket) for record, bucket in zip(order, buckets, strict=True)}

    whole = by_rank(values, np.zeros(len(counts), dtype=np.int64))
    half = len(values) // 2
    first = np.bincount(values[:half], minlength=len(counts)).astype(np.int64)
    pieces = by_rank(values[:half], np.zeros_like(first)) | by_rank(values[half:], first)
    assert pieces == whole


@given(partition=partitions(), rows=st.integers(1, 50))
def test_st_follows_from_the_quotas(partition: Partition, rows: int) -> None:
    contents: dict[int, list[int]] = {}
    last = (0, -1)
    for buckets, values in values_by_bucket([partition], rows):
        assert len(buckets) == len(values) > 0
        for pair in zip(buckets.tolist(), values.tolist(), strict=True):
            assert last <= pair
            last = pair
            contents.setdefault(pair[0], []).append(pair[1])
    assert contents == naive_contents(partition)


def test_a_record_is_equally_likely_in_every_slot_of_its_value() -> None:
    """Value 0 has 60 slots in 20 buckets of size 4 and 10 of size 8; where its first record goes, over many keys."""
    partition = Partition(BucketSetting.of([(4, 20), (8, 10)]), ((40, 20), (40, 60)))
    keys = 6000
    hits = np.zeros(31)
    for number in range(keys):
        placement = Placement([partition], number.to_bytes(32, "little"))
        _, buckets = placement.buckets(np.zeros(1, dtype=np.uint16), np.zeros(2, dtype=np.int64))
        hits[buckets[0]] += 1
    expected = keys * 2 / 60  # two slots of value 0 in each of the 30 buckets
    assert ((hits[1:] - expected) ** 2 / expected).sum() < 58.3  # 29 degrees of freedom, p = 0.001


@given(parts=st.lists(partitions(), min_size=1, max_size=3), rows=st.integers(1, 40))
def test_strata_are_dealt_one_after_the_other(parts: list[Partition], rows: int) -> None:
    """Each stratum by itself, its buckets behind those of the strata before; a value of it has a number of its own."""
    values = max(len(part.quotas) for part in parts)
    spread = [_with_lines(part, values) for part in parts]
    expected, first = [], 0
    for part in parts:
        for bucket, held in sorted(naive_contents(part).items()):
            expected += [(bucket + first, value) for value in sorted(held)]
        first += part.setting.buckets
    found = [pair for b, v in values_by_bucket(spread, rows) for pair in zip(b.tolist(), v.tolist(), strict=True)]
    assert found == expected
    counts = [sum(row) for part in spread for row in part.quotas]
    numbers = np.repeat(np.arange(len(counts)), counts)
    order, placed = Placement(spread, KEY).buckets(numbers, np.zeros(len(counts), dtype=np.int64))
    assert Counter(zip(placed.tolist(), (numbers[order] % values).tolist(), strict=True)) == Counter(expected)


def _with_lines(part: Partition, values: int) -> Partition:
    """Values that the stratum does not have."""
    nothing = (0,) * len(part.setting.groups)
    return Partition(part.setting, (*part.quotas, *[nothing] * (values - len(part.quotas))))
