"""How much a release shows of the people in it, and how far off counts from it typically are.

Somebody who knows a person's quasi-identifiers finds the person's bucket. If c of the bucket's T values are the same,
fake ones included, the release gives the person that value with probability c / T. A person's exposure is that
probability for the value that the person has. It is 1 where the value is published outright.

A bucket with S records and T - S values that are nobody's does not say which these are: fakes, or in a chain of
releases those of people who left. Then c S / T people are expected to have a value that is there c times. Without such values
T = S, and all numbers of people are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dalenius.model.concern import quoted

TENTH = 0.1  # the share of the records that a typical question is about
_ROUNDING = 1e-6
_NAMED = 3  # values, in a sentence
_DIGITS = 9  # of a mean: sums of floating point depend on their order beyond them
BANDS = 10  # of equal width, from 0 up to certainty, which has a band of its own


@dataclass(frozen=True)
class ValueExposure:
    """The exposure of the people who have one value. `bands[k]` of them are exposed to k tenths or more, and less than
    k + 1; the last band is those whose value is published outright."""

    value: str
    people: float
    mean: float
    highest: Fraction
    bands: tuple[float, ...]

    @property
    def outright(self) -> float:
        """People whose value is published outright."""
        return self.bands[BANDS]

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md), but for the value itself."""
        return {
            "people": self.people,
            "outright": self.outright,
            "mean": self.mean,
            "highest": float(self.highest),
            "bands": list(self.bands),
        }


@dataclass(frozen=True)
class Exposure:
    """The exposure of everybody: value by value, and as (probability, people) in ascending order of probability.

    Where people have `several` values, nobody can say which belong together: then a person's probability is that of the
    likeliest value of their bucket, whether it is theirs or not.
    """

    values: tuple[ValueExposure, ...]
    levels: tuple[tuple[Fraction, float], ...]
    several: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[str],
        bands: Sequence[Sequence[float]],
        sums: Sequence[float],
        highest: Sequence[tuple[int, int]],
        levels: Iterable[tuple[int, int, float]],
    ) -> Exposure:
        """From what was added up over buckets.

        By value: people by band, the sum of their probabilities, and the highest one as (count, size); then people by
        (count, size), in any order.
        """
        by_share: dict[Fraction, float] = {}
        for count, size, people in levels:
            share = Fraction(count, size)
            by_share[share] = by_share.get(share, 0.0) + people
        by_value = (
            ValueExposure(
                value=value,
                people=_whole(sum(own)),
                mean=round(total / (sum(own) or 1), _DIGITS),
                highest=Fraction(*most),
                bands=tuple(_whole(people) for people in own),
            )
            for value, own, total, most in zip(values, bands, sums, highest, strict=True)
        )
        return cls(tuple(by_value), tuple((share, _whole(by_share[share])) for share in sorted(by_share)))

    @classmethod
    def of_people(cls, values: Sequence[ValueExposure], levels: Iterable[tuple[int, int, int]]) -> Exposure:
        """Where people have several values: those of every value, and people by the (count, size) of the likeliest."""
        by_share: dict[Fraction, float] = {}
        for count, size, people in levels:
            share = Fraction(count, size)
            by_share[share] = by_share.get(share, 0) + people
        return cls(tuple(values), tuple((share, by_share[share]) for share in sorted(by_share)), several=True)

    @property
    def people(self) -> float:
        """Everybody."""
        return sum(people for _, people in self.levels)

    @property
    def outright(self) -> float:
        """People whose value is published outright."""
        return next((people for share, people in self.levels if share == 1), 0)

    @property
    def mean(self) -> float:
        """The mean exposure of a person: how often guessing by the bucket's shares would be right."""
        return sum(float(share) * people for share, people in self.levels) / (self.people or 1)

    @property
    def highest(self) -> Fraction:
        """The exposure of whoever is exposed most."""
        return self.levels[-1][0] if self.levels else Fraction(0)

    @property
    def bands(self) -> tuple[float, ...]:
        """People by tenths of probability, all values together."""
        if not self.several:
            return tuple(sum(column) for column in zip(*(value.bands for value in self.values), strict=True))
        bands = [0.0] * (BANDS + 1)
        for share, people in self.levels:
            bands[BANDS * share.numerator // share.denominator] += people
        return tuple(map(_whole, bands))

    def quantile(self, share: float) -> Fraction:
        """The least probability that at least this share of the people does not exceed."""
        left = share * self.people
        for level, people in self.levels:
            left -= people
            if left <= 1e-9 * self.people:
                return level
        return self.highest

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "people": self.people,
            "several": self.several,
            "outright": self.outright,
            "mean": self.mean,
            "median": float(self.quantile(0.5)),
            "highest": float(self.highest),
            "bands": list(self.bands),
            "values": [{"value": value.value, **value.as_object()} for value in self.values],
        }


@dataclass(frozen=True)
class TypicalError:
    """The relative standard error of counting one value among a tenth of the records, chosen whatever their values.

    Where people have `several` values, those who have it are counted, among a tenth of the people. `typical` is the
    mean over the values of all records; `best` and `worst` are those of single values.
    """

    typical: float
    best: float
    best_value: str
    worst: float
    worst_value: str
    several: bool = False

    @classmethod
    def of(cls, exposure: Exposure, share: float = TENTH) -> TypicalError | None:
        """What follows from a release alone; None if nobody is in it.

        Where o people have a value and c of the S values of a bucket are it, the count of the value among a random
        share p of the records has the variance p (1 - p) sum c (S - c) / S over the buckets (`solve.foresight`). That
        sum is o (1 - e), with e the mean exposure of these people. So the relative standard error is
        sqrt((1 - p) / p (1 - e) / o). Fake values are assumed to be in proportion to the records.
        """
        errors = [
            (math.sqrt((1 - share) / share * max(0.0, 1 - value.mean) / value.people), value)
            for value in exposure.values
            if value.people > 0
        ]
        if not errors:
            return None
        typical = sum(error * value.people for error, value in errors) / sum(value.people for _, value in errors)
        best, worst = min(errors, key=lambda one: one[0]), max(errors, key=lambda one: one[0])
        return cls(typical, best[0], best[1].value, worst[0], worst[1].value, exposure.several)

    def sentence(self) -> str:
        """For people."""
        whom = "people" if self.several else "records"
        about = f"a count of one value among a tenth of the {whom} is typically off by {_percent(self.typical)}"
        if self.best_value == self.worst_value:
            return about
        best, worst = (
            f"by {_percent(error)} for {quoted(value)}"
            for error, value in ((self.best, self.best_value), (self.worst, self.worst_value))
        )
        return f"{about} ({best}, {worst})"

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "share": TENTH,
            "typical": self.typical,
            "best": {"value": self.best_value, "error": self.best},
            "worst": {"value": self.worst_value, "error": self.worst},
            "sentence": self.sentence(),
        }


def exposure_sentence(exposure: Exposure) -> str:
    """The first thing to know about a release."""
    if not exposure.outright:
        whose = "the likeliest value of a person" if exposure.several else "people's own value"
        return (
            f"nobody's value is published outright; {whose} has a probability of "
            f"{exposure.mean:.0%} on the average, and {float(exposure.highest):.0%} at most"
        )
    clear = sorted((value for value in exposure.values if value.outright), key=lambda value: -value.outright)
    named = ", ".join(f"{quoted(value.value)} {round(value.outright):,}" for value in clear[:_NAMED])
    more = f" and {len(clear) - _NAMED} more values" if len(clear) > _NAMED else ""
    what = "a value" if exposure.several else "their value"
    return (
        f"{round(exposure.outright):,} of {round(exposure.people):,} people have {what} published outright "
        f"({named}{more})"
    )


def _whole(people: float) -> float:
    """Without fake values people are whole, and shown so; what floating point adds to that goes."""
    return round(people) if abs(people - round(people)) < _ROUNDING else people


def _percent(share: float) -> str:
    """Two digits are enough for an error."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:,.0f} %"


@dataclass(frozen=True)
class GroupShare:
    """How much of a bucket a group of values takes at most: `count` rows of ST, where `known` of `size` are known.

    `parent` is the place of the group that it is part of, in the list of all. `exposure` is that of the people in the
    group: the probability that their buckets give to the group. It is counted in a release, and None in a plan.
    """

    name: str
    level: str
    parent: int | None
    limit: Fraction | None
    count: int
    size: int
    known: int = 0
    exposure: ValueExposure | None = None

    @property
    def share(self) -> Fraction:
        """The largest probability of having one of its values, which the limit bounds; above 1 if all are known."""
        return Fraction(self.count, max(1, self.size - self.known))

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "name": self.name,
            "level": self.level,
            "parent": self.parent,
            "limit": None if self.limit is None else str(self.limit),
            "worst": {"count": self.count, "size": self.size},
            "exposure": self.exposure.as_object() if self.exposure is not None else None,
        }
