"""Completed tables: plain tables, each a possible truth behind a release, drawn from what the release tells.

For every draw, slopes and levels are drawn that could be behind the release (`infer.regression`), and then, within
every bucket, who has which of its values: each way to give them to the rows has a probability in proportion to the
product of what the regression says (`infer.swaps`). So every draw has the quasi-identifiers of QIT, row by row, and in
every bucket exactly its values. What is unknown differs from draw to draw.

Several sensitive columns are drawn each by itself, unless they are kept together: a draw says nothing of which of their
values go together beyond what quasi-identifiers tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from dalenius.analysis.learned import Further, Learned, Lesson
from dalenius.analysis.pieces import Piece, read_pieces, slot_tables
from dalenius.errors import UsageError
from dalenius.infer.candidates import Integers
from dalenius.infer.curvature import Pair
from dalenius.infer.features import Singles
from dalenius.infer.swaps import Swaps
from dalenius.model.estimate import free_name
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder
from dalenius.tables.arrays import arrow_array

DRAWS = 20
_MOST_DRAWS = 1000
MARK = "drawn_not_data"
SWEEPS = 24
Slots = list[Integers]  # for every slot table, the slot of each row
_WORKERS = 2  # each holds what is worked out for a piece
_ROWS, _LEAST_ROWS = 2**17, 2**12  # of a piece: those for as many draws as usual, and at least

NOT_DATA = (
    "This table was drawn from a release of Dalenius. It is not the data: who has which sensitive value is a guess, "
    "and differs from draw to draw. Use all draws, and pool what you find in each. No row says anything of anybody."
)


class Completion:
    """Draws completed tables of a release. The same seed gives the same draws; by default none does."""

    def __init__(
        self,
        folder: ReleaseFolder,
        draws: int = DRAWS,
        *,
        columns: Sequence[str] | None = None,
        seed: int | None = None,
        further: Further | None = None,
        lesson: Lesson | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`lesson` is what was learned of these columns before."""
        require_draws(draws, seed)
        self.draws, self._folder = draws, folder
        self.tables = slot_tables(folder, columns)
        self._progress = progress or Silent()
        taken = {name for one in self.tables for name in one.names}
        names = [column.name for column in folder.manifest.columns.quasi_identifiers]
        self.mark = free_name(MARK, {*names, *taken})
        self.names = [*names, *(name for one in self.tables for name in one.names), self.mark]
        self._random = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(draws)]
        self.lesson = lesson or Lesson(folder, self.tables, self._progress, further)

    @property
    def rows(self) -> int:
        """How many rows every draw has."""
        return self._folder.manifest.rows

    @cached_property
    def _points(self) -> list[list[Pair | None]]:
        """The slopes and levels of each draw and slot table."""
        return [[learned.draw(one) for learned in self.lesson.learned] for one in self._random]

    def require_room(self) -> None:
        """A MemoryLimitError if all draws together are too many to be held."""
        needed = self.rows * self.draws * 8 * len(self.names)
        self._folder.memory.require(needed, self._folder.memory.engine, "all completed tables at once")

    @property
    def notes(self) -> list[str]:
        """What to know of these draws in particular."""
        notes = []
        if len(self.tables) > 1:
            notes.append(
                "Sensitive columns were drawn each by itself: how they go together is not to be learned from these "
                "tables, unless they are kept together."
            )
        return [*notes, *self.lesson.notes]

    def pieces(self) -> Iterator[list[pa.Table]]:
        """One piece of the release after the other, whole buckets in their order: a table for each draw."""
        for piece, draws in self.drawn():
            yield [self._table(piece, number, slots) for number, slots in enumerate(draws)]

    def drawn(self) -> Iterator[tuple[Piece, list[Slots]]]:
        """The same as the pieces themselves, and for each draw the slot that every row has in every slot table."""
        points = self._points  # and not in several threads
        self._progress.stage("Drawing", self._folder.manifest.rows * self.draws)
        with ThreadPoolExecutor(_WORKERS) as workers:
            randoms = deepcopy(self._random)  # whoever asks again gets the same
            rows = max(_LEAST_ROWS, min(_ROWS, _ROWS * DRAWS // self.draws))
            for piece in read_pieces(self._folder, self.tables, rows):
                prepared = _Prepared(self.lesson, piece)
                yield piece, list(workers.map(partial(self._slots, piece, prepared), points, randoms))

    def _slots(
        self, piece: Piece, prepared: _Prepared, points: list[Pair | None], random: np.random.Generator
    ) -> Slots:
        found = [prepared.slots(place, point, random) for place, point in enumerate(points)]
        self._progress.advance(len(piece))
        return found

    def _table(self, piece: Piece, number: int, drawn: Slots) -> pa.Table:
        columns = list(piece.rows.columns)
        for slots, own in zip(piece.slots, drawn, strict=True):
            places = arrow_array(own)
            columns += [column.take(places) for column in slots.columns]
        columns.append(pa.chunked_array([arrow_array(np.full(len(piece), number + 1, np.int16))]))
        return pa.table(columns, names=self.names)


def require_draws(draws: object, seed: object, least: int = 1) -> None:
    """Refuse numbers of draws, and seeds, that there cannot be."""
    if not isinstance(draws, int | np.integer) or not least <= draws <= _MOST_DRAWS:
        why = "How much draws differ is what is unknown. " if least > 1 else ""
        raise UsageError(
            f"draws are a whole number from {least:,} to {_MOST_DRAWS:,}, got {draws}", f"{why}20 are usual."
        )
    if seed is not None and (not isinstance(seed, int | np.integer) or seed < 0):
        raise UsageError(f"a seed is a whole number of at least 0, got {seed}", "Leave it out for new draws.")


class _Prepared:
    """What all draws of a piece need."""

    def __init__(self, lesson: Lesson, piece: Piece) -> None:
        self._columns = lesson.columns_of(piece.rows)
        self._further = lesson.further_of(piece.rows)
        self._strata = lesson.strata(piece.buckets)
        self._own = [
            _Slots(learned, piece, number, lesson.strata(np.unique(piece.buckets)))
            for number, learned in enumerate(lesson.learned)
        ]

    def slots(self, number: int, point: Pair | None, random: np.random.Generator) -> Integers:
        """A slot for every row."""
        own = self._own[number]
        return own.draw(own.learned.logits(self._columns, self._strata, point, self._further), random)


class _Slots:
    """The slots of one table in a piece, and how they are given to its rows."""

    def __init__(self, learned: Learned, piece: Piece, number: int, strata: Integers) -> None:
        self.learned, self._rows = learned, len(piece)
        numbers, bucket_of = np.unique(piece.buckets, return_inverse=True)
        slot_buckets = np.searchsorted(numbers, piece.slot_buckets[number])
        self._fakes = np.bincount(slot_buckets) - np.bincount(bucket_of)
        self._swaps = Swaps(bucket_of.astype(np.int64), slot_buckets)
        self._standing = learned.kinds.standing(piece.slots[number])
        self._sweeps = SWEEPS if learned.regression is not None else 0
        if self._fakes.any():
            self._shares = np.log(learned.shares(strata))

    def draw(self, logits: Singles, random: np.random.Generator) -> Integers:
        """A slot for every row; what is nobody's is left."""
        if self._fakes.any():  # further rows, bucket by bucket
            logits = np.concatenate([logits, np.repeat(self._shares, self._fakes, axis=0).astype(np.float32)])
        fits = partial(self._standing.logits, logits)
        return self._swaps.draw(self._standing.codes, fits, self._sweeps, random)[: self._rows]
