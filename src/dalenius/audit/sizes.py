"""The buckets of one table against the setting: numbered from 1 without holes, and by size.

Both tables are held against the same setting, bucket by bucket: QIT has a row for each record, ST one more for each
fake value. So if both pass, they fit together in every bucket, and neither table has to wait for the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalenius.audit.report import SIZES, Report, plural
from dalenius.audit.runs import Integers, WholeBuckets


class SizesOfTable:
    """Counts the buckets of a table that are not as the setting, (size, buckets) pairs, and the fake values say."""

    def __init__(self, setting: Sequence[tuple[int, int]], fakes: int = 0) -> None:
        self._sizes = np.array([size + fakes for size, _ in setting], dtype=np.int64)
        self._last_numbers = np.cumsum([buckets for _, buckets in setting], dtype=np.int64)
        self._wrong = 0
        self._first_wrong: tuple[int, int, int] | None = None
        self._inside = 0
        self._outside = 0
        self.rows = 0

    def add(self, buckets: WholeBuckets) -> None:
        """The next buckets, their numbers ascending."""
        numbers, sizes = buckets.numbers, buckets.sizes
        self.rows += int(sizes.sum())
        known = (numbers >= 1) & (numbers <= self._last_numbers[-1])
        if not known.all():
            self._outside += int(np.count_nonzero(~known))
            numbers, sizes = numbers[known], sizes[known]
        self._inside += len(numbers)
        if len(numbers):
            wanted = self._wanted(numbers)
            wrong = np.flatnonzero(sizes != wanted)
            self._wrong += len(wrong)
            if len(wrong) and self._first_wrong is None:
                at = wrong[0]
                self._first_wrong = (int(numbers[at]), int(sizes[at]), int(wanted[at]))

    def conclude(self, file: str, rows: int, report: Report) -> None:
        """Add what was wrong to the report. `rows` is what follows from the manifest."""
        if self.rows != rows:
            report.found(SIZES, f"{file} has {plural(self.rows, 'row')}, and the manifest says {rows:,}")
        total = int(self._last_numbers[-1])
        if self._inside != total:
            missing = total - self._inside
            report.found(SIZES, f"{file} lacks {missing:,} of the buckets 1 to {total:,}", missing)
        if self._outside:
            outside = plural(self._outside, "bucket")
            report.found(SIZES, f"{file} has {outside} with numbers outside 1 to {total:,}", self._outside)
        if self._first_wrong is not None:
            number, size, wanted = self._first_wrong
            wrong = plural(self._wrong, "bucket of another size", "buckets of another size")
            report.found(
                SIZES,
                f"{file} has {wrong} than the setting gives; the first: bucket {number:,} has "
                f"{plural(size, 'row')}, not {wanted:,}",
                self._wrong,
            )

    def _wanted(self, numbers: Integers) -> Integers:
        first, last = np.searchsorted(self._last_numbers, numbers[[0, -1]])
        if first == last:
            return np.broadcast_to(self._sizes[first], numbers.shape)
        return self._sizes[np.searchsorted(self._last_numbers, numbers)]
