"""A uniform sample of the records, drawn while they stream by: how many will come need not be known.

Every record has a random number, and those with the smallest numbers are the sample, however the table was cut into
batches. On the way, records are kept whose number is below a bound, which is halved whenever more than twice as many
are kept as wanted. What is made of the sample shows in a release, so the numbers come from the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.arrays import arrow_array
from dalenius.errors import SelfCheckError
from dalenius.place.key_stream import KeyStream, Purpose

_ALL = 2**32


class Sample:
    """As many records as wanted, or all of them if there are fewer."""

    def __init__(self, key: bytes, wanted: int) -> None:
        self._wanted, self._stream = wanted, KeyStream(key, Purpose.SAMPLE, 0)
        self._bound = _ALL
        self._kept: list[tuple[pa.RecordBatch, npt.NDArray[np.uint32]]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """The next records."""
        self._kept.append(_below(self._bound, batch, self._stream.halves(batch.num_rows)))
        while self._too_many():
            self._bound //= 2
            self._kept = [_below(self._bound, *one) for one in self._kept]

    def batches(self) -> list[pa.RecordBatch]:
        """The records of the sample; those that share the largest number are all in it."""
        bound = _bound_of([numbers for _, numbers in self._kept], self._wanted)
        return [_below(bound, *one)[0] for one in self._kept]

    def _too_many(self) -> bool:
        return sum(len(numbers) for _, numbers in self._kept) > 2 * self._wanted


def _below(
    bound: int, batch: pa.RecordBatch, numbers: npt.NDArray[np.uint32]
) -> tuple[pa.RecordBatch, npt.NDArray[np.uint32]]:
    """The records whose numbers are below a bound."""
    if bound == _ALL:
        return batch, numbers
    kept = np.flatnonzero(numbers < bound)
    few = batch.take(arrow_array(kept))
    plain = pa.RecordBatch.from_arrays([_plain(column) for column in few.columns], names=few.schema.names)
    return plain, numbers[kept]


def _plain(column: pa.Array) -> pa.Array:
    """A column without the dictionary of the batch that it comes from, which may be longer than the sample."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def smallest_numbers(key: bytes, lengths: Sequence[int], wanted: int) -> list[npt.NDArray[np.intp]]:
    """The same sample of records that are there already, in batches of these lengths: which ones of each batch."""
    stream, total = KeyStream(key, Purpose.SAMPLE, 0), sum(lengths)
    most = _ALL if total <= 2 * wanted else 2 * _ALL * wanted // total  # twice as many as wanted, or nearly so
    below = []
    for length in lengths:
        numbers = stream.halves(length)
        rows = np.flatnonzero(numbers < most)
        below.append((rows, numbers[rows]))
    if sum(len(rows) for rows, _ in below) < min(wanted, total):  # once in 10^1000 samples
        raise SelfCheckError("random numbers that are not random")
    bound = _bound_of([numbers for _, numbers in below], wanted)
    return [rows[numbers < bound] for rows, numbers in below]


def _bound_of(numbers: Sequence[npt.NDArray[np.uint32]], wanted: int) -> int:
    """The bound below which the wanted ones are."""
    found = np.concatenate(numbers)
    return _ALL if len(found) <= wanted else int(np.partition(found, wanted - 1)[wanted - 1]) + 1
