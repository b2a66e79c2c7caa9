"""The ratio attack on a table: read and count, plan the release beside it, draw the noise, simulate, sum up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.dp_risk.every_group import EveryGroup, GroupFile, group_file
from dalenius.dp_risk.groups import GroupTables, open_groups
from dalenius.dp_risk.noise import draw, require_opendp
from dalenius.dp_risk.ratio import Integers, typical
from dalenius.dp_risk.released import Judge, ReleaseBySize, released
from dalenius.dp_risk.results import DpRisk, GroupRisk, ReleaseShares
from dalenius.dp_risk.tally import Tally, ranges_up_to
from dalenius.errors import UsageError
from dalenius.model.plan import Method, PlanOptions
from dalenius.model.progress import Progress, Silent
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy, as_policy

DRAWS = 1_000
TOP = 20
LEAST_SHOWN = 10
_FEWEST_DRAWS, _MOST_DRAWS = 100, 1_000_000
_MOST_EPSILONS = 20
_EPSILONS = (1e-6, 1e6)


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
    groups_file: str | Path | None = None,
    force: bool = False,
    null_value: str | None = None,
    table: str | None = None,
    method: Method | str = Method.OPTIMAL,
    options: PlanOptions | None = None,
    progress: Progress | None = None,
) -> DpRisk:
    """What noisy counts under each epsilon tell about people, beside what an F'-private release tells.

    `source` and `limits` are those of `dalenius.plan`. Groups are all people with the same `quasi_identifiers`; `where`
    is a SQL condition that makes one more group. The `top` groups with most people pinned rightly under the smallest
    epsilon are listed. `groups_file` (.parquet or .csv) gets every group, one row for each value in it and each
    epsilon; `force` replaces it if it is there. Groups are shown with their quasi-identifiers if they have at least
    `least_shown` people. Needs OpenDP: the extra `dp`.
    """
    _check(epsilons, quasi_identifiers, where, draws, top, least_shown)
    if groups_file is not None and not quasi_identifiers:
        raise UsageError("a file of all groups needs quasi-identifiers, which make them", "Name them.")
    require_opendp()
    progress = progress or Silent()
    with ExitStack() as stack:
        file = stack.enter_context(group_file(groups_file, force, source)) if groups_file is not None else None
        progress.stage("Reading")
        tables = stack.enter_context(open_groups(source, sensitive, null_value, table))
        predicate = tables.meeting(where) if where is not None else None
        if quasi_identifiers:
            tables.group_by(quasi_identifiers)
        progress.stage("Solving")
        plan = plan_counts(tables.counts, as_policy(limits, tables.counts), method, options)
        progress.stage("Drawing")
        noises = [draw(epsilon, draws) for epsilon in dict.fromkeys(map(float, epsilons))]
        judge = Judge(plan, released(plan), noises)
        found = None
        listed: tuple[GroupRisk, ...] = ()
        if quasi_identifiers:
            every = EveryGroup(tables, noises) if file is not None else None
            found = _tallied(tables, judge, every, progress)
            leading = tables.leading(found.scores, top, least_shown)
            listed = tuple(judge.group(group, quasi_identifiers) for group in leading)
            if every is not None and file is not None:
                progress.stage("Writing")
                every.write(file, quasi_identifiers, plan.problem, judge.release, least_shown)
        asked = judge.group(predicate) if predicate is not None else None
        return _answer(judge, tables, found, listed, asked, least_shown, file)


@dataclass(frozen=True)
class _Tallied:
    """All triples summed up; by range of sizes the groups and the release; each triple's score for the list.

    The score is the chance of being pinned rightly under the smallest epsilon, where it is above 0.
    """

    tally: Tally
    groups: Integers
    releases: list[ReleaseShares | None]
    scores: pa.Table


def _tallied(tables: GroupTables, judge: Judge, every: EveryGroup | None, progress: Progress) -> _Tallied:
    sizes = np.array(tables.sizes(), dtype=np.int64)
    edges = ranges_up_to(int(sizes[-1, 0]))
    groups = np.bincount(np.searchsorted(edges, sizes[:, 0], side="right") - 1, sizes[:, 1], len(edges))
    smallest = int(np.argmin([noise.epsilon for noise in judge.noises]))
    tally = Tally(judge.noises, edges)
    by_size = ReleaseBySize(judge.release, edges) if judge.release is not None else None
    progress.stage("Simulating", tables.counts.total)
    names, scored = ("x", "y", "v", "score"), [[np.zeros(0, np.int64)] * 3 + [np.zeros(0)]]
    for batch in tables.triples():
        triples, codes = judge.triples(batch)
        chances = tally.add(triples)
        if by_size is not None:
            by_size.add(triples.sizes, codes, triples.people)
        if every is not None:
            every.add(triples, codes, chances)
        score = chances[smallest] * triples.above
        kept = score > 0
        scored.append([array[kept] for array in (triples.sizes, triples.counts, codes, score)])
        progress.advance(int(triples.people.sum()))
    columns = [np.concatenate(parts) for parts in zip(*scored, strict=True)]
    releases: list[ReleaseShares | None] = [None] * len(edges) if by_size is None else by_size.shares()
    return _Tallied(tally, groups, releases, pa.table(dict(zip(names, columns, strict=True))))


def _answer(
    judge: Judge,
    tables: GroupTables,
    found: _Tallied | None,
    listed: tuple[GroupRisk, ...],
    predicate: GroupRisk | None,
    least_shown: int,
    file: GroupFile | None,
) -> DpRisk:
    people, plan = tables.counts.total, judge.plan
    notes = list(plan.notes)
    if judge.release is None:
        notes.append("no F'-private release exists under these limits, so there is none to compare with: see plan")
    exact = mean_share = alone = None
    if found is not None:
        sums = (found.tally.above, found.tally.shares, found.tally.alone)
        exact, mean_share, alone = (float(by_size.sum() / people) for by_size in sums)
    return DpRisk(
        people,
        int(found.groups.sum()) if found is not None else 0,
        len(judge.noises[0].of_size),
        least_shown,
        exact,
        mean_share,
        alone,
        found.tally.overall() if found is not None else (),
        found.tally.by_size(found.groups, found.releases) if found is not None else (),
        listed,
        predicate,
        typical(judge.noises),
        judge.release.risk if judge.release is not None else None,
        file.rows if file is not None else None,
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
