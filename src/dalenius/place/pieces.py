"""The release in pieces: ranges of buckets that are small enough to be sorted in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.model.setting import SizeGroup
from dalenius.place.domains import changed

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Piece k holds the buckets from `first_buckets[k]` up to the next piece, and `rows[k]` records exactly."""

    first_buckets: Integers
    rows: Integers

    @classmethod
    def of(cls, groups: Sequence[SizeGroup], rows: int) -> Pieces:
        """Pieces of about `rows` records; a bucket is never split."""
        sizes = np.asarray([group.size for group in groups])
        buckets = np.asarray([group.buckets for group in groups])
        records = int((sizes * buckets).sum())
        group_rows = np.cumsum(sizes * buckets) - sizes * buckets
        group_buckets = np.cumsum(buckets) - buckets
        wanted = np.arange(0, records, rows)
        group = np.searchsorted(group_rows, wanted, side="right") - 1
        firsts = np.unique(group_buckets[group] + (wanted - group_rows[group]) // sizes[group])
        group = np.searchsorted(group_buckets, firsts, side="right") - 1
        before = group_rows[group] + (firsts - group_buckets[group]) * sizes[group]
        return cls(firsts + 1, np.diff(np.append(before, records)))

    def __len__(self) -> int:
        return len(self.rows)

    def cut(self, sorted_buckets: npt.NDArray[np.integer]) -> Integers:
        """Where each piece starts in buckets in ascending order, and, last, where the last one ends."""
        inner = np.searchsorted(sorted_buckets, self.first_buckets[1:])
        return np.concatenate(([0], inner, [len(sorted_buckets)]))


class Filling:
    """How full each piece is. Every bucket has an exact number of records, so a table that changed cannot pass."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._filled = np.zeros(len(pieces), dtype=np.int64)

    def add(self, sorted_buckets: npt.NDArray[np.integer]) -> Iterator[tuple[int, int, slice]]:
        """Where a batch in the order of its buckets goes: the piece, what it held before, and which records of it."""
        cuts = self._pieces.cut(sorted_buckets)
        counts = np.diff(cuts)
        if (self._filled + counts > self._pieces.rows).any():
            raise changed()
        for piece in np.flatnonzero(counts).tolist():
            yield piece, int(self._filled[piece]), slice(int(cuts[piece]), int(cuts[piece + 1]))
        self._filled += counts

    def finished(self) -> Iterator[int]:
        """The numbers of the pieces, all of them full."""
        if (self._filled != self._pieces.rows).any():
            raise changed()
        return iter(range(len(self._pieces)))
