"""Theorem 2: the paper's numbers, and where they hold."""

from __future__ import annotations

import math

import pytest

from dalenius.dp_risk import ratio as theorem
from tests.dp_risk.exact import claimed_above, quantile, ratio_at_most


def test_the_numbers_in_the_paper() -> None:
    assert theorem.factor(100, 0.1) == pytest.approx(1.02)
    assert theorem.factor(1000, 0.1) == pytest.approx(1.0002)
    assert theorem.mean(100, 99, 0.1) == pytest.approx(1.02 * 0.99)
    assert theorem.variance(100, 99, 0.1) == pytest.approx(0.02 * (1 + 0.99**2))
    assert theorem.variance(1000, 990, 0.1) == pytest.approx(0.0002 * (1 + 0.99**2))


def test_only_the_ratio_of_scale_and_size_counts() -> None:
    assert theorem.mean(100, 30, 0.1) == pytest.approx(theorem.mean(1000, 300, 0.01))
    assert theorem.variance(100, 30, 0.1) == pytest.approx(theorem.variance(1000, 300, 0.01))


@pytest.mark.parametrize(("size", "count"), [(1000, 500), (1000, 990), (5000, 100)])
def test_where_the_group_is_large_the_theorem_describes_the_exact_law(size: int, count: int) -> None:
    epsilon = 0.1
    spread = math.sqrt(theorem.variance(size, count, epsilon))
    median = quantile(0.5, size, count, 1 / epsilon)
    assert median == pytest.approx(theorem.mean(size, count, epsilon), abs=0.01 * spread)
    within = sum(sign * ratio_at_most(count / size + sign * 3 * spread, size, count, 1 / epsilon) for sign in (1, -1))
    assert within > 0.97  # three standard deviations, of tails heavier than normal


@pytest.mark.parametrize(("size", "count"), [(1, 1), (5, 2), (10, 5)])
def test_where_the_group_is_small_it_does_not(size: int, count: int) -> None:
    epsilon = 0.1
    mean = theorem.mean(size, count, epsilon)
    assert ratio_at_most(mean, size, count, 1 / epsilon) > 0.7
    assert quantile(0.5, size, count, 1 / epsilon) < 0.6 * count / size < mean / 3


def test_the_oracle_against_integration_by_a_grid() -> None:
    step, b = 1e-3, 2.0
    for x, y, t in ((3, 2, 0.5), (3, 2, -0.7), (1, 1, 1.0), (4, 0, 0.0), (2, 5, 3.0)):
        at_most = above = 0.0
        for k in range(-40_000, 40_000):
            u = (k + 0.5) * step
            density = math.exp(-abs(u - x) / b) / (2 * b) * step
            z = t * u - y
            below = 0.5 * math.exp(z / b) if z < 0 else 1 - 0.5 * math.exp(-z / b)
            at_most += density * (below if u > 0 else 1 - below)
            above += density * (1 - below) * (u > 0)
        assert ratio_at_most(t, x, y, b) == pytest.approx(at_most, abs=1e-4)
        assert claimed_above(t, x, y, b) == pytest.approx(above, abs=1e-4)
