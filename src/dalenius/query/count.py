"""Counts from a release: how many people meet a condition?

The condition is split at AND into parts on quasi-identifiers, on the sensitive column, and on both. Take a bucket of
size S with a rows and c values that match, and values given to rows at random. Without parts on both, the count is
hypergeometric: mean a c / S and variance a c (S - a) (S - c) / (S² (S - 1)). Whatever the truth is, it lies between
max(0, a + c - S) and min(a, c). `pairs` handles parts on both. Buckets are independent, so everything adds up.

Where it is asked for, `learner` then learns from all buckets together, and `calibration` measures how often the
intervals hold.

With values that are nobody's, sigma fake ones in every bucket or those of people who left it, S is the number of all
values. There are as many more rows that match nothing, to which they belong: any of the values, all with the same
chance. A condition on quasi-identifiers alone is still exact then, but one on the sensitive column alone is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from dalenius.errors import QueryError
from dalenius.model.estimate import Estimate, GroupEstimate, RandomMatching, Unit
from dalenius.query.attached_tables import Group, both, same_group
from dalenius.query.conditions import Condition
from dalenius.query.release_tables import ReleaseTables, SizeSums
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest

if TYPE_CHECKING:
    from dalenius.query.calibration import Calibration
    from dalenius.query.learner import Learner

    Known = Calibration | dict[int, Calibration] | None  # of one sensitive column, or of several by their number

MOST_GROUPS = 100_000
_MOST_MEMORY = 2 * 10**9  # bytes, before the engine spills
MOST_SEPARATE_GROUPS = 1_000  # groups that need a pass each


@dataclass(frozen=True)
class Parts:
    """A condition as SQL: on rows, on values, and on both."""

    rows: str
    values: str
    mixed: Condition | None
    on_rows: bool
    on_values: bool


class Counter(AbstractContextManager["Counter"]):
    """A release that is open for counting, for many queries.

    `calibration` is what another counter of the same release has measured of its intervals.
    """

    def __init__(
        self, folder: ReleaseFolder, *, memory: str | None = None, calibration: Calibration | None = None
    ) -> None:
        self._folder, self._calibration = folder, calibration
        self._learner: Learner | None = None  # created when first needed
        self._not_learned: str | None = None
        self._sensitive = folder.manifest.columns.sensitive.name
        self._of_nobody = folder.manifest.adversary.fake_values > 0 or folder.manifest.surplus > 0
        self._tables = open_tables(folder, memory)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tables.__exit__(kind, error, trace)

    @property
    def tables(self) -> ReleaseTables:
        """The two tables, open for counting."""
        return self._tables

    @property
    def calibration(self) -> Calibration | None:
        """What is known of the intervals, if it was needed by now."""
        return self._learner.known if self._learner is not None else self._calibration

    @property
    def manifest(self) -> Manifest:
        """The manifest of the release."""
        return self._folder.manifest

    def count(self, expression: str, *, learn: bool = False, measure: bool = False) -> Estimate:
        """How many rows meet a SQL condition on the published columns.

        This is the engine, which does what it is asked to: `learn` from all buckets together, if that is possible;
        `measure` how often intervals hold, on simulated truths, once for the release. Without that, learned intervals
        are not widened. `count` below, like everything that people use, does both by default.
        """
        parts = self.parts(expression)
        if parts.mixed is not None:
            estimate = self._pair_estimate(parts.mixed, parts.rows, parts.values)
        else:
            estimate = next((answer.estimate for answer in self._separable(parts, ())), Estimate.of(0, 0, 0, 0))
        return self._finished([GroupEstimate({}, estimate)], parts, learn, measure)[0].estimate

    def count_by(
        self, expression: str, group_by: Sequence[str], *, learn: bool = False, measure: bool = False
    ) -> list[GroupEstimate]:
        """The same for every group of rows that have, or may have, the same values in the columns `group_by`."""
        by = [self._tables.column(name) for name in group_by]
        if len(set(by)) < len(by):
            raise QueryError("a column to group by is named twice", "Name it once.")
        if not by:
            raise QueryError("there is no column to group by", "Name one.")
        parts = self.parts(expression)
        return self._finished(self._groups(parts, by), parts, learn, measure)

    def _groups(self, parts: Parts, by: Sequence[str]) -> list[GroupEstimate]:
        if parts.mixed is None:
            answers: list[GroupEstimate] = []
            for answer in self._separable(parts, by):
                answers.append(answer)
                refuse_more_than(MOST_GROUPS, len(answers))
            return answers
        groups = self._tables.groups(by, MOST_SEPARATE_GROUPS + 1)
        refuse_more_than(MOST_SEPARATE_GROUPS, len(groups))
        return [
            GroupEstimate(
                dict(zip(by, group, strict=True)),
                self._pair_estimate(parts.mixed, both(parts.rows, on_rows), both(parts.values, on_values)),
            )
            for group, on_rows, on_values in groups
        ]

    def _finished(self, answers: list[GroupEstimate], parts: Parts, learn: bool, measure: bool) -> list[GroupEstimate]:
        """The answers with learned estimates or the reason why there are none, and with what intervals are worth."""
        if not (learn or measure) or all(answer.estimate.exact for answer in answers):
            return answers
        from dalenius.infer.compositions import UnsupportedError  # imported here: they need arrays
        from dalenius.query.learner import MIXED

        learner, reason = self.learner()
        if learn and learner is not None and parts.mixed is None:
            try:
                return learner.learn(answers, parts.rows, parts.values, measure=measure)
            except UnsupportedError as unsupported:
                reason = str(unsupported)
        reason = (MIXED if parts.mixed is not None else reason) if learn else None
        calibration = learner.measure() if measure and learner is not None else None

        def finished(estimate: Estimate) -> Estimate:
            if estimate.exact:
                return estimate
            coverage = calibration.at_random(estimate.estimate) if calibration is not None else None
            return replace(estimate, coverage=coverage, not_learned=reason)

        return [replace(answer, estimate=finished(answer.estimate)) for answer in answers]

    def learner(self) -> tuple[Learner | None, str | None]:
        """What learns from all buckets, or why nothing can be learned."""
        from dalenius.infer.compositions import UnsupportedError  # imported here: they need arrays
        from dalenius.query.learner import Learner

        if self._learner is None and self._not_learned is None:
            try:
                self._learner = Learner(self._folder, self._tables, self._calibration)
            except UnsupportedError as unsupported:
                self._not_learned = str(unsupported)
        return self._learner, self._not_learned

    def parts(self, expression: str) -> Parts:
        """The parts of a condition, as SQL."""
        conditions = self._tables.conditions(expression)
        rows = [c.sql for c in conditions if self._sensitive not in c.columns]
        values = [c.sql for c in conditions if c.columns == {self._sensitive}]
        mixed = [c for c in conditions if self._sensitive in c.columns and len(c.columns) > 1]
        together = Condition(both(*(c.sql for c in mixed)), frozenset[str]().union(*(c.columns for c in mixed)))
        return Parts(
            rows=both(*rows),
            values=both(*values),
            mixed=together if mixed else None,
            on_rows=bool(rows),
            on_values=bool(values),
        )

    def _separable(self, parts: Parts, by: Sequence[str]) -> Iterator[GroupEstimate]:
        """One pass over the tables, or over one of them if the other does not matter."""
        on_rows = parts.on_rows or any(name != self._sensitive for name in by)
        on_values = parts.on_values or self._sensitive in by
        if not on_values or not (on_rows or self._of_nobody):
            table: Literal["qit", "st"] = "st" if on_values else "qit"
            for group, count in self._tables.counts(table, parts.values if on_values else parts.rows, by):
                yield GroupEstimate(dict(zip(by, group, strict=True)), Estimate.of(count, 0, count, count))
            return
        sums: Iterable[tuple[Group, SizeSums]] = self._tables.sums(parts.rows, parts.values, by)
        for _, entries in groupby(sums, key=lambda entry: same_group(entry[0])):
            rows = list(entries)
            yield GroupEstimate(dict(zip(by, rows[0][0], strict=True)), _total([size_sums for _, size_sums in rows]))

    def _pair_estimate(self, mixed: Condition, rows: str, values: str) -> Estimate:
        """Evaluate the condition on all distinct pairs, then sum over the buckets, a range at a time."""
        from dalenius.query.pairs import (
            Matcher,
            accepted_pairs,
            typed_buckets,
            types_of,
        )  # imported here: it needs arrays

        types = types_of(accepted_pairs(self._tables, mixed, rows, values))
        matcher = Matcher(types.accepts)
        if types.accepts.size:
            for buckets in typed_buckets(self._tables, mixed, rows, values, types.rows, types.values):
                matcher.add(buckets)
        totals = matcher.totals
        mean = math.fsum(total / size for size, total in totals.means.items())
        spreads = ((size, spread) for size, spread in totals.spreads.items() if size > 1)
        variance = math.fsum(spread / (size * size * (size - 1)) for size, spread in spreads)
        return Estimate.of(mean, variance, totals.low, totals.high, tight=matcher.tight)


def count(
    folder: ReleaseFolder,
    expression: str,
    group_by: Sequence[str] = (),
    *,
    learn: bool = True,
    measure: bool = True,
    unit: Unit = "people",
) -> Estimate | list[GroupEstimate]:
    """How many people meet a SQL condition, or rows where they have several: one estimate, or one for every group."""
    return count_once(folder, expression, group_by, learn, measure, None, unit)[0]


def count_once(
    folder: ReleaseFolder,
    expression: str,
    group_by: Sequence[str],
    learn: bool,
    measure: bool,
    calibration: Known,
    unit: Unit = "people",
) -> tuple[Estimate | list[GroupEstimate], Known]:
    """The same with what is known of the intervals, and what is known of them afterwards: for a process of its own."""
    from dalenius.query.people_count import open_counter  # imported here: it imports this module

    with open_counter(folder, calibration=calibration, unit=unit) as counter:
        if group_by:
            return counter.count_by(expression, group_by, learn=learn, measure=measure), counter.calibration
        return counter.count(expression, learn=learn, measure=measure), counter.calibration


def open_tables(folder: ReleaseFolder, memory: str | None = None) -> ReleaseTables:
    """The two tables of a release under DuckDB, which takes `memory`, or what the folder leaves for it."""
    if folder.manifest.has_several_values:
        raise QueryError(
            "people have several rows or values in this release, and this is only for one of each",
            "dalenius query counts people and rows.",
        )
    return ReleaseTables(folder, memory or engine_memory(folder))


def engine_memory(folder: ReleaseFolder) -> str:
    """What DuckDB takes if nobody says anything else."""
    return f"{min(_MOST_MEMORY, folder.memory.engine)}B"


def _total(sums: Sequence[SizeSums]) -> Estimate:
    mean = math.fsum(entry.products / entry.size for entry in sums)
    variance = math.fsum(e.spreads / (e.size * e.size * (e.size - 1)) for e in sums if e.size > 1)
    return Estimate.of(mean, variance, sum(entry.low for entry in sums), sum(entry.high for entry in sums))


def refuse_more_than(most: int, groups: int) -> None:
    """Refuse a question with too many groups."""
    if groups > most:
        raise QueryError(
            f"there are more than {most:,} groups", "Group by fewer columns, or by columns with fewer values."
        )


def answer_object(answer: Estimate | list[GroupEstimate]) -> Any:
    """The answer as one JSON object, or a list of them. The keys are a contract (docs/json.md)."""
    if isinstance(answer, Estimate):
        return _estimate_object(answer)
    return [{"group": {k: json_value(v) for k, v in a.group.items()}, **_estimate_object(a.estimate)} for a in answer]


def _estimate_object(estimate: Estimate) -> dict[str, Any]:
    beside = estimate.at_random
    content: dict[str, Any] = {
        "format": 2,
        "method": estimate.method,
        **_figures(estimate),
        "bounds": list(estimate.bounds),
        "exact": estimate.exact,
        "at_random": _figures(beside) if beside is not None else None,
        "note": estimate.not_learned,
    }
    beyond: dict[str, Any] = {} if estimate.tight else {"tight": False}
    beyond |= {"counted": estimate.unit} if estimate.unit is not None else {}
    beyond |= {"dropped": estimate.dropped} if estimate.dropped else {}
    return content | beyond


def _figures(estimate: Estimate | RandomMatching) -> dict[str, Any]:
    coverage = estimate.coverage
    return {
        "estimate": estimate.estimate,
        "standard_error": estimate.standard_error,
        "interval": list(estimate.interval),
        "coverage": None
        if coverage is None
        else {
            "share": round(coverage.share, 4),
            "queries": coverage.queries,
            "widened": round(coverage.widened, 4),
        },
    }


def json_value(value: Any) -> Any:
    """A cell of a group as JSON has it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
