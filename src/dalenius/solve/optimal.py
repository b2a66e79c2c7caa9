"""The exact optimum over settings of any number of sizes (Definition 4, which the paper could not compute).

Minimise sum_S (S-1)^2 b(S) over integers b >= 0 with sum_S S b(S) = n such that the setting is valid. By Gale's
theorem validity is a set of linear inequalities in b alone (`cuts.py`), so the number of variables is at most M' - M
+ 1 however many values there are.

1. Relax (`relaxation.py`): an exact lower bound on the loss, or a proof that no setting exists.
2. Round: try the integers nearest to the fractional optimum (`nearby.py`), then search a small box around it.
   Violated inequalities found at integral points are added and the search repeated; a maximum flow has the last word
   (`gale.py`).
3. Prove, where the gap is still too large: the bound's reduced costs limit every b(S) in settings that beat the best
   loss found; branch and bound over what remains.

The setting returned is always valid, checked on integers. The bound of step 1 is exact, with a certificate. A bound
from step 3 rests on HiGHS's branch and bound, on integers small enough for its tolerances. Running out of time
returns the best setting found with the gap that was really proven.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.errors import UndecidedError
from dalenius.model.plan import Certificate
from dalenius.model.problem import BucketSetting, Problem
from dalenius.solve.caps import Instance, Integers
from dalenius.solve.certificate import loss_costs, possible_sizes, reduced_rates
from dalenius.solve.highs import BoxAnswer, BoxStatus
from dalenius.solve.nearby import Neighbourhood, broken_cuts, dot, round_nearby, search_box
from dalenius.solve.relaxation import NoSetting, Relaxation, bucket_range, relax
from dalenius.solve.two_size import find_two_size_setting

_RADII = (4, 32)  # how far from the fractional optimum to look for integers
_ROUNDING_SIZES = 160  # sizes with the least reduced cost that rounding may use
_FEW_SIZES = 500  # pairs of sizes are looked at up to this many sizes
_MANY_SIZES = 20_000  # all sizes are searched up to this many, where nothing else limits them
_ANY_LOSS = 10**30
_MOMENT = 1.0  # seconds that the quick fallback may have past the time limit
_WIDEST = 10**6  # wider ranges are beyond what branch and bound in floating point can be trusted with
_WIDE = 64  # ranges of buckets wider than this are worth a linear program each to narrow them


@dataclass(frozen=True)
class Optimum:
    """A valid setting (None if there is none), a proven lower bound on the loss, and the certificate of the exact part.

    Without a setting, `certificate` proves that there is none, if linear inequalities alone suffice for that.
    """

    setting: BucketSetting | None
    bound: int | None
    certificate: Certificate | None


def find_optimum(problem: Problem, gap: float = 1e-4, time_limit: float = 60.0) -> Optimum:
    """The setting of least loss to within the relative `gap`, or the best one found in `time_limit` seconds."""
    return find_optimum_of(Instance(problem), gap, time_limit)


def find_optimum_of(instance: Instance, gap: float, time_limit: float) -> Optimum:
    """The same for an instance, whose demands may be above its counts.

    If they are, the setting is not certain to have room for them: it may come from a search that knows counts alone.
    """
    return _Search(instance, gap, time.monotonic() + time_limit).run()


def begin_search(problem: Problem, gap: float, deadline: float) -> tuple[Optimum, bool]:
    """What `find_optimum` finds without a long search, and whether it would stop there.

    The deadline is one of `time.monotonic`. If it comes too soon, the setting may be None although there is one.
    """
    return _Search(Instance(problem), gap, deadline).begin()


def lower_bound(problem: Problem, time_limit: float = math.inf) -> Optimum:
    """The exact lower bound of the relaxation alone, in milliseconds; no setting."""
    return lower_bound_of(Instance(problem), time_limit)


def lower_bound_of(instance: Instance, time_limit: float) -> Optimum:
    """The same for an instance."""
    relaxed = relax(instance, time.monotonic() + time_limit)
    if isinstance(relaxed, NoSetting):
        return _no_optimum(relaxed)
    return Optimum(None, math.ceil(relaxed.bound.bound), relaxed.bound.certificate())


def _no_optimum(no_setting: NoSetting) -> Optimum:
    return Optimum(None, None, no_setting.proof.certificate("no-setting") if no_setting.proof else None)


@dataclass(frozen=True)
class _Region:
    """Settings with between `low` and `high` buckets of each size, and none of the other sizes.

    `complete` says that no setting in question is outside.
    """

    sizes: Integers
    low: list[int]
    high: list[int]
    complete: bool

    @property
    def is_empty(self) -> bool:
        """No setting at all is in the region."""
        return len(self.sizes) == 0 or any(few > most for few, most in zip(self.low, self.high, strict=True))

    @property
    def is_everything(self) -> bool:
        """A search of the region, which goes at most `_WIDEST` far, leaves out no setting in question."""
        return self.complete and all(most - few <= _WIDEST for few, most in zip(self.low, self.high, strict=True))

    def tighten(self, total: int) -> _Region:
        """The region without the numbers of buckets that the number of records rules out."""
        sizes = self.sizes.tolist()
        least, most = dot(sizes, self.low), dot(sizes, self.high)
        ranges = [
            (max(few, -(-(total - most + size * many) // size)), min(many, (total - least + size * few) // size))
            for size, few, many in zip(sizes, self.low, self.high, strict=True)
        ]
        return _Region(
            sizes=self.sizes, low=[few for few, _ in ranges], high=[many for _, many in ranges], complete=self.complete
        )


class _Search:
    """The state of one run: the best setting so far, the proven bound, and the clock."""

    def __init__(self, instance: Instance, gap: float, deadline: float) -> None:
        self.instance = instance
        self.gap = gap
        self.deadline = deadline
        self.best: BucketSetting | None = None
        self.bound = 0

    def begin(self) -> tuple[Optimum, bool]:
        relaxed = relax(self.instance, self.deadline)
        if isinstance(relaxed, NoSetting):
            return _no_optimum(relaxed), True
        self.bound = math.ceil(relaxed.bound.bound)
        self._round_nearby(relaxed)
        finished = relaxed.complete
        if not self._good_enough() and self._left() > 0:
            finished = self._round(relaxed, _RADII[0]) and finished
        return Optimum(self.best, self.bound, relaxed.bound.certificate()), finished and self._good_enough()

    def run(self) -> Optimum:
        relaxed = relax(self.instance, self.deadline)
        if isinstance(relaxed, NoSetting):
            return _no_optimum(relaxed)
        self.bound = math.ceil(relaxed.bound.bound)
        self._round_nearby(relaxed)
        for radius in _RADII:
            if self._good_enough():
                break
            self._round(relaxed, radius)
        if self.best is None:
            self.best = self._fallback()
        if self.best is None and len(self.instance.sizes) <= 2:
            return Optimum(None, None, None)  # two-size looked at everything there is
        if not self._good_enough() and (self._left() > 0 or self.best is None) and not self._prove(relaxed):
            return Optimum(None, None, None)
        return Optimum(self.best, self.bound, relaxed.bound.certificate())

    def _fallback(self) -> BucketSetting | None:
        """Some valid setting, where rounding found none."""
        if len(self.instance.sizes) <= _FEW_SIZES:
            with suppress(UndecidedError):
                setting = find_two_size_setting(self.instance.problem, max(self.deadline, time.monotonic() + _MOMENT))
                if setting is not None:
                    return setting
        total = self.instance.total
        if self.instance.last_size == total and self.instance.fits_one_bucket:
            return BucketSetting.of([(total, 1)])  # Lemma 1: one bucket that holds everybody
        return None

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _good_enough(self) -> bool:
        return self.best is not None and self.best.loss - self.bound <= self.gap * self.best.loss

    def _target(self) -> int:
        """The largest loss within the gap of the bound, (loss - bound) / loss <= gap; any loss for a gap of 1."""
        return math.floor(self.bound / (1 - Fraction(self.gap))) if self.gap < 1 else _ANY_LOSS

    def _round_nearby(self, relaxed: Relaxation) -> None:
        """Take the best quick rounding that is valid."""
        master = relaxed.master
        used = np.flatnonzero(relaxed.buckets > 1e-9)
        used = used[np.argsort(master.sizes[used])]
        sizes, caps = master.sizes[used], master.caps[:, used]
        rights = np.asarray([row.right for row in master.rows], dtype=np.int64)
        for point in round_nearby(self.instance, master.matrix(used), rights, sizes, relaxed.buckets[used]):
            if not broken_cuts(self.instance, sizes, caps, np.asarray(point)):
                self.best = BucketSetting.of(zip(sizes.tolist(), point, strict=True))
                return

    def _round(self, relaxed: Relaxation, radius: int) -> bool:
        """Search the integers within `radius` of the fractional optimum. False if the clock had a say in it."""
        columns = _promising(relaxed)
        sizes, buckets = relaxed.master.sizes[columns], relaxed.buckets[columns]
        near = Neighbourhood.of(sizes, buckets, radius, self.instance.total)
        until = time.monotonic() + max(0.0, self._left()) / 4
        answer = self._search_box(relaxed, near, until)
        return answer.status is not BoxStatus.STOPPED and time.monotonic() < until

    def _prove(self, relaxed: Relaxation) -> bool:
        """Search every setting that could beat the best one. False if that shows that there is none at all."""
        known = self.best
        region = self._remaining(relaxed)
        if region.is_empty:
            if known is not None:
                self.bound = known.loss
            return known is not None
        answer, offset = self._search_region(relaxed, region)
        if self.best is None:
            if answer.status is BoxStatus.EMPTY and region.is_everything:
                return False
            raise UndecidedError(
                "no valid setting was found, nor a proof that there is none",
                "Give a larger --max-size, which makes settings easier to find, or a larger --time-limit.",
            )
        if region.is_everything:
            if answer.status in (BoxStatus.EMPTY, BoxStatus.SOLVED):
                self.bound = self.best.loss
            elif math.isfinite(answer.bound):
                self.bound = max(self.bound, min(math.ceil(answer.bound - 1e-6) + offset, self.best.loss))
        elif known is None and not self._good_enough() and self._left() > 0:
            return self._prove(relaxed)  # now that there is a setting to beat, the search can be complete
        return True

    def _remaining(self, relaxed: Relaxation) -> _Region:
        """The settings that could beat the best one; without one, all of them, or as many as can be searched."""
        total = self.instance.total
        if self.best is None:
            complete = self.instance.last_size - self.instance.first_size < _MANY_SIZES
            sizes = self.instance.sizes if complete else np.sort(relaxed.master.sizes)
            return _Region(
                sizes=sizes, low=[0] * len(sizes), high=[total // int(size) for size in sizes], complete=complete
            )
        loss = self.best.loss - 1
        sizes, high = possible_sizes(self.instance, relaxed.bound, loss)
        low = [0] * len(high)
        for j, size in enumerate(sizes.tolist()):
            if high[j] > _WIDE and self._left() > 0:
                few, most = bucket_range(relaxed, loss, size, sizes)
                low[j], high[j] = few, min(high[j], most)
        return _Region(sizes, low, high, complete=True).tighten(total)

    def _search_region(self, relaxed: Relaxation, region: _Region) -> tuple[BoxAnswer, int]:
        """Search a region around the fractional optimum; with the answer, the loss that its bound counts from."""
        around = dict(zip(relaxed.master.sizes.tolist(), relaxed.buckets.tolist(), strict=True))
        sizes, ranges = region.sizes, list(zip(region.low, region.high, strict=True))
        base = [
            min(max(math.floor(around.get(size, 0.0) + 1e-7), few), most)
            for size, (few, most) in zip(sizes.tolist(), ranges, strict=True)
        ]
        low = [max(few - b, -_WIDEST) for (few, _), b in zip(ranges, base, strict=True)]
        high = [min(most - b, _WIDEST) for (_, most), b in zip(ranges, base, strict=True)]
        near = Neighbourhood(sizes=sizes, base=base, low=low, high=high)
        return self._search_box(relaxed, near, self.deadline), near.base_loss

    def _search_box(self, relaxed: Relaxation, near: Neighbourhood, until: float) -> BoxAnswer:
        """Take the best valid setting of a neighbourhood, if it beats the best one so far."""
        answer, setting = search_box(relaxed.master, near, until, self._target(), self.best)
        if setting is not None and (self.best is None or setting.loss < self.best.loss):
            self.best = setting
        return answer


def _promising(relaxed: Relaxation) -> Integers:
    """The columns worth rounding with: those in use, and those of least reduced cost."""
    master = relaxed.master
    if len(master.sizes) <= _ROUNDING_SIZES:
        return np.arange(len(master.sizes))
    used = relaxed.buckets > 1e-9
    order = np.argsort(master.sizes)
    multipliers = relaxed.bound.multipliers
    rate, _ = reduced_rates(master.instance, master.sizes[order], relaxed.bound.cuts, multipliers, loss_costs)
    cost = np.empty(len(order))
    cost[order] = (rate - float(relaxed.bound.slope)) * master.sizes[order]
    cost[used] = -1.0
    return np.sort(np.argsort(cost, kind="stable")[: max(_ROUNDING_SIZES, int(used.sum()))])
