"""What was done so that no fake value is one that a negative association rules out."""

from __future__ import annotations

from dataclasses import dataclass


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
        learned = "1 negative association was" if self.pairs == 1 else f"{self.pairs:,} negative associations were"
        of_fakes = f"{learned} learned from the release; of {self.fakes:,} fake values"
        if not self.rounds:
            told = f"{of_fakes}, {self.ruled_out_after:,} are ruled out for a record of their bucket"
            return (*self.notes, told)
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        told = (
            f"{of_fakes}, {self.ruled_out_before:,} were ruled out for a record of their bucket before exchanges, and "
            f"{self.ruled_out_after:,} are after {rounds}"
        )
        if self.complete:
            return (*self.notes, told)
        left = f"in {self.buckets_left:,} buckets no exchange was found that lasts, and their fakes stay as they are"
        return (*self.notes, told, left)
