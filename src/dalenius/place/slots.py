"""Placement is arithmetic: the bucket of a record from its value and its rank among that value's records.

Value i has o_i slots, numbered 0 .. o_i - 1. A quota a_ij of them lies in size group j, whose b_j buckets of size S_j
are numbered from first_j. Round-robin assignment (RRA, Section 4.1) deals the slots of the group out in the order of
the values: slot t of the quota is at position P_ij + t, where P_ij counts the slots of earlier values in the group, and
position p is in bucket first_j + (p mod b_j). The positions of a bucket are b_j apart, so it holds S_j records, and
floor or ceil(a_ij / b_j) of each value.

The record of rank r gets slot pi_i(r), with pi_i a keyed random permutation: nothing is left of the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dalenius.model.setting import Partition
from dalenius.place.permutation import KeyedPermutations, Unsigned, narrow_type

Integers = npt.NDArray[np.int64]

_BLOCK = 2**16  # records that are placed together: their arrays stay in the processor's cache


class Placement:
    """Where every record goes: a function of (value, rank) and the key, the same on every engine."""

    def __init__(self, partition: Partition, key: bytes) -> None:
        quotas = np.asarray(partition.quotas, dtype=np.int64)
        sizes = quotas.sum(axis=1)
        self._permuted = KeyedPermutations(key, [int(size) for size in sizes])
        self._cells = _Cells(partition)

    def buckets(self, values: npt.NDArray[np.integer], starts: Integers) -> tuple[Integers, Integers]:
        """Place a batch: the order in which its records are handled, and the bucket of each in that order.

        `values[k]` is the value of record k, and `starts[i]` is how many records of value i came before this batch.
        """
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        counts = np.bincount(values, minlength=len(starts))
        shift = starts - np.concatenate(([0], np.cumsum(counts)[:-1]))
        buckets = np.empty(len(values), dtype=np.int64)
        for first in range(0, len(values), _BLOCK):
            block = ordered[first : first + _BLOCK]
            ranks = shift.take(block)
            ranks += np.arange(first, first + len(block))
            slots = self._permuted(block, ranks)
            buckets[first : first + len(block)] = self._cells.buckets(block, slots)
        return order, buckets


class _Cells:
    """The quotas that are not empty, each a run of a value's slots in one size group, found by binary search."""

    def __init__(self, partition: Partition) -> None:
        quotas = np.asarray(partition.quotas, dtype=np.int64)
        self._type = narrow_type(2 * int(quotas.sum()))
        used = quotas > 0
        widest = int(used.sum(axis=1).max())
        self._levels = (widest - 1).bit_length()
        self._width = 2**self._levels
        shape = (len(quotas), self._width)
        largest = np.iinfo(self._type).max
        ends = np.full(shape, largest, dtype=self._type)  # the first slot after the cell
        shifts = np.zeros(shape, dtype=self._type)
        number = np.ones(shape, dtype=self._type)
        first = np.zeros(shape, dtype=self._type)
        before = np.cumsum(quotas, axis=0) - quotas
        start = np.cumsum(quotas, axis=1) - quotas
        first_bucket = 1
        place = np.cumsum(used, axis=1) - 1
        for j, group in enumerate(partition.setting.groups):
            rows = np.flatnonzero(used[:, j])
            cell = (rows, place[rows, j])
            ends[cell] = start[rows, j] + quotas[rows, j]
            shifts[cell] = (before[rows, j] - start[rows, j]) % group.buckets
            number[cell] = group.buckets
            first[cell] = first_bucket
            first_bucket += group.buckets
        self._ends, self._shifts, self._number, self._first = (
            ends.ravel(),
            shifts.ravel(),
            number.ravel(),
            first.ravel(),
        )

    def buckets(self, values: npt.NDArray[np.integer], slots: Unsigned) -> Unsigned:
        cell = values.astype(np.int64) * self._width
        for level in reversed(range(self._levels)):
            step = 2**level
            cell += (slots >= self._ends.take(cell + (step - 1))) * np.int64(step)
        position: Unsigned = self._shifts.take(cell)
        position += slots.astype(self._type)
        position %= self._number.take(cell)
        position += self._first.take(cell)
        return position


def values_by_bucket(partition: Partition, rows: int) -> Iterator[tuple[Integers, Integers]]:
    """ST from the quotas alone: (bucket, value) of every slot, by bucket and then by value, about `rows` at a time.

    A bucket that is larger than `rows` comes in several pieces.
    """
    first_bucket = 1
    for j, group in enumerate(partition.setting.groups):
        ends = np.cumsum([row[j] for row in partition.quotas])
        for first in range(0, group.buckets, max(1, rows // group.size)):
            last = min(group.buckets, first + max(1, rows // group.size))
            for turn in range(0, group.size, rows):
                turns = min(group.size, turn + rows) - turn
                buckets = np.repeat(np.arange(first, last) + first_bucket, turns)
                yield buckets, _dealt(ends, group.buckets, (first, last), (turn, turns))
        first_bucket += group.buckets


def _dealt(ends: Integers, buckets: int, span: tuple[int, int], deal: tuple[int, int]) -> Integers:
    """The values at the positions t b + k: for k in a span of buckets, and some turns t from the first of `deal` on.

    The value at a position is the number of values whose slots end before it. Each end is marked at the first position
    of the piece that is not before it, going turn by turn, and the marks are added up.
    """
    (first, last), (turn, turns) = span, deal
    turn_of_end, place = np.divmod(ends, buckets)
    marks = (turn_of_end - turn) * (last - first) + np.clip(place, first, last) - first
    length = turns * (last - first)
    values = np.cumsum(np.bincount(np.clip(marks, 0, length), minlength=length + 1)[:length])
    return values.reshape(turns, last - first).T.ravel()
