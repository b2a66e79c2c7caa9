"""Who really has what, as far as the table tells: rows of QIT aligned with the records of the table.

A release does not say which record a row of QIT is, only its quasi-identifiers and its bucket. The truth is one of the
assignments with these margins, and t[r, x], the probability that row r has value x, is estimated by iterative
proportional fitting to

    sum over x of t[r, x] = 1,
    sum over the rows r of bucket g of t[r, x] = the count of x in g,
    sum over the rows r of class z of t[r, x] = n_zx, the records of the table in class z with x,

where a class is all rows with the same quasi-identifiers. It starts from the share of x in the bucket times the lift

    n_zx n / (n_z n_x),

and for fakes, which have no class, from the share alone. If every row has a class of its own, t is the truth itself.

In a sample of buckets most classes are not whole. Those with several rows in it are fitted to what is to be expected,
n_zx (slots of x in the sample / slots of x) scaled to the class's rows in the sample; for the others there is only the
lift. A table whose margins cannot be met is not the one that was published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.attack.truth import TruthClasses
from dalenius.errors import InputError
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.naive_bayes import scale_margins

ITERATIONS = 100
_IN_SAMPLE = 20
_SEVERAL = 3  # rows of a class in a sample: fitted to what is to be expected. With 30 it is further from the truth
_NEAR = 1e-4  # of the people are on the wrong side of a margin when the fitting ends
TOO_FAR = 0.05  # of the people: slow fitting leaves less than 0.01, another table's values 0.3
_PINNED = 0.99

OTHER_VALUES = "the table cannot have given this release: its values do not go into the buckets"
SAME_TABLE = "Give the table that the release was made of, with all its rows and the values as they were published."


@dataclass(frozen=True)
class People:
    """The truth for every candidate, the classes of rows and what the table says of them; `pinned` rows are certain.

    `misplaced` is how many people are on the wrong side of a margin that was to be met.
    """

    truth: Beliefs
    classes: TruthClasses
    pinned: int
    whole: bool
    misplaced: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the margins are met, but for what does not matter."""
        return self.misplaced <= max(0.5, 10 * _NEAR * len(self.classes.class_of))

    def right(self, candidates: Candidates, guesses: Integers) -> Floats:
        """For a guessed value of every row (-1: none), the probability that it is right."""
        right = np.zeros(len(guesses))
        for block, truth in zip(candidates.blocks, self.truth, strict=True):
            rows = block.rows
            guessed = block.values[:, None, :] == guesses[rows][:, :, None]
            right[rows] = (truth[:, : block.size] * guessed).sum(axis=2)
        return right


def plain_rows(rows: pa.Table) -> pa.Table:
    """Columns with categories as what they stand for."""
    columns = [
        pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
        if pa.types.is_dictionary(column.type)
        else column
        for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, names=rows.schema.names)


def align(
    candidates: Candidates,
    classes: TruthClasses,
    whole: bool,
    records: int,
    slots: Floats | None = None,
    each: Callable[[], None] | None = None,
) -> People:
    """Fit the truth to the rows; `slots` are those of each value in all of the release, of which this may be a sample.

    A table that cannot be the one that was published is an error.
    """
    _check(candidates, classes, whole, records)
    keys = classes.cell_classes * candidates.values + classes.cell_values
    places = [_cells(candidates, block, classes, keys) for block in candidates.blocks]
    expected = classes.records[classes.cell_classes] * (classes.totals[classes.cell_values] / classes.total)
    lifts = np.append(classes.cell_counts / expected, 0.0)
    truth = [_start(block, lifts[place]) for block, place in zip(candidates.blocks, places, strict=True)]
    if whole:
        margins, fitted = classes.cell_counts.astype(np.float64), np.ones(len(keys), bool)
    else:
        margins, fitted = _margins(candidates, classes, candidates.counts() if slots is None else slots)
    misplaced = _fit(candidates, truth, places, np.append(margins, 0.0), np.append(fitted, False), each)
    if not whole:
        truth = [scale_margins(block, p, _IN_SAMPLE) for block, p in zip(candidates.blocks, truth, strict=True)]
        misplaced = _count_misplaced(candidates, truth)
    if misplaced > TOO_FAR * candidates.rows:
        raise InputError(OTHER_VALUES, SAME_TABLE)
    pinned = sum(
        int((p[:, : b.size].max(axis=2) > _PINNED).sum()) for b, p in zip(candidates.blocks, truth, strict=True)
    )
    return People(truth=truth, classes=classes, pinned=pinned, whole=whole, misplaced=misplaced)


def _check(candidates: Candidates, classes: TruthClasses, whole: bool, records: int) -> None:
    """The table and the release as multisets of quasi-identifiers: all of it, or what a sample shows."""
    rows_of = np.bincount(classes.class_of, minlength=len(classes.records))
    wrong = rows_of != classes.records if whole else rows_of > classes.records
    if classes.total != records:
        raise InputError(f"the table has {classes.total:,} rows and the release {records:,}", SAME_TABLE)
    if wrong.any():
        rows = int(np.abs(rows_of - classes.records)[wrong].sum())
        raise InputError(f"the table is not that of the release: {rows:,} rows of quasi-identifiers differ", SAME_TABLE)
    if whole and not candidates.fakes and not np.array_equal(classes.totals, candidates.counts()):
        raise InputError("the table is not that of the release: the sensitive values are others", SAME_TABLE)


def _cells(candidates: Candidates, block: Block, classes: TruthClasses, keys: Integers) -> npt.NDArray[np.int32]:
    """Where the table's cells have each row's class and value; the place after their end if no record has both."""
    wanted = classes.class_of[block.rows][:, :, None] * candidates.values + block.values[:, None, :]
    places = np.searchsorted(keys, wanted)
    there = keys[np.minimum(places, len(keys) - 1)] == wanted
    return np.where(there, places, len(keys)).astype(np.int32)


def _start(block: Block, lifts: Floats) -> Floats:
    """The share of the bucket times the lift. People whose class has one value of the bucket alone have it."""
    start = block.shares()
    rows = start[:, : block.size]
    rows *= lifts
    possible = (rows > 0).sum(axis=2, keepdims=True)
    sure = ((rows > 0) & (possible == 1)).sum(axis=1)
    if (possible == 0).any() or (sure > block.counts).any():
        raise InputError(OTHER_VALUES, SAME_TABLE)
    if block.fakes:  # no fake has a value that is taken up: fitting would take long to find that
        start[:, -1] *= block.counts > sure
    return start


def _margins(candidates: Candidates, classes: TruthClasses, slots: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """What a sample should have of each cell, and whether it should be fitted to that."""
    drawn = np.bincount(classes.class_of, minlength=len(classes.records))
    complete = (drawn == classes.records)[classes.cell_classes]
    parts = candidates.counts() / np.maximum(slots, 1)
    expected = classes.cell_counts * parts[classes.cell_values]
    by_class = np.bincount(classes.cell_classes, weights=expected, minlength=len(drawn))
    expected *= (drawn / np.maximum(by_class, 1e-300))[classes.cell_classes]
    fitted = complete | (drawn >= _SEVERAL)[classes.cell_classes]
    return np.where(complete, classes.cell_counts, expected), fitted


def _fit(
    candidates: Candidates,
    truth: Beliefs,
    places: list[npt.NDArray[np.int32]],
    margins: Floats,
    fitted: npt.NDArray[np.bool_],
    each: Callable[[], None] | None,
) -> float:
    """Scale to the three margins in turn, in place, until each is met without being made so.

    Gives back how many people are on the wrong side of the margin that is met worst.
    """
    misplaced = 0.0
    for _ in range(ITERATIONS):
        sums, off = np.zeros(len(margins)), np.zeros(2)
        for place, (block, cells) in enumerate(zip(candidates.blocks, places, strict=True)):
            p = truth[place]
            rows = p.sum(axis=2, keepdims=True)
            off[0] += float(np.abs(rows[..., 0] - block.masses).sum())
            p *= block.masses[:, None] / np.maximum(rows, 1e-300)
            held = p.sum(axis=1, keepdims=True)
            off[1] += float(np.abs(held[:, 0] - block.counts).sum())
            p *= block.counts[:, None, :] / np.maximum(held, 1e-300)
            sums += np.bincount(cells.ravel(), weights=p[:, : block.size].ravel(), minlength=len(margins))
        scales = np.where(fitted, margins / np.maximum(sums, 1e-300), 1.0)
        for block, cells, p in zip(candidates.blocks, places, truth, strict=True):
            p[:, : block.size] *= scales[cells]
        misplaced = max(float(np.abs(sums - margins)[fitted].sum()), float(off.max())) / 2
        if each is not None:
            each()
        if misplaced < _NEAR * candidates.rows:
            break
    for block, p in zip(candidates.blocks, truth, strict=True):
        p *= block.masses[:, None] / np.maximum(p.sum(axis=2, keepdims=True), 1e-300)
    return misplaced


def _count_misplaced(candidates: Candidates, truth: Beliefs) -> float:
    """How many people are on the wrong side of the buckets' counts, or without a value."""
    missed = 0.0
    for block, p in zip(candidates.blocks, truth, strict=True):
        rows, held = np.abs(p.sum(axis=2) - block.masses), np.abs(p.sum(axis=1) - block.counts)
        missed += max(float(rows.sum()), float(held.sum())) / 2
    return missed
