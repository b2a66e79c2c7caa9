"""The search for a valid bucketization of small loss.

A linear program says how many units of each kind go to buckets of each size (`units_share.py`). The units of a size
are dealt to its buckets so that alike units are spread (`units_deal.py`), exchanged until no cap is broken
(`units_exchange.py`), and where that stalls, buckets change their sizes (`units_repair.py`). Where much came out
broken, the next attempt has more slack. The best attempt counts. The search ends early where more slack costs more
than it could save.

Many buckets are worked on in blocks, each of which has its share of every size, so that memory stays small: a block has
a table of its buckets and items.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers
from dalenius.solve.unit_block import Block
from dalenius.solve.unit_problem import UnitProblem
from dalenius.solve.units_bound import UnitBound
from dalenius.solve.units_deal import deal, deal_kinds
from dalenius.solve.units_exchange import exchange
from dalenius.solve.units_repair import improve, repair
from dalenius.solve.units_sharing import Sharing
from dalenius.solve.units_two_columns import best_one_size, colour_units, sides_of

_BLOCK_CELLS = 8_000_000  # buckets x items of a block
_SLACKS = (0.0, 0.03, 0.06, 0.1, 0.16, 0.25)
_HOPELESS = 0.02  # excess of so many of the units is not worth a repair
_FEW = 4.0
_FIRST_PART = 0.35  # of the time, for the first attempt
_LAST = 1.0  # seconds, at least, for the first attempt by kinds, and to make the nearest attempt valid
_FIRST_PATIENCE, _PATIENCE, _LAST_PATIENCE = 25, 30, 10  # sweeps
_COLOURING = 5.0  # seconds that it may take beyond the time limit
_WORTH_IT = 0.005  # of the loss, that another attempt has to gain

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


class _Search:
    """The best buckets so far, and the nearest to valid ones while there are none; the bound; and the clock."""

    def __init__(
        self,
        problem: UnitProblem,
        bound: UnitBound,
        gap: float,
        deadline: float,
        random: np.random.Generator,
        each: Callable[[], None],
    ) -> None:
        self.problem, self.bound, self.gap = problem, bound, gap
        self.deadline, self.random, self.each = deadline, random, each
        self.best: _Attempt | None = None
        self.nearest: _Attempt | None = None
        self.seconds = 0.0
        self.late = time.monotonic() >= deadline  # there never was any time

    def over(self) -> bool:
        """Whether the best is good enough, or there is no time for another attempt."""
        best = self.best
        if best is not None and best.loss - self.bound.bound <= self.gap * best.loss:
            return True
        return self.best is not None and time.monotonic() + self.seconds > self.deadline

    def attempt(self, dealing: _Dealing, patience: int, hopeless: float) -> bool:
        """Finish a dealing, and keep it if it is the best. False if that gained little, where there was one before."""
        before = self.best
        attempt = self._finish(dealing, patience, max(_FEW, hopeless * self.problem.units))
        if not attempt.valid:
            if self.nearest is None or attempt.left < self.nearest.left:
                self.nearest = attempt
            return True
        if before is not None and attempt.loss >= before.loss:
            return True
        self.best = attempt
        return before is None or before.loss - attempt.loss >= _WORTH_IT * before.loss

    def colour(self, *, only_optimal: bool) -> None:
        """Take buckets of one size by an edge colouring if there are such, and they are better than the best."""
        one = best_one_size(self.problem)
        most = (
            self.bound.bound / (1 - self.gap) if only_optimal else np.inf if self.best is None else self.best.loss - 1
        )
        side = sides_of(self.problem) if one is not None and one.loss <= most else None
        if one is None or side is None:
            return
        until = max(self.deadline, time.monotonic() + _COLOURING)
        bucket_of = colour_units(self.problem, one, side, self.random, until)
        if bucket_of is not None:
            self.best = _Attempt(bucket_of, one.loss, 0, valid=True)

    def result(self) -> Buckets:
        """The best; if no attempt was valid, the nearest, made valid whatever that costs."""
        if self.best is None:
            nearest = self.nearest
            if nearest is None:
                raise ValueError("no attempt was made")
            alike = np.zeros(int(nearest.bucket_of.max()) + 1, dtype=np.int64)
            if not self.late:
                self.deadline = max(self.deadline, time.monotonic() + _LAST)
            self.best = self._finish(_Dealing(nearest.bucket_of, alike), _LAST_PATIENCE, np.inf)
        return self.best.bucket_of

    def by_representatives(self) -> _Dealing:
        """Units dealt to the setting of the bound."""
        setting = self.bound.partition.setting
        quotas = np.asarray(self.bound.partition.quotas, dtype=np.int64)
        groups = np.repeat(np.arange(len(setting.groups)), [group.buckets for group in setting.groups])
        return _Dealing(deal(self.bound.representatives, quotas, setting, self.random), groups)

    def by_kinds(self, sharing: Sharing, slack: float) -> _Dealing | None:
        """Units dealt to the optimum with some slack; None if that is not worth it, or not found in time."""
        shares = sharing.shares(slack)
        if shares is None or (self.best is not None and shares.cost >= (1 - _WORTH_IT) * self.best.loss):
            return None
        sizing, quotas = sharing.quotas(shares, slack)
        bucket_of = deal_kinds(self.problem, sharing.kinds, quotas, sizing.buckets, self.random)
        return _Dealing(bucket_of, np.repeat(np.arange(len(sizing.buckets)), sizing.buckets))

    def _finish(self, dealing: _Dealing, patience: int, most: float) -> _Attempt:
        """Exchange, and make every bucket valid; not if an excess of more than `most` is left by then."""
        problem, bucket_of = self.problem, dealing.bucket_of
        blocks = _blocks(problem, dealing.groups)
        number = int(blocks.max()) + 1
        order = np.argsort(blocks[bucket_of], kind="stable") if number > 1 else np.arange(problem.units)
        ends = np.cumsum(np.bincount(blocks[bucket_of], minlength=number))
        made = left = 0
        valid = True
        for k in range(number):
            units = order[ends[k - 1] if k else 0 : ends[k]]
            block = Block.of(problem, units, bucket_of[units].astype(np.int64))
            until = time.monotonic() + max(0.0, self.deadline - time.monotonic()) / (number - k)
            excess = exchange(block, self.random, until, self.each, patience)
            left += excess
            if left > most:
                valid = False
            elif excess:
                repair(block, problem.first_size, self.bound.max_size, self.random, until, self.each)
            if valid:
                improve(block, problem.first_size, self.random, until, self.each)
            bucket_of[units] = block.bucket_of + made
            made += len(block.sizes)
        sizes = np.bincount(bucket_of)
        loss = int(((sizes[sizes > 0] - 1) ** 2).sum())
        return _Attempt(bucket_of, loss, left, valid)


def search_buckets(
    problem: UnitProblem,
    bound: UnitBound,
    gap: float,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
) -> tuple[Buckets, UnitBound]:
    """A valid bucketization, the best of several attempts; and the bound, which may have risen."""
    search = _Search(problem, bound, gap, deadline, random, each)
    if not search.late:
        search.colour(only_optimal=True)
    if search.best is None:
        search.deadline = time.monotonic() + _FIRST_PART * (deadline - time.monotonic())
        search.attempt(search.by_representatives(), _FIRST_PATIENCE, _HOPELESS)
        search.deadline = deadline
    if search.late or search.over():
        return search.result(), search.bound
    sharing = Sharing(problem, bound.promising, bound.max_size, random, deadline)
    search.bound = replace(bound, bound=max(bound.bound, sharing.bound))
    for slack in _SLACKS:
        began = time.monotonic()
        if slack == 0:  # the attempt that is most likely to be good
            search.deadline = max(deadline, began + _LAST)
        dealing = None if slack > 0 and search.over() else search.by_kinds(sharing, slack)
        if dealing is None or not search.attempt(dealing, _PATIENCE, _HOPELESS):
            break
        search.seconds = time.monotonic() - began
        if search.best is None and began + 2 * search.seconds > deadline:
            break
    search.colour(only_optimal=False)
    return search.result(), search.bound


def _blocks(problem: UnitProblem, groups: Integers) -> Integers:
    """The block of each bucket: every block has about as many buckets of each group."""
    number = -(-len(groups) * (len(problem.limits) + 1) // _BLOCK_CELLS)
    starts = np.searchsorted(groups, groups)
    return (np.arange(len(groups)) - starts) % number
