"""What an F'-private release tells the observer: the share of a value in the person's bucket.

Somebody who knows a person's quasi-identifiers finds the person's row, and in its bucket of S rows c times the value:
the chance is c / S. Value i has a_ij slots in the b_j buckets of size S_j, dealt out in turn, so that r = a_ij mod b_j
buckets hold c + 1 of them and the others c = floor(a_ij / b_j). Of the people who carry the value there,
r (c + 1) / a_ij are in buckets with c + 1. With σ fake values in every bucket there are S_j + σ slots, and each is
fake with the same chance, so the same shares hold of real people.

Which of a value's o_i slots a record gets is drawn at random, evenly. So what a person can expect depends on the value
alone: the mean over all who carry it. This gives the expected mean over the people of any group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.model.dp_risk import ReleaseRisk, ReleaseShares
from dalenius.model.plan import Plan
from dalenius.model.setting import Partition
from dalenius.model.solution import Status
from dalenius.ratio.noise import Floats
from dalenius.ratio.simulate import Integers


@dataclass(frozen=True)
class OwnShare:
    """What somebody who carries a value finds of it in their bucket: expected, at most; the chance of too much."""

    mean: Fraction
    largest: Fraction
    above: Fraction


@dataclass(frozen=True)
class Released:
    """The release that a plan makes, as the observer sees it: over all people, and for each value."""

    risk: ReleaseRisk
    own: tuple[OwnShare, ...]

    def of(self, counts: Iterable[tuple[int, int]]) -> ReleaseShares:
        """Some people, by value: (position of the value, people who carry it)."""
        people = [(count, self.own[code]) for code, count in counts]
        total = sum(count * own.mean for count, own in people) / sum(count for count, _ in people)
        above = math.ceil(sum(count * own.above for count, own in people))
        return ReleaseShares(float(total), float(max(own.largest for _, own in people)), above)


class ReleaseBySize:
    """Sums over people by range of group sizes."""

    def __init__(self, release: Released, edges: Integers) -> None:
        self._edges = edges
        self._mean, self._largest, self._above = (
            np.array([float(getattr(own, name)) for own in release.own]) for name in ("mean", "largest", "above")
        )
        self._people, self._shares, self._most, self._too_many = (np.zeros(len(edges)) for _ in range(4))

    def add(self, sizes: Integers, codes: Integers, people: Floats) -> None:
        """People who carry values, in groups of these sizes."""
        places = np.searchsorted(self._edges, sizes, side="right") - 1
        width = len(self._edges)
        self._people += np.bincount(places, people, width)
        self._shares += np.bincount(places, people * self._mean[codes], width)
        self._too_many += np.bincount(places, people * self._above[codes], width)
        np.maximum.at(self._most, places, self._largest[codes])

    def shares(self) -> list[ReleaseShares | None]:
        """One for each range of sizes; None where there is nobody."""
        sums = zip(self._people, self._shares, self._most, self._too_many, strict=True)
        return [
            ReleaseShares(float(shares / people), float(most), math.ceil(above)) if people else None
            for people, shares, most, above in sums
        ]


def released(plan: Plan) -> Released | None:
    """Shares of people's own values in their buckets; None where no release exists."""
    partition = plan.solution.partition
    if plan.status is Status.INFEASIBLE or partition is None:
        return None
    own = tuple(own_shares(partition, i, limit) for i, limit in enumerate(plan.problem.limits))
    counts = plan.problem.counts
    risk = ReleaseRisk(
        str(plan.status),
        partition.setting.buckets,
        float(partition.setting.mse),
        math.ceil(sum(count * entry.above for count, entry in zip(counts, own, strict=True))),
        float(sum(count * entry.mean for count, entry in zip(counts, own, strict=True)) / plan.problem.total),
        float(max(entry.largest for entry in own)),
    )
    return Released(risk, own)


def own_shares(partition: Partition, value: int, limit: Fraction) -> OwnShare:
    """What somebody who carries the value finds."""
    found = list(_shares(partition, value))
    people = sum(number for number, _ in found)
    return OwnShare(
        sum((number * share for number, share in found), Fraction(0)) / people,
        max(share for _, share in found),
        sum((number for number, share in found if share > limit), Fraction(0)) / people,
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
