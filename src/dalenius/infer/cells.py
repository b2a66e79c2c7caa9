"""Columns of QIT cut into cells: single values where there are few, ranges of numbers and dates where there are many.

A first pass over the table collects what is there: texts and truth values with their counts; of numbers and dates up to
16 values and a random sample. Then a column is `Cells`, which give the cell of every row and the name of each cell. A
null has a cell of its own, and so has NaN. Rows in no cell have the code -1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.infer.candidates import Floats, Integers
from dalenius.tables.arrays import texts, widened

MOST_RANGES = 16
MOST_TEXTS = 100_000  # distinct ones, that a column may have
MOST_CELLS = 1_000  # the most frequent values of a column
NULL, NAN = "(null)", "(NaN)"
_SAMPLE = 2**16


@dataclass(frozen=True)
class Cells:
    """A column: the names of its cells, and the rule that gives rows their codes."""

    column: str
    names: tuple[str, ...]
    rule: Callable[[pa.Array], Integers]

    def codes(self, batch: pa.RecordBatch) -> Integers:
        """The cell of every row."""
        return self.rule(batch[self.column])


class Values:
    """A column whose values are counted one by one."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._counts: dict[str | None, int] | None = {}  # None: too many of them

    def add(self, values: pa.Array, _random: np.random.Generator) -> None:
        """Take in a batch."""
        if self._counts is None:
            return
        places, known = _encode(values)
        for text, count in zip(known, np.bincount(places, minlength=len(known)).tolist(), strict=True):
            if count:
                self._counts[text] = self._counts.get(text, 0) + count
        if len(self._counts) > MOST_TEXTS:
            self._counts = None

    def cells(self, least: float) -> tuple[Cells, str | None]:
        """The values with at least so many rows; and what is left out, if anything is."""
        counts = self._counts
        if counts is None:
            note = f"{self._column} has more than {MOST_TEXTS:,} different values, so nothing is learned of it"
            return Cells(self._column, (), _no_codes), note
        often = [text for text, count in counts.items() if count >= least]
        chosen = sorted(often, key=lambda text: (-counts[text], text or ""))[:MOST_CELLS]
        code = {text: number for number, text in enumerate(chosen)}

        def rule(values: pa.Array) -> Integers:
            places, known = _encode(values)
            codes: Integers = np.array([code.get(text, -1) for text in known], dtype=np.int64)[places]
            return codes

        cells = Cells(self._column, tuple(NULL if text is None else text for text in chosen), rule)
        left = len(often) - len(chosen)
        return (
            cells,
            f"Of {self._column}, {left:,} values are left out: {MOST_CELLS:,} are more frequent." if left else None,
        )


class Numbers:
    """A column of numbers, dates or times: few of them are values, many are ranges with about as many rows."""

    def __init__(self, column: str, rows: int) -> None:
        self._column, self._share = column, min(1.0, _SAMPLE / max(rows, 1))
        self._few: pa.Array | None = None
        self._many = False
        self._sample: list[pa.Array] = []

    def add(self, values: pa.Array, random: np.random.Generator) -> None:
        """Take in a batch."""
        there = values.filter(pa.array(~np.isnan(_floats(values))))
        if not self._many:
            new = pc.unique(widened(there))
            self._few = new if self._few is None else pc.unique(pa.concat_arrays([self._few, new]))
            self._many = len(self._few) > MOST_RANGES
        chosen = random.random(len(there)) < self._share if self._share < 1 else np.ones(len(there), dtype=np.bool_)
        self._sample.append(there.filter(pa.array(chosen)))

    def cells(self, least: float) -> tuple[Cells, str | None]:  # noqa: ARG002
        """The values or ranges."""
        values = pa.concat_arrays(self._sample) if self._many else self._few
        if values is None:
            return Cells(self._column, (), _no_codes), None
        numbers, firsts = np.unique(_floats(values), return_index=True)
        if self._many:
            ordered = np.sort(_floats(values))
            ends = np.unique(ordered[len(ordered) * np.arange(1, MOST_RANGES) // MOST_RANGES])
            firsts = firsts[np.searchsorted(numbers, ends)]
            numbers = ends
        texts_of_ends = [str(text) for text in texts(values.take(pa.array(firsts)))]
        names = _ranges(texts_of_ends) if self._many else texts_of_ends
        last = len(names) - 1

        def rule(values: pa.Array) -> Integers:
            cells = _floats(values)
            codes = np.minimum(np.searchsorted(numbers, cells, side="left"), max(last, 0))
            codes[np.isnan(cells)] = last + 2
            codes[np.asarray(values.is_null())] = last + 1
            return codes.astype(np.int64)

        return Cells(self._column, (*names, NULL, NAN), rule), None


def new_column(column: str, data_type: pa.DataType, rows: int) -> Values | Numbers:
    """An empty `Values` or `Numbers` for a column of this type."""
    return Numbers(column, rows) if _is_ordered(data_type) else Values(column)


def _is_ordered(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal)
    return any(is_kind(data_type) for is_kind in kinds) and not pa.types.is_interval(data_type)


def _ranges(ends: list[str]) -> list[str]:
    """The names of the ranges up to each end, and of the one above all."""
    between = [f"above {low}, up to {high}" for low, high in pairwise(ends)]
    return [f"up to {ends[0]}", *between, f"above {ends[-1]}"]


def _no_codes(values: pa.Array) -> Integers:
    """The codes of a column without cells."""
    return np.full(len(values), -1, dtype=np.int64)


def _floats(values: pa.Array) -> Floats:
    """Numbers, dates and times as numbers in the same order; a null is NaN."""
    if pa.types.is_temporal(values.type):
        width = pa.int32() if values.type.bit_width == 32 else pa.int64()
        values = values.cast(width)
    cast = values.cast(pa.float64(), safe=False)
    return np.asarray(pc.fill_null(cast, np.nan), dtype=np.float64)


def _encode(values: pa.Array) -> tuple[Integers, list[str | None]]:
    """Places in a list of texts, whose last is None for nulls."""
    values = widened(values)
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    known = texts(encoded.dictionary)
    places = np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), len(known)), dtype=np.int64)
    return places, [*known, None]
