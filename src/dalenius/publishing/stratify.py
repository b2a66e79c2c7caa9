"""A table cut into strata, and each of them solved.

Strata are cut by a tree of questions to quasi-identifiers, which is fitted to a sample (`strata.growing`), or asks for
every value of named columns. Every value is counted in every leaf by the engine that has the table. Leaves that could
not meet the limits by themselves are merged (`strata.merging`). Then each stratum is a table of its own, under the
limits of the whole. Strata that were found have to be worth it (`strata.worth`): if counts are not expected to get
better, fewer and larger ones are tried, and the best of them are taken, or none.

How a table is cut depends on the table, the choice of strata and the key alone: not on memory, batches or time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.errors import SelfCheckError, UndecidedError, UsageError
from dalenius.fakes.quotas import draw_fakes
from dalenius.fakes.rooms import RandomBits
from dalenius.model.plan import Method, Plan, Solution, Status
from dalenius.model.problem import Partition, Problem
from dalenius.model.progress import Progress
from dalenius.place.budget import MOST_CELLS
from dalenius.place.cutting import Cutter, OrderedColumn, sortable_type
from dalenius.place.survey import Survey
from dalenius.publishing.arrangement import Arrangement, arrange_whole, set_apart
from dalenius.publishing.engine import OpenTable, SampleSpec
from dalenius.publishing.inspection import INSPECTED_ROWS
from dalenius.publishing.options import PublishRequest
from dalenius.solve.many import solve_many
from dalenius.solve.sizes import automatic_max_size
from dalenius.strata.growing import (
    MOST_COMBINATIONS,
    SAMPLE_ROWS,
    automatic_leaves,
    every_combination,
    grow_tree,
    least_stratum_rows,
    most_shares,
)
from dalenius.strata.merging import merge_leaves
from dalenius.strata.tree import Tree
from dalenius.strata.worth import expected_error, is_worth_it
from dalenius.tables.arrays import distinct

Integers = npt.NDArray[np.int64]

_MOMENT = 1.0  # second, the least for solving again
_NEARLY_ALL = 0.9  # of the records have a value of their own in a column that is nearly a key
_LARGE = 3  # times the loss of one stratum
_FEW = 1_000  # rows, among which nearly all may differ in any column
_SAMPLE_BYTES = 2**25  # of sampled records, of which twice as many are held on the way


@dataclass(frozen=True)
class _Strata:
    """What is solved: a partition and a solution for each stratum, and the stratum of each leaf that has rows."""

    partitions: tuple[Partition, ...]
    solutions: tuple[Solution, ...]
    of_leaf: Integers

    def __len__(self) -> int:
        return len(self.partitions)

    @property
    def loss(self) -> int:
        """That of all strata together."""
        return sum(partition.setting.loss for partition in self.partitions)


class Stratifier:
    """Cuts a table as the publisher asked."""

    def __init__(self, request: PublishRequest) -> None:
        self._choice, self._options = request.strata, request.solving
        self._budget, self._key = request.budget, request.key

    @property
    def sample(self) -> SampleSpec:
        """The sample in which strata are found, if they have to be found; less is enough to look at the table."""
        rows = SAMPLE_ROWS if self._choice.kind in ("auto", "number") else INSPECTED_ROWS
        return SampleSpec(self._key, rows, _SAMPLE_BYTES, keep=self._choice.kind != "none")

    def check(self, survey: Survey) -> None:
        """Refuse strata by columns for which there is no room, before anything is solved."""
        if self._choice.kind == "columns":
            leaves = math.prod(_ordered(survey, name).codes for name in self._choice.columns)
            if leaves > MOST_COMBINATIONS or leaves * len(survey.sensitive.texts) > MOST_CELLS:
                raise UsageError(
                    f"the columns of the strata have up to {leaves:,} combinations of values, "
                    f"with {len(survey.sensitive.texts):,} sensitive values each: too many",
                    "Name fewer columns, or such with fewer values (numbers and dates count from the smallest to the "
                    "largest); or let the strata be found with --strata auto.",
                )

    def cut(self, table: OpenTable, survey: Survey, plan: Plan, random: RandomBits, progress: Progress) -> Arrangement:
        """The strata, solved; the table as one if there is only one stratum."""
        progress.stage("Counting", survey.rows)
        tree, domains = self._tree(table, survey)
        if tree.leaves < 2:
            return arrange_whole(survey, plan, table.count(survey, None, progress), random)
        cutter = Cutter(tree, domains)
        counts = table.count(survey, cutter, progress)
        leaves, values = counts.totals.shape
        applying = counts.totals[:, : survey.sensitive.applying]
        empty = applying.sum(axis=1) == 0
        if self._choice.kind == "columns":
            cutter = cutter.at_values(_occurring(domains, ~empty))
        strata, given_up = self._solve_strata(applying[~empty], survey, plan, random, progress)
        if strata is None:
            as_one = counts.renumber(_numbers(np.zeros(leaves, dtype=np.int64), values))
            return replace(arrange_whole(survey, plan, as_one, random), given_up=given_up)
        stratum_of_leaf = np.zeros(leaves, dtype=np.int64)  # that of a leaf without rows means nothing
        stratum_of_leaf[~empty] = strata.of_leaf
        bound, status = self._bound(strata)
        arrangement = Arrangement(
            survey=survey,
            plan=plan,
            counts=counts.renumber(_numbers(stratum_of_leaf, values)),
            partitions=strata.partitions,
            method=strata.solutions[0].method,
            status=status,
            bound=bound,
            cutter=cutter.remove_leaves(empty).merge(strata.of_leaf),
            given_up=given_up,
        )
        return set_apart(arrangement)

    def _solve_strata(
        self, counts: Integers, survey: Survey, plan: Plan, random: RandomBits, progress: Progress
    ) -> tuple[_Strata | None, int]:
        """The strata that leaves are merged into, None if that is one; and how many strata were given up for them.

        Strata that were asked for are never given up. Where those of `auto` are not worth it, they have to have at
        least twice as many rows, then four times as many and so on; those with the least expected error are taken. Past
        the time limit no more are tried.
        """
        values = survey.sensitive.texts[: survey.sensitive.applying]
        place = {value: place for place, value in enumerate(plan.problem.values)}
        problem = plan.problem.take([place[value] for value in values])  # as they are dealt
        leaf_rows, _ = automatic_leaves(problem.total, len(values), fake_values=self._options.fake_values)
        limited = _limited_groups(problem)
        most = most_shares(
            [*problem.counts, *(sum(problem.counts[i] for i in members) for members, _ in limited)],
            [*problem.limits, *(limit for _, limit in limited)],
            problem.total,
        )
        members = [members for members, _ in limited]
        deadline = time.monotonic() + self._options.time_limit
        least_rows = max(least_stratum_rows(leaf_rows), plan.problem.min_size)

        def solved() -> _Strata | None:
            of_leaf = merge_leaves(counts, most, least_rows, members)
            return self._solve_merged(of_leaf, counts, problem, plan.solution.method, deadline, random, progress)

        first = strata = solved()
        if first is None or self._choice.kind != "auto":
            return first, 0
        whole = _whole(plan, survey)
        loss = whole.setting.loss
        one = expected_error(counts, np.zeros(len(counts), dtype=np.int64), [whole])

        def error_if_worth_it(strata: _Strata) -> float | None:
            error = expected_error(counts, strata.of_leaf, strata.partitions)
            return error if is_worth_it(error, one, strict=strata is not first or strata.loss > _LARGE * loss) else None

        if error_if_worth_it(first) is not None:
            return first, 0
        best, least = None, one
        while strata is not None and time.monotonic() < deadline:
            least_rows *= 2
            strata = solved()
            error = error_if_worth_it(strata) if strata is not None else None
            if error is not None and error < least:
                best, least = strata, error
        return best, len(first)

    def _solve_merged(
        self,
        of_leaf: Integers,
        counts: Integers,
        problem: Problem,
        method: Method,
        deadline: float,
        random: RandomBits,
        progress: Progress,
    ) -> _Strata | None:
        """Join strata until every one of them has a setting; None if only one is left."""
        while (number := int(of_leaf.max()) + 1) > 1:
            by_stratum = np.zeros((number, counts.shape[1]), dtype=np.int64)
            np.add.at(by_stratum, of_leaf, counts)
            progress.stage("Solving", number, "strata")
            problems = [self._problem(problem, row) for row in by_stratum]
            solutions = solve_many(
                problems,
                self._options.strata_gap,
                max(_MOMENT, deadline - time.monotonic()),
                lambda: progress.advance(1),
                method=method,
                grow=self._options.max_size is None,
            )
            partitions = [_deal(*one, random) for one in zip(problems, solutions, by_stratum, strict=True)]
            complete = tuple(partition for partition in partitions if partition is not None)
            if len(complete) == number:
                return _Strata(complete, tuple(solutions), of_leaf)
            unsolved = [place for place, partition in enumerate(partitions) if partition is None]
            of_leaf = _join(of_leaf, unsolved, by_stratum.sum(axis=1))
        return None

    def _bound(self, strata: _Strata) -> tuple[int | None, Status]:
        """The bound on the loss of all strata together, and whether it proves them good enough."""
        bounds = [solution.bound for solution in strata.solutions]
        if None in bounds:
            return None, Status.FEASIBLE
        bound = sum(bound for bound in bounds if bound is not None)
        gap = (strata.loss - bound) / strata.loss if strata.loss else 0.0
        return bound, Status.OPTIMAL if gap <= self._options.strata_gap else Status.FEASIBLE

    def _tree(self, table: OpenTable, survey: Survey) -> tuple[Tree, dict[str, OrderedColumn]]:
        """The tree, and the domains of the columns that it asks about."""
        values, own = len(survey.sensitive.texts), survey.sensitive.only_applying
        rows = sum(own.counts)
        if self._choice.kind == "columns":
            domains = {name: _ordered(survey, name) for name in self._choice.columns}
            tree = every_combination({place: domain.codes for place, domain in enumerate(domains.values())})
            self._budget.check_cells(tree.leaves * values, survey.rows)
            return tree, domains
        columns = {name: OrderedColumn.if_possible(domain) for name, domain in survey.domains.items()}
        possible = {name: column for name, column in columns.items() if column is not None}
        leaf_rows, most_leaves = automatic_leaves(rows, len(own.texts), fake_values=self._options.fake_values)
        if self._choice.kind == "number":
            most_leaves = self._choice.number
        if most_leaves < 2 or not possible:
            return every_combination({}), {}
        sample = table.sample(survey).only(survey.sensitive)
        least = -(-leaf_rows * len(sample.values) // rows)
        ordered = {name: column.order_codes(sample.codes[name]) for name, column in possible.items()}
        usable = {
            name: column
            for name, column in possible.items()
            if column.codes < _NEARLY_ALL * rows or not _is_nearly_key(ordered[name])
        }
        tree = grow_tree([ordered[name] for name in usable], sample.values, least, most_leaves)
        self._budget.check_cells(tree.leaves * values, survey.rows)
        columns_used = np.unique(tree.column[tree.column >= 0])
        place = np.append(np.searchsorted(columns_used, np.arange(len(usable))), -1)
        names = [list(usable)[column] for column in columns_used.tolist()]
        return replace(tree, column=place[tree.column]), {name: usable[name] for name in names}

    def _problem(self, whole: Problem, counts: Integers) -> Problem:
        """A stratum as a problem: the values that it has, in the order in which they are dealt."""
        there = np.flatnonzero(counts).tolist()
        most = self._options.max_size
        if most is None:
            most = automatic_max_size(whole.tightest, whole.total, whole.known_records)
        return replace(whole.take(there, counts[there].tolist()), max_size=max(most, whole.min_size))


def _limited_groups(problem: Problem) -> list[tuple[list[int], Fraction]]:
    """The values of each group that has a limit, and the limit."""
    if problem.groups is None:
        return []
    pairs = zip(problem.groups.members(), problem.groups.groups, strict=True)
    return [(members, group.limit) for members, group in pairs if group.limit is not None and members]


def _deal(problem: Problem, solution: Solution, counts: Integers, random: RandomBits) -> Partition | None:
    """The partition of a stratum; None if it has no setting, or no room for its fakes."""
    if solution.partition is None:
        return None
    try:
        partition = draw_fakes(problem, solution.partition, random)
    except UndecidedError:
        return None
    return _with_all_values(partition, np.flatnonzero(counts), len(counts))


def _whole(plan: Plan, survey: Survey) -> Partition:
    """The records of the plan's partition, without fakes, the values in the order of the survey."""
    partition = plan.solution.partition
    if partition is None:
        raise SelfCheckError("a plan without a partition")
    quotas = dict(zip(plan.problem.values, partition.quotas, strict=True))
    values = survey.sensitive.texts[: survey.sensitive.applying]
    return Partition(partition.setting, tuple(quotas[text] for text in values))


def _is_nearly_key(codes: npt.NDArray[np.integer]) -> bool:
    """Whether nearly every record has a value of its own: what such a column tells of a value is about single people.

    In a table of few records that may be so with any number or date.
    """
    return len(codes) >= _FEW and len(distinct(codes)) >= _NEARLY_ALL * len(codes)


def _numbers(stratum_of_leaf: Integers, values: int) -> npt.NDArray[np.integer]:
    """For every leaf and value the number by stratum and value."""
    kind = sortable_type((int(stratum_of_leaf.max()) + 1) * values)
    return (stratum_of_leaf[:, None] * values + np.arange(values)).ravel().astype(kind)


def _occurring(
    domains: Mapping[str, OrderedColumn], filled: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[np.integer]]:
    """The codes that occur in each column, where leaves are all combinations of codes, the first column the slowest."""
    places = np.unravel_index(np.flatnonzero(filled), [domain.codes for domain in domains.values()])
    return {name: np.unique(codes) for name, codes in zip(domains, places, strict=True)}


def _join(stratum_of_leaf: Integers, some: Sequence[int], rows: Integers) -> Integers:
    """Join some strata with the largest of the others, and number all of them anew in the order of first leaves."""
    others = rows.copy()
    others[list(some)] = -1
    into = np.arange(len(rows))
    into[list(some)] = others.argmax() if others.max() >= 0 else 0
    _, first, number = np.unique(into[stratum_of_leaf], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


def _with_all_values(partition: Partition, there: Integers, values: int) -> Partition:
    """A partition with a line for every value of the table, empty where the stratum does not have it."""
    nothing = (0,) * len(partition.setting.groups)

    def spread(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        lines = [nothing] * values
        for place, row in zip(there.tolist(), rows, strict=True):
            lines[place] = row
        return tuple(lines)

    return Partition(partition.setting, spread(partition.quotas), spread(partition.fakes) if partition.fakes else ())


def _ordered(survey: Survey, name: str) -> OrderedColumn:
    column = OrderedColumn.if_possible(survey.domains[name])
    if column is None:
        raise UsageError(
            f"no strata can be made of the column {name!r}: it has too many values, or they have no order",
            "Name another column.",
        )
    return column
