"""The Differential Inference Theorem (Theorem 2 of the paper), and what it does not say.

An observer asks how many people meet a condition (x), and how many of them carry a value (y), and gets

    X = x + ξ₁,    Y = y + ξ₂,    ξ₁, ξ₂ independent, of the density exp(-|t|/b) / 2b,    b = 1/ε.

Each noise has mean 0 and variance 2b². Expand Y/X around (x, y) to the second order:

    Y/X ≈ y/x + (Y - y)/x - y (X - x)/x² - (X - x)(Y - y)/x² + y (X - x)²/x³.

Take the mean, with E[(X - x)(Y - y)] = 0 and E[(X - x)²] = 2b²; and the variance of the terms of first order:

    mean      (y/x) (1 + 2b²/x²)
    variance  (2b²/x²) (1 + (y/x)²)

**These are approximations, and there is no true mean behind them.** The exact mean of Y/X does not
exist: X has the density g(t) = exp(-|t - x|/b) / 2b, which on [-a, a] is at least some c > 0, and Y is independent of X
with E|Y| > 0, so

    E|Y/X| = E|Y| · ∫ g(t) / |t| dt  >=  E|Y| · c · ∫_{-a}^{a} dt / |t|  =  ∞.

With neither a mean nor a variance, averages of simulated ratios settle on nothing, however many. What does exist is the
distribution: its median and its quantiles. Where x is many times b, X is hardly ever near 0, and the two numbers
describe the bulk of the distribution well; where x is not many times b they do not, and only the quantiles count.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", float, npt.NDArray[np.float64])


def scale(epsilon: float) -> float:
    """b = 1/ε: a person changes a count by at most 1."""
    return 1.0 / epsilon


def factor(size: Number, epsilon: float) -> Number:
    """The theorem's mean of Y/X, as a multiple of y/x: 1 + 2b²/x²."""
    return 1.0 + 2.0 * (scale(epsilon) / size) ** 2


def mean(size: Number, count: Number, epsilon: float) -> Number:
    """(y/x) (1 + 2b²/x²)."""
    return count / size * factor(size, epsilon)


def variance(size: Number, count: Number, epsilon: float) -> Number:
    """(2b²/x²) (1 + (y/x)²)."""
    return 2.0 * (scale(epsilon) / size) ** 2 * (1.0 + (count / size) ** 2)
