"""Exchanges that take fake values away from buckets where they are ruled out (Section 6, negative association).

A fake x in bucket g1 is bad if x is ruled out for a record of g1. An exchange with another bucket g2 of the same size,
in the same stratum,

    g1:  the fake x becomes real, a real slot of y becomes fake        y is not ruled out in g1,
    g2:  the fake y becomes real, a real slot of x becomes fake        x is not ruled out in g2,

leaves ST as it is, and with it all margins: the fakes of each bucket, and those of each value in each size group. Two
records change places: one of x goes from g2 to g1, one of y from g1 to g2. They bring their quasi-identifiers, so that
what is ruled out in g1 and g2 may change, and further rounds may be needed.

For the bad fakes of x in one size group, a candidate is a real slot of x in a bucket where x is not ruled out, with one
fake of that bucket. They are sorted by the value y of that fake. A bad fake takes one at random from those whose y is
real in its bucket and not ruled out there; if there is none, it stays as it is. Each slot is named once in a round, so
that all exchanges can be made together, each by what was known before. A candidate that is used up is dropped when it
is met, so the time is proportional to the slots of values with bad fakes, times the fakes of a bucket.

`RuledOut` says which sensitive values are ruled out in which buckets, by a negative association of any record of the
bucket. It has one bit for every bucket and every value that some negative pair is about: 8 ceil(values / 64) bytes a
bucket, set in one pass over QIT. Pairs are few, so that is mostly 8 bytes (80 MB for 10 million buckets); other values
have no bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.infer.negative import NegativePairs, Words
from dalenius.model.problem import Partition
from dalenius.place.domains import Integers
from dalenius.place.marks import Marks
from dalenius.place.slots import SlotMap

Booleans = npt.NDArray[np.bool_]

_WORD = 64
_BLOCK = 2**16  # slots of buckets with bad fakes that are looked at together


def find_exchanges(
    parts: Sequence[Partition], marks: Marks, ruled_out: RuledOut | AnyRuledOut, rng: Random
) -> Exchanges:
    """A round of exchanges for the bad fakes among the marks. Without any, there are no moves.

    Strata are independent of each other: each has a round of its own.
    """
    values, slots = marks.fake_slots()
    rounds = []
    first_value, first_bucket = 0, 1
    for part in parts:
        here = slice(*np.searchsorted(values, (first_value, first_value + len(part.quotas))).tolist())
        fakes = _Fakes(values[here] - first_value, slots[here])
        exchanges = _Round(part, first_bucket, fakes, ruled_out, rng).run()
        rounds.append(replace(exchanges, moves=exchanges.moves + np.asarray([first_value, 0, 0])))
        first_value += len(part.quotas)
        first_bucket += part.setting.buckets
    return Exchanges(
        moves=np.concatenate([one.moves for one in rounds]),
        bad_before=sum(one.bad_before for one in rounds),
        unresolved=sum(one.unresolved for one in rounds),
        buckets_left=sum(one.buckets_left for one in rounds),
    )


@dataclass(frozen=True)
class Exchanges:
    """One round: the moves that `Marks.move` makes, the bad fakes before, and how many of them stay."""

    moves: Integers
    bad_before: int
    unresolved: int
    buckets_left: int  # with a fake that stays and is bad


def ruled_out_values(batches: Iterable[pa.RecordBatch], pairs: NegativePairs, *, bucket: str, buckets: int) -> RuledOut:
    """The values that the rows of QIT rule out in their buckets.

    A batch needs `pairs.columns` and the bucket, and is best in the order of the buckets.
    """
    words = np.zeros((buckets, -(-len(pairs.concerned) // _WORD)), dtype=np.uint64)
    for batch in batches if len(pairs.concerned) else ():
        numbers = np.asarray(batch[bucket], dtype=np.int64)
        if not len(numbers):
            continue
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        np.bitwise_or.at(words, numbers[starts] - 1, np.bitwise_or.reduceat(pairs.words(batch), starts, axis=0))
    return RuledOut(pairs.values, pairs.concerned, words)


class RuledOut:
    """Whether a value, by its place in the manifest, is ruled out in a bucket, numbered from 1."""

    def __init__(self, values: int, concerned: Integers, words: Words) -> None:
        self._place = np.full(values, -1, dtype=np.int64)  # of the bit of each value
        self._place[concerned] = np.arange(len(concerned))
        self._words = words

    def of(self, buckets: npt.ArrayLike, values: npt.ArrayLike) -> Booleans:
        """Whether each value is ruled out in the bucket that goes with it (or one for all)."""
        bucket, value = np.broadcast_arrays(np.asarray(buckets, dtype=np.int64), np.asarray(values, dtype=np.int64))
        place = self._place[value]
        is_ruled_out = np.zeros(value.shape, dtype=np.bool_)
        known = place >= 0
        word, bit = np.divmod(place[known], _WORD)
        is_ruled_out[known] = self._words[bucket[known] - 1, word] >> bit.astype(np.uint64) & np.uint64(1)
        return is_ruled_out


class AnyRuledOut:
    """Ruled out by any of several."""

    def __init__(self, several: Sequence[RuledOut]) -> None:
        self._several = several

    def of(self, buckets: npt.ArrayLike, values: npt.ArrayLike) -> Booleans:
        """As `RuledOut.of`."""
        is_ruled_out: Booleans = np.logical_or.reduce([one.of(buckets, values) for one in self._several])
        return is_ruled_out


class Random(Protocol):
    """A source of randomness: `secrets.SystemRandom()`, or `random.Random(seed)` for tests."""

    def randrange(self, start: int, stop: int, /) -> int:
        """A random whole number from `start` to `stop` - 1."""


@dataclass(frozen=True)
class _Fakes:
    """The fakes of a stratum: by value, and then by slot."""

    values: Integers
    slots: Integers


class _Candidates:
    """Slots and fakes, in one stretch for each value of the fakes; what is drawn is gone."""

    def __init__(self, slots: Integers, fakes: Integers, values: Integers) -> None:
        order = np.argsort(values, kind="stable")
        self._slots, self._fakes = slots[order], fakes[order]
        different, starts, lengths = np.unique(values[order], return_index=True, return_counts=True)
        self._starts = dict(zip(different.tolist(), starts.tolist(), strict=True))
        self.lengths: dict[int, int] = dict(zip(different.tolist(), lengths.tolist(), strict=True))

    def draw(self, value: int, turn: int) -> tuple[int, int]:
        """One of those with this value; the last one takes its place."""
        self.lengths[value] -= 1
        place, last = self._starts[value] + turn, self._starts[value] + self.lengths[value]
        candidate = int(self._slots[place]), int(self._fakes[place])
        self._slots[place], self._fakes[place] = self._slots[last], self._fakes[last]
        return candidate


class _Round:
    def __init__(
        self,
        partition: Partition,
        first_bucket: int,
        fakes: _Fakes,
        ruled_out: RuledOut | AnyRuledOut,
        rng: Random,
    ) -> None:
        self._ruled_out, self._rng, self._sigma = ruled_out, rng, partition.fake_values
        self._groups = partition.setting.groups
        self._slots = np.asarray(partition.slots, dtype=np.int64)
        self._start = np.cumsum(self._slots, axis=1) - self._slots  # of a value's slots in each group
        self._before = np.cumsum(self._slots, axis=0) - self._slots  # slots of earlier values in the group
        own = self._slots.sum(axis=1)
        self._first = np.cumsum(own) - own  # slots of earlier values: first + slot is a number for every slot
        number = np.asarray([group.buckets for group in self._groups], dtype=np.int64)
        self._first_bucket = first_bucket + np.cumsum(number) - number
        self._map = SlotMap([partition])
        values, slots = fakes.values, fakes.slots
        buckets = self._bucket_of(values, slots)
        order = np.argsort(buckets, kind="stable")  # sigma fakes for each bucket, from the first on
        self._values, self._fakes, self._buckets = values[order], slots[order], buckets[order]
        self._numbers = self._first[values] + slots  # ascending, as `fake_slots` has them
        self._bad = ruled_out.of(self._buckets, self._values)
        self._used = np.zeros(len(order), dtype=np.bool_)
        self._taken: set[int] = set()  # numbers of real slots that become fake
        self._moves: list[tuple[int, int, int]] = []

    def run(self) -> Exchanges:
        bad = np.flatnonzero(self._bad)
        group = np.searchsorted(self._first_bucket, self._buckets[bad], side="right") - 1
        cell = group * len(self._slots) + self._values[bad]
        order = np.argsort(cell, kind="stable")
        cells, firsts = np.unique(cell[order], return_index=True)
        parts = np.split(bad[order], firsts[1:]) if len(bad) else []
        for k in self._shuffle(len(cells)):
            j, value = divmod(int(cells[k]), len(self._slots))
            self._exchange(j, value, parts[k])
        left = self._bad & ~self._used
        moves = np.asarray(self._moves, dtype=np.int64).reshape(-1, 3)
        return Exchanges(
            moves=moves,
            bad_before=len(bad),
            unresolved=int(left.sum()),
            buckets_left=len(np.unique(self._buckets[left])),
        )

    def _exchange(self, j: int, value: int, bad: Integers) -> None:
        """The bad fakes of one value in one size group."""
        candidates = self._candidates(j, value)
        for fake, offered in self._offers(j, bad[self._shuffle(len(bad))]):
            if self._used[fake]:
                continue
            candidate = self._pick(value, candidates, list(offered))
            if candidate is None:
                continue
            slot, other = candidate
            theirs = int(self._values[other])
            self._moves.append((value, int(self._fakes[fake]), slot))
            self._moves.append((theirs, int(self._fakes[other]), offered[theirs]))
            self._used[[fake, other]] = True
            self._taken.add(int(self._first[value]) + slot)
            self._taken.add(int(self._first[theirs]) + offered[theirs])

    def _pick(self, value: int, candidates: _Candidates, offered: list[int]) -> tuple[int, int] | None:
        """A random candidate with one of these values, none of its slots named yet: its slot, and its fake."""
        while total := sum(candidates.lengths.get(y, 0) for y in offered):
            turn = self._rng.randrange(0, total)
            for y in offered:
                if turn < candidates.lengths.get(y, 0):
                    break
                turn -= candidates.lengths.get(y, 0)
            slot, fake = candidates.draw(y, turn)
            if not self._used[fake] and int(self._first[value]) + slot not in self._taken:
                return slot, fake
        return None

    def _candidates(self, j: int, value: int) -> _Candidates:
        """Real slots of the value in the group, where it is not ruled out, with each fake of their buckets."""
        slots = self._start[value, j] + np.arange(self._slots[value, j])
        slots = slots[~self._are_fake(self._first[value] + slots)]
        buckets = self._bucket_of(value, slots)
        fit = ~self._ruled_out.of(buckets, value)
        fakes = ((buckets[fit, None] - self._first_bucket[0]) * self._sigma + np.arange(self._sigma)).ravel()
        return _Candidates(np.repeat(slots[fit], self._sigma), fakes, self._values[fakes])

    def _offers(self, j: int, bad: Integers) -> Iterator[tuple[int, dict[int, int]]]:
        """Each bad fake, with the values that are real in its bucket and not ruled out, each with one of its slots.

        The bucket k of group j has the positions t b + k (`place.slots`); which slots they are follows from there.
        """
        number, size = self._groups[j].buckets, self._groups[j].size + self._sigma
        ends = np.cumsum(self._slots[:, j])
        block = max(1, _BLOCK // size)
        for start in range(0, len(bad), block):
            part = bad[start : start + block]
            buckets = np.repeat(self._buckets[part], size)
            positions = np.tile(np.arange(size) * number, len(part)) + buckets - self._first_bucket[j]
            values = np.searchsorted(ends, positions, side="right")
            slots = positions - self._before[values, j] + self._start[values, j]
            numbers = self._first[values] + slots
            fit = ~self._are_fake(numbers) & ~self._ruled_out.of(buckets, values)
            shape = (len(part), size)
            columns = (array.reshape(shape).tolist() for array in (fit, values, slots, numbers))
            for fake, *lines in zip(part.tolist(), *columns, strict=True):
                offered = {v: s for ok, v, s, x in zip(*lines, strict=True) if ok and x not in self._taken}
                yield fake, offered

    def _bucket_of(self, values: npt.ArrayLike, slots: Integers) -> Integers:
        """The buckets of slots; those of the stratum follow on those of the strata before."""
        return self._map.bucket_of(values, slots) + (int(self._first_bucket[0]) - 1)

    def _are_fake(self, numbers: Integers) -> npt.NDArray[np.bool_]:
        place = np.minimum(np.searchsorted(self._numbers, numbers), max(len(self._numbers) - 1, 0))
        are_fake: npt.NDArray[np.bool_] = self._numbers[place] == numbers
        return are_fake

    def _shuffle(self, number: int) -> list[int]:
        order = list(range(number))
        for last in range(number - 1, 0, -1):
            pick = self._rng.randrange(0, last + 1)
            order[last], order[pick] = order[pick], order[last]
        return order
