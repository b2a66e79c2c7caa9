"""Claims: what an attacker believes of somebody with a probability above a limit, about values and groups of values.

A claim is a (person, value) with p > limit: by more than 1e-9, since beliefs are floating point and a count may be at
its limit exactly. The belief that somebody has a value under a group is the sum of the beliefs over the values there,

    p(row, group) = sum over values j of p(row, j) * held(j, group),

a product of matrices for each bucket: its rows by its values, and its values by the groups that hold them. Only groups
with a limit below 1 are looked at, and of these only such as some bucket in hand has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.infer.candidates import Block, Floats, Integers
from dalenius.model.attack_result import ClaimsAbout
from dalenius.release.manifest import Manifest
from dalenius.verify.stated_groups import StatedGroups

ABOVE = 1e-9
_MOST_NAMED = 10
_CELLS = 2**20  # of the matrices that are multiplied at once


class ClaimSums:
    """Sums over the claims about values, or about groups, with these limits."""

    def __init__(self, limits: Sequence[Fraction]) -> None:
        self.limits = np.array([float(limit) for limit in limits])
        self.people = 0
        self.beliefs = 0.0
        self._by_one = np.zeros((2, len(limits)))  # claims, and the truth of them

    def add(self, p: Floats, numbers: Integers, truth: Floats | None, each: int = 1) -> Floats:
        """Beliefs: buckets x rows x values, and `numbers` says which these are, of each bucket or of all of them.

        A row stands for `each` people, whose truth is added up. Gives where p is above its limit, and by how much.
        """
        allowed = self.limits[numbers][..., None, :]
        claims = p > allowed + ABOVE
        self.people += each * int(claims.any(axis=2).sum())
        believed, numbers = p[claims], np.broadcast_to(numbers[..., None, :], claims.shape)[claims]
        self.beliefs += each * float(believed.sum())
        self._by_one[0] += each * np.bincount(numbers, minlength=len(self.limits))
        if truth is not None:
            self._by_one[1] += np.bincount(numbers, truth[claims], minlength=len(self.limits))
        excess: Floats = np.where(claims, p - allowed, 0.0)
        return excess

    def add_listed(self, p: Floats, numbers: Integers, owners: Integers, each: Integers, right: Floats | None) -> None:
        """Beliefs as a list: `each[owners]` people are believed to have `numbers`, and so many of them are right."""
        claims = p > self.limits[numbers] + ABOVE
        owners, numbers = owners[claims], numbers[claims]
        self.people += int(each[np.unique(owners)].sum())
        self.beliefs += float((each[owners] * p[claims]).sum())
        self._by_one[0] += np.bincount(numbers, each[owners], minlength=len(self.limits))
        if right is not None:
            self._by_one[1] += np.bincount(numbers, right[claims], minlength=len(self.limits))

    @property
    def claims(self) -> int:
        """How many there are."""
        return round(float(self._by_one[0].sum()))

    @property
    def right(self) -> float:
        """How many of them are true."""
        return float(self._by_one[1].sum())

    @property
    def mean_limit(self) -> float | None:
        """The mean of their limits; None if there are no claims."""
        return float(self._by_one[0] @ self.limits) / self.claims if self.claims else None

    @property
    def mean_belief(self) -> float | None:
        """The mean of their probabilities; None if there are no claims."""
        return self.beliefs / self.claims if self.claims else None

    def worst(self, names: Sequence[str], least: float = 0.5) -> tuple[ClaimsAbout, ...]:
        """Those of which more claims are true than their limits allow, the ones with the most such claims first."""
        claims, right = self._by_one.tolist()
        every = (
            ClaimsAbout(name, int(number), true, limit)
            for name, number, true, limit in zip(names, claims, right, self.limits.tolist(), strict=True)
        )
        return tuple(sorted((one for one in every if one.excess > least), key=lambda one: -one.excess)[:_MOST_NAMED])


@dataclass(frozen=True)
class LimitedGroups:
    """The groups with a limit below 1: names, limits, and the share of ST's rows that each has.

    `holding` has for every value of the release the groups that hold it, as places here, filled up with -1.
    """

    names: tuple[str, ...]
    limits: tuple[Fraction, ...]
    shares: tuple[Fraction, ...]
    holding: Integers

    @classmethod
    def of(cls, manifest: Manifest) -> LimitedGroups | None:
        """None if there are none."""
        stated = StatedGroups.of(manifest)
        if stated is None or manifest.groups is None:
            return None
        limited = [(place, limit) for place, limit in enumerate(stated.limits) if limit is not None and limit < 1]
        if not limited:
            return None
        number = {place: k for k, (place, _) in enumerate(limited)}
        paths = [
            [number[place] for place in stated.path_of(entry.value) if place in number] for entry in manifest.values
        ]
        levels = max(1, *map(len, paths))
        return cls(
            names=tuple(stated.names[place] for place, _ in limited),
            limits=tuple(limit for _, limit in limited),
            shares=tuple(Fraction(manifest.groups[place].count, manifest.slots) for place, _ in limited),
            holding=np.array([path + [-1] * (levels - len(path)) for path in paths], np.int64),
        )

    def add_claims(self, sums: ClaimSums, block: Block, p: Floats, truth: Floats | None, each: int = 1) -> None:
        """Claims about groups, from beliefs about values, as `ClaimSums.add` has them."""
        for part, numbers, held in self._parts(block):
            sums.add(p[part] @ held, numbers, truth[part] @ held if truth is not None else None, each)

    def _parts(self, block: Block) -> Iterator[tuple[slice, Integers, Floats]]:
        """Some buckets at a time: the groups that they have, and which of these hold which value of each bucket."""
        different = block.values.shape[1]
        wide = max(block.size, different)
        # so many groups there are at most: all of them, or those of all values of these buckets
        by_groups = _CELLS // (wide * len(self.limits))
        by_values = math.isqrt(_CELLS // (wide * different * self.holding.shape[1]))
        step = max(1, by_groups, by_values)
        for start in range(0, len(block.buckets), step):
            part = slice(start, start + step)
            holding = self.holding[block.values[part]]
            inside = holding >= 0
            numbers, column = np.unique(holding[inside], return_inverse=True)
            if len(numbers):
                held = np.zeros((*holding.shape[:2], len(numbers)))
                bucket, value, _ = np.nonzero(inside)
                held[bucket, value, column] = 1.0
                yield part, numbers, held
