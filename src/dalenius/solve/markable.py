"""Can the fakes of a size group be marked at all? A transportation problem between values and kinds of buckets.

A group of b buckets is dealt a'_i = a_i + phi_i slots of value i, one value after the other: position p goes to bucket
p mod b (`place.slots`). Marks are sigma slots in every bucket, phi_i of them of value i. Whether there are such marks
depends on which buckets have which values, and for few buckets and many values there may be none.

Buckets are of one kind from one end of a value (modulo b) to the next, so there are at most m + 1 kinds. With n_k
buckets of kind k that hold v_ki slots of value i, marks exist iff a flow value i (phi_i) -> kind k (n_k v_ki) -> sink
(sigma n_k) fills every kind: spread evenly over the n_k buckets it is a fractional marking, and where there is a
fractional one there is an integral one.
"""

from __future__ import annotations

import numpy as np

from dalenius.solve.caps import Integers
from dalenius.solve.gale import fill_sizes

_MOST_CELLS = 4_000_000  # values x kinds


def can_be_marked(slots: Integers, fakes: Integers, buckets: int, fake_values: int) -> bool:
    """Whether some choice of `fake_values` slots in each bucket has these fakes of each value.

    Groups with far more values than can be looked at are taken to be markable.
    """
    present = np.flatnonzero(slots)
    slots, fakes = slots[present], fakes[present]
    ends = np.cumsum(slots)
    firsts = np.unique(np.concatenate(([0], ends % buckets)))
    if len(firsts) * len(slots) > _MOST_CELLS:
        return True
    number = np.diff(firsts, append=buckets)
    held = _up_to(ends, firsts, buckets) - _up_to(ends - slots, firsts, buckets)
    _, cut = fill_sizes(fakes, held * number, fake_values * number)
    return cut is None


def _up_to(positions: Integers, firsts: Integers, buckets: int) -> Integers:
    """For each end and each bucket: how many positions before the end are in the bucket."""
    return np.asarray(-((firsts[None, :] - positions[:, None]) // buckets))
