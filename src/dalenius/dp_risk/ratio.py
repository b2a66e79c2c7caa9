"""Noisy ratios: the Differential Inference Theorem (Theorem 2 of the paper), what it does not say, and a simulation.

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

With neither a mean nor a variance, averages of simulated ratios do not converge, however many there are. What does
exist is the distribution: its median and its quantiles. Where x is many times b, X is hardly ever near 0, and the two
numbers describe the bulk of the distribution well. Elsewhere they do not, and only the quantiles count.

**Simulation.** The same draws of (ξ₁, ξ₂) serve every group and every value. Each pair (X, Y) then has exactly the law
that the mechanism gives it, and every reported number is a mean over people of something that depends on one such pair
alone, so sharing the noise does not change that mean. It does make the draws of different groups dependent. So standard
errors are taken over the draws, not over people times draws (`tally`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dalenius.dp_risk.noise import Floats, Noise, scale
from dalenius.dp_risk.results import Ratio, TheoremPoint

INTERVAL = (0.025, 0.975)
TYPICAL_SIZES = (10, 100, 1_000, 10_000)

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
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


def noisy_ratios(sizes: Integers, counts: Integers, noise: Noise) -> tuple[Floats, Mask]:
    """Y/X, with a row for each (x, y) and a column for each draw; and where X is above 0."""
    below = sizes[:, None] + noise.of_size
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (counts[:, None] + noise.of_count) / below
    return ratios, below > 0


def pinned(ratios: Floats, claims: Mask, thresholds: Floats) -> Mask:
    """Where the observer's estimate is above the limit: Y/X cut to [0, 1], and only where X is above 0."""
    return np.asarray(claims & (ratios > thresholds[:, None]))


def thresholds(limits: Sequence[float]) -> Floats:
    """The limits as thresholds for a ratio that is not cut: a ratio cut to 1 is never above a limit of 1."""
    numbers = np.asarray(limits, dtype=np.float64)
    return np.where(numbers >= 1.0, np.inf, numbers)


def noise_alone(thresholds: Floats) -> Floats:
    """The chance of Y/X above a limit f where x = y = 0, for any epsilon: such pins say nothing about anybody.

    P(ξ₁ > 0, ξ₂ > f ξ₁) = 1/2 · E[exp(-f |ξ₁| / b) / 2] = 1 / (4 (1 + f)).
    """
    return np.asarray(0.25 / (1.0 + thresholds))


def quantiles(sizes: Integers, counts: Integers, noise: Noise) -> Floats:
    """The lower end of the central interval, the median and the upper end, with a column for each (x, y)."""
    ratios, _ = noisy_ratios(sizes, counts, noise)
    return np.asarray(np.quantile(ratios, [INTERVAL[0], 0.5, INTERVAL[1]], axis=1, overwrite_input=True))


def ratio(size: int, count: int, noise: Noise) -> Ratio:
    """Theorem 2's mean and variance of Y/X, and the simulated median and central interval."""
    low, median, high = quantiles(np.array([size]), np.array([count]), noise)[:, 0]
    return Ratio(
        epsilon=noise.epsilon,
        mean=mean(size, count, noise.epsilon),
        variance=variance(size, count, noise.epsilon),
        median=float(median),
        interval=(float(low), float(high)),
    )


def typical(noises: Sequence[Noise], sizes: Sequence[int] = TYPICAL_SIZES) -> tuple[TheoremPoint, ...]:
    """The theorem beside the simulation, for groups in which half of the people carry the value."""
    return tuple(
        TheoremPoint(
            size=size, count=size // 2, factor=factor(size, noise.epsilon), ratio=ratio(size, size // 2, noise)
        )
        for noise in noises
        for size in sizes
    )
