"""How a table is cut into leaves: by a decision tree, by every combination of values, or blindly.

A decision tree (`grow_tree`) cuts where the quasi-identifiers tell the sensitive value best. Rows of a leaf are then as
alike as the tree can make them. That is what strata are for: within a bucket of rows that are alike, whose value is
whose cannot be learned, and counts that assume so are right.

The tree is grown on a sample, best cut first. A cut of n rows with n_x of value x into two parts gains

    G = sum over parts and x of n'_x log n'_x - n' log n'  -  (sum over x of n_x log n_x - n log n)  >= 0,

the rows times the information about x. Where a cut says nothing of x, 2 G is about chi-squared with d degrees of
freedom, one less than there are values, and exceeds d + 2 sqrt(d t) + 2 t with probability at most exp(-t) (Laurent and
Massart 2000, Lemma 1). The best of m cuts has to gain more than that for t = 3 + log m: of the leaves where there is
nothing to learn, at most one in twenty is cut. Limits do not enter here; `merging.py` takes care of them.

The other trees, `every_combination` and `kd_tree`, do not look at sensitive values, so their leaves tell nothing of
them.

`automatic_leaves` says how finely to cut. It rests on measurements at theta 8. With 300,000 people, 160 to 230 leaves
took away two thirds of the error of counts, and twice as many took little more. The significance of their gain decides
which cuts are made, and the least rows of a leaf hardly matter between 200 and 800. With 20,000 and 48,000 people they
do: leaves of 200 rows were better than leaves of 1,000. With 5,000 people the error fell by a tenth or less, which is
hardly more than chance, and buckets got larger by a quarter to a half. Smaller tables were not tried, and are not cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from math import log, prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.errors import UsageError
from dalenius.strata.tree import Codes, Floats, Integers, Tree, TreeBuilder

_MOST_BINS = 256  # of a column: cuts are tried between them
_MOST_VALUES = 64  # that are told apart; the less frequent ones count as one
_DOUBT = 3.0  # t: noise is cut with probability exp(-t) at most
MOST_COMBINATIONS = 2**16
MARGIN = Fraction(9, 10)  # of the way from a value's share in the table to its limit: see `most_shares`
SAMPLE_ROWS = 200_000  # on which a tree is grown: with fewer, fewer cuts are significant
_LEAST_TABLE = 5_000
_LEAST_LEAF = 200
_LEAF_SHARE = 750  # a leaf has at least this part of the rows: some hundred rows of a sample
_WITH_FAKES = 5  # times as many: fakes hide among the buckets of a size, and small strata have few of each
_MOST_LEAVES = 500  # each stratum is solved by itself, which takes milliseconds
_MOST_CELLS = 2**18  # leaves times values, which are counted


def grow_tree(codes: Sequence[Codes], values: Codes, leaf_rows: int, most_leaves: int) -> Tree:
    """A tree of at most `most_leaves` leaves, with at least `leaf_rows` rows of the sample in each.

    `codes` has an array a column, and `values` the code of the sensitive value of every row. The same input gives the
    same tree.
    """
    sample = _Sample(codes, values)
    tree = TreeBuilder()
    waiting: list[tuple[float, int, _Cut]] = []

    def consider(place: int, rows: Integers, histogram: Integers) -> None:
        cut = sample.best_cut(rows, histogram, leaf_rows)
        if cut is not None:
            heappush(waiting, (-cut.gain, place, cut))

    everything = np.arange(len(values))
    consider(tree.add(), everything, sample.histogram(everything))
    while waiting and tree.leaves < most_leaves:
        _, place, cut = heappop(waiting)
        goes_below = sample.bins[cut.column][cut.rows] <= cut.last_bin
        below, above = cut.rows[goes_below], cut.rows[~goes_below]
        at_most = int(sample.thresholds[cut.column][cut.last_bin])
        # count the smaller part, and take the difference for the other
        smaller, larger = (below, above) if len(below) <= len(above) else (above, below)
        histogram_of_smaller = sample.histogram(smaller)
        parts = {id(smaller): histogram_of_smaller, id(larger): cut.histogram - histogram_of_smaller}
        for place_of_part, part in zip(tree.cut(place, cut.column, at_most), (below, above), strict=True):
            consider(place_of_part, part, parts[id(part)])
    return tree.tree()


def every_combination(kinds: Mapping[int, int]) -> Tree:
    """Every combination of codes has a leaf of its own, given how many codes each of the columns has.

    Leaves are in the order of codes, the first column being the slowest.
    """
    number = prod(kinds.values())
    if number > MOST_COMBINATIONS:
        raise UsageError(
            f"the columns of the strata have {number:,} combinations of values, more than {MOST_COMBINATIONS:,}",
            "Name fewer columns, or let Dalenius choose the strata with --strata auto.",
        )
    tree = TreeBuilder()
    open_leaves = [tree.add()]
    for column, codes in kinds.items():
        open_leaves = [leaf for place in open_leaves for leaf in _every_code(tree, place, column, codes)]
    return tree.tree()


def kd_tree(codes: Sequence[Codes], leaves: int) -> Tree:
    """A tree that looks at quasi-identifiers alone: the leaf with most rows is cut at a median, again and again.

    Codes count as ranks among all rows, so that columns can be compared: the column with the largest variance of ranks
    within the leaf is cut. A leaf whose rows are all alike stays.
    """
    tree = TreeBuilder()
    rows = len(codes[0]) if len(codes) else 0
    waiting = [(-rows, tree.add(), np.arange(rows))]
    columns = [column.view(np.int64) if column.dtype == np.uint64 else column for column in codes]
    ranks = [_ranks(column) for column in columns]
    while waiting and tree.leaves < leaves:
        _, place, part = heappop(waiting)
        spreads = [_spread(rank[part]) for rank in ranks]
        column = int(np.argmax(spreads)) if spreads else 0
        if not spreads or not spreads[column] > 0:
            continue
        at_most = _median(columns[column][part])
        goes_below = columns[column][part] <= at_most
        for child, side in zip(tree.cut(place, column, at_most), (goes_below, ~goes_below), strict=True):
            heappush(waiting, (-int(side.sum()), child, part[side]))
    return tree.tree()


def automatic_leaves(rows: int, values: int, fake_values: int = 0) -> tuple[int, int]:
    """Rows of the table that a leaf has at least, and how many leaves there are at most.

    One leaf means that the table is not cut.
    """
    leaf_rows = max(_LEAST_LEAF, rows // _LEAF_SHARE) * (_WITH_FAKES if fake_values else 1)
    if rows < _LEAST_TABLE:
        return leaf_rows, 1
    return leaf_rows, max(1, min(_MOST_LEAVES, _MOST_CELLS // max(1, values)))


def least_stratum_rows(leaf_rows: int) -> int:
    """The fewest rows of a stratum: half of a leaf's, since a sample gives counts only approximately."""
    return max(1, leaf_rows // 2)


def most_shares(counts: Sequence[int], limits: Sequence[Fraction], total: int) -> list[Fraction]:
    """The largest share that a value may have in a leaf that is fit: f + margin (limit - f), f its share in the table.

    A group of values has a count and a limit as a value has.

    So the table as a whole is always fit, and a leaf that is unfit need not be above a limit: merging it does not show
    that a share is one that a limit forbids. A value without a limit (1) is never a reason for merging.
    """
    shares = [Fraction(count, total) for count in counts]
    return [
        limit if limit == 1 else share + MARGIN * (limit - share) for share, limit in zip(shares, limits, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Cut:
    gain: float
    column: int
    last_bin: int
    rows: Integers
    histogram: Integers


class _Sample:
    """Rows as bins of codes. The histogram of some rows is an array: the bins of all columns x values."""

    def __init__(self, codes: Sequence[Codes], values: Codes) -> None:
        self.rows = len(values)
        self._values, self.kinds = _by_frequency(values)
        self.thresholds, self.bins = [], []
        for column in codes:
            thresholds, bins = _bin_codes(column)
            self.thresholds.append(thresholds)
            self.bins.append(bins)
        widths = np.array([len(thresholds) for thresholds in self.thresholds], np.int64)
        self._first = np.cumsum(widths) - widths
        self._column_of_bin = np.repeat(np.arange(len(widths)), widths)
        self._last = (self._first + widths - 1)[self._column_of_bin]
        self._cells = int(widths.sum()) * self.kinds
        keys = [(bins + first) * self.kinds + self._values for bins, first in zip(self.bins, self._first, strict=True)]
        self._keys: Integers = np.array(keys, np.int64).reshape(len(keys), self.rows)
        counts = np.arange(1, self.rows + 1)
        self._count_log_count = np.append(0.0, counts * np.log(counts))

    def histogram(self, rows: Integers) -> Integers:
        """How many of the rows have each value in each bin of each column."""
        keys = self._keys if len(rows) == self.rows else self._keys[:, rows]
        return np.bincount(keys.ravel(), minlength=self._cells).reshape(-1, self.kinds)

    def best_cut(self, rows: Integers, histogram: Integers, leaf_rows: int) -> _Cut | None:
        """The cut that gains most, if one gains enough and leaves enough rows on both sides; of equals, the first."""
        total = len(rows)
        if total < 2 * leaf_rows or not len(histogram):
            return None
        in_bin = histogram.sum(axis=1)
        used = np.flatnonzero(in_bin)
        column = self._column_of_bin[used]
        below = np.cumsum(in_bin[used]) - column * total  # every column has all of the rows
        allowed = (below >= leaf_rows) & (total - below >= leaf_rows)
        if not allowed.any():
            return None
        everything = histogram[self._first[0] : self._last[0] + 1].sum(axis=0)
        present = np.flatnonzero(everything)
        running = np.cumsum(histogram[np.ix_(used, present)], axis=0)
        running -= column[:, None] * everything[present]
        count_log_count = self._count_log_count
        below, running = below[allowed], running[allowed]
        gains = count_log_count.take(running).sum(axis=1)
        gains += count_log_count.take(everything[present] - running).sum(axis=1)
        gains -= count_log_count[below] + count_log_count[total - below]
        gains -= count_log_count[everything[present]].sum() - count_log_count[total]
        best = int(gains.argmax())
        if not gains[best] > _gain_of_noise(len(present) - 1, len(gains)):
            return None
        place = int(used[allowed][best])
        column_of_cut = int(self._column_of_bin[place])
        last_bin = place - int(self._first[column_of_cut])
        return _Cut(gain=float(gains[best]), column=column_of_cut, last_bin=last_bin, rows=rows, histogram=histogram)


def _gain_of_noise(freedom: int, cuts: int) -> float:
    """The most that the best of some cuts gains, nearly always, where there is nothing to be found."""
    doubt = _DOUBT + log(cuts)
    return freedom / 2 + sqrt(freedom * doubt) + doubt


def _by_frequency(values: Codes) -> tuple[Integers, int]:
    """Values by frequency, the rare ones pooled; and how many there are then."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, _MOST_VALUES - 1)[inverse], min(max(1, len(counts)), _MOST_VALUES)


def _bin_codes(column: Codes) -> tuple[Integers, Integers]:
    """Bins with about as many rows each, as the largest code in each, and the bin of every row."""
    if column.dtype == np.uint64:
        column = column.view(np.int64)  # codes are below 2^63
    used, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    if len(used) <= _MOST_BINS:
        return used.astype(np.int64), inverse.astype(np.int64)
    ends = np.searchsorted(np.cumsum(counts), np.arange(1, _MOST_BINS + 1) * (len(column) / _MOST_BINS))
    ends = np.unique(np.minimum(ends, len(used) - 1))
    return used[ends].astype(np.int64), np.searchsorted(ends, inverse).astype(np.int64)


def _every_code(tree: TreeBuilder, place: int, column: int, codes: int) -> list[int]:
    """Halve the range of codes until every code has a leaf; the leaves in the order of codes."""
    leaves, waiting = [], [(place, 0, codes - 1)]
    while waiting:
        place, low, high = waiting.pop()
        if low >= high:
            leaves.append(place)
            continue
        middle = (low + high) // 2
        below, above = tree.cut(place, column, middle)
        waiting += [(above, middle + 1, high), (below, low, middle)]
    return leaves


def _ranks(column: npt.NDArray[Any]) -> Floats:
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - counts / 2)[inverse] / max(1, len(column))
    return ranks


def _spread(ranks: Floats) -> float:
    """Their variance; exactly 0 if there is one rank alone, whatever floating point makes of it."""
    return float(ranks.var()) if len(ranks) and ranks.min() < ranks.max() else 0.0


def _median(codes: npt.NDArray[Any]) -> int:
    """The threshold that halves the rows best; there are two codes at least."""
    used, counts = np.unique(codes, return_counts=True)
    return int(used[np.abs(2 * np.cumsum(counts)[:-1] - len(codes)).argmin()])
