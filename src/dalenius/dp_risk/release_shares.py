"""What an F'-private release reveals to the observer: the share of a value in the person's bucket.

Somebody who knows a person's quasi-identifiers finds the person's row, and in its bucket of S rows c times the value:
the chance is c / S. Value i has a_ij slots in the b_j buckets of size S_j. They are spread evenly, so that
r = a_ij mod b_j buckets hold c + 1 of them and the others c = floor(a_ij / b_j). Of the people who carry the value
there, r (c + 1) / a_ij are in buckets with c + 1. With σ fake values in every bucket there are S_j + σ slots. Each is
fake with the same chance, so the same shares hold for real people.

A random draw decides, with equal chances, which of the o_i slots of a value a record gets. So what a person can expect
depends on the value alone: the mean over all who carry it. This gives the expected mean over the people of any group.

`Judge` compares the limits, the release and the noise, for one group or for a batch of triples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.dp_risk.group_tables import Group
from dalenius.dp_risk.noise import Floats, Noise
from dalenius.dp_risk.ratio import Integers, noisy_ratios, pinned, ratio, thresholds
from dalenius.dp_risk.results import GroupRisk, ReleaseRisk, ReleaseShares, ValueRisk
from dalenius.dp_risk.tally import Triples
from dalenius.model.plan import Plan, Status
from dalenius.model.problem import Partition

_MOST_VALUES = 10  # of a group, listed one by one


@dataclass(frozen=True)
class OwnShare:
    """The share of their own value in the bucket of somebody who carries it: mean, largest, chance above the limit."""

    mean: Fraction
    largest: Fraction
    above: Fraction


@dataclass(frozen=True)
class ReleaseView:
    """The release of a plan, as the observer sees it: over all people, and for each value."""

    risk: ReleaseRisk
    own: tuple[OwnShare, ...]

    def of(self, counts: Iterable[tuple[int, int]]) -> ReleaseShares:
        """The shares of some people, given by value: (position of the value, people who carry it)."""
        people = [(count, self.own[code]) for code, count in counts]
        total = sum(count * own.mean for count, own in people) / sum(count for count, _ in people)
        above = math.ceil(sum(count * own.above for count, own in people))
        return ReleaseShares(float(total), float(max(own.largest for _, own in people)), above)


class ReleaseBySize:
    """The shares of people in a release, by range of group sizes."""

    def __init__(self, release: ReleaseView, edges: Integers) -> None:
        self._edges = edges
        self._mean, self._largest, self._above = (
            np.array([float(getattr(own, name)) for own in release.own]) for name in ("mean", "largest", "above")
        )
        self._people, self._shares, self._most, self._above_limit = (np.zeros(len(edges)) for _ in range(4))

    def add(self, sizes: Integers, codes: Integers, people: Floats) -> None:
        """Add people who carry values, in groups of these sizes."""
        places = np.searchsorted(self._edges, sizes, side="right") - 1
        width = len(self._edges)
        self._people += np.bincount(places, people, width)
        self._shares += np.bincount(places, people * self._mean[codes], width)
        self._above_limit += np.bincount(places, people * self._above[codes], width)
        np.maximum.at(self._most, places, self._largest[codes])

    def shares(self) -> list[ReleaseShares | None]:
        """One for each range of sizes; None where there is nobody."""
        sums = zip(self._people, self._shares, self._most, self._above_limit, strict=True)
        return [
            ReleaseShares(float(shares / people), float(most), math.ceil(above)) if people else None
            for people, shares, most, above in sums
        ]


def release_view(plan: Plan) -> ReleaseView | None:
    """The release of a plan, as the observer sees it; None if there is no release."""
    partition = plan.solution.partition
    if plan.status is Status.INFEASIBLE or partition is None:
        return None
    own = tuple(own_shares(partition, i, limit) for i, limit in enumerate(plan.problem.limits))
    counts = plan.problem.counts
    pairs = list(zip(counts, own, strict=True))
    risk = ReleaseRisk(
        status=str(plan.status),
        buckets=partition.setting.buckets,
        mse=float(partition.setting.mse),
        above_limit=math.ceil(sum(count * entry.above for count, entry in pairs)),
        mean_share=float(sum(count * entry.mean for count, entry in pairs) / plan.problem.total),
        largest_share=float(max(entry.largest for entry in own)),
    )
    return ReleaseView(risk, own)


def own_shares(partition: Partition, value: int, limit: Fraction) -> OwnShare:
    """The shares of a value in the buckets of those who carry it."""
    shares = list(_shares(partition, value))
    people = sum(number for number, _ in shares)
    return OwnShare(
        sum((number * share for number, share in shares), Fraction(0)) / people,
        max(share for _, share in shares),
        sum((number for number, share in shares if share > limit), Fraction(0)) / people,
    )


def _shares(partition: Partition, value: int) -> Iterator[tuple[Fraction, Fraction]]:
    """People who carry the value, and its share in their buckets."""
    for group, quota, slots in zip(
        partition.setting.groups, partition.quotas[value], partition.slots[value], strict=True
    ):
        few, more = divmod(slots, group.buckets)
        for count, buckets in ((few, group.buckets - more), (few + 1, more)):
            people = Fraction(quota * buckets * count, slots) if slots else Fraction(0)
            if people:
                yield people, Fraction(count, group.size + partition.fake_values)


class Judge:
    """Judges groups by the limits, the release and the noise."""

    def __init__(self, plan: Plan, release: ReleaseView | None, noises: Sequence[Noise]) -> None:
        self.plan, self.release, self.noises = plan, release, noises
        self.limits = plan.problem.limits
        self.thresholds = thresholds([float(limit) for limit in self.limits])

    def above(self, size: int, count: int, code: int) -> bool:
        """Whether y/x is above the limit, in integers."""
        limit = self.limits[code]
        return count * limit.denominator > size * limit.numerator

    def triples(self, batch: pa.RecordBatch) -> tuple[Triples, Any]:
        """A batch of triples with their limits, and the codes of their values."""
        sizes, counts, codes, cells = (np.asarray(batch[name]) for name in ("x", "y", "v", "cells"))
        above = np.fromiter(map(self.above, sizes.tolist(), counts.tolist(), codes.tolist()), dtype=bool)
        triples = Triples(
            sizes=sizes,
            counts=counts,
            thresholds=self.thresholds[codes],
            above=above,
            people=(cells * counts).astype(np.float64),
        )
        return triples, codes

    def group(self, group: Group, columns: Sequence[str] = ()) -> GroupRisk:
        """One group, with the values that most of its people are pinned to."""
        counts = np.array([count for _, count in group.counts])
        codes = [code for code, _ in group.counts]
        above = np.array([self.above(group.size, count, code) for code, count in group.counts])
        chances = np.zeros((len(self.noises), len(counts)))
        for number, noise in enumerate(self.noises):
            for i, count in enumerate(counts):  # one at a time: a group may have very many values
                ratios, claims = noisy_ratios(np.array([group.size]), np.array([count]), noise)
                chances[number, i] = pinned(ratios, claims, self.thresholds[[codes[i]]]).mean()
        order = np.lexsort((-counts, -(chances * counts).sum(axis=0), ~above))[:_MOST_VALUES].tolist()
        return GroupRisk(
            size=group.size,
            group=dict(zip(columns, group.key, strict=True)) if group.key is not None else None,
            pinned=tuple((chances @ counts).tolist()),
            pinned_rightly=tuple((chances @ (counts * above)).tolist()),
            release=self.release.of(group.counts) if self.release is not None else None,
            values=tuple(self._value(group, i, bool(above[i]), chances[:, i].tolist()) for i in order),
            more_values=len(counts) - len(order),
        )

    def _value(self, group: Group, place: int, above: bool, chances: Sequence[float]) -> ValueRisk:
        code, count = group.counts[place]
        own = self.release.own[code] if self.release is not None else None
        return ValueRisk(
            value=self.plan.problem.values[code],
            count=count,
            limit=self.limits[code],
            above=above,
            ratios=tuple(ratio(group.size, count, noise) for noise in self.noises),
            pinned=tuple(chances),
            released=own.largest if own is not None else None,
            released_mean=float(own.mean) if own is not None else None,
        )
