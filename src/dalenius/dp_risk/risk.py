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

from dalenius.dp_risk.every_group import EveryGroup, group_file
from dalenius.dp_risk.group_tables import GroupTables, open_groups
from dalenius.dp_risk.noise import draw, require_opendp
from dalenius.dp_risk.ratio import Integers, typical
from dalenius.dp_risk.release_shares import Judge, ReleaseBySize, release_view
from dalenius.dp_risk.results import DpRisk, GroupRisk, ReleaseShares
from dalenius.dp_risk.tally import Tally, ranges_up_to
from dalenius.errors import UsageError
from dalenius.model.plan import Method, PlanOptions
from dalenius.model.problem import name_of_nulls
from dalenius.model.progress import Progress, Silent
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy, as_policy

DRAWS = 1_000
TOP = 20
LEAST_SHOWN = 10
_FEWEST_DRAWS, _MOST_DRAWS = 100, 1_000_000
_MOST_EPSILONS = 20
_MOST_LISTED = 1_000
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
    missing: Sequence[str] = (),
    table: str | None = None,
    method: Method | str = Method.OPTIMAL,
    options: PlanOptions | None = None,
    progress: Progress | None = None,
) -> DpRisk:
    """What noisy counts under each epsilon reveal about people, beside what an F'-private release reveals.

    `source` and `limits` are those of `dalenius.plan`. Groups are all people with the same `quasi_identifiers`; `where`
    is a SQL condition that makes one more group. The result lists the `top` groups with most people pinned rightly
    under the smallest epsilon. `groups_file` (.parquet or .csv) gets every group, one row for each value in it and each
    epsilon; `force` replaces an existing file. Groups are shown with their quasi-identifiers if they have at least
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
        null_name = name_of_nulls(null_value, missing)
        tables = stack.enter_context(open_groups(source, sensitive, null_name, table, missing=missing))
        predicate = tables.group_where(where) if where is not None else None
        if quasi_identifiers:
            tables.group_by(quasi_identifiers)
        progress.stage("Solving")
        plan = plan_counts(tables.counts, as_policy(limits, tables.counts).ungrouping(null_name), method, options)
        progress.stage("Drawing")
        noises = [draw(epsilon, draws) for epsilon in dict.fromkeys(map(float, epsilons))]
        judge = Judge(plan, release_view(plan), noises)
        sums = None
        leaders: tuple[GroupRisk, ...] = ()
        if quasi_identifiers:
            every = EveryGroup(tables, noises) if file is not None else None
            sums = _tally_groups(tables, judge, every, progress)
            leading = tables.leading(sums.scores, top, least_shown)
            leaders = tuple(judge.group(group, quasi_identifiers) for group in leading)
            if every is not None and file is not None:
                progress.stage("Writing")
                every.write(file, quasi_identifiers, plan.problem, judge.release, least_shown)
        return _result(
            judge,
            tables,
            sums,
            leaders=leaders,
            predicate=judge.group(predicate) if predicate is not None else None,
            least_shown=least_shown,
            group_rows=file.rows if file is not None else None,
        )


@dataclass(frozen=True)
class _GroupSums:
    """Sums over all triples; groups and release by range of sizes; and the score of each triple for the list.

    The score is the chance of being pinned rightly under the smallest epsilon, where it is above 0.
    """

    tally: Tally
    groups: Integers
    releases: list[ReleaseShares | None]
    scores: pa.Table


def _tally_groups(tables: GroupTables, judge: Judge, every: EveryGroup | None, progress: Progress) -> _GroupSums:
    sizes = np.array(tables.sizes(), dtype=np.int64)
    edges = ranges_up_to(int(sizes[-1, 0]))
    groups = np.bincount(np.searchsorted(edges, sizes[:, 0], side="right") - 1, sizes[:, 1], len(edges))
    smallest = int(np.argmin([noise.epsilon for noise in judge.noises]))
    tally = Tally(judge.noises, edges)
    by_size = ReleaseBySize(judge.release, edges) if judge.release is not None else None
    progress.stage("Simulating", tables.counts.total)
    names, parts_of_scores = ("x", "y", "v", "score"), [[np.zeros(0, np.int64)] * 3 + [np.zeros(0)]]
    for batch in tables.triples():
        triples, codes = judge.triples(batch)
        chances = tally.add(triples)
        if by_size is not None:
            by_size.add(triples.sizes, codes, triples.people)
        if every is not None:
            every.add(triples, codes, chances)
        score = chances[smallest] * triples.above
        positive = score > 0
        parts_of_scores.append([array[positive] for array in (triples.sizes, triples.counts, codes, score)])
        progress.advance(int(triples.people.sum()))
    columns = [np.concatenate(parts) for parts in zip(*parts_of_scores, strict=True)]
    releases: list[ReleaseShares | None] = [None] * len(edges) if by_size is None else by_size.shares()
    scores = pa.table(dict(zip(names, columns, strict=True)))
    return _GroupSums(tally=tally, groups=groups, releases=releases, scores=scores)


def _result(
    judge: Judge,
    tables: GroupTables,
    sums: _GroupSums | None,
    *,
    leaders: tuple[GroupRisk, ...],
    predicate: GroupRisk | None,
    least_shown: int,
    group_rows: int | None,
) -> DpRisk:
    people, plan = tables.counts.total, judge.plan
    notes = list(plan.notes)
    if judge.release is None:
        notes.append("no F'-private release exists under these limits, so there is none to compare with: see plan")
    exact = mean_share = alone = None
    if sums is not None:
        totals = (sums.tally.above, sums.tally.shares, sums.tally.alone)
        exact, mean_share, alone = (float(by_size.sum() / people) for by_size in totals)
    return DpRisk(
        people=people,
        groups=int(sums.groups.sum()) if sums is not None else 0,
        draws=len(judge.noises[0].of_size),
        least_shown=least_shown,
        exact=exact,
        mean_share=mean_share,
        noise_alone=alone,
        epsilons=sums.tally.overall() if sums is not None else (),
        sizes=sums.tally.by_size(sums.groups, sums.releases) if sums is not None else (),
        top=leaders,
        predicate=predicate,
        theorem=typical(judge.noises),
        release=judge.release.risk if judge.release is not None else None,
        group_rows=group_rows,
        notes=tuple(notes),
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
        raise UsageError(f"{len(epsilons)} epsilons are given; at most {_MOST_EPSILONS} can be simulated at once")
    for epsilon in epsilons:
        _check_epsilon(epsilon)
    _check_number("draws", draws, _FEWEST_DRAWS, _MOST_DRAWS)
    _check_number("groups to list", top, 0, _MOST_LISTED)
    _check_number("people of a group that is shown", least_shown, 1)


def _check_epsilon(epsilon: float) -> None:
    low, high = _EPSILONS
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not math.isfinite(epsilon):
        raise UsageError(f"epsilon must be a number above 0, got {epsilon!r}")
    if not low <= epsilon <= high:
        raise UsageError(f"epsilon must be above 0, and between {low:g} and {high:g}, got {epsilon:g}")


def _check_number(name: str, number: int, least: int, most: int | None = None) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least or (most and number > most):
        allowed = f"between {least:,} and {most:,}" if most else f"at least {least:,}"
        raise UsageError(f"the number of {name} must be {allowed}, got {number!r}")
