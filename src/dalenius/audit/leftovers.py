"""Values that a file spells out though no row has them.

Parquet keeps text in dictionaries. A writer that is given categories writes all of them, those of records that were
taken out before publishing included: readers do not show them, and anybody who looks into the file sees them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.audit.arrays import as_arrow, integers


class UnusedEntries:
    """Watches the dictionaries of one column, batch by batch."""

    def __init__(self) -> None:
        self._entries: pa.Array | None = None
        self._used: npt.NDArray[np.bool_] = np.empty(0, bool)
        self._suspects: list[pa.Array] = []

    def add(self, column: pa.DictionaryArray) -> None:
        """The next batch of the column."""
        entries = column.dictionary
        if self._entries is None or not entries.slice(0, len(self._entries)).equals(self._entries):
            self._close()
            self._used = np.zeros(0, bool)
        # Within a row group the reader only appends: to the file's dictionary, texts that stand outside of it.
        self._entries = entries
        self._used = np.append(self._used, np.zeros(len(entries) - len(self._used), bool))
        self._used[integers(column.indices.drop_null())] = True

    def suspects(self) -> pa.Array | None:
        """Entries that no row has where they are spelled out; one further on may."""
        self._close()
        self._entries = None
        return pc.unique(pa.concat_arrays(self._suspects)) if self._suspects else None

    def _close(self) -> None:
        if self._entries is not None and not self._used.all():
            self._suspects.append(self._entries.take(as_arrow(np.flatnonzero(~self._used))).drop_null())


def in_no_row(suspects: pa.Array, columns: Iterable[pa.Array]) -> int:
    """How many of the suspects none of the batches of the column has."""
    for column in columns:
        used = pc.unique(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
        suspects = suspects.filter(pc.invert(pc.is_in(suspects, value_set=used.cast(suspects.type))))
        if not len(suspects):
            break
    return len(suspects)
