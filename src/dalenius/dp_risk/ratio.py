"""Noisy ratios by simulation: quantiles of Y/X, and the chance that it is above a limit.

The same draws of (ξ₁, ξ₂) serve every group and every value: X = x + ξ₁, Y = y + ξ₂. Each pair (X, Y) by itself then
has exactly the law that the mechanism gives it, and every number that is reported is a mean over people of something
that depends on one such pair alone; that groups share their noise does not change the mean. It does make the draws of
different groups dependent, so standard errors are taken over the draws, not over people times draws (`tally`).

The Differential Inference Theorem (Theorem 2 of the paper), and what it does not say.

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

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dalenius.dp_risk.noise import Floats, Noise, scale
from dalenius.dp_risk.results import Ratio, TheoremPoint

Number = TypeVar("Number", float, npt.NDArray[np.float64])


def factor(size: Number, epsilon: float) -> Number:
    """The theorem's mean of Y/X, as a multiple of y/x: 1 + 2b²/x²."""
    return 1.0 + 2.0 * (scale(epsilon) / size) ** 2


def mean(size: Number, count: Number, epsilon: float) -> Number:
    """(y/x) (1 + 2b²/x²)."""
    return count / size * factor(size, epsilon)


def variance(size: Number, count: Number, epsilon: float) -> Number:
    """(2b²/x²) (1 + (y/x)²)."""
    return 2.0 * (scale(epsilon) / size) ** 2 * (1.0 + (count / size) ** 2)


INTERVAL = (0.025, 0.975)
TYPICAL_SIZES = (10, 100, 1_000, 10_000)

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def noisy_ratios(sizes: Integers, counts: Integers, noise: Noise) -> tuple[Floats, Mask]:
    """Y/X, a row for each (x, y) and a column for each draw, and where X is above 0."""
    below = sizes[:, None] + noise.of_size
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (counts[:, None] + noise.of_count) / below
    return ratios, below > 0


def pinned(ratios: Floats, claims: Mask, thresholds: Floats) -> Mask:
    """Where the observer's estimate is above the limit: Y/X cut to [0, 1], and only where X is above 0."""
    return np.asarray(claims & (ratios > thresholds[:, None]))


def thresholds(limits: Sequence[float]) -> Floats:
    """The limits as numbers that an uncut ratio is compared with: nothing cut to 1 is above a limit of 1."""
    numbers = np.asarray(limits, dtype=np.float64)
    return np.where(numbers >= 1.0, np.inf, numbers)


def noise_alone(thresholds: Floats) -> Floats:
    """The chance of Y/X above a limit f where x = y = 0, whatever epsilon is: pins that say nothing about anybody.

    P(ξ₁ > 0, ξ₂ > f ξ₁) = 1/2 · E[exp(-f |ξ₁| / b) / 2] = 1 / (4 (1 + f)).
    """
    return np.asarray(0.25 / (1.0 + thresholds))


def quantiles(sizes: Integers, counts: Integers, noise: Noise) -> Floats:
    """The lower end of the central interval, the median and the upper end, a column for each (x, y)."""
    ratios, _ = noisy_ratios(sizes, counts, noise)
    return np.asarray(np.quantile(ratios, [INTERVAL[0], 0.5, INTERVAL[1]], axis=1, overwrite_input=True))


def ratio(size: int, count: int, noise: Noise) -> Ratio:
    """Theorem 2's mean and variance of Y/X, and the simulated median and central interval."""
    low, median, high = quantiles(np.array([size]), np.array([count]), noise)[:, 0]
    return Ratio(
        noise.epsilon,
        mean(size, count, noise.epsilon),
        variance(size, count, noise.epsilon),
        float(median),
        (float(low), float(high)),
    )


def typical(noises: Sequence[Noise], sizes: Sequence[int] = TYPICAL_SIZES) -> tuple[TheoremPoint, ...]:
    """The theorem beside the simulation for groups of which half carry the value."""
    return tuple(
        TheoremPoint(size, size // 2, factor(size, noise.epsilon), ratio(size, size // 2, noise))
        for noise in noises
        for size in sizes
    )
