"""Noisy ratios by simulation: quantiles of Y/X, and the chance that it is above a limit.

The same draws of (ξ₁, ξ₂) serve every group and every value: X = x + ξ₁, Y = y + ξ₂. Each pair (X, Y) by itself then
has exactly the law that the mechanism gives it, and every number that is reported is a mean over people of something
that depends on one such pair alone; that groups share their noise does not change the mean. It does make the draws of
different groups dependent, so standard errors are taken over the draws, not over people times draws (`tally`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dalenius.model.dp_risk import Ratio, TheoremPoint
from dalenius.ratio import theorem
from dalenius.ratio.noise import Floats, Noise

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
        theorem.mean(size, count, noise.epsilon),
        theorem.variance(size, count, noise.epsilon),
        float(median),
        (float(low), float(high)),
    )


def typical(noises: Sequence[Noise], sizes: Sequence[int] = TYPICAL_SIZES) -> tuple[TheoremPoint, ...]:
    """The theorem beside the simulation for groups of which half carry the value."""
    return tuple(
        TheoremPoint(size, size // 2, theorem.factor(size, noise.epsilon), ratio(size, size // 2, noise))
        for noise in noises
        for size in sizes
    )
