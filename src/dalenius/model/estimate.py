"""A count that a release gives: what is certain, what is estimated, and how far the estimate may be off.

Let X be the true count. The release fixes low <= X <= high. If within every bucket each assignment of the values to
the rows is equally likely (and with fake values each choice of which are fake), X has a mean and a variance. Counts are
whole, so the interval of single buckets is

    floor(mean - 1.96 se) .. ceil(mean + 1.96 se),   cut to low .. high.

X is a sum over independent buckets, hence close to normal where the variance is not tiny; where it is, rounding
outwards to whole counts takes the place of the continuity correction. Where rows and values go together, the interval
misses the truth far too often: so there are learned estimates, and every interval says how often it is right.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from dalenius.errors import UsageError

NORMAL_95 = 1.959963984540054  # the 0.975 quantile of the normal distribution
ROUNDING = 1e-6  # by which a whole number may be missed in floating point, where a count is all but certain
AT_RANDOM = (
    "The bounds always hold. Estimates at random assume that within a bucket every row is equally likely to own every "
    "value; where quasi-identifiers and sensitive values go together, the truth may lie outside the interval."
)
LEARNED = (
    "The bounds always hold. The estimate rests on what the buckets together show of how quasi-identifiers and "
    "sensitive values go together; it assumes that the values' shares scatter normally around a common one, and is "
    "pulled towards it."
)
MEASURED = (
    "How often an interval holds was measured on the release itself: on simulated truths, for queries of a similar "
    "size. Learned intervals that held too rarely were widened."
)
PEOPLE_AT_RANDOM = (
    "The bounds always hold. Estimates assume that within a bucket everybody is equally likely to own every value, "
    "that different sensitive columns have nothing to do with each other, and of several values of a column that who "
    "has one is no more likely to have another. Where this is not so, the truth may lie outside the interval."
)
NOT_MEASURED = "How often the interval holds was not measured."

FIGURES_AT_RANDOM = (
    "The bounds always hold. Estimates assume that within a bucket every row is equally likely to own every value. "
    "Where quasi-identifiers and sensitive values go together, intervals are too narrow: the truth may lie outside."
)
FIGURES_LEARNED = (
    "The bounds always hold. Estimates rest on what the buckets together show of how quasi-identifiers and bands of "
    "numbers go together; within a band, every number is taken to be equally likely. The intervals are the model's, "
    "and too narrow: in trials, 54 to 88 of 100 held."
)

Method = Literal["exact", "learned", "at random"]
Unit = Literal["people", "rows"]  # what is counted, where people may have several rows
Number = int | float | Decimal


@dataclass(frozen=True)
class Coverage:
    """How often intervals like this one hold the truth: their share among so many queries of simulated truths."""

    share: float
    queries: int
    widened: float = 1.0  # by what factor the interval was widened to get there


@dataclass(frozen=True)
class RandomMatching:
    """A count estimated from single buckets, with rows and values matched at random in each."""

    estimate: float
    standard_error: float
    interval: tuple[int, int]
    coverage: Coverage | None = None


@dataclass(frozen=True)
class Estimate:
    """An estimated count. `bounds` always hold.

    Estimate, standard error and interval are learned from all buckets together where that is possible and wanted
    (dalenius.infer.association says how, and what is assumed); those of single buckets are then in `at_random`. If
    nothing was learned, they are those of single buckets, and `at_random` is None.
    """

    estimate: float
    bounds: tuple[int, int]
    standard_error: float
    interval: tuple[int, int]
    tight: bool = True  # False: there may be closer bounds that hold too
    coverage: Coverage | None = None  # of the interval; None if it was not measured, and for exact counts
    at_random: RandomMatching | None = None
    not_learned: str | None = None  # why nothing was learned, though it was asked for
    unit: Unit | None = None  # what was counted; None where everybody has one row
    dropped: int = 0  # rows of the source that the release left out of what it publishes of people with many

    @property
    def exact(self) -> bool:
        """Whether the release leaves one count alone."""
        return self.bounds[0] == self.bounds[1]

    @property
    def method(self) -> Method:
        """Where the estimate comes from."""
        if self.exact:
            return "exact"
        return "learned" if self.at_random is not None else "at random"

    def as_row(self) -> dict[str, Any]:
        """The figures under plain names, for tables with a line for each estimate."""
        return {**_row(self), "coverage": self.coverage.share if self.coverage is not None else None}

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

    def with_learning(
        self,
        mean: float,
        deviation: float,
        low: float,
        high: float,
        coverages: tuple[Coverage | None, Coverage | None] = (None, None),
    ) -> Estimate:
        """The same count with what was learned in front, cut to the bounds; intervals in whole counts, outwards.

        The coverages are of the learned interval, and of the one that was there before.
        """
        if self.exact:
            return self
        least, most = self.bounds
        return replace(
            self,
            estimate=float(min(max(mean, least), most)),
            standard_error=deviation,
            interval=(
                min(max(math.floor(low + ROUNDING), least), most),
                max(min(math.ceil(high - ROUNDING), most), least),
            ),
            coverage=coverages[0],
            at_random=RandomMatching(self.estimate, self.standard_error, self.interval, coverages[1]),
        )


@dataclass(frozen=True)
class GroupEstimate:
    """The estimate for one group: `group` holds the values of the columns that were grouped by."""

    group: dict[str, Any]
    estimate: Estimate

    def as_row(self) -> dict[str, Any]:
        """The group and its figures, for tables with a line for each group."""
        return _beside(self.group, self.estimate.as_row())


@dataclass(frozen=True)
class Asked:
    """Which figures of the sensitive numbers somebody wants; quantiles by their level."""

    mean: bool = False
    sum: bool = False
    quantiles: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for level in self.quantiles:
            if not 0 <= level <= 1:
                raise UsageError(f"a quantile is between 0 and 1, got {level}", "The median is 0.5.")


@dataclass(frozen=True)
class RandomFigure:
    """A figure estimated from single buckets, with rows and values matched at random in each."""

    estimate: Number
    interval: tuple[Number, Number]
    standard_error: float | None


@dataclass(frozen=True)
class Figure:
    """A mean, a sum or a quantile of the sensitive numbers of the records that meet a condition.

    `bounds` always hold, if there are such records at all, and some assignment of the values to the rows attains each
    of them. Estimate and interval are learned from all buckets together where the numbers are in bands; those of single
    buckets are then in `at_random`. Quantiles have no standard error.
    """

    estimate: Number
    bounds: tuple[Number, Number]
    interval: tuple[Number, Number]
    standard_error: float | None
    exact: bool  # whether the release leaves one number alone
    records: tuple[int, int]  # certain bounds of how many records there are: with a number, and that meet the condition
    at_random: RandomFigure | None = None
    not_learned: str | None = None  # why nothing was learned, though it was asked for

    @property
    def method(self) -> Method:
        """Where the estimate comes from."""
        return "exact" if self.exact else "at random" if self.at_random is None else "learned"

    def as_row(self) -> dict[str, Any]:
        """The figures under plain names, for tables with a line for each of them."""
        return _row(self)


@dataclass(frozen=True)
class Figures:
    """What was asked for, of the records that meet one condition; quantiles by their level, in the order asked."""

    records: tuple[int, int]
    mean: Figure | None
    sum: Figure | None
    quantiles: dict[float, Figure]
    group: dict[str, Any]  # the values of the columns that were grouped by

    def as_rows(self) -> list[dict[str, Any]]:
        """The group, the name of each figure and the figure, for tables with a line for each of them."""
        named = {"mean": self.mean, "sum": self.sum, **{f"quantile {q:g}": one for q, one in self.quantiles.items()}}
        return [
            _beside(self.group, {"statistic": name, **one.as_row()}) for name, one in named.items() if one is not None
        ]


@dataclass(frozen=True)
class GroupFigure:
    """The figure of one group: `group` holds the values of the columns that were grouped by."""

    group: dict[str, Any]
    figure: Figure

    def as_row(self) -> dict[str, Any]:
        """The group and the figure, for tables with a line for each group."""
        return _beside(self.group, self.figure.as_row())


def _row(one: Estimate | Figure) -> dict[str, Any]:
    return {
        "estimate": one.estimate,
        "standard_error": one.standard_error,
        "interval_low": one.interval[0],
        "interval_high": one.interval[1],
        "bound_low": one.bounds[0],
        "bound_high": one.bounds[1],
        "method": one.method,
    }


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or where a column has it already the first of name_2, name_3, ... that none has."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _beside(group: dict[str, Any], figures: dict[str, Any]) -> dict[str, Any]:
    """Both together; a column of the table that is called like a figure keeps its name."""
    return {**group, **{free_name(name, group): figure for name, figure in figures.items()}}
