"""Who really has what, as far as the table tells: rows of QIT aligned with the records of the table.

A release does not say which record a row of QIT is, only its quasi-identifiers and its bucket. The truth is one of the
assignments with these margins, and t[r, x], the probability that row r has value x, is estimated by iterative
proportional fitting, from the start count / size times (records of r's class with x) / (records of r's class), to

    sum over x of t[r, x] = 1,
    sum over the rows r of bucket g of t[r, x] = the count of x in g,
    sum over the rows r of class z of t[r, x] = the records of the table in class z with x,

where a class is all rows with the same quasi-identifiers. If every row has a class of its own, t is the truth itself.
In a sample of buckets the classes are not whole: the last condition is then in the start alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.truth import TruthClasses
from dalenius.errors import InputError
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.matching import scaled

ITERATIONS = 100
_IN_SAMPLE = 20
_NEAR = 1e-4  # how far the rows' sums are from 1, in the mean, when the fitting ends
_PINNED = 0.99
_HARDLY = 1e-12
_LEFT_OVER = 1e-6

_FIX = "Give the table that the release was made of, with all its rows and the values as they were published."


@dataclass(frozen=True)
class People:
    """The truth for every candidate, the classes of rows and what the table says of them; `pinned` rows are certain."""

    truth: Beliefs
    classes: TruthClasses
    pinned: int
    whole: bool

    def right(self, candidates: Candidates, guesses: Integers) -> Floats:
        """For a guessed value of every row (-1: none), the probability that it is right."""
        found = np.zeros(len(guesses))
        for block, truth in zip(candidates.blocks, self.truth, strict=True):
            rows = block.rows
            guessed = block.values[:, None, :] == guesses[rows][:, :, None]
            found[rows] = (truth[:, : block.size] * guessed).sum(axis=2)
        return found


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
    candidates: Candidates, classes: TruthClasses, whole: bool, records: int, each: Callable[[], None] | None = None
) -> People:
    """Fit the truth to the rows. A table that cannot be the one that was published is an error."""
    _check(candidates, classes, whole, records)
    keys = classes.cell_classes * candidates.values + classes.cell_values
    places = [_cells(candidates, block, classes, keys) for block in candidates.blocks]
    counts = np.append(classes.cell_counts, 0).astype(np.float64)
    weights = counts / np.append(classes.records[classes.cell_classes], 1)
    truth = [_start(block, weights[place]) for block, place in zip(candidates.blocks, places, strict=True)]
    if whole:
        _fit(candidates, truth, places, counts, each)
    else:
        truth = [scaled(block, p, _IN_SAMPLE) for block, p in zip(candidates.blocks, truth, strict=True)]
    if any((p.sum(axis=2) < _PINNED * block.masses).any() for block, p in zip(candidates.blocks, truth, strict=True)):
        raise InputError(
            "the table does not fit the release: rows of the release have a value that no record has", _FIX
        )
    pinned = sum(
        int((p[:, : b.size].max(axis=2) > _PINNED).sum()) for b, p in zip(candidates.blocks, truth, strict=True)
    )
    return People(truth, classes, pinned, whole)


def _check(candidates: Candidates, classes: TruthClasses, whole: bool, records: int) -> None:
    """The table and the release as multisets of quasi-identifiers: all of it, or what a sample shows."""
    found = np.bincount(classes.class_of, minlength=len(classes.records))
    wrong = found != classes.records if whole else found > classes.records
    if classes.total != records:
        raise InputError(f"the table has {classes.total:,} rows and the release {records:,}", _FIX)
    if wrong.any():
        rows = int(np.abs(found - classes.records)[wrong].sum())
        raise InputError(f"the table is not that of the release: {rows:,} rows of quasi-identifiers differ", _FIX)
    if whole and not candidates.fakes:
        held = np.bincount(classes.cell_values, weights=classes.cell_counts, minlength=candidates.values)
        if not np.array_equal(held, candidates.counts()):
            raise InputError("the table is not that of the release: the sensitive values are others", _FIX)


def _cells(candidates: Candidates, block: Block, classes: TruthClasses, keys: Integers) -> npt.NDArray[np.int32]:
    """Where the table's cells have each row's class and value; the place after their end if no record has both."""
    wanted = classes.class_of[block.rows][:, :, None] * candidates.values + block.values[:, None, :]
    places = np.searchsorted(keys, wanted)
    there = keys[np.minimum(places, len(keys) - 1)] == wanted
    return np.where(there, places, len(keys)).astype(np.int32)


def _start(block: Block, weights: Floats) -> Floats:
    """The rows' values if nothing but their class and bucket counted; to the fakes, what these leave over."""
    start = block.shares()
    rows = start[:, : block.size]
    rows *= weights + _HARDLY * (weights > 0)
    if block.fakes:
        taken = (rows / np.maximum(rows.sum(axis=2, keepdims=True), 1e-300)).sum(axis=1)
        start[:, -1] = np.maximum(block.counts - taken, _LEFT_OVER)
    return start


def _fit(
    candidates: Candidates,
    truth: Beliefs,
    places: list[npt.NDArray[np.int32]],
    counts: Floats,
    each: Callable[[], None] | None,
) -> None:
    """Scale to the three margins in turn, in place, until the rows' sums are 1 without being made so."""
    for _ in range(ITERATIONS):
        sums, off = np.zeros(len(counts)), 0.0
        for place, (block, cells) in enumerate(zip(candidates.blocks, places, strict=True)):
            p = truth[place]
            rows = p.sum(axis=2, keepdims=True)
            off += float(np.abs(rows[..., 0] - block.masses).sum())
            p *= block.masses[:, None] / np.maximum(rows, 1e-300)
            p *= block.counts[:, None, :] / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
            sums += np.bincount(cells.ravel(), weights=p[:, : block.size].ravel(), minlength=len(counts))
        scales = counts / np.maximum(sums, 1e-300)
        for block, cells, p in zip(candidates.blocks, places, truth, strict=True):
            p[:, : block.size] *= scales[cells]
        if each is not None:
            each()
        if off < _NEAR * candidates.rows:
            break
    for block, p in zip(candidates.blocks, truth, strict=True):
        p *= block.masses[:, None] / np.maximum(p.sum(axis=2, keepdims=True), 1e-300)
