"""What an F'-private release tells the observer: the share of a value in the person's bucket.

Somebody who knows a person's quasi-identifiers finds the person's row, and in its bucket of S rows c times the value:
the chance is c / S. Value i has a_ij slots in the b_j buckets of size S_j, dealt out in turn, so that r = a_ij mod b_j
buckets hold c + 1 of them and the others c = floor(a_ij / b_j). Of the people who carry the value there,
r (c + 1) / a_ij are in buckets with c + 1. With σ fake values in every bucket there are S_j + σ slots, and each is
fake with the same chance, so the same shares hold of real people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dalenius.model.dp_risk import ReleaseRisk
from dalenius.model.plan import Plan
from dalenius.model.setting import Partition
from dalenius.model.solution import Status


@dataclass(frozen=True)
class Released:
    """The release that a plan makes, as the observer sees it: over people, and the largest share of each value."""

    risk: ReleaseRisk
    largest: tuple[Fraction, ...]


def released(plan: Plan) -> Released | None:
    """Shares of people's own values in their buckets; None where no release exists."""
    partition = plan.solution.partition
    if plan.status is Status.INFEASIBLE or partition is None:
        return None
    total, above = Fraction(0), Fraction(0)
    largest: list[Fraction] = []
    for i, limit in enumerate(plan.problem.limits):
        most = Fraction(0)
        for people, share in _shares(partition, i):
            total += people * share
            above += people * (share > limit)
            most = max(most, share)
        largest.append(most)
    risk = ReleaseRisk(
        str(plan.status),
        partition.setting.buckets,
        float(partition.setting.mse),
        int(above),
        float(total / plan.problem.total),
        float(max(largest)),
    )
    return Released(risk, tuple(largest))


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
