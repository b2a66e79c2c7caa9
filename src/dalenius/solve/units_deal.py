"""Units dealt to buckets, round robin: to those of a setting by their representatives, or to sizes by their kinds.

With quotas a_ij (units of representative i for size j), the units of a size are put one after the other, those of equal
representative together, and dealt to its b_j buckets in turn: every bucket gets floor or ceil of a_ij / b_j of each
representative, which no cap is below (Lemma 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.model.problem import BucketSetting
from dalenius.solve.caps import Integers
from dalenius.solve.unit_kinds import Kinds, ranked_keys
from dalenius.solve.unit_problem import UnitProblem


def deal_kinds(
    problem: UnitProblem, kinds: Kinds, quotas: Integers, buckets: Integers, random: np.random.Generator
) -> npt.NDArray[np.int32]:
    """The bucket of each unit, where `quotas[t, k]` units of kind t go to the `buckets[k]` buckets of group k.

    Which of a kind go where is random. The units of a group are put in the order of their items, the most frequent for
    their limits first, and dealt in turn: buckets of a group differ by one unit at most, and alike units are spread.
    """
    order = random.permutation(problem.units).astype(np.int32)
    order = order[np.argsort(kinds.of_unit[order], kind="stable")]
    group = np.empty(problem.units, dtype=np.int32)
    group[order] = np.repeat(np.tile(np.arange(quotas.shape[1], dtype=np.int32), len(quotas)), quotas.ravel())
    need = problem.people / np.asarray([float(limit) for limit in problem.limits])
    ranks = np.empty(len(need), dtype=np.int64)
    ranks[np.argsort(-need, kind="stable")] = np.arange(len(need))
    keys = ranked_keys(problem, ranks)
    order = order[np.argsort(keys[order], kind="stable")]
    del keys
    order = order[np.argsort(group[order], kind="stable")]
    number = np.bincount(group, minlength=len(buckets))
    rank = np.arange(problem.units, dtype=np.int64) - np.repeat(np.cumsum(number) - number, number)
    bucket = rank % np.repeat(buckets, number) + np.repeat(np.cumsum(buckets) - buckets, number)
    bucket_of = np.empty(problem.units, dtype=np.int32)
    bucket_of[order] = bucket
    return bucket_of


def deal(
    representatives: Integers,
    quotas: Integers,
    setting: BucketSetting,
    random: np.random.Generator,
    weights: npt.NDArray[np.float64] | None = None,
    second: Integers | None = None,
) -> npt.NDArray[np.int32]:
    """The bucket of each unit, buckets in ascending order of size.

    Of units with equal representatives those of larger `weights` go to larger sizes. Within a size, units of equal
    representatives are dealt in the order of `second`, so that what else they have in common is spread too.
    """
    units = len(representatives)
    shuffled = random.permutation(units)
    keys: list[npt.NDArray[Any]] = [representatives[shuffled]]
    if weights is not None:
        keys.insert(0, weights[shuffled])
    order = shuffled[np.lexsort(keys)]
    del shuffled
    size_of = np.empty(units, dtype=np.int32)
    size_of[order] = np.repeat(np.tile(np.arange(quotas.shape[1], dtype=np.int32), len(quotas)), quotas.ravel())
    keys = [representatives[order], size_of[order]]
    if second is not None:
        keys.insert(0, second[order])
    order = order[np.lexsort(keys)]
    buckets = np.asarray([group.buckets for group in setting.groups], dtype=np.int64)
    records = np.asarray([group.records for group in setting.groups], dtype=np.int64)
    rank = np.arange(units, dtype=np.int64) - np.repeat(np.cumsum(records) - records, records)
    bucket = rank % np.repeat(buckets, records) + np.repeat(np.cumsum(buckets) - buckets, records)
    bucket_of = np.empty(units, dtype=np.int32)
    bucket_of[order] = bucket
    return bucket_of
