"""Truths that could be behind buckets: their slots given to their rows, by swaps.

Each way to give the values of a bucket to its rows has a probability in proportion to the product of exp(fit), where
`fit` says how well a value goes with a row. The draw starts from a random assignment. In every sweep the rows of each
bucket are paired at random, and each pair swaps its slots with the probability of Metropolis' rule. Swaps never change
what a bucket has. Fake values, and those of people who left, are slots of rows that nobody is. In large buckets a row
meets a smaller part of the others in each sweep, so these have more sweeps, up to some 250: with 60 values and strong
beliefs in a bucket of 500 rows, the fit of draws is then 97 % of what it comes to after four times as many, and else
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Integers

_SMALL = 8  # slots, of a bucket that needs no further sweeps
_FURTHER = 2  # sweeps for every slot beyond these
_MOST_FURTHER = 240  # so that the time grows with rows, however large a bucket is
Fits = Callable[[Integers, Integers], npt.NDArray[np.floating[Any]]]  # of rows and the values of their slots


class Swaps:
    """Draws for the rows of some buckets. What has no row gets one, numbered after all others, bucket by bucket.

    `row_buckets` and `slot_buckets` have the bucket of every row and of every slot, both from 0 and ascending.
    """

    def __init__(self, row_buckets: Integers, slot_buckets: Integers) -> None:
        sizes = np.bincount(slot_buckets)
        fakes = sizes - np.bincount(row_buckets, minlength=len(sizes))
        buckets = np.concatenate([row_buckets, np.repeat(np.arange(len(sizes)), fakes)])
        self.order = np.argsort(buckets, kind="stable")  # rows, and those of fakes, by bucket as slots are
        self._buckets = buckets[self.order].astype(np.float64)
        even = (np.arange(len(buckets)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % 2 == 0
        firsts = np.flatnonzero(even & np.append(self._buckets[1:] == self._buckets[:-1], False))
        further = np.repeat(np.clip(_FURTHER * (sizes - _SMALL), 0, _MOST_FURTHER), sizes)
        self._rounds: list[_Round] = []  # of buckets that are large enough
        done = 0
        for most in np.unique(further).tolist():
            chosen = np.flatnonzero(further >= most)
            self._rounds.append(_Round(chosen, np.searchsorted(chosen, firsts[further[firsts] >= most]), most - done))
            done = most

    def draw(self, values: Integers, fits: Fits, sweeps: int, random: np.random.Generator) -> Integers:
        """A slot for every row. `values` are those of the slots, as `fits` knows them; 0 sweeps deal them at random."""
        slots = self._shuffled(slice(None), random)
        fit = fits(self.order, values[slots])
        for own in self._sweeps(sweeps):
            order = self._shuffled(own.places, random)
            one, other = order[own.firsts], order[own.firsts + 1]
            its, others = values[slots[one]], values[slots[other]]
            different = its != others
            one, other, its, others = one[different], other[different], its[different], others[different]
            new, new_other = fits(self.order[one], others), fits(self.order[other], its)
            swap = np.log(1 - random.random(len(one))) < new + new_other - fit[one] - fit[other]
            one, other = one[swap], other[swap]
            slots[one], slots[other] = slots[other], slots[one]
            fit[one], fit[other] = new[swap], new_other[swap]
        drawn = np.empty_like(slots)
        drawn[self.order] = slots
        return drawn

    def _sweeps(self, sweeps: int) -> Iterator[_Round]:
        """What every sweep is about: first all places, then those of ever larger buckets."""
        if sweeps and self._rounds:
            yield from [self._rounds[0]] * sweeps
            for own in self._rounds:
                yield from [own] * own.sweeps

    def _shuffled(self, places: Integers | slice, random: np.random.Generator) -> Integers:
        """These places in the order of buckets, at random within each."""
        buckets = self._buckets[places]
        order = np.argsort(buckets + random.random(len(buckets)))
        return order if isinstance(places, slice) else places[order]


@dataclass(frozen=True)
class _Round:
    """Some further sweeps: the places that are shuffled, and which of these begin a pair."""

    places: Integers
    firsts: Integers
    sweeps: int
