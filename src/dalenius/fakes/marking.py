"""The draw of the fake slots: over-fill the buckets, then mark.

ST is dealt round-robin from the inflated quotas a'_ij = a_ij + phi_ij: b_j buckets of S_j + sigma slots each
(slots.py). Then sigma slots of every bucket are marked as fake, phi_ij of them of value i in size group j, and the
records of value i take its other slots. The marks are drawn uniformly from all sets of slots with these margins, so
nothing but the margins is to be learned from them: to somebody who knows ST, QIT, the rule, and even every phi_ij,
every way of marking is as likely as every other, and with it every way of giving the unmarked slots of a bucket to its
records.

How a size group is drawn, for positions p = t b + k (turn t, bucket k, the numbering of slots.py):

1. sigma of the S + sigma turns for each bucket, uniformly and independently. That would be all, but for the totals.
2. Repair. Some values have too many marks, some too few. A surplus of v goes from a random mark of v to a random slot
   of the same bucket, and so to another value; a deficit of v takes a random mark in a bucket with a free slot of v,
   and so goes to the value of that mark. They wander until they meet. Where that takes too long, a shortest augmenting
   path over the values settles one unit (v_1 is marked and v_2 free in some bucket, v_2 marked and v_3 free in some
   bucket, ...); if there is none, no marks have these margins (Ford and Fulkerson).
3. Forget the repair, by a Markov chain. It takes l different buckets g_1 .. g_l, a mark of each, of values v_1 .. v_l,
   and hands each on to the next bucket: g_(i+1) gets a mark on one of its slots of value v_i. The slot is drawn from
   2^e >= ceil(a' / b) places, whatever the bucket holds of v_i; the move is rejected if one of the places is no free
   slot, and otherwise made with probability 1/2. The way back is proposed with the same probability, so the uniform
   distribution is stationary. Two sets of marks with the same margins differ by cycles through at most min(b, m)
   buckets and as many values, and every such length has its chance, so every set can be reached. Which buckets turn
   together does not depend on the marks, so whole rounds of disjoint cycles are made at a time. Rare values have their
   slots in neighbouring buckets, so half of the rounds take their cycles from short stretches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dalenius.errors import SelfCheckError
from dalenius.model.problem import Partition
from dalenius.place.domains import Integers
from dalenius.place.marks import Marks
from dalenius.place.permutation import KeyStream, Purpose

Turns = npt.NDArray[np.int32]

_BLOCK = 2**15  # cycles that are moved together: their arrays stay in the processor's cache
_ROUNDS = 32  # of the chain, for each mark of a bucket
_PATIENCE = 64  # steps of the repair without progress, beyond one for each value


def draw_marks(parts: Sequence[Partition], key: bytes) -> Marks:
    """Random marks with the margins of the partitions: sigma in a bucket, `fakes[i][j]` of value i in size group j.

    There is one partition a stratum, as in slots.py. A `SelfCheckError` if no marks have these margins.
    """
    slots_by_value, numbers_of_fakes = [], []
    before = groups = 0
    for part in parts:
        slots, numbers = _marks_of_stratum(part, key, groups)
        slots_by_value.append(slots)
        numbers_of_fakes.append(numbers + before)
        before += int(slots.sum())
        groups += len(part.setting.groups)
    return Marks(np.concatenate(slots_by_value), np.concatenate(numbers_of_fakes))


def _marks_of_stratum(partition: Partition, key: bytes, groups: int) -> tuple[Integers, Integers]:
    """The slots of each value, and the numbers of those that are fake; `groups` size groups had their streams."""
    slots = np.asarray(partition.slots, dtype=np.int64)
    fakes = np.asarray(partition.fakes, dtype=np.int64) if partition.fakes else np.zeros_like(slots)
    own = slots.sum(axis=1)
    shift = (np.cumsum(own) - own)[:, None] + np.cumsum(slots, axis=1) - slots - (np.cumsum(slots, axis=0) - slots)
    numbers = np.empty(int(fakes.sum()), dtype=np.int64)
    filled = 0
    for j, group in enumerate(partition.setting.groups if partition.fakes else ()):
        stream = KeyStream(key, Purpose.MARKS, groups + j)
        for values, positions in _Group(slots[:, j], fakes[:, j], group.buckets, stream).marks():
            numbers[filled : filled + len(positions)] = positions + shift[values, j]
            filled += len(positions)
    numbers.sort()
    return own, numbers


class _Group:
    """The marks of one size group: one column a bucket, and a row for each of its sigma marks."""

    def __init__(self, slots: Integers, fakes: Integers, buckets: int, stream: KeyStream) -> None:
        self._slots, self._buckets, self._stream = slots, buckets, stream
        self._turns, rest = divmod(int(slots.sum()), buckets)
        self._sigma, odd = divmod(int(fakes.sum()), buckets)
        if rest or odd or (fakes < 0).any() or (fakes > slots).any():
            raise SelfCheckError(f"{fakes.sum():,} fake values and {slots.sum():,} slots for {buckets:,} buckets")
        self._ends = np.cumsum(slots)
        turn, rest_of = np.divmod(np.concatenate(([0], self._ends)), buckets)
        self._turn_of, self._rest_of = turn.astype(np.int32), rest_of
        longest = np.maximum(-(-slots // buckets), 1).tolist()
        self._places = np.asarray([2 ** (most - 1).bit_length() - 1 for most in longest], dtype=np.uint32)
        self._marks: Turns = np.empty((self._sigma, buckets), dtype=np.int32)
        self._values: Turns = np.empty((self._sigma, buckets), dtype=np.int32)
        self._draw()
        self._repair(fakes)
        self._mix()

    def marks(self) -> Iterator[tuple[Turns, Integers]]:
        """Values and positions of the marks, some at a time."""
        for span, buckets in self._blocks():
            for turns, values in zip(self._marks[:, span], self._values[:, span], strict=True):
                yield values, turns * np.int64(self._buckets) + buckets

    def _blocks(self) -> Iterator[tuple[slice, Integers]]:
        for first in range(0, self._buckets, _BLOCK):
            last = min(first + _BLOCK, self._buckets)
            yield slice(first, last), np.arange(first, last)

    def _value_at(self, turns: npt.NDArray[np.integer], buckets: Integers) -> npt.NDArray[np.intp]:
        return np.searchsorted(self._ends, turns * np.int64(self._buckets) + buckets, side="right")

    # 1. independent draws

    def _draw(self) -> None:
        """A uniform subset of the turns for each bucket, by Floyd's algorithm."""
        for span, buckets in self._blocks():
            for row in range(self._sigma):
                last = self._turns - self._sigma + row
                drawn = self._stream.below(last + 1, len(buckets)).astype(np.int32)
                drawn[(self._marks[:row, span] == drawn).any(axis=0)] = last
                self._marks[row, span] = drawn
                self._values[row, span] = self._value_at(drawn, buckets)

    # 2. repair

    def _repair(self, fakes: Integers) -> None:
        excess = np.bincount(self._values.ravel(), minlength=len(fakes)) - fakes
        least, idle = int(np.abs(excess).sum()), 0
        while least and idle < _PATIENCE + len(fakes):
            self._wander(excess, surplus=True)
            self._wander(excess, surplus=False)
            left = int(np.abs(excess).sum())
            least, idle = (left, 0) if left < least else (least, idle + 1)
        while excess.any():
            self._augment(excess)

    def _wander(self, excess: Integers, surplus: bool) -> None:
        """Try to hand on each surplus mark, or each missing one, to another value of a bucket that holds both."""
        units = np.repeat(np.arange(len(excess)), np.maximum(excess if surplus else -excess, 0))[:_BLOCK]
        turns, buckets = np.divmod(self._ends[units] - 1 - self._up_to(self._slots[units]), self._buckets)
        _, apart = np.unique(buckets, return_index=True)
        turns, buckets = turns[apart].astype(np.int32), buckets[apart]
        marked = self._marks[:, buckets] == turns
        fit = np.flatnonzero(marked.any(axis=0) == surplus)
        turns, buckets = turns[fit], buckets[fit]
        if surplus:
            rows = marked[:, fit].argmax(axis=0)
            turns = self._stream.below(self._turns, len(fit)).astype(np.int32)
            free = (self._marks[:, buckets] != turns).all(axis=0)
            rows, turns, buckets = rows[free], turns[free], buckets[free]
        else:
            rows = self._stream.below(self._sigma, len(fit)).astype(np.intp)
        self._move(excess, rows, buckets, turns)

    def _up_to(self, bounds: Integers) -> Integers:
        """Random integers below the bounds, near enough to uniform where the chain has the last word."""
        fractions = self._stream.words(len(bounds)) * 2.0**-64
        return np.minimum((fractions * bounds).astype(np.int64), bounds - 1)

    def _move(self, excess: Integers, rows: npt.NDArray[np.intp], buckets: Integers, turns: Turns) -> None:
        """Other turns for some marks, no two of the same bucket."""
        np.subtract.at(excess, self._values[rows, buckets], 1)
        self._marks[rows, buckets] = turns
        self._values[rows, buckets] = self._value_at(turns, buckets)
        np.add.at(excess, self._values[rows, buckets], 1)

    def _augment(self, excess: Integers) -> None:
        """One unit from a surplus to a deficit, along a shortest path over the values."""
        queue = np.flatnonzero(excess > 0).tolist()
        source: dict[int, tuple[int, int, int, int]] = {}  # value: the one before; row, bucket and turn of the move
        seen = excess > 0
        for value in queue:  # grows on the way
            for row, bucket, turn, other in self._exchanges(value, seen):
                source[other] = (value, row, bucket, turn)
                queue.append(other)
                if excess[other] < 0:
                    moves = []
                    while other in source:
                        other, *move = source[other]
                        moves.append(move)
                    for row, bucket, turn in moves:
                        self._move(excess, np.asarray([row]), np.asarray([bucket]), np.asarray([turn], np.int32))
                    return
        raise SelfCheckError(
            f"no choice of {self._sigma:,} fake slots in each of {self._buckets:,} buckets has the totals of its values"
        )

    def _exchanges(self, value: int, seen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int, int, int]]:
        """For every value not yet seen that is free where `value` is marked: row, bucket, turn, and that value."""
        rows, buckets = np.nonzero(self._values == value)
        width = max(1, _BLOCK // self._turns)
        for first in range(0, len(rows), width):
            row, bucket = rows[first : first + width], buckets[first : first + width]
            turns = np.arange(self._turns)[:, None]
            values = self._value_at(turns, bucket)
            fresh = ~seen[values]
            fresh[self._marks[:, bucket], np.arange(len(bucket))] = False
            turn, place = np.nonzero(fresh)
            others, chosen = np.unique(values[turn, place], return_index=True)
            seen[others] = True
            for other, k in zip(others.tolist(), chosen.tolist(), strict=True):
                yield int(row[place[k]]), int(bucket[place[k]]), int(turn[k]), other

    # 3. the chain

    def _mix(self) -> None:
        """Rounds of disjoint cycles: how many buckets each has, from stretches of which length, and which marks."""
        longest = min(self._buckets, int((self._slots > 0).sum()))
        if longest < 2 or self._sigma == self._turns:
            return
        for word in self._stream.words(_ROUNDS * self._sigma).tolist():
            length = min(2 + ((word & -word).bit_length() - 1 if word else 64), longest)
            scales = (self._buckets // length).bit_length()
            stretch = self._buckets >> max(0, int(self._stream.below(2 * scales, 1)[0]) - scales)
            rows = self._stream.below(self._sigma, length).astype(np.intp)[:, None]
            backwards = word >> 63
            for buckets in self._cycles(length, stretch):
                self._turn(buckets, rows, -1 if backwards else 1)

    def _cycles(self, length: int, stretch: int) -> Iterator[Integers]:
        """Disjoint cycles, a column each: one bucket from each of `length` equal parts of every stretch."""
        part = stretch // length
        shifts = self._stream.below(part, length).astype(np.int64)[:, None]
        start = int(self._stream.below(self._buckets, 1)[0])
        parts = start + part * np.arange(length)[:, None]
        number = self._buckets // stretch * part
        for first in range(0, number, _BLOCK):
            which, place = np.divmod(np.arange(first, min(first + _BLOCK, number)), part)
            places = shifts + place
            places -= part * (places >= part)
            places += parts
            places += stretch * which
            places -= self._buckets * (places >= self._buckets)
            yield places

    def _turn(self, buckets: Integers, rows: npt.NDArray[np.intp], direction: int) -> None:
        """Turn each cycle of marks by one bucket, where it can be."""
        handed_on = np.roll(self._values[rows, buckets], direction, axis=0)
        random = self._stream.halves(buckets.size).reshape(buckets.shape)
        turns = (random & self._places[handed_on]).astype(np.int32)
        turns += self._turn_of[handed_on]
        turns += self._rest_of[handed_on] > buckets
        following = handed_on + 1
        fit = turns < self._turn_of[following] + (self._rest_of[following] > buckets)
        some = np.flatnonzero(fit.all(axis=0) & (random[0] >> np.uint32(31) == 0))
        turns, buckets, handed_on = turns[:, some], buckets[:, some], handed_on[:, some]
        free = np.flatnonzero((self._marks[:, buckets] != turns).all(axis=(0, 1)))
        self._marks[rows, buckets[:, free]] = turns[:, free]
        self._values[rows, buckets[:, free]] = handed_on[:, free]
