"""Round-robin assignment (RRA, Section 4.1): which values a bucket holds follows from the quotas alone.

Within a size group of b buckets, the t-th record of value i (t = 0, 1, ...) goes to bucket (P_i + t) mod b, where P_i
is the number of records of earlier values in the group. Consecutive records go to consecutive buckets, so every bucket
gets floor(a_i / b) or ceil(a_i / b) of the a_i records of a value, and every bucket gets the same number in all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def bucket_contents(quotas: Integers, buckets: int, first: int = 0, last: int | None = None) -> Integers:
    """How many records of each value the buckets `first` to `last` of a size group hold: one row a value.

    `quotas[i]` records of value i are in the group. Memory is proportional to the buckets asked for.
    """
    stop = buckets if last is None else last
    start = np.concatenate(([0], np.cumsum(quotas)[:-1])) % buckets
    turn = (np.arange(first, stop) - start[:, None]) % buckets
    return np.asarray((quotas[:, None] - turn + buckets - 1) // buckets)
