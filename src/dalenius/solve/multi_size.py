"""The recursive heuristic for many sizes (Algorithm 2, Section 5.2).

Split the records by the optimal two-size setting, partition them between the two sizes (Section 4.3), and do the same
to each part as long as the loss falls. Each part is solved under the limits of the whole table, so the union of the
parts is valid. There is no guarantee on the loss; `optimal.py` has one.

With fake values a part's records are whole, and may be up to one record a value over what is in proportion (`gale.py`):
a split is then kept only if the whole setting is valid with it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from dalenius.errors import SolverError, UndecidedError
from dalenius.model.problem import Problem
from dalenius.model.setting import BucketSetting, SizeGroup, Violation
from dalenius.solve.gale import validate_setting
from dalenius.solve.two_size import two_size
from dalenius.solve.validate import validate_two_size


def multi_size(problem: Problem, deadline: float = math.inf) -> BucketSetting | None:
    """A setting found by recursive two-size splits, or None if there is no valid two-size setting to start from."""
    start = two_size(problem, deadline)
    if start is None:
        return None
    done: list[SizeGroup] = []
    pending = [(problem, start)]
    whole = start
    while pending:
        part, split = pending.pop()
        if len(split.groups) == 1:
            done.append(split.groups[0])
            continue
        small, large = split.groups
        partition = validate_two_size(part, small, large)
        if isinstance(partition, Violation):
            raise SolverError(f"the two-size optimum {split} was found invalid ({partition.constraint})")
        for j, group in enumerate((small, large)):
            counts = tuple(row[j] for row in partition.quotas)
            inner = _with_counts(part, counts)
            better = None
            with suppress(UndecidedError):  # out of time: the group stays as it is
                better = two_size(inner, deadline)
            if better is not None and better.loss < group.loss:
                split_further = _replaced(whole, group, better)
                if problem.fake_values and isinstance(validate_setting(problem, split_further), Violation):
                    done.append(group)
                    continue
                whole = split_further
                pending.append((inner, better))
            else:
                done.append(group)
    return BucketSetting.of((group.size, group.buckets) for group in done)


def _replaced(setting: BucketSetting, group: SizeGroup, better: BucketSetting) -> BucketSetting:
    """The setting with the buckets of one group cut up as `better` has it."""
    buckets = {kept.size: kept.buckets for kept in setting.groups}
    buckets[group.size] -= group.buckets
    for other in better.groups:
        buckets[other.size] = buckets.get(other.size, 0) + other.buckets
    return BucketSetting.of(buckets.items())


def _with_counts(problem: Problem, counts: tuple[int, ...]) -> Problem:
    """The same values and limits with other counts; values without records are left out."""
    kept = [i for i, count in enumerate(counts) if count]
    return replace(
        problem,
        values=tuple(problem.values[i] for i in kept),
        counts=tuple(counts[i] for i in kept),
        limits=tuple(problem.limits[i] for i in kept),
    )
