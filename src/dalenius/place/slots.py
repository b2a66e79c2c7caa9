"""Placement is arithmetic: the bucket of a record from its value and its rank among that value's records.

Value i has o_i slots, numbered 0 .. o_i - 1. A quota a_ij of them lies in size group j, whose b_j buckets of size S_j
are numbered from first_j. Round-robin assignment (RRA, Section 4.1) deals the slots of the group out in the order of
the values: slot t of the quota is at position P_ij + t, where P_ij counts the slots of earlier values in the group, and
position p is in bucket first_j + (p mod b_j). The positions of a bucket are b_j apart, so it holds S_j records, and
floor or ceil(a_ij / b_j) of each value.

A table in strata has one such partition for each of them: the buckets of a stratum follow on those of the stratum
before, and what is called a value here is a value in a stratum, numbered stratum after stratum.

The record of rank r gets slot pi_i(r), with pi_i a keyed random permutation: nothing is left of the order of the file.

With sigma fake values in every bucket the same is dealt from the inflated quotas, S_j + sigma slots to a bucket, and
marks.py says which are fake. The record of rank r gets the slot that comes after pi_i(r) others that are not fake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dalenius.model.problem import Partition
from dalenius.place.domains import Integers
from dalenius.place.marks import Marks
from dalenius.place.permutation import KeyedPermutations, Unsigned, narrow_type

_BLOCK = 2**16  # records that are placed together: their arrays stay in the processor's cache
_LONG_RUN = 2**11  # from here on, records of one value are placed by themselves


class Placement:
    """Where every record goes: a function of (value, rank) and the key, the same on every engine."""

    def __init__(self, parts: Sequence[Partition], key: bytes, marks: Marks | None = None) -> None:
        fakes = parts[0].fake_values
        if marks is None and fakes:
            raise ValueError(f"{fakes:,} fake values in every bucket, and no marks that say which")
        self._marks = marks if fakes else None
        self._permutations = KeyedPermutations(key, [sum(row) for part in parts for row in part.quotas])
        self._cells = _Cells(parts)

    def buckets(self, values: npt.NDArray[np.integer], starts: Integers) -> tuple[Integers, Integers]:
        """Place a batch: the order in which its records are handled, and the bucket of each in that order.

        `values[k]` is the value of record k, and `starts[i]` is how many records of value i came before this batch.
        """
        order = np.argsort(values, kind="stable")
        counts = np.bincount(values, minlength=len(starts))
        begins = np.cumsum(counts) - counts
        buckets = np.empty(len(values), dtype=np.int64)
        placed = 0
        for value in np.flatnonzero(counts >= _LONG_RUN).tolist():
            first, count = int(begins[value]), int(counts[value])
            self._place_mixed(buckets, values, order, starts - begins, slice(placed, first))
            self._place_run(buckets, value, int(starts[value]), slice(first, first + count))
            placed = first + count
        self._place_mixed(buckets, values, order, starts - begins, slice(placed, len(values)))
        return order, buckets

    def _place_run(self, buckets: Integers, value: int, start: int, where: slice) -> None:
        """Records of one value, the first of them with rank `start`."""
        for first in range(where.start, where.stop, _BLOCK):
            count = min(_BLOCK, where.stop - first)
            slots = self._permutations.run(value, start + first - where.start, count)
            if self._marks is not None:
                slots = self._marks.real_slots(value, slots)
            buckets[first : first + count] = self._cells.run(value, slots)

    def _place_mixed(
        self, buckets: Integers, values: npt.NDArray[np.integer], order: Integers, shifts: Integers, where: slice
    ) -> None:
        """Records of several values, in their order: the rank of each is its place and the shift of its value."""
        for first in range(where.start, where.stop, _BLOCK):
            last = min(first + _BLOCK, where.stop)
            which = values.take(order[first:last]).astype(np.intp)
            ranks = shifts.take(which)
            ranks += np.arange(first, last)
            slots = self._permutations(which, ranks)
            if self._marks is not None:
                slots = self._marks.real_slots(which, slots)
            buckets[first:last] = self._cells.buckets(which, slots)


def _quotas(parts: Sequence[Partition]) -> tuple[Integers, Integers, Integers]:
    """Every quota that is not empty: its value, its size group, how much; by value, and then by group."""
    values, groups, quotas = [], [], []
    first_value = first_group = 0
    for part in parts:
        slots = np.asarray(part.slots, dtype=np.int64)
        value, group = np.nonzero(slots)
        values.append(value + first_value)
        groups.append(group + first_group)
        quotas.append(slots[value, group])
        first_value += len(slots)
        first_group += slots.shape[1]
    return np.concatenate(values), np.concatenate(groups), np.concatenate(quotas)


def _before(amounts: Integers, of: Integers) -> Integers:
    """The sum of the amounts before each one, among neighbours that are `of` the same."""
    sums = np.cumsum(amounts) - amounts
    first = np.flatnonzero(np.diff(of, prepend=-1))
    starts: Integers = np.repeat(sums[first], np.diff(first, append=len(of)))
    return sums - starts


class _Cells:
    """The quotas that are not empty, each a run of a value's slots in one size group, found by binary search."""

    def __init__(self, parts: Sequence[Partition]) -> None:
        value, group, quota = _quotas(parts)
        buckets = np.asarray([one.buckets for part in parts for one in part.setting.groups], dtype=np.int64)
        self._type = narrow_type(2 * int(quota.sum()))
        lengths = np.bincount(value, minlength=sum(len(part.quotas) for part in parts))
        firsts = np.cumsum(lengths) - lengths
        self._levels = (max(int(lengths.max()), 1) - 1).bit_length()
        self._width = 2**self._levels
        place = value * self._width + np.arange(len(value)) - firsts[value]
        start = _before(quota, value)  # slots of the value in earlier groups
        by_group = np.argsort(group, kind="stable")
        before = np.empty_like(quota)  # slots of earlier values in the group
        before[by_group] = _before(quota[by_group], group[by_group])
        shape = len(lengths) * self._width
        self._ends = np.full(shape, np.iinfo(self._type).max, dtype=self._type)  # the first slot after the cell
        self._shifts = np.zeros(shape, dtype=self._type)
        self._number = np.ones(shape, dtype=self._type)
        self._first = np.zeros(shape, dtype=self._type)
        self._ends[place] = start + quota
        self._shifts[place] = (before - start) % buckets[group]
        self._number[place] = buckets[group]
        self._first[place] = (1 + np.cumsum(buckets) - buckets)[group]

    def run(self, value: int, slots: Unsigned) -> Unsigned:
        """The buckets of slots that all belong to one value: few cells, so each slot is compared with each end."""
        cells = slice(value * self._width, (value + 1) * self._width)
        ends = self._ends[cells]
        cell = np.zeros(len(slots), dtype=np.uint16)
        for end in ends[ends < np.iinfo(self._type).max][:-1]:
            cell += slots >= end
        return self._bucket(cell.astype(np.intp), slots, cells)

    def buckets(self, values: npt.NDArray[np.integer], slots: Unsigned) -> Unsigned:
        """The buckets of slots of any values."""
        cell = values.astype(np.intp) * self._width
        for level in reversed(range(self._levels)):
            step = 2**level
            cell += (slots >= self._ends.take(cell + (step - 1))) * np.int64(step)
        return self._bucket(cell, slots)

    def _bucket(self, cell: npt.NDArray[np.intp], slots: Unsigned, cells: slice = slice(None)) -> Unsigned:
        position: Unsigned = self._shifts[cells].take(cell, mode="clip")
        position += slots.astype(self._type, copy=False)
        position %= self._number[cells].take(cell, mode="clip")
        position += self._first[cells].take(cell, mode="clip")
        return position


class SlotMap:
    """The same arithmetic for slots, whoever has them."""

    def __init__(self, parts: Sequence[Partition]) -> None:
        self._cells = _Cells(parts)

    def bucket_of(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> Integers:
        """The bucket of each slot, of the value that is given with it (or one for all)."""
        which, numbers = np.broadcast_arrays(np.asarray(values, dtype=np.int64), np.asarray(slots, dtype=np.int64))
        return self._cells.buckets(which.ravel(), numbers.ravel()).astype(np.int64)


def values_by_bucket(
    parts: Sequence[Partition], rows: int, published: Integers | None = None
) -> Iterator[tuple[Integers, Integers]]:
    """ST from the quotas alone: (bucket, value) of every slot, by bucket and then by value, about `rows` at a time.

    A bucket that is larger than `rows` comes in several pieces, and many small strata come together. Where values are
    dealt in another order than that in which they are published, `published` has the place of each of them there, and
    it is by these places that they come.
    """
    waiting: list[tuple[Integers, Integers]] = []
    number, first_bucket = 0, 1
    for part in parts:
        for buckets, values in _values_of_stratum(part, first_bucket, rows, published):
            waiting.append((buckets, values))
            number += len(buckets)
            if number >= rows:
                yield _join(waiting)
                waiting, number = [], 0
        first_bucket += part.setting.buckets
    if waiting:
        yield _join(waiting)


def values_of_buckets(
    parts: Sequence[Partition], first: int, last: int, rows: int, published: Integers | None = None
) -> Iterator[tuple[Integers, Integers]]:
    """The same for the buckets from `first` up to, but not including, `last`."""
    before = 1
    for part in parts:
        quotas = np.asarray(part.slots, dtype=np.int64)
        for j, group in enumerate(part.setting.groups):
            span = max(first - before, 0), min(last - before, group.buckets)
            if span[0] < span[1]:
                deal = _Deal(quotas[:, j], group.size + part.fake_values, group.buckets, published)
                yield from _values_of_group(deal, before, span, rows)
            before += group.buckets


def _join(pieces: list[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    if len(pieces) == 1:
        return pieces[0]
    buckets, values = zip(*pieces, strict=True)
    return np.concatenate(buckets), np.concatenate(values)


def _values_of_stratum(
    partition: Partition, first_bucket: int, rows: int, published: Integers | None
) -> Iterator[tuple[Integers, Integers]]:
    quotas = np.asarray(partition.slots, dtype=np.int64)
    for j, group in enumerate(partition.setting.groups):
        deal = _Deal(quotas[:, j], group.size + partition.fake_values, group.buckets, published)
        yield from _values_of_group(deal, first_bucket, (0, group.buckets), rows)
        first_bucket += group.buckets


def _values_of_group(
    deal: _Deal, first_bucket: int, span: tuple[int, int], rows: int
) -> Iterator[tuple[Integers, Integers]]:
    """Some buckets of a size group, numbered from 0 within it."""
    step = max(1, rows // deal.size)
    for first in range(*span, step):
        last = min(span[1], first + step)
        for values in deal.values(first, last) if deal.size <= rows else deal.values_of_one(first, rows):
            turns = len(values) // (last - first)
            yield np.repeat(np.arange(first, last) + first_bucket, turns), values


class _Deal:
    """The slots of a size group, dealt to its buckets, which have `size` each."""

    def __init__(self, slots: Integers, size: int, buckets: int, published: Integers | None) -> None:
        self._slots, self._ends, self._published = slots, np.cumsum(slots), published
        self.size, self._buckets = size, buckets

    def values(self, first: int, last: int) -> Iterator[Integers]:
        """The values at the positions t b + k, for k in a span of buckets.

        The value at a position is the number of values whose slots end before it. Each end is marked at the first
        position of the span that is not before it, going turn by turn, and the marks are added up.
        """
        turn_of_end, place = np.divmod(self._ends, self._buckets)
        marks = turn_of_end * (last - first) + np.clip(place, first, last) - first
        length = self.size * (last - first)
        values = np.cumsum(np.bincount(np.clip(marks, 0, length), minlength=length + 1)[:length])
        by_bucket = values.reshape(self.size, last - first).T
        if self._published is not None:
            by_bucket = np.sort(self._published[by_bucket], axis=1)
        yield by_bucket.ravel()

    def values_of_one(self, bucket: int, rows: int) -> Iterator[Integers]:
        """The values of one bucket, some at a time, by how often it has each: once for every turn of its slots."""
        ends = -((bucket - self._ends) // self._buckets)  # positions of the bucket before the end
        often = ends + (bucket - self._ends + self._slots) // self._buckets
        if self._published is not None:
            often = often[np.argsort(self._published)]
        ends = np.cumsum(often)
        for first in range(0, self.size, rows):
            yield np.searchsorted(ends, np.arange(first, min(first + rows, self.size)), side="right")
