"""Counts from a release: how many people meet a condition?

Split the condition at AND into parts on quasi-identifiers, on the sensitive column, and on both. For a bucket of size S
without parts on both, with a rows and c values that match, and values given to rows at random, the count is
hypergeometric: mean a c / S and variance a c (S - a) (S - c) / (S² (S - 1)). Whatever the truth is, it lies between
max(0, a + c - S) and min(a, c). Parts on both are in `patterns`. Buckets are independent, so all of it adds up.

On request, what all buckets together show is learned as well (`learned`).

With sigma fake values in every bucket S is the number of values, and there are sigma more rows that match nothing, to
which the fake values belong: any sigma of the values, all with the same chance. A condition on quasi-identifiers alone
is still exact then, and one on the sensitive column alone is not.

Estimates and workloads as JSON objects, the same for the command line, the report and Studio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dalenius.errors import QueryError
from dalenius.model.estimate import Estimate, GroupEstimate
from dalenius.query.conditions import Condition
from dalenius.query.release_tables import MEMORY, Group, ReleaseTables, SizeSums, TableData, both, same_group
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa

    from dalenius.query.learner import Learner

MOST_GROUPS = 100_000
MOST_GROUPS_APART = 1_000  # groups that need a pass each


@dataclass(frozen=True)
class _Parts:
    """A condition as SQL: on rows, on values, and on both."""

    rows: str
    values: str
    mixed: Condition | None
    on_rows: bool
    on_values: bool


class Counter(AbstractContextManager["Counter"]):
    """A release that is open for counting: use it for many queries."""

    def __init__(self, folder: ReleaseFolder, *, memory: str = MEMORY) -> None:
        self._folder = folder
        self._learner: Learner | None = None  # made when it is first needed
        self._not_learned: str | None = None
        self._sensitive = folder.manifest.columns.sensitive.name
        self._fakes = folder.manifest.adversary.fake_values
        self._tables = open_tables(folder, memory)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tables.__exit__(kind, error, trace)

    @property
    def tables(self) -> ReleaseTables:
        """The two tables, as they are open for counting."""
        return self._tables

    @property
    def manifest(self) -> Manifest:
        """What the release says of itself."""
        return self._folder.manifest

    def count(self, expression: str, *, learn: bool = False) -> Estimate:
        """The rows for which a SQL condition over the published columns is true; `learn` from all buckets together."""
        parts = self._parts(expression)
        if parts.mixed is not None:
            found = self._paired(parts.mixed, parts.rows, parts.values)
        else:
            found = next((answer.estimate for answer in self._separable(parts, ())), Estimate.of(0, 0, 0, 0))
        return self._learned([GroupEstimate({}, found)], parts)[0].estimate if learn else found

    def count_by(self, expression: str, group_by: Sequence[str], *, learn: bool = False) -> list[GroupEstimate]:
        """The same for every group of rows that have, or may have, the same values in the columns of `group_by`."""
        by = [self._tables.column(name) for name in group_by]
        if len(set(by)) < len(by):
            raise QueryError("a column is grouped by twice", "Name it once.")
        if not by:
            raise QueryError("there is no column to group by", "Name one.")
        parts = self._parts(expression)
        answers = self._groups(parts, by)
        return self._learned(answers, parts) if learn else answers

    def _groups(self, parts: _Parts, by: Sequence[str]) -> list[GroupEstimate]:
        if parts.mixed is None:
            answers: list[GroupEstimate] = []
            for answer in self._separable(parts, by):
                answers.append(answer)
                _refuse_more_than(MOST_GROUPS, len(answers))
            return answers
        groups = self._tables.groups(by, MOST_GROUPS_APART + 1)
        _refuse_more_than(MOST_GROUPS_APART, len(groups))
        return [
            GroupEstimate(
                dict(zip(by, group, strict=True)),
                self._paired(parts.mixed, both(parts.rows, on_rows), both(parts.values, on_values)),
            )
            for group, on_rows, on_values in groups
        ]

    def _learned(self, answers: list[GroupEstimate], parts: _Parts) -> list[GroupEstimate]:
        """The answers with what is learned, or with the reason why nothing is."""
        from dalenius.infer.compositions import UnsupportedError  # here: most queries learn nothing, need no arrays
        from dalenius.query.learner import MIXED, Learner, certain

        if parts.mixed is None and all(answer.estimate.exact for answer in answers):
            return [replace(a, estimate=replace(a.estimate, learned=certain(a.estimate))) for a in answers]
        reason = self._not_learned if parts.mixed is None else MIXED
        if reason is None and self._learner is None:
            try:
                self._learner = Learner(self._folder, self._tables)
            except UnsupportedError as unsupported:
                reason = self._not_learned = str(unsupported)
        if reason is None and self._learner is not None:
            return self._learner.learn(answers, parts.rows, parts.values)
        return [replace(a, estimate=replace(a.estimate, not_learned=reason)) for a in answers]

    def _parts(self, expression: str) -> _Parts:
        conditions = self._tables.conditions(expression)
        rows = [c.sql for c in conditions if self._sensitive not in c.columns]
        values = [c.sql for c in conditions if c.columns == {self._sensitive}]
        mixed = [c for c in conditions if self._sensitive in c.columns and len(c.columns) > 1]
        together = Condition(both(*(c.sql for c in mixed)), frozenset[str]().union(*(c.columns for c in mixed)))
        return _Parts(both(*rows), both(*values), together if mixed else None, bool(rows), bool(values))

    def _separable(self, parts: _Parts, by: Sequence[str]) -> Iterator[GroupEstimate]:
        """One pass over the tables; of one table only, if the other has no say."""
        on_rows = parts.on_rows or any(name != self._sensitive for name in by)
        on_values = parts.on_values or self._sensitive in by
        if not on_values or not (on_rows or self._fakes):
            table: TableName = "st" if on_values else "qit"
            for group, count in self._tables.counts(table, parts.values if on_values else parts.rows, by):
                yield GroupEstimate(dict(zip(by, group, strict=True)), Estimate.of(count, 0, count, count))
            return
        found: Iterable[tuple[Group, SizeSums]] = self._tables.sums(parts.rows, parts.values, by)
        for _, entries in groupby(found, key=lambda entry: same_group(entry[0])):
            rows = list(entries)
            yield GroupEstimate(dict(zip(by, rows[0][0], strict=True)), _summed([sums for _, sums in rows]))

    def _paired(self, mixed: Condition, rows: str, values: str) -> Estimate:
        """The condition on all that is different, then the buckets a range at a time."""
        from dalenius.query.pairs import Matcher, accepted_pairs, typed_buckets, types_of  # here, for its arrays

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
    folder: ReleaseFolder, expression: str, group_by: Sequence[str] = (), *, learn: bool = False
) -> Estimate | list[GroupEstimate]:
    """How many rows meet a SQL condition: an estimate, or one for every group."""
    with Counter(folder) as counter:
        if group_by:
            return counter.count_by(expression, group_by, learn=learn)
        return counter.count(expression, learn=learn)


def open_tables(folder: ReleaseFolder, memory: str = MEMORY) -> ReleaseTables:
    """The two tables of a release under DuckDB. Text files come by Arrow, which gives them the manifest's types.

    So do files that are not on this machine.
    """
    columns = folder.manifest.columns

    def data(table: TableName, names: Iterable[str]) -> TableData:
        files = folder.files(table)
        paths = [path for path in map(folder.store.local, files) if path is not None and path.suffix == ".parquet"]
        if len(paths) == len(files):
            folder.require_one_layout(table)
            return TableData(tuple(paths), tuple(names))
        import pyarrow as pa  # here: Parquet files go to DuckDB as they are

        schema = pa.schema([(field.name, _plain(field.type)) for field in folder.schema(table)])
        batches = (batch.cast(schema) for batch in folder.batches(table))
        return TableData(pa.RecordBatchReader.from_batches(schema, batches), tuple(names))

    qit = data("qit", (column.name for column in columns.quasi_identifiers))
    st = data("st", [columns.sensitive.name])
    return ReleaseTables(qit, st, columns.bucket, folder.manifest.adversary.fake_values, memory)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Categories as what they stand for."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _summed(sums: Sequence[SizeSums]) -> Estimate:
    mean = math.fsum(entry.products / entry.size for entry in sums)
    variance = math.fsum(e.spreads / (e.size * e.size * (e.size - 1)) for e in sums if e.size > 1)
    return Estimate.of(mean, variance, sum(entry.low for entry in sums), sum(entry.high for entry in sums))


def _refuse_more_than(most: int, groups: int) -> None:
    if groups > most:
        raise QueryError(
            f"there are more than {most:,} groups", "Group by fewer columns, or by columns with fewer values."
        )


def answer_object(answer: Estimate | list[GroupEstimate], learn: bool = False) -> Any:
    """One object, or a list of them. The keys are a contract (docs/json.md)."""
    if isinstance(answer, Estimate):
        return _estimate_object(answer, learn)
    return [
        {"group": {k: _json_value(v) for k, v in a.group.items()}, **_estimate_object(a.estimate, learn)}
        for a in answer
    ]


def _estimate_object(estimate: Estimate, learn: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "estimate": estimate.estimate,
        "bounds": list(estimate.bounds),
        "standard_error": estimate.standard_error,
        "interval": list(estimate.interval),
        "exact": estimate.exact,
    }
    if not estimate.tight:
        found["tight"] = False
    if learn and estimate.learned is None:
        found |= {"learned": None, "note": estimate.not_learned}
    elif learn and estimate.learned is not None:
        learned = estimate.learned
        found["learned"] = {
            "estimate": learned.estimate,
            "standard_error": learned.standard_error,
            "interval": list(learned.interval),
        }
    return found


def _json_value(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
