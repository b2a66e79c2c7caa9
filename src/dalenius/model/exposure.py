"""How much a release shows of the people in it.

Somebody who knows a person's quasi-identifiers finds the person's bucket. If c of the bucket's T values are the same,
fake ones included, the release gives the person that value with probability c / T. A person's exposure is that
probability for the value that the person has. It is 1 where the value is published outright.

A bucket with S records and T - S fake values does not say which are fake. Then c S / T people are expected to have a
value that is there c times. Without fake values T = S, and all numbers of people are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

BANDS = 10  # of equal width, from 0 up to certainty, which has a band of its own


class Cell(NamedTuple):
    """`buckets` buckets of `records` records and `slots` values, `count` of which are the value with this number."""

    value: int
    count: int
    slots: int
    records: int
    buckets: int


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


@dataclass(frozen=True)
class Exposure:
    """The exposure of everybody: value by value, and as (probability, people) in ascending order of probability."""

    values: tuple[ValueExposure, ...]
    levels: tuple[tuple[Fraction, float], ...]

    @classmethod
    def of(cls, values: Sequence[str], cells: Iterable[Cell]) -> Exposure:
        """Added up from all buckets; cells without the value or without buckets do not count."""
        levels: dict[tuple[int, int], Fraction] = {}
        bands = [[Fraction(0)] * (BANDS + 1) for _ in values]
        sums = [Fraction(0)] * len(values)
        highest = [Fraction(0)] * len(values)
        for cell in cells:
            if not cell.count or not cell.buckets:
                continue
            people = Fraction(cell.count * cell.records * cell.buckets, cell.slots)
            share = Fraction(cell.count, cell.slots)
            level = share.as_integer_ratio()
            levels[level] = levels.get(level, Fraction(0)) + people
            bands[cell.value][BANDS * cell.count // cell.slots] += people
            sums[cell.value] += people * share
            highest[cell.value] = max(highest[cell.value], share)
        return cls(
            tuple(
                ValueExposure(
                    value,
                    _number(sum(own, Fraction(0))),
                    float(sums[place] / max(sum(own, Fraction(0)), Fraction(1, 10**9))),
                    highest[place],
                    tuple(_number(band) for band in own),
                )
                for place, (value, own) in enumerate(zip(values, bands, strict=True))
            ),
            tuple((Fraction(*level), _number(levels[level])) for level in sorted(levels, key=lambda l: Fraction(*l))),
        )

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
        return tuple(sum(column) for column in zip(*(value.bands for value in self.values), strict=True))

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
            "outright": self.outright,
            "mean": self.mean,
            "median": float(self.quantile(0.5)),
            "highest": float(self.highest),
            "bands": list(self.bands),
            "values": [
                {
                    "value": value.value,
                    "people": value.people,
                    "outright": value.outright,
                    "mean": value.mean,
                    "highest": float(value.highest),
                    "bands": list(value.bands),
                }
                for value in self.values
            ],
        }


def _number(people: Fraction) -> float:
    """A whole number where it is one: without fake values it always is."""
    return people.numerator if people.denominator == 1 else float(people)
