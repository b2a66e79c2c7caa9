"""A uniform sample of the records, drawn while they stream by: how many will come need not be known.

Every record is kept with the same probability, which is halved, and every second record that was kept let go at random,
whenever there are twice as many as wanted. What is made of the sample shows in a release, so which records it has comes
from the key.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dalenius.engines.arrays import arrow_array
from dalenius.place.key_stream import KeyStream, Purpose

_ALL = 2**32


class Sample:
    """Between `wanted` and twice as many records, or all of them if there are fewer."""

    def __init__(self, wanted: int, key: bytes) -> None:
        self._wanted, self._stream = wanted, KeyStream(key, Purpose.SAMPLE, 0)
        self._below = _ALL
        self._kept: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """The next records."""
        kept = self._drawn(batch, self._below)
        self._kept.append(kept)
        self._rows += kept.num_rows
        while self._rows > 2 * self._wanted:
            self._below //= 2
            self._kept = [self._drawn(one, _ALL // 2) for one in self._kept]
            self._rows = sum(one.num_rows for one in self._kept)

    def batches(self) -> list[pa.RecordBatch]:
        """The records that were kept."""
        return self._kept

    def _drawn(self, batch: pa.RecordBatch, below: int) -> pa.RecordBatch:
        if below == _ALL:
            return batch
        few = batch.take(arrow_array(np.flatnonzero(self._stream.halves(batch.num_rows) < below)))
        return pa.RecordBatch.from_arrays([_plain(column) for column in few.columns], names=few.schema.names)


def _plain(column: pa.Array) -> pa.Array:
    """A column without the dictionary of the batch that it comes from, which may be longer than the sample."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
