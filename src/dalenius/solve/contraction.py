"""Values that are one value to the solvers: where only the limit of their group matters.

A group whose limit is no smaller than that of a group above it says nothing. A value whose limit is no smaller than
that of its group is as good as any other such value of the group: together they are one value, with the group's limit
and all of their records. So ten thousand codes in eight groups, with no limits of their own, are eight values.

The quotas of such a value are shared out between its members afterwards, in any way that adds up: records are dealt
depth first, so the group is spread evenly however its members are. And what is proven of it is proven of the original:
in a bucket its members have the room of their group, no more and no less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.model.plan import Certificate, Solution
from dalenius.model.problem import Partition, Problem
from dalenius.solve.caps import Integers


@dataclass(frozen=True, eq=False)
class Contraction:
    """A problem, the same with fewer values, and which of these stands for each value of the original."""

    original: Problem
    problem: Problem
    stands_for: Integers

    def expand(self, solution: Solution) -> Solution:
        """The solution for the original values."""
        partition, certificate = solution.partition, solution.certificate
        return replace(
            solution,
            partition=None if partition is None else self.expand_partition(partition),
            certificate=None if certificate is None else self._expand_certificate(certificate),
        )

    def expand_partition(self, partition: Partition) -> Partition:
        """The quotas of a value shared out between those that it stands for, one after the other."""
        order = np.argsort(self.stands_for, kind="stable")
        place = self.stands_for[order]
        counts = np.asarray(self.original.counts, dtype=np.int64)[order]
        before = np.cumsum(counts) - counts
        before -= before[np.searchsorted(place, np.arange(len(partition.quotas)))][place]  # of the same value
        quotas = np.asarray(partition.quotas, dtype=np.int64)
        ends = np.cumsum(quotas, axis=1)[place]
        starts = ends - quotas[place]
        shared = np.minimum(ends, (before + counts)[:, None]) - np.maximum(starts, before[:, None])
        expanded = np.empty_like(shared)
        expanded[order] = np.maximum(shared, 0)
        return Partition(partition.setting, tuple(tuple(row) for row in expanded.tolist()))

    def _expand_certificate(self, certificate: Certificate) -> Certificate:
        rows = (
            replace(row, values=tuple(np.flatnonzero(np.isin(self.stands_for, row.values)).tolist()))
            for row in certificate.rows
        )
        return replace(certificate, rows=tuple(rows))


def contract(problem: Problem) -> Contraction | None:
    """The problem with fewer values; None if it has no groups."""
    if problem.groups is None:
        return None
    groups = problem.groups.groups
    tighter = _tighter(problem.groups)
    places: dict[tuple[bool, int], int] = {}
    stands_for: list[int] = []
    first: list[int] = []
    counts: list[int] = []
    limits: list[Fraction] = []
    for value, (own, lowest) in enumerate(zip(problem.limits, problem.groups.of_value, strict=True)):
        group = tighter[lowest] if lowest != NO_GROUP else NO_GROUP
        limit = groups[group].limit if group != NO_GROUP else None
        loose = limit is not None and own >= limit
        place = places.setdefault((loose, group if loose else value), len(places))
        if place == len(first):
            first.append(value)
            counts.append(0)
            limits.append(limit if limit is not None and loose else own)
        counts[place] += problem.counts[value]
        stands_for.append(place)
    fewer = replace(
        problem,
        values=tuple(f"any of {groups[key].name}" if loose else problem.values[key] for loose, key in places),
        counts=tuple(counts),
        limits=tuple(limits),
        groups=_only(problem.groups, tighter, first),
    )
    return Contraction(problem, fewer, np.asarray(stands_for, dtype=np.int64))


def _tighter(groups: Groups) -> list[int]:
    """For each group the nearest one, at or above it, whose limit is smaller than all limits above that."""
    tighter: list[int] = []
    for place, group in enumerate(groups.groups):
        above = tighter[group.parent] if group.parent != NO_GROUP else NO_GROUP
        least = groups.groups[above].limit if above != NO_GROUP else None
        counts = group.limit is not None and (least is None or group.limit < least)
        tighter.append(place if counts else above)
    return tighter


def _only(groups: Groups, tighter: list[int], values: Sequence[int]) -> Groups:
    """The groups that say something, above some of the values."""
    number = {NO_GROUP: NO_GROUP}
    kept: list[Group] = []
    for place, group in enumerate(groups.groups):
        if tighter[place] == place:
            number[place] = len(kept)
            above = tighter[group.parent] if group.parent != NO_GROUP else NO_GROUP
            kept.append(replace(group, parent=number[above]))
    lowest = [groups.of_value[value] for value in values]
    of_value = [number[tighter[group]] if group != NO_GROUP else NO_GROUP for group in lowest]
    return Groups(tuple(kept), tuple(of_value))
