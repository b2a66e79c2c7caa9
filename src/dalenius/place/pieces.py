"""The release in pieces: ranges of buckets that are small enough to be sorted in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.model.setting import BucketSetting

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Piece k holds the buckets from `first_buckets[k]` up to the next piece, and `rows[k]` records exactly."""

    first_buckets: Integers
    rows: Integers

    @classmethod
    def of(cls, setting: BucketSetting, rows: int) -> Pieces:
        """Pieces of about `rows` records; a bucket is never split."""
        sizes = np.asarray([group.size for group in setting.groups])
        buckets = np.asarray([group.buckets for group in setting.groups])
        group_rows = np.cumsum(sizes * buckets) - sizes * buckets
        group_buckets = np.cumsum(buckets) - buckets
        wanted = np.arange(0, setting.records, rows)
        group = np.searchsorted(group_rows, wanted, side="right") - 1
        firsts = np.unique(group_buckets[group] + (wanted - group_rows[group]) // sizes[group])
        group = np.searchsorted(group_buckets, firsts, side="right") - 1
        before = group_rows[group] + (firsts - group_buckets[group]) * sizes[group]
        return cls(firsts + 1, np.diff(np.append(before, setting.records)))

    def __len__(self) -> int:
        return len(self.rows)

    def cut(self, sorted_buckets: npt.NDArray[np.integer]) -> Integers:
        """Where each piece starts in buckets in ascending order, and, last, where the last one ends."""
        inner = np.searchsorted(sorted_buckets, self.first_buckets[1:])
        return np.concatenate(([0], inner, [len(sorted_buckets)]))
