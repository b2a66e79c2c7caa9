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
from dalenius.place.banded import BandCounter, BandedColumn, NumberBands, kinds_left, with_nulls
from dalenius.place.budget import Budget
from dalenius.place.columns import ListTracker, RangeTracker, Tracker, cast_to_published, lossless_types
from dalenius.place.domains import Domain, distinct_values, is_integer_like
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.place.survey import Survey, retype
from dalenius.publishing.spark.frames import SelectedColumns
from dalenius.publishing.spark.spark_errors import carry_errors
from dalenius.publishing.spark.watching import ClusterWork
from dalenius.tables.arrays import arrow_array, numpy_array, require_utf8

Integers = npt.NDArray[np.int64]

_MERGERS = 8
_FIRST_ROWS = 10_000
_LEAST_ROWS = 20
_NEARLY_ALL = 0.9
_STATE = "place int, state binary"


@dataclass
class Part:
    """What one partition holds of the sensitive column: by value, or, of numbers, by band and with the codes for what
    is missing that are there."""

    number: int
    rows: int
    fingerprint: int
    values: pa.Array
    counts: Integers
    nulls: int
    bands: BandCounter | None = None
    found: set[str] = field(default_factory=set)

    def in_order(self, sensitive: SensitiveColumn) -> Integers:
        """The records of each value, in the order of the codes."""
        if self.bands is not None and isinstance(sensitive, BandedColumn):
            return self.bands.counts_in_order(sensitive)
        return sensitive.counts_in_order(self.values, self.counts, self.nulls)


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


@dataclass(frozen=True)
class BandsAsRead:
    """Sensitive numbers as tasks read them: in bands, and some of their texts are nulls."""

    bands: NumberBands
    missing: tuple[str, ...] = ()

    def counter(self, column: str) -> BandCounter:
        """What counts them."""
        return BandCounter(column, self.bands)

    def of(self, values: pa.Array, found: set[str]) -> pa.Array:
        """Values of the table as numbers; codes for what is missing go into `found`."""
        return cast_to_published(with_nulls(values, self.missing, found), self.bands.data_type)


class NumbersTask:
    """Looks at the numbers of a partition: how many rows, which types they can have, and those at some places."""

    schema = "number int, rows long, kinds int, values binary"

    def __init__(
        self, column: str, kinds: Sequence[pa.DataType], missing: Sequence[str], places: Mapping[int, Integers]
    ) -> None:
        """`places[k]` are those of partition k, in ascending order."""
        self._column, self._kinds, self._missing, self._places = column, list(kinds), tuple(missing), places

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row a batch. `kinds` is how many of the first types do not fit."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number, before = partition_number(), 0
        places = self._places.get(number, np.empty(0, dtype=np.int64))
        for batch in batches:
            require_utf8(self._column, batch.column(0))
            values = with_nulls(batch.column(0), self._missing, set())
            left = kinds_left(self._column, self._kinds, values)
            first, last = np.searchsorted(places, (before, before + len(values)))
            drawn = cast_to_published(values.take(arrow_array(places[first:last] - before)), left[0]).drop_null()
            before += len(values)
            row = [number, len(values), len(self._kinds) - len(left), _serialized(drawn)]
            kinds = (pa.int32(), pa.int64(), pa.int32(), pa.binary())
            columns = [pa.array([cell], kind) for cell, kind in zip(row, kinds, strict=True)]
            yield pa.record_batch(columns, names=["number", "rows", "kinds", "values"])


def _serialized(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("values", values.type)])) as writer:
        writer.write_batch(pa.record_batch([values], names=["values"]))
    return bytes(sink.getvalue())


def numbers_in(row: Any) -> pa.Array:
    """The numbers of a row of `NumbersTask`."""
    return pa.ipc.open_stream(row["values"]).read_all().column(0).combine_chunks()


class SurveyTask:
    """Looks at every row of a partition: the fingerprint first, then the sensitive column, then those to be listed."""

    def __init__(
        self, kind: pa.DataType | BandsAsRead, name: str, trackers: Mapping[str, Tracker], untyped: bool = False
    ) -> None:
        """`kind` is the type of the sensitive column, or what is read of its numbers."""
        self._kind, self._name, self._trackers, self._untyped = kind, name, dict(trackers), untyped

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a partition."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        trackers: dict[str, Any] = pickle.loads(pickle.dumps(self._trackers))  # noqa: S301 (our own)
        numbers = self._kind if isinstance(self._kind, BandsAsRead) else None
        bands = numbers.counter(self._name) if numbers is not None else None
        counter, found = SensitiveCounter(self._name, pa.string() if numbers is not None else self._kind), set[str]()
        rows = fingerprint = 0
        for batch in batches:
            if self._untyped and any(_has_replacements(column) for column in batch.columns[1:]):
                raise InputError("the file is not UTF-8 text", "Turn it into UTF-8 first.")
            for name, column in zip((self._name, *trackers), batch.columns[1:], strict=True):
                require_utf8(name, column)
            if bands is not None and numbers is not None:
                bands.add(numbers.of(batch.column(1), found))
            else:
                counter.add(batch.column(1))
            for tracker, column in zip(trackers.values(), batch.columns[2:], strict=True):
                tracker.add(column)
            fingerprint ^= fingerprint_of(batch)
            rows += batch.num_rows
        if rows:
            number = partition_number()
            part = Part(number, rows, fingerprint, *counter.totals(), bands, found)
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

    def survey(
        self, null_value: str | None, missing: Sequence[str] = (), bands: NumberBands | None = None
    ) -> tuple[Survey, Partitions]:
        """What the table holds, and what each of its partitions does. With `bands` the sensitive column has numbers."""
        trackers = self._trackers()
        listed = {name: tracker for name, tracker in trackers.items() if tracker.needs_data}
        numbers = BandsAsRead(bands, tuple(missing)) if bands is not None else None
        facts = self._read_facts(listed, numbers)
        trackers |= facts.trackers
        schema = self._chosen.schema
        if bands is not None:
            schema = schema.set(len(schema) - 1, schema.field(self._sensitive).with_type(bands.data_type))
        sensitive = self._sensitive_column(facts.parts, numbers, null_value, missing)
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

    def _sensitive_column(
        self, parts: Sequence[Part], numbers: BandsAsRead | None, null_value: str | None, missing: Sequence[str]
    ) -> SensitiveColumn:
        """What all partitions hold together."""
        if numbers is not None:
            counted = numbers.counter(self._sensitive)
            for counter_of_part in (part.bands for part in parts if part.bands is not None):
                counted.merge(counter_of_part)
            return counted.finish(null_value, set[str]().union(*(part.found for part in parts)))
        counter = SensitiveCounter(self._sensitive, self._chosen.schema.field(self._sensitive).type)
        for part in parts:
            counter.add_totals(part.values, part.counts, part.nulls)
        return counter.finish(null_value, missing)

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

    def _read_facts(self, listed: Mapping[str, Tracker], numbers: BandsAsRead | None) -> TableFacts:
        chosen = self._chosen
        columns = [chosen.column(name) for name in (self._sensitive, *listed)]
        kind = chosen.schema.field(self._sensitive).type if numbers is None else numbers
        task = SurveyTask(kind, self._sensitive, listed, self._untyped)
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
        counts[part.number] = part.in_order(sensitive)
    return Partitions(rows, fingerprints, counts)
