"""From a plan to what is shown of it, value by value and size by size; from a refused question to why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.errors import DaleniusError
from dalenius.exploring.forcing import needed_sizes
from dalenius.model.exploration import (
    Exploration,
    ExplorationStatus,
    ExploredGroup,
    Forcing,
    Obstacle,
    Peer,
    QueryErrors,
    Unprotected,
)
from dalenius.model.plan import Plan
from dalenius.model.problem import Problem, ValueCounts
from dalenius.model.setting import BucketSetting, Partition
from dalenius.model.solution import Status
from dalenius.policy.limits import LimitPolicy
from dalenius.query.expected import relative_errors
from dalenius.solve.caps import Instance
from dalenius.solve.eligible import most_in_one_bucket

SHARE = 0.1  # of the records that a query is about, where its error is estimated
_NAMES = 5


@dataclass(frozen=True)
class Shown:
    """The order in which values are shown: most records first, then by value."""

    counts: ValueCounts
    order: tuple[int, ...]

    @classmethod
    def of(cls, counts: ValueCounts) -> Shown:
        """The order for these counts."""
        order = sorted(range(len(counts)), key=lambda i: (-counts.counts[i], counts.values[i]))
        return cls(counts, tuple(order))

    def refused(self, obstacle: Obstacle, policy: LimitPolicy | None = None, seconds: float = 0.0) -> Exploration:
        """No answer but why; with the limits as far as there are any."""
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
            True, "infeasible", values, counts, limits, known, nothing, nothing, obstacle=obstacle, seconds=seconds
        )

    def explored(
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
        """All that there is to say of a plan."""
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
            groups=None if partition is None else explored_groups(problem, partition.setting),
            bound=solution.bound,
            peers=peers,
            unprotected=unprotected,
            forcing=forcing,
            query_errors=None if partition is None else self._errors(problem, partition),
            obstacle=obstacle,
            notes=plan.notes,
            seconds=seconds,
        )

    def _ordered(self, numbers: np.typing.NDArray[np.float64]) -> tuple[float, ...]:
        return tuple(numbers[list(self.order)].tolist())

    def _errors(self, problem: Problem, partition: Partition) -> QueryErrors:
        errors = relative_errors(partition, SHARE, problem.fake_values)
        worst = int(np.argmax(errors))
        return QueryErrors(
            SHARE, self._ordered(errors), float(np.median(errors)), float(errors[worst]), problem.values[worst]
        )


def of_error(error: DaleniusError) -> Obstacle:
    """An error that is the answer."""
    return Obstacle(error.kind, error.message, error.hint)


def _status(plan: Plan) -> ExplorationStatus:
    if plan.solution.partition is not None:
        return "optimal" if plan.status is Status.OPTIMAL else "feasible"
    undecided = plan.no_solution is not None and plan.no_solution.reason == "undecided"
    return "undecided" if undecided else "infeasible"


def _smallest(problem: Problem, value: int) -> Fraction | None:
    """The smallest limit that this value could keep; None if that is above 1."""
    unknown = problem.total - problem.known_records
    return Fraction(problem.counts[value], unknown) if problem.counts[value] <= unknown else None


def explored_groups(problem: Problem, setting: BucketSetting) -> tuple[ExploredGroup, ...]:
    """The size groups, each with the values that no smaller bucket of the setting may hold, tightest limits first."""
    needed = needed_sizes(problem)
    group_of = np.searchsorted([group.size for group in setting.groups], needed)
    tightest = np.argsort(-needed, kind="stable")
    found = []
    for j, group in enumerate(setting.groups):
        own = tightest[group_of[tightest] == j]
        names = tuple(problem.values[i] for i in own[:_NAMES].tolist())
        found.append(ExploredGroup(group, names, len(own)))
    return tuple(found)


def _worst(problem: Problem, partition: Partition) -> np.typing.NDArray[np.float64]:
    """The largest count / (size - Q) of each value over the buckets.

    Fakes are not drawn yet: they are taken in proportion to the records, as far as the limits have room for them.
    """
    groups, fakes = partition.setting.groups, problem.fake_values
    sizes = np.asarray([group.size for group in groups], dtype=np.int64)
    buckets = np.asarray([group.buckets for group in groups], dtype=np.int64)
    records = np.asarray(partition.quotas, dtype=np.int64)
    most = -(-records // buckets)
    if fakes:
        slots = -(-records * (sizes + fakes) // sizes)
        most = np.minimum(-(-slots // buckets), Instance(problem).most_values(sizes))
    shares = np.where(records > 0, most, 0) / np.maximum(sizes - problem.known_records, 1)
    return np.asarray(shares.max(axis=1))
