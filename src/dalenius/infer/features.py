"""Rows as numbers, for a model that adds up what columns say: a feature for every code of a column, and curves.

A column of k codes gives k features, of which a row has one. Codes beyond `_MOST_KINDS` share: neighbours if the column
is ordered, else the rare ones. An ordered column of more than a few codes also gives its rank and the square of it, so
that what rises or falls with age is learned from all ages together. Features of one kind form a part: the model finds
for each part how much it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Block, Candidates, Column, Floats, Integers, with_kinds

MOST_FEATURES = 320
MOST_KINDS = 64  # of values
_MOST_KINDS = 96
_LEAST_KINDS = 4
_CURVED = 4  # kinds of an ordered column, beyond which it has curves
ROWS_AT_ONCE = 2**14
_MOST_COVARIANCES = 2**23  # of features, in all cells
_MOST_CELLS = 40

Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Kinds:
    """The features of a column's codes: for every code the feature, and for a code that no row has the last one."""

    features: Integers

    @property
    def width(self) -> int:
        return int(self.features[:-1].max(initial=-1)) + 1


class Coding:
    """How the codes of columns become features. `part_of` has the part of every feature, `parts` their names."""

    def __init__(self, columns: Sequence[Column], rows: int, further: Singles | None = None) -> None:
        most = max(_LEAST_KINDS, min(_MOST_KINDS, MOST_FEATURES // max(1, len(columns))))
        self._kinds = [_kinds_of(column, rows, most) for column in columns]
        self._curves = [_curves_of(column, rows) for column in columns]
        self.parts: list[str] = []
        part_of: list[int] = []
        for column, kinds in zip(columns, self._kinds, strict=True):
            part_of += [len(self.parts)] * kinds.width
            self.parts.append(column.name)
        for column, curves in zip(columns, self._curves, strict=True):
            if curves is not None:
                part_of += [len(self.parts)] * curves.shape[1]
                self.parts.append(f"{column.name}, curved")
        self.plain = len(columns)  # parts of which a row has one feature
        self.asked = 0 if further is None else further.shape[1]
        if further is not None:
            part_of += [len(self.parts)] * self.asked
            self.parts.append("asked")
        self.part_of = np.array(part_of, np.int64)

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.part_of)

    def dense(self, columns: Sequence[Column], rows: slice | Integers, further: Singles | None = None) -> Singles:
        """The features of some rows."""
        number = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        table = np.zeros((number, self.width + 1), np.float32)  # the last is for what is no feature
        each, first = np.arange(number), 0
        for column, kinds in zip(columns, self._kinds, strict=True):
            feature = kinds.features[column.codes[rows]]
            table[each, np.where(feature < kinds.width, first + feature, self.width)] = 1
            first += kinds.width
        for column, curves in zip(columns, self._curves, strict=True):
            if curves is not None:
                table[:, first : first + curves.shape[1]] = curves[column.codes[rows]]
                first += curves.shape[1]
        if further is not None:
            table[:, first : first + self.asked] = further[rows]
        features: Singles = table[:, : self.width]
        return features


def _kinds_of(column: Column, rows: int, most: int) -> _Kinds:
    """A feature for every code, or for every range or frequent code if there are too many."""
    number = column.kinds
    features = np.arange(number)
    if number > most:
        counts = np.bincount(column.codes[:rows], minlength=number)
        if column.ordered:
            middles = np.cumsum(counts) - counts / 2
            place = np.minimum(middles * most / max(1, rows), most - 1).astype(np.int64)
            features = np.unique(place, return_inverse=True)[1].astype(np.int64)
        else:
            features[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(number), most - 1)
    return _Kinds(np.append(features, int(features.max(initial=-1)) + 1))


def _curves_of(column: Column, rows: int) -> Singles | None:
    """The rank and its square by code, with mean 0 and variance 1 over the rows, the square free of the rank."""
    if not column.ordered or column.kinds <= _CURVED:
        return None
    counts = np.bincount(column.codes[:rows], minlength=column.kinds).astype(np.float64)
    shares = counts / max(1.0, counts.sum())
    rank = _standard(np.arange(column.kinds, dtype=np.float64), shares)
    square = rank**2
    square = _standard(square - rank * float(shares @ (square * rank)), shares)
    curves = np.zeros((column.kinds + 1, 2), np.float32)
    curves[:-1, 0], curves[:-1, 1] = rank, square
    return curves


def _standard(numbers: Floats, shares: Floats) -> Floats:
    centred = numbers - float(shares @ numbers)
    deviation = float(np.sqrt(shares @ centred**2))
    return centred / deviation if deviation > 0 else centred


@dataclass(frozen=True)
class Piece:
    """Rows and buckets that are looked at together: some whole buckets, in their order."""

    rows: slice
    buckets: slice


class Design:
    """The rows of a release with their features, and where buckets and strata begin.

    The values of the candidates are `kinds` of values where there are too many to tell them apart.
    `stratum_of` has the stratum of every bucket, ascending from 0. `means` and `spreads` are the means of features by
    stratum, and their covariances by cell: some neighbouring strata.
    """

    def __init__(
        self, candidates: Candidates, stratum_of: Integers, coding: Coding, further: Singles | None = None
    ) -> None:
        self.candidates, self.coding, self.kinds = candidates, coding, candidates.values
        self._further = further
        self.sizes = np.bincount(candidates.bucket_of, minlength=len(candidates.numbers))
        self.first_rows = np.cumsum(self.sizes) - self.sizes
        self.numbers, places = np.unique(stratum_of, return_inverse=True)  # strata without a row are none
        self.stratum_of = places.astype(np.int64)
        self.strata = len(self.numbers)
        self.row_strata = self.stratum_of[candidates.bucket_of]
        self.stratum_rows = np.bincount(self.row_strata, minlength=self.strata)
        self.first_of_stratum = np.cumsum(self.stratum_rows) - self.stratum_rows
        self.compositions = self._compositions()
        # many strata have their covariances in common with neighbours, to bound the memory and the time
        self.cells = max(1, min(self.strata, _MOST_COVARIANCES // max(1, coding.width**2), _MOST_CELLS))
        self.cell_of = np.arange(self.strata) * self.cells // max(1, self.strata)
        self.means, self.spreads = self._moments()

    @classmethod
    def of_values(
        cls,
        candidates: Candidates,
        kind_of: Integers,
        kinds: int,
        strata: Integers,
        coding: Coding,
        further: Singles | None = None,
    ) -> Design:
        """A design whose values are kinds of those of the candidates."""
        return cls(with_kinds(candidates, kind_of, kinds), strata, coding, further)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.candidates.rows

    @property
    def width(self) -> int:
        """How many features."""
        return self.coding.width

    def pieces(self) -> Iterator[Piece]:
        """All rows, some whole buckets at a time."""
        ends = np.append(self.first_rows[1:], self.rows)
        bucket = row = 0
        while bucket < len(ends):
            last = max(bucket + 1, int(np.searchsorted(ends, row + ROWS_AT_ONCE, side="right")))
            yield Piece(slice(row, int(ends[last - 1])), slice(bucket, last))
            bucket, row = last, int(ends[last - 1])

    def features(self, rows: slice) -> Singles:
        """The features of some rows."""
        return self.coding.dense(self.candidates.columns, rows, self._further)

    def logits(self, slopes: Floats, levels: Floats) -> Singles:
        """z θ + the level of the row's stratum, for every row and value."""
        single, base = slopes.astype(np.float32), levels.astype(np.float32)
        table = np.empty((self.rows, levels.shape[1]), np.float32)
        for piece in self.pieces():
            np.matmul(self.features(piece.rows), single, out=table[piece.rows])
            table[piece.rows] += base[self.row_strata[piece.rows]]
        return table

    def sums(self, residuals: Singles, weights: Singles | None = None) -> tuple[Floats, Floats]:
        """Σ z ⊗ residual over all rows, and Σ residual by stratum; each row with the weight of its bucket."""
        slopes = np.zeros((self.width, residuals.shape[1]))
        levels = np.zeros((self.strata, residuals.shape[1]))
        for piece in self.pieces():
            own = residuals[piece.rows]
            if weights is not None:
                own = own * weights[self.candidates.bucket_of[piece.rows], None]
            slopes += self.features(piece.rows).T @ own
            strata = self.row_strata[piece.rows]
            starts = np.flatnonzero(np.diff(strata, prepend=-1))
            levels[strata[starts]] += np.add.reduceat(own, starts, axis=0)
        return slopes, levels

    def _compositions(self) -> Floats:
        """How often each value is in each stratum, fakes included."""
        counts = np.zeros((self.strata, self.kinds))
        for block in self.candidates.blocks:
            np.add.at(counts, (self.stratum_of[block.buckets][:, None], block.values), block.counts)
        return counts

    def _moments(self) -> tuple[Singles, Singles]:
        means = np.zeros((self.strata, self.width), np.float32)
        spreads = np.zeros((self.cells, self.width, self.width), np.float32)
        rows = np.bincount(self.cell_of, weights=self.stratum_rows, minlength=self.cells)
        for stratum, (first, number) in enumerate(zip(self.first_of_stratum, self.stratum_rows, strict=True)):
            total = np.zeros(self.width)
            products = np.zeros((self.width, self.width), np.float32)
            for start in range(first, first + number, ROWS_AT_ONCE):
                features = self.features(slice(start, min(start + ROWS_AT_ONCE, first + number)))
                total += features.sum(axis=0)
                products += features.T @ features
            means[stratum] = total / number
            spreads[self.cell_of[stratum]] += products - number * np.outer(means[stratum], means[stratum])
        return means, spreads / np.maximum(rows, 1).astype(np.float32)[:, None, None]


def frequent_kinds(counts: Floats, most: int = MOST_KINDS) -> tuple[Integers, int]:
    """A kind for every value: one for each of the most frequent, and one for all others together."""
    kind_of = np.arange(len(counts))
    if len(counts) > most:
        kind_of[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(len(counts)), most - 1)
    return kind_of, min(len(counts), most)


def places_in(block: Block, columns: int) -> Integers:
    """Where the beliefs of a block's rows are in a table of all rows by so many values."""
    places: Integers = block.rows[:, :, None] * columns + block.values[:, None, :]
    return places
