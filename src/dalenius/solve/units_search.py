"""The search for a valid bucketization of small loss, starting from the setting of the bound.

Units are dealt to the setting's buckets by their representatives (`units_deal.py`), exchanged until no cap is broken
(`units_exchange.py`), and where that stalls, buckets change their sizes (`units_repair.py`). What came out broken says
where the setting is too tight: the next attempt has a setting with more room for these items. The best attempt counts.

Many buckets are worked on in blocks, each of which has its share of every size, so that memory stays small: a block has
a table of its buckets and items.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.model.problem import BucketSetting, Partition
from dalenius.solve.caps import Integers
from dalenius.solve.unit_block import Block
from dalenius.solve.unit_problem import UnitProblem
from dalenius.solve.units_bound import UnitBound, setting_with_room
from dalenius.solve.units_deal import deal
from dalenius.solve.units_exchange import exchange
from dalenius.solve.units_repair import improve, repair

_BLOCK_CELLS = 8_000_000  # buckets x items of a block
_SLACKS = (0.03, 0.1, 0.25)  # more room than there are units, in further attempts
_SETTING_TIME = 5.0


@dataclass(frozen=True, eq=False)
class _Attempt:
    bucket_of: npt.NDArray[np.int32]
    loss: int
    seconds: float


def search_buckets(
    problem: UnitProblem,
    bound: UnitBound,
    gap: float,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
) -> npt.NDArray[np.int32]:
    """A valid bucketization: the best of several attempts, the first of which is always finished."""
    best = _attempt(problem, bound, bound.partition, deadline, random, each)
    for slack in _SLACKS:
        if best.loss - bound.bound <= gap * best.loss or time.monotonic() + 1.5 * best.seconds > deadline:
            break
        wanted = np.ceil(problem.people * (1 + slack)).astype(np.int64)
        partition = setting_with_room(problem, bound, wanted, max(gap, 0.002), _SETTING_TIME)
        if partition is None or partition.setting.loss >= best.loss:
            break
        attempt = _attempt(problem, bound, partition, deadline, random, each)
        if attempt.loss < best.loss:
            best = attempt
    return best.bucket_of


def _attempt(
    problem: UnitProblem,
    bound: UnitBound,
    partition: Partition,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
) -> _Attempt:
    """Deal the units to a setting, and make every bucket valid, whatever that costs."""
    started = time.monotonic()
    setting = partition.setting
    quotas = np.asarray(partition.quotas, dtype=np.int64)
    bucket_of = deal(bound.representatives, quotas, setting, random)
    blocks = _blocks(problem, setting)
    number = int(blocks.max()) + 1
    order = np.argsort(blocks[bucket_of], kind="stable") if number > 1 else np.arange(problem.units)
    ends = np.cumsum(np.bincount(blocks[bucket_of], minlength=number))
    made = 0
    for k in range(number):
        units = order[ends[k - 1] if k else 0 : ends[k]]
        block = Block.of(problem, units, bucket_of[units].astype(np.int64))
        until = time.monotonic() + max(0.0, deadline - time.monotonic()) / (number - k)
        _solve_block(problem, bound, block, until, random, each)
        bucket_of[units] = block.bucket_of + made
        made += len(block.sizes)
    sizes = np.bincount(bucket_of)
    loss = int(((sizes[sizes > 0] - 1) ** 2).sum())
    return _Attempt(bucket_of, loss, time.monotonic() - started)


def _solve_block(
    problem: UnitProblem,
    bound: UnitBound,
    block: Block,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
) -> None:
    if exchange(block, random, deadline, each):
        repair(block, problem.first_size, bound.max_size, random, deadline, each)
        improve(block, problem.first_size, random, deadline, each)


def _blocks(problem: UnitProblem, setting: BucketSetting) -> Integers:
    """The block of each bucket."""
    number = -(-setting.buckets * (len(problem.limits) + 1) // _BLOCK_CELLS)
    return np.concatenate([np.arange(group.buckets) % number for group in setting.groups])
