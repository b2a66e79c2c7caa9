"""What the buckets of a release show: how many people of each have a value, or a value under a group.

Buckets are told by their places in the ascending list of their numbers. Where people have several rows, a bucket has
people and not rows, all of them with equally many rows, and a person may have several values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dalenius.attack.claims import LimitedGroups
from dalenius.attack.reading import cells_of, values_in_file_order
from dalenius.attack.records import Rows
from dalenius.infer.candidates import Floats, Integers
from dalenius.release.folder import ReleaseFolder, group_column
from dalenius.tables.arrays import filled
from dalenius.verify.row_order import integers

_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class BucketSizes:
    """All buckets: their numbers, people and values, and how many rows each of its people has."""

    numbers: Integers
    people: Integers
    slots: Integers
    rows_each: Integers

    @classmethod
    def of(cls, release: ReleaseFolder, rows: Rows) -> BucketSizes:
        """From the rows of QIT; where these are not told apart by people, each of them is somebody."""
        numbers, places, of_rows = np.unique(rows.buckets, return_inverse=True, return_counts=True)
        people = of_rows.astype(np.int64)
        if release.manifest.persons is not None:
            people = np.zeros(len(numbers), np.int64)
            np.maximum.at(people, places, rows.numbers)  # they are numbered from 1
        slots = people + release.manifest.adversary.fake_values
        if release.manifest.surplus:
            buckets, _, counts = cells_of(release, numbers, lambda _: None)
            slots = np.bincount(buckets, counts, len(numbers)).astype(np.int64)
        return cls(numbers, people, slots, of_rows // np.maximum(people, 1))


@dataclass(frozen=True)
class ShownCounts:
    """The values (or groups) of all buckets: those of bucket b are at `first[b]` to `first[b + 1]`, ascending.

    `counts` people of the bucket have each, and `steady` of them have it in all their rows.
    """

    sizes: BucketSizes
    first: Integers
    values: Integers
    counts: Integers
    steady: Integers
    kinds: int

    @classmethod
    def of(
        cls,
        sizes: BucketSizes,
        kinds: int,
        buckets: Integers,
        values: Integers,
        counts: Integers,
        steady: Integers | None = None,
    ) -> ShownCounts:
        """From cells in any order, none of them twice."""
        order = np.lexsort((values, buckets))
        first = np.searchsorted(buckets[order], np.arange(len(sizes.numbers) + 1))
        mine = counts[order]
        return cls(sizes, first, values[order], mine, mine if steady is None else steady[order], kinds)

    @cached_property
    def buckets(self) -> Integers:
        """The bucket of each cell."""
        return np.repeat(np.arange(len(self.sizes.numbers)), np.diff(self.first))

    @cached_property
    def values_each(self) -> Floats:
        """How many values the people of each bucket have on the average."""
        values = np.bincount(self.buckets, self.counts, minlength=len(self.sizes.numbers))
        each: Floats = values / np.maximum(self.sizes.slots, 1)
        return each

    @cached_property
    def keys(self) -> Integers:
        """bucket * kinds + value of each cell, ascending."""
        return self.buckets * self.kinds + self.values


def read_counts(release: ReleaseFolder, sizes: BucketSizes) -> ShownCounts:
    """The values of one sensitive column; a release with several has a view for each."""
    kinds = len(release.manifest.values)
    buckets, values, counts = cells_of(release, sizes.numbers, lambda _: None)
    shown = ShownCounts.of(sizes, kinds, buckets, values, counts)
    if release.manifest.persons is None:
        return shown
    return ShownCounts.of(sizes, kinds, shown.buckets, shown.values, shown.counts, _steady(release, shown))


def _steady(release: ReleaseFolder, shown: ShownCounts) -> Integers:
    """How many lines of each cell are about all rows of a person."""
    persons, steady = release.manifest.persons, np.zeros(len(shown.values), np.int64)
    if persons is None:
        return steady
    buckets, values = values_in_file_order(release, shown.sizes.numbers)
    done = 0
    for batch in release.batches("st", [persons.rows], rows=_ROWS_AT_ONCE):
        part = slice(done, done + batch.num_rows)
        done += batch.num_rows
        whole = integers(batch.column(0)).view(np.int64) == shown.sizes.rows_each[buckets[part]]
        cells = np.searchsorted(shown.keys, (buckets[part] * shown.kinds + values[part])[whole])
        steady += np.bincount(cells, minlength=len(steady))
    return steady


def read_group_counts(release: ReleaseFolder, groups: LimitedGroups, shown: ShownCounts) -> ShownCounts:
    """The same of the groups that have a limit: from the table of groups, or by adding up values."""
    kinds, sizes = len(groups.names), shown.sizes
    if release.manifest.group_table is None:
        holding = groups.holding[shown.values]
        inside = holding >= 0
        keys = (shown.buckets[:, None] * kinds + holding)[inside]
        weights = np.broadcast_to(shown.counts[:, None], holding.shape)[inside]
    else:
        keys = _group_lines(release, groups, sizes)
        weights = np.ones(len(keys), np.int64)
    cells, places = np.unique(keys, return_inverse=True)
    counts = np.bincount(places, weights=weights, minlength=len(cells)).astype(np.int64)
    return ShownCounts.of(sizes, kinds, cells // kinds, cells % kinds, counts)


def _group_lines(release: ReleaseFolder, groups: LimitedGroups, sizes: BucketSizes) -> Integers:
    """bucket * groups + group of every line that is about a group with a limit."""
    bucket = release.manifest.columns.bucket
    number = {name: place for place, name in enumerate(groups.names)}
    found = [np.zeros(0, np.int64)]
    for batch in release.batches("groups", [bucket, group_column(bucket)], rows=_ROWS_AT_ONCE):
        coded = batch.column(1).dictionary_encode()
        codes = np.array([*(number.get(name, -1) for name in coded.dictionary.to_pylist()), -1], np.int64)
        mine = codes[filled(coded.indices, len(codes) - 1)]
        places = np.searchsorted(sizes.numbers, integers(batch.column(0)).view(np.int64))
        found.append((places * len(groups.names) + mine)[mine >= 0])
    return np.concatenate(found)
