"""Which bucket sizes to look at."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

from dalenius.solve.caps import smallest_size

USUAL_MAX_SIZE = 50  # the paper's M'
LARGEST_SIZE = 1_000_000  # sizes beyond this are not searched one by one


def least_min_size(limits: tuple[Fraction, ...], known_records: int = 0) -> int:
    """M = min_i ceil(1 / f'_i) + Q: no smaller bucket may hold any record."""
    return min(smallest_size(limit, known_records) for limit in limits)


def automatic_max_size(limits: tuple[Fraction, ...], total: int, known_records: int = 0) -> int:
    """Where the search for a largest size starts: every value fits in some bucket, and the usual sizes are in.

    At most n (if the limits are eligible, Lemma 1, then ceil(1 / f'_i) + Q <= n for every value that occurs), and at
    most `LARGEST_SIZE`.
    """
    needed = max(smallest_size(limit, known_records) for limit in limits)
    return min(total, LARGEST_SIZE, max(USUAL_MAX_SIZE, needed))


def larger(max_size: int, total: int) -> int | None:
    """The next largest size to try, or None if there is no more."""
    most = min(total, LARGEST_SIZE)
    return min(most, 2 * max_size) if max_size < most else None


def smallest_working(
    works: Callable[[int], bool | None], failed: int, total: int, deadline: float
) -> tuple[int | None, bool]:
    """The smallest largest-size above `failed` for which `works`, by doubling and bisection; and whether it is that.

    More sizes never make a valid setting invalid, so `works` is monotone. It answers None where it does not know.
    Past the deadline the best so far is returned.
    """
    low, high, certain = failed, larger(failed, total), True
    while high is not None and not (answer := works(high)):
        certain = certain and answer is False
        if time.monotonic() > deadline:
            return None, False
        low, high = high, larger(high, total)
    if high is None:
        return None, certain
    while high - low > 1:
        if time.monotonic() > deadline:
            return high, False
        middle = (low + high) // 2
        answer = works(middle)
        certain = certain and answer is not None
        low, high = (low, middle) if answer else (middle, high)
    return high, certain
