"""Leaves become strata: those that cannot meet the limits by themselves are merged with others.

A leaf with n rows, n_i of them with value i, is *fit* if n_i <= margin * limit_i * n for every i and n is at least a
given number. By Lemma 1 a margin of 1 is enough for a bucketization to exist. A margin below 1 is there because merging
depends on sensitive values (minimality attack): who sees that a leaf was merged concludes that a value may have a share
above margin * limit in it, and that is still below the limit.

What a set of leaves has too much of value i, e_i = n_i - margin * limit_i * n, is a sum over its leaves, and it is fit
where no e_i is above 0. So an unfit leaf is merged with the stratum that best makes up for it: with the least sum of
max(0, e_i) afterwards; of those that leave none, with the one whose values are distributed most like its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SURE = 1e-9  # relative: where floating point is nearer to a limit than that, integers decide


def merged(counts: Integers, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> Integers:
    """The stratum of each leaf, numbered from 0 in the order of first leaves.

    `counts` are rows by leaf and value. Every stratum is fit, or there is only one. Leaves without rows go with the
    leaf before them.
    """
    stratum = np.full(len(counts), -1, np.int64)
    filled = np.flatnonzero(counts.sum(axis=1))
    if len(filled):
        stratum[filled] = _Merging(counts[filled], limits, margin, least_rows).run()
    return _numbered(_with_empty(stratum))


def fit(counts: Integers, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> npt.NDArray[np.bool_]:
    """Which leaves are fit, exactly."""
    return np.array([_is_fit(row, [margin * limit for limit in limits], least_rows) for row in counts], np.bool_)


def _is_fit(row: Integers, most: Sequence[Fraction], least_rows: int) -> bool:
    """Is no share above the most that it may be? Where floating point is not sure of it, by integers."""
    rows = int(row.sum())
    if rows < least_rows:
        return False
    allowed = np.array([float(share) for share in most]) * rows
    if (row > allowed * (1 + _SURE)).any():
        return False
    close = np.flatnonzero(row > allowed * (1 - _SURE))
    return all(int(row[i]) * most[i].denominator <= most[i].numerator * rows for i in map(int, close))


class _Merging:
    """Strata, at first the leaves; a stratum that was merged into another has no rows any more."""

    def __init__(self, counts: Integers, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> None:
        self._counts = counts.astype(np.int64, copy=True)
        self._most = [margin * limit for limit in limits]
        self._least_rows = least_rows
        self._rows = self._counts.sum(axis=1)
        self._excess: Floats = self._counts - self._rows[:, None] * np.array([float(share) for share in self._most])
        self._into = np.arange(len(counts))
        self._is_fit = np.array([self._judge(place) for place in range(len(counts))], np.bool_)

    def run(self) -> Integers:
        """Merge until every stratum is fit or there is one; the stratum of each leaf."""
        while len(here := np.flatnonzero(self._rows)) > 1:
            unfit = here[~self._is_fit[here]]
            if not len(unfit):
                break
            # the worst first: it has the fewest partners to choose from
            place = int(unfit[np.maximum(self._excess[unfit], 0).sum(axis=1).argmax()])
            self._merge(place, self._partner(place, here[here != place]))
        return self._into

    def _partner(self, place: int, others: Integers) -> int:
        left = np.maximum(self._excess[others] + self._excess[place], 0).sum(axis=1)
        enough = left <= _SURE * self._rows[place]
        if not enough.any():
            return int(others[left.argmin()])
        able = others[enough]
        return int(able[_information_lost(self._counts[place], self._counts[able]).argmin()])

    def _merge(self, place: int, other: int) -> None:
        kept, gone = min(place, other), max(place, other)
        for array in (self._counts, self._excess, self._rows):
            array[kept] += array[gone]
            array[gone] = 0
        self._into[self._into == gone] = kept
        self._is_fit[kept] = self._judge(kept)

    def _judge(self, place: int) -> bool:
        return _is_fit(self._counts[place], self._most, self._least_rows)


def _information_lost(one: Integers, others: Integers) -> Floats:
    """What merging one with each of the others loses: rows times the information that the leaf has about the value."""

    def count_log_count(counts: npt.NDArray[np.int64]) -> Floats:
        found: Floats = counts * np.log(np.maximum(counts, 1))
        return found

    both = others + one
    lost = count_log_count(others) - count_log_count(both)
    rows, rows_of_both = others.sum(axis=1), both.sum(axis=1)
    found: Floats = lost.sum(axis=1) - count_log_count(rows) + count_log_count(rows_of_both)
    return found


def _with_empty(stratum: Integers) -> Integers:
    """Leaves without a stratum (-1) get that of the leaf before them, the first ones that of the leaf behind."""
    filled = np.flatnonzero(stratum >= 0)
    if not len(filled):
        return np.zeros_like(stratum)
    before = np.maximum(np.searchsorted(filled, np.arange(len(stratum)), side="right") - 1, 0)
    found: Integers = stratum[filled[before]]
    return found


def _numbered(stratum: Integers) -> Integers:
    """The same strata, numbered in the order of first leaves."""
    _, first, inverse = np.unique(stratum, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]
