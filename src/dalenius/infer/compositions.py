"""Classes of buckets with the same composition, found in one pass over ST in bounded memory.

A composition is how often each value is in a bucket, whether it is somebody's or not. The placement deals values out in
turn, so that buckets of one composition have consecutive numbers, and compositions are few. What is kept is a run
(first bucket, class) for every change of composition, the compositions, and the part of a bucket that the next batch
may go on with.

Where the table was cut into strata, each has classes of its own: records are placed at random within their stratum, so
a bucket of another one says nothing about them, even if it has the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.errors import ReleaseError
from dalenius.infer.association import MOST_CLASSES, MOST_VALUES, Filling
from dalenius.infer.candidates import Floats, Integers
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Strata
from dalenius.tables.arrays import numpy_array

MOST_RUNS = 2**20
MOST_CELLS = 2**23  # classes times values, added up over strata
_CODES = 2**11  # more than MOST_VALUES: a bucket and a code in one number
_MOST_BUCKET = 2**51
_ROWS_AT_ONCE = 2**17


class UnsupportedError(Exception):
    """No estimate can be learned from this release; the text says why."""


@dataclass(frozen=True)
class Block:
    """The classes of one stratum: its values in ascending order, the slots by class and value, buckets by class."""

    values: Integers
    slots: Floats
    buckets: Integers


@dataclass(frozen=True)
class Compositions:
    """The classes, numbered block after block; the runs, from each first bucket to the next run's."""

    blocks: tuple[Block, ...]
    firsts: Integers
    classes: Integers

    def of(self, buckets: Integers) -> Integers:
        """The class of each bucket."""
        classes: Integers = self.classes[np.searchsorted(self.firsts, buckets, side="right") - 1]
        return classes

    @property
    def number(self) -> int:
        """How many classes there are."""
        return sum(len(block.slots) for block in self.blocks)

    @property
    def values(self) -> int:
        """One more than the largest code of a value."""
        return max((int(block.values[-1]) + 1 for block in self.blocks), default=0)

    @property
    def rows(self) -> Floats:
        """The slots of every class."""
        return np.concatenate([np.zeros(0), *(block.slots.sum(axis=1) for block in self.blocks)])

    @property
    def buckets(self) -> Integers:
        """The buckets of every class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(block.buckets for block in self.blocks)])

    def filling(self, buckets: Integers, rows: Integers) -> Filling:
        """How far classes are filled, from the number of every bucket and its rows."""
        classes, number = self.of(buckets), self.number
        slots = (self.rows / np.maximum(self.buckets, 1))[classes]
        scatter = np.bincount(classes, rows * (slots - rows), number).astype(np.float64)
        return Filling(self.buckets.astype(np.float64), np.bincount(classes, rows, number).astype(np.float64), scatter)

    def with_fakes(self, fakes: int) -> Filling:
        """The same where every bucket has so many fake values."""
        buckets = self.buckets.astype(np.float64)
        rows = self.rows - buckets * fakes
        return Filling(buckets, rows, rows * fakes)


def rows_of_buckets(folder: ReleaseFolder) -> Integers:
    """How many rows of QIT each bucket has, by its number; people may have left, so some may have none."""
    manifest = folder.manifest
    rows = np.zeros(manifest.buckets + 1, np.int64)
    for batch in folder.batches("qit", [manifest.columns.bucket], rows=_ROWS_AT_ONCE):
        numbers = numpy_array(batch.column(0))
        if batch.column(0).null_count or (len(numbers) and not 1 <= numbers.min() <= numbers.max() <= manifest.buckets):
            raise ReleaseError("there are rows of buckets without a value", "Run dalenius verify on the release.")
        rows += np.bincount(numbers.astype(np.int64), minlength=len(rows))
    return rows


def first_buckets(strata: Strata | None) -> Integers:
    """The first bucket of every stratum but the first: none, where the table was not cut."""
    numbers = [stratum.buckets for stratum in strata.strata] if strata is not None else []
    return 1 + np.cumsum(numbers[:-1], dtype=np.int64)


def find_compositions(
    batches: Iterable[tuple[Integers, npt.NDArray[np.integer]]], cuts: Sequence[int] | Integers = ()
) -> Compositions:
    """The compositions of batches of (bucket, code of the value), in the order of buckets. Raises UnsupportedError.

    A stratum begins at each of the buckets in `cuts`, as `first_buckets` has them.
    """
    finder = _Finder(np.asarray(cuts, dtype=np.int64))
    for buckets, codes in batches:
        if len(buckets):
            finder.add(buckets, codes)
    return finder.finish()


class _Finder:
    def __init__(self, cuts: Integers) -> None:
        self._cuts, self._stratum = cuts, -1
        self._blocks: list[Block] = []  # of strata that are over
        self._begun = self._cells = 0  # classes and cells in them
        self._known: dict[bytes, int] = {}
        self._compositions: list[tuple[Integers, Integers]] = []  # codes and counts, by class of this stratum
        self._buckets: list[int] = []  # by class of this stratum
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
        self._close()
        firsts, classes = (np.array(numbers, dtype=np.int64) for numbers in (self._firsts, self._classes))
        return Compositions(tuple(self._blocks), firsts, classes)

    def _close(self) -> None:
        """The stratum is over."""
        if not self._compositions:
            return
        values = np.unique(np.concatenate([codes for codes, _ in self._compositions]))
        self._cells += len(self._compositions) * len(values)
        if self._cells > MOST_CELLS:
            raise UnsupportedError(f"Compositions and values are more than {MOST_CELLS:,} numbers.")
        slots = np.zeros((len(self._compositions), len(values)))
        for number, (codes, counts) in enumerate(self._compositions):
            slots[number, np.searchsorted(values, codes)] = counts * float(self._buckets[number])
        self._blocks.append(Block(values, slots, np.array(self._buckets, dtype=np.int64)))
        self._begun += len(self._compositions)
        self._known, self._compositions, self._buckets = {}, [], []

    def _take(self, keys: Integers, counts: Integers) -> None:
        """Take in whole buckets: each is compared with the one before, and looked up if it is different."""
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
        strata = np.searchsorted(self._cuts, numbers, side="right")
        changed[1:] |= strata[1:] != strata[:-1]
        changed[0] = True
        changes = np.flatnonzero(changed)
        for change, repeats in zip(changes, np.diff(changes, append=len(numbers)), strict=True):
            own = slice(int(starts[change]), int(ends[change]))
            if strata[change] != self._stratum:
                self._close()
                self._stratum = int(strata[change])
            self._run(int(numbers[change]), codes[own], counts[own], int(repeats))

    def _run(self, first: int, codes: Integers, counts: Integers, buckets: int) -> None:
        number = self._known.setdefault(codes.tobytes() + counts.tobytes(), len(self._compositions))
        if number == len(self._compositions):
            if number == MOST_CLASSES:
                where = "of a stratum " if len(self._cuts) else ""
                raise UnsupportedError(f"The buckets {where}have more than {MOST_CLASSES:,} different compositions.")
            self._compositions.append((codes.copy(), counts.copy()))
            self._buckets.append(0)
        self._buckets[number] += buckets
        number += self._begun
        if not self._classes or self._classes[-1] != number:
            if len(self._classes) == MOST_RUNS:
                raise UnsupportedError(f"Buckets and their successors differ more than {MOST_RUNS:,} times.")
            self._firsts.append(first)
            self._classes.append(number)
