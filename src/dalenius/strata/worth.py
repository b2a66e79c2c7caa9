"""What strata are worth: the expected error of counts, from the counts of leaves and the partitions of strata alone.

Take some of the records of one leaf, each with probability p whatever its value is, and count those of value i from the
release: the sum over buckets of the matching records times the share of the value. The error has two parts.

**Chance.** Which of a bucket's records match is chance. Of the S records of a bucket, c have the value. If all N
records of the stratum may match, the variance is p (1 - p) V_i, with

    V_i = sum over buckets of c (S - c) / S.

The n_l records of the leaf have n_l / N of it.

**Association.** The records of a leaf are estimated to have the values of their buckets, which are those of the
stratum. Where the leaf differs from its stratum that is wrong, however many records are counted. A record of value j is
in any of the places that its value has in the stratum. So leaf l, with n_lj of the N_j records of value j, is estimated
to have on average

    sum over j of n_lj / N_j * sum over buckets of c_j c_i / S

records of value i. That is e_li more than n_li. For a stratum of one leaf it is 0, and for buckets of one record too.

Leaves differ by chance as well, and nobody who counts something else gains from that part. If the leaf's records were
drawn from the stratum's, the mean of e_li^2 would be close to (1 - n_l / N) (n_l / N) V_i^2 / N_i, which is taken off.

Together the two parts give a root mean square, which the mean error does not exceed. Nor does it exceed the sum of the
mean estimate and the mean truth, p (n_li + e_li + n_li), which is less where a leaf has next to nobody with the value.
The expected error is the smaller of the two, summed over leaves and values, as a share of the records counted:

    E = sum over l and i of min(r_li, p (2 n_li + e_li)) / (p n),    p = 1/10,
    r_li^2 = p^2 (e_li^2 - (1 - n_l / N) (n_l / N) V_i^2 / N_i) + p (1 - p) V_i n_l / N,    which is not below 0.

Fine strata make the e_li small. Strata whose records are hard to hide have large buckets, with larger V_i, and larger
e_li wherever unlike leaves were merged. E of some strata, divided by E of the same leaves in one stratum, was
compared with the ratio of the mean relative errors of the paper's workload in the 56 releases of real tables on which
this measure was chosen: they were 0.07 apart on average, and at most 0.1 in 44 of them. Where E fell by a twentieth
or more, the error fell too. In the two others the error rose, by 9 and 19 %. So E has to fall by a twentieth; and by
a tenth where strata cost much, or are the best of several tries.

Fake values are left out: every bucket has as many, whatever the strata are.

**How many records of a bucket have a value.** The s_i records of value i in a group of b buckets are spread evenly: a
part f_i = s_i / b - floor(s_i / b) of the buckets has one more than the others. The variance is v_i = f_i (1 - f_i), so
the sum over the group of c_i^2 is s_i^2 / b + b v_i. Covariances are taken to be - d_i d_j / D, with D the sum of the
d_i, and d_i - d_i^2 / D = v_i: they make up for the variances, since all buckets of the group have S records. For
buckets of one record, and for two values, this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalenius.model.problem import Partition
from dalenius.strata.tree import Floats, Integers

_PART = 0.1  # p
_ENOUGH = 0.95
_STRICTLY_ENOUGH = 0.9
_NOTHING = 1e-9  # floating point makes that of 0
_ROUNDS = 12
_ONE = 1.5  # the f_i of a group add up to a whole number, but for rounding
_TINY = 1e-300


def is_worth_it(error: float, error_of_one: float, *, strict: bool) -> bool:
    """Whether strata make counts better: their expected error is clearly below that of one stratum."""
    return error < (_STRICTLY_ENOUGH if strict else _ENOUGH) * error_of_one and error_of_one > _NOTHING


def expected_error(counts: Integers, stratum_of_leaf: Integers, partitions: Sequence[Partition]) -> float:
    """E for some strata: `counts` are the records by leaf and value, and a partition has a line for every value."""
    total = 0.0
    for stratum, partition in enumerate(partitions):
        leaves = counts[stratum_of_leaf == stratum]
        share = leaves.sum(axis=1, keepdims=True) / leaves.sum()
        systematic = association(leaves, partition)
        variance = share * chance(partition)
        by_chance = (1 - share) * variance * chance(partition) / np.maximum(leaves.sum(axis=0), 1)
        square = _PART**2 * (systematic**2 - by_chance) + _PART * (1 - _PART) * variance
        most = _PART * (2 * leaves + systematic)
        total += float(np.minimum(np.sqrt(square), most).sum())
    return total / (_PART * float(counts.sum()))


def chance(partition: Partition) -> Floats:
    """V_i of one stratum, value by value."""
    sizes, buckets, records = _groups(partition)
    part = records / buckets % 1
    variance = records - (records**2 / buckets + buckets * part * (1 - part)) / sizes
    positive: Floats = np.maximum(variance.sum(axis=1), 0.0)  # floating point may miss a 0
    return positive


def association(leaves: Integers, partition: Partition) -> Floats:
    """e_li of one stratum: how many records of a value a leaf is estimated to have on average beyond those it has."""
    sizes, buckets, records = _groups(partition)
    share = leaves / np.maximum(leaves.sum(axis=0), 1)  # n_lj / N_j
    estimate = (share @ records) @ (records / (buckets * sizes)).T
    for place, uneven in enumerate(_unevenness(records / buckets % 1).T):
        if uneven.any():
            own = share * uneven
            own -= own.sum(axis=1, keepdims=True) * (uneven / uneven.sum())
            estimate += own * (buckets[place] / sizes[place])
    error: Floats = estimate - leaves
    return error


def _groups(partition: Partition) -> tuple[Floats, Floats, Floats]:
    """Sizes and buckets by group, and the records by value and group."""
    groups = partition.setting.groups
    sizes = np.array([group.size for group in groups], np.float64)
    buckets = np.array([group.buckets for group in groups], np.float64)
    return sizes, buckets, np.asarray(partition.quotas, dtype=np.float64).reshape(-1, len(groups))


def _unevenness(part: Floats) -> Floats:
    """d_i of every group, given the f_i, by value and group."""
    variance = part * (1 - part)
    total = part.sum(axis=0)
    d = np.where(total < _ONE, part, np.where(len(part) - total < _ONE, 1 - part, variance))  # the first is exact
    for _ in range(_ROUNDS):
        d = variance + d**2 / np.maximum(d.sum(axis=0), _TINY)
    return d
