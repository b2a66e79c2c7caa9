"""Mixtures of normal distributions: what is known of a count whose mean and variance depend on what is uncertain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_HALVINGS = 48
_QUANTILES = (0.025, 0.975)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Posterior:
    """Of every query: the mean, the standard deviation, and the quantiles between which 95 % lie."""

    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats


def mixture(weights: Floats, means: Floats, variances: Floats) -> Posterior:
    """A line for every query, a column for every part of its mixture; the weights of a line add up to 1."""
    mean = (weights * means).sum(axis=1)
    deviation = np.sqrt((weights * (variances + (means - mean[:, None]) ** 2)).sum(axis=1))
    low, high = (_quantile(weights, means, np.sqrt(variances), share) for share in _QUANTILES)
    return Posterior(mean, deviation, low, high)


def _quantile(weights: Floats, means: Floats, deviations: Floats, share: float) -> Floats:
    """Where a mixture of normal distributions has this share below: by halving."""
    low, high = (means - 9 * deviations).min(axis=1), (means + 9 * deviations).max(axis=1)
    safe = np.where(deviations > 0, deviations, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        gap = middle[:, None] - means
        below = (weights * np.where(deviations > 0, _normal(gap / safe), gap >= 0)).sum(axis=1) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Floats = high
    return found


def _normal(z: Floats) -> Floats:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    polynomial = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * polynomial
    result: Floats = np.where(z > 0, 1 - tail, tail)
    return result
