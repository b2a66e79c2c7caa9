"""Every person with every value that they may have, and its probability: for any tool that takes weights.

`learned` probabilities are what the regression leaves open within buckets, so that they add up to 1 for everybody, and
for every value to as often as its bucket has it; with values of nobody, to how many of these are expected to be
somebody's. `bucket` takes all rows of a bucket to be alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from dalenius.analysis.kinds import Standing
from dalenius.analysis.learned import Learned, Lesson, candidates_of
from dalenius.analysis.pieces import Piece, distinct_rows, read_pieces, slot_tables
from dalenius.errors import UsageError
from dalenius.infer.candidates import Block, Candidates, Floats
from dalenius.infer.features import Singles
from dalenius.infer.regression import matched
from dalenius.model.estimate import free_name
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder
from dalenius.tables.arrays import arrow_array

Weights = Literal["learned", "bucket"]
PERSON, WEIGHT = "person", "weight"
_ROWS = 2**16  # of a piece
_PASSES = 40  # of scaling, until values add up

WARNINGS: dict[Weights, str] = {
    "learned": "Standard errors from weighted rows are too small. For those, use completed tables.",
    "bucket": "Bucket weights know nothing of what goes together across buckets: whatever relates quasi-identifiers to "
    "sensitive values comes out too weak. Use learned weights.",
}


class Weighing:
    """The weighted rows of a release, for one sensitive column."""

    def __init__(
        self,
        folder: ReleaseFolder,
        weights: Weights,
        column: str | None = None,
        lesson: Lesson | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`lesson` is what was learned of this column before."""
        if weights not in get_args(Weights):
            raise UsageError(f"there are no weights {weights!r}", "There are 'learned' and 'bucket'.")
        names = folder.manifest.sensitive_names
        if column is None and len(names) > 1:
            raise UsageError(
                f"the release has {len(names):,} sensitive columns, and weights are for one of them",
                f"Say which: {', '.join(map(repr, names))}.",
            )
        self.warning = WARNINGS[weights]
        self._folder, self._progress = folder, progress or Silent()
        self._tables = slot_tables(folder, [column or names[0]])
        self.lesson = None
        if weights == "learned":
            self.lesson = lesson or Lesson(folder, self._tables, self._progress)
        identifiers = [one.name for one in folder.manifest.columns.quasi_identifiers]
        taken = {*identifiers, *self._tables[0].names}
        own = [free_name(name, taken) for name in (PERSON, WEIGHT)]
        self.names = [own[0], *identifiers, *self._tables[0].names, own[1]]

    def require_room(self) -> None:
        """A MemoryLimitError if all weighted rows together are too many to be held."""
        manifest, memory = self._folder.manifest, self._folder.memory
        lines = manifest.rows * -(-manifest.rows // max(1, manifest.buckets))  # everybody with the values of a bucket
        memory.require(lines * 8 * len(self.names), memory.engine, "all weighted rows at once")

    @property
    def notes(self) -> list[str]:
        """What to know of these weights in particular."""
        return self.lesson.notes if self.lesson is not None else []

    def pieces(self) -> Iterator[pa.Table]:
        """One piece of the release after the other: a row for every person and possible value."""
        learned = self.lesson.learned[0] if self.lesson is not None else None
        first = 0
        self._progress.stage("Weighing", self._folder.manifest.rows)
        for piece in read_pieces(self._folder, self._tables, _ROWS):
            yield self._table(piece, learned, first)
            first += len(piece)
            self._progress.advance(len(piece))

    def _table(self, piece: Piece, learned: Learned | None, first: int) -> pa.Table:
        """Rows of a piece whose first person has the number `first`, counted from 0."""
        values, of_slots = distinct_rows(piece.slots[0])
        candidates = candidates_of(piece, 0, of_slots, values.num_rows, ())
        if learned is not None:
            standing, logits, totals = self._model(piece, learned, values, candidates)
        people, chosen, weights = [], [], []
        for block in candidates.blocks:
            if learned is not None:
                codes = standing.codes[block.values]
                shares = np.exp(standing.logits(logits, block.rows[:, :, None], codes[:, None, :]))
                kinds = standing.kinds[block.values]
                share = matched(block, shares, np.take_along_axis(totals[block.buckets], kinds, axis=1), _PASSES)
            else:
                share = _alike(block)
            shape = share.shape
            people.append(np.broadcast_to(block.rows[:, :, None], shape).ravel())
            chosen.append(np.broadcast_to(block.values[:, None, :], shape).ravel())
            weights.append(share.ravel())
        person, value = np.concatenate(people), np.concatenate(chosen)
        weight = np.concatenate(weights, dtype=np.float64)  # large buckets are matched in single precision
        order = np.lexsort((value, person))
        person, value, weight = person[order], value[order], weight[order]
        at, what = arrow_array(person), arrow_array(value)
        columns = [pa.chunked_array([arrow_array(person + first + 1)])]
        columns += [column.take(at) for column in piece.rows.columns]
        columns += [column.take(what) for column in values.columns]
        columns.append(pa.chunked_array([arrow_array(weight)]))
        return pa.table(columns, names=self.names)

    def _model(
        self, piece: Piece, learned: Learned, values: pa.Table, candidates: Candidates
    ) -> tuple[Standing, Singles, Floats]:
        """Where each value stands, how probable kinds are for rows, and how frequent in the strata of buckets."""
        assert self.lesson is not None  # noqa: S101 (it is whose `learned` this is)
        strata, buckets = self.lesson.strata(piece.buckets), self.lesson.strata(candidates.numbers)
        logits = learned.logits(self.lesson.columns_of(piece.rows), strata, None, self.lesson.further_of(piece.rows))
        logits -= logits.max(axis=1, keepdims=True)
        return learned.kinds.standing(values), logits, learned.shares(buckets)


def _alike(block: Block) -> Floats:
    """The share of each value in its bucket, for every row."""
    shares: Floats = np.repeat((block.counts / block.slots)[:, None, :], block.size, axis=1)
    return shares
