"""How many rows of each bucket have a value under each group: runs of values become runs of groups.

A run of a value counts for the lowest group that holds it, by a table of groups by value. The (bucket, group) pairs are
added up, and then from the last group to the first, each into its parent. After that a group is to a bucket what a
value is, and its limit is compared in the same way (`bucket_limits`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalenius.verify.buckets import Codes, Integers, WholeBuckets
from dalenius.verify.stated_groups import StatedGroups

_ROOM = 8  # pairs that there could be for each run: up to here each has a place of its own
_NONE = -1


class GroupRuns:
    """Turns buckets of values, numbered in the order of `values`, into buckets of groups."""

    def __init__(self, groups: StatedGroups, values: Sequence[str]) -> None:
        self._parents = [path[-2] if len(path) > 1 else _NONE for path in groups.paths]
        self._levels = max(map(len, groups.paths))
        self._group_of: Codes = np.array([groups.of_value.get(value, _NONE) for value in values], dtype=np.int32)

    def of(self, buckets: WholeBuckets, values: int) -> WholeBuckets:
        """The same buckets; `values` is how many values are known by now, those after the listed ones in no group."""
        if len(self._group_of) < values:
            later = np.full(values - len(self._group_of), _NONE, np.int32)
            self._group_of = np.append(self._group_of, later)
        number, groups = len(buckets.numbers), len(self._parents)
        group, counts = self._group_of.take(buckets.codes), buckets.counts
        pairs = buckets.of_runs(np.arange(0, number * groups, groups)) + group
        if group.min(initial=0) == _NONE:
            inside = np.flatnonzero(group != _NONE)
            pairs, counts = pairs[inside], counts[inside]
        if number * groups <= _ROOM * len(pairs):
            pairs, counts = self._add_up(pairs, counts, number)
        else:
            pairs, counts = self._add_up_few(pairs, counts)
        place = pairs // groups
        first_runs = np.searchsorted(pairs, np.arange(0, number * groups, groups))
        return WholeBuckets(
            buckets.numbers, buckets.sizes, first_runs, (pairs - place * groups).astype(np.int32), counts
        )

    def _add_up(self, pairs: Integers, counts: Integers, buckets: int) -> tuple[Integers, Integers]:
        """Every pair that there is once, in ascending order, with all of its rows."""
        sums = np.zeros(buckets * len(self._parents), np.int64)
        np.add.at(sums, pairs, counts)
        by_bucket = sums.reshape(buckets, len(self._parents))
        for group in range(len(self._parents) - 1, -1, -1):
            if self._parents[group] != _NONE:
                by_bucket[:, self._parents[group]] += by_bucket[:, group]
        there = np.flatnonzero(sums > 0)  # of truth values, which is faster
        return there, sums[there]

    def _add_up_few(self, pairs: Integers, counts: Integers) -> tuple[Integers, Integers]:
        """The same where most pairs are not there, level by level."""
        parents = np.array(self._parents)
        level, rows = _sum(pairs, counts)
        all_pairs, all_rows = [level], [rows]
        for _ in range(self._levels - 1):
            group = level % len(parents)
            inside = np.flatnonzero(parents[group] != _NONE)
            level = level[inside] - group[inside] + parents[group[inside]]
            level, rows = _sum(level, rows[inside])
            all_pairs, all_rows = [*all_pairs, level], [*all_rows, rows]
        return _sum(np.concatenate(all_pairs), np.concatenate(all_rows))


def _sum(pairs: Integers, counts: Integers) -> tuple[Integers, Integers]:
    there, of = np.unique(pairs, return_inverse=True)
    sums = np.zeros(len(there), np.int64)
    np.add.at(sums, of, counts)
    return there, sums
