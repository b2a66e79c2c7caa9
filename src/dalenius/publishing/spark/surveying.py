"""The first reading. Spark finds the ranges of whole numbers by itself; tasks count values and list the rest.

Every task gives what one partition holds: its records, their fingerprint, and how many have each sensitive value. Lists
are merged in a few tasks before they come to the driver, which gets no more of them than one process would make.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.taskcontext import TaskContext

from dalenius.errors import InputError
from dalenius.place.budget import Budget
from dalenius.place.columns import ListTracker, RangeTracker, Tracker, lossless_types
from dalenius.place.domains import Domain, distinct_values, is_integer_like
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.place.survey import Survey, retype
from dalenius.publishing.spark.frames import SelectedColumns
from dalenius.publishing.spark.spark_errors import carry_errors
from dalenius.publishing.spark.watching import ClusterWork
from dalenius.tables.arrays import numpy_array, require_utf8

Integers = npt.NDArray[np.int64]

_MERGERS = 8
_FIRST_ROWS = 10_000
_LEAST_ROWS = 20
_NEARLY_ALL = 0.9
_STATE = "place int, state binary"


@dataclass
class Part:
    """What one partition holds of the sensitive column."""

    number: int
    rows: int
    fingerprint: int
    values: pa.Array
    counts: Integers
    nulls: int


@dataclass
class TableFacts:
    """What some partitions hold."""

    parts: list[Part] = field(default_factory=list)
    trackers: dict[str, Tracker] = field(default_factory=dict)

    def merge(self, other: TableFacts) -> None:
        """What others hold as well."""
        self.parts += other.parts
        for name, tracker in other.trackers.items():
            mine: Any = self.trackers.get(name)
            if mine is None:
                self.trackers[name] = tracker
            else:
                mine.merge(tracker)


@dataclass(frozen=True)
class Partitions:
    """The partitions of the first reading, which every later one must meet again: records, fingerprints, counts."""

    rows: Integers
    fingerprints: Integers
    counts: Integers  # a line for each partition, a column for each value


def fingerprint_of(batch: pa.RecordBatch) -> int:
    """What the fingerprints of the rows of a batch, its first column, come to."""
    return int(np.bitwise_xor.reduce(numpy_array(batch.column(0)), initial=np.int64(0)))


class SurveyTask:
    """Looks at every row of a partition: the fingerprint first, then the sensitive column, then those to be listed."""

    def __init__(self, kind: pa.DataType, name: str, trackers: Mapping[str, Tracker], untyped: bool = False) -> None:
        self._kind, self._name, self._trackers, self._untyped = kind, name, dict(trackers), untyped

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a partition."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        trackers: dict[str, Any] = pickle.loads(pickle.dumps(self._trackers))  # noqa: S301 (our own)
        counter = SensitiveCounter(self._name, self._kind)
        rows = fingerprint = 0
        for batch in batches:
            if self._untyped and any(_has_replacements(column) for column in batch.columns[1:]):
                raise InputError("the file is not UTF-8 text", "Turn it into UTF-8 first.")
            for name, column in zip((self._name, *trackers), batch.columns[1:], strict=True):
                require_utf8(name, column)
            counter.add(batch.column(1))
            for tracker, column in zip(trackers.values(), batch.columns[2:], strict=True):
                tracker.add(column)
            fingerprint ^= fingerprint_of(batch)
            rows += batch.num_rows
        if rows:
            number = partition_number()
            part = Part(number, rows, fingerprint, *counter.totals())
            yield _state(number % _MERGERS, TableFacts([part], trackers))


def _has_replacements(texts: pa.Array) -> bool:
    """Whether there is the character that Spark puts in the place of bytes that are not UTF-8."""
    return bool(pc.any(pc.match_substring(texts, "\ufffd")).as_py())


def partition_number() -> int:
    """Which partition a task works at."""
    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0


def _merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    facts = TableFacts()
    for batch in batches:
        for state in batch.column(1).to_pylist():
            facts.merge(pickle.loads(state))  # noqa: S301 (from a task of ours)
    if facts.parts:
        yield _state(0, facts)


def _state(place: int, facts: TableFacts) -> pa.RecordBatch:
    states = pa.array([pickle.dumps(facts)], pa.binary())
    return pa.record_batch([pa.array([place], pa.int32()), states], names=["place", "state"])


class Surveyor:
    """Reads a table for the first time."""

    def __init__(
        self, chosen: SelectedColumns, sensitive: str, untyped: bool, budget: Budget, work: ClusterWork
    ) -> None:
        self._chosen, self._sensitive, self._untyped = chosen, sensitive, untyped
        self._budget, self._work = budget, work
        self._others = [name for name in chosen.schema.names if name != sensitive]

    def survey(self, null_value: str | None, missing: Sequence[str] = ()) -> tuple[Survey, Partitions]:
        """What the table holds, and what each of its partitions does."""
        trackers = self._trackers()
        listed = {name: tracker for name, tracker in trackers.items() if tracker.needs_data}
        facts = self._read_facts(listed)
        trackers |= facts.trackers
        schema = self._chosen.schema
        counter = SensitiveCounter(self._sensitive, schema.field(self._sensitive).type)
        for part in facts.parts:
            counter.add_totals(part.values, part.counts, part.nulls)
        sensitive = counter.finish(null_value, missing)
        rows = sum(part.rows for part in facts.parts)
        domains: dict[str, Domain | None] = {name: trackers[name].domain() for name in self._others}
        if self._untyped:
            schema = lossless_types(schema, domains)
            domains = {name: retype(domain, schema.field(name).type) for name, domain in domains.items()}
        row_bytes = 8 + sum(trackers[name].bytes(rows) for name in self._others) // max(1, rows)
        survey = Survey(
            schema,
            rows,
            row_bytes,
            self._budget.batch_rows(row_bytes),
            sensitive,
            domains,
            {name: trackers[name].has_nulls for name in self._others},
            self._nearly_unique(domains, rows),
            (),
        )
        return survey, _partitions(facts.parts, sensitive)

    def _trackers(self) -> dict[str, Tracker]:
        """A tracker for each quasi-identifier; what Spark finds out by itself need not be looked at again."""
        ranges = self._ranges([name for name in self._others if self._chosen.is_whole(name)])
        most = self._budget.lists(len(self._chosen.schema))
        trackers: dict[str, Tracker] = {}
        for name in self._others:
            kind = self._chosen.schema.field(name).type
            if name in ranges:
                low, high, nulls = ranges[name]
                known = RangeTracker(kind, (low, high, nulls) if low is not None and high is not None else None)
                if low is None:  # nulls alone
                    known.has_nulls, known.needs_data = True, False
                trackers[name] = known
            else:
                trackers[name] = tracker_for(kind, most)
        return trackers

    def _ranges(self, names: Sequence[str]) -> dict[str, tuple[int | None, int | None, bool]]:
        if not names:
            return {}
        aggregates = [F.count(F.lit(1))]
        for name in names:
            column = self._chosen.as_long(name)
            aggregates += [F.min(column), F.max(column), F.count(column)]
        (row,) = self._work.rows(self._chosen.frame.agg(*aggregates))
        return {
            name: (row[3 * place + 1], row[3 * place + 2], row[3 * place + 3] < row[0])
            for place, name in enumerate(names)
        }

    def _read_facts(self, listed: Mapping[str, Tracker]) -> TableFacts:
        chosen = self._chosen
        columns = [chosen.column(name) for name in (self._sensitive, *listed)]
        task = SurveyTask(chosen.schema.field(self._sensitive).type, self._sensitive, listed, self._untyped)
        states = chosen.with_fingerprints(*columns).mapInArrow(task, _STATE)
        if listed:
            states = states.repartitionById(_MERGERS, F.col("place")).mapInArrow(_merge, _STATE)
        facts = TableFacts()
        for row in self._work.rows(states):
            facts.merge(pickle.loads(row["state"]))  # noqa: S301 (from a task of ours)
        return facts

    def _nearly_unique(self, domains: Mapping[str, Domain | None], rows: int) -> tuple[str, ...]:
        """Columns in which nearly every one of some rows has a value of its own: identifiers, most likely."""
        looked_at = min(rows, _FIRST_ROWS)
        suspects = [
            name for name, domain in domains.items() if domain is None or domain.codes >= _NEARLY_ALL * looked_at
        ]
        if looked_at < _LEAST_ROWS or not suspects:
            return ()
        first = self._work.table(
            self._chosen.frame.select(*(self._chosen.column(name) for name in suspects)).limit(looked_at)
        ).combine_chunks()
        return tuple(
            name
            for name, column in zip(suspects, first.columns, strict=True)
            if len(distinct_values(column.chunk(0))) >= _NEARLY_ALL * len(first)
        )


def tracker_for(kind: pa.DataType, most_bytes: int) -> Tracker:
    """A tracker for a column of which nothing is known."""
    return RangeTracker(kind) if is_integer_like(kind) else ListTracker(kind, most_bytes)


def _partitions(parts: Sequence[Part], sensitive: SensitiveColumn) -> Partitions:
    number = max((part.number for part in parts), default=-1) + 1
    rows, fingerprints = np.zeros((2, number), dtype=np.int64)
    counts = np.zeros((number, len(sensitive.texts)), dtype=np.int64)
    for part in parts:
        rows[part.number], fingerprints[part.number] = part.rows, part.fingerprint
        counts[part.number] = sensitive.counts_in_order(part.values, part.counts, part.nulls)
    return Partitions(rows, fingerprints, counts)
