"""The values at which a column is cut, read from their texts, and where the values of the column stand among them.

What a text stands for must be beyond doubt (docs/release-format.md): integers without zeros in front, `true` and
`false`, dates and times written in one way. Arrow reads the rest. Its readers of dates stop at the year 9999 and it has
none for times of day, so those are read here: as integers, counted in the days or units of the type.

For cuts t_0 < t_1 < ... < t_(k-1), in the order of the column's type, the rank of a value is the number of cuts that
are below it: a value is at most t_i iff its rank is at most i. Nulls and NaN are at most nothing: their rank is k. So
every question to the column is one to a small integer, whatever the type (`Ranks`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.two_tables import text_can_carry
from dalenius.verify.row_order import AnyIntegers, as_arrow, as_text, integers, is_bytes, nulls, order_keys, simple

_DATE = r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?"
_PATTERNS = {"date": _DATE, "time": _TIME, "timestamp": f"{_DATE} {_TIME}", "zoned": rf"{_DATE} {_TIME}\+00"}
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = 719_162  # days from 0001-01-01 to 1970-01-01
_DENSE = 4  # a table of ranks by value is made where there are so many rows to a value that it spans
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class UnreadableError(ValueError):
    """A text that is no value of the type, or none at which a column can be cut."""


def threshold(text: str, data_type: pa.DataType) -> pa.Array:
    """The value, as an array of one."""
    data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    try:
        return _read(text, data_type)
    except (pa.ArrowException, ValueError, OverflowError):  # an encoding error is a ValueError, too
        raise UnreadableError from None


def can_be_cut(data_type: pa.DataType) -> bool:
    """Whether values of the type have a text by which they are known exactly."""
    data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return bool(pa.types.is_time(data_type) or (text_can_carry(data_type) and not pa.types.is_date64(data_type)))


def _read(text: str, data_type: pa.DataType) -> pa.Array:
    text.encode()  # half a pair of surrogates is no text
    if pa.types.is_integer(data_type) and str(int(text)) != text:
        raise UnreadableError
    if pa.types.is_boolean(data_type) and text not in ("true", "false"):
        raise UnreadableError
    if pa.types.is_date32(data_type):
        return _of_integer(_days(_parts(text, "date")), data_type)
    if pa.types.is_time(data_type):
        return _of_integer(_of_day(_parts(text, "time"), data_type.unit), data_type)
    if pa.types.is_timestamp(data_type):
        parts = _parts(text, "zoned" if data_type.tz is not None else "timestamp")
        return _of_integer(_days(parts) * 86_400 * _UNITS[data_type.unit] + _of_day(parts, data_type.unit), data_type)
    array = as_text([text]).cast(data_type)
    if pa.types.is_floating(data_type):
        number = float(array[0].as_py())
        if math.isnan(number) or (math.isinf(number) and text not in ("inf", "-inf")):
            raise UnreadableError
    return array


def _parts(text: str, name: str) -> dict[str, str]:
    match = re.fullmatch(_PATTERNS[name], text, re.ASCII)
    if match is None:
        raise UnreadableError
    return match.groupdict()


def _days(parts: dict[str, str]) -> int:
    """Days since 1970, of a Gregorian calendar without end in either direction; 1 BC is the year 0."""
    year, month, day = int(parts["year"]), int(parts["month"]), int(parts["day"])
    year = 1 - year if parts["bc"] else year
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        raise UnreadableError
    before = year - 1
    whole_years = before * 365 + before // 4 - before // 100 + before // 400
    return whole_years + sum(_DAYS[: month - 1]) + (leap and month > 2) + day - 1 - _EPOCH


def _of_day(parts: dict[str, str], unit: str) -> int:
    """Units since midnight."""
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(parts["second"])
    nanoseconds = int((parts["fraction"] or "0").ljust(9, "0"))
    number, rest = divmod(nanoseconds * _UNITS[unit], 10**9)
    if hour > 24 or minute > 59 or second > 59 or rest:
        raise UnreadableError
    return (hour * 3600 + minute * 60 + second) * _UNITS[unit] + number


def _of_integer(number: int, data_type: pa.DataType) -> pa.Array:
    plain = np.array([number], np.int32 if data_type.bit_width == 32 else np.int64)
    return pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(plain)])


class Ranks:
    """The ranks of a column's values, batch by batch. `places` are the ranks of the cuts themselves."""

    def __init__(self, data_type: pa.DataType, texts: Sequence[str]) -> None:
        cuts = pa.concat_arrays([threshold(text, data_type) for text in texts])
        self._texts = is_bytes(cuts.type)
        if self._texts:
            cuts = cuts.cast(pa.large_string())
        keys = [integers(pc.rank(cuts, tiebreaker="dense"))] if self._texts else list(order_keys(cuts))
        order = np.lexsort(keys[::-1])
        firsts = np.append(True, np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0))
        ordered = cuts.take(as_arrow(order))
        self._cuts = ordered.take(as_arrow(np.flatnonzero(firsts)))
        self.places = np.empty(len(texts), np.int64)
        self.places[order] = np.cumsum(firsts) - 1
        self._dtype = np.min_scalar_type(len(self._cuts))
        self._keys = [] if self._texts else list(order_keys(self._cuts))
        self._last: tuple[pa.Array, AnyIntegers] | None = None
        self._table: AnyIntegers | None = None
        self.unseen: pa.Array | None = self._cuts if self._texts else None  # texts of cuts that no row had so far

    def __len__(self) -> int:
        return len(self._cuts)

    def of(self, column: pa.Array) -> AnyIntegers:
        """The ranks of a batch."""
        if pa.types.is_dictionary(column.type) and not self._texts:
            ranks = np.append(self.of(column.dictionary), len(self)).astype(self._dtype)
            return ranks.take(integers(column.indices, len(column.dictionary)))
        column = simple(column)
        if self._texts:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            return self._of_entries(coded.dictionary).take(integers(coded.indices, len(coded.dictionary)))
        ranks = self._of_keys(list(order_keys(column))[-len(self._keys) :])
        if column.null_count:
            ranks = np.where(nulls(column), self._dtype.type(len(self)), ranks)
        return ranks

    def _of_entries(self, entries: pa.Array) -> AnyIntegers:
        """The ranks of a dictionary's texts, and then that of a null."""
        if self._last is None or not self._last[0].equals(entries):
            count = len(self)
            together = pa.concat_arrays([self._cuts, entries.cast(self._cuts.type)])
            dense = integers(pc.rank(together, tiebreaker="dense"))
            ranks = np.searchsorted(dense[:count], dense[count:])
            ranks[nulls(entries)] = count
            self._last = (entries, np.append(ranks, count).astype(self._dtype))
            if self.unseen is not None and len(self.unseen):
                self.unseen = self.unseen.filter(
                    pc.invert(pc.is_in(self.unseen, value_set=entries.cast(self._cuts.type)))
                )
        return self._last[1]

    def _of_keys(self, keys: list[AnyIntegers]) -> AnyIntegers:
        if len(keys) > 1:
            return self._of_words(keys)
        key, cuts = keys[0], self._keys[0]
        if key.dtype.itemsize == 1:
            return self._octets(key.dtype).take(key.view(np.uint8))
        if not len(key):
            return np.empty(0, self._dtype)
        low, high = int(key.min()), int(key.max())
        if (high - low) * _DENSE <= len(key):
            shifted = [min(max(cut - low, -1), high - low + 1) for cut in cuts.tolist()]
            table = np.searchsorted(shifted, np.arange(high - low + 1)).astype(self._dtype)
            # the difference may not fit the type with its sign, but without it
            return table.take((key - key.dtype.type(low)).view(f"u{key.dtype.itemsize}"))
        return np.searchsorted(cuts, key).astype(self._dtype)

    def _octets(self, dtype: np.dtype[Any]) -> AnyIntegers:
        """The ranks of all values of eight bits, by their bits."""
        if self._table is None:
            every = np.arange(256, dtype=np.uint8).view(dtype)
            self._table = np.searchsorted(self._keys[0], every).astype(self._dtype)
        return self._table

    def _of_words(self, keys: list[AnyIntegers]) -> AnyIntegers:
        """Wide decimals, most significant word first: larger than a cut in the first word that differs."""
        ranks = np.zeros(len(keys[0]), self._dtype)
        for at in range(len(self)):
            pairs = [(key, cut[at]) for key, cut in zip(keys, self._keys, strict=True)]
            above = reduce(lambda rest, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & rest), pairs[::-1], False)
            ranks += np.asarray(above, bool)
        return ranks
