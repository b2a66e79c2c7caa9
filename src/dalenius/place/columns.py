"""What a column holds, learned batch by batch, and the type that it is published with.

A tracker learns the range of a column, or the list of its values as long as that is short.

Columns are published with the types of the source, except for a few that say too much or too little. Categories lose
the order of their levels, which may be that in which they first occur in the table; categories of anything but text are
published as what they stand for. Numbers of 16 bits and decimals of other widths than 128 bits become wider ones, since
not all readers know them. Columns of text files, which have no types, become numbers, dates or truth values
where that loses nothing: if every text is exactly what the typed value is written as. 007, 1e3, +5 or 7.50 beside 7.5
keep a column text. So what was put in can always be read back, letter by letter.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import InputError
from dalenius.place.domains import (
    Domain,
    Listing,
    Range,
    changed_table_error,
    distinct_values,
    is_integer_like,
    listing_type,
    null_count,
    sort_values,
    span_of,
    to_integers,
)
from dalenius.tables.arrays import MOST_DIGITS, numpy_array
from dalenius.tables.arrow import Source

_SHORT_BITS = 16
_SHORT_RANGE = 2**_SHORT_BITS  # up to here a range costs no more bits than it is worth looking for gaps in it
_LONGEST_LIST = 2**20
_EPOCH = date(1970, 1, 1).toordinal()
_DIGITS = 18  # decimals of more do not fit into 64 bits


class RangeTracker:
    """Integer-like values: their range, and as long as it is long and they are few, the values."""

    def __init__(self, data_type: pa.DataType, known: tuple[int, int, bool] | None = None) -> None:
        self._data_type = data_type
        self._low: int | None = None if known is None else known[0]
        self._high: int | None = None if known is None else known[1]
        self.has_nulls = known is not None and known[2]
        self.needs_data = known is None or known[1] - known[0] >= _SHORT_RANGE
        self._list_of_values: pa.Array | None = pa.nulls(0, pa.int64())

    def add(self, array: pa.Array) -> None:
        """The next batch."""
        if array.null_count:
            self.has_nulls = True
            array = array.drop_null()
        if not len(array):
            return
        integers = to_integers(array)
        low, high = int(integers.min()), int(integers.max())
        self._low = low if self._low is None else min(low, self._low)
        self._high = high if self._high is None else max(high, self._high)
        if self._list_of_values is not None and self._data_type.bit_width > _SHORT_BITS:
            self._list(distinct_values(array))

    def _list(self, values: pa.Array) -> None:
        listed = pa.concat_arrays([self._list_of_values, values]).unique()
        self._list_of_values = listed if len(listed) <= _SHORT_RANGE else None

    def merge(self, other: RangeTracker) -> None:
        """Add what another tracker of the same column has seen."""
        self.has_nulls = self.has_nulls or other.has_nulls
        if other._low is None or other._high is None:
            return
        self._low = other._low if self._low is None else min(other._low, self._low)
        self._high = other._high if self._high is None else max(other._high, self._high)
        if self._list_of_values is None or other._list_of_values is None:
            self._list_of_values = None
        else:
            self._list(other._list_of_values)

    def bytes(self, rows: int) -> int:
        """The bytes of so many values."""
        return rows * -(-int(self._data_type.bit_width) // 8)

    def domain(self) -> Domain:
        """The domain of the column."""
        if self._low is None or self._high is None:
            return Listing(self._data_type, pa.nulls(0, pa.int64()), self.has_nulls)
        if self._high - self._low >= _SHORT_RANGE and self._list_of_values is not None:
            return Listing(self._data_type, sort_values(self._list_of_values), self.has_nulls)
        return Range(data_type=self._data_type, low=self._low, high=self._high, has_nulls=self.has_nulls)


class ListTracker:
    """Text, bytes, categories and long decimals: the distinct values, up to a limit, and how long they are together."""

    needs_data = True

    def __init__(self, data_type: pa.DataType, most_bytes: int) -> None:
        self._data_type, self._most_bytes = data_type, most_bytes
        self._parts: list[pa.Array] = [pa.nulls(0, listing_type(data_type))]
        self._merged_values = self._pending = self._pending_bytes = 0
        self._bytes = 0
        self.has_nulls = False
        self._too_many = False

    def add(self, array: pa.Array) -> None:
        """The next batch."""
        self.has_nulls = self.has_nulls or null_count(array) > 0
        self._bytes += _length(array)
        if self._too_many:
            return
        part = distinct_values(array).cast(listing_type(self._data_type))
        self._parts.append(part)
        self._pending += len(part)
        self._pending_bytes += part.nbytes
        if self._pending > 2 * self._merged_values + 10_000 or self._pending_bytes > self._most_bytes:
            self._merge()

    def merge(self, other: ListTracker) -> None:
        """Add what another tracker of the same column has seen."""
        self.has_nulls = self.has_nulls or other.has_nulls
        self._bytes += other._bytes
        self._too_many = self._too_many or other._too_many
        self._parts = [] if self._too_many else [*self._parts, *other._parts]
        if not self._too_many:
            self._merge()

    def _merge(self) -> None:
        values = pa.chunked_array(self._parts).unique()
        self._parts, self._merged_values, self._pending, self._pending_bytes = [values], len(values), 0, 0
        if len(values) > _LONGEST_LIST or values.nbytes > self._most_bytes:
            self._too_many = True
            self._parts = []

    def bytes(self, rows: int) -> int:
        """The bytes of all values together."""
        return self._bytes + 8 * rows

    def domain(self) -> Domain | None:
        """The domain of the column; None if its values are too many for a list."""
        if not self._too_many:
            self._merge()
        return None if self._too_many else Listing(self._data_type, sort_values(self._parts[0]), self.has_nulls)


Tracker = RangeTracker | ListTracker


def tracker_of(field: pa.Field, source: Source, most_bytes: int) -> Tracker:
    """A tracker for a column of the source, with the range that the source knows by itself."""
    data_type = field.type
    if not is_integer_like(data_type):
        return ListTracker(data_type, most_bytes)
    same = source.schema([field.name]).field(0).type == data_type
    tracked = pa.types.is_integer(data_type) or pa.types.is_boolean(data_type) or pa.types.is_date32(data_type)
    known = source.known_range(field.name) if tracked and same else None
    return RangeTracker(data_type, _as_integers(known, data_type) if known is not None else None)


def published_field(field: pa.Field) -> pa.Field:
    """A column with the type that it is published with; an error if it does not hold single values."""
    data_type = _plain_type(field.type)
    t = pa.types
    if t.is_dictionary(data_type):
        value = _plain_type(data_type.value_type)
        data_type = pa.dictionary(data_type.index_type, value) if _is_bytes(value) else value
    inner = data_type.value_type if t.is_dictionary(data_type) else data_type
    if t.is_duration(inner) or (t.is_decimal(inner) and not _is_common_decimal(inner)):
        raise InputError(
            f"the column {field.name!r} has the type {field.type}, which not every reader of a release knows",
            f"Turn it into a number first, of at most {MOST_DIGITS} digits, or into text.",
        )
    if not (_is_bytes(inner) or t.is_null(inner) or t.is_decimal(inner) or is_integer_like(inner)):
        raise InputError(
            f"the column {field.name!r} has the type {field.type}, and only single values can be published",
            "Unnest it, turn it into text, or leave it out.",
        )
    return field.with_type(data_type)


def lossless_type(values: pa.Array) -> pa.DataType:
    """The type in which texts can be kept without loss: text itself if no other will do."""
    if not len(values):
        return values.type
    places = len(values[0].as_py().partition(".")[2])
    decimal = [pa.decimal128(_DIGITS, places)] if 0 < places < _DIGITS else []
    for data_type in (pa.int64(), *decimal, pa.date32(), pa.bool_()):
        try:
            typed = values.cast(data_type)
            if typed.cast(values.type).equals(values) and not _is_beyond_text(typed):
                return data_type
        except pa.ArrowException:
            continue
    return values.type


def lossless_types(schema: pa.Schema, domains: dict[str, Domain | None]) -> pa.Schema:
    """The schema with the types that text columns can have; a column whose values were not all listed stays text."""
    for place, field in enumerate(schema):
        domain = domains.get(field.name)
        if isinstance(domain, Listing) and pa.types.is_string(field.type):
            schema = schema.set(place, field.with_type(lossless_type(domain.values)))
    return schema


def cast_to_published(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """A column of the source in the type that it is published with. Text may stay coded."""
    if column.type == data_type:
        return column
    if pa.types.is_dictionary(column.type):
        inner = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        if _is_bytes(inner) and column.type.value_type == inner:
            return column
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    try:
        return plain.cast(data_type)
    except pa.ArrowException:
        if pa.types.is_date64(plain.type):
            raise InputError(
                "the table has dates (date64) with a time of day, or out of range", "Turn them into timestamps."
            ) from None
        raise changed_table_error() from None


def _length(array: pa.Array) -> int:
    """The bytes of all texts of an array, each as often as it occurs; other types count by their width."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary) if not pa.types.is_null(array.dictionary.type) else None
        if lengths is None or not len(lengths):
            return 0
        return int(numpy_array(lengths).take(numpy_array(array.indices.drop_null())).sum())
    return int(array.nbytes)


def _as_integers(known: tuple[Any, Any, int], data_type: pa.DataType) -> tuple[int, int, bool] | None:
    try:
        low, high = (_as_integer(value, data_type) for value in known[:2])
    except (TypeError, ValueError):
        return None
    return (low, high, known[2] > 0) if low <= high else None


def _as_integer(value: Any, data_type: pa.DataType) -> int:
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    return int(value) - (2**63 if pa.types.is_uint64(data_type) else 0)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    """The same without layouts and widths that some readers of a release do not know."""
    t = pa.types
    if t.is_string_view(data_type):
        return pa.large_string()
    if t.is_binary_view(data_type):
        return pa.large_binary()
    if t.is_float16(data_type):
        return pa.float32()
    if t.is_date64(data_type):
        return pa.date32()
    if t.is_decimal(data_type) and _is_common_decimal(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    return data_type


def _is_common_decimal(data_type: pa.DataType) -> bool:
    return bool(0 <= data_type.scale <= data_type.precision <= MOST_DIGITS)


def _is_beyond_text(values: pa.Array) -> bool:
    """Whether a column of dates has one that its text would not give back."""
    span = span_of(values.type, as_text=True)
    if span is None or not len(values):
        return False
    integers = to_integers(values)
    return not (span[0] <= int(integers.min()) and int(integers.max()) <= span[1])


def _is_bytes(data_type: pa.DataType) -> bool:
    t = pa.types
    text = t.is_string(data_type) or t.is_large_string(data_type)
    return bool(text or t.is_binary(data_type) or t.is_large_binary(data_type) or t.is_fixed_size_binary(data_type))
