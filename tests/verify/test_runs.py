"""Whole buckets out of batches, against counting row by row."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.verify.bucket_limits import Caps, LimitsOfBuckets
from dalenius.verify.buckets import BucketStream, NotAscendingError, WholeBuckets
from dalenius.verify.findings import Report


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Ascending buckets, values in any order within them, and where the batches are cut."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    buckets = [number * 3 for number, size in enumerate(sizes) for _ in range(size)]
    codes = draw(st.lists(st.integers(0, 3), min_size=len(buckets), max_size=len(buckets)))
    cuts = sorted(draw(st.lists(st.integers(0, len(buckets)), max_size=6)))
    return buckets, codes, cuts


def streamed(buckets: list[int], codes: list[int], cuts: list[int]) -> list[WholeBuckets]:
    stream = BucketStream()
    found: list[WholeBuckets] = []
    for start, stop in zip([0, *cuts], [*cuts, len(buckets)], strict=True):
        part = slice(start, stop)
        found += stream.add(np.array(buckets[part], np.int64), np.array(codes[part], np.int32))
    return [*found, stream.finish()]


@given(streams())
def test_every_value_of_every_bucket_is_counted_once(stream: tuple[list[int], list[int], list[int]]) -> None:
    buckets, codes, cuts = stream
    numbers: list[int] = []
    sizes: list[int] = []
    runs: list[tuple[int, int, int]] = []
    for whole in streamed(buckets, codes, cuts):
        numbers += whole.numbers.tolist()
        sizes += whole.sizes.tolist()
        by_run = whole.of_runs(whole.numbers).tolist() if len(whole.numbers) else []
        runs += list(zip(by_run, whole.codes.tolist(), whole.counts.tolist(), strict=True))
    wanted = Counter(zip(buckets, codes, strict=True))
    assert dict(zip(numbers, sizes, strict=True)) == dict(Counter(buckets))
    assert numbers == sorted(numbers)
    assert len(runs) == len(wanted)
    assert {(bucket, code): count for bucket, code, count in runs} == dict(wanted)


@given(streams(), st.lists(st.fractions(0, 1).filter(bool), min_size=4, max_size=4))
def test_limits_and_worst_cases_are_those_of_counting(
    stream: tuple[list[int], list[int], list[int]], limits: list[Fraction]
) -> None:
    buckets, codes, cuts = stream
    shares = LimitsOfBuckets(limits)
    for whole in streamed(buckets, codes, cuts):
        shares.add(whole, 4)
    report = Report()
    shares.conclude(["a", "b", "c", "d"], report)
    sizes = Counter(buckets)
    held = {pair: Fraction(count, sizes[pair[0]]) for pair, count in Counter(zip(buckets, codes, strict=True)).items()}
    over = {bucket for (bucket, code), share in held.items() if share > limits[code]}
    assert sum(found.count for found in report.findings) == len(over)
    worst = [max((share for (_, of), share in held.items() if of == code), default=Fraction(0)) for code in range(4)]
    assert [Fraction(count, size) for count, size in shares.worst(4)] == worst


def test_what_is_carried_does_not_grow_with_the_rows() -> None:
    stream = BucketStream()
    for _ in range(50):
        assert [len(whole.numbers) for whole in stream.add(np.full(1000, 7), np.arange(1000, dtype=np.int32) % 3)] == [
            0
        ]
    (last,) = [stream.finish()]
    assert last.sizes.tolist() == [50_000]
    assert last.counts.tolist() == [16_700, 16_650, 16_650]
    stream = BucketStream()
    given = [sum(len(whole.numbers) for whole in stream.add(np.full(10, number))) for number in range(5)]
    assert given == [0, 1, 1, 1, 1]


def test_a_bucket_that_comes_back_is_refused() -> None:
    stream = BucketStream()
    list(stream.add(np.array([1, 1, 2])))
    with pytest.raises(NotAscendingError):
        list(stream.add(np.array([1, 3])))


def test_caps_are_exact_beyond_64_bits() -> None:
    size = 2**52
    caps = Caps([Fraction(10**90, 3 * 10**90 + 1), Fraction(1, 3), Fraction(1), None])
    none = 2**63 - 1
    assert caps.of(size, 5).tolist() == [(10**90 * size) // (3 * 10**90 + 1), size // 3, size, none, none]
    assert caps.of(0, 4).tolist() == [0, 0, 0, none]


def test_worst_cases_of_buckets_whose_products_exceed_64_bits() -> None:
    large = 2**40

    def bucket(number: int, size: int, count: int) -> WholeBuckets:
        counts = np.array([count, size - count])
        return WholeBuckets(np.array([number]), np.array([size]), np.array([0]), np.arange(2, dtype=np.int32), counts)

    shares = LimitsOfBuckets([Fraction(1, 2) + Fraction(1, large), Fraction(1)])
    shares.add(bucket(1, large, large // 2 + 1), 2)
    shares.add(bucket(2, large + 2, large // 2 + 2), 2)
    wanted = max(Fraction(large // 2 + 1, large), Fraction(large // 2 + 2, large + 2))
    assert Fraction(*shares.worst(2)[0]) == wanted
    report = Report()
    shares.conclude(["a", "b"], report)
    assert report.findings == []
    shares.add(bucket(3, large + 4, large // 2 + 4), 2)
    shares.conclude(["a", "b"], report)
    assert [found.count for found in report.findings] == [1]


def test_worst_cases_are_of_the_records_that_are_not_known() -> None:
    """Two rows of ST among 7 of 5 records are 2 of 3 if 2 are known; 4 among 11 of 9 records are 4 of 7."""

    def bucket(number: int, counts: list[int]) -> WholeBuckets:
        held = np.array(counts)
        codes = np.arange(len(counts), dtype=np.int32)
        return WholeBuckets(np.array([number]), np.array([sum(counts)]), np.array([0]), codes, held)

    shares = LimitsOfBuckets([Fraction(2, 3), None], known=2, fakes=2)
    shares.add(bucket(1, [2, 5]), 2)
    shares.add(bucket(2, [4, 7]), 2)
    assert shares.worst(3) == [(2, 5), (5, 5), (0, 3)]
    report = Report()
    shares.conclude(["a", "b"], report)
    assert report.findings == []
    shares.add(bucket(3, [1, 3]), 2)  # two records, and both are known
    shares.conclude(["a", "b"], report)
    assert [found.count for found in report.findings] == [1]
    assert "'a' 1 of 2 less 2 known in bucket 3" in report.findings[0].message
    assert shares.worst(2)[0] == (1, 2)
