"""The groups of values that a manifest states: are they a tree, in its one spelling, and do their numbers agree?

A group comes before those within it, and at once after its parent or after all that is within the sibling before it;
siblings are in the order of their names. So the list is in the order of the groups' paths, each the names from the top
down, and there is one such list.

`check_groups` looks at what the manifest says, `compare_groups` at what ST holds. `GroupRuns` turns runs of values in
buckets into runs of groups: a run of a value counts for every group that holds it, level by level. After that a group
is to a bucket what a value is, and its limit is compared in the same way (`bucket_limits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dalenius.model.exposure import GroupShare, ValueExposure
from dalenius.model.groups import MOST_LEVELS
from dalenius.release.manifest import GroupEntry, Manifest
from dalenius.verify.buckets import Codes, Integers, WholeBuckets
from dalenius.verify.findings import LIMITS, MANIFEST, VALUES, Report, plural, quote

_ROOM = 8  # pairs of a bucket and a group that there could be for each run: up to here each has a place of its own
_HOLDS = {
    LIMITS: "no bucket holds more of a value, or of a group of values, than its limit allows",
    VALUES: "counts and worst cases of all values and groups are as the manifest says",
}


@dataclass(frozen=True)
class StatedGroups:
    """A tree of groups, and the lowest group of every value that is in one."""

    names: tuple[str, ...]
    limits: tuple[Fraction | None, ...]
    paths: tuple[tuple[int, ...], ...]
    of_value: dict[str, int]

    @classmethod
    def of(cls, manifest: Manifest) -> StatedGroups | None:
        """None if the manifest states none, or what it states is no tree."""
        if manifest.groups is None or next(_shape_problems(manifest, manifest.groups), None) is not None:
            return None
        return cls(
            names=tuple(group.name for group in manifest.groups),
            limits=tuple(None if group.limit is None else Fraction(group.limit) for group in manifest.groups),
            paths=tuple(_paths(manifest.groups)),
            of_value={value.value: value.group for value in manifest.values if value.group is not None},
        )

    def with_limits(self, limits: tuple[Fraction | None, ...]) -> StatedGroups:
        """The same groups under other limits."""
        return replace(self, limits=limits)

    def path_of(self, value: str) -> tuple[int, ...]:
        """The groups that hold a value, from the top down."""
        group = self.of_value.get(value)
        return () if group is None else self.paths[group]

    def sums(self, counts: Sequence[tuple[str | None, int]]) -> list[int]:
        """The rows under each group, given those of each value."""
        sums = [0] * len(self.names)
        for value, count in counts:
            for group in self.path_of(value) if value is not None else ():
                sums[group] += count
        return sums


def check_groups(manifest: Manifest, report: Report) -> StatedGroups | None:
    """Add what the manifest says of groups and cannot be. Gives the groups, if there are any and they are a tree."""
    if manifest.groups is None:
        lost = sum(1 for value in manifest.values if value.group is not None)
        if lost:
            report.fail(MANIFEST, f"{plural(lost, 'value is', 'values are')} in a group, and there are no groups")
        return None
    report.holds |= _HOLDS
    stated = StatedGroups.of(manifest)
    if stated is None:
        report.not_checked([LIMITS, VALUES], "the groups of the manifest are no tree")
        problems = [*_shape_problems(manifest, manifest.groups)]
    else:
        problems = [*_spelling_problems(stated), *_number_problems(manifest, manifest.groups, stated)]
    for problem in problems:
        report.fail(MANIFEST, problem)
    return stated


def compare_groups(
    manifest: Manifest,
    stated: StatedGroups,
    sums: Sequence[int],
    worst: Sequence[tuple[int, int]],
    exposures: Sequence[ValueExposure],
    report: Report,
) -> None:
    """Add where the release holds something else: `sums` are the rows of each group, `worst` is (count, size).

    What ST holds goes into the report, with the exposure of each group's people.
    """
    groups = manifest.groups or []
    other = [place for place, group in enumerate(groups) if sums[place] != group.count]
    for place in other[:1]:
        report.fail(
            VALUES,
            f"{plural(len(other), 'group has', 'groups have')} another count than the manifest says; the first: "
            f"{quote(groups[place].name)} {sums[place]:,}, not {groups[place].count:,}",
            len(other),
        )
    other = [place for place, group in enumerate(groups) if worst[place] != (group.worst.count, group.worst.size)]
    for place in other[:1]:
        (count, size), case = worst[place], groups[place].worst
        report.fail(
            VALUES,
            f"{plural(len(other), 'group has', 'groups have')} another worst case than the manifest says; the first: "
            f"{quote(groups[place].name)} {count:,} of {size:,}, not {case.count:,} of {case.size:,}",
            len(other),
        )
    known = manifest.adversary.known_records
    shares = zip(groups, stated.limits, worst, exposures, strict=True)
    report.groups = tuple(
        GroupShare(group.name, group.level, group.parent, limit, count, size, known, exposure)
        for group, limit, (count, size), exposure in shares
    )


def _shape_problems(manifest: Manifest, groups: Sequence[GroupEntry]) -> Iterator[str]:
    """Why the groups are no tree that can be gone through."""
    lost = sum(1 for value in manifest.values if value.group is not None and value.group >= len(groups))
    if lost:
        yield f"{plural(lost, 'value is', 'values are')} in a group that is not there"
    wrong = sum(1 for place, group in enumerate(groups) if group.parent is not None and group.parent >= place)
    if wrong:
        yield f"{plural(wrong, 'group comes', 'groups come')} before the group that it is part of"
        return
    depths: list[int] = []
    for group in groups:
        depths.append(1 if group.parent is None else depths[group.parent] + 1)
    if max(depths) > MOST_LEVELS:
        yield f"its groups are {max(depths):,} deep, and at most {MOST_LEVELS} are allowed"


def _paths(groups: Sequence[GroupEntry]) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for place, group in enumerate(groups):
        paths.append((*(paths[group.parent] if group.parent is not None else ()), place))
    return paths


def _spelling_problems(stated: StatedGroups) -> Iterator[str]:
    repeated = len(stated.names) - len(set(stated.names))
    if repeated:
        yield f"{plural(repeated, 'group')} listed more than once"
    by_name = [tuple(stated.names[place] for place in path) for path in stated.paths]
    if by_name != sorted(by_name):
        yield "the groups are not in order: each before those within it, and siblings by their names"


def _number_problems(manifest: Manifest, groups: Sequence[GroupEntry], stated: StatedGroups) -> Iterator[str]:
    known, fakes = manifest.adversary.known_records, manifest.adversary.fake_values
    sizes = {group.size for group in manifest.setting}
    sums = stated.sums([(value.value, value.count) for value in manifest.values])
    empty = sum(1 for total in sums if not total)
    if empty:
        yield f"{plural(empty, 'group has', 'groups have')} no value"
    for group, total in zip(groups, sums, strict=True):
        if total and not _can_be(group.count, total, manifest):
            yield (
                f"the counts of the values in the group {quote(group.name)} add up to {_short(total)}, and the "
                f"manifest says {_short(group.count)}"
            )
        worst = group.worst
        case = f"the worst case of the group {quote(group.name)}, {_short(worst.count)} of {_short(worst.size)}"
        if worst.count > min(group.count, worst.size + fakes) or worst.size not in sizes:
            yield f"{case}, cannot be"
        if group.limit is not None and worst.count > Fraction(group.limit) * (worst.size - known):
            less = f" less {known:,} known" if known else ""
            yield f"{case}{less}, is above its limit {_short(Fraction(group.limit))}"


def _can_be(count: int, total: int, manifest: Manifest) -> bool:
    """Whether a group can have so many rows, given those of its values; people can have several of these."""
    return count <= min(total, manifest.people) if manifest.has_several_values else count == total


def _short(number: int | Fraction) -> str:
    text = f"{number:,}" if isinstance(number, int) else str(number)
    return text if len(text) <= 60 else text[:57] + "..."


class GroupRuns:
    """Turns buckets of values, numbered in the order of `values`, into buckets of groups."""

    def __init__(self, groups: StatedGroups, values: Sequence[str]) -> None:
        self._none = len(groups.names)  # the number of a group for whatever is in none
        paths = [groups.path_of(value) for value in values]
        self._levels: list[Codes] = [
            np.array([path[level] if level < len(path) else self._none for path in paths], dtype=np.int32)
            for level in range(max(map(len, paths), default=0))
        ]

    def of(self, buckets: WholeBuckets, values: int) -> WholeBuckets:
        """The same buckets; `values` is how many values are known by now, those after the listed ones in no group."""
        number, width = len(buckets.numbers), self._none + 1
        starts = buckets.of_runs(np.arange(0, number * width, width))
        levels = [starts + self._level(level, values).take(buckets.codes) for level in range(len(self._levels))]
        if number * width <= _ROOM * len(starts):
            pairs, counts = self._sums(levels, buckets.counts, number)
        else:
            pairs, counts = self._sums_of_few(levels, buckets.counts)
        place = pairs // width
        runs = np.bincount(place, minlength=number)
        codes = (pairs - place * width).astype(np.int32)
        return WholeBuckets(buckets.numbers, buckets.sizes, np.cumsum(runs) - runs, codes, counts)

    def _level(self, level: int, values: int) -> Codes:
        """For each value its group on a level."""
        missing = values - len(self._levels[level])
        if missing > 0:
            self._levels[level] = np.append(self._levels[level], np.full(missing, self._none, np.int32))
        return self._levels[level]

    def _sums(self, levels: Sequence[Integers], counts: Integers, buckets: int) -> tuple[Integers, Integers]:
        """Every pair of a bucket and a group once, in ascending order, with all of its rows."""
        sums = np.zeros(buckets * (self._none + 1), np.int64)
        for pairs in levels:
            np.add.at(sums, pairs, counts)
        sums[self._none :: self._none + 1] = 0
        there = np.flatnonzero(sums > 0)  # of truth values, which is faster
        return there, sums[there]

    def _sums_of_few(self, levels: Sequence[Integers], counts: Integers) -> tuple[Integers, Integers]:
        """The same where most of the pairs that there could be are not there."""
        inside = [np.flatnonzero(pairs % (self._none + 1) != self._none) for pairs in levels]
        nothing = np.empty(0, np.int64)
        found = np.concatenate([nothing, *(pairs[there] for pairs, there in zip(levels, inside, strict=True))])
        there, place = np.unique(found, return_inverse=True)
        sums = np.zeros(len(there), np.int64)
        np.add.at(sums, place, np.concatenate([nothing, *(counts[those] for those in inside)]))
        return there, sums
