"""The sensitive column: its values, how often each occurs, and the texts by which limits know them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import AbsentCodesError, CountsError, InputError, NullsError, TooManyValuesError
from dalenius.model.problem import MOST_VALUES, ValueCounts
from dalenius.place.domains import (
    Integers,
    Listing,
    dictionary_of,
    from_integers,
    is_integer_like,
    listing_type,
    null_count,
    require_in_span,
    sort_values,
    to_integers,
)
from dalenius.tables.arrays import arrow_array, filled, numpy_array, texts

T = TypeVar("T")


@dataclass(frozen=True)
class SensitiveColumn:
    """The values by code, each with its text and its count. Nulls, if they are named, have the code `null_code`.

    They are published as the value of that name where the type has one (text always does), else as nulls.

    Records are dealt in the order of the codes. That is the order of the type, in which values are published; with
    groups of values it is another (`dealt_in`), and `published` has the place of each code in the order of the type.

    `missing` are values of the table that count as nulls, in the type of the listing. The last `apart` codes are values
    that do not apply: they have no limits, and records with them are kept apart from all others.
    """

    name: str
    listing: Listing
    texts: tuple[str, ...]
    counts: tuple[int, ...]
    null_code: int | None
    published: Integers | None = None
    missing: pa.Array | None = None
    apart: int = 0

    @property
    def applying(self) -> int:
        """How many values apply: those with the codes below it."""
        return len(self.texts) - self.apart

    @property
    def only_applying(self) -> SensitiveColumn:
        """The column as if it had no other values, for whoever looks at texts and counts alone."""
        return replace(self, texts=self.texts[: self.applying], counts=self.counts[: self.applying], apart=0)

    @property
    def value_counts(self) -> ValueCounts:
        """The counts of the values that apply by text, for policies and solvers."""
        pairs = list(zip(self.texts, self.counts, strict=True))
        return ValueCounts.of(pairs[: self.applying])

    @property
    def publishes_nulls(self) -> bool:
        """Whether nulls stay nulls in the release."""
        null_code = self.null_code
        if null_code is not None and self.published is not None:
            null_code = int(self.published[null_code])
        return null_code == len(self.listing.values)

    def dealt_in(self, order: Sequence[int], apart: int = 0) -> SensitiveColumn:
        """The same with other codes: value order[k] has the code k. The last `apart` of them do not apply."""
        if self.published is not None:
            raise ValueError("the values have an order to be dealt in")
        return replace(
            self,
            texts=tuple(self.texts[place] for place in order),
            counts=tuple(self.counts[place] for place in order),
            null_code=None if self.null_code is None else list(order).index(self.null_code),
            published=np.asarray(order, dtype=np.int64),
            apart=apart,
        )

    def as_published(self, by_code: Iterable[T]) -> list[T]:
        """What there is of each value, in the order in which values are published."""
        entries = list(by_code)
        return entries if self.published is None else [entries[code] for code in np.argsort(self.published)]

    @cached_property
    def _codes(self) -> Integers | None:
        """The code of each place in the order of the type, and behind all values that of nulls."""
        if self.published is None:
            return None
        of_values = np.argsort(self.published)[: len(self.listing.values)]
        return np.append(of_values, 0 if self.null_code is None else self.null_code)

    def encode(self, array: pa.Array) -> npt.NDArray[np.integer]:
        """The codes of an array, in the narrowest type that sorts fast."""
        codes: npt.NDArray[np.integer] = self.listing.encode(array if self.missing is None else self._with_nulls(array))
        if self._codes is not None:
            codes = self._codes.take(codes.astype(np.intp, copy=False))
        elif self.null_code is not None and self.listing.has_nulls:
            codes[codes == len(self.listing.values)] = self.null_code
        return codes.astype(np.uint16 if len(self.texts) <= 2**16 else np.int64)

    def _with_nulls(self, array: pa.Array) -> pa.Array:
        """The same with nulls in the place of values that are missing."""
        coded = dictionary_of(array)
        places = np.append(self._is_missing(coded.dictionary.cast(listing_type(self.listing.data_type))), True)
        nulls = places.take(filled(coded.indices, len(coded.dictionary)))
        return pa.DictionaryArray.from_arrays(arrow_array(filled(coded.indices, 0), nulls), coded.dictionary)

    def _is_missing(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = numpy_array(pc.is_in(values, value_set=self.missing).cast(pa.uint8())) != 0
        return found

    def refuse_absent_codes(self, missing: Sequence[str], allow_absent: bool) -> None:
        """An error if a code for what is missing is in no record, unless that is meant."""
        found = column_texts(self.missing, self.listing.data_type) if self.missing is not None else []
        absent = [code for code in missing if code not in found]
        if absent and not allow_absent:
            raise AbsentCodesError.of(absent, "missing", self.texts)

    def counts_in_order(self, values: pa.Array, counts: Integers, nulls: int) -> Integers:
        """Counts of some values, and of nulls, in the order of the codes."""
        ordered = np.zeros(len(self.texts), dtype=np.int64)
        if self.missing is not None:
            absent = self._is_missing(values)
            nulls += int(counts[absent].sum())
            values, counts = values.filter(pa.array(~absent)), counts[~absent]
        ordered[numpy_array(pc.index_in(values, value_set=self.listing.values))] = counts
        if self.published is not None:
            ordered = ordered[self.published]
        if self.null_code is not None:
            ordered[self.null_code] += nulls
        return ordered

    def decode(self, codes: npt.NDArray[np.integer]) -> pa.Array:
        """The published values at some places in the order of the type."""
        published = Listing(self.listing.data_type, self.listing.values, self.publishes_nulls)
        return published.decode(codes)


class SensitiveCounter:
    """Counts values batch by batch."""

    def __init__(self, name: str, data_type: pa.DataType) -> None:
        self.name, self._data_type = name, data_type
        self._values: list[pa.Array] = [pa.nulls(0, listing_type(data_type))]
        self._counts: list[Integers] = [np.empty(0, dtype=np.int64)]
        self._pending = 0
        self._nulls = 0

    def add(self, array: pa.Array) -> None:
        """Count a batch."""
        if not array.null_count and pa.types.is_integer(self._data_type) and self._data_type.bit_width <= 16:
            self._add_short(to_integers(array))
        else:
            self._add_any(dictionary_of(array))
        if self._pending > 2 * MOST_VALUES:
            self._merge()

    def _add_any(self, coded: pa.DictionaryArray) -> None:
        self._nulls += null_count(coded)
        indices = numpy_array(coded.indices.drop_null())
        counts = np.bincount(indices, minlength=len(coded.dictionary))
        used = np.flatnonzero(counts)
        self._values.append(coded.dictionary.take(arrow_array(used)).cast(listing_type(self._data_type)))
        self._counts.append(counts[used])
        self._pending += len(used)

    def _add_short(self, integers: npt.NDArray[np.integer]) -> None:
        """Count integers of 8 or 16 bits: there is a place for each."""
        lowest = int(np.iinfo(integers.dtype).min)
        counts = np.bincount(integers if not lowest else integers.astype(np.int64) - lowest)
        used = np.flatnonzero(counts)
        self._values.append(arrow_array(used + lowest))
        self._counts.append(counts[used])
        self._pending += len(used)

    def totals(self) -> tuple[pa.Array, Integers, int]:
        """The values so far, how often each occurred, and how many nulls there were."""
        self._merge()
        return self._values[0], self._counts[0], self._nulls

    def add_totals(self, values: pa.Array, counts: Integers, nulls: int) -> None:
        """Add the totals of another counter of the same column."""
        self._values.append(values)
        self._counts.append(counts)
        self._nulls += nulls
        self._pending += len(values)
        if self._pending > 2 * MOST_VALUES:
            self._merge()

    def _merge(self) -> None:
        values = pa.concat_arrays(self._values).dictionary_encode()
        counts = np.zeros(len(values.dictionary), dtype=np.int64)
        np.add.at(counts, numpy_array(values.indices), np.concatenate(self._counts))
        self._values, self._counts = [values.dictionary], [counts]
        self._pending = len(counts)
        if len(counts) > MOST_VALUES:
            raise TooManyValuesError.in_column(self.name, MOST_VALUES)

    def finish(self, null_value: str | None, missing: Sequence[str] = ()) -> SensitiveColumn:
        """The column, once every batch is counted. Values whose texts are `missing` count as nulls."""
        self._merge()
        absent = self._take_out(missing)
        values, counts = self._values[0], self._counts[0].tolist()
        if self._nulls and null_value is None:
            raise NullsError.in_column(self.name, self._nulls, self._nulls + sum(counts))
        if not counts and not self._nulls:
            raise CountsError("there are no records: the table is empty", "Dalenius needs at least one record.")
        named = self._native(null_value) if self._nulls and null_value is not None else None
        if named is not None:
            values = pa.concat_arrays([values, named])
            counts.append(self._nulls)
        return replace(self._column(values, counts, null_value if named is None else None), missing=absent)

    def _take_out(self, missing: Sequence[str]) -> pa.Array | None:
        """Count the values with these texts as nulls; which they are, if there are any."""
        if not missing:
            return None
        texts = column_texts(self._values[0], self._data_type)
        there = np.array([text in missing for text in texts], dtype=np.bool_)
        absent = self._values[0].filter(pa.array(there))
        self._nulls += int(self._counts[0][there].sum())
        self._values, self._counts = [self._values[0].filter(pa.array(~there))], [self._counts[0][~there]]
        return absent if len(absent) else None

    def _column(self, values: pa.Array, counts: list[int], null_text: str | None) -> SensitiveColumn:
        ordered = sort_values(values.unique())
        places = pc.index_in(values, value_set=ordered).to_pylist()
        totals = [0] * len(ordered)
        for place, count in zip(places, counts, strict=True):
            totals[place] += count
        if is_integer_like(self._data_type) and len(ordered):
            first, last = numpy_array(ordered)[[0, -1]].tolist()
            require_in_span(self.name, self._data_type, first, last)
        names = [str(text) for text in column_texts(ordered, self._data_type)]
        null_code = int(places[-1]) if self._nulls and null_text is None else None
        if self._nulls and null_text is not None:
            null_code = len(ordered)
            names.append(null_text)
            totals.append(self._nulls)
        if len(set(names)) < len(names):
            raise InputError(
                f"different values of the sensitive column {self.name!r} have the same text ({self._data_type})",
                "Turn the column into text first, or give nulls another name.",
            )
        listing = Listing(self._data_type, ordered, self._nulls > 0)
        return SensitiveColumn(
            name=self.name, listing=listing, texts=tuple(names), counts=tuple(totals), null_code=null_code
        )

    def _native(self, text: str) -> pa.Array | None:
        """The value of the column's type that has this text, if there is one."""
        data_type = self._data_type.value_type if pa.types.is_dictionary(self._data_type) else self._data_type
        try:
            native = pa.array([text]).cast(data_type)
            if texts(native) != [text]:
                return None
        except (pa.ArrowException, InputError):
            return None
        return dictionary_of(native).dictionary if is_integer_like(self._data_type) else native


def column_texts(values: pa.Array, data_type: pa.DataType) -> list[str | None]:
    """The texts of values of a column of this type, given as a listing has them."""
    return texts(from_integers(numpy_array(values), data_type) if is_integer_like(data_type) else values)
