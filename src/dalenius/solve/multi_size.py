"""The recursive heuristic for many sizes (Algorithm 2, Section 5.2), and its checks of one size and of two.

Split the records by the optimal two-size setting, partition them between the two sizes (Section 4.3), and do the same
to each part as long as the loss falls. Each part is solved under the limits of the whole table, so the union of the
parts is valid. There is no guarantee on the loss; `optimal.py` has one.

With fake values a part's records are whole, and may be up to one record a value over what is in proportion (`gale.py`):
a split then stands only if the whole setting is valid with it.

`validate_one_size` (Lemma 2) and `validate_two_size` (Theorem 3) return the record partition, or the constraint that
fails and where. `gale.py` does the same for any number of sizes. With fake values the same conditions hold in units of
1/K record (`caps.py`).
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from dalenius.errors import SolverError, UndecidedError
from dalenius.model.problem import BucketSetting, Partition, Problem, SizeGroup, Violation
from dalenius.solve.caps import Instance, Integers
from dalenius.solve.gale import validate_setting, whole_quotas
from dalenius.solve.two_size import find_two_size_setting


def find_multi_size_setting(problem: Problem, deadline: float = math.inf) -> BucketSetting | None:
    """A setting found by recursive two-size splits, or None if there is no valid two-size setting to start from."""
    start = find_two_size_setting(problem, deadline)
    if start is None:
        return None
    groups: list[SizeGroup] = []
    pending = [(problem, start)]
    whole = start
    while pending:
        part, split = pending.pop()
        if len(split.groups) == 1:
            groups.append(split.groups[0])
            continue
        small, large = split.groups
        partition = validate_two_size(part, small, large) if part.groups is None else validate_setting(part, split)
        if isinstance(partition, Violation):
            raise SolverError(f"the two-size optimum {split} was found invalid ({partition.constraint})")
        for j, group in enumerate((small, large)):
            counts = tuple(row[j] for row in partition.quotas)
            inner = _with_counts(part, counts)
            better = None
            with suppress(UndecidedError):  # out of time: the group stays as it is
                better = find_two_size_setting(inner, deadline)
            if better is not None and better.loss < group.loss:
                split_further = _split_group(whole, group, better)
                if problem.fake_values and isinstance(validate_setting(problem, split_further), Violation):
                    groups.append(group)
                    continue
                whole = split_further
                pending.append((inner, better))
            else:
                groups.append(group)
    return BucketSetting.of((group.size, group.buckets) for group in groups)


def _split_group(setting: BucketSetting, group: SizeGroup, better: BucketSetting) -> BucketSetting:
    """The setting with the buckets of one group cut up as `better` has it."""
    buckets = {other_group.size: other_group.buckets for other_group in setting.groups}
    buckets[group.size] -= group.buckets
    for other in better.groups:
        buckets[other.size] = buckets.get(other.size, 0) + other.buckets
    return BucketSetting.of(buckets.items())


def _with_counts(problem: Problem, counts: tuple[int, ...]) -> Problem:
    """The same values and limits with other counts; values without records are left out."""
    present = [i for i, count in enumerate(counts) if count]
    return problem.take(present, [counts[i] for i in present])


def validate_one_size(problem: Problem, group: SizeGroup) -> Partition | Violation:
    """Lemma 2: b buckets of size S are valid iff S b = n and o_i <= cap[i, S] b for all i."""
    instance = Instance(problem)
    if group.records != instance.total:
        return Violation("capacity", have=group.records, need=instance.total, sizes=(group.size,))
    room = instance.caps(np.asarray([group.size]))[:, 0] * group.buckets
    over = np.flatnonzero(room < instance.counts)
    if over.size:
        i = int(over[0])
        have = int(room[i]) // instance.units
        return Violation("privacy", have, int(instance.records[i]), values=(i,), sizes=(group.size,))
    return Partition(BucketSetting((group,)), tuple((count,) for count in problem.counts))


def validate_two_size(problem: Problem, small: SizeGroup, large: SizeGroup) -> Partition | Violation:
    """Theorem 3: valid iff PC, FC and CC hold; then the partition of Section 4.3.

    With u_ij = cap[i, S_j] b_j:
        CC   S_1 b_1 + S_2 b_2 = n
        PC   u_i1 + u_i2 >= o_i                       for all i
        FC   sum_i min(u_ij, o_i) >= S_j b_j          for j = 1, 2
    (the paper writes PC with min(u_ij, o_i), which is the same: where a minimum bites, both forms hold).
    """
    if small.size >= large.size:
        raise ValueError(f"the first size must be the smaller one, got {small.size} and {large.size}")
    instance = Instance(problem)
    counts, units, sizes = instance.counts, instance.units, (small.size, large.size)
    if small.records + large.records != instance.total:
        return Violation("capacity", small.records + large.records, instance.total, sizes=sizes)
    room = instance.caps(np.asarray(sizes)) * np.asarray([small.buckets, large.buckets])
    over = np.flatnonzero(room.sum(axis=1) < counts)
    if over.size:
        i = int(over[0])
        have = int(room[i].sum()) // units
        return Violation("privacy", have, int(instance.records[i]), values=(i,), sizes=sizes)
    most = np.minimum(room, counts[:, None])
    for j, group in enumerate((small, large)):
        if most[:, j].sum() < group.records * units:
            return Violation("fill", int(most[:, j].sum()) // units, group.records, sizes=(group.size,))
    groups = [j for j, group in enumerate((small, large)) if group.buckets]
    setting = BucketSetting(tuple((small, large)[j] for j in groups))
    if units > 1:
        quotas = whole_quotas(instance, np.asarray(sizes), np.asarray([small.buckets, large.buckets]))
    else:
        quotas = _partition_two(counts, most, large.records)
    return Partition(setting, tuple(tuple(row) for row in quotas[:, groups].tolist()))


def _partition_two(counts: Integers, most: Integers, large_records: int) -> Integers:
    """Section 4.3: T_1 starts with min(u_i1, o_i) of each value; records move to T_2 until it is full."""
    in_large = counts - most[:, 0]
    movable = most[:, 1] - in_large
    missing = large_records - int(in_large.sum())
    before = np.concatenate(([0], np.cumsum(movable)[:-1]))
    in_large = in_large + np.clip(missing - before, 0, movable)
    return np.stack([counts - in_large, in_large], axis=1)
