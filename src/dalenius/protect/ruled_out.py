"""Which sensitive values are ruled out in which buckets: by a negative association of any record of the bucket.

One bit for every bucket and every value that some negative pair is about: 8 ceil(values / 64) bytes a bucket, found in
one pass over QIT. Pairs are few, so that is mostly 8 bytes (80 MB for 10 million buckets); other values have no bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.infer.negative import NegativePairs, Words

_WORD = 64

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


class RuledOut:
    """Asked for any bucket, numbered from 1, and any value, by its place in the manifest."""

    def __init__(self, values: int, concerned: Integers, words: Words) -> None:
        self._place = np.full(values, -1, dtype=np.int64)  # of the bit of each value
        self._place[concerned] = np.arange(len(concerned))
        self._words = words

    def of(self, buckets: npt.ArrayLike, values: npt.ArrayLike) -> Booleans:
        """Whether each value is ruled out in the bucket that goes with it (or one for all)."""
        bucket, value = np.broadcast_arrays(np.asarray(buckets, dtype=np.int64), np.asarray(values, dtype=np.int64))
        place = self._place[value]
        found = np.zeros(value.shape, dtype=np.bool_)
        asked = place >= 0
        word, bit = np.divmod(place[asked], _WORD)
        found[asked] = self._words[bucket[asked] - 1, word] >> bit.astype(np.uint64) & np.uint64(1)
        return found


class AnyRuledOut:
    """Ruled out by any of several."""

    def __init__(self, several: Sequence[RuledOut]) -> None:
        self._several = several

    def of(self, buckets: npt.ArrayLike, values: npt.ArrayLike) -> Booleans:
        """As `RuledOut.of`."""
        found: Booleans = np.logical_or.reduce([one.of(buckets, values) for one in self._several])
        return found


def ruled_out_values(batches: Iterable[pa.RecordBatch], pairs: NegativePairs, *, bucket: str, buckets: int) -> RuledOut:
    """From the rows of QIT, best in the order of the buckets; a batch needs `pairs.columns` and the bucket."""
    words = np.zeros((buckets, -(-len(pairs.concerned) // _WORD)), dtype=np.uint64)
    for batch in batches if len(pairs.concerned) else ():
        numbers = np.asarray(batch[bucket], dtype=np.int64)
        if not len(numbers):
            continue
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        np.bitwise_or.at(words, numbers[starts] - 1, np.bitwise_or.reduceat(pairs.words(batch), starts, axis=0))
    return RuledOut(pairs.values, pairs.concerned, words)
