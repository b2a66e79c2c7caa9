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
_MORE_SIZES = 4  # besides those in use, where these alone have no good rounding
_LAST_RESORT = 4  # buckets more or less of a size: further roundings are only for those that have none


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
    best: Quick | None = None
    for columns, step in _attempts(family, relaxed, used):
        if step > _LAST_RESORT and best is not None:
            break
        partition = next(_roundings(family, member, relaxed, columns, step), None)
        if partition is not None and (best is None or partition.setting.loss < best.partition.setting.loss):
            best = Quick(partition, proof)
        if best is not None and best.is_within(gap):
            break
    return Nothing.NOT_FOUND if best is None else best


def _attempts(family: Family, relaxed: Relaxed, used: Integers) -> Iterator[tuple[Integers, int]]:
    """Sizes to round with, and how many buckets of each may be more or less: ever more of both."""
    yield used, 2
    more = _with_more_sizes(family, relaxed, used)
    yield more, 4
    yield more, 8


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
