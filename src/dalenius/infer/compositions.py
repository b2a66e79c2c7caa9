"""Classes of buckets with the same composition, found in one pass over ST in bounded memory.

A composition is how often each value is in a bucket, real or fake. The placement deals values out in turn, so that
buckets of one composition have consecutive numbers, and compositions are few. What is kept is a run (first bucket,
class) for every change of composition, the compositions, and the part of a bucket that the next batch may go on with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.learned import MOST_CLASSES, MOST_VALUES

MOST_RUNS = 2**18
_CODES = 2**11  # more than MOST_VALUES: a bucket and a code in one number
_MOST_BUCKET = 2**51

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class UnsupportedError(Exception):
    """No estimate can be learned from this release; the text says why."""


@dataclass(frozen=True)
class Compositions:
    """The classes: slots by class and value; the runs, from each first bucket to the next run's; buckets by class."""

    slots: Floats
    firsts: Integers
    classes: Integers
    buckets: Integers

    def of(self, buckets: Integers) -> Integers:
        """The class of each bucket."""
        found: Integers = self.classes[np.searchsorted(self.firsts, buckets, side="right") - 1]
        return found


def compositions(batches: Iterable[tuple[Integers, npt.NDArray[np.integer]]]) -> Compositions:
    """From batches of (bucket, code of the value), in the order of the buckets. Raises UnsupportedError."""
    finder = _Finder()
    for buckets, codes in batches:
        if len(buckets):
            finder.add(buckets, codes)
    return finder.finish()


class _Finder:
    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._held: list[tuple[Integers, Integers]] = []  # codes and counts, by class
        self._buckets: list[int] = []  # by class
        self._firsts: list[int] = []
        self._classes: list[int] = []
        self._keys = self._counts = np.zeros(0, dtype=np.int64)  # of the bucket that is not yet over

    def add(self, buckets: Integers, codes: npt.NDArray[np.integer]) -> None:
        """Take in a batch."""
        before = int(self._keys[-1]) // _CODES if len(self._keys) else 0
        if buckets[0] < before or (np.diff(buckets) < 0).any() or buckets[-1] >= _MOST_BUCKET:
            raise UnsupportedError("The table of values is not in the order of the buckets.")
        if codes.min() < 0:
            raise UnsupportedError("There are sensitive values without a name.")
        if codes.max() >= MOST_VALUES:
            raise UnsupportedError(f"There are more than {MOST_VALUES:,} sensitive values.")
        keys = np.concatenate([self._keys, buckets * _CODES + codes])
        counts = np.concatenate([self._counts, np.ones(len(buckets), dtype=np.int64)])
        keys, inverse = np.unique(keys, return_inverse=True)
        counts = np.bincount(inverse, weights=counts).astype(np.int64)
        last = int(np.searchsorted(keys, keys[-1] // _CODES * _CODES))
        self._take(keys[:last], counts[:last])
        self._keys, self._counts = keys[last:], counts[last:]

    def finish(self) -> Compositions:
        """All that was found."""
        self._take(self._keys, self._counts)
        values = max((int(codes.max()) + 1 for codes, _ in self._held), default=0)
        slots = np.zeros((len(self._held), values))
        for number, (codes, counts) in enumerate(self._held):
            slots[number, codes] = counts * float(self._buckets[number])
        runs = (np.array(numbers, dtype=np.int64) for numbers in (self._firsts, self._classes, self._buckets))
        return Compositions(slots, *runs)

    def _take(self, keys: Integers, counts: Integers) -> None:
        """Whole buckets: each is compared with the one before, and looked up if it is different."""
        if not len(keys):
            return
        buckets, codes = np.divmod(keys, _CODES)
        numbers, starts, lengths = np.unique(buckets, return_index=True, return_counts=True)
        ends = starts + lengths
        places = np.arange(len(keys)) - np.repeat(np.concatenate([[0], lengths[:-1]]), lengths)
        places[: lengths[0]] = 0
        other = (codes != codes[places]) | (counts != counts[places])
        changed = np.logical_or.reduceat(other, starts)
        changed[1:] |= lengths[1:] != lengths[:-1]
        changed[0] = True
        changes = np.flatnonzero(changed)
        for change, repeats in zip(changes, np.diff(changes, append=len(numbers)), strict=True):
            held = slice(int(starts[change]), int(ends[change]))
            self._run(int(numbers[change]), codes[held], counts[held], int(repeats))

    def _run(self, first: int, codes: Integers, counts: Integers, buckets: int) -> None:
        kind = self._known.setdefault(codes.tobytes() + counts.tobytes(), len(self._held))
        if kind == len(self._held):
            if kind == MOST_CLASSES:
                raise UnsupportedError(f"The buckets have more than {MOST_CLASSES:,} different compositions.")
            self._held.append((codes.copy(), counts.copy()))
            self._buckets.append(0)
        self._buckets[kind] += buckets
        if not self._classes or self._classes[-1] != kind:
            if len(self._classes) == MOST_RUNS:
                raise UnsupportedError(f"Buckets and their successors differ more than {MOST_RUNS:,} times.")
            self._firsts.append(first)
            self._classes.append(kind)
