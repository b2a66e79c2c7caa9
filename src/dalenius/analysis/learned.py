"""What a release tells of its sensitive values, learned from all buckets or from a random sample of whole ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from dalenius.analysis.kinds import Kinds
from dalenius.analysis.pieces import Piece, SlotTable, read_pieces
from dalenius.infer.candidates import Candidates, Coder, Column, Floats, Integers, code_column, make_blocks
from dalenius.infer.curvature import Pair
from dalenius.infer.features import MOST_KINDS, Coding, Design, Singles
from dalenius.infer.regression import ROUNDS, Regression, fit
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

MOST_CELLS = 2**24  # rows times kinds of values, that are learned from: four bytes each, in three tables
_LEAST = 1e-9
_MANY_STRATA = 20
_CONFUSED = 0.05  # of the variance that random buckets would have

Further = Callable[[pa.Table], Singles]  # rows to features that are to be learned without being held to be silent


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
                notes.append(f"Of {names} nothing was learned: who has which value of a bucket is random.")
            if one.confused:
                notes.append(
                    f"Buckets are nearly all alike in some of their values of {names} ({one.confused:,} of "
                    f"{one.kinds.number - 1:,} contrasts), so they do not show what these go with. Estimates of them "
                    "may be far off, with the wrong sign, and intervals do not know it. A release with more strata "
                    "would tell more."
                )
        if self._folder.manifest.surplus:
            notes.append(
                "Values of people who left stay in their buckets, unmarked. Leaving is taken to have nothing to do "
                "with values: if it has, estimates are off by that."
            )
        known = {column.name for column in self.columns}
        if silent := [repr(name) for name in self.sample.rows.column_names if name not in known]:
            notes.append(
                f"Nearly everybody has a text of their own in {', '.join(silent)}, so nothing was learned from it."
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

    If values came to buckets at random, the composition of a bucket with S slots would have the covariance
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
    blocks = make_blocks(bucket_of, buckets, values, counts)
    return Candidates(numbers, bucket_of.astype(np.int64), blocks, most, columns)


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
