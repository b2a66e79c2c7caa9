"""Where the values of a column stand among the values at which it is cut.

For cuts t_0 < t_1 < ... < t_(k-1), in the order of the column's type, the rank of a value is the number of cuts that
are below it: a value is at most t_i iff its rank is at most i. Nulls and NaN are at most nothing: their rank is k. So
every question to the column is one to a small integer, whatever the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.audit.arrays import AnyIntegers, as_arrow, integers, nulls
from dalenius.audit.order import is_bytes, order_keys, simple
from dalenius.audit.thresholds import threshold

_DENSE = 4  # a table of ranks by value is made where there are so many rows to a value that it spans


class Ranks:
    """The ranks of a column's values, batch by batch. `places` are the ranks of the cuts themselves."""

    def __init__(self, kind: pa.DataType, texts: Sequence[str]) -> None:
        cuts = pa.concat_arrays([threshold(text, kind) for text in texts])
        self._texts = is_bytes(cuts.type)
        if self._texts:
            cuts = cuts.cast(pa.large_string())
        found = [integers(pc.rank(cuts, tiebreaker="dense"))] if self._texts else list(order_keys(cuts))
        order = np.lexsort(found[::-1])
        firsts = np.append(True, np.any([key[order[1:]] != key[order[:-1]] for key in found], axis=0))
        ordered = cuts.take(as_arrow(order))
        self._cuts = ordered.take(as_arrow(np.flatnonzero(firsts)))
        self.places = np.empty(len(texts), np.int64)
        self.places[order] = np.cumsum(firsts) - 1
        self._dtype = np.min_scalar_type(len(self._cuts))
        self._keys = [] if self._texts else list(order_keys(self._cuts))
        self._last: tuple[pa.Array, AnyIntegers] | None = None
        self._table: AnyIntegers | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def of(self, column: pa.Array) -> AnyIntegers:
        """The ranks of a batch."""
        column = simple(column)
        if self._texts:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            return self._of_entries(coded.dictionary).take(integers(coded.indices, len(coded.dictionary)))
        found = self._of_keys(list(order_keys(column))[-len(self._keys) :])
        if column.null_count:
            found = np.where(nulls(column), self._dtype.type(len(self)), found)
        return found

    def _of_entries(self, entries: pa.Array) -> AnyIntegers:
        """The ranks of a dictionary's texts, and then that of a null."""
        if self._last is None or not self._last[0].equals(entries):
            count = len(self)
            together = pa.concat_arrays([self._cuts, entries.cast(self._cuts.type)])
            dense = integers(pc.rank(together, tiebreaker="dense"))
            found = np.searchsorted(dense[:count], dense[count:])
            found[nulls(entries)] = count
            self._last = (entries, np.append(found, count).astype(self._dtype))
        return self._last[1]

    def _of_keys(self, found: list[AnyIntegers]) -> AnyIntegers:
        if len(found) > 1:
            return self._of_words(found)
        key, cuts = found[0], self._keys[0]
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

    def _of_words(self, found: list[AnyIntegers]) -> AnyIntegers:
        """Wide decimals, most significant word first: larger than a cut in the first word that differs."""
        ranks = np.zeros(len(found[0]), self._dtype)
        for at in range(len(self)):
            pairs = [(key, cut[at]) for key, cut in zip(found, self._keys, strict=True)]
            above = reduce(lambda rest, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & rest), pairs[::-1], False)
            ranks += np.asarray(above, bool)
        return ranks
