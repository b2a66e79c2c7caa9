"""The first reading: count the sensitive values, learn what the other columns hold, and draw a sample.

What it learns decides how records are stored while they are placed: columns with a known range or a short list of
values become codes of a few bits. Lists are bounded; a column that goes beyond them has no domain here, and its values
are carried along as they are.

The sample is uniform, and drawn while the records stream by: their number need not be known. Every record has a random
number, and those with the smallest numbers are the sample, however the table was cut into batches. On the way, a bound
on the numbers is halved whenever more than twice as many records are below it as the sample needs. What is made of the
sample shows in a release, so the numbers come from the key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import InputError, SelfCheckError
from dalenius.model.entries import Occurrences
from dalenius.place.banded import BandCounter, BandedColumn, NumberBands, SourceWithNulls
from dalenius.place.budget import Budget, in_parallel
from dalenius.place.columns import RangeTracker, Tracker, cast_to_published, lossless_types, published_field, tracker_of
from dalenius.place.domains import Domain, Listing, distinct_values
from dalenius.place.occurrences import OccurrenceCounter
from dalenius.place.packed import Layout
from dalenius.place.permutation import KeyStream, Purpose
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.tables.arrays import arrow_array, require_utf8
from dalenius.tables.arrow import Source

_ALL = 2**32
_FIRST_ROWS = 2**11  # to find out how long rows are
_SAMPLE = 100_000
_LEAST_SAMPLE = 20
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Survey:
    """The findings of the first reading. `row_bytes` is what the quasi-identifiers of a record take on average.

    `identifying` says how often what identifies people occurs, in columns that are not published.
    """

    schema: pa.Schema
    rows: int
    row_bytes: int
    batch_rows: int
    sensitive: SensitiveColumn
    domains: dict[str, Domain | None]
    nullable: dict[str, bool]
    nearly_unique: tuple[str, ...]
    unordered: tuple[str, ...]
    identifying: Mapping[str, Occurrences] = dataclasses.field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, Domain]:
        """The sensitive column, if its values are numbers that count by bands."""
        return {self.sensitive.name: self.sensitive.numbers} if isinstance(self.sensitive, BandedColumn) else {}

    def listed(self, column: str) -> Domain | None:
        """The domain of a column that is published."""
        return {**self.domains, self.sensitive.name: self.sensitive.listing, **self.numbers}[column]

    def layout(self, buckets: int = 1) -> Layout | None:
        """How a record fits into 64 bits; None if it does not."""
        return layout_of(self.domains, buckets)

    def sample_columns(self, sample: Sample) -> dict[str, list[pa.Array]]:
        """The columns of a sample, with the types that are published."""
        batches = sample.batches()
        return {
            name: [cast_to_published(one.column(name), self.schema.field(name).type) for one in batches]
            for name in batches[0].schema.names
        }


def layout_of(domains: Mapping[str, Domain | None], buckets: int = 1) -> Layout | None:
    """How some columns of a record fit into 64 bits, with its bucket; None if they do not."""
    known = {name: domain for name, domain in domains.items() if domain is not None}
    layout = Layout(known, buckets) if len(known) == len(domains) else None
    return layout if layout is not None and layout.fits else None


def survey(
    source: Source,
    sensitive: str,
    quasi_identifiers: Sequence[str],
    null_value: str | None,
    budget: Budget,
    advance: Callable[[int], None],
    sample: Sample | None = None,
    identifying: Sequence[str] = (),
    bands: NumberBands | None = None,
    missing: Sequence[str] = (),
) -> Survey:
    """Read the table once, and take a sample of it if there is a `sample` to fill.

    Of the `identifying` columns, different values are counted, and nothing else is learned. With `bands`, the sensitive
    column is one of numbers. Its texts that are `missing` count as nulls.
    """
    columns = [*quasi_identifiers, sensitive]
    source_schema = source.schema(columns)
    schema = pa.schema([published_field(field) for field in source_schema])
    batch_rows = budget.batch_rows(first_row_bytes(source, columns))
    trackers = {name: tracker_of(schema.field(name), source, budget.lists(len(columns))) for name in quasi_identifiers}
    counter: SensitiveCounter | BandCounter = SensitiveCounter(sensitive, schema.field(sensitive).type)
    if bands is not None:
        schema = schema.set(len(columns) - 1, schema.field(sensitive).with_type(bands.data_type))
        counter = BandCounter(sensitive, bands)
    counters = {name: IdentifierCounter() for name in identifying if _is_readable(source, name)}
    rows = _read(source, schema, trackers, counter, batch_rows, advance, sample, counters)
    domains = {name: tracker.domain() for name, tracker in trackers.items()}
    if source.untyped:
        schema = lossless_types(schema, domains)
        domains = {name: retype(domain, schema.field(name).type) for name, domain in domains.items()}
    row_bytes = 8 + sum(tracker.bytes(rows) for tracker in trackers.values()) // max(1, rows)
    return Survey(
        schema=schema,
        rows=rows,
        row_bytes=row_bytes,
        batch_rows=min(batch_rows, budget.batch_rows(row_bytes)),
        sensitive=counter.finish(null_value, tuple(source.found) if isinstance(source, SourceWithNulls) else missing),
        domains=domains,
        nullable={name: tracker.has_nulls for name, tracker in trackers.items()},
        nearly_unique=_nearly_unique(source, quasi_identifiers, min(_SAMPLE, batch_rows)),
        unordered=tuple(
            field.name for field in source_schema if pa.types.is_dictionary(field.type) and field.type.ordered
        ),
        identifying={name: found for name, one in counters.items() if (found := one.finish()) is not None},
    )


class IdentifierCounter:
    """How many different values a column has. One of a type without hashes is given up."""

    def __init__(self) -> None:
        self._counter: OccurrenceCounter | None = OccurrenceCounter()

    def add(self, column: pa.Array) -> None:
        """The next records; nulls identify nobody."""
        from dalenius.tables.open_table import hash_values  # here, since executors of Spark have no DuckDB

        if self._counter is not None:
            try:
                self._counter.add(hash_values(column.drop_null()))
            except InputError:
                self._counter = None

    def finish(self) -> Occurrences | None:
        """What was counted."""
        return self._counter.finish() if self._counter is not None else None


def _is_readable(source: Source, column: str) -> bool:
    """Whether a column that is not published has a type that can be read; if not, nobody needs to know."""
    try:
        source.schema([column])
    except InputError:
        return False
    return True


class Sample:
    """A sample of `size` records, or of all of them if there are fewer."""

    def __init__(self, key: bytes, size: int) -> None:
        self._size, self._stream = size, KeyStream(key, Purpose.SAMPLE, 0)
        self._bound = _ALL
        self._records: list[tuple[pa.RecordBatch, npt.NDArray[np.uint32]]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """The next records."""
        self._records.append(_below(self._bound, batch, self._stream.halves(batch.num_rows)))
        while self._too_many():
            self._bound //= 2
            self._records = [_below(self._bound, *one) for one in self._records]

    def batches(self) -> list[pa.RecordBatch]:
        """The records of the sample; those that share the largest number are all in it."""
        bound = _bound_of([numbers for _, numbers in self._records], self._size)
        return [_below(bound, *one)[0] for one in self._records]

    def _too_many(self) -> bool:
        return sum(len(numbers) for _, numbers in self._records) > 2 * self._size


def smallest_numbers(key: bytes, lengths: Sequence[int], size: int) -> list[npt.NDArray[np.intp]]:
    """The same sample of records that are in memory, in batches of these lengths: which rows of each batch."""
    stream, total = KeyStream(key, Purpose.SAMPLE, 0), sum(lengths)
    most = _ALL if total <= 2 * size else 2 * _ALL * size // total  # twice as many as the sample has, or nearly so
    below = []
    for length in lengths:
        numbers = stream.halves(length)
        rows = np.flatnonzero(numbers < most)
        below.append((rows, numbers[rows]))
    if sum(len(rows) for rows, _ in below) < min(size, total):  # once in 10^1000 samples
        raise SelfCheckError("random numbers that are not random")
    bound = _bound_of([numbers for _, numbers in below], size)
    return [rows[numbers < bound] for rows, numbers in below]


def first_row_bytes(source: Source, columns: Sequence[str]) -> int:
    """The bytes of a row, judged by the first rows."""
    first = _first(source, columns, _FIRST_ROWS)
    return 0 if first is None or not first.num_rows else int(first.nbytes) // int(first.num_rows)


def retype(domain: Domain | None, data_type: pa.DataType) -> Domain | None:
    """The domain of a text column whose texts can all be read as values of another type."""
    if not isinstance(domain, Listing) or data_type == domain.data_type:
        return domain
    tracker = RangeTracker(data_type)
    tracker.add(
        pa.concat_arrays([cast_to_published(domain.values, data_type), pa.nulls(int(domain.has_nulls), data_type)])
    )
    return tracker.domain()


def _below(
    bound: int, batch: pa.RecordBatch, numbers: npt.NDArray[np.uint32]
) -> tuple[pa.RecordBatch, npt.NDArray[np.uint32]]:
    """The records whose numbers are below a bound."""
    if bound == _ALL:
        return batch, numbers
    chosen = np.flatnonzero(numbers < bound)
    few = batch.take(arrow_array(chosen))
    plain = pa.RecordBatch.from_arrays([_without_dictionary(column) for column in few.columns], names=few.schema.names)
    return plain, numbers[chosen]


def _without_dictionary(column: pa.Array) -> pa.Array:
    """A column without the dictionary of the batch that it comes from, which may be longer than the sample."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _bound_of(numbers: Sequence[npt.NDArray[np.uint32]], size: int) -> int:
    """The bound below which the `size` smallest numbers are."""
    all_numbers = np.concatenate(numbers)
    return _ALL if len(all_numbers) <= size else int(np.partition(all_numbers, size - 1)[size - 1]) + 1


def _read(
    source: Source,
    schema: pa.Schema,
    trackers: dict[str, Tracker],
    counter: SensitiveCounter | BandCounter,
    batch_rows: int,
    advance: Callable[[int], None],
    sample: Sample | None,
    identifying: Mapping[str, IdentifierCounter],
) -> int:
    """Show every batch to the trackers, the counters and the sample; how many rows there were."""
    reading = [name for name, tracker in trackers.items() if tracker.needs_data or sample is not None]
    fields = [schema.field(name) for name in (*reading, counter.name)]
    rows = 0

    def look(batch: pa.RecordBatch) -> int:
        *others, last = (
            cast_to_published(column, field.type) for column, field in zip(batch.columns, fields, strict=False)
        )
        for field, column in zip(fields, (*others, last), strict=True):
            require_utf8(field.name, column)
        for identifiers, column in zip(identifying.values(), batch.columns[len(fields) :], strict=True):
            identifiers.add(column)
        counter.add(last)
        for name, column in zip(reading, others, strict=True):
            if trackers[name].needs_data:
                trackers[name].add(column)
        if sample is not None:
            sample.add(pa.RecordBatch.from_arrays([*others, last], names=[field.name for field in fields]))
        return int(batch.num_rows)

    batches = source.batches([*(field.name for field in fields), *identifying], batch_rows)
    with ThreadPoolExecutor(1) as counting:  # one batch after the other, and the next is read meanwhile
        for seen in in_parallel(look, batches, counting, ahead=2):
            rows += seen
            advance(seen)
    return rows


def _first(source: Source, columns: Sequence[str], rows: int) -> pa.RecordBatch | None:
    """The first batch. The reading ends here and now, not when the garbage collector gets to it."""
    batches = source.batches(columns, rows)
    try:
        return next(batches, None)
    finally:
        batches.close()


def _nearly_unique(source: Source, columns: Sequence[str], rows: int) -> tuple[str, ...]:
    """Columns in which nearly every one of the first rows has a value of its own: identifiers, most likely."""
    first = _first(source, columns, rows) if columns else None
    if first is None or first.num_rows < _LEAST_SAMPLE:
        return ()
    return tuple(
        name
        for name, column in zip(columns, first.columns, strict=True)
        if len(distinct_values(column)) >= _NEARLY_ALL * first.num_rows
    )
