"""Simulated truths: tables that could be behind a release, and the releases that they would have given.

**A truth.** Naive Bayes, fitted to the release (`naive_bayes.py`), says how well value x goes with row r: the weight
w(r, x) is the product over columns of theta_a(z_ra | x) / P_a(z_ra). In every bucket the values that it has are given
to its rows (`swaps.py`), and each way to do so has a probability in proportion to the product of the weights, to the
power of a `strength`: with 0 rows and values are matched at random, and with more than 1 they go together more than was
learned. What is nobody's, fake values and those of people who left, belongs to rows without quasi-identifiers, whose
weights are 1.

**A release.** The publisher gives the records of a value, in each stratum, to the slots of the value at random. So
does `place`: the buckets keep their values, and get other records. Slots that are nobody's in the truth stay so.

Nothing here is random in a way that matters for privacy: all of it comes from what was published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dalenius.infer.candidates import Candidates, Column, Floats, Integers, make_blocks
from dalenius.infer.naive_bayes import learn
from dalenius.infer.swaps import Swaps

SWEEPS = 16
_MOST_ENTRIES = 2**20  # rows times different values of a bucket, that naive Bayes is fitted to


@dataclass(frozen=True)
class BucketSample:
    """Some buckets of a release, or all, numbered from 0, with their rows and slots in the order of buckets.

    `stratum_of` has the stratum of every bucket, ascending; `values` is how many sensitive values there are.
    """

    columns: tuple[Column, ...]
    row_buckets: Integers
    slot_buckets: Integers
    slot_values: Integers
    stratum_of: Integers
    values: int

    @property
    def rows(self) -> int:
        """How many records there are."""
        return len(self.row_buckets)

    @property
    def row_strata(self) -> Integers:
        """The stratum of every row."""
        return self.stratum_of[self.row_buckets]

    def part(self, most_entries: int, random: np.random.Generator) -> BucketSample:
        """The same for as many random buckets as have at most so many pairs of a slot and a value."""
        sizes = np.bincount(self.slot_buckets, minlength=len(self.stratum_of)).astype(np.float64)
        order = random.permutation(len(sizes))
        number = max(1, int(np.searchsorted(np.cumsum(sizes[order] ** 2), most_entries, side="right")))
        return self if number >= len(sizes) else self._only(np.sort(order[:number]))

    def _only(self, buckets: Integers) -> BucketSample:
        place = np.full(len(self.stratum_of), -1)
        place[buckets] = np.arange(len(buckets))
        rows, slots = (np.flatnonzero(place[of] >= 0) for of in (self.row_buckets, self.slot_buckets))
        return replace(
            self,
            columns=tuple(replace(column, codes=column.codes[rows]) for column in self.columns),
            row_buckets=place[self.row_buckets[rows]],
            slot_buckets=place[self.slot_buckets[slots]],
            slot_values=self.slot_values[slots],
            stratum_of=self.stratum_of[buckets],
        )

    def candidates(self) -> Candidates:
        """The same, as an attacker sees it."""
        cells, counts = np.unique(self.slot_buckets * self.values + self.slot_values, return_counts=True)
        buckets, values = np.divmod(cells, self.values)
        blocks = make_blocks(self.row_buckets, buckets, values, counts)
        numbers = np.arange(len(self.stratum_of))
        return Candidates(numbers, self.row_buckets, blocks, self.values, self.columns)


class Simulator:
    """Truths for one sample of buckets. The same generator gives the same truths."""

    def __init__(self, sample: BucketSample, random: np.random.Generator) -> None:
        self.sample, self._random = sample, random
        self._swaps = Swaps(sample.row_buckets, sample.slot_buckets)
        starts = np.cumsum([0, *(column.kinds for column in sample.columns)])
        self._kinds = int(starts[-1]) + 1
        self._cells = np.full((len(sample.slot_buckets), len(sample.columns)), self._kinds - 1)
        for place, column in enumerate(sample.columns):
            self._cells[: sample.rows, place] = starts[place] + column.codes[: sample.rows]
        self._groups = sample.row_strata * sample.values

    def weights(self) -> Floats:
        """The logarithm of every w by value and cell, as some random buckets of the sample show it."""
        part = self.sample.part(_MOST_ENTRIES, self._random)
        tables = learn(part.candidates()).tables if self.sample.columns else ()
        return np.hstack([*tables, np.zeros((self.sample.values, 1))])

    def truth(self, weights: Floats, strength: float = 1.0, sweeps: int = SWEEPS) -> Integers:
        """Draw a value for every row, and after the last row for every fake value."""
        flat = (weights * strength).ravel()

        def fits(rows: Integers, values: Integers) -> Floats:
            fit: Floats = flat.take(values[:, None] * self._kinds + self._cells[rows]).sum(axis=1)
            return fit

        drawn: Integers = self.sample.slot_values[self._swaps.draw(self.sample.slot_values, fits, sweeps, self._random)]
        return drawn

    def place(self, truth: Integers) -> Integers:
        """Place the records of a truth again: a bucket for every row."""
        keys = self._groups + truth[: self.sample.rows]
        buckets = np.empty_like(keys)
        shuffled = np.argsort(keys + self._random.random(len(keys)))
        buckets[shuffled] = self.sample.row_buckets[np.argsort(keys, kind="stable")]
        return buckets
