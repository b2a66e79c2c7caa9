"""A table cut into strata, and each of them solved.

Strata are cut by a tree of questions to quasi-identifiers, which is fitted to a sample (`strata.growing`), or asks for
every value of named columns. Every value is counted in every leaf: in a further reading of the table, or in memory
where all records fit. Leaves that could not meet the limits by themselves are merged (`strata.merging`). Then each
stratum is a table of its own, under the limits of the whole.

How a table is cut depends on the table, the wish and the key alone: not on memory, batches or the time that it takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.dealing import Deal, whole
from dalenius.engines.arrow import Source
from dalenius.errors import UndecidedError, UsageError
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.problem import Problem
from dalenius.model.progress import Progress
from dalenius.model.setting import Partition
from dalenius.model.solution import Solution, Status
from dalenius.place.budget import MOST_CELLS, Budget
from dalenius.place.cutting import Cutter, Ordered, Virtual, count_strata, narrow
from dalenius.place.keeping import Kept, keep
from dalenius.place.sample import Sample
from dalenius.place.survey import Survey, first_row_bytes
from dalenius.policy.strata import StrataWish
from dalenius.solve.fakes import RandomBits, with_fakes
from dalenius.solve.many import solve_many
from dalenius.solve.sizes import automatic_max_size
from dalenius.strata.blind import MOST_COMBINATIONS
from dalenius.strata.choosing import SAMPLE_ROWS, automatic, least_stratum, most_shares
from dalenius.strata.merging import merged
from dalenius.strata.tree import Tree, every_combination, grow

Integers = npt.NDArray[np.int64]

_MOMENT = 1.0  # second, the least for solving again
_SAMPLE_BYTES = 2**25  # of sampled records, of which twice as many are held on the way


class Stratifier:
    """Cuts a table as it was wished."""

    def __init__(self, wish: StrataWish, options: PlanOptions, budget: Budget, key: bytes) -> None:
        self._wish, self._options, self._budget, self._key = wish, options, budget, key
        self._sample_rows = SAMPLE_ROWS
        self._sample: Sample | None = None

    def sample(self, source: Source, columns: Sequence[str]) -> Sample | None:
        """What is to be drawn in the first reading: nothing, if none is needed, or all records will be in memory."""
        if self._wish.kind not in ("auto", "number"):
            return None
        self._sample_rows = max(1, min(SAMPLE_ROWS, _SAMPLE_BYTES // max(1, first_row_bytes(source, columns))))
        kept = source.rows is not None and self._budget.copy_fits(source.rows)
        self._sample = Sample(self._key, self._sample_rows) if not kept else None
        return self._sample

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

    def cut(
        self, source: Source, found: Survey, plan: Plan, workers: Executor, rng: RandomBits, told: Progress
    ) -> Deal:
        """The strata, solved; the table as a whole if there is only one."""
        told.stage("Counting", found.rows)
        layout = found.layout() if self._budget.copy_fits(found.rows) else None
        kept = None
        if layout is not None:
            kept = keep(source, list(found.schema), found.sensitive, layout, workers, found.batch_rows, told.advance)
        tree, domains = self._tree(source, found, kept)
        if tree.leaves < 2:
            return whole(plan, found, rng, kept)
        cutter, numbered = Cutter(tree, domains), None
        if kept is not None:
            counts, numbered = kept.cut(cutter, len(found.sensitive.counts), workers)
        else:
            virtual = Virtual(found.sensitive, cutter)
            counts = count_strata(source, found.schema, virtual, workers, found.batch_rows, told.advance)
        empty = counts.sum(axis=1) == 0
        if self._wish.kind == "columns":
            cutter = cutter.at_values(_occurring(domains, ~empty))
        settled = self._settled(counts[~empty], found, plan, rng, told)
        if settled is None:
            return whole(plan, found, rng, kept)
        deal, stratum_of_leaf = settled
        table = _numbers(stratum_of_leaf, empty, counts.shape[1])
        return replace(
            deal,
            cutter=cutter.without(empty).merged(stratum_of_leaf),
            kept=numbered.renumbered(table) if numbered is not None else None,
        )

    def _settled(
        self, counts: Integers, found: Survey, plan: Plan, rng: RandomBits, told: Progress
    ) -> tuple[Deal, Integers] | None:
        """Leaves merged and joined until every stratum has a setting, and the stratum of each; None if one is left."""
        limits = dict(zip(plan.problem.values, plan.problem.limits, strict=True))
        ordered = [limits[text] for text in found.sensitive.texts]
        leaf_rows, _ = automatic(found.rows, len(ordered), fake_values=self._options.fake_values)
        most = most_shares(found.sensitive.counts, ordered)
        deadline = time.monotonic() + self._options.time_limit
        stratum_of_leaf = merged(counts, most, max(least_stratum(leaf_rows), plan.problem.min_size))
        while (number := int(stratum_of_leaf.max()) + 1) > 1:
            by_stratum = np.zeros((number, counts.shape[1]), dtype=np.int64)
            np.add.at(by_stratum, stratum_of_leaf, counts)
            told.stage("Solving", number, "strata")
            problems = [self._problem(plan, found.sensitive.texts, ordered, row) for row in by_stratum]
            solutions = solve_many(
                problems,
                self._options.strata_gap,
                max(_MOMENT, deadline - time.monotonic()),
                lambda: told.advance(1),
                method=plan.solution.method,
                grow=self._options.max_size is None,
            )
            parts = [_dealt(*one, rng) for one in zip(problems, solutions, by_stratum, strict=True)]
            if None not in parts:
                return self._deal([part for part in parts if part is not None], solutions), stratum_of_leaf
            unsolved = [place for place, part in enumerate(parts) if part is None]
            stratum_of_leaf = _joined(stratum_of_leaf, unsolved, by_stratum.sum(axis=1))
        return None

    def _tree(self, source: Source, found: Survey, kept: Kept | None) -> tuple[Tree, dict[str, Ordered]]:
        """The tree, and the domains of the columns that it asks about."""
        values = len(found.sensitive.texts)
        if self._wish.kind == "columns":
            domains = {name: _ordered(found, name) for name in self._wish.columns}
            tree = every_combination({place: domain.codes for place, domain in enumerate(domains.values())})
            self._budget.check_cells(tree.leaves * values, found.rows)
            return tree, domains
        columns = {name: Ordered.if_possible(domain) for name, domain in found.domains.items()}
        usable = {name: column for name, column in columns.items() if column is not None}
        leaf_rows, most_leaves = automatic(found.rows, values, fake_values=self._options.fake_values)
        if self._wish.kind == "number":
            most_leaves = self._wish.number
        if most_leaves < 2 or not usable:
            return every_combination({}), {}
        values_of, codes = self._sampled(source, found, kept, usable)
        least = -(-leaf_rows * len(values_of) // found.rows)
        tree = grow(codes, values_of, least, most_leaves)
        self._budget.check_cells(tree.leaves * values, found.rows)
        asked = np.unique(tree.column[tree.column >= 0])
        place = np.append(np.searchsorted(asked, np.arange(len(usable))), -1)
        names = [list(usable)[column] for column in asked.tolist()]
        return replace(tree, column=place[tree.column]), {name: usable[name] for name in names}

    def _sampled(
        self, source: Source, found: Survey, kept: Kept | None, usable: Mapping[str, Ordered]
    ) -> tuple[npt.NDArray[np.integer], list[npt.NDArray[np.integer]]]:
        """The sensitive values of a sample, and its codes by column."""
        if kept is not None:
            values, raw = kept.sampled(self._key, self._sample_rows)
            return values, [column.of(raw[name]) for name, column in usable.items()]
        sample = self._sample
        if sample is None:
            sample = Sample(self._key, self._sample_rows)
            for batch in source.batches(found.schema.names, found.batch_rows):
                sample.add(batch)
        columns = found.sampled(sample)
        values = np.concatenate([found.sensitive.encode(one) for one in columns[found.sensitive.name]])
        return values, [np.concatenate([c.encode(one) for one in columns[name]]) for name, c in usable.items()]

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

    def _deal(self, parts: Sequence[Partition], solutions: Sequence[Solution]) -> Deal:
        bounds = [solution.bound for solution in solutions]
        bound = None if None in bounds else sum(bound for bound in bounds if bound is not None)
        deal = Deal(tuple(parts), solutions[0].method, Status.FEASIBLE, bound)
        proven = deal.gap is not None and deal.gap <= self._options.strata_gap
        return replace(deal, status=Status.OPTIMAL) if proven else deal


def _dealt(problem: Problem, solution: Solution, counts: Integers, rng: RandomBits) -> Partition | None:
    """What is dealt to a stratum; None if it has no setting, or there is no place for its fakes."""
    if solution.partition is None:
        return None
    try:
        partition = with_fakes(problem, solution.partition, rng)
    except UndecidedError:
        return None
    return _with_all_values(partition, np.flatnonzero(counts), len(counts))


def _numbers(stratum_of_leaf: Integers, empty: npt.NDArray[np.bool_], values: int) -> npt.NDArray[np.integer]:
    """For every leaf and value the number by stratum and value; leaves without rows, which were left out, have none."""
    strata = np.zeros(len(empty), dtype=np.int64)
    strata[~empty] = stratum_of_leaf
    kind = narrow((int(strata.max()) + 1) * values)
    return (strata[:, None] * values + np.arange(values)).ravel().astype(kind)


def _occurring(domains: Mapping[str, Ordered], filled: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.integer]]:
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


def _ordered(found: Survey, name: str) -> Ordered:
    column = Ordered.if_possible(found.domains[name])
    if column is None:
        raise UsageError(
            f"no strata can be made of the column {name!r}: it has too many values, or they have no order",
            "Name another column.",
        )
    return column
