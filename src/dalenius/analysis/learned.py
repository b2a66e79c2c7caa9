"""What a release tells of its sensitive values, learned from all buckets or from a random sample of whole ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from dalenius.analysis.pieces import Piece, SlotTable, read_pieces
from dalenius.infer.candidates import Candidates, Coder, Column, Floats, Integers, code_column, make_blocks
from dalenius.infer.curvature import Pair
from dalenius.infer.features import MOST_KINDS, Coding, Design, Singles, frequent_kinds
from dalenius.infer.regression import ROUNDS, Regression, fit
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.release.two_tables import is_text, named_type
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes

MOST_CELLS = 2**24  # rows times kinds of values, that are learned from: four bytes each, in three tables
_MOST_RANGES = 16  # of numbers that are not in bands
_MOST_KNOTS = 2**12  # at which it is known where numbers stand among their kinds
_LEAST = 1e-9
_MANY_STRATA = 20
_CONFUSED = 0.05  # of the variance that random buckets would have

Further = Callable[[pa.Table], Singles]  # rows to features that are to be learned without being held to be silent


@dataclass(frozen=True)
class Standing:
    """Where slots stand: in a kind, or, if they are numbers, as far as `above` from there to the next kind.

    Kinds of numbers are ranges that follow each other, and stand for the number in their middle. What the model says of
    a number is between what it says of the kinds around it; below the first middle and above the last it goes on
    straight.
    """

    kinds: Integers
    above: Singles | None

    @property
    def codes(self) -> Integers:
        """A number for every slot, the same only for slots that stand at the same place."""
        return self.kinds if self.above is None else np.arange(len(self.kinds))

    def logits(self, table: Singles, rows: Integers, codes: Integers) -> Singles:
        """What a table of rows by kinds says of some rows and slots; of the latter it takes the codes."""
        flat, kinds = table.ravel(), codes if self.above is None else self.kinds[codes]
        places = rows * table.shape[1] + kinds
        found: Singles = flat.take(places)
        if self.above is not None:
            found += self.above[codes] * (flat.take(places + 1, mode="clip") - found)
        return found


class Kinds:
    """Slots as kinds of values: frequent values or tuples are told apart, and ranges of numbers that are not in bands.

    `of` may be asked of slots that were not there when kinds were made: they are of the last kind, or in a range.
    """

    def __init__(self, slots: SlotTable) -> None:
        self._codes: list[ValueCodes] = []
        manifest = slots.folder.manifest
        names = manifest.sensitive_names
        for name in slots.names:
            view = manifest.view(names.index(name)) if name in names else manifest
            listed = [entry.value for entry in view.values]
            self._codes.append(value_codes(view, listed, slots.folder.memory))
        column = manifest.columns.sensitive
        kind = named_type(column.type)
        numeric = not (is_text(kind) or pa.types.is_boolean(kind))
        null = manifest.null_value
        self._null = [entry.value for entry in manifest.values].index(null) if null is not None else -1
        self._banded = manifest.bands is not None
        self._ranges = numeric and len(slots.names) == 1 and not self._banded
        self._keys, self._kinds = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ranged, self.number = False, 0
        self._knots: tuple[Floats, Floats] | None = None  # numbers, and where they stand

    def learn(self, table: pa.Table) -> Integers:
        """Make kinds of what is there, and give those of the slots."""
        keys, places, counts = np.unique(self._key(table), return_inverse=True, return_counts=True)
        self._ranged = self._ranges and len(keys) > MOST_KINDS
        if self._ranged:
            there = np.where(keys == self._null, 0, counts)
            middles = np.cumsum(there) - there / 2
            ranges = np.minimum(middles * _MOST_RANGES / there.sum(), _MOST_RANGES - 1).astype(np.int64)
            ranges[keys == self._null] = _MOST_RANGES  # a kind of its own, and none of numbers
            kinds = np.unique(ranges, return_inverse=True)[1].astype(np.int64)
            self.number = int(kinds.max()) + 1
        else:
            kinds, self.number = frequent_kinds(counts.astype(np.float64))
        self._keys, self._kinds = keys, kinds
        of_slots: Integers = kinds[places]
        if self._ranged or (self._banded and self.number == len(keys)):
            self._knots = _knots(_as_numbers(table), of_slots)
        return of_slots

    def standing(self, table: pa.Table) -> Standing:
        """Where slots stand."""
        kinds = self.of(table)
        if self._knots is None:
            return Standing(kinds, None)
        numbers, places = self._knots
        last = max(0, round(places[-1]) - 1)  # the last kind that has a next one
        found = np.interp(_as_numbers(table), numbers, places)
        at = np.where(np.isnan(found), kinds, np.clip(np.floor(found), 0, last)).astype(np.int64)
        return Standing(at, np.nan_to_num(found - at).astype(np.float32))

    def of(self, table: pa.Table) -> Integers:
        """The kinds of slots."""
        keys = self._key(table)
        place = np.maximum(np.searchsorted(self._keys, keys, side="right") - 1, 0)
        known = self._ranged | (self._keys[place] == keys)  # the manifest has numbers in their order
        kinds: Integers = np.where(known, self._kinds[place], self.number - 1)
        return kinds

    def _key(self, table: pa.Table) -> Integers:
        """One number for each slot, by the places of its values in the manifest."""
        key = np.zeros(table.num_rows, np.int64)
        for codes, column in zip(self._codes, table.columns, strict=True):
            parts = [codes.of(chunk) for chunk in column.chunks] or [np.zeros(0, np.int32)]
            key = key * (len(codes.texts) + 1) + np.concatenate(parts)
        return key


def _as_numbers(table: pa.Table) -> Floats:
    """The only column of a table as floating-point numbers, where a null is no number."""
    column = table.column(0)
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_temporal(plain.type):
        plain = plain.cast(pa.int32() if plain.type.bit_width == 32 else pa.int64())
    numbers: Floats = plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _knots(numbers: Floats, kinds: Integers) -> tuple[Floats, Floats] | None:
    """Where numbers stand: in kind k, from k - 1/2 for the smallest to k + 1/2 for the largest, by their ranks there.

    None if all numbers are of one kind.
    """
    some = np.isfinite(numbers)
    different, firsts, counts = np.unique(numbers[some], return_index=True, return_counts=True)
    if not len(different):
        return None
    of_numbers = kinds[some][firsts]
    if of_numbers[0] == of_numbers[-1]:
        return None
    middles = np.cumsum(counts) - counts / 2
    before = np.searchsorted(of_numbers, of_numbers)
    ends = np.append(0, np.cumsum(counts))
    first, last = ends[before], ends[np.searchsorted(of_numbers, of_numbers, side="right")]
    stands = of_numbers + (middles - first) / (last - first) - 0.5
    chosen = np.unique(np.linspace(0, len(different) - 1, _MOST_KNOTS).astype(np.int64))
    return different[chosen], stands[chosen]


@dataclass(frozen=True)
class Learned:
    """What was learned of the slots of one table. Without anything to learn from, everything is alike.

    `confused` are the ways in which values differ that buckets hardly show.
    """

    slots: SlotTable
    kinds: Kinds
    coding: Coding
    regression: Regression | None
    confused: int = 0

    def draw(self, random: np.random.Generator) -> Pair | None:
        """Slopes and levels that could be behind the release."""
        return self.regression.draw(random) if self.regression is not None else None

    def logits(
        self, columns: Sequence[Column], strata: Integers, point: Pair | None, further: Singles | None
    ) -> Singles:
        """How probable each kind is for rows, as logarithms, up to a number for each row."""
        if self.regression is None:
            return np.zeros((len(strata), self.kinds.number), np.float32)
        features = self.coding.dense(columns, slice(0, len(strata)), further)
        return self.regression.logits_of(features, strata, point)

    def shares(self, strata: Integers) -> Floats:
        """How frequent each kind is in some strata: what a fake value is taken for."""
        if self.regression is None:
            return np.ones((len(strata), self.kinds.number))
        compositions = self.regression.design.compositions
        own = self.regression.by_stratum(compositions, strata, compositions.sum(axis=0)) + _LEAST
        shares: Floats = own / own.sum(axis=1, keepdims=True)
        return shares


class Lesson:
    """What was learned of some slot tables of a release, and how to apply it to any piece of it."""

    def __init__(
        self,
        folder: ReleaseFolder,
        tables: Sequence[SlotTable],
        progress: Progress,
        further: Further | None = None,
        most_cells: int = MOST_CELLS,
        seed: int = 0,
    ) -> None:
        """`further` are features of rows that are asked for, `width` of them if it says so.

        A sample has at most so many cells. Nothing is read or learned before it is needed.
        """
        self._folder, self._tables, self._progress = folder, tables, progress
        self._further, self._last, self._seed = further, last_buckets(folder), seed
        self._kinds = max(min(MOST_KINDS, one.most_values) for one in tables)
        self._most = max(1, most_cells // (self._kinds + getattr(further, "width", 0)))

    @cached_property
    def sample(self) -> Piece:
        """Whole buckets, at random if there are too many rows."""
        share = min(1.0, self._most / self._folder.manifest.rows)
        return _sample(self._folder, self._tables, share, self._progress, np.random.default_rng(self._seed))

    @property
    def rows(self) -> int:
        """How many rows were learned from."""
        return len(self.sample)

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.rows == self._folder.manifest.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the sample of which anything can be learned."""
        return tuple(column for column, _ in self._coded)

    @cached_property
    def _coded(self) -> tuple[tuple[Column, Coder], ...]:
        rows = self.sample.rows
        found = [code_column(name, rows.column(name), self._kinds) for name in rows.column_names]
        return tuple(one for one in found if one is not None)

    @cached_property
    def learned(self) -> tuple[Learned, ...]:
        """What was learned of each table."""
        return tuple(self._learn(number, one, self._progress) for number, one in enumerate(self._tables))

    @property
    def notes(self) -> list[str]:
        """What to know of what was learned."""
        notes = []
        if not self.whole:
            every = self._folder.manifest.rows
            notes.append(f"It was learned from a random {self.rows:,} of {every:,} rows, in whole buckets.")
        for one in self.learned:
            names = " and ".join(map(repr, one.slots.names))
            if one.regression is None:
                notes.append(f"Of {names} nothing was learned: values are dealt at random in their buckets.")
            if one.confused:
                notes.append(
                    f"Buckets are nearly all alike in some of their values of {names} ({one.confused:,} of "
                    f"{one.kinds.number - 1:,} contrasts), so they do not show what these go with. Estimates of them "
                    "may be far off, with the wrong sign, and intervals do not know it. A release with more strata "
                    "would tell more."
                )
        return notes

    def strata(self, buckets: Integers) -> Integers:
        """The stratum of every bucket, from 0."""
        return np.minimum(np.searchsorted(self._last, buckets), len(self._last) - 1)

    def columns_of(self, rows: pa.Table) -> tuple[Column, ...]:
        """The columns of other rows, as those of the sample are coded."""
        return tuple(replace(column, codes=coder.of(rows.column(column.name))) for column, coder in self._coded)

    def further_of(self, rows: pa.Table) -> Singles | None:
        """What is asked of other rows."""
        return self._further(rows) if self._further is not None else None

    def _learn(self, number: int, slots: SlotTable, progress: Progress) -> Learned:
        sample, kinds = self.sample, Kinds(slots)
        of_slots = kinds.learn(sample.slots[number])
        further = self.further_of(sample.rows)
        coding = Coding(self.columns, self.rows, further)
        if kinds.number < 2 or not coding.width:
            return Learned(slots, kinds, coding, None)
        candidates = candidates_of(sample, number, of_slots, kinds.number, self.columns)
        progress.stage("Learning", ROUNDS, "rounds")
        strata = self.strata(candidates.numbers)
        found = fit(Design(candidates, strata, coding, further), each_round=lambda: progress.advance(1))
        return Learned(slots, kinds, coding, found, confused_ways(candidates, strata))


def confused_ways(candidates: Candidates, strata: Integers) -> int:
    """In how many of the ways in which values may differ all buckets are nearly alike, unless there are many strata.

    Were values dealt to buckets at random, the composition of a bucket with S slots would have the covariance
    (diag v - v v') / S within a stratum of composition v. So of S times the covariance that is there, those directions
    are counted in which it is less than a small share of that.
    """
    if len(np.unique(strata)) >= _MANY_STRATA:
        return 0  # they differ from each other in all ways
    rows = {stratum: place for place, stratum in enumerate(np.unique(strata).tolist())}
    own = np.array([rows[stratum] for stratum in strata.tolist()])
    totals, slots = np.zeros((len(rows), candidates.values)), np.zeros(len(strata))
    for block in candidates.blocks:
        np.add.at(totals, (own[block.buckets][:, None], block.values), block.counts)
        slots[block.buckets] = block.slots
    shares = totals / totals.sum(axis=1, keepdims=True)
    random = np.zeros((candidates.values, candidates.values))
    for v, number in zip(shares, np.bincount(own), strict=True):
        random += number * (np.diag(v) - np.outer(v, v))
    there = np.zeros_like(random)
    for block in candidates.blocks:
        apart = -shares[own[block.buckets]] * block.slots
        apart[np.arange(len(block.buckets))[:, None], block.values] += block.counts
        there += apart.T @ apart / block.slots
    strength, directions = np.linalg.eigh(random)
    kept = strength > _LEAST * max(strength[-1], 1.0)
    scaled = directions[:, kept] / np.sqrt(strength[kept])
    return int((np.linalg.eigvalsh(scaled.T @ there @ scaled) < _CONFUSED).sum())


def candidates_of(piece: Piece, number: int, kinds: Integers, most: int, columns: tuple[Column, ...]) -> Candidates:
    """The buckets of a piece as what its rows may have: slots of one table, by kind."""
    numbers, bucket_of = np.unique(piece.buckets, return_inverse=True)
    slot_buckets = np.searchsorted(numbers, piece.slot_buckets[number])
    cells, counts = np.unique(slot_buckets * most + kinds, return_counts=True)
    buckets, values = np.divmod(cells, most)
    fakes = (len(kinds) - len(bucket_of)) // max(1, len(numbers))
    blocks = make_blocks(bucket_of, buckets, values, counts, fakes)
    return Candidates(numbers, bucket_of.astype(np.int64), blocks, most, fakes, columns)


def last_buckets(folder: ReleaseFolder) -> Integers:
    """The last bucket of each stratum; a release without strata is one."""
    manifest = folder.manifest
    parts = [one.buckets for one in manifest.strata.strata] if manifest.strata is not None else [manifest.buckets]
    return np.cumsum(parts, dtype=np.int64)


def _sample(
    folder: ReleaseFolder, tables: Sequence[SlotTable], share: float, progress: Progress, random: np.random.Generator
) -> Piece:
    """All buckets, or each with this probability, but at least one."""
    progress.stage("Reading", folder.manifest.rows)
    parts: list[Piece] = []
    for piece in read_pieces(folder, tables):
        progress.advance(len(piece))
        numbers = np.unique(piece.buckets)
        chosen = numbers[random.random(len(numbers)) < share] if share < 1 else numbers
        if not len(chosen) and not parts:
            chosen = random.choice(numbers, 1)
        parts.append(piece.some(chosen) if share < 1 else piece)
    return Piece(
        rows=pa.concat_tables([part.rows for part in parts]).unify_dictionaries(),
        buckets=np.concatenate([part.buckets for part in parts]),
        slots=tuple(pa.concat_tables(one).unify_dictionaries() for one in zip(*(p.slots for p in parts), strict=True)),
        slot_buckets=tuple(np.concatenate(one) for one in zip(*(p.slot_buckets for p in parts), strict=True)),
    )
