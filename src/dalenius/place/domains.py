"""The values of a column as codes 0, 1, 2, ... in the order of the values; nulls have the last code.

A `Range` codes integer-like types by their distance from the smallest value, without a list. A `Listing` has the sorted
distinct values themselves. Both give back exactly what was put in.

Integer-like types are those of fixed width, of at most 64 bits: numbers, dates, times and booleans. `to_integers` makes
integers of them whose order is the order of the values, and `from_integers` goes back, without loss: floating point by
its bits (-0.0 before 0.0, and NaN, of which there is one, after everything), unsigned 64-bit numbers shifted by 2^63.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import ChangedInputError, InputError, OutputError
from dalenius.tables.arrays import arrow_array, filled, null_mask, numpy_array

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

_TOP = np.uint64(2**63)
_FLOATS: dict[int, tuple[Any, Any]] = {
    16: (np.int16, np.float16),
    32: (np.int32, np.float32),
    64: (np.int64, np.float64),
}
_WRAP = 2**64
_LONGEST_TABLE = 2**16
_DAY = 86_400  # seconds


@dataclass(frozen=True)
class Range:
    """Integer-like values from `low` to `high`."""

    data_type: pa.DataType
    low: int
    high: int
    has_nulls: bool

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return self.high - self.low + 1 + self.has_nulls

    def add_codes(self, array: pa.Array, total: npt.NDArray[Any]) -> int:
        """Add the codes of an array, and a constant, to `total`, modulo its width; the constant is returned.

        Leaving it to the caller to subtract all constants at once saves a pass over the data for each column.
        """
        integers = to_integers(array)
        nulls = null_mask(array)
        if nulls is not None and not self.has_nulls:
            raise changed_table_error()
        known = integers if nulls is None else integers[~nulls]
        if known.size and not (self.low <= int(known.min()) and int(known.max()) <= self.high):
            raise changed_table_error()
        if nulls is not None:
            integers = integers.astype(np.int64)
            integers[nulls] = (self.high + 1 + 2**63) % _WRAP - 2**63  # modulo 2^64, as all codes are
        np.add(total, integers, out=total, dtype=total.dtype, casting="unsafe")
        return self.low

    def decode(self, codes: npt.NDArray[np.integer]) -> pa.Array:
        """The array whose codes these are."""
        nulls = codes == self.codes - 1 if self.has_nulls else None
        if pa.types.is_integer(self.data_type) and not pa.types.is_uint64(self.data_type):
            own = codes.astype(self.data_type.to_pandas_dtype())  # modulo its width, in which the sum is exact
            own += np.asarray(self.low % _WRAP, dtype=np.uint64).astype(own.dtype)
            return arrow_array(own, nulls, self.data_type)
        integers = codes.astype(np.uint64)
        integers += np.uint64(self.low % _WRAP)
        return from_integers(integers.view(np.int64), self.data_type, nulls)


@dataclass(frozen=True)
class Listing:
    """Distinct values in their order. For integer-like types `values` are their integers."""

    data_type: pa.DataType
    values: pa.Array
    has_nulls: bool

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return len(self.values) + self.has_nulls

    def add_codes(self, array: pa.Array, total: npt.NDArray[Any]) -> int:
        """Add the codes of an array to `total`; the constant to be subtracted, as in `Range.add_codes`, is 0."""
        np.add(total, self.encode(array), out=total, dtype=total.dtype, casting="unsafe")
        return 0

    def encode(self, array: pa.Array) -> Codes:
        """The codes of an array; an error for a value that is not listed."""
        if self._table is not None and not array.null_count and not pa.types.is_dictionary(array.type):
            return self._codes_by_table(to_integers(array), *self._table)
        coded = dictionary_of(array)
        places = pc.index_in(coded.dictionary.cast(self.values.type), value_set=self.values)
        table = np.full(len(places) + 1, len(self.values), dtype=np.uint64)
        table[: len(places)] = filled(places, len(self.values))
        codes: Codes = table.take(filled(coded.indices, len(places)))
        known = len(self.values) if not self.has_nulls else None
        if codes.size and known is not None and int(codes.max()) >= known:
            raise changed_table_error()
        if self.has_nulls and places.null_count:
            missing = codes == len(self.values)
            if int(missing.sum()) != coded.null_count:
                raise changed_table_error()
        return codes

    @cached_property
    def _table(self) -> tuple[int, Codes] | None:
        """Integers that are near each other: the smallest, and the code of every integer from there on."""
        if not is_integer_like(self.data_type) or not len(self.values):
            return None
        integers = numpy_array(self.values)
        low, high = int(integers[0]), int(integers[-1])
        if high - low >= _LONGEST_TABLE:
            return None
        table = np.full(high - low + 1, len(self.values), dtype=np.uint64)
        table[integers - low] = np.arange(len(self.values))
        return low, table

    def _codes_by_table(self, integers: npt.NDArray[Any], low: int, table: Codes) -> Codes:
        if not integers.size:
            return np.empty(0, dtype=np.uint64)
        if not (low <= int(integers.min()) and int(integers.max()) < low + len(table)):
            raise changed_table_error()
        codes: Codes = table.take(integers if not low else integers.astype(np.int64) - low)
        if int(codes.max()) == len(self.values):
            raise changed_table_error()
        return codes

    def decode(self, codes: npt.NDArray[np.integer]) -> pa.Array:
        """The array whose codes these are; text comes as a dictionary in the order of the values."""
        if pa.types.is_null(self.data_type):
            return pa.nulls(len(codes))
        nulls = codes == len(self.values) if self.has_nulls else None
        if self.values.type == pa.int64() and is_integer_like(self.data_type):
            integers = np.append(numpy_array(self.values), 0)
            if pa.types.is_integer(self.data_type):  # look up in the narrow type, rather than turn the result into it
                own = numpy_array(from_integers(integers, self.data_type))
                return arrow_array(own.take(codes), nulls, self.data_type)
            return from_integers(integers.take(codes), self.data_type, nulls)
        indices = codes.astype(np.int16 if self.codes < 2**15 else np.int32)
        return pa.DictionaryArray.from_arrays(arrow_array(indices, nulls), self.values)


Domain = Range | Listing


def codes_of(domain: Domain, array: pa.Array) -> Codes:
    """The codes of an array; an error for a value that the domain does not have."""
    codes = np.zeros(len(array), dtype=np.uint64)
    codes -= np.uint64(domain.add_codes(array, codes) % _WRAP)
    return codes


def dictionary_of(array: pa.Array) -> pa.DictionaryArray:
    """An array as indices into its distinct values; integer-like types by their integers."""
    if pa.types.is_dictionary(array.type):
        return array if not array.dictionary.null_count else array.cast(array.type.value_type).dictionary_encode()
    if is_integer_like(array.type):
        integers = arrow_array(to_integers(array).astype(np.int64), null_mask(array))
        return integers.dictionary_encode()
    return array.dictionary_encode()


def distinct_values(array: pa.Array) -> pa.Array:
    """The distinct values that occur in an array, nulls aside; integer-like types as their integers."""
    if pa.types.is_dictionary(array.type):
        array = dictionary_of(array)
        used = np.flatnonzero(np.bincount(numpy_array(array.indices.drop_null())))
        return array.dictionary.take(arrow_array(used)).unique()
    return dictionary_of(array).dictionary


def sort_values(values: pa.Array) -> pa.Array:
    """Distinct values in their order."""
    return values.take(pc.sort_indices(values)) if len(values) else values


def listing_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values in a listing of a column of this type."""
    if pa.types.is_dictionary(data_type):
        return data_type.value_type
    return pa.int64() if is_integer_like(data_type) else data_type


def null_count(array: pa.Array) -> int:
    """How many entries are null, categories that are null themselves included."""
    if pa.types.is_dictionary(array.type):
        return int(dictionary_of(array).null_count)
    return int(array.null_count)


def changed_table_error() -> ChangedInputError:
    """The second reading met something that the first had not."""
    return ChangedInputError("the table changed between its readings", "Run again when nothing writes to it.")


def is_integer_like(data_type: pa.DataType) -> bool:
    """Whether the values of a type are integers of at most 64 bits in disguise."""
    t = pa.types
    if t.is_decimal(data_type):
        return bool(data_type.precision <= 18 and data_type.bit_width <= 128)
    return bool(
        t.is_boolean(data_type)
        or t.is_integer(data_type)
        or t.is_floating(data_type)
        or (t.is_temporal(data_type) and not _is_interval(data_type))
    )


def span_of(data_type: pa.DataType, as_text: bool = False) -> tuple[int, int] | None:
    """The first and the last integer of a type of dates or times that every reader of a release can show.

    Beyond are times of day that are none, infinities, and what overflows in one resolution or another. `as_text` is for
    CSV files, which have the years 1 to 9999. Other types have no such bounds.
    """
    t = pa.types
    if t.is_date32(data_type):
        return (-719_162, 2_932_896) if as_text else (2 - 2**31, 2**31 - 2)
    if not (t.is_time(data_type) or t.is_timestamp(data_type)):
        return None
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[data_type.unit]
    if t.is_time(data_type):
        first, end = 0, _DAY
    elif data_type.unit == "ns":
        first, end = -106_751 * _DAY, 9_223_372_036
    else:
        first, end = -106_751_991 * _DAY, 9_223_372_036_854
    if as_text and t.is_timestamp(data_type):
        first, end = max(first, -719_162 * _DAY), min(end, 2_932_897 * _DAY)
    return first * ticks, end * ticks - 1


def require_in_span(name: str, data_type: pa.DataType, low: int, high: int, as_text: bool = False) -> None:
    """Refuse dates and times, from `low` to `high` as integers, that a reader of a release could not show."""
    span = span_of(data_type, as_text)
    if span is None or (span[0] <= low and high <= span[1]):
        return
    if as_text:
        raise OutputError(
            f"the column {name!r} has dates outside of the years 1 to 9999, which a CSV file cannot carry",
            "Publish as Parquet, or turn dates that are none into nulls.",
        )
    raise InputError(
        f"the column {name!r} ({data_type}) has dates or times that are out of range",
        "Turn values that are no dates or times into nulls, or the column into text.",
    )


def to_integers(array: pa.Array) -> npt.NDArray[Any]:
    """The values as integers of some width, in the order of the values; what stands where a null is means nothing."""
    data_type, count = array.type, len(array)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    if pa.types.is_boolean(data_type):
        array = array.cast(pa.uint8())
        data_type = array.type
    data = array.buffers()[1]
    if data is None:
        return np.zeros(count, dtype=np.int64)
    if pa.types.is_decimal(data_type) and data_type.bit_width == 128:
        return np.frombuffer(data, dtype="<i8")[2 * array.offset : 2 * (array.offset + count) : 2]
    raw = np.frombuffer(data, dtype=_raw_type(data_type))[array.offset : array.offset + count]
    if pa.types.is_floating(data_type):
        return _float_order(raw, data_type.bit_width)
    if pa.types.is_uint64(data_type):
        return (raw ^ _TOP).view(np.int64)
    return raw


def from_integers(integers: Integers, data_type: pa.DataType, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The array whose integers these are, with nulls where `nulls` says."""
    if pa.types.is_boolean(data_type):
        return arrow_array(integers.astype(np.uint8), nulls).cast(data_type)
    if pa.types.is_decimal(data_type) and data_type.bit_width == 128:
        raw = np.stack((integers, integers >> 63), axis=1)
    elif pa.types.is_floating(data_type):
        raw = _float_bits(integers, data_type.bit_width)
    elif pa.types.is_uint64(data_type):
        raw = integers.view(np.uint64) ^ _TOP
    else:
        raw = integers.astype(_raw_type(data_type), copy=False)
    return arrow_array(raw, nulls, data_type)


def _is_interval(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_interval(data_type))


def _raw_type(data_type: pa.DataType) -> np.dtype[Any]:
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    return np.dtype(f"<{sign}{data_type.bit_width // 8}")


def _float_order(raw: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    integer, real = _FLOATS[width]
    canonical = raw.copy()
    canonical[np.isnan(raw.view(real))] = np.asarray(np.nan, dtype=real).view(integer)
    return np.where(canonical < 0, canonical ^ np.iinfo(integer).max, canonical)


def _float_bits(integers: Integers, width: int) -> npt.NDArray[Any]:
    integer, _ = _FLOATS[width]
    narrow = integers.astype(integer)
    return np.where(narrow < 0, narrow ^ np.iinfo(integer).max, narrow)
