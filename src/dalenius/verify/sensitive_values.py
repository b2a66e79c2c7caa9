"""Sensitive values as small integers: their places in a list of texts, whatever the column's type."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import TooManyValuesError
from dalenius.model.memory import ReadingMemory
from dalenius.model.problem import MOST_VALUES
from dalenius.release.two_tables import is_text
from dalenius.tables.arrays import texts
from dalenius.verify.buckets import Codes, Integers
from dalenius.verify.row_order import as_arrow, as_text, falls, integers, is_bytes

_VALUE_BYTES = 128  # for each value, besides its text
_COPIES = 4  # of a text: in Arrow's array, as Python has it, and while they grow
_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class ValueCodes:
    """Gives every row the place of its value in `known`; values that are not in it get places after its end.

    A null counts under the name of nulls, and without one as a value of its own, called None.
    """

    def __init__(
        self, column: str, known: Sequence[str], null_value: str | None, memory: ReadingMemory | None = None
    ) -> None:
        self._column, self._memory = column, memory
        self._bytes = 0  # of the different values met
        self.texts: list[str | None] = list(known)
        self.listed = len(self.texts)
        self.nulls = 0
        self._places: dict[str | None, int] = {text: place for place, text in enumerate(known)}
        self._null_value = null_value
        self._seen: pa.Array | None = None  # the different values met, by which they are looked up ...
        self._natives: list[pa.Array] = []  # ... in the column's own type ...
        self._codes: Codes = np.empty(0, np.int32)  # ... and their places
        self._last: tuple[pa.Array, Codes] | None = None
        self._counts: Integers = np.zeros(self.listed, np.int64)

    def of(self, column: pa.Array) -> Codes:
        """The places of a batch's values."""
        encoded = _encode(column)
        indices, entries = encoded.indices, encoded.dictionary
        codes = self._of_entries(entries, column.type)
        if indices.null_count:
            self.nulls += indices.null_count
            codes = np.append(codes, np.int32(self._place(self._null_value)))
        rows = integers(indices, len(entries))
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(codes):
            raise ValueError("indices that point nowhere")  # a damaged file, as whoever reads batches takes it
        self._counts = np.append(self._counts, np.zeros(len(self.texts) - len(self._counts), np.int64))
        np.add.at(self._counts, codes, np.bincount(rows, minlength=len(codes)))
        return codes.take(rows)

    @property
    def counts(self) -> list[tuple[str | None, int]]:
        """Every value that occurs, and how often."""
        return [(text, int(count)) for text, count in zip(self.texts, self._counts, strict=True) if count]

    @property
    def unused(self) -> int:
        """How many texts are spelled out in the file, in a dictionary, though no row has them."""
        if not self._natives or not is_text(self._natives[0].type):
            return 0
        spelled_out = np.zeros(len(self._counts), np.bool_)  # np.unique would load numpy's masked arrays
        spelled_out[self._codes] = True
        return int(np.count_nonzero(spelled_out & (self._counts == 0)))

    def in_order(self) -> bool:
        """Whether the texts that were listed are in the order of the column's type."""
        listed = np.flatnonzero(self._codes < self.listed)
        if not len(listed):
            return True
        order = listed[np.argsort(self._codes[listed], kind="stable")]
        return falls([pa.concat_arrays(self._natives).take(as_arrow(order))]) == 0

    def _of_entries(self, entries: pa.Array, data_type: pa.DataType) -> Codes:
        """The place of each entry of a batch's dictionary."""
        if self._last is not None and self._last[0].equals(entries):
            return self._last[1]
        if self._seen is None:
            self._seen = entries.slice(0, 0)
            self._foresee(data_type)
        met = np.array(integers(pc.index_in(entries, value_set=self._seen), -1))
        fresh = np.flatnonzero(met < 0)
        if len(fresh):
            met[fresh] = len(self._codes) + np.arange(len(fresh))
            self._meet(entries.take(as_arrow(fresh)), data_type)
        codes: Codes = self._codes[met]
        self._last = (entries, codes)
        return codes

    def _foresee(self, data_type: pa.DataType) -> None:
        """Look up the listed values together: asking the engine anew for each batch that brings some takes long."""
        if pa.types.is_dictionary(data_type) or is_bytes(data_type):  # the text of bytes is not what they spell
            return
        listed = [text for text in self.texts if text is not None and text != self._null_value]
        with suppress(pa.ArrowException):  # not all of them are of the type, and then they come as they come
            self._meet(_encode(as_text(listed).cast(data_type)).dictionary, data_type)

    def _meet(self, entries: pa.Array, data_type: pa.DataType) -> None:
        data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        viewed = entries.type != data_type and pa.types.is_integer(entries.type)
        natives = entries.view(data_type) if viewed else entries
        self._bytes += int(natives.nbytes) + _VALUE_BYTES * len(natives)
        if self._memory is not None:
            self._memory.require(_COPIES * self._bytes, self._memory.state, f"the different values of {self._column!r}")
        names = natives.to_pylist() if is_text(natives.type) else texts(natives)
        new = [self._place(self._null_value if name is None else name) for name in names]
        self._codes = np.append(self._codes, np.array(new, np.int32))
        self._natives.append(natives)
        self._seen = pa.concat_arrays([self._seen, entries])

    def _place(self, text: str | None) -> int:
        if text not in self._places:
            if len(self.texts) > max(MOST_VALUES, self.listed):
                raise TooManyValuesError.in_column(self._column, MOST_VALUES)
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]


def _encode(column: pa.Array) -> pa.DictionaryArray:
    """The column as a dictionary of entries that Arrow can look up: floating point by its bits, so -0.0 is not 0.0."""
    if pa.types.is_dictionary(column.type):
        entries = _can_be_looked_up(column.dictionary)
        return column if entries is column.dictionary else pa.DictionaryArray.from_arrays(column.indices, entries)
    return _can_be_looked_up(column).dictionary_encode()


def _can_be_looked_up(values: pa.Array) -> pa.Array:
    data_type = values.type
    if pa.types.is_floating(data_type) or pa.types.is_decimal32(data_type) or pa.types.is_decimal64(data_type):
        return values.view(_INTEGERS[data_type.bit_width])
    if pa.types.is_string_view(data_type) or pa.types.is_null(data_type):
        return values.cast(pa.large_string())
    return values
