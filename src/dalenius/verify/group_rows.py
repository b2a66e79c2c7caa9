"""Rows of a certificate where groups of values have limits: how much of a set of values fits into a bucket.

Let X be a set of values. Of the records of a bucket of size S, K times as many units as there are, at most
    g(v) = cap(v, S)                              for a value v in X, and 0 for any other value
    g(v) = min(cap(v, S), sum of g of its children)    for a group v, without the cap if it has no limit
have a value under v, and at most
    r(X, S) = min(K S, sum of g over the top of the tree)
have a value in X. In all buckets together the records of X need K times as many units as there are records:
    sum over S of r(X, S) b(S)  >=  sum over i in X of K count_i.
The caps are those of `model.plan.CertificateRow`, of a group as of a value.

Everything is computed for many sizes at once, on integers of 64 bits if no product can exceed them, and otherwise on
Python's, which have no largest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.model.groups import NO_GROUP, Groups
from dalenius.model.plan import CertificateRow
from dalenius.model.problem import Problem

_Numbers = npt.NDArray[Any]  # of int64, or of Python's integers

_SAFE = 2**62
_CELLS = 2**20  # caps that are kept at a time


def gains_with_groups(
    problem: Problem, rows: Sequence[tuple[CertificateRow, int]], units: int
) -> Iterator[tuple[int, int]]:
    """For every size S, the sum of weight_r * r(X_r, S) over all rows."""
    if any(row.sizes or not row.values for row, _ in rows):
        raise ValueError("a certificate's rows must be about sets of values where there are groups")
    tree = problem.groups or Groups((), (NO_GROUP,) * len(problem.values))
    weights = [(_Row.of(problem, tree, row), weight) for row, weight in rows]
    used = {limit for row, _ in weights for limit in row.limits()}
    used |= {group.limit for group in tree.groups if group.limit is not None}
    different = sorted(used)
    last = min(problem.max_size, problem.total)
    step = max(1, _CELLS // (len(different) + 1))
    for start in range(problem.min_size, last + 1, step):
        caps = _Caps(problem, different, units, start, min(start + step, last + 1))
        gains: _Numbers = np.zeros(len(caps.sizes), dtype=object)
        for row, weight in weights:
            gains += row.most(tree, caps).astype(object) * weight
        yield from zip(caps.sizes.tolist(), gains.tolist(), strict=True)


class _Caps:
    """The caps of all limits for some sizes, a line for each limit."""

    def __init__(self, problem: Problem, limits: Sequence[Fraction], units: int, start: int, stop: int) -> None:
        known, fakes = problem.known_records, problem.fake_values
        largest = max([Fraction(1), *limits])
        most = units * (largest.numerator * stop // largest.denominator + 1) * (stop + fakes + known)
        kind: type = np.int64 if most * (len(problem.values) + 1) < _SAFE else object
        self.sizes: _Numbers = np.arange(start, stop).astype(kind)
        self.full: _Numbers = self.sizes * units
        self._place = {limit: place for place, limit in enumerate(limits)}
        left = np.maximum(self.sizes - known, 0)
        held: _Numbers = np.array([_floor(limit, left, kind) for limit in limits], dtype=kind).reshape(-1, len(left))
        self._caps: _Numbers = -(-units * held * self.sizes // (self.sizes + fakes))

    def of(self, limit: Fraction) -> _Numbers:
        """The caps of one limit."""
        line: _Numbers = self._caps[self._place[limit]]
        return line

    def total(self, limits: Counter[Fraction]) -> _Numbers:
        """The caps of several values together, so many of each limit."""
        lines = self._caps[[self._place[limit] for limit in limits]]
        numbers = np.array(list(limits.values()), dtype=self.full.dtype)
        total: _Numbers = (lines * numbers[:, None]).sum(axis=0)
        return total


def _floor(limit: Fraction, left: _Numbers, kind: type) -> _Numbers:
    """floor(limit * left), of numbers of any length."""
    if kind is object or limit.numerator * int(left.max(initial=0)) >= _SAFE or limit.denominator >= _SAFE:
        return np.array([limit.numerator * int(one) // limit.denominator for one in left], dtype=kind)
    floors: _Numbers = limit.numerator * left // limit.denominator
    return floors


class _Row:
    """A set of values, by the lowest group that holds them: how many there are of each limit."""

    def __init__(self, members: dict[int, Counter[Fraction]]) -> None:
        self._members = members

    @classmethod
    def of(cls, problem: Problem, tree: Groups, row: CertificateRow) -> _Row:
        """The values of a row, each once."""
        members: dict[int, Counter[Fraction]] = {}
        for value in set(row.values):
            members.setdefault(tree.of_value[value], Counter())[problem.limits[value]] += 1
        return cls(members)

    def limits(self) -> Iterator[Fraction]:
        """The limits of its values."""
        for members in self._members.values():
            yield from members

    def most(self, tree: Groups, caps: _Caps) -> _Numbers:
        """r(X, S) for all sizes of the caps: children come after their parents, so they are added up backwards."""
        held: dict[int, _Numbers] = {group: caps.total(members) for group, members in self._members.items()}
        for place in range(len(tree.groups) - 1, -1, -1):
            if place in held:
                limit, parent = tree.groups[place].limit, tree.groups[place].parent
                fits = held.pop(place) if limit is None else np.minimum(held.pop(place), caps.of(limit))
                held[parent] = held[parent] + fits if parent in held else fits
        most: _Numbers = np.minimum(caps.full, held[NO_GROUP])
        return most
