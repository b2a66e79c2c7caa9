"""Round by round: learn negative associations from the release as it stands, and exchange the fakes they rule out.

The fakes are chosen before the release is learned from, and an exchange moves two records, so what can be learned
changes a little with every round: pairs near the threshold come and go. What was learned in any round is avoided in all
later ones, or the rounds would chase each other. They end when no fake is ruled out, when no exchange is found, or
after `MOST_ROUNDS`. What is reported is what can be learned from the release that is published.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalenius.infer.negative import NegativePairs, negative_pairs
from dalenius.model.avoidance import Avoidance
from dalenius.model.setting import Partition
from dalenius.place.marks import Marks
from dalenius.place.slots import SlotMap
from dalenius.protect.exchange import Random, exchanges
from dalenius.protect.ruled_out import AnyRuledOut, RuledOut, ruled_out_values
from dalenius.release.folder import ReleaseFolder

MOST_ROUNDS = 6


class Avoiding:
    """The rounds of one release. `report` is about the release that was looked at last."""

    def __init__(self, parts: Sequence[Partition], rng: Random, most_rounds: int = MOST_ROUNDS) -> None:
        """With no rounds at all it only looks."""
        self._parts, self._rng, self._most = parts, rng, most_rounds
        self._rounds = 0
        self._before: int | None = None
        self._learned: list[NegativePairs] = []
        self.report: Avoidance | None = None

    def improved(self, folder: ReleaseFolder, marks: Marks) -> Marks | None:
        """Marks with fewer fakes that are ruled out in the release; None if there is nothing more to do."""
        pairs = negative_pairs(folder)
        self._learned.append(pairs)
        now = _ruled_out(folder, pairs)
        values, slots = marks.current()
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
        earlier = [_ruled_out(folder, learned) for learned in self._learned[:-1]]
        found = exchanges(self._parts, marks, AnyRuledOut([now, *earlier]), self._rng)
        if not len(found.moves):
            return None
        self._rounds += 1
        return marks.moved(found.moves)

    def sentences(self) -> tuple[str, ...]:
        """The publisher's notes."""
        return self.report.sentences() if self.report is not None else ()


def _ruled_out(folder: ReleaseFolder, pairs: NegativePairs) -> RuledOut:
    bucket = folder.manifest.columns.bucket
    batches = folder.batches("qit", [*pairs.columns, bucket])
    return ruled_out_values(batches, pairs, bucket=bucket, buckets=folder.manifest.buckets)
