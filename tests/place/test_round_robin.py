from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dalenius.place.round_robin import bucket_contents


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 12))
def test_contents_equal_placing_record_after_record(quotas: list[int], buckets: int) -> None:
    """The oracle walks through the records one by one, as RRA is stated."""
    expected = np.zeros((len(quotas), buckets), dtype=int)
    position = 0
    for value, quota in enumerate(quotas):
        for _ in range(quota):
            expected[value, position % buckets] += 1
            position += 1
    assert bucket_contents(np.asarray(quotas), buckets).tolist() == expected.tolist()


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(2, 12))
def test_a_part_of_the_buckets_is_a_part_of_the_contents(quotas: list[int], buckets: int) -> None:
    whole = bucket_contents(np.asarray(quotas), buckets)
    part = bucket_contents(np.asarray(quotas), buckets, first=1, last=buckets - 1)
    assert part.tolist() == whole[:, 1 : buckets - 1].tolist()
