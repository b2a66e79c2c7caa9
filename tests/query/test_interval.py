"""The interval holds at least 95 % of the exact distribution, also where it is far from normal."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dalenius.model.estimate import Estimate


def hypergeometric(a: int, c: int, size: int) -> list[float]:
    return [
        math.comb(c, k) * math.comb(size - c, a - k) / math.comb(size, a) if 0 <= a - k <= size - c else 0.0
        for k in range(min(a, c) + 1)
    ]


@pytest.mark.parametrize(
    "parts",
    [
        *([(1, 1, size)] * buckets for size in (2, 3, 5, 20, 100) for buckets in (1, 2, 3, 5, 10, 40, 200)),
        *([(3, 2, 7)] * buckets for buckets in (1, 2, 3, 10, 50)),
        *([(4, 5, 9), (1, 1, 50), (2, 1, 30)] * buckets for buckets in (1, 3, 20)),
        [(20, 30, 60)],
        [(1, 1, 1000)] * 60,
    ],
)
def test_coverage(parts: list[tuple[int, int, int]]) -> None:
    chances = np.array([1.0])
    mean = variance = 0.0
    low = high = 0
    for a, c, size in parts:
        chances = np.convolve(chances, hypergeometric(a, c, size))
        mean += a * c / size
        variance += a * c * (size - a) * (size - c) / (size**2 * (size - 1))
        low, high = low + max(0, a + c - size), high + min(a, c)
    found = Estimate.of(mean, variance, low, high)
    assert chances[found.interval[0] : found.interval[1] + 1].sum() >= 0.95
    assert found.interval[0] <= found.estimate <= found.interval[1]
    assert found.interval[1] - found.interval[0] <= 2 * 1.96 * math.sqrt(variance) + 2


def test_what_is_certain_has_no_width() -> None:
    assert Estimate.of(7.000000000001, 0.0, 7, 7) == Estimate(7.0, (7, 7), 0.0, (7, 7))
    assert Estimate.of(0, 0, 0, 0).exact
