"""The flow between values and kinds of buckets, against every marking there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.fakes.quotas import can_be_marked
from tests.effort import examples


def by_trying(slots: list[int], fakes: list[int], buckets: int, sigma: int) -> bool:
    """Every choice of sigma slots in every bucket."""
    values = np.repeat(np.arange(len(slots)), slots)
    held = [values[bucket::buckets].tolist() for bucket in range(buckets)]
    choices = [set(combinations(sorted(bucket), sigma)) for bucket in held]
    wanted = np.asarray(fakes)
    return any(
        (np.bincount([v for part in world for v in part], minlength=len(slots)) == wanted).all()
        for world in product(*choices)
    )


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    buckets, size, sigma = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    values = draw(st.integers(1, 5))
    total = buckets * (size + sigma)
    slots = np.bincount(draw(st.lists(st.integers(0, values - 1), min_size=total, max_size=total)), minlength=values)
    order = draw(st.permutations(np.repeat(np.arange(values), slots).tolist()))
    fakes = np.bincount(order[: buckets * sigma], minlength=values)
    return slots.tolist(), fakes.tolist(), buckets, sigma


@settings(max_examples=examples(300))
@given(groups())
def test_marks_exist_where_the_flow_says_so(group: tuple[list[int], list[int], int, int]) -> None:
    slots, fakes, buckets, sigma = group
    found = can_be_marked(np.asarray(slots), np.asarray(fakes), buckets, sigma)
    assert found == by_trying(slots, fakes, buckets, sigma)


def test_a_value_with_two_fakes_in_one_bucket_has_no_marks() -> None:
    assert not can_be_marked(np.asarray([4, 1, 1]), np.asarray([0, 1, 1]), 3, 1) or by_trying(
        [4, 1, 1], [0, 1, 1], 3, 1
    )
    assert not can_be_marked(np.asarray([1, 1, 2]), np.asarray([1, 1, 0]), 2, 1) or by_trying(
        [1, 1, 2], [1, 1, 0], 2, 1
    )
    assert can_be_marked(np.asarray([2, 2]), np.asarray([1, 1]), 2, 1)
