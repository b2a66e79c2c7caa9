"""The first reading: count the sensitive values, and find out what the other columns hold.

What it finds decides how records are kept while they are placed: columns with a known range or a short list of values
become codes of a few bits. Lists are bounded; a column that goes beyond them has no domain here, and its values are
carried along as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dalenius.engines.arrow import Source
from dalenius.errors import InputError
from dalenius.place.domains import Domain, Listing, Range, distinct, in_order, listing_type, null_count
from dalenius.place.integers import is_integer_like, to_integers
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.place.untyped import as_typed, lossless_types

_SHORT_BITS = 16
_SHORT_RANGE = 2**_SHORT_BITS  # up to here a range costs no more bits than it is worth looking for gaps in it
_LONGEST_LIST = 2**20
_EPOCH = date(1970, 1, 1).toordinal()
_SAMPLE = 100_000
_LEAST_SAMPLE = 50
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Survey:
    """What the first reading found."""

    schema: pa.Schema
    rows: int
    sensitive: SensitiveColumn
    domains: dict[str, Domain | None]
    nearly_unique: tuple[str, ...]


def survey(
    source: Source,
    sensitive: str,
    quasi_identifiers: Sequence[str],
    null_value: str | None,
    list_bytes: int,
    advance: Callable[[int], None],
) -> Survey:
    """Read the table once. `list_bytes` is the most memory that all lists of values may take."""
    columns = [*quasi_identifiers, sensitive]
    schema = source.schema(columns)
    for field in schema:
        _check_type(field)
    trackers = {
        name: _tracker(schema.field(name).type, source, name, list_bytes // len(columns)) for name in quasi_identifiers
    }
    reading = [name for name in quasi_identifiers if trackers[name].wants_data]
    counter = SensitiveCounter(sensitive, schema.field(sensitive).type)
    rows = 0
    for batch in source.batches([*reading, sensitive]):
        counter.add(batch.column(len(reading)))
        for place, name in enumerate(reading):
            trackers[name].add(batch.column(place))
        rows += batch.num_rows
        advance(batch.num_rows)
    domains = {name: trackers[name].domain() for name in quasi_identifiers}
    if source.untyped:
        schema = lossless_types(schema, domains)
        domains = {name: _retyped(domain, schema.field(name).type) for name, domain in domains.items()}
    return Survey(schema, rows, counter.finish(null_value), domains, _nearly_unique(source, quasi_identifiers))


def _retyped(domain: Domain | None, kind: pa.DataType) -> Domain | None:
    """The domain of a text column that has been found to hold values of another type."""
    if not isinstance(domain, Listing) or kind == domain.kind:
        return domain
    tracker = _RangeTracker(kind, None)
    tracker.add(pa.concat_arrays([as_typed(domain.values, kind), pa.nulls(int(domain.has_nulls), kind)]))
    return tracker.domain()


def _check_type(field: pa.Field) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    t = pa.types
    text = t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind)
    if not (text or t.is_fixed_size_binary(kind) or t.is_null(kind) or t.is_decimal(kind) or is_integer_like(kind)):
        raise InputError(
            f"the column {field.name!r} has the type {field.type}, and single values are wanted",
            "Unnest it, turn it into text, or leave it out.",
        )


class _RangeTracker:
    """Integer-like values: their range, and as long as it is long and they are few, the values."""

    def __init__(self, kind: pa.DataType, known: tuple[int, int, bool] | None) -> None:
        self._kind = kind
        self._low: int | None = None if known is None else known[0]
        self._high: int | None = None if known is None else known[1]
        self._nulls = known is not None and known[2]
        self.wants_data = known is None or known[1] - known[0] >= _SHORT_RANGE
        self._listed: pa.Array | None = pa.nulls(0, pa.int64())

    def add(self, array: pa.Array) -> None:
        nulls = array.null_count
        self._nulls = self._nulls or nulls > 0
        if nulls:
            array = array.drop_null()
        if not len(array):
            return
        integers = to_integers(array)
        low, high = int(integers.min()), int(integers.max())
        self._low = low if self._low is None else min(low, self._low)
        self._high = high if self._high is None else max(high, self._high)
        if self._listed is not None and self._kind.bit_width > _SHORT_BITS:
            self._listed = pa.concat_arrays([self._listed, distinct(array)]).unique()
            if len(self._listed) > _SHORT_RANGE:
                self._listed = None

    def domain(self) -> Domain:
        if self._low is None or self._high is None:
            return Listing(self._kind, pa.nulls(0, pa.int64()), self._nulls)
        if self._high - self._low >= _SHORT_RANGE and self._listed is not None:
            return Listing(self._kind, in_order(self._listed), self._nulls)
        return Range(self._kind, self._low, self._high, self._nulls)


class _ListTracker:
    """Text, bytes, categories and long decimals: the distinct values, up to a limit."""

    wants_data = True

    def __init__(self, kind: pa.DataType, most_bytes: int) -> None:
        self._kind, self._most_bytes = kind, most_bytes
        self._parts: list[pa.Array] = [pa.nulls(0, listing_type(kind))]
        self._merged = self._pending = 0
        self._nulls = False
        self._too_many = False
        self._levels: pa.Array | None = None

    def add(self, array: pa.Array) -> None:
        self._nulls = self._nulls or null_count(array) > 0
        if pa.types.is_dictionary(self._kind) and self._kind.ordered:
            self._levels = array.dictionary
        if self._too_many:
            return
        part = distinct(array).cast(listing_type(self._kind))
        self._parts.append(part)
        self._pending += len(part)
        if self._pending > 2 * self._merged + 10_000:
            self._merge()

    def _merge(self) -> None:
        values = pa.chunked_array(self._parts).unique()
        self._parts, self._merged, self._pending = [values], len(values), 0
        if len(values) > _LONGEST_LIST or values.nbytes > self._most_bytes:
            self._too_many = True
            self._parts = []

    def domain(self) -> Domain | None:
        if not self._too_many:
            self._merge()
        if self._too_many:
            return None
        values = in_order(self._parts[0])
        levels = None
        if self._levels is not None:
            levels = pa.chunked_array([self._levels.drop_null(), values]).unique()
            levels = levels.filter(pc.is_in(levels, value_set=values))
        return Listing(self._kind, values, self._nulls, levels)


def _tracker(kind: pa.DataType, source: Source, name: str, most_bytes: int) -> _RangeTracker | _ListTracker:
    if not is_integer_like(kind):
        return _ListTracker(kind, most_bytes)
    told = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
    known = source.known_range(name) if told else None
    return _RangeTracker(kind, _as_integers(known, kind) if known is not None else None)


def _as_integers(known: tuple[Any, Any, int], kind: pa.DataType) -> tuple[int, int, bool] | None:
    try:
        low, high = (_as_integer(value, kind) for value in known[:2])
    except (TypeError, ValueError):
        return None
    return (low, high, known[2] > 0) if low <= high else None


def _as_integer(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    return int(value) - (2**63 if pa.types.is_uint64(kind) else 0)


def _nearly_unique(source: Source, columns: Sequence[str]) -> tuple[str, ...]:
    """Columns in which nearly every one of the first rows has a value of its own: identifiers, most likely."""
    if not columns:
        return ()
    first = next(iter(source.batches(columns, _SAMPLE)), None)
    if first is None or first.num_rows < _LEAST_SAMPLE:
        return ()
    return tuple(
        name
        for name, column in zip(columns, first.columns, strict=True)
        if len(distinct(column)) >= _NEARLY_ALL * first.num_rows
    )
