"""The exact law of Y/X, as an oracle: X = x + ξ₁ and Y = y + ξ₂ with independent Laplace noise of scale b.

With f the density of X and F the distribution function of Y,

    P(Y/X <= t) = ∫_{u>0} f(u) F(tu) du + ∫_{u<0} f(u) (1 - F(tu)) du,
    P(X > 0, Y/X > t) = ∫_{u>0} f(u) (1 - F(tu)) du.

f is an exponential on either side of x, and F on either side of y, so between the points 0, x and y/t every integrand
is a sum of exponentials c exp(αu + β), which are integrated in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise


def ratio_at_most(t: float, x: float, y: float, b: float) -> float:
    """P(Y/X <= t)."""
    positive = sum(_piece(t, x, y, b, low, high, below=True) for low, high in _pieces(t, x, y) if low >= 0)
    negative = sum(_piece(t, x, y, b, low, high, below=False) for low, high in _pieces(t, x, y) if high <= 0)
    return positive + negative


def claimed_above(t: float, x: float, y: float, b: float) -> float:
    """P(X > 0 and Y/X > t)."""
    return sum(_piece(t, x, y, b, low, high, below=False) for low, high in _pieces(t, x, y) if low >= 0)


def quantile(share: float, x: float, y: float, b: float) -> float:
    """The t with P(Y/X <= t) = share, by bisection."""
    low, high = -1e9, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio_at_most(middle, x, y, b) > share else (middle, high)
    return (low + high) / 2


def _pieces(t: float, x: float, y: float) -> Iterator[tuple[float, float]]:
    points = {0.0, float(x)} | ({y / t} if t else set())
    edges = [-math.inf, *sorted(points), math.inf]
    yield from pairwise(edges)


def _piece(t: float, x: float, y: float, b: float, low: float, high: float, *, below: bool) -> float:
    """∫ f(u) F(tu) du, or with 1 - F(tu), between two neighbouring points."""
    middle = _between(low, high)
    rise = 1 / b if middle < x else -1 / b  # f(u) = exp(rise (u - x)) / 2b
    if (t * middle < y) == below:  # F = exp((tu - y)/b)/2, or 1 - F = exp(-(tu - y)/b)/2
        sign = 1 if below else -1
        return _integral(rise + sign * t / b, -rise * x - sign * y / b, low, high) / (4 * b)
    sign = -1 if below else 1  # F = 1 - exp(-(tu - y)/b)/2, or 1 - F = 1 - exp((tu - y)/b)/2
    whole = _integral(rise, -rise * x, low, high) / (2 * b)
    return whole - _integral(rise + sign * t / b, -rise * x - sign * y / b, low, high) / (4 * b)


def _between(low: float, high: float) -> float:
    if math.isinf(low):
        return high - 1
    return low + 1 if math.isinf(high) else (low + high) / 2


def _integral(slope: float, shift: float, low: float, high: float) -> float:
    """∫ exp(slope u + shift) du."""
    if abs(slope) * (high - low) < 1e-9:
        return (high - low) * math.exp(slope * low + shift)
    at = [0.0 if math.isinf(u) else math.exp(slope * u + shift) for u in (low, high)]
    return (at[1] - at[0]) / slope
