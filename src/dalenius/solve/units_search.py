"""The search for a valid bucketization of small loss.

A linear program says how many units of each kind go to buckets of each size (`units_share.py`). The units of a size are
dealt to its buckets so that alike units are spread (`units_deal.py`), exchanged until no cap is broken
(`units_exchange.py`), and where that stalls, buckets change their sizes (`units_repair.py`). Where much came out broken,
the next attempt has more slack. The best attempt counts. The search ends early where more slack costs more than it
could save.

Many buckets are worked on in blocks, each of which has its share of every size, so that memory stays small: a block has
a table of its buckets and items.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers
from dalenius.solve.unit_block import Block
from dalenius.solve.unit_problem import UnitProblem
from dalenius.solve.units_bound import UnitBound
from dalenius.solve.units_deal import deal, deal_kinds
from dalenius.solve.units_exchange import exchange
from dalenius.solve.units_repair import improve, repair

_BLOCK_CELLS = 8_000_000  # buckets x items of a block
_SLACKS = (0.0, 0.03, 0.06, 0.1, 0.16, 0.25)
_HOPELESS = 0.02  # excess of so many of the units is not worth a repair
_WORTH_IT = 0.003  # of the loss, that another attempt has to gain

Buckets = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Dealing:
    """The bucket of each unit, and the group of like buckets that each bucket is in, buckets of a group in a row."""

    bucket_of: Buckets
    groups: Integers


@dataclass(frozen=True, eq=False)
class _Attempt:
    """`left` is the excess that exchanges have not removed. Without `valid`, nothing has been done about it."""

    bucket_of: Buckets
    loss: int
    left: int
    valid: bool


@dataclass(frozen=True, eq=False)
class _Search:
    problem: UnitProblem
    max_size: int
    random: np.random.Generator
    each: Callable[[], None]


def search_buckets(
    problem: UnitProblem,
    bound: UnitBound,
    gap: float,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
    first: Buckets | None = None,
) -> Buckets:
    """A valid bucketization: the best of several attempts, and of `first` if there is one already."""
    search = _Search(problem, bound.max_size, random, each)
    best, loss, nearest = first, _loss(first) if first is not None else None, None
    seconds = 0.0
    if bound.sharing is not None:
        bound.sharing.deadline = deadline
    for slack in _SLACKS:
        began = time.monotonic()
        if loss is not None and (loss - bound.bound <= gap * loss or began + seconds > deadline):
            break
        if nearest is not None and began + seconds > deadline:
            break
        dealing = _dealing(search, bound, slack, loss)
        if dealing is None:
            break
        attempt = _finish(search, dealing, deadline, sure=False)
        seconds = time.monotonic() - began
        if not attempt.valid:
            nearest = attempt if nearest is None or attempt.left < nearest.left else nearest
        elif loss is None or attempt.loss < loss:
            enough = loss is not None and loss - attempt.loss < _WORTH_IT * loss
            best, loss = attempt.bucket_of, attempt.loss
            if enough:
                break
    if best is not None:
        return best
    if nearest is None:
        setting, quotas = bound.partition.setting, np.asarray(bound.partition.quotas, dtype=np.int64)
        groups = np.repeat(np.arange(len(setting.groups)), [group.buckets for group in setting.groups])
        dealt = _Dealing(deal(bound.representatives, quotas, setting, random), groups)
    else:
        dealt = _Dealing(nearest.bucket_of, np.zeros(int(nearest.bucket_of.max()) + 1, dtype=np.int64))
    return _finish(search, dealt, deadline, sure=True).bucket_of


def _loss(bucket_of: Buckets) -> int:
    sizes = np.bincount(bucket_of)
    return int(((sizes[sizes > 0] - 1) ** 2).sum())


def _dealing(search: _Search, bound: UnitBound, slack: float, loss: int | None) -> _Dealing | None:
    """Units dealt to the optimum with some slack; None if that is no better than the loss so far."""
    sharing = bound.sharing
    shares = None if sharing is None else sharing.shares(slack)
    if sharing is None or shares is None or (loss is not None and shares.cost >= (1 - _WORTH_IT) * loss):
        return None
    sizing, quotas = sharing.quotas(shares, slack)
    bucket_of = deal_kinds(search.problem, sharing.kinds, quotas, sizing.buckets, search.random)
    return _Dealing(bucket_of, np.repeat(np.arange(len(sizing.buckets)), sizing.buckets))


def _finish(search: _Search, dealing: _Dealing, deadline: float, *, sure: bool) -> _Attempt:
    """Exchange, and unless too much is broken after that, make every bucket valid; in any case if it has to be `sure`."""
    problem, bucket_of = search.problem, dealing.bucket_of
    blocks = _blocks(problem, dealing.groups)
    number = int(blocks.max()) + 1
    order = np.argsort(blocks[bucket_of], kind="stable") if number > 1 else np.arange(problem.units)
    ends = np.cumsum(np.bincount(blocks[bucket_of], minlength=number))
    made = left = 0
    valid = True
    for k in range(number):
        units = order[ends[k - 1] if k else 0 : ends[k]]
        block = Block.of(problem, units, bucket_of[units].astype(np.int64))
        until = time.monotonic() + max(0.0, deadline - time.monotonic()) / (number - k)
        excess = exchange(block, search.random, until, search.each)
        left += excess
        if not sure and excess > max(4.0, _HOPELESS * len(units)):
            valid = False
        elif excess:
            repair(block, problem.first_size, search.max_size, search.random, until, search.each)
        if valid:
            improve(block, problem.first_size, search.random, until, search.each)
        bucket_of[units] = block.bucket_of + made
        made += len(block.sizes)
    return _Attempt(bucket_of, _loss(bucket_of), left, valid)


def _blocks(problem: UnitProblem, groups: Integers) -> Integers:
    """The block of each bucket: every block has about as many buckets of each group."""
    number = -(-len(groups) * (len(problem.limits) + 1) // _BLOCK_CELLS)
    starts = np.searchsorted(groups, groups)
    return (np.arange(len(groups)) - starts) % number
