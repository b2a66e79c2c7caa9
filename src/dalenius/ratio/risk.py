"""The ratio attack on a table: read and count, plan the release beside it, draw the noise, simulate, sum up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.engines.groups import Group, GroupTables, open_groups
from dalenius.errors import UsageError
from dalenius.model.dp_risk import DpRisk, GroupRisk, ValueRisk
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.progress import Progress, Silent
from dalenius.model.solution import Method
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.ratio.noise import Noise, draw, require_opendp
from dalenius.ratio.released import Released, released
from dalenius.ratio.simulate import noisy_ratios, pinned, ratio, thresholds, typical
from dalenius.ratio.tally import Tally, Triples, ranges_up_to

DRAWS = 1_000
TOP = 20
LEAST_SHOWN = 10
_FEWEST_DRAWS, _MOST_DRAWS = 100, 1_000_000
_MOST_EPSILONS = 20
_EPSILONS = (1e-6, 1e6)
_MOST_VALUES = 10  # of a group that are listed one by one


def dp_risk(
    source: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: str,
    epsilons: Sequence[float],
    quasi_identifiers: Sequence[str] = (),
    where: str | None = None,
    draws: int = DRAWS,
    top: int = TOP,
    least_shown: int = LEAST_SHOWN,
    null_value: str | None = None,
    table: str | None = None,
    method: Method | str = Method.OPTIMAL,
    options: PlanOptions | None = None,
    progress: Progress | None = None,
) -> DpRisk:
    """What noisy counts under each epsilon tell about people, beside what an F'-private release tells.

    `source` and `limits` are those of `dalenius.plan`. Groups are all people with the same `quasi_identifiers`; `where`
    is a SQL condition that makes one more group. The `top` groups with most people pinned are listed, with their
    quasi-identifiers if they have at least `least_shown` people. Needs OpenDP: the extra `dp`.
    """
    _check(epsilons, quasi_identifiers, where, draws, top, least_shown)
    require_opendp()
    told = progress or Silent()
    told.stage("Reading")
    with open_groups(source, sensitive, null_value, table) as tables:
        predicate = tables.meeting(where) if where is not None else None
        if quasi_identifiers:
            tables.group_by(quasi_identifiers)
        told.stage("Solving")
        plan = plan_counts(tables.counts, as_policy(limits, tables.counts), method, options)
        told.stage("Drawing")
        noises = [draw(epsilon, draws) for epsilon in dict.fromkeys(map(float, epsilons))]
        judge = _Judge(plan, released(plan), noises)
        tally = _tallied(tables, judge, told) if quasi_identifiers else None
        listed: tuple[GroupRisk, ...] = ()
        if tally is not None:
            leading = tables.leading(tally[1], top, least_shown)
            listed = tuple(judge.group(group, quasi_identifiers) for group in leading)
        asked = judge.group(predicate) if predicate is not None else None
        return _answer(judge, tables, tally[0] if tally is not None else None, listed, asked, least_shown)


class _Judge:
    """The limits, the release and the noise that every group is judged by."""

    def __init__(self, plan: Plan, release: Released | None, noises: Sequence[Noise]) -> None:
        self.plan, self.release, self.noises = plan, release, noises
        self.limits = plan.problem.limits
        self.thresholds = thresholds([float(limit) for limit in self.limits])

    def above(self, size: int, count: int, code: int) -> bool:
        """Whether y/x is above the limit, in integers."""
        limit = self.limits[code]
        return count * limit.denominator > size * limit.numerator

    def triples(self, batch: pa.RecordBatch) -> tuple[Triples, Any]:
        """A batch of triples with their limits, and the values' codes."""
        sizes, counts, codes, cells = (np.asarray(batch[name]) for name in ("x", "y", "v", "cells"))
        above = np.fromiter(map(self.above, sizes.tolist(), counts.tolist(), codes.tolist()), dtype=bool)
        return Triples(sizes, counts, self.thresholds[codes], above, (cells * counts).astype(np.float64)), codes

    def group(self, group: Group, columns: Sequence[str] = ()) -> GroupRisk:
        """One group, with those of its values that most people are pinned to."""
        counts = np.array([count for _, count in group.counts])
        codes = [code for code, _ in group.counts]
        above = np.array([self.above(group.size, count, code) for code, count in group.counts])
        chances = np.zeros((len(self.noises), len(counts)))
        for number, noise in enumerate(self.noises):
            for i, count in enumerate(counts):  # one at a time: a group may have very many values, and draws are many
                ratios, claims = noisy_ratios(np.array([group.size]), np.array([count]), noise)
                chances[number, i] = pinned(ratios, claims, self.thresholds[[codes[i]]]).mean()
        order = np.lexsort((-counts, -(chances * counts).sum(axis=0)))[:_MOST_VALUES].tolist()
        return GroupRisk(
            group.size,
            dict(zip(columns, group.key, strict=True)) if group.key is not None else None,
            tuple((chances @ counts).tolist()),
            tuple((chances @ (counts * above)).tolist()),
            tuple(self._value(group, i, bool(above[i]), chances[:, i].tolist()) for i in order),
            len(counts) - len(order),
        )

    def _value(self, group: Group, place: int, above: bool, chances: Sequence[float]) -> ValueRisk:
        code, count = group.counts[place]
        return ValueRisk(
            self.plan.problem.values[code],
            count,
            self.limits[code],
            above,
            tuple(ratio(group.size, count, noise) for noise in self.noises),
            tuple(chances),
            self.release.largest[code] if self.release is not None else None,
        )


def _tallied(tables: GroupTables, judge: _Judge, told: Progress) -> tuple[tuple[Tally, Any], pa.Table]:
    """All triples summed up, with the groups of each range of sizes; and each triple's score for the list of groups.

    The score is the chance of being pinned rightly under the smallest epsilon, where it is above 0.
    """
    sizes = np.array(tables.sizes(), dtype=np.int64)
    edges = ranges_up_to(int(sizes[-1, 0]))
    groups = np.bincount(np.searchsorted(edges, sizes[:, 0], side="right") - 1, sizes[:, 1], len(edges))
    smallest = int(np.argmin([noise.epsilon for noise in judge.noises]))
    tally = Tally(judge.noises, edges)
    told.stage("Simulating", tables.counts.total)
    names, scored = ("x", "y", "v", "score"), [[np.zeros(0, np.int64)] * 3 + [np.zeros(0)]]
    for batch in tables.triples():
        triples, codes = judge.triples(batch)
        score = tally.add(triples)[smallest] * triples.above
        kept = score > 0
        scored.append([array[kept] for array in (triples.sizes, triples.counts, codes, score)])
        told.advance(int(triples.people.sum()))
    columns = [np.concatenate(parts) for parts in zip(*scored, strict=True)]
    return (tally, groups), pa.table(dict(zip(names, columns, strict=True)))


def _answer(
    judge: _Judge,
    tables: GroupTables,
    tallied: tuple[Tally, Any] | None,
    listed: tuple[GroupRisk, ...],
    predicate: GroupRisk | None,
    least_shown: int,
) -> DpRisk:
    people, plan = tables.counts.total, judge.plan
    notes = list(plan.notes)
    if judge.release is None:
        notes.append("no F'-private release exists under these limits, so there is none to compare with: see plan")
    exact = mean_share = alone = None
    if tallied is not None:
        sums = (tallied[0].above, tallied[0].shares, tallied[0].alone)
        exact, mean_share, alone = (float(by_size.sum() / people) for by_size in sums)
    return DpRisk(
        people,
        int(tallied[1].sum()) if tallied is not None else 0,
        len(judge.noises[0].of_size),
        least_shown,
        exact,
        mean_share,
        alone,
        tallied[0].overall() if tallied is not None else (),
        tallied[0].by_size(tallied[1]) if tallied is not None else (),
        listed,
        predicate,
        typical(judge.noises),
        judge.release.risk if judge.release is not None else None,
        tuple(notes),
    )


def _check(
    epsilons: Sequence[float],
    quasi_identifiers: Sequence[str],
    where: str | None,
    draws: int,
    top: int,
    least_shown: int,
) -> None:
    if not quasi_identifiers and where is None:
        raise UsageError("there is no group to look at", "Name quasi-identifiers, or give a condition.")
    if not epsilons:
        raise UsageError("no epsilon is given", "Give at least one, such as 0.1.")
    if len(epsilons) > _MOST_EPSILONS:
        raise UsageError(f"{len(epsilons)} epsilons are given, and at most {_MOST_EPSILONS} are simulated at once")
    low, high = _EPSILONS
    for epsilon in epsilons:
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not math.isfinite(epsilon):
            raise UsageError(f"epsilon must be a number above 0, got {epsilon!r}")
        if not low <= epsilon <= high:
            raise UsageError(f"epsilon must be above 0, and between {low:g} and {high:g}, got {epsilon:g}")
    for name, number, least, most in (
        ("draws", draws, _FEWEST_DRAWS, _MOST_DRAWS),
        ("groups to list", top, 0, 1_000),
        ("people of a group that is shown", least_shown, 1, None),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or number < least or (most and number > most):
            wanted = f"between {least:,} and {most:,}" if most else f"at least {least:,}"
            raise UsageError(f"the number of {name} must be {wanted}, got {number!r}")
