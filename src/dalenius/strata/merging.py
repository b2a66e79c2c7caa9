"""Leaves become strata: those that cannot meet the limits by themselves are merged with others.

A leaf with n rows, n_i of them with value i, is *fit* if n_i <= most_i * n for every i and n is at least a given
number; where groups of values have limits, i may be a group. By Lemma 1 a bucketization exists if no most_i is above
its limit. Where there is a limit most_i is below it (`growing.most_shares`), because merging depends on sensitive
values (minimality attack): somebody who sees that a leaf was merged concludes that a value may have a share above
most_i in it, and that is still below the limit.

What a set of leaves has too much of value i, e_i = n_i - most_i * n, is a sum over its leaves. What it lacks is the sum
over i of max(0, e_i), and the rows that it is short of. As long as a stratum is unfit, the one that lacks most for its
rows is merged with that partner which makes up for most of the lack for what merging loses:

    (lack before - lack after) / (G + rows / 10),

G being the rows times the information about the value that is lost with the difference between the two (as in
`growing.py`). So a partner is one that is much alike, or makes up for much: the strata that are left differ most.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dalenius.strata.tree import Floats, Integers

_SURE = 1e-9  # relative: where floating point is nearer to a limit than that, integers decide
_LOSS_OF_A_ROW = 0.1  # of merging, beyond information: partners that are alike do not win by that alone
_TRIED_FIRST = 8
_MOST_PARTNERS = 256  # that are looked at closely
_VALUES_OF_A_SCREEN = 4


def merge_leaves(
    counts: Integers,
    most: Sequence[Fraction],
    least_rows: int,
    groups: Sequence[Sequence[int]] = (),
    rows: Integers | None = None,
) -> Integers:
    """The stratum of each leaf, numbered from 0 in the order of first leaves.

    `counts` are rows by leaf and value, `most` the largest share of each value that leaves a leaf fit, and then of each
    of the `groups` of values. Every stratum is fit, or there is only one. Leaves without rows go with the leaf before
    them. Where a row may have several values, `rows` says how many there are in each leaf.
    """
    rows = counts.sum(axis=1) if rows is None else rows
    stratum = np.full(len(counts), -1, np.int64)
    filled = np.flatnonzero(rows)
    if len(filled):
        stratum[filled] = _Merging(counts[filled], rows[filled], groups, _Rule(most, least_rows)).run()
    return _number(_fill_empty(stratum))


class _Rule:
    """The share that each value and each group may have, and the rows that there must be."""

    def __init__(self, most: Sequence[Fraction], least_rows: int) -> None:
        self._most = most
        self.shares: Floats = np.array([float(share) for share in most])
        self.least_rows = least_rows

    def allows(self, row: Integers, rows: int) -> bool:
        """Whether no count is too large for so many rows; integers decide where floating point is not sure."""
        if rows < self.least_rows:
            return False
        allowed = self.shares * rows
        if (row > allowed * (1 + _SURE)).any():
            return False
        close = np.flatnonzero(row > allowed * (1 - _SURE))
        shares = ((int(row[i]), self._most[i]) for i in map(int, close))
        return all(count * share.denominator <= share.numerator * rows for count, share in shares)


class _Merging:
    """Strata, at first the leaves; one that was merged into another has no rows any more."""

    def __init__(self, counts: Integers, rows: Integers, groups: Sequence[Sequence[int]], rule: _Rule) -> None:
        self._rule = rule
        self._counts = counts.astype(np.int64)
        self._rows = rows.astype(np.int64)
        of_groups = [self._counts[:, list(members)].sum(axis=1, keepdims=True) for members in groups]
        self._limited = np.concatenate([self._counts, *of_groups], axis=1)
        self._excess: Floats = self._limited - self._rows[:, None] * rule.shares
        self._lack = self._lack_of(self._excess, self._rows)
        self._information = _information(self._counts)
        self._into = np.arange(len(counts))
        self._is_fit = np.array(
            [rule.allows(row, rows) for row, rows in zip(self._limited, self._rows.tolist(), strict=True)], np.bool_
        )

    def run(self) -> Integers:
        """Merge until every stratum is fit or there is one; the stratum of each leaf."""
        while len(here := np.flatnonzero(self._rows)) > 1:
            unfit = here[~self._is_fit[here]]
            if not len(unfit):
                break
            place = int(unfit[(self._lack[unfit] / self._rows[unfit]).argmax()])
            self._merge(place, self._partner(place, self._screen(place, here[here != place])))
        return self._into

    def _screen(self, place: int, others: Integers) -> Integers:
        """The strata that are looked at closely: those with most room for the values in excess, and few rows."""
        if len(others) <= _MOST_PARTNERS:
            return others
        worst = np.argsort(-self._excess[place], kind="stable")[:_VALUES_OF_A_SCREEN]
        needed = np.maximum(self._excess[place][worst], 0)
        room = np.minimum(np.maximum(-self._excess[others[:, None], worst], 0), needed).sum(axis=1)
        score = (room + 1) / (self._rows[others] + self._rows[place])
        screened: Integers = np.sort(others[np.argsort(-score, kind="stable")[:_MOST_PARTNERS]])
        return screened

    def _partner(self, place: int, others: Integers) -> int:
        """The best partner. Those that make up for most are tried first, until the others cannot be better."""
        after = self._lack_of(self._excess[others] + self._excess[place], self._rows[others] + self._rows[place])
        made_up = self._lack[others] + self._lack[place] - after
        least_loss = _LOSS_OF_A_ROW * float(self._rows[place])
        order = np.argsort(-made_up, kind="stable")
        best, score = int(others[0]), -np.inf
        start, number = 0, _TRIED_FIRST
        while start < len(order) and made_up[order[start]] > score * least_loss:
            tried = order[start : start + number]
            both = _information(self._counts[others[tried]] + self._counts[place])
            lost = np.maximum(self._information[others[tried]] + self._information[place] - both, 0)
            scores = made_up[tried] / (lost + least_loss)
            if scores.max() > score:
                best, score = int(others[tried[scores.argmax()]]), float(scores.max())
            start, number = start + number, number * 2
        return best

    def _merge(self, place: int, other: int) -> None:
        first, last = min(place, other), max(place, other)
        for array in (self._counts, self._limited, self._excess, self._rows):
            array[first] += array[last]
            array[last] = 0
        self._into[self._into == last] = first
        self._is_fit[first] = self._rule.allows(self._limited[first], int(self._rows[first]))
        self._lack[first] = self._lack_of(self._excess[first], self._rows[first])
        self._information[first] = _information(self._counts[first])

    def _lack_of(self, excess: Floats, rows: Integers) -> Floats:
        lack: Floats = np.maximum(excess, 0).sum(axis=-1) + np.maximum(self._rule.least_rows - rows, 0)
        return lack


def _information(counts: Integers) -> Floats:
    """The sum over values of n_x log n_x, minus n log n: what merging loses is a difference of it."""
    rows = counts.sum(axis=-1)
    information: Floats = (counts * np.log(np.maximum(counts, 1))).sum(axis=-1) - rows * np.log(np.maximum(rows, 1))
    return information


def _fill_empty(stratum: Integers) -> Integers:
    """Leaves without a stratum (-1) get that of the leaf before them, the first ones that of the leaf behind."""
    filled = np.flatnonzero(stratum >= 0)
    if not len(filled):
        return np.zeros_like(stratum)
    before = np.maximum(np.searchsorted(filled, np.arange(len(stratum)), side="right") - 1, 0)
    filled_in: Integers = stratum[filled[before]]
    return filled_in


def _number(stratum: Integers) -> Integers:
    """The same strata, numbered in the order of first leaves."""
    _, first, inverse = np.unique(stratum, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]
