"""A sensitive column of numbers, which counts by bands: 41,250 is one of "25000 to below 50000".

Limits are on bands, so bands are what is counted, solved for and dealt. The numbers themselves are published as they
are: each record takes its own along, and ST is made of these, bucket by bucket and in ascending order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import CountsError, InputError, NullsError
from dalenius.place.columns import RangeTracker
from dalenius.place.domains import Domain, Integers, Listing, changed_table_error, to_integers
from dalenius.place.sensitive import SensitiveColumn
from dalenius.tables.arrays import null_mask


@dataclass(frozen=True)
class BandSpec:
    """The type of the numbers, the exact cuts between bands, in ascending order, and the names of the bands."""

    data_type: pa.DataType
    cuts: tuple[Fraction, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BandedColumn(SensitiveColumn):
    """The bands that have records, in ascending order, as values. `listing` is empty, but for the type of the numbers.

    `thresholds` are the cuts as integers of the type, `code_of_band` has the code of every band, -1 if it has no
    records, and `numbers` is the domain of the numbers.
    """

    bands: BandSpec
    thresholds: Integers
    code_of_band: Integers
    numbers: Domain

    @property
    def publishes_nulls(self) -> bool:
        """Nulls stay nulls: their name is no number."""
        return self.null_code is not None

    def encode(self, array: pa.Array) -> npt.NDArray[np.integer]:
        """The codes of the bands of an array of numbers."""
        codes = self.code_of_band.take(np.searchsorted(self.thresholds, to_integers(array), side="right"))
        nulls = null_mask(array)
        if nulls is not None:
            codes[nulls] = -1 if self.null_code is None else self.null_code
        if codes.size and int(codes.min()) < 0:
            raise changed_table_error()
        return codes.astype(np.uint16)

    def decode(self, codes: npt.NDArray[np.integer]) -> pa.Array:
        """Bands are not published."""
        raise NotImplementedError(f"{len(codes)} bands are no numbers")


class BandCounter:
    """Counts the numbers of each band, batch by batch."""

    def __init__(self, name: str, bands: BandSpec) -> None:
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
        bands = np.searchsorted(self._thresholds, to_integers(numbers), side="right")
        self._counts += np.bincount(bands, minlength=len(self._counts))

    def finish(self, null_value: str | None, missing: Sequence[str] = ()) -> BandedColumn:
        """The column, once every batch is counted."""
        if missing:
            raise InputError("numbers in bands have no codes for what is missing", "Make nulls of them first.")
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
        )


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
        return None if least > ends.max else int(to_integers(pa.array([least], data_type))[0])
    kind: Any = data_type.to_pandas_dtype()
    near = kind(float(cut))
    if Fraction(str(near)) < cut:
        near = np.nextafter(near, kind(np.inf))
    return int(to_integers(pa.array([near], data_type))[0])


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type can be in bands."""
    t = pa.types
    narrow = t.is_decimal(data_type) and data_type.precision <= 18 and data_type.bit_width <= 128
    return bool(t.is_integer(data_type) or t.is_floating(data_type) or narrow)
