"""The first reading: count the sensitive values, and find out what the other columns hold.

What it finds decides how records are kept while they are placed: columns with a known range or a short list of values
become codes of a few bits. Lists are bounded; a column that goes beyond them has no domain here, and its values are
carried along as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dalenius.engines.arrow import Source
from dalenius.place.budget import Budget
from dalenius.place.domains import Domain, Listing, distinct
from dalenius.place.packed import Layout
from dalenius.place.published_types import as_published, lossless_types, published_field
from dalenius.place.sample import Sample
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.place.trackers import RangeTracker, Tracker, tracker_of

_FIRST_ROWS = 2**11  # to find out how long rows are
_SAMPLE = 100_000
_LEAST_SAMPLE = 20
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Survey:
    """What the first reading found. `row_bytes` is what the quasi-identifiers of a record take on average."""

    schema: pa.Schema
    rows: int
    row_bytes: int
    batch_rows: int
    sensitive: SensitiveColumn
    domains: dict[str, Domain | None]
    nullable: dict[str, bool]
    nearly_unique: tuple[str, ...]
    unordered: tuple[str, ...]

    def layout(self, buckets: int = 1) -> Layout | None:
        """How a record fits into 64 bits; None if it does not."""
        known = {name: domain for name, domain in self.domains.items() if domain is not None}
        layout = Layout(known, buckets) if len(known) == len(self.domains) else None
        return layout if layout is not None and layout.fits else None

    def sampled(self, sample: Sample) -> dict[str, list[pa.Array]]:
        """The columns of a sample, with the types that are published."""
        batches = sample.batches()
        return {
            name: [as_published(one.column(name), self.schema.field(name).type) for one in batches]
            for name in batches[0].schema.names
        }


def survey(
    source: Source,
    sensitive: str,
    quasi_identifiers: Sequence[str],
    null_value: str | None,
    budget: Budget,
    advance: Callable[[int], None],
    sample: Sample | None = None,
) -> Survey:
    """Read the table once, and take a sample of it if one is wanted."""
    columns = [*quasi_identifiers, sensitive]
    given = source.schema(columns)
    schema = pa.schema([published_field(field) for field in given])
    batch_rows = budget.batch_rows(first_row_bytes(source, columns))
    trackers = {name: tracker_of(schema.field(name), source, budget.lists(len(columns))) for name in quasi_identifiers}
    counter = SensitiveCounter(sensitive, schema.field(sensitive).type)
    rows = _read(source, schema, trackers, counter, batch_rows, advance, sample)
    domains = {name: tracker.domain() for name, tracker in trackers.items()}
    if source.untyped:
        schema = lossless_types(schema, domains)
        domains = {name: retyped(domain, schema.field(name).type) for name, domain in domains.items()}
    row_bytes = 8 + sum(tracker.bytes(rows) for tracker in trackers.values()) // max(1, rows)
    return Survey(
        schema,
        rows,
        row_bytes,
        min(batch_rows, budget.batch_rows(row_bytes)),
        counter.finish(null_value),
        domains,
        {name: tracker.has_nulls for name, tracker in trackers.items()},
        _nearly_unique(source, quasi_identifiers, min(_SAMPLE, batch_rows)),
        tuple(field.name for field in given if pa.types.is_dictionary(field.type) and field.type.ordered),
    )


def _read(
    source: Source,
    schema: pa.Schema,
    trackers: dict[str, Tracker],
    counter: SensitiveCounter,
    batch_rows: int,
    advance: Callable[[int], None],
    sample: Sample | None,
) -> int:
    """Show every batch to the trackers, the counter and the sample; how many rows there were."""
    reading = [name for name, tracker in trackers.items() if tracker.wants_data or sample is not None]
    fields = [schema.field(name) for name in (*reading, counter.name)]
    rows = 0
    for batch in source.batches([field.name for field in fields], batch_rows):
        *others, last = (as_published(column, field.type) for column, field in zip(batch.columns, fields, strict=True))
        counter.add(last)
        for name, column in zip(reading, others, strict=True):
            if trackers[name].wants_data:
                trackers[name].add(column)
        if sample is not None:
            sample.add(pa.RecordBatch.from_arrays([*others, last], names=[field.name for field in fields]))
        rows += batch.num_rows
        advance(batch.num_rows)
    return rows


def _first(source: Source, columns: Sequence[str], rows: int) -> pa.RecordBatch | None:
    """The first batch. The reading ends here and now, not when the garbage collector gets to it."""
    batches = source.batches(columns, rows)
    try:
        return next(batches, None)
    finally:
        batches.close()


def first_row_bytes(source: Source, columns: Sequence[str]) -> int:
    """What a row takes, judged by the first ones."""
    first = _first(source, columns, _FIRST_ROWS)
    return 0 if first is None or not first.num_rows else int(first.nbytes) // int(first.num_rows)


def retyped(domain: Domain | None, kind: pa.DataType) -> Domain | None:
    """The domain of a text column that has been found to hold values of another type."""
    if not isinstance(domain, Listing) or kind == domain.kind:
        return domain
    tracker = RangeTracker(kind)
    tracker.add(pa.concat_arrays([as_published(domain.values, kind), pa.nulls(int(domain.has_nulls), kind)]))
    return tracker.domain()


def _nearly_unique(source: Source, columns: Sequence[str], rows: int) -> tuple[str, ...]:
    """Columns in which nearly every one of the first rows has a value of its own: identifiers, most likely."""
    first = _first(source, columns, rows) if columns else None
    if first is None or first.num_rows < _LEAST_SAMPLE:
        return ()
    return tuple(
        name
        for name, column in zip(columns, first.columns, strict=True)
        if len(distinct(column)) >= _NEARLY_ALL * first.num_rows
    )
