"""Round by round: learn negative associations from the release as it stands, and exchange the fakes they rule out.

The fakes are chosen before anybody learns from the release, and an exchange moves two records, so what can be learned
changes a little with every round: pairs near the threshold come and go. What was learned in any round is avoided in all
later ones, or the rounds would chase each other. They end when no fake is ruled out, when there is no exchange left, or
after `MOST_ROUNDS`. The report (`Avoidance`) is about what can be learned from the release that is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dalenius.fakes.exchange import AnyRuledOut, Random, RuledOut, find_exchanges, ruled_out_values
from dalenius.infer.negative import NegativePairs, negative_pairs
from dalenius.model.problem import Partition
from dalenius.place.marks import Marks
from dalenius.place.slots import SlotMap
from dalenius.release.folder import ReleaseFolder

MOST_ROUNDS = 6


class FakeImprover:
    """The rounds of one release. `report` is about the release that was looked at last."""

    def __init__(self, parts: Sequence[Partition], rng: Random, most_rounds: int = MOST_ROUNDS) -> None:
        """Without any rounds it only reports."""
        self._parts, self._rng, self._most = parts, rng, most_rounds
        self._rounds = 0
        self._before: int | None = None
        self._pairs: list[NegativePairs] = []
        self.report: Avoidance | None = None

    def improve(self, folder: ReleaseFolder, marks: Marks) -> Marks | None:
        """Marks with fewer fakes that are ruled out in the release; None if there is nothing more to do."""
        pairs = negative_pairs(folder)
        self._pairs.append(pairs)
        now = _ruled_out_by(folder, pairs)
        values, slots = marks.fake_slots()
        buckets = SlotMap(self._parts).bucket_of(values, slots)
        values %= len(self._parts[0].quotas)
        bad = now.of(buckets, values)
        self._before = int(bad.sum()) if self._before is None else self._before
        self.report = Avoidance(
            rounds=self._rounds,
            pairs=len(pairs.pairs),
            fakes=len(values),
            ruled_out_before=self._before,
            ruled_out_after=int(bad.sum()),
            buckets_left=len(np.unique(buckets[bad])),
            notes=pairs.notes,
        )
        if not bad.any() or self._rounds == self._most:
            return None
        earlier = [_ruled_out_by(folder, pairs_before) for pairs_before in self._pairs[:-1]]
        exchanges = find_exchanges(self._parts, marks, AnyRuledOut([now, *earlier]), self._rng)
        if not len(exchanges.moves):
            return None
        self._rounds += 1
        return marks.move(exchanges.moves)

    def sentences(self) -> tuple[str, ...]:
        """The publisher's notes."""
        return self.report.sentences() if self.report is not None else ()


def _ruled_out_by(folder: ReleaseFolder, pairs: NegativePairs) -> RuledOut:
    bucket = folder.manifest.columns.bucket
    batches = folder.batches("qit", [*pairs.columns, bucket])
    return ruled_out_values(batches, pairs, bucket=bucket, buckets=folder.manifest.buckets)


@dataclass(frozen=True)
class Avoidance:
    """For the publisher, not for the release.

    `pairs` negative associations were learned from the release that is published. In `rounds` rounds fakes were
    exchanged; of all `fakes`, so many were ruled out for some record of their bucket before and after. The fakes that
    are left, in `buckets_left` buckets, stay as they are: no exchange was found for them.
    """

    rounds: int
    pairs: int
    fakes: int
    ruled_out_before: int
    ruled_out_after: int
    buckets_left: int
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """No fake is ruled out."""
        return self.ruled_out_after == 0

    def sentences(self) -> tuple[str, ...]:
        """The publisher's notes."""
        if not self.pairs and not self.rounds:
            return (*self.notes, "no negative association was learned from the release, so no fake is ruled out")
        associations = "1 negative association was" if self.pairs == 1 else f"{self.pairs:,} negative associations were"
        of_fakes = f"{associations} learned from the release; of {self.fakes:,} fake values"
        if not self.rounds:
            return (*self.notes, f"{of_fakes}, {self.ruled_out_after:,} are ruled out for a record of their bucket")
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        sentence = (
            f"{of_fakes}, {self.ruled_out_before:,} were ruled out for a record of their bucket before exchanges, and "
            f"{self.ruled_out_after:,} are after {rounds}"
        )
        if self.complete:
            return (*self.notes, sentence)
        left = f"in {self.buckets_left:,} buckets no exchange was found that lasts, and their fakes stay as they are"
        return (*self.notes, sentence, left)
