"""Every record is in a bucket of its stratum: the one that its quasi-identifiers lead to.

The buckets say which stratum a row should be in, and rows are in the order of buckets: so for long stretches of rows it
is the same. The ranks of rows are compared with the bounds of the leaves of that stratum, column by column, which takes
little; only rows that are in none of its first leaves are led through the tree, question by question.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.audit.arrays import AnyIntegers
from dalenius.audit.report import STRATA, Report, plural
from dalenius.audit.runs import Integers
from dalenius.audit.tree import Tree
from dalenius.release.manifest import Strata

_LEAVES = 8  # of a stratum that are tried before the tree is


class StrataOfRows:
    """Counts the rows of QIT in buckets of another stratum than theirs, batch by batch."""

    def __init__(self, strata: Strata, tree: Tree) -> None:
        self._tree = tree
        self._last_buckets = np.cumsum([stratum.buckets for stratum in strata.strata], dtype=np.int64)
        self._wrong = 0
        self._first_wrong: tuple[int, int, int] | None = None
        # the leaves of each stratum; those that ask few questions first, since they are likely to have more rows
        asked = ((tree.lowest > 0) | (tree.highest < np.iinfo(np.int32).max)).sum(axis=0)
        self._leaves = np.lexsort((asked, tree.stratum_of))
        self._counts = np.bincount(tree.stratum_of)
        self._firsts = np.cumsum(self._counts) - self._counts

    def add(self, batch: pa.RecordBatch, buckets: Integers) -> None:
        """The next batch, with the numbers of its buckets, ascending."""
        first = int(np.searchsorted(buckets, 1))
        last = int(np.searchsorted(buckets, self._last_buckets[-1], side="right"))
        if first >= last:
            return  # a bucket that is in no stratum is found by the sizes
        ranked = self._tree.ranked(batch.slice(first, last - first))
        buckets = buckets[first:last]
        low, high = np.searchsorted(self._last_buckets, buckets[[0, -1]])
        ends = np.searchsorted(buckets, self._last_buckets[low:high], side="right")
        lengths = np.diff(ends, prepend=0, append=len(buckets))
        rest = self._not_inside(ranked, np.arange(low, high + 1), lengths)
        if len(rest):
            arrived = self._tree.stratum_of[self._tree.leaves([ranks[rest] for ranks in ranked], len(rest))]
            wanted = np.searchsorted(self._last_buckets, buckets[rest])
            self._count(buckets[rest], arrived, wanted)

    def conclude(self, file: str, report: Report) -> None:
        """Add what was wrong to the report."""
        if self._first_wrong is not None:
            bucket, arrived, wanted = self._first_wrong
            rows = plural(self._wrong, "row is", "rows are")
            report.found(
                STRATA,
                f"in {file} {rows} in a bucket of another stratum; the first: a row of stratum {arrived + 1:,} is in "
                f"bucket {bucket:,}, of stratum {wanted + 1:,}",
                self._wrong,
            )

    def _not_inside(self, ranked: list[AnyIntegers], strata: Integers, lengths: Integers) -> npt.NDArray[np.intp]:
        """The rows in none of the first leaves of their buckets' strata; so many rows in turn for each stratum."""
        firsts, others = self._firsts[strata], self._counts[strata] - 1
        found = self._inside(ranked, self._leaves[firsts], lengths)
        for number in range(1, min(_LEAVES, int(others.max()) + 1)):
            if found.all():
                break
            found |= self._inside(ranked, self._leaves[firsts + np.minimum(number, others)], lengths)
        return np.flatnonzero(~found)

    def _inside(self, ranked: list[AnyIntegers], leaves: Integers, lengths: Integers) -> npt.NDArray[np.bool_]:
        """Whether each row is in its leaf; so many rows in turn for each of the leaves."""
        found = np.ones(int(lengths.sum()), bool)
        for ranks, lowest, highest in zip(ranked, self._tree.lowest, self._tree.highest, strict=True):
            most = np.iinfo(ranks.dtype).max
            low, high = lowest[leaves], highest[leaves]
            if low.any():
                found &= ranks >= _spread(np.minimum(low, most).astype(ranks.dtype), lengths)
            if (high < most).any():
                found &= ranks <= _spread(np.minimum(high, most).astype(ranks.dtype), lengths)
        return found

    def _count(self, buckets: Integers, arrived: Integers, wanted: Integers) -> None:
        wrong = np.flatnonzero(arrived != wanted)
        self._wrong += len(wrong)
        if len(wrong) and self._first_wrong is None:
            at = wrong[0]
            self._first_wrong = int(buckets[at]), int(arrived[at]), int(wanted[at])


def _spread(numbers: AnyIntegers, lengths: Integers) -> AnyIntegers:
    """A number a stretch as a number a row; of a single stretch one is enough."""
    return numbers if len(numbers) == 1 else np.repeat(numbers, lengths)
