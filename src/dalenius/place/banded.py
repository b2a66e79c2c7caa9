"""A sensitive column of numbers, which counts by bands: 41,250 is one of "25000 to below 50000".

Limits are on bands, so bands are what is counted, solved for and dealt. The numbers themselves are published as they
are: each record takes its own along, and ST is made of these, bucket by bucket and in ascending order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import AbsentCodesError, CountsError, InputError, NullsError
from dalenius.place.columns import RangeTracker, cast_to_published, published_field
from dalenius.place.domains import Domain, Integers, Listing, changed_table_error, from_integers, to_integers
from dalenius.place.sensitive import SensitiveColumn
from dalenius.tables.arrays import arrow_array, filled, null_mask, numpy_array, texts
from dalenius.tables.arrow import BATCH_ROWS, Batches, Source

_NO_CODE = 2**16 - 1
_FEW_CUTS = 16


@dataclass(frozen=True)
class NumberBands:
    """The type of the numbers, the exact cuts between bands, in ascending order, and the names of the bands.

    `notes` are what the publisher should know of them.
    """

    data_type: pa.DataType
    cuts: tuple[Fraction, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NumberSample:
    """Different numbers in ascending order, how often the sample has each, and the type that they are published with.

    They are integers, floats or, of decimals, fractions.
    """

    data_type: pa.DataType
    numbers: npt.NDArray[Any] | list[Fraction]
    counts: Integers


class SourceWithNulls:
    """A source in one column of which some texts are nulls. `found` are those that a record has had so far."""

    def __init__(self, source: Source, column: str, codes: Sequence[str]) -> None:
        self._source, self._column, self._codes = source, column, codes
        self.untyped, self.names, self.rows = source.untyped, source.names, source.rows
        self.found: set[str] = set()

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of some columns."""
        return self._source.schema(columns)

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:
        """As of the source, but for the column in question."""
        return None if column == self._column else self._source.known_range(column)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows of some columns."""
        place = list(columns).index(self._column) if self._column in columns else None
        for batch in self._source.batches(columns, rows):
            if place is None:
                yield batch
                continue
            values = with_nulls(batch.column(place), self._codes, self.found)
            arrays = [values if at == place else array for at, array in enumerate(batch.columns)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def with_nulls(values: pa.Array, codes: Sequence[str], found: set[str]) -> pa.Array:
    """The same with nulls in the place of values whose texts are codes; those that are there go into `found`."""
    if not codes:
        return values
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    named = texts(coded.dictionary)
    found |= set(codes).intersection(text for text in named if text is not None)
    absent = np.array([*(text is None or text in codes for text in named), True], dtype=np.bool_)
    nulls = absent.take(filled(coded.indices, len(named)))
    indices = arrow_array(filled(coded.indices, 0), nulls)
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary).dictionary_decode()


def sample_numbers(source: Source, column: str, sample: Sampler | None) -> NumberSample:
    """Read one column. One of text is one of whole numbers, or of floats, if all of its texts are.

    Without a sample to fill, it is only read if that is needed to know the type.
    """
    kinds = kinds_of_numbers(column, published_field(source.schema([column]).field(column)).type)
    if sample is None and len(kinds) == 1:
        return drawn_numbers(kinds[0], [])
    for batch in source.batches([column]):
        kinds = kinds_left(column, kinds, batch.column(0))
        if sample is not None:
            sample.add(batch)
    return drawn_numbers(kinds[0], [] if sample is None else [one.column(0) for one in sample.batches()])


def kinds_of_numbers(column: str, data_type: pa.DataType) -> list[pa.DataType]:
    """The types that the numbers of a column may have, the first that all of them have is theirs."""
    kinds = [pa.int64(), pa.float64()] if _is_text(data_type) else [data_type]
    if not is_number(kinds[0]):
        raise _no_numbers(column, str(data_type))
    return kinds


def kinds_left(column: str, kinds: Sequence[pa.DataType], values: pa.Array) -> list[pa.DataType]:
    """Those of some types that some values can have; an error if there are none."""
    left = [kind for kind in kinds if _can_be(values, kind)]
    if not left:
        raise _no_numbers(column, "text that is no number")
    return left


def drawn_numbers(data_type: pa.DataType, values: Sequence[pa.Array]) -> NumberSample:
    """A sample of these numbers."""
    if not values:
        return NumberSample(data_type, [], np.zeros(0, dtype=np.int64))
    drawn = [cast_to_published(one, data_type).drop_null() for one in values]
    integers = np.concatenate([np.zeros(0, dtype=np.int64), *(to_integers(one) for one in drawn)]).astype(np.int64)
    different, counts = np.unique(integers, return_counts=True)
    if pa.types.is_decimal(data_type):
        scale = Fraction(10) ** int(data_type.scale)
        return NumberSample(data_type, [Fraction(number) / scale for number in different.tolist()], counts)
    return NumberSample(data_type, numpy_array(from_integers(different, data_type)), counts)


class Sampler(Protocol):
    """What draws a sample: `survey.Sample`."""

    def add(self, batch: pa.RecordBatch) -> None:
        """The next records."""

    def batches(self) -> list[pa.RecordBatch]:
        """The records of the sample."""


def _can_be(values: pa.Array, kind: pa.DataType) -> bool:
    try:
        cast_to_published(values, kind)
    except (pa.ArrowException, InputError):
        return False
    return True


def _is_text(data_type: pa.DataType) -> bool:
    plain = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain))


def _no_numbers(column: str, found: str) -> InputError:
    return InputError(
        f"bands need numbers, and the sensitive column {column!r} has {found}",
        "Give groups of values instead; or make numbers of it, and nulls of what is no number.",
    )


@dataclass(frozen=True, kw_only=True)
class BandedColumn(SensitiveColumn):
    """The bands that have records, in ascending order, as values. `listing` is empty, but for the type of the numbers.

    `thresholds` are the cuts as integers of the type, `code_of_band` has the code of every band, -1 if it has no
    records, `numbers` is the domain of the numbers, and `found` are the codes for what is missing that some record has.
    """

    bands: NumberBands
    thresholds: Integers
    code_of_band: Integers
    numbers: Domain
    found: Collection[str] = ()

    def refuse_absent_codes(self, missing: Sequence[str], allow_absent: bool) -> None:
        """An error if a code for what is missing is in no record, unless that is meant."""
        absent = [code for code in missing if code not in self.found]
        if absent and not allow_absent:
            raise AbsentCodesError.of(absent, "missing", self.texts)

    @property
    def publishes_nulls(self) -> bool:
        """Nulls stay nulls: their name is no number."""
        return self.null_code is not None

    def encode(self, array: pa.Array) -> npt.NDArray[np.integer]:
        """The codes of the bands of an array of numbers."""
        table = np.where(self.code_of_band < 0, _NO_CODE, self.code_of_band).astype(np.uint16)
        codes = table.take(_bands_of(to_integers(array), self.thresholds))
        nulls = null_mask(array)
        if nulls is not None:
            codes[nulls] = _NO_CODE if self.null_code is None else self.null_code
        if codes.size and int(codes.max()) == _NO_CODE:
            raise changed_table_error()
        return codes

    def decode(self, codes: npt.NDArray[np.integer]) -> pa.Array:
        """Bands are not published."""
        raise NotImplementedError(f"{len(codes)} bands are no numbers")


class BandCounter:
    """Counts the numbers of each band, batch by batch."""

    def __init__(self, name: str, bands: NumberBands) -> None:
        self.name, self._data_type, self._bands = name, bands.data_type, bands
        self._thresholds = thresholds(bands.cuts, bands.data_type)
        self._counts = np.zeros(len(bands.names), dtype=np.int64)
        self._nulls = 0
        self._tracker = RangeTracker(bands.data_type)

    def add(self, array: pa.Array) -> None:
        """Count a batch."""
        self._tracker.add(array)
        self._nulls += array.null_count
        numbers = array.drop_null() if array.null_count else array
        if pa.types.is_floating(self._data_type) and np.isnan(np.asarray(numbers)).any():
            raise InputError(
                f"the sensitive column {self.name!r} has NaNs, which are in no band", "Make nulls of them."
            )
        bands = _bands_of(to_integers(numbers), self._thresholds)
        self._counts += np.bincount(bands, minlength=len(self._counts))

    def merge(self, other: BandCounter) -> None:
        """Add what another counter of the same column has counted."""
        self._counts += other._counts
        self._nulls += other._nulls
        self._tracker.merge(other._tracker)

    def counts_in_order(self, column: BandedColumn) -> Integers:
        """What was counted, in the order of the codes of the column that has all of it."""
        ordered = np.zeros(len(column.texts), dtype=np.int64)
        known = column.code_of_band >= 0
        ordered[column.code_of_band[known]] = self._counts[known]
        if column.null_code is not None:
            ordered[column.null_code] += self._nulls
        return ordered

    def finish(self, null_value: str | None, found: Collection[str] = ()) -> BandedColumn:
        """The column, once every batch is counted; `found` are codes for what is missing."""
        rows = int(self._counts.sum()) + self._nulls
        if self._nulls and null_value is None:
            raise NullsError.in_column(self.name, self._nulls, rows)
        if not rows:
            raise CountsError("there are no records: the table is empty", "Dalenius needs at least one record.")
        filled = np.flatnonzero(self._counts)
        names = [self._bands.names[band] for band in filled.tolist()]
        counts = self._counts[filled].tolist()
        if self._nulls and null_value is not None:
            if null_value in names:
                raise InputError(f"nulls cannot be called {null_value!r}, as a band is", "Give nulls another name.")
            names.append(null_value)
            counts.append(self._nulls)
        code_of_band = np.full(len(self._counts), -1, dtype=np.int64)
        code_of_band[filled] = np.arange(len(filled))
        return BandedColumn(
            name=self.name,
            listing=Listing(self._data_type, pa.nulls(0, pa.int64()), self._nulls > 0),
            texts=tuple(names),
            counts=tuple(counts),
            null_code=len(filled) if self._nulls else None,
            bands=self._bands,
            thresholds=self._thresholds,
            code_of_band=code_of_band,
            numbers=self._tracker.domain(),
            found=found,
        )


def _bands_of(integers: npt.NDArray[Any], thresholds: Integers) -> npt.NDArray[Any]:
    """How many thresholds are not above each number: few are compared one by one, which is faster than a search."""
    if len(thresholds) > _FEW_CUTS:
        return np.searchsorted(thresholds, integers, side="right")
    bands = np.zeros(len(integers), dtype=np.uint8)
    for threshold in thresholds.tolist():
        bands += integers >= threshold
    return bands


def thresholds(cuts: Sequence[Fraction], data_type: pa.DataType) -> Integers:
    """For each cut the smallest value of the type that is not below it, in the order of `to_integers`.

    A float is the decimal that it is written as. Cuts beyond the last value of the type come after all of them.
    """
    found = [_threshold(cut, data_type) for cut in cuts]
    last = int(np.iinfo(np.int64).max)
    return np.asarray([last if one is None else one for one in found], dtype=np.int64)


def _threshold(cut: Fraction, data_type: pa.DataType) -> int | None:
    if pa.types.is_decimal(data_type):
        return math.ceil(cut * Fraction(10) ** int(data_type.scale))
    if pa.types.is_integer(data_type):
        ends = np.iinfo(data_type.to_pandas_dtype())
        least = min(max(math.ceil(cut), int(ends.min)), int(ends.max) + 1)
        return None if least > ends.max else _as_integer(least, data_type)
    kind: Any = data_type.to_pandas_dtype()
    with np.errstate(over="ignore"):
        near = kind(float(cut)) if abs(cut) < 2**1023 else kind(np.inf if cut > 0 else -np.inf)
        if near == -np.inf or (near < np.inf and Fraction(str(near)) < cut):
            near = np.nextafter(near, kind(np.inf))
    near = kind(-0.0) if near == 0 else near  # both zeros are the number 0
    return _as_integer(near, data_type)


def _as_integer(number: Any, data_type: pa.DataType) -> int:
    one = np.asarray([number], dtype=data_type.to_pandas_dtype())  # pa.array([number]) would load pandas
    return int(to_integers(arrow_array(one, None, data_type))[0])


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type can be in bands."""
    t = pa.types
    narrow = t.is_decimal(data_type) and data_type.precision <= 18 and data_type.bit_width <= 128
    return bool(t.is_integer(data_type) or t.is_floating(data_type) or narrow)
