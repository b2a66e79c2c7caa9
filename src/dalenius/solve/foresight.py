"""What a release will show of people, and how far off counts from it will be, before there is one: from quotas alone.

Exposure (`foresee_exposure`). The s slots of a value in a size group of b buckets are spread evenly: s mod b buckets
have ceil(s / b) of them, and the others floor(s / b). So it is known before anybody is placed how many people will be
in buckets that show their value with any given probability (`model.exposure`).

Errors (`relative_errors`). Take a condition on quasi-identifiers that each record meets with probability p, whatever
its sensitive value and whatever the other records do, and count the records that meet it and have value i.

**One bucket.** It holds S records and sigma fake values, T = S + sigma slots in all. Value i is in c of the slots, r of
them with a record behind. Of the r records A meet the condition, and of the other S - r records B do: A and B are
binomial with p. The estimate is the number of matching rows times the value's share of the slots (`query.count`), so
that its error is

    (A + B) c / T - A  =  B c/T - A (1 - c/T),

    with mean      p (S c/T - r)
    and variance   p (1 - p) (r (1 - c/T)² + (S - r) (c/T)²).

Without fakes T = S and c = r: the mean is 0, and the variance p (1 - p) c (S - c) / S. That is also what the
hypergeometric variance of `query.count` comes to on the average over the number of matching rows.

**All buckets.** Buckets hold different records, so variances and means add up, over all groups and all strata. The
slots of value i are spread as above. The records of the value are assumed in the same proportion in both kinds of
bucket: r = c a / s, with a its records in the group. (Without fakes that is exact. With fakes the sum of the r is
exact, and a draw decides which slots are fake.)

The expected square of the error of value i is then

    p (1 - p) sum_buckets (r (1 - c/T)² + (S - r) (c/T)²)  +  (p sum_groups (S s / T - a))²,

and its root, divided by the expected count p o_i, is the relative standard error. The last sum is 0 where fakes are in
exact proportion to records. It matters for rare values, which get close to one fake in each group. Before
fakes are drawn they are assumed in proportion, and that part of the error is left out.

Conditions that are related to the sensitive value are left out as well. There the error grows with the number of
records, not with its root, and no formula knows it in advance. Strata make it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.model.exposure import BANDS, TENTH, Exposure, GroupShare, TypicalError
from dalenius.model.groups import Groups
from dalenius.model.problem import Partition

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def foresee_error(values: Sequence[str], partitions: Sequence[Partition], fake_values: int = 0) -> TypicalError:
    """How far off counts will be, for all partitions together, each of which has a line for every value."""
    errors = relative_errors(partitions, TENTH, fake_values)
    counts = np.sum([np.asarray(partition.quotas).sum(axis=1) for partition in partitions], axis=0)
    best, worst = int(np.nanargmin(errors)), int(np.nanargmax(errors))
    typical = float(np.average(np.nan_to_num(errors), weights=counts))
    return TypicalError(typical, float(errors[best]), values[best], float(errors[worst]), values[worst])


def foresee_exposure(values: Sequence[str], partitions: Sequence[Partition], fake_values: int = 0) -> Exposure:
    """How exposed people will be. Fakes that are not drawn yet are assumed in proportion to the records."""
    place, count, width, size, buckets = np.concatenate([_cells(one, fake_values) for one in partitions], axis=1)
    people = count * buckets * (size / width)
    share = count / width
    cells = place * (BANDS + 1) + BANDS * count // width
    bands = np.bincount(cells, people, len(values) * (BANDS + 1)).reshape(len(values), BANDS + 1)
    sums = np.bincount(place, people * share, len(values))
    ascending = np.lexsort((share, place))
    last = np.flatnonzero(np.diff(place[ascending], append=-1))  # the highest share of each value
    highest = [(0, 1)] * len(values)
    for cell in ascending[last].tolist():
        highest[int(place[cell])] = (int(count[cell]), int(width[cell]))
    pairs, at = np.unique(np.stack((count, width)), axis=1, return_inverse=True)
    levels = zip(*pairs.tolist(), np.bincount(at.ravel(), people).tolist(), strict=True)
    return Exposure.of(values, bands.tolist(), sums.tolist(), highest, levels)


def foresee_groups(
    groups: Groups | None, partitions: Sequence[Partition], known_records: int, fake_values: int = 0
) -> tuple[GroupShare, ...]:
    """The largest share of a bucket that each group of values will have; `groups` are above the lines of partitions.

    Dealt depth first, a group is spread as evenly as a value: at most ceil(slots / buckets) of it are in a bucket.
    Groups without values are left out. Fakes that are not drawn yet are assumed in proportion to the records, as far as
    the limits have room.
    """
    if groups is None:
        return ()
    above = [[limit for at in path if (limit := groups.groups[at].limit) is not None] for path in groups.paths]
    tightest = [min(limits, default=None) for limits in above]
    worst: dict[int, tuple[Fraction, int, int]] = {}
    for partition in partitions:
        fakes = partition.fake_values or fake_values
        columns = zip(*partition.slots, strict=True)
        for group, column in zip(partition.setting.groups, columns, strict=True):
            width = group.size if partition.fakes else group.size + fakes
            for place, slots in enumerate(groups.sums(column)):
                count = -(-slots * width // (group.size * group.buckets))
                if width > group.size and (limit := tightest[place]) is not None:
                    count = min(count, math.floor(limit * (group.size - known_records)))
                if count:
                    share = Fraction(count, max(1, group.size - known_records))
                    worst[place] = max(worst.get(place, (Fraction(0), 0, 1)), (share, count, group.size))
    number = {place: k for k, place in enumerate(sorted(worst))}
    return tuple(
        GroupShare(
            name=groups.groups[place].name,
            level=groups.groups[place].level,
            parent=number.get(groups.groups[place].parent),
            limit=groups.groups[place].limit,
            count=worst[place][1],
            size=worst[place][2],
            known=known_records,
        )
        for place in number
    )


def _cells(partition: Partition, fake_values: int) -> Integers:
    """Where some buckets of a group hold a value: its number, how often they hold it, their values and records, and how
    many such buckets there are."""
    fakes = partition.fake_values or fake_values
    groups = np.array([(group.size, group.buckets) for group in partition.setting.groups], dtype=np.int64)
    size, buckets = groups[:, 0], groups[:, 1]
    slots = np.array(partition.slots, dtype=np.int64).reshape(-1, len(groups))
    if fakes and not partition.fakes:
        slots = np.rint(slots * (size + fakes) / size).astype(np.int64)
    few, with_more = np.divmod(slots, buckets)
    place = np.broadcast_to(np.arange(len(slots))[:, None], slots.shape)
    size = np.broadcast_to(size, slots.shape)
    parts = [
        np.stack([side.ravel() for side in (place, count, size + fakes, size, number)])
        for count, number in ((few + 1, with_more), (few, buckets - with_more))
    ]
    cells: Integers = np.concatenate(parts, axis=1)
    return cells[:, (cells[1] > 0) & (cells[4] > 0)]


def relative_errors(partitions: Sequence[Partition], share: float, fake_values: int = 0) -> Floats:
    """The relative standard error, value by value, of counting a value among a random `share` of the records.

    `fake_values` fakes in every bucket are assumed in proportion to the records; if a partition has its own fakes,
    these are used. A value without records has no relative error: it gets NaN.
    """
    variance, systematic, records = (
        np.sum(parts, axis=0) for parts in zip(*(_errors(one, fake_values) for one in partitions), strict=True)
    )
    square = share * (1 - share) * variance + (share * systematic) ** 2
    expected = share * records
    return np.asarray(np.sqrt(square) / np.where(expected > 0, expected, np.nan))


def _errors(partition: Partition, fake_values: int) -> tuple[Floats, Floats, Floats]:
    """By value: the sum of variances, the sum of systematic errors, both without p, and the records."""
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
    return variance.sum(axis=1), (sizes / width * slots - records).sum(axis=1), records.sum(axis=1)


def _variance(count: Floats, real: Floats, sizes: Floats, width: Floats) -> Floats:
    """r (1 - c/T)² + (S - r) (c/T)², with r = c times the share of slots that have a record."""
    records, part = count * real, count / width
    return np.asarray(records * (1 - part) ** 2 + (sizes - records) * part**2)
