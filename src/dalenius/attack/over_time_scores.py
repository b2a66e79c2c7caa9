"""What somebody believes of people in several buckets, against limits and the truth: whole numbers, compared exactly.

A belief is a weight of a value, of which it is the share among all weights of the person. Where products could exceed
64 bits, they are Python's whole numbers, which is slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.attack.claims import LimitedGroups
from dalenius.attack.over_time_result import Claims, Scores
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import NewChain
from dalenius.release.folder import ReleaseFolder

Bits = npt.NDArray[np.bool_]
Weights = npt.NDArray[Any]  # 64-bit integers, or Python's

NOWHERE = -1
_MOST = 2**62
_LEAST = 1e-300  # to divide by
_DRAWS = 20_000  # at least, where a new chain is tried: few people are tried several times
_AT_ONCE = 2**17  # people


@dataclass(frozen=True)
class Buckets:
    """All different buckets: the values of bucket b are at `first[b]` to `first[b + 1]`, ascending, with their counts.

    `totals` are all values of each bucket, those of nobody included.
    """

    first: Integers
    values: Integers
    counts: Integers
    kinds: int

    @property
    def totals(self) -> Integers:
        """All values of each bucket."""
        return np.diff(np.append(0, np.cumsum(self.counts))[self.first])

    @property
    def owners(self) -> Integers:
        """The bucket of each value."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def keys(self) -> Integers:
        """bucket * kinds + value, ascending."""
        return self.owners * self.kinds + self.values

    def count(self, buckets: Integers, values: Integers) -> Integers:
        """How often each of some buckets has a value."""
        wanted = buckets * self.kinds + values
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.counts[places], 0)

    def cells(self, buckets: Integers) -> tuple[Integers, Integers]:
        """All values of some buckets: which of these it is of, and its place."""
        widths = np.diff(self.first)[buckets]
        ends = np.cumsum(widths)
        places = np.repeat(self.first[buckets] - ends + widths, widths) + np.arange(int(ends[-1]) if len(ends) else 0)
        return np.repeat(np.arange(len(buckets)), widths), places


@dataclass(frozen=True)
class Cells:
    """The buckets of a release, from 0, with their values and counts, in ascending order."""

    buckets: Integers
    values: Integers
    counts: Integers
    number: int

    def begins_with(self, other: Cells) -> bool:
        """Whether its first buckets are those of another release."""
        stop = int(np.searchsorted(self.buckets, other.number))
        return self.number >= other.number and all(
            np.array_equal(mine[:stop], theirs)
            for mine, theirs in (
                (self.buckets, other.buckets),
                (self.values, other.values),
                (self.counts, other.counts),
            )
        )


def number_buckets(cells: Sequence[Cells], follows: Sequence[int], kinds: int) -> tuple[Buckets, tuple[Integers, ...]]:
    """All different buckets, and the number here of each bucket of each release."""
    own: list[Integers] = []
    parts: list[tuple[Integers, Integers, Integers]] = []
    total = 0
    for of_one, parent in zip(cells, follows, strict=True):
        old = own[parent] if parent != NOWHERE else np.zeros(0, np.int64)
        own.append(np.concatenate([old, np.arange(total, total + of_one.number - len(old))]))
        new = slice(int(np.searchsorted(of_one.buckets, len(old))), None)
        parts.append((own[-1][of_one.buckets[new]], of_one.values[new], of_one.counts[new]))
        total += of_one.number - len(old)
    buckets, values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Buckets(np.searchsorted(buckets, np.arange(total + 1)), values, counts, kinds), tuple(own)


@dataclass(frozen=True)
class _Ratios:
    """Limits as whole numbers, and nearly."""

    numerators: Weights
    denominators: Weights
    shares: Floats

    @classmethod
    def of(cls, limits: Sequence[Fraction], kind: Any) -> _Ratios:
        return cls(
            np.array([limit.numerator for limit in limits], kind),
            np.array([limit.denominator for limit in limits], kind),
            np.array([float(limit) for limit in limits]),
        )


@dataclass(frozen=True)
class Limits:
    """The limits of a release on values and on groups of values. `holding` are the groups of each value, else -1."""

    values: _Ratios
    groups: _Ratios | None
    holding: Integers


def limits_of_releases(
    releases: Sequence[ReleaseFolder], texts: Sequence[str], most: Sequence[int]
) -> tuple[list[Limits], Any]:
    """The limits of each release, and the kind of whole numbers that is wide enough.

    `most` are the most values that a bucket of each evidence has: no weight is larger than their product.
    """
    found = []
    for release in releases:
        listed = {entry.value: place for place, entry in enumerate(release.manifest.values)}
        stated = [min(Fraction(1), Fraction(entry.limit)) for entry in release.manifest.values]
        limits = [stated[listed[text]] if text in listed else Fraction(1) for text in texts]
        groups = LimitedGroups.of(release.manifest)
        holding = np.full((len(texts), 1), NOWHERE)
        if groups is not None:
            inside = np.append(groups.holding, np.full((1, groups.holding.shape[1]), NOWHERE), axis=0)
            holding = inside[[listed.get(text, len(listed)) for text in texts]]
        found.append((limits, groups.limits if groups is not None else None, holding))  # those of groups are below 1
    widest = max(limit.denominator for own, of_groups, _ in found for limit in (*own, *(of_groups or ())))
    kind = np.int64 if prod(most) * widest < _MOST else object
    return [
        Limits(_Ratios.of(own, kind), _Ratios.of(groups, kind) if groups is not None else None, holding)
        for own, groups, holding in found
    ], kind


def weigh(buckets: Buckets, evidence: Integers, kind: Any) -> tuple[Integers, Integers, Weights]:
    """Owner, value and weight: of the values that all buckets of the owner have, the products of their counts.

    Each line of `evidence` has the buckets of somebody, every one once, and -1 elsewhere; there is at least one.
    """
    first = np.argmax(evidence >= 0, axis=1)
    owners, cells = buckets.cells(evidence[np.arange(len(evidence)), first])
    values, weights = buckets.values[cells], buckets.counts[cells].astype(kind)
    for column in range(evidence.shape[1]):
        others = evidence[owners, column]
        more = np.flatnonzero((others >= 0) & (first[owners] != column))
        weights[more] *= buckets.count(others[more], values[more]).astype(kind)
    left = weights > 0
    return owners[left], values[left], weights[left]


def weigh_beside(buckets: Buckets, own: Integers, others: Integers, kind: Any) -> tuple[Integers, Integers, Weights]:
    """Owner, value and weight: of somebody in a bucket that another person moved to, or from, from or to another one.

    Of the V values of the other bucket, c are x: the mover has x in this one in V - c of V cases. So if n(x) values of
    this bucket are x, somebody else in it has x in n(x) (sum over y of n(y) (V - c(y)) - (V - c(x))) cases.
    """
    owners, cells = buckets.cells(own)
    values, counts = buckets.values[cells], buckets.counts[cells].astype(kind)
    free = (buckets.totals[others][owners] - buckets.count(others[owners], values)).astype(kind)
    weights = counts * (add_up(counts * free, owners, len(own))[owners] - free)
    left = weights > 0
    return owners[left], values[left], weights[left]


def weights_of(keys: Integers, weights: Weights, wanted: Integers) -> Weights:
    """The weights of some keys among ascending ones; 0 where a key is not there."""
    if not len(keys):
        return np.zeros(len(wanted), weights.dtype)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, weights[places], 0)


def add_up(weights: Weights, owners: Integers, number: int) -> Weights:
    """The sum of the weights of each owner; owners ascend."""
    sums = np.zeros(number, weights.dtype)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    if len(starts):
        sums[owners[starts]] = np.add.reduceat(weights, starts)
    return sums


def score(
    owners: Integers, values: Integers, weights: Weights, number: int, limits: Limits, truth: Integers | None
) -> Scores:
    """Compare weights with limits, and with the true value of each owner (-1: not known). Owners ascend."""
    totals = add_up(weights, owners, number)
    different = np.bincount(owners, minlength=number)
    above, claims, ratio = _claims(owners, values, weights, totals, limits.values)
    of_groups, above_group = None, np.zeros(number, bool)
    if truth is not None:
        _add_truth(claims, truth[owners], truth[owners] == values, above)
    if limits.groups is not None:
        holders, groups, sums = _in_groups(owners, values, weights, limits)
        over, of_groups, largest = _claims(holders, groups, sums, totals, limits.groups)
        ratio = max(ratio, largest)
        above_group[holders[over]] = True
        if truth is not None:
            own = np.append(limits.holding, np.full((2, limits.holding.shape[1]), NOWHERE), axis=0)[truth[holders]]
            _add_truth(of_groups, truth[holders], (own == groups[:, None]).any(axis=1), over)
    largest_weights = np.zeros(number, weights.dtype)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    if len(starts):
        largest_weights[owners[starts]] = np.maximum.reduceat(weights, starts)
    best = largest_weights.astype(np.float64) / np.maximum(totals.astype(np.float64), 1.0)
    right = np.zeros(number)
    if truth is not None:
        likeliest = weights == largest_weights[owners]
        ties = np.bincount(owners[likeliest], minlength=number)
        right = np.bincount(owners[likeliest & (truth[owners] == values)], minlength=number) / np.maximum(ties, 1)
    people = np.zeros(number, bool)
    people[owners[above]] = True
    return Scores(people, above_group, different == 1, different == 0, best, right, ratio, claims, of_groups)


def _claims(
    owners: Integers, numbers: Integers, weights: Weights, totals: Weights, limits: _Ratios
) -> tuple[Bits, Claims, float]:
    """Which beliefs are above their limits, exactly; what they come to, and the largest belief by its limit."""
    above = (weights * limits.denominators[numbers] > limits.numerators[numbers] * totals[owners]).astype(bool)
    limited = limits.shares[numbers]
    shares = weights.astype(np.float64) / np.maximum(totals[owners].astype(np.float64), 1.0)
    ratio = float((shares / np.maximum(limited, _LEAST)).max(initial=0.0, where=limited < 1))
    claims = Claims(len(np.unique(owners[above])), int(above.sum()), limits=float(limited[above].sum()))
    return above, claims, ratio


def _add_truth(claims: Claims, truth: Integers, right: Bits, above: Bits) -> None:
    known = above & (truth >= 0)
    claims.known, claims.right = int(known.sum()), int((known & right).sum())


def _in_groups(
    owners: Integers, values: Integers, weights: Weights, limits: Limits
) -> tuple[Integers, Integers, Weights]:
    """Owner, group and weight, from those of values: a group has the weights of all of its values."""
    holding = limits.holding[values]
    inside = holding >= 0
    width = int(limits.holding.max(initial=0)) + 1
    keys = (owners[:, None] * width + holding)[inside]
    own = np.broadcast_to(weights[:, None], holding.shape)[inside]
    order = np.argsort(keys, kind="stable")
    keys, own = keys[order], own[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, sums = keys[starts], np.add.reduceat(own, starts) if len(starts) else own
    return keys // width, keys % width, sums


def new_chain(buckets: Buckets, people: Integers, limits: Limits, kind: Any, rng: np.random.Generator) -> NewChain:
    """What another release of the same people would give away, if its buckets were like these and had nothing in common
    with them: an estimate, by draws.

    Each of the people, in these buckets, has a value of their bucket. Their new bucket is that of any place with it.
    """
    ends = np.cumsum(buckets.counts)
    totals, before = buckets.totals, (ends - buckets.counts)[buckets.first[:-1]]
    by_value = np.argsort(buckets.values, kind="stable")
    of_values = np.cumsum(buckets.counts[by_value])
    having = np.bincount(buckets.values, buckets.counts, minlength=buckets.kinds).astype(np.int64)
    ahead = np.cumsum(having) - having
    repeats = min(100, -(-_DRAWS // max(1, len(people))))
    above = pinned = best = 0.0
    for start in range(0, len(people), _AT_ONCE):
        some = people[start : start + _AT_ONCE]
        for _ in range(repeats):
            places = np.searchsorted(ends, before[some] + rng.integers(0, totals[some]), side="right")
            values = buckets.values[places]
            found = np.searchsorted(of_values, ahead[values] + rng.integers(0, having[values]), side="right")
            fresh = buckets.owners[by_value[found]]
            both = score(*weigh(buckets, np.stack([some, fresh], axis=1), kind), len(some), limits, None)
            above += int((both.above | both.above_group).sum()) / repeats
            pinned += int(both.pinned.sum()) / repeats
            best += float(both.best.sum()) / repeats
    return NewChain(len(people), round(above), round(pinned), best / len(people) if len(people) else None)
