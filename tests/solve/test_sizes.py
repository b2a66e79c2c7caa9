from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dalenius.solve.sizes import LARGEST_SIZE, automatic_max_size, larger_size, least_min_size, smallest_working_size


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000))
def test_the_smallest_that_works_is_found(threshold: int, failed: int, total: int) -> None:
    threshold = max(threshold, failed + 1)
    found, certain = smallest_working_size(lambda size: size >= threshold, failed, total, math.inf)
    assert certain
    assert found == (threshold if threshold <= total else None)


def test_past_the_deadline_what_works_is_returned_and_not_called_the_smallest() -> None:
    assert smallest_working_size(lambda size: size >= 700, 400, 10_000, -1.0) == (800, False)
    assert smallest_working_size(lambda size: size >= 7000, 400, 10_000, -1.0) == (None, False)


def test_the_automatic_range() -> None:
    limits = (Fraction(1, 3), Fraction(29, 100))
    assert least_min_size(limits) == 3
    assert automatic_max_size(limits, 10) == 10
    assert automatic_max_size(limits, 1000) == 50
    assert automatic_max_size((Fraction(1, 777),), 1000) == 777
    assert automatic_max_size((Fraction(1, 10**9),), 10**12) == LARGEST_SIZE


def test_growth_ends_at_the_table_or_at_the_largest_size() -> None:
    assert larger_size(50, 80) == 80
    assert larger_size(50, 1000) == 100
    assert larger_size(1000, 1000) is None
    assert larger_size(LARGEST_SIZE, 10**9) is None
