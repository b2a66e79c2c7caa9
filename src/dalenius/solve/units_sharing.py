"""The linear program of `units_share.py` for one problem: which items are pressed, and which sizes count.

It begins with the items that need a good part of the room there is. Where the optimum sends more units with some
other item to a size than its buckets hold, that item is pressed too, and the program is solved again. The first
optimum, over all sizes and without slack, gives the bound (`units_prices.py`). After that, a few sizes will do: those
in use, and those in which representatives (`units_bound.py`) would lose little.
"""

from __future__ import annotations

import time

import numpy as np

from dalenius.solve.caps import Floats, Integers, most_values
from dalenius.solve.unit_kinds import Kinds, kinds_of, pressure, use_by_size
from dalenius.solve.unit_problem import UnitProblem
from dalenius.solve.units_prices import bound_by_prices, prices_in
from dalenius.solve.units_share import Shares, Sizing, round_buckets, share_out, size_up, whole_quotas

_PRESSED = 0.25  # of the room, that items need which are pressed from the start
_MOST_KINDS = 3000
_MANY_UNITS = 1_000_000
_MANY_KINDS = 1000  # with which sizes that are not in use cost too much time
_MOST_COLUMNS = 150_000  # kinds x sizes
_MOST_CELLS = 1_000_000  # sizes x items, up to which there is a bound
_MOST_PRICINGS = 3
_MOST_NEW = 6  # sizes, after each
_WORTH_IT = 1e-3
_USED = 0.02  # of a bucket
_FEW_COLUMNS = 50_000
_EXACT = 1e-4
_ROUNDS = 2
_OVER = 0.02  # of the room, and one unit: so much more than the room has no item that is not pressed
_STEPS = 2  # in which numbers of buckets are rounded
_NONE = 0.02  # of a bucket is none
_LARGEST_PART = 0.6  # of the room to spare of an item that slack takes


class Sharing:
    """Kinds of units shared out to sizes, with more and more slack."""

    def __init__(
        self, problem: UnitProblem, promising: Integers, max_size: int, random: np.random.Generator, deadline: float
    ) -> None:
        self.problem, self.max_size = problem, max_size
        self._random, self.deadline = random, deadline
        self._use_sizes(promising)
        self.kinds = self._first_kinds()
        self.first = self._solve(0.0)
        self.bound = 0
        last = min(max_size, problem.units)
        if self.first is not None and (last - problem.first_size) * len(problem.limits) < _MOST_CELLS:
            self._prove(np.arange(problem.first_size, last + 1, dtype=np.int64))

    def _prove(self, every: Integers) -> None:
        """The bound; sizes that could lower the optimum join the promising ones, until there are none."""
        caps = self._caps_of(every)
        promising = self.sizes
        for pricing in range(2 if self._is_large else _MOST_PRICINGS):
            if self.first is None or time.monotonic() > self.deadline:
                break
            better = self._price(self.first, every, caps)
            if not len(better):
                break
            if self._is_large and pricing == 1:
                break
            used = self.sizes[self.first.buckets > _USED] if self._is_large else self.sizes
            if not self._again_with(np.union1d(used, better), _ROUNDS):
                break
        else:
            if len(every) * len(self.kinds) <= _FEW_COLUMNS and self._again_with(every, 1) and self.first is not None:
                self._price(self.first, every, caps)
        if self.first is not None:
            kept = self.first.buckets > _USED
            if not self._is_large:
                kept |= np.isin(self.sizes, promising)
            self._use_sizes(self.sizes[kept])
            self.first = self.first.at(kept)

    def _again_with(self, sizes: Integers, rounds: int) -> bool:
        """The first optimum over other sizes; what there was is kept if it is not found in time."""
        before = self.sizes, self.kinds, self.first
        self._use_sizes(sizes)
        self.first = self._solve(0.0, 1 if self._is_large else rounds)
        if self.first is None:
            sizes, self.kinds, self.first = before
            self._use_sizes(sizes)
            return False
        return True

    def _price(self, shares: Shares, every: Integers, caps: Integers) -> Integers:
        """Raise the bound to what the prices prove; the sizes that seem to promise a lower optimum."""
        rest = np.setdiff1d(np.arange(len(caps)), self.kinds.pressed)
        own, others = caps[self.kinds.pressed], shares.prices_of_others
        known = self.sizes - every[0]
        unknown = np.setdiff1d(np.arange(len(every)), known)
        prices, profit = np.zeros(own.shape), np.zeros(len(every))
        prices[:, known] = shares.prices
        if len(unknown):
            found, dearest = prices_in(self.kinds, every[unknown], own[:, unknown], shares.worth, self.deadline)
            prices[:, unknown] = found
            profit[unknown] = dearest + others @ caps[rest][:, unknown] - (every[unknown] - 1.0) ** 2
        self.bound = max(self.bound, bound_by_prices(self.problem, self.kinds, every, caps, prices, others))
        profit *= self.problem.units / every
        better = np.argsort(-profit, kind="stable")[:_MOST_NEW]
        return np.asarray(every[better[profit[better] > _WORTH_IT * shares.cost]])

    def _use_sizes(self, sizes: Integers) -> None:
        self.sizes, self._caps = sizes, self._caps_of(sizes)

    @property
    def _is_large(self) -> bool:
        return len(self.kinds) > _MANY_KINDS

    def _caps_of(self, sizes: Integers) -> Integers:
        return most_values(self.problem.limits, sizes, self.problem.known_records)

    def shares(self, slack: float) -> Shares | None:
        """The optimum with slack, over the sizes that count; None if it could not be found in time."""
        if slack == 0 and self.first is not None:
            return self.first
        return self._solve(slack, 1 if self._is_large else _ROUNDS)

    def quotas(self, shares: Shares, slack: float) -> tuple[Sizing, Integers]:
        """Whole numbers of buckets, and units of each kind for each size, in whole numbers too, that fill them.

        The numbers of buckets that are nearest to whole ones are rounded first, and the others are found anew.
        """
        fixed = np.where(shares.buckets < _NONE, 0.0, np.nan)
        spare = self._slack(slack)
        steps = 1 if self._is_large else _STEPS
        for step in range(steps):
            free = np.flatnonzero(np.isnan(fixed))
            if len(free) <= 2:
                break
            off = np.abs(shares.buckets[free] - np.rint(shares.buckets[free])) * self.sizes[free]
            some = free[np.argsort(off, kind="stable")[: -(-len(free) // (steps + 1 - step))]]
            fixed[some] = np.rint(shares.buckets[some])
            found = share_out(self.problem, self.kinds, self.sizes, self._caps, spare, self._left(), fixed)
            if found is None:
                fixed[some] = np.nan
                break
            shares = found
        buckets = round_buckets(self.problem.units, self.sizes, shares.buckets)
        found = None
        if (np.abs(shares.buckets - buckets) > _EXACT).any():
            found = share_out(
                self.problem, self.kinds, self.sizes, self._caps, spare, self._left(), buckets.astype(float)
            )
        shares = shares if found is None else found
        sizing = size_up(self.problem.units, self.sizes, buckets, shares.larger)
        return sizing, whole_quotas(self.kinds, sizing, shares.units, self._random)

    def _left(self) -> float:
        return max(0.1, self.deadline - time.monotonic())

    def _first_kinds(self) -> Kinds:
        """As many of the pressed items as give no more than so many kinds."""
        use = pressure(self.problem, self._caps, self.sizes)
        order = np.argsort(-use, kind="stable")
        number = max(1, int((use >= _PRESSED).sum()))
        while True:
            kinds = self._kinds(np.sort(order[:number]))
            if len(kinds) <= _MOST_KINDS or number == 1:
                return kinds
            number = number // 2 if self.problem.units > _MANY_UNITS else number * 4 // 5

    def _kinds(self, pressed: Integers) -> Kinds:
        return kinds_of(self.problem, pressed, self._random, min(self.max_size, self.problem.units))

    def _slack(self, slack: float) -> Floats:
        """Of each pressed item, as far as it has room to spare at all."""
        use = pressure(self.problem, self._caps, self.sizes)[self.kinds.pressed]
        return np.asarray(np.minimum(slack, _LARGEST_PART * np.maximum(1.0 - use, 0.0)))

    def _solve(self, slack: float, rounds: int = _ROUNDS) -> Shares | None:
        """The optimum, after a few rounds in which more items are pressed."""
        for left in range(rounds, 0, -1):
            shares = share_out(self.problem, self.kinds, self.sizes, self._caps, self._slack(slack), self._left())
            if shares is None or left == 1:
                return shares
            parts = shares.units / np.maximum(shares.units.sum(axis=1, keepdims=True), 1e-9)
            room = self._caps * shares.buckets
            over = use_by_size(self.problem, self.kinds, parts) - (1 + _OVER - slack) * room - 1.0
            over[self.kinds.pressed] = 0.0
            more = np.flatnonzero((over > 0).any(axis=1))
            if not len(more):
                return shares
            kinds = self._kinds(np.union1d(self.kinds.pressed, more))
            if len(kinds) > _MOST_KINDS or len(kinds) * len(self.sizes) > _MOST_COLUMNS:
                return shares
            self.kinds = kinds
        return None
