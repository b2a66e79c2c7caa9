"""A table cut into strata, and each of them solved.

Strata are cut by a tree of questions to quasi-identifiers, which is fitted to a sample (`strata.growing`), or asks for
every value of named columns. Every value is counted in every leaf by the engine that has the table. Leaves that could
not meet the limits by themselves are merged (`strata.merging`). Then each stratum is a table of its own, under the
limits of the whole.

How a table is cut depends on the table, the wish and the key alone: not on memory, batches or the time that it takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.errors import UndecidedError, UsageError
from dalenius.fakes.quotas import RandomBits, draw_fakes
from dalenius.model.plan import Plan, PlanOptions, Solution, Status
from dalenius.model.problem import Partition, Problem
from dalenius.model.progress import Progress
from dalenius.place.budget import MOST_CELLS, Budget
from dalenius.place.cutting import Cutter, OrderedColumn, sortable_type
from dalenius.place.survey import Survey
from dalenius.publishing.deal import Deal, whole
from dalenius.publishing.engine import Counted, OpenTable, SampleWish
from dalenius.publishing.options import StrataWish
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

Integers = npt.NDArray[np.int64]

_MOMENT = 1.0  # second, the least for solving again
_SAMPLE_BYTES = 2**25  # of sampled records, of which twice as many are held on the way


class Stratifier:
    """Cuts a table as it was wished."""

    def __init__(self, wish: StrataWish, options: PlanOptions, budget: Budget, key: bytes) -> None:
        self._wish, self._options, self._budget, self._key = wish, options, budget, key

    @property
    def sample(self) -> SampleWish | None:
        """The sample that strata are found in, if they have to be found."""
        return SampleWish(self._key, SAMPLE_ROWS, _SAMPLE_BYTES) if self._wish.kind in ("auto", "number") else None

    def check(self, found: Survey) -> None:
        """Refuse strata by columns for which there is no room, before anything is solved."""
        if self._wish.kind == "columns":
            leaves = math.prod(_ordered(found, name).codes for name in self._wish.columns)
            if leaves > MOST_COMBINATIONS or leaves * len(found.sensitive.texts) > MOST_CELLS:
                raise UsageError(
                    f"the columns of the strata have up to {leaves:,} combinations of values, "
                    f"with {len(found.sensitive.texts):,} sensitive values each: too many",
                    "Name fewer columns, or such with fewer values (numbers and dates count from the smallest to the "
                    "largest); or let the strata be found with --strata auto.",
                )

    def cut(self, opened: OpenTable, found: Survey, plan: Plan, rng: RandomBits, progress: Progress) -> Deal:
        """The strata, solved; the table as a whole if there is only one."""
        progress.stage("Counting", found.rows)
        tree, domains = self._tree(opened, found)
        if tree.leaves < 2:
            return whole(plan, found, opened.count(found, None, progress), rng)
        cutter = Cutter(tree, domains)
        counted = opened.count(found, cutter, progress)
        leaves, values = counted.totals.shape
        empty = counted.totals.sum(axis=1) == 0
        if self._wish.kind == "columns":
            cutter = cutter.at_values(_occurring(domains, ~empty))
        settled = self._settled(counted.totals[~empty], found, plan, rng, progress)
        if settled is None:
            return whole(plan, found, counted.renumbered(_numbers(np.zeros(leaves, dtype=np.int64), values)), rng)
        parts, solutions, stratum_of_leaf = settled
        strata = np.zeros(leaves, dtype=np.int64)  # leaves without rows are left out: theirs means nothing
        strata[~empty] = stratum_of_leaf
        merged_counts = counted.renumbered(_numbers(strata, values))
        return self._deal(parts, solutions, merged_counts, cutter.remove_leaves(empty).merge(stratum_of_leaf))

    def _settled(
        self, counts: Integers, found: Survey, plan: Plan, rng: RandomBits, progress: Progress
    ) -> tuple[list[Partition], list[Solution], Integers] | None:
        """Leaves merged and joined until every stratum has a setting, and the stratum of each; None if one is left."""
        limits = dict(zip(plan.problem.values, plan.problem.limits, strict=True))
        ordered = [limits[text] for text in found.sensitive.texts]
        leaf_rows, _ = automatic_leaves(found.rows, len(ordered), fake_values=self._options.fake_values)
        most = most_shares(found.sensitive.counts, ordered)
        deadline = time.monotonic() + self._options.time_limit
        stratum_of_leaf = merge_leaves(counts, most, max(least_stratum_rows(leaf_rows), plan.problem.min_size))
        while (number := int(stratum_of_leaf.max()) + 1) > 1:
            by_stratum = np.zeros((number, counts.shape[1]), dtype=np.int64)
            np.add.at(by_stratum, stratum_of_leaf, counts)
            progress.stage("Solving", number, "strata")
            problems = [self._problem(plan, found.sensitive.texts, ordered, row) for row in by_stratum]
            solutions = solve_many(
                problems,
                self._options.strata_gap,
                max(_MOMENT, deadline - time.monotonic()),
                lambda: progress.advance(1),
                method=plan.solution.method,
                grow=self._options.max_size is None,
            )
            parts = [_dealt(*one, rng) for one in zip(problems, solutions, by_stratum, strict=True)]
            if None not in parts:
                return [part for part in parts if part is not None], solutions, stratum_of_leaf
            unsolved = [place for place, part in enumerate(parts) if part is None]
            stratum_of_leaf = _joined(stratum_of_leaf, unsolved, by_stratum.sum(axis=1))
        return None

    def _tree(self, opened: OpenTable, found: Survey) -> tuple[Tree, dict[str, OrderedColumn]]:
        """The tree, and the domains of the columns that it asks about."""
        values = len(found.sensitive.texts)
        if self._wish.kind == "columns":
            domains = {name: _ordered(found, name) for name in self._wish.columns}
            tree = every_combination({place: domain.codes for place, domain in enumerate(domains.values())})
            self._budget.check_cells(tree.leaves * values, found.rows)
            return tree, domains
        columns = {name: OrderedColumn.if_possible(domain) for name, domain in found.domains.items()}
        usable = {name: column for name, column in columns.items() if column is not None}
        leaf_rows, most_leaves = automatic_leaves(found.rows, values, fake_values=self._options.fake_values)
        if self._wish.kind == "number":
            most_leaves = self._wish.number
        if most_leaves < 2 or not usable:
            return every_combination({}), {}
        sample = opened.sampled(found)
        least = -(-leaf_rows * len(sample.values) // found.rows)
        codes = [column.order_codes(sample.codes[name]) for name, column in usable.items()]
        tree = grow_tree(codes, sample.values, least, most_leaves)
        self._budget.check_cells(tree.leaves * values, found.rows)
        asked = np.unique(tree.column[tree.column >= 0])
        place = np.append(np.searchsorted(asked, np.arange(len(usable))), -1)
        names = [list(usable)[column] for column in asked.tolist()]
        return replace(tree, column=place[tree.column]), {name: usable[name] for name in names}

    def _problem(self, plan: Plan, values: Sequence[str], limits: Sequence[Fraction], counts: Integers) -> Problem:
        """A stratum as a problem: the values that it has, in the order in which they are dealt."""
        there = np.flatnonzero(counts).tolist()
        most = self._options.max_size
        if most is None:
            most = automatic_max_size(plan.problem.limits, plan.problem.total, plan.problem.known_records)
        return replace(
            plan.problem,
            values=tuple(values[i] for i in there),
            counts=tuple(int(counts[i]) for i in there),
            limits=tuple(limits[i] for i in there),
            max_size=max(most, plan.problem.min_size),
        )

    def _deal(
        self, parts: Sequence[Partition], solutions: Sequence[Solution], counted: Counted, cutter: Cutter
    ) -> Deal:
        bounds = [solution.bound for solution in solutions]
        bound = None if None in bounds else sum(bound for bound in bounds if bound is not None)
        deal = Deal(tuple(parts), solutions[0].method, Status.FEASIBLE, bound, counted, cutter)
        proven = deal.gap is not None and deal.gap <= self._options.strata_gap
        return replace(deal, status=Status.OPTIMAL) if proven else deal


def _dealt(problem: Problem, solution: Solution, counts: Integers, rng: RandomBits) -> Partition | None:
    """What is dealt to a stratum; None if it has no setting, or there is no place for its fakes."""
    if solution.partition is None:
        return None
    try:
        partition = draw_fakes(problem, solution.partition, rng)
    except UndecidedError:
        return None
    return _with_all_values(partition, np.flatnonzero(counts), len(counts))


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


def _joined(stratum_of_leaf: Integers, those: Sequence[int], rows: Integers) -> Integers:
    """Some strata joined with the largest of the others, and all numbered anew in the order of first leaves."""
    others = rows.copy()
    others[list(those)] = -1
    into = np.arange(len(rows))
    into[list(those)] = others.argmax() if others.max() >= 0 else 0
    _, first, number = np.unique(into[stratum_of_leaf], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


def _with_all_values(partition: Partition, there: Integers, values: int) -> Partition:
    """A partition with a line for every value of the table, empty where the stratum does not have it."""
    nothing = (0,) * len(partition.setting.groups)

    def spread(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        found = [nothing] * values
        for place, row in zip(there.tolist(), rows, strict=True):
            found[place] = row
        return tuple(found)

    return Partition(partition.setting, spread(partition.quotas), spread(partition.fakes) if partition.fakes else ())


def _ordered(found: Survey, name: str) -> OrderedColumn:
    column = OrderedColumn.if_possible(found.domains[name])
    if column is None:
        raise UsageError(
            f"no strata can be made of the column {name!r}: it has too many values, or they have no order",
            "Name another column.",
        )
    return column
