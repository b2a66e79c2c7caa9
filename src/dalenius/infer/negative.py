"""Pairs of a quasi-identifier's value z and a sensitive value x that are clearly rarer than chance (Section 6).

From the release alone. A_z rows have z, o_x records have x, n there are: by chance E = A_z o_x / n would have both.
`association.py` has a posterior for the number N that do, from how z is spread over buckets of different composition.
A pair is negative if

    mean N / E <= 1/4          the effect is large,
    E >= 20                    and of many records,
    (E - mean N) / deviation   is significant: one-sided normal p-values, Benjamini-Hochberg at 0.01 over all pairs
                               with E >= 20. E is known from the margins, so that choice does not spoil the test.

The p-values are cautious where there is no association: the posterior pulls its mean towards E, which a p-value for an
unbiased estimate does not ask for.

Where the table was cut into strata, N and its deviation are those of `pooling.py`, which adds up what the strata
show. E stays that of the whole table: so z and x may be a negative pair because z is in strata where x is rare, or is
not at all, which their buckets show with little doubt or none. The mean is then pulled towards independence within
strata and not towards E, and the caution above is less: the deviation has to be right.

With σ values of nobody in a bucket of S rows, fake ones or those of people who left, each slot is real with
probability S / (S + σ); `association.py` scales the slots by that, and counts what it adds to the deviation.

Measured on census data (300,000 records, occupation, θ = 8; 248 of 2,553 pairs have a true ratio below 1/4): 32 pairs,
31 of them with a true ratio below 1/2, all below 1. They are 8 % of the 248, and by the records expected 37 %: most
are too small to be seen. The other way is naive Bayes by expectation maximisation (Kifer 2009). It has more
power and no control of errors: run to its end, its counts have 355 pairs of at most 1/4, half of them wrong, and 285 on
a shuffled table, where there are none. Stopped early under a strong prior it has 188 pairs of at most 1/2, of which
86 % are so; but where to stop is seen with the truth at hand only, and all rows with all their values are in memory.
The same table in 20, 68 and 86 strata: 169, 174 and 183 pairs, all with a true ratio below 1/2; none on three shuffled
tables in about 61 strata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import ReleaseError
from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.cells import Cells, new_column
from dalenius.infer.compositions import (
    Compositions,
    UnsupportedError,
    find_compositions,
    first_buckets,
    rows_of_buckets,
)
from dalenius.infer.pooling import Associations
from dalenius.policy.bands import Bands
from dalenius.release.folder import ReleaseFolder
from dalenius.tables.arrays import texts, widened

Booleans = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

LEVEL = 0.01
MOST_RATIO = 0.25
LEAST_EXPECTED = 20.0
_ROWS_AT_ONCE = 2**16
_WORD = 64


@dataclass(frozen=True)
class NegativePair:
    """A value or range of a column, and a sensitive value that records with it hardly ever have."""

    column: str
    value: str
    sensitive: str
    expected: float
    estimated: float
    ratio: float
    p_value: float


class NegativePairs:
    """All pairs. `columns` are those with a pair, all that a batch must have; `concerned` the values with one."""

    def __init__(
        self,
        values: int,
        masks: Sequence[tuple[Cells, Booleans]] = (),
        pairs: Sequence[NegativePair] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.values = values
        self.columns = tuple(cells.column for cells, _ in masks)
        self.pairs, self.notes = tuple(pairs), tuple(notes)
        some = np.logical_or.reduce([np.zeros(values, dtype=np.bool_), *(mask.any(axis=0) for _, mask in masks)])
        self.concerned: Integers = np.flatnonzero(some)
        self._masks = [(cells, _pack(mask[:, self.concerned])) for cells, mask in masks]

    def words(self, batch: pa.RecordBatch) -> Words:
        """Rows x words: bit k of a row, 64 a word, is set if any of its values rules out `concerned[k]`."""
        words = np.zeros((batch.num_rows, -(-len(self.concerned) // _WORD)), dtype=np.uint64)
        for cells, mask in self._masks:
            words |= mask[cells.codes(batch)]  # the last line, that of the code -1, is empty
        return words

    def ruled_out(self, batch: pa.RecordBatch) -> Booleans:
        """Rows x values, in the manifest's order: ruled out by any of the row's values."""
        ruled_out = np.zeros((batch.num_rows, self.values), dtype=np.bool_)
        octets = self.words(batch).astype("<u8").view(np.uint8)
        bits = np.unpackbits(octets, axis=1, count=len(self.concerned), bitorder="little")
        ruled_out[:, self.concerned] = bits.view(np.bool_)
        return ruled_out


def negative_pairs(
    folder: ReleaseFolder,
    *,
    level: float = LEVEL,
    most_ratio: float = MOST_RATIO,
    least_expected: float = LEAST_EXPECTED,
) -> NegativePairs:
    """The pairs that a release shows, in one pass over ST and two over QIT."""
    values = [entry.value for entry in folder.manifest.values]
    held = rows_of_buckets(folder) if folder.manifest.surplus else None
    try:
        compositions = find_compositions(_coded_values(folder, values, held), first_buckets(folder.manifest.strata))
    except UnsupportedError as reason:
        return NegativePairs(len(values), notes=[f"{str(reason).rstrip('.')}: no negative associations are learned"])
    fakes = folder.manifest.adversary.fake_values
    if held is not None:
        there = np.flatnonzero(held)
        filling = compositions.filling(there, held[there])
    else:
        filling = compositions.with_fakes(fakes)
    association = Associations(compositions, filling)
    columns, notes = _columns(folder, least_expected * association.records.sum() / association.records.max())
    counts, rows = _count_cells(folder, columns, compositions)
    beyond = compositions.rows - compositions.buckets * fakes - rows
    if (beyond < 0).any() or (held is None and beyond.any()):
        raise ReleaseError("some buckets have more rows than values, or fewer", "Run dalenius verify on the release.")
    tests = [_test_pairs(association, matching, least_expected) for matching in counts]
    significant = select_significant(np.concatenate([np.zeros(0), *(part.p_values for part in tests)]), level)
    masks: list[tuple[Cells, Booleans]] = []
    pairs: list[NegativePair] = []
    for cells, part in zip(columns, tests, strict=True):
        own, significant = significant[: len(part.cells)] & (part.ratios <= most_ratio), significant[len(part.cells) :]
        if own.any():
            mask = np.zeros((len(cells.names) + 1, len(values)), dtype=np.bool_)
            mask[part.cells[own], part.values[own]] = True
            masks.append((cells, mask))
            pairs += [part.pair(int(k), cells, values) for k in np.flatnonzero(own)]
    return NegativePairs(len(values), masks, sorted(pairs, key=lambda pair: (pair.p_value, pair.ratio)), notes)


def select_significant(p_values: Floats, level: float) -> Booleans:
    """Benjamini and Hochberg (1995): of what is chosen, at most the share `level` is expected to be chance."""
    order = np.argsort(p_values, kind="stable")
    passed = np.flatnonzero(p_values[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1))
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[: int(passed[-1]) + 1 if len(passed) else 0]] = True
    return chosen


@dataclass(frozen=True)
class _PairTests:
    """The pairs of one column: cells, values, and what is expected and estimated."""

    cells: Integers
    values: Integers
    expected: Floats
    means: Floats
    deviations: Floats

    @property
    def ratios(self) -> Floats:
        ratios: Floats = np.maximum(self.means, 0) / self.expected
        return ratios

    @property
    def p_values(self) -> Floats:
        short = self.expected - self.means
        exact = np.where(short > 0, np.inf, -np.inf)
        scores = np.where(self.deviations > 0, short / np.where(self.deviations > 0, self.deviations, 1), exact)
        return np.array([erfc(score / sqrt(2)) / 2 for score in scores.tolist()])

    def pair(self, k: int, cells: Cells, values: Sequence[str]) -> NegativePair:
        mean, value = max(float(self.means[k]), 0.0), values[self.values[k]]
        name, expected, p_value = cells.names[self.cells[k]], float(self.expected[k]), float(self.p_values[k])
        return NegativePair(
            column=cells.column,
            value=name,
            sensitive=value,
            expected=expected,
            estimated=mean,
            ratio=mean / expected,
            p_value=p_value,
        )


def _test_pairs(association: Associations, matching: Integers, least: float) -> _PairTests:
    """The pairs of one column of which enough is expected; `matching` are its rows by cell and class."""
    records = association.records
    expected = matching.sum(axis=1)[:, None] * records / records.sum()
    cells, values = np.nonzero(expected >= least)
    means, deviations = np.zeros(len(cells)), np.zeros(len(cells))
    for first in range(0, len(cells), association.at_once):
        part = slice(first, first + association.at_once)
        targets = np.zeros((len(cells[part]), len(records)))
        targets[np.arange(len(targets)), values[part]] = 1
        posterior = association.posterior(matching[cells[part]].astype(np.float64), targets)
        means[part], deviations[part] = posterior.mean, posterior.deviation
    return _PairTests(cells=cells, values=values, expected=expected[cells, values], means=means, deviations=deviations)


def _coded_values(
    folder: ReleaseFolder, values: Sequence[str], held: Integers | None
) -> Iterator[tuple[Integers, Integers]]:
    """The buckets of ST and the numbers of its values; `held` are rows by bucket, if there are buckets without any."""
    columns, null = folder.manifest.columns, folder.manifest.null_value
    number = {value: k for k, value in enumerate(values)}
    cuts = None if folder.manifest.bands is None else [Fraction(cut) for cut in folder.manifest.bands]
    for batch in folder.batches("st", coded=True):
        encoded = widened(batch[columns.sensitive.name])
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        named = texts(encoded.dictionary) if cuts is None else _band_names(encoded.dictionary, cuts)
        known = [number.get(str(text), -1) for text in named]
        places = pc.fill_null(encoded.indices.cast(pa.int64()), len(known))
        codes = np.array([*known, number.get(null, -1) if null is not None else -1])[np.asarray(places)]
        if (codes < 0).any():
            raise ReleaseError("the manifest does not name all the values", "Run dalenius verify on the release.")
        buckets = np.asarray(batch[columns.bucket], dtype=np.int64)
        if held is not None:
            there = held[np.clip(buckets, 0, len(held) - 1)] > 0
            buckets, codes = buckets[there], codes[there]
        yield buckets, codes


def _band_names(numbers: pa.Array, cuts: Sequence[Fraction]) -> list[str]:
    """The bands of some numbers; decimals are compared as whole numbers of their last digit."""
    names, exact = Bands(tuple(cuts)).names, list(cuts)
    if pa.types.is_decimal(numbers.type):
        exact = [cut * Fraction(10) ** int(numbers.type.scale) for cut in cuts]
        plain = np.array([int(number.scaleb(numbers.type.scale)) for number in numbers.to_pylist()], np.int64)
    else:
        plain = np.asarray(numbers)
    return [names[band] for band in Bands(tuple(exact)).of(plain).tolist()]


def _columns(folder: ReleaseFolder, least_rows: float) -> tuple[list[Cells], list[str]]:
    """The columns of QIT cut into cells, and notes on what is not looked at."""
    entries, schema = folder.manifest.columns.quasi_identifiers, folder.schema("qit")
    columns = [new_column(entry.name, schema.field(entry.name).type, folder.manifest.rows) for entry in entries]
    random = np.random.default_rng(0)  # for a sample of published rows: nothing secret
    for batch in folder.batches("qit", [entry.name for entry in entries], rows=_ROWS_AT_ONCE, coded=True):
        for column, entry in zip(columns, entries, strict=True):
            column.add(batch[entry.name], random)
    cells_and_notes = [column.cells(least_rows) for column in columns]
    return [cells for cells, _ in cells_and_notes], [note for _, note in cells_and_notes if note]


def _count_cells(
    folder: ReleaseFolder, columns: Sequence[Cells], compositions: Compositions
) -> tuple[list[Integers], Integers]:
    """The rows of every column by cell and class, and all rows by class."""
    bucket, classes = folder.manifest.columns.bucket, compositions.number
    by_cell = [np.zeros((len(cells.names), classes), dtype=np.int64) for cells in columns]
    rows = np.zeros(classes, dtype=np.int64)
    for batch in folder.batches("qit", rows=_ROWS_AT_ONCE, coded=True):
        kinds = compositions.of(np.asarray(batch[bucket], dtype=np.int64))
        rows += np.bincount(kinds, minlength=classes)
        for cells, counts in zip(columns, by_cell, strict=True):
            codes = cells.codes(batch)
            keys = (codes * classes + kinds)[codes >= 0]
            counts += np.bincount(keys, minlength=counts.size).reshape(counts.shape)
    return by_cell, rows


def _pack(mask: Booleans) -> Words:
    octets = np.packbits(mask, axis=1, bitorder="little")
    width = -(-mask.shape[1] // _WORD) * 8
    padded = np.pad(octets, ((0, 0), (0, width - octets.shape[1])))
    return np.ascontiguousarray(padded).view("<u8").astype(np.uint64)
