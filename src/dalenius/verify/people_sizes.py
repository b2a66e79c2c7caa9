"""How many people a bucket has, and how many rows each of them, by the number of the bucket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dalenius.release.manifest import Manifest
from dalenius.verify.bucket_limits import SizesOfTable
from dalenius.verify.buckets import Integers, PresentRows, WholeBuckets
from dalenius.verify.findings import SIZES, Report, plural


class PeopleOfBuckets:
    """The buckets as the manifest states them: stratum after stratum, and within a stratum by size."""

    def __init__(self, manifest: Manifest) -> None:
        strata = manifest.strata.strata if manifest.strata is not None else None
        settings = [(manifest.setting, 1)] if strata is None else [(part.setting, part.rows_each) for part in strata]
        self._parts = [(group.size, group.buckets, rows) for setting, rows in settings for group in setting]
        self._people = np.array([size for size, _, _ in self._parts], dtype=np.int64)
        self._rows = np.array([rows for _, _, rows in self._parts], dtype=np.int64)
        self._last_numbers = np.cumsum([buckets for _, buckets, _ in self._parts], dtype=np.int64)

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return int(self._last_numbers[-1])

    @property
    def most_rows(self) -> int:
        """The largest number of rows that a person has."""
        return int(self._rows.max())

    def are_there(self, numbers: Integers) -> npt.NDArray[np.bool_]:
        """Which of these are numbers of buckets."""
        return np.asarray((numbers >= 1) & (numbers <= self.buckets))

    def people(self, numbers: Integers) -> Integers:
        """The people of each bucket; of a bucket that there should not be, those of the nearest."""
        return self._people[self._part(numbers)]

    def rows_each(self, numbers: Integers) -> Integers:
        """The rows of each person of a bucket."""
        return self._rows[self._part(numbers)]

    def sizes(self, *, rows: bool) -> SizesOfTable:
        """The sizes to compare a table with: in rows, or in people."""
        return SizesOfTable([(size * (each if rows else 1), buckets) for size, buckets, each in self._parts])

    def _part(self, numbers: Integers) -> npt.NDArray[np.intp]:
        return np.minimum(np.searchsorted(self._last_numbers, numbers), len(self._parts) - 1)


class PlacesOfTable(SizesOfTable):
    """The same of QIT in a chain of releases, where places of a bucket may be free, and all of them.

    `strata` are (buckets, rows) pairs: how many rows the buckets of each stratum have together.
    """

    _what = ("bucket with more rows", "buckets with more rows")
    _bound = "at most "

    def __init__(
        self, setting: Sequence[tuple[int, int]], strata: Sequence[tuple[int, int]], present: PresentRows | None
    ) -> None:
        """`present` is told how many rows each bucket has."""
        super().__init__(setting)
        self._present = present
        self._last_of_strata = np.cumsum([buckets for buckets, _ in strata], dtype=np.int64)
        self._stated_rows = np.array([rows for _, rows in strata], dtype=np.int64)
        self._rows_of_strata = np.zeros(len(strata), np.int64)

    def add(self, buckets: WholeBuckets) -> None:
        """The next buckets, their numbers ascending."""
        super().add(buckets)
        if self._present is not None:
            self._present.add(buckets)
        inside = (buckets.numbers >= 1) & (buckets.numbers <= self._last_of_strata[-1])
        strata = np.searchsorted(self._last_of_strata, buckets.numbers[inside])
        rows = np.bincount(strata, buckets.sizes[inside], len(self._rows_of_strata))  # exact: no more than 2^53 rows
        self._rows_of_strata += rows.astype(np.int64)

    def _wrong_ones(self, sizes: Integers, stated: Integers) -> npt.NDArray[np.intp]:
        return np.flatnonzero(sizes > stated)

    def _conclude_present(self, file: str, report: Report) -> None:
        other = np.flatnonzero(self._rows_of_strata != self._stated_rows)
        if len(other):
            at = other[0]
            has, rows = plural(len(other), "stratum has", "strata have"), plural(int(self._rows_of_strata[at]), "row")
            report.fail(
                SIZES,
                f"in {file} {has} other rows than the manifest says; the first: {rows} in stratum {at + 1:,}, "
                f"not {self._stated_rows[at]:,}",
                len(other),
            )
