"""A count that a release gives: what is certain, what is estimated, and how far the estimate may be off.

Let X be the true count. The release fixes low <= X <= high. If within every bucket each assignment of the values to
the rows is equally likely (and with fake values each choice of which are fake), X has the mean and the variance that
are held here. Counts are whole, so the interval is

    floor(mean - 1.96 se) .. ceil(mean + 1.96 se),   cut to low .. high.

X is a sum over independent buckets, hence close to normal where the variance is not tiny; where it is, rounding
outwards to whole counts takes the place of the continuity correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

NORMAL_95 = 1.959963984540054  # the 0.975 quantile of the normal distribution
ROUNDING = 1e-6  # by which a whole number may be missed in floating point, where a count is all but certain
ASSUMPTION = (
    "The bounds always hold. Estimate, standard error and interval assume that within a bucket every row is equally "
    "likely to own every value; where quasi-identifiers and sensitive values go together, the truth may lie outside "
    "the interval."
)

LEARNING = (
    "The learned estimate rests on what the buckets together show of how quasi-identifiers and sensitive values go "
    "together; it assumes that the values' shares scatter normally around a common one, and is pulled towards it."
)


@dataclass(frozen=True)
class Coverage:
    """How often intervals like this one hold the truth: their share among so many queries of simulated truths."""

    share: float
    queries: int
    widened: float = 1.0  # by what factor the interval was widened to get there


@dataclass(frozen=True)
class LearnedEstimate:
    """A count estimated from all buckets together (dalenius.infer.association says how, and what is assumed)."""

    estimate: float
    standard_error: float
    interval: tuple[int, int]

    @classmethod
    def of(cls, mean: float, deviation: float, low: float, high: float, bounds: tuple[int, int]) -> LearnedEstimate:
        """Cut to certain bounds; the interval in whole counts, rounded outwards."""
        least, most = bounds
        interval = (
            min(max(math.floor(low + ROUNDING), least), most),
            max(min(math.ceil(high - ROUNDING), most), least),
        )
        return cls(float(min(max(mean, least), most)), deviation if least < most else 0.0, interval)


@dataclass(frozen=True)
class Estimate:
    """An estimated count. `bounds` always hold; the rest holds if rows and values are matched at random in buckets."""

    estimate: float
    bounds: tuple[int, int]
    standard_error: float
    interval: tuple[int, int]
    tight: bool = True  # False: there may be closer bounds that hold too
    learned: LearnedEstimate | None = None  # if it was asked for
    not_learned: str | None = None  # why there is none, though it was asked for

    @property
    def exact(self) -> bool:
        """Whether the release leaves one count alone."""
        return self.bounds[0] == self.bounds[1]

    @classmethod
    def of(cls, mean: float, variance: float, low: int, high: int, *, tight: bool = True) -> Estimate:
        """The estimate with this mean and variance, its interval cut to the bounds.

        Without variance the count is certain, and the mean is whole: what it lacks is rounding, and goes.
        """
        error = math.sqrt(variance) if low < high else 0.0
        centre = min(max(mean if error else round(mean), low), high)
        reach = NORMAL_95 * error
        interval = (max(low, math.floor(centre - reach)), min(high, math.ceil(centre + reach)))
        return cls(estimate=float(centre), bounds=(low, high), standard_error=error, interval=interval, tight=tight)


@dataclass(frozen=True)
class GroupEstimate:
    """The estimate for one group: `group` holds the values of the columns that were grouped by."""

    group: dict[str, Any]
    estimate: Estimate
