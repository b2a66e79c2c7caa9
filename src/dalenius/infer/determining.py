"""How far some columns give the sensitive value away, judged on a sample of n records.

Records with the same code are a group. Whoever knows the group of a person, and all the others in it, guesses the value
that most of the others have. `right` is the share of records that are guessed right so, half of a record where two
values are equally frequent; only records that are not alone in their group count (`covered` is their share of all).
The person itself is left out of the count, so that a column with a value of its own for nearly everybody does not seem
to determine anything. `without` is the share that is right if everybody is taken to have the most frequent value. Then

    strength = (low - without) / (1 - without),

where `low` is the lower end of Wilson's interval for `right` (three standard errors, for half as many records, since
those of a group are not independent). It is 1 if the column determines the value, and at most about 0 by chance.

Where a column has few records a group, records next to each other in its order are groups as well: an exact salary
gives the bracket away though nobody else has the same.

Two further measures are by value. A value is given away by a code that hardly anybody has without it; and it is ruled
out by codes that should have it, but hardly do: in a bucket it is then somebody else's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

_STANDARD_ERRORS = 3.0
_SMALL_GROUP = 10  # records on average
_NEIGHBOURS = 25
_FEW = 20  # times as many as there are records
_LARGEST = 2**62
_GIVEN_AWAY = 0.8  # of the records with a code, at least, have the value
_FREQUENT = 0.5  # values of more records than this are nobody's secret
_EXPECTED = 16.0  # records with a code and a value, by chance: none at all is then no chance
_HARDLY = 0.05  # of those expected
_RULED_OUT = 1 / 3  # of all records


@dataclass(frozen=True)
class Determination:
    """How well values are guessed; see above."""

    right: float
    without: float
    covered: float
    strength: float


@dataclass(frozen=True)
class ValueLeaks:
    """Codes of values that a column gives away, with the share of records in which; and of those that it rules out."""

    given_away: Integers
    share: float
    ruled_out: Integers
    excluded: float


@dataclass(frozen=True)
class Pairs:
    """How often each code occurs with each value: pairs in the order of the codes, and where those of a code begin."""

    values: Integers
    counts: Integers
    group: Integers
    starts: Integers
    sizes: Integers

    @property
    def records(self) -> int:
        """All records of the sample."""
        return int(self.sizes.sum())

    @classmethod
    def of(cls, groups: Integers, values: Numbers) -> Pairs:
        """The pairs of codes and values of all records."""
        several = int(values.max()) + 1
        keys, counts = count_each(groups * several + values)
        group, values = np.divmod(keys, several)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        return cls(values, counts, numbered(group), starts, np.add.reduceat(counts, starts))


def count_each(numbers: Numbers) -> tuple[Integers, Integers]:
    """The different numbers, none of them negative, in their order, and how often each occurs."""
    if int(numbers.max()) < _FEW * len(numbers):  # faster than to sort them
        counts = np.bincount(numbers.astype(np.int64))
        there = np.flatnonzero(counts)
        return there, counts[there]
    there, counts = np.unique(numbers, return_counts=True)
    return there, counts


def numbered(codes: Numbers) -> Integers:
    """Codes as 0, 1, 2, ... in their order."""
    if int(codes.max()) < _FEW * len(codes):
        small = codes.astype(np.int64)
        there = np.zeros(int(small.max()) + 1, dtype=np.int64)
        there[small] = 1
        places: Integers = (np.cumsum(there) - 1)[small]
        return places
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def together(columns: list[Integers]) -> Integers:
    """Several columns as one, with a number for each combination that occurs."""
    combined, several = columns[0], int(columns[0].max()) + 1
    for column in columns[1:]:
        more = int(column.max()) + 1
        if several * more > _LARGEST:
            combined = numbered(combined)
            several = int(combined.max()) + 1
        combined, several = combined * more + column, several * more
    return numbered(combined)


def determination(codes: Integers, values: Numbers, pairs: Pairs | None = None) -> Determination:
    """How far a column determines the value: by its codes, or by neighbours in their order where that says more."""
    found = by_group(pairs if pairs is not None else Pairs.of(codes, values))
    if len(codes) < _SMALL_GROUP * (int(codes.max()) + 1) and len(codes) >= 2 * _NEIGHBOURS:
        groups = np.empty(len(codes), dtype=np.int64)
        groups[np.argsort(codes, kind="stable")] = np.arange(len(codes)) // _NEIGHBOURS
        found = max(found, by_group(Pairs.of(groups, values)), key=lambda one: one.strength)
    return found


def by_group(pairs: Pairs) -> Determination:
    """How far the group of a record determines its value."""
    covered = pairs.sizes[pairs.group] > 1
    number = int(pairs.counts[covered].sum())
    if not number:
        return Determination(0.0, 0.0, 0.0, 0.0)
    most = np.maximum.reduceat(pairs.counts, pairs.starts)
    candidates = np.flatnonzero(pairs.counts == most[pairs.group])
    best = candidates[np.unique(pairs.group[candidates], return_index=True)[1]]
    others = pairs.counts.copy()
    others[best] = 0
    rival = most[pairs.group]
    rival[best] = np.maximum.reduceat(others, pairs.starts)
    left = pairs.counts - 1  # without the person itself
    credit = np.where(left > rival, 1.0, np.where(left == rival, 0.5, 0.0))
    right = float((credit * pairs.counts)[covered].sum()) / number
    without = float(np.bincount(pairs.values[covered], weights=pairs.counts[covered]).max()) / number
    low = wilson_low(right, number / 2)
    strength = max(0.0, (low - without) / (1 - without)) if without < 1 else 0.0
    return Determination(right, without, number / pairs.records, strength)


def wilson_low(share: float, number: float) -> float:
    """The lower end of Wilson's interval for a share of so many."""
    z2 = _STANDARD_ERRORS**2
    middle = share + z2 / (2 * number)
    width = _STANDARD_ERRORS * math.sqrt(max(0.0, share * (1 - share) / number + z2 / (4 * number**2)))
    return max(0.0, (middle - width) / (1 + z2 / number))


def value_leaks(pairs: Pairs) -> ValueLeaks:
    """The values that single codes of a column give away, and those that many of its codes rule out."""
    records = pairs.records
    of_value = np.bincount(pairs.values, weights=pairs.counts)
    given = _given_away(pairs, of_value, records)
    expected = of_value[pairs.values] * pairs.sizes[pairs.group] / records
    there = (expected >= _EXPECTED) & (pairs.counts > _HARDLY * expected)
    sizes = np.sort(pairs.sizes)[::-1]
    sums = np.concatenate([[0], np.cumsum(sizes)])
    with np.errstate(divide="ignore"):
        least = _EXPECTED * records / of_value  # records of a code, to say something about a value
    testable = sums[np.searchsorted(-sizes, -least, side="right")]
    with_value = np.bincount(pairs.values[there], weights=pairs.sizes[pairs.group[there]], minlength=len(of_value))
    excluded = (testable - with_value) / records
    out = np.flatnonzero((excluded >= _RULED_OUT) & (of_value > 0))
    return ValueLeaks(
        np.unique(pairs.values[given]),
        float(pairs.sizes[pairs.group[given]].sum()) / records,
        out,
        float(excluded[out].min()) if len(out) else 0.0,
    )


def _given_away(pairs: Pairs, of_value: Numbers, records: int) -> Integers:
    """The places of the pairs whose code gives the value away."""
    sizes = pairs.sizes[pairs.group]
    rare = of_value[pairs.values] <= _FREQUENT * records
    least = _STANDARD_ERRORS**2 * _GIVEN_AWAY / (1 - _GIVEN_AWAY)  # fewer records prove nothing, even if all agree
    likely = np.flatnonzero(rare & (sizes >= least - 1) & (pairs.counts >= _GIVEN_AWAY * sizes))
    low = [wilson_low(pairs.counts[at] / sizes[at], float(sizes[at])) for at in likely.tolist()]
    return likely[np.asarray(low) >= _GIVEN_AWAY] if len(likely) else likely
