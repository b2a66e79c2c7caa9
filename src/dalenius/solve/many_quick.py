"""A quick setting for one of many problems: integers near its relaxation, validated, with the relaxation's bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dalenius.model.setting import BucketSetting, Partition
from dalenius.solve.caps import Integers
from dalenius.solve.cuts import without_violations
from dalenius.solve.gale import validate_setting
from dalenius.solve.highs import LinearTrouble
from dalenius.solve.many_family import Family, Member, Relaxed
from dalenius.solve.optimal import Optimum
from dalenius.solve.rounding import round_nearby

_CANDIDATES = 12  # roundings that are looked at
_STEPS = 2  # buckets more or less of a size
_MORE_SIZES = 4  # besides those in use, where these alone have no good rounding
_MORE_STEPS = 4


class Nothing(Enum):
    """Why there is no quick setting."""

    NO_SETTING = "no setting"  # says floating point: a reason to try larger sizes, and no proof
    NOT_FOUND = "not found"


@dataclass(frozen=True)
class Quick:
    """A valid partition and the bound on its loss."""

    partition: Partition
    proof: Optimum

    def is_within(self, gap: float) -> bool:
        """(loss - bound) / loss <= gap."""
        loss = self.partition.setting.loss
        return loss - (self.proof.bound or 0) <= gap * loss


def quick_setting(family: Family, member: Member, gap: float) -> Quick | Nothing:
    """The best rounding of the member's relaxation; further ones are tried where it is not within the gap."""
    try:
        relaxed = family.relax(member)
    except LinearTrouble:
        return Nothing.NOT_FOUND
    if relaxed is None:
        return Nothing.NO_SETTING
    used = np.flatnonzero(relaxed.buckets)
    proof = Optimum(None, max(0, math.ceil(relaxed.bound.bound)), relaxed.bound.certificate())
    partition = next(_roundings(family, member, relaxed, used, _STEPS), None)
    if partition is None or not Quick(partition, proof).is_within(gap):
        columns = _with_more_sizes(family, relaxed, used)
        other = next(_roundings(family, member, relaxed, columns, _MORE_STEPS), None)
        if partition is None or (other is not None and other.setting.loss < partition.setting.loss):
            partition = other
    return Nothing.NOT_FOUND if partition is None else Quick(partition, proof)


def _roundings(family: Family, member: Member, relaxed: Relaxed, columns: Integers, step: int) -> Iterator[Partition]:
    """The partitions of valid roundings, those of least loss first."""
    sizes, caps = family.sizes[columns], family.caps[:, columns]
    rows = np.concatenate([caps[member.own], relaxed.matrix[:, columns]])
    rights = np.concatenate([member.counts[member.own], relaxed.rights])
    points = np.asarray(round_nearby(member, rows, rights, sizes, relaxed.buckets[columns], _CANDIDATES, step))
    if not points.size:
        return
    for k in np.flatnonzero(without_violations(member, sizes, caps, points)):
        verdict = validate_setting(
            member.problem, BucketSetting.of(zip(sizes.tolist(), points[k].tolist(), strict=True))
        )
        if isinstance(verdict, Partition):
            yield verdict


def _with_more_sizes(family: Family, relaxed: Relaxed, used: Integers) -> Integers:
    """The sizes in use, and those of least reduced cost r(S) - lambda S (`certificate.py`)."""
    reduced = (family.sizes - 1.0) ** 2 - relaxed.multipliers @ relaxed.matrix
    cost = reduced - float(relaxed.bound.slope) * family.sizes
    cost[used] = -np.inf
    return np.sort(np.argsort(cost, kind="stable")[: len(used) + _MORE_SIZES])
