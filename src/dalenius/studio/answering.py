"""From a plan to an exploration: what to show value by value and size by size, and why there is no setting.

An exploration names the value that forces the large buckets. A value with the limit f' needs buckets of at least
ceil(1 / f') records that nobody knows. Take the size group with the largest part of the loss among those that some
value needs. It exists because of the value that needs most of its buckets: o_i records, at most cap[i, S] of them in
each. Where there is time, the explorer tries out a higher limit for it. A group with a limit is as good as a value.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.errors import PolicyError
from dalenius.model.exposure import Exposure, GroupShare
from dalenius.model.groups import Groups
from dalenius.model.plan import Plan, Status
from dalenius.model.problem import BucketSetting, Partition, Problem, ValueCounts
from dalenius.planning import offers_groups
from dalenius.policy.grouping import limit_groups, number_of
from dalenius.policy.limits import LimitPolicy
from dalenius.solve.caps import most_values, smallest_size
from dalenius.solve.glance import Memory, glance
from dalenius.solve.sizes import most_in_one_bucket
from dalenius.studio.exploration import (
    Exploration,
    ExplorationStatus,
    ExploredGroup,
    ExploredTree,
    Forcing,
    Obstacle,
    Peer,
    Unprotected,
)

_NAMES = 5
_CANDIDATES = 3  # values to try
_SECONDS = 0.5  # for each of them


@dataclass(frozen=True)
class ValueOrder:
    """The order of values on a page: most records first, then by value; and bands of numbers in ascending order."""

    counts: ValueCounts
    order: tuple[int, ...]

    @classmethod
    def of(cls, counts: ValueCounts) -> ValueOrder:
        """The order for these counts."""
        by_frequency = [(-count, value) for value, count in zip(counts.values, counts.counts, strict=True)]
        key = [_begin(value) for value in counts.values] if counts.are_bands else by_frequency
        return cls(counts, tuple(sorted(range(len(counts)), key=key.__getitem__)))

    def refusal(self, obstacle: Obstacle, policy: LimitPolicy | None = None, seconds: float = 0.0) -> Exploration:
        """An exploration without a setting: the reason, and the limits as far as there are any."""
        values = tuple(self.counts.values[i] for i in self.order)
        counts = tuple(self.counts.counts[i] for i in self.order)
        total, nothing = self.counts.total, (None,) * len(values)
        limits: tuple[Fraction | None, ...] = nothing
        if policy is not None:
            limits = tuple(
                policy.values.get(value, policy.rule_limit(count, total))
                for value, count in zip(values, counts, strict=True)
            )
        known = tuple(limit is not None for limit in limits)
        return Exploration(
            exact=True,
            status="infeasible",
            values=values,
            counts=counts,
            limits=limits,
            eligible=known,
            smallest=nothing,
            worst=nothing,
            obstacle=obstacle,
            seconds=seconds,
            tree=None if policy is None else self._tree_of_policy(policy),
        )

    def exploration(
        self,
        plan: Plan,
        *,
        exact: bool,
        peers: Mapping[str, Peer | None],
        forcing: Forcing | None = None,
        unprotected: Unprotected | None = None,
        obstacle: Obstacle | None = None,
        seconds: float = 0.0,
    ) -> Exploration:
        """The exploration of a plan."""
        problem, solution, order = plan.problem, plan.solution, self.order
        eligible = [room >= count for room, count in zip(most_in_one_bucket(problem), problem.counts, strict=True)]
        partition = solution.partition
        return Exploration(
            exact=exact,
            status=_status(plan),
            values=tuple(problem.values[i] for i in order),
            counts=tuple(problem.counts[i] for i in order),
            limits=tuple(problem.limits[i] for i in order),
            eligible=tuple(eligible[i] for i in order),
            smallest=tuple(None if eligible[i] else _smallest(problem, i) for i in order),
            worst=(None,) * len(order) if partition is None else self._ordered(_worst(problem, partition)),
            groups=None if partition is None else group_explorations(problem, partition.setting),
            bound=solution.bound,
            peers=peers,
            unprotected=unprotected,
            forcing=forcing,
            exposure=None if plan.exposure is None else self._exposure(plan.exposure),
            count_error=plan.error,
            obstacle=obstacle,
            notes=tuple(note for note in plan.notes if not offers_groups(note)),  # the page has a button for it
            seconds=seconds,
            tree=None
            if problem.groups is None
            else self._tree(problem.groups, problem.known_records, plan.group_shares),
        )

    def _tree_of_policy(self, policy: LimitPolicy) -> ExploredTree | None:
        """The groups of a policy that has another fault; None if they are the fault."""
        try:
            groups = None if policy.grouping is None else limit_groups(policy, policy.grouping, self.counts)[0]
        except PolicyError:
            return None
        return None if groups is None else self._tree(groups, 0)

    def _tree(self, groups: Groups, known: int, shares: tuple[GroupShare, ...] = ()) -> ExploredTree:
        records, unknown = groups.sums(self.counts.counts), self.counts.total - known
        eligible = [
            group.limit is None or group.limit * unknown >= count
            for group, count in zip(groups.groups, records, strict=True)
        ]
        return ExploredTree(
            groups=groups,
            level_names=tuple(dict.fromkeys(group.level for group in groups.groups)),
            of_value=tuple(groups.of_value[i] for i in self.order),
            records=tuple(records),
            smallest=tuple(
                None if fits or count > unknown else Fraction(count, unknown)
                for fits, count in zip(eligible, records, strict=True)
            ),
            eligible=tuple(eligible),
            shares={share.name: share for share in shares},
        )

    def _ordered(self, numbers: np.typing.NDArray[np.float64]) -> tuple[float, ...]:
        return tuple(numbers[list(self.order)].tolist())

    def _exposure(self, exposure: Exposure) -> Exposure:
        return replace(exposure, values=tuple(exposure.values[i] for i in self.order))


def _begin(band: str) -> tuple[int, Fraction]:
    """Where a band begins: "below 0" comes first, then "0 to below 5", "5 and above", and what is missing."""
    word = band.partition(" ")[0]
    number = number_of(word)
    if number is not None:
        return 1, number
    return (0 if word == "below" else 2), Fraction(0)


def _status(plan: Plan) -> ExplorationStatus:
    if plan.solution.partition is not None:
        return "optimal" if plan.status is Status.OPTIMAL else "feasible"
    undecided = plan.no_solution is not None and plan.no_solution.reason == "undecided"
    return "undecided" if undecided else "infeasible"


def _smallest(problem: Problem, value: int) -> Fraction | None:
    """The smallest limit that can be kept for this value; None if that is above 1."""
    unknown = problem.total - problem.known_records
    return Fraction(problem.counts[value], unknown) if problem.counts[value] <= unknown else None


def group_explorations(problem: Problem, setting: BucketSetting) -> tuple[ExploredGroup, ...]:
    """The size groups, each with the values that no smaller bucket of the setting may hold, tightest limits first."""
    needed = needed_sizes(problem)
    group_of = np.searchsorted([group.size for group in setting.groups], needed)
    tightest = np.argsort(-needed, kind="stable")
    groups = []
    for j, group in enumerate(setting.groups):
        own = tightest[group_of[tightest] == j]
        names = tuple(problem.values[i] for i in own[:_NAMES].tolist())
        groups.append(ExploredGroup(group, names, len(own)))
    return tuple(groups)


def _worst(problem: Problem, partition: Partition) -> np.typing.NDArray[np.float64]:
    """The largest count / (size - Q) of each value over the buckets.

    Fakes are not drawn yet, so they are assumed in proportion to the records, as far as the limits have room.
    """
    groups, fakes = partition.setting.groups, problem.fake_values
    sizes = np.asarray([group.size for group in groups], dtype=np.int64)
    buckets = np.asarray([group.buckets for group in groups], dtype=np.int64)
    records = np.asarray(partition.quotas, dtype=np.int64)
    most = -(-records // buckets)
    if fakes:
        slots = -(-records * (sizes + fakes) // sizes)
        most = np.minimum(-(-slots // buckets), most_values(problem.limits, sizes, problem.known_records))
    shares = np.where(records > 0, most, 0) / np.maximum(sizes - problem.known_records, 1)
    return np.asarray(shares.max(axis=1))


def needed_sizes(problem: Problem) -> npt.NDArray[np.int64]:
    """The smallest bucket that may hold each value."""
    known = problem.known_records
    return np.asarray([smallest_size(limit, known) for limit in problem.tightest], dtype=np.int64)


def forcing_value(plan: Plan) -> Forcing | None:
    """The value that causes most of the loss, by a rule of thumb; None if no value needs larger buckets."""
    return next(_candidates(plan), None)


def best_relaxation(plan: Plan) -> Forcing | None:
    """Of a few such values, the one that saves most if its limit is doubled, with what that saves."""
    setting, problem = plan.solution.setting, plan.problem
    if setting is None or not setting.loss:
        return None
    memory = Memory(sizes=tuple(group.size for group in sorted(setting.groups, key=lambda group: -group.loss)))
    results = []
    for _, candidate in zip(range(_CANDIDATES), _candidates(plan), strict=False):
        raised = {candidate.value: candidate.relaxed_limit}
        relaxed = problem.with_limits({}, raised) if candidate.is_group else problem.with_limits(raised, {})
        partition = glance(relaxed, 1e-4, time.monotonic() + _SECONDS, memory).partition
        saved = 0.0 if partition is None else max(0.0, (setting.loss - partition.setting.loss) / setting.loss)
        results.append(replace(candidate, saves=saved))
    return max(results, key=lambda one: one.saves or 0.0, default=None)


def _candidates(plan: Plan) -> Iterator[Forcing]:
    """Values and groups that cause large parts of the loss, the largest part first: one for each size group."""
    setting, problem = plan.solution.setting, plan.problem
    if setting is None or plan.solution.partition is None or not setting.loss:
        return
    names, counts, limits = list(problem.values), list(problem.counts), list(problem.limits)
    if problem.groups is not None:
        for group, records in zip(problem.groups.groups, problem.groups.sums(problem.counts), strict=True):
            if group.limit is not None:
                names, counts, limits = [*names, group.name], [*counts, records], [*limits, group.limit]
    sizes, known = np.asarray([group.size for group in setting.groups], dtype=np.int64), problem.known_records
    group_of = np.searchsorted(sizes, [smallest_size(limit, known) for limit in limits])
    caps = most_values(tuple(limits), sizes, known)
    limited = np.asarray([limit.numerator < limit.denominator for limit in limits])
    for j in sorted(range(len(sizes)), key=lambda j: -setting.groups[j].loss):
        own = np.flatnonzero((group_of == j) & limited)
        if sizes[j] > 1 and own.size:
            place = int(own[np.argmax(np.asarray(counts, dtype=float)[own] / caps[own, j])])
            yield Forcing(
                value=names[place],
                size=int(sizes[j]),
                share_of_loss=setting.groups[j].loss / setting.loss,
                relaxed_limit=min(Fraction(1), 2 * limits[place]),
                is_group=place >= len(problem.values),
            )
