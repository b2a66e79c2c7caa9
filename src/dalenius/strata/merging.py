"""Leaves become strata: those that cannot meet the limits by themselves are merged with others.

A leaf with n rows, n_i of them with value i, is *fit* if n_i <= margin * limit_i * n for every i and n is at least a
given number. By Lemma 1 a margin of 1 is enough for a bucketization to exist. A margin below 1 is there because merging
depends on sensitive values (minimality attack): who sees that a leaf was merged concludes that a value may have a share
above margin * limit in it, and that is still below the limit.

What a set of leaves has too much of value i, e_i = n_i - margin * limit_i * n, is a sum over its leaves. What it lacks
is the sum over i of max(0, e_i), and the rows that it is short of. As long as a stratum is unfit, the one that lacks
most for its rows is merged with that partner which makes up for most of the lack for what merging loses:

    (lack before - lack after) / (G + rows / 10),

G being the rows times the information about the value that is lost with the difference between the two (as in
`growing`). So a partner is one that is much alike, or makes up for much: the strata that are left differ most.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SURE = 1e-9  # relative: where floating point is nearer to a limit than that, integers decide
_LOSS_OF_A_ROW = 0.1  # of merging, beyond information: partners that are alike do not win by that alone
_TRIED_FIRST = 32


def merged(counts: Integers, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> Integers:
    """The stratum of each leaf, numbered from 0 in the order of first leaves.

    `counts` are rows by leaf and value. Every stratum is fit, or there is only one. Leaves without rows go with the
    leaf before them.
    """
    stratum = np.full(len(counts), -1, np.int64)
    filled = np.flatnonzero(counts.sum(axis=1))
    if len(filled):
        stratum[filled] = _Merging(counts[filled], _Rule(limits, margin, least_rows)).run()
    return _numbered(_with_empty(stratum))


def fit(counts: Integers, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> npt.NDArray[np.bool_]:
    """Which leaves are fit, exactly."""
    rule = _Rule(limits, margin, least_rows)
    return np.array([rule.allows(row) for row in counts], np.bool_)


class _Rule:
    """The share that each value may have, and the rows that there must be."""

    def __init__(self, limits: Sequence[Fraction], margin: Fraction, least_rows: int) -> None:
        self._shares = [margin * limit for limit in limits]
        self.shares: Floats = np.array([float(share) for share in self._shares])
        self.least_rows = least_rows

    def allows(self, row: Integers) -> bool:
        """Is no count too large? Where floating point is not sure of it, by integers."""
        rows = int(row.sum())
        if rows < self.least_rows:
            return False
        allowed = self.shares * rows
        if (row > allowed * (1 + _SURE)).any():
            return False
        close = np.flatnonzero(row > allowed * (1 - _SURE))
        shares = ((int(row[i]), self._shares[i]) for i in map(int, close))
        return all(count * share.denominator <= share.numerator * rows for count, share in shares)


class _Merging:
    """Strata, at first the leaves; one that was merged into another has no rows any more."""

    def __init__(self, counts: Integers, rule: _Rule) -> None:
        self._rule = rule
        self._counts = counts.astype(np.int64)
        self._rows = self._counts.sum(axis=1)
        self._excess: Floats = self._counts - self._rows[:, None] * rule.shares
        self._lack = self._lacking(self._excess, self._rows)
        self._into = np.arange(len(counts))
        self._is_fit = np.array([rule.allows(row) for row in self._counts], np.bool_)

    def run(self) -> Integers:
        """Merge until every stratum is fit or there is one; the stratum of each leaf."""
        while len(here := np.flatnonzero(self._rows)) > 1:
            unfit = here[~self._is_fit[here]]
            if not len(unfit):
                break
            place = int(unfit[(self._lack[unfit] / self._rows[unfit]).argmax()])
            self._merge(place, self._partner(place, here[here != place]))
        return self._into

    def _partner(self, place: int, others: Integers) -> int:
        """The best partner. Those that make up for most are tried first; many others then cannot be better."""
        after = self._lacking(self._excess[others] + self._excess[place], self._rows[others] + self._rows[place])
        made_up = self._lack[others] + self._lack[place] - after
        least_loss = _LOSS_OF_A_ROW * float(self._rows[place])
        order = np.argsort(-made_up, kind="stable")
        best, score = -1, -np.inf
        for tried in (order[:_TRIED_FIRST], order[_TRIED_FIRST:]):
            hopeful = np.sort(tried[made_up[tried] >= score * least_loss])
            if len(hopeful):
                lost = _information_lost(self._counts[place], self._counts[others[hopeful]])
                scores = made_up[hopeful] / (lost + least_loss)
                if scores.max() > score:
                    best, score = int(others[hopeful[scores.argmax()]]), float(scores.max())
        return best

    def _merge(self, place: int, other: int) -> None:
        kept, gone = min(place, other), max(place, other)
        for array in (self._counts, self._excess, self._rows):
            array[kept] += array[gone]
            array[gone] = 0
        self._into[self._into == gone] = kept
        self._is_fit[kept] = self._rule.allows(self._counts[kept])
        self._lack[kept] = self._lacking(self._excess[kept], self._rows[kept])

    def _lacking(self, excess: Floats, rows: Integers) -> Floats:
        found: Floats = np.maximum(excess, 0).sum(axis=-1) + np.maximum(self._rule.least_rows - rows, 0)
        return found


def _information_lost(one: Integers, others: Integers) -> Floats:
    """What merging one with each of the others loses: rows times the information that telling them apart gives."""
    both = others + one
    found: Floats = _information(others) - _information(both)
    found += _information(one[None, :])
    return np.maximum(found, 0)


def _information(counts: Integers) -> Floats:
    def count_log_count(numbers: Integers) -> Floats:
        return np.multiply(numbers, np.log(np.maximum(numbers, 1)), dtype=np.float64)

    found: Floats = count_log_count(counts).sum(axis=1) - count_log_count(counts.sum(axis=1))
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
