"""How far off counts from a release will be, before there is one: from quotas alone.

Take a condition on quasi-identifiers that each record meets with probability p, whatever its sensitive value and
whatever the other records do, and count the records that meet it and have value i.

**One bucket.** It holds S records and sigma fake values, T = S + sigma slots in all. Value i is in c of the slots, r of
them with a record behind. Of the r records A meet the condition, and of the other S - r records B do: A and B are
binomial with p. The estimate is the number of matching rows times the value's share of the slots (`query.count`), so
that its error is

    (A + B) c / T - A  =  B c/T - A (1 - c/T),

    with mean      p (S c/T - r)
    and variance   p (1 - p) (r (1 - c/T)² + (S - r) (c/T)²).

Without fakes T = S and c = r: the mean is 0, and the variance p (1 - p) c (S - c) / S. That is also what the
hypergeometric variance of `query.count` comes to on the average over the number of matching rows.

**All buckets.** Buckets hold different records, so variances and means add up. The s slots of value i in a size group
of b buckets are spread evenly: s mod b buckets have ceil(s / b) of them, and the others floor(s / b). The records of
the value are assumed in the same proportion in both kinds of bucket: r = c a / s, with a its records in the group.
(Without fakes that is exact. With fakes the sum of the r is exact, and a draw decides which slots are fake.)

The expected square of the error of value i is then

    p (1 - p) sum_buckets (r (1 - c/T)² + (S - r) (c/T)²)  +  (p sum_groups (S s / T - a))²,

and its root, divided by the expected count p o_i, is the relative standard error. The last sum is 0 where fakes are in
exact proportion to records. It matters for rare values, which get close to one fake in each group. Before
fakes are drawn they are assumed in proportion, and that part of the error is left out.

Conditions that are related to the sensitive value are left out as well. There the error grows with the number of
records, not with its root, and no formula knows it in advance. Strata make it smaller.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dalenius.model.problem import Partition

Floats = npt.NDArray[np.float64]


def relative_errors(partition: Partition, share: float, fake_values: int = 0) -> Floats:
    """The relative standard error, value by value, of counting a value among a random `share` of the records.

    `fake_values` fakes in every bucket are assumed in proportion to the records; if the partition has its own fakes,
    these are used. A value without records has no relative error: it gets NaN.
    """
    groups = partition.setting.groups
    records = np.asarray(partition.quotas, dtype=np.float64)
    sizes = np.asarray([group.size for group in groups], dtype=np.float64)
    buckets = np.asarray([group.buckets for group in groups], dtype=np.float64)
    if partition.fakes:
        slots = records + np.asarray(partition.fakes, dtype=np.float64)
        width = sizes + partition.fake_values
    else:
        slots = records * (sizes + fake_values) / sizes
        width = sizes + fake_values
    real = np.divide(records, slots, out=np.zeros_like(slots), where=slots > 0)  # the share of slots with a record
    few = np.floor(slots / buckets)
    with_more = slots - few * buckets
    variance = with_more * _variance(few + 1, real, sizes, width)
    variance += (buckets - with_more) * _variance(few, real, sizes, width)
    systematic = share * (sizes / width * slots - records).sum(axis=1)
    square = share * (1 - share) * variance.sum(axis=1) + systematic**2
    expected = share * records.sum(axis=1)
    return np.asarray(np.sqrt(square) / np.where(expected > 0, expected, np.nan))


def _variance(count: Floats, real: Floats, sizes: Floats, width: Floats) -> Floats:
    """r (1 - c/T)² + (S - r) (c/T)², with r = c times the share of slots that have a record."""
    records, part = count * real, count / width
    return np.asarray(records * (1 - part) ** 2 + (sizes - records) * part**2)
