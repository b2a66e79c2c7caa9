"""Many problems under the same limits, the strata of a table, each solved by itself in a few milliseconds.

1. A quick setting for each: its relaxation, a few steps away from that of the problem before (`family.py`), and
   integers near it (`nearby.py`). The bound is exact and the setting validated, as for a single problem.
2. The method for a single problem where there is no quick setting, with larger sizes where there is no setting at all.
3. The method for a single problem again, for the settings that are furthest from their bounds, until all settings
   together are within the gap of all bounds together. With fake values only if the gap is a small one.

So the gap is that of the sum: sum (loss - bound) <= gap * sum loss. A problem whose own gap is larger is FEASIBLE; it
is so small that nobody would notice.

The clock matters only where the time limit is reached: until then each problem may have all the time that is left, so
that the same problems have the same settings, on a busy machine too.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from dalenius.errors import UndecidedError
from dalenius.model.plan import Method, Solution
from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.caps import Instance, Integers
from dalenius.solve.contraction import contract
from dalenius.solve.cuts import without_violations
from dalenius.solve.family import Family, Member, MemberRelaxation
from dalenius.solve.gale import validate_setting
from dalenius.solve.highs import LinearTrouble
from dalenius.solve.methods import one_bucket_solution, solution_with_proof, solve, solve_and_grow, solve_without_search
from dalenius.solve.nearby import round_nearby
from dalenius.solve.optimal import Optimum
from dalenius.solve.sizes import larger_size

_CANDIDATES = 12  # roundings that are looked at
_MORE_SIZES = 4  # besides those in use, where these alone have no good rounding
_LAST_RESORT = 4  # buckets more or less of a size: further roundings are only for those that have none
_MOST_SIZES = 400  # quick settings have every size as a column
_MOST_CELLS = 1_000_000  # values x sizes
_MOMENT = 0.05  # the least time for a try, in seconds
_A_LOOK = 0.01  # seconds for a quick setting: ten times the usual
_A_SECOND = 1.0  # for quick settings, whatever the time limit
# With fake values it is the relaxation's bound that is 1 or 2 % off, and hardly ever the quick setting: little is to be
# gained from a proof, which takes a second. So quick settings stand, unless the gap that is asked for is below this:
# then no relaxation would ever do.
_SMALL_GAP = 0.005


def solve_many(
    problems: Sequence[Problem],
    gap: float,
    time_limit: float,
    each: Callable[[], None] | None = None,
    *,
    method: Method = Method.OPTIMAL,
    grow: bool = False,
) -> list[Solution]:
    """The solution of each problem, as `methods.solve` has it; together they are within the gap, if time permits.

    `each` is called once a problem. With `grow` a problem that has no setting within its sizes is solved with larger
    ones, as in `solve_and_grow`, and the solution's `max_size` says how large they may be.

    Past the time limit every problem still has its quick look, as long as that is a matter of milliseconds; then what
    the method for a single problem finds at once; and half the time limit later, with `grow`, one bucket for everybody.
    """
    contractions = [contract(problem) for problem in problems]
    fewer = [problem if one is None else one.problem for problem, one in zip(problems, contractions, strict=True)]
    many = _Many(fewer, gap, time_limit, method, each or _no_progress, grow=grow)
    if method is Method.OPTIMAL:
        many.look_quickly()
    many.solve_the_rest()
    if method is Method.OPTIMAL:
        many.improve()
    pairs = zip(many.solutions, contractions, strict=True)
    return [solution if one is None else one.expand(solution) for solution, one in pairs]


def _no_progress() -> None:
    """Nobody is watching."""


class _Many:
    """The state of one run: the problems with sizes as large as they have grown, and what was found so far."""

    def __init__(
        self,
        problems: Sequence[Problem],
        gap: float,
        time_limit: float,
        method: Method,
        each: Callable[[], None],
        *,
        grow: bool,
    ) -> None:
        self.problems = list(problems)
        self.gap, self.method, self.each, self.grow = gap, method, each, grow
        started = time.monotonic()
        self.deadline = started + time_limit
        look = max(time_limit, _A_SECOND + _A_LOOK * len(problems))
        self.look_until = started + look
        self.patience = started + 1.5 * look
        self._solutions: dict[int, Solution] = {}

    @property
    def solutions(self) -> list[Solution]:
        """In the order of the problems."""
        return [self._solutions[k] for k in range(len(self.problems))]

    def look_quickly(self) -> None:
        """A quick setting for as many as have one, with sizes that grow if they may."""
        waiting = list(range(len(self.problems)))
        if self.grow:
            for k in waiting:
                solution = solve_without_search(self.problems[k], self.method)
                if solution is not None:
                    self._take(k, solution)
            waiting = [k for k in waiting if k not in self._solutions]
        while waiting:
            waiting = [k for group in self._families(waiting) for k in self._look_at(*group) if self._grow(k)]

    def _families(self, waiting: list[int]) -> Iterator[tuple[Family, list[int]]]:
        """Problems with the same sizes, known records, fake values and units; without those that are too large."""
        groups: dict[tuple[int, int, int, int, int], list[int]] = defaultdict(list)
        for k in waiting:
            instance = Instance(self.problems[k])
            first, last, problem = instance.first_size, instance.last_size, instance.problem
            if first <= last < first + _MOST_SIZES and (last - first + 1) * len(problem.counts) <= _MOST_CELLS:
                groups[first, last, problem.known_records, problem.fake_values, instance.units].append(k)
        for (first, last, _, _, units), group in groups.items():
            sizes = np.arange(first, last + 1, dtype=np.int64)
            yield Family([self.problems[k] for k in group], sizes, units), group

    def _look_at(self, family: Family, group: list[int]) -> Iterator[int]:
        """Settle those that have a quick setting; yields those that seem to have none at all."""
        for k, member in zip(group, family.members, strict=True):
            started = time.monotonic()
            if started > self.look_until:
                return
            setting = find_quick_setting(family, member, self.gap)
            if isinstance(setting, QuickSetting):
                seconds = time.monotonic() - started
                self._take(
                    k,
                    solution_with_proof(
                        member.problem, self.method, setting.partition, setting.proof, self.gap, seconds
                    ),
                )
            elif setting is NoQuickSetting.NO_SETTING:
                yield k

    def _grow(self, k: int) -> bool:
        """Let the problem's sizes grow, if they may and can."""
        if not self.grow:
            return False
        problem = self.problems[k]
        size = larger_size(problem.max_size, problem.total)
        if size is None:
            self._take(k, one_bucket_solution(problem, self.method))
            return False
        self.problems[k] = replace(problem, max_size=size)
        return True

    def solve_the_rest(self) -> None:
        """The method for a single problem."""
        rest = [k for k in range(len(self.problems)) if k not in self._solutions]
        for k in rest:
            problem, seconds = self.problems[k], max(_MOMENT, self.deadline - time.monotonic())
            if not self.grow:
                solution = solve(problem, self.method, self.gap, seconds)
            elif time.monotonic() < self.patience or self.method is not Method.OPTIMAL:
                solution = solve_and_grow(problem, self.method, self.gap, seconds, _MOMENT)
            else:
                solution = solve_without_search(problem, self.method) or one_bucket_solution(problem, self.method)
            self._take(k, solution)

    def improve(self) -> None:
        """Search more thoroughly where most can be gained, until the sum of losses is within the gap."""
        if self.gap >= _SMALL_GAP and any(problem.fake_values for problem in self.problems):
            return
        bounded = {k: solution for k, solution in self._solutions.items() if solution.bound is not None}
        worst = sorted(bounded, key=lambda k: -_excess(bounded[k]))
        losses, excess = sum(_loss(solution) for solution in bounded.values()), sum(map(_excess, bounded.values()))
        for k in worst:
            left = self.deadline - time.monotonic()
            if excess <= self.gap * losses or left <= 0:
                break
            before = bounded[k]
            problem = replace(self.problems[k], max_size=before.max_size)
            after = _improve(problem, before, self.gap, max(_MOMENT, left))
            losses -= _loss(before) - _loss(after)
            excess -= _excess(before) - _excess(after)
            self._solutions[k] = after

    def _take(self, k: int, solution: Solution) -> None:
        self._solutions[k] = solution
        self.each()


def _improve(problem: Problem, before: Solution, gap: float, seconds: float) -> Solution:
    """The better setting and the better bound of what was found before and what a thorough search finds."""
    started = time.monotonic()
    try:
        again = solve(problem, before.method, gap, seconds)
    except UndecidedError:
        return before
    partition = min(before, again, key=_loss).partition
    proof = max(before, again, key=lambda solution: solution.bound or 0)
    if partition is None:
        return before
    optimum = Optimum(partition.setting, proof.bound, proof.certificate)
    return solution_with_proof(
        problem, before.method, partition, optimum, gap, before.seconds + time.monotonic() - started
    )


def _loss(solution: Solution) -> float:
    """The loss; infinite without a setting."""
    return math.inf if solution.loss is None else solution.loss


def _excess(solution: Solution) -> float:
    """How far the loss is above the bound."""
    return _loss(solution) - (solution.bound or 0)


class NoQuickSetting(Enum):
    """Why there is no quick setting."""

    NO_SETTING = "no setting"  # says floating point: a reason to try larger sizes, and no proof
    NOT_FOUND = "not found"


@dataclass(frozen=True)
class QuickSetting:
    """A valid partition and the bound on its loss."""

    partition: Partition
    proof: Optimum

    def is_within(self, gap: float) -> bool:
        """(loss - bound) / loss <= gap."""
        loss = self.partition.setting.loss
        return loss - (self.proof.bound or 0) <= gap * loss


def find_quick_setting(family: Family, member: Member, gap: float) -> QuickSetting | NoQuickSetting:
    """The best rounding of the member's relaxation; further ones are tried where it is not within the gap."""
    try:
        relaxed = family.relax(member)
    except LinearTrouble:
        return NoQuickSetting.NOT_FOUND
    if relaxed is None:
        return NoQuickSetting.NO_SETTING
    used = np.flatnonzero(relaxed.buckets)
    proof = Optimum(None, max(0, math.ceil(relaxed.bound.bound)), relaxed.bound.certificate())
    best: QuickSetting | None = None
    for columns, step in _attempts(family, relaxed, used):
        if step > _LAST_RESORT and best is not None:
            break
        partition = next(_roundings(family, member, relaxed, columns, step), None)
        if partition is not None and (best is None or partition.setting.loss < best.partition.setting.loss):
            best = QuickSetting(partition, proof)
        if best is not None and best.is_within(gap):
            break
    return NoQuickSetting.NOT_FOUND if best is None else best


def _attempts(family: Family, relaxed: MemberRelaxation, used: Integers) -> Iterator[tuple[Integers, int]]:
    """Sizes to round with, and how many buckets of each may be more or less: ever more of both."""
    yield used, 2
    more = _with_more_sizes(family, relaxed, used)
    yield more, 4
    yield more, 8


def _roundings(
    family: Family, member: Member, relaxed: MemberRelaxation, columns: Integers, step: int
) -> Iterator[Partition]:
    """The partitions of valid roundings, those of least loss first."""
    sizes, caps = family.sizes[columns], family.caps[:, columns]
    rows = np.concatenate([caps[member.own], relaxed.matrix[:, columns]])
    rights = np.concatenate([member.counts[member.own], relaxed.rights])
    points = np.asarray(round_nearby(member, rows, rights, sizes, relaxed.buckets[columns], _CANDIDATES, step))
    if not points.size:
        return
    for k in np.flatnonzero(without_violations(member, sizes, caps, points)):
        verdict = validate_setting(
            member.problem, BucketSetting.of(zip(sizes.tolist(), points[k].tolist(), strict=True))
        )
        if isinstance(verdict, Partition):
            yield verdict


def _with_more_sizes(family: Family, relaxed: MemberRelaxation, used: Integers) -> Integers:
    """The sizes in use, and those of least reduced cost r(S) - lambda S (`certificate.py`)."""
    reduced = (family.sizes - 1.0) ** 2 - relaxed.multipliers @ relaxed.matrix
    cost = reduced - float(relaxed.bound.slope) * family.sizes
    cost[used] = -np.inf
    return np.sort(np.argsort(cost, kind="stable")[: len(used) + _MORE_SIZES])
