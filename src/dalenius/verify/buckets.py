"""Whole buckets out of a stream of rows in ascending order of bucket.

What is carried from batch to batch is the bucket that may still go on, as run lengths: one number a value in it,
however many rows it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Condition

import numpy as np
import numpy.typing as npt

from dalenius.model.memory import ReadingMemory

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


class NotAscendingError(Exception):
    """A bucket comes after a larger one, so no bucket can be told to be whole."""


@dataclass(frozen=True)
class WholeBuckets:
    """Buckets in ascending order, and what they hold: `counts[k]` rows of the value `codes[k]` in run k.

    The runs of bucket j are those from `first_runs[j]` to the next bucket's; no value has two runs in a bucket. Where
    `codes` are of groups, a bucket may have no run at all, and values of nested groups count several times.
    """

    numbers: Integers
    sizes: Integers
    first_runs: Integers
    codes: Codes
    counts: Integers

    def of_runs(self, by_bucket: Integers) -> Integers:
        """A number a bucket as a number a run."""
        return np.repeat(by_bucket, _lengths(self.first_runs, len(self.counts)))


class PresentRows:
    """How many rows of QIT each bucket of a chain has, where places are free: who reads ST asks for it.

    Both tables are read at the same time, in the order of buckets, and whoever is ahead in ST waits.
    """

    def __init__(self, buckets: int, memory: ReadingMemory) -> None:
        memory.require(8 * buckets, memory.state, "how many rows each bucket has")
        self._rows = np.zeros(buckets + 1, np.int64)
        self._until = 0
        self._changed = Condition()

    def add(self, buckets: WholeBuckets) -> None:
        """The next buckets of QIT, their numbers ascending."""
        inside = (buckets.numbers >= 1) & (buckets.numbers < len(self._rows))
        self._rows[buckets.numbers[inside]] = buckets.sizes[inside]
        if len(buckets.numbers):
            self._reach(int(buckets.numbers[-1]))

    def finish(self) -> None:
        """QIT has no further bucket, or none that can be read."""
        self._reach(len(self._rows))

    def of(self, buckets: Integers) -> Integers:
        """The rows of some buckets, ascending."""
        if len(buckets):
            last = min(int(buckets[-1]), len(self._rows))
            with self._changed:
                self._changed.wait_for(lambda: self._until >= last)
        return self._rows.take(buckets, mode="clip")

    def _reach(self, bucket: int) -> None:
        with self._changed:
            self._until = max(self._until, bucket)
            self._changed.notify_all()


@dataclass(frozen=True)
class _Runs:
    buckets: Integers
    codes: Codes
    counts: Integers

    def part(self, start: int, stop: int | None = None) -> _Runs:
        return _Runs(self.buckets[start:stop], self.codes[start:stop], self.counts[start:stop])


_NOTHING = _Runs(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


class BucketStream:
    """Cuts batches of rows into whole buckets."""

    def __init__(self) -> None:
        self._open = _NOTHING

    def add(self, buckets: Integers, codes: Codes | None = None) -> Iterator[WholeBuckets]:
        """The buckets that end in this batch. Without codes only the buckets' sizes are of interest."""
        if len(buckets) == 0:
            return
        changes = buckets[1:] != buckets[:-1]
        if codes is not None:
            changes |= codes[1:] != codes[:-1]
        starts = _starts(changes)
        run_codes = codes[starts] if codes is not None else np.zeros(len(starts), np.int32)
        runs = _one_run_a_value(_Runs(buckets[starts], run_codes, _lengths(starts, len(buckets))))
        first_end = int(np.searchsorted(runs.buckets, runs.buckets[0], side="right"))
        last_start = int(np.searchsorted(runs.buckets, runs.buckets[-1]))
        self._open = _one_run_a_value(_join(self._open, runs.part(0, first_end)))
        if last_start > 0:
            yield _whole(self._open)
            yield _whole(runs.part(first_end, last_start))
            self._open = runs.part(last_start)
        else:  # the whole batch is one bucket: the one that was open, or the next
            cut = int(np.searchsorted(self._open.buckets, runs.buckets[0]))
            yield _whole(self._open.part(0, cut))
            self._open = self._open.part(cut)

    def finish(self) -> WholeBuckets:
        """The last bucket, after the last batch."""
        rest, self._open = self._open, _NOTHING
        return _whole(rest)


def _starts(changes: npt.NDArray[np.bool_]) -> Integers:
    """Where stretches start: at the first row, and after every row that differs from the next."""
    places = np.flatnonzero(changes)
    starts = np.zeros(len(places) + 1, np.int64)
    np.add(places, 1, out=starts[1:])
    return starts


def _lengths(starts: Integers, end: int) -> Integers:
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths


def _join(before: _Runs, after: _Runs) -> _Runs:
    return _Runs(
        np.concatenate((before.buckets, after.buckets)),
        np.concatenate((before.codes, after.codes)),
        np.concatenate((before.counts, after.counts)),
    )


def _one_run_a_value(runs: _Runs) -> _Runs:
    """The same runs with each value once a bucket; only those of a table out of order have to be sorted for it."""
    same = runs.buckets[1:] == runs.buckets[:-1]
    if np.any(runs.buckets[1:] < runs.buckets[:-1]):
        raise NotAscendingError
    if not np.any(same & (runs.codes[1:] <= runs.codes[:-1])):
        return runs
    order = np.lexsort((runs.codes, runs.buckets))
    buckets, codes, counts = runs.buckets[order], runs.codes[order], runs.counts[order]
    changes = (buckets[1:] != buckets[:-1]) | (codes[1:] != codes[:-1])
    starts = _starts(changes)
    return _Runs(buckets[starts], codes[starts], np.add.reduceat(counts, starts))


def _whole(runs: _Runs) -> WholeBuckets:
    if not len(runs.counts):
        nothing = np.empty(0, np.int64)
        return WholeBuckets(nothing, nothing, nothing, runs.codes, runs.counts)
    firsts = _starts(runs.buckets[1:] != runs.buckets[:-1])
    return WholeBuckets(runs.buckets[firsts], np.add.reduceat(runs.counts, firsts), firsts, runs.codes, runs.counts)
