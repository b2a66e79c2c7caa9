"""How many different ones there are of something, and how many are there only once, in a bounded memory.

Everything is known by a hash of 64 bits. As long as there is room, every hash is counted. When there is no more, only
hashes that end in one more zero bit are, and each of those stands for twice as many. So whatever is different in every
record stays exactly that, however many records there are, and other figures are off by less than a percent or so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.model.entries import Occurrences

Hashes = npt.NDArray[np.uint64]

_MOST = 2**17
_ALL = 2**18  # numbers that are counted, where there are no more
_ENOUGH = 2**16


class OccurrenceCounter:
    """Counts hashes as they come; two that are equal are the same."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._bits = most, 0
        self._hashes: Hashes = np.empty(0, dtype=np.uint64)
        self._counts: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._new: list[Hashes] = []
        self._waiting = self._records = 0

    def add(self, hashes: Hashes) -> None:
        """The hashes of further records."""
        self._records += len(hashes)
        chosen = hashes[self._ends_in_zeros(hashes)] if self._bits else hashes
        self._new.append(chosen)
        self._waiting += len(chosen)
        if self._waiting > self._most:
            self._merge()

    def finish(self) -> Occurrences:
        """What was counted."""
        self._merge()
        pairs = int((self._counts * (self._counts - 1) // 2).sum())
        return scaled_up(
            self._records, int(self._counts.sum()), len(self._hashes), int((self._counts == 1).sum()), pairs
        )

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *self._new])
        counts = np.concatenate([self._counts, np.ones(self._waiting, dtype=np.int64)])
        self._new, self._waiting = [], 0
        self._hashes, place = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(place, weights=counts, minlength=len(self._hashes)).astype(np.int64)
        while len(self._hashes) > self._most:
            self._bits += 1
            kept = self._ends_in_zeros(self._hashes)
            self._hashes, self._counts = self._hashes[kept], self._counts[kept]

    def _ends_in_zeros(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        ends: npt.NDArray[np.bool_] = (hashes & np.uint64((1 << self._bits) - 1)) == 0
        return ends


def scaled_up(records: int, counted: int, different: int, once: int, pairs: int) -> Occurrences:
    """What was found in those records whose hash was counted, for all records."""
    scale = records / counted if counted else 1.0
    return Occurrences(records, round(different * scale), round(once * scale), counted < records, round(pairs * scale))


def count_numbers(batches: Sequence[npt.NDArray[Any]]) -> Occurrences:
    """The same for numbers of up to 64 bits that are all there, of which only as many are looked at as are needed."""
    records = sum(len(numbers) for numbers in batches)
    bits = (records // _ENOUGH).bit_length() if records > _ALL else 0
    counter = OccurrenceCounter(_ALL)
    for numbers in batches:
        counter.add(numbers[_mixed(numbers) >> np.uint64(64 - bits) == 0] if bits else numbers)
    found = counter.finish()
    return scaled_up(records, found.records, found.different, found.once, found.pairs)


def _mixed(numbers: npt.NDArray[Any]) -> Hashes:
    """Numbers whose highest bits have nothing to do with what was packed into them."""
    hashes: Hashes = numbers.astype(np.uint64)
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0xD6E8FEB86659FD93)
    return hashes
