"""Truths that could be behind buckets: their slots given to their rows, by swaps.

Each way to give the values of a bucket to its rows has a probability in proportion to the product of exp(fit), where
`fit` says how well a value goes with a row. The draw starts from a random assignment. In every sweep the rows of each
bucket are paired at random, and each pair swaps its slots with the probability of Metropolis' rule. Swaps never change
what a bucket has. Fake values are slots of rows that nobody is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalenius.infer.candidates import Floats, Integers

Fits = Callable[[Integers, Integers], Floats]  # of rows and the values of their slots


class Swaps:
    """Draws for the rows of some buckets. Rows of fakes are numbered after all others, bucket by bucket.

    `row_buckets` and `slot_buckets` have the bucket of every row and of every slot, both from 0 and ascending.
    """

    def __init__(self, row_buckets: Integers, slot_buckets: Integers, fakes: int = 0) -> None:
        sizes = np.bincount(slot_buckets)
        buckets = np.concatenate([row_buckets, np.repeat(np.arange(len(sizes)), fakes)])
        self.order = np.argsort(buckets, kind="stable")  # rows, and those of fakes, by bucket as slots are
        self._buckets = buckets[self.order].astype(np.float64)
        even = (np.arange(len(buckets)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % 2 == 0
        self._firsts = np.flatnonzero(even & np.append(self._buckets[1:] == self._buckets[:-1], False))

    def draw(self, values: Integers, fits: Fits, sweeps: int, random: np.random.Generator) -> Integers:
        """A slot for every row. `values` are those of the slots, as `fits` knows them."""
        slots = self._shuffled(random)
        fit = fits(self.order, values[slots])
        for _ in range(sweeps):
            order = self._shuffled(random)
            one, other = order[self._firsts], order[self._firsts + 1]
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

    def _shuffled(self, random: np.random.Generator) -> Integers:
        """Places in the order of buckets, at random within each."""
        return np.argsort(self._buckets + random.random(len(self._buckets)))
