"""What somebody gets who knows a person's value of one sensitive column, where another is kept together with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dalenius.model.concern import Concern, Severity, name_some, percent, quoted


@dataclass(frozen=True)
class KnownColumn:
    """Of each of `people`, somebody knows the bucket and the value of column `known`, and asks for that of `asked`.

    The tuples of the bucket with the known value give each value of the other column a probability. Of `above` people
    some value gets one above its limit, and of `pinned` people it is 1. `largest` is the largest probability of a
    value, among those with limits below 1. Where people have several rows (`several`), it is about what is in the same
    row: the least that such a person gets to know. Whoever has two values of the known column then counts twice.
    """

    known: str
    asked: str
    people: int
    above: int
    pinned: int
    largest: Fraction
    several: bool

    def sentence(self) -> str:
        """What it comes to."""
        share = f"{self.above:,} of {self.people:,} {'people with a value' if self.several else 'people'}"
        if not self.above:
            return (
                f"whoever knows somebody's {quoted(self.known)} is above no limit of {quoted(self.asked)}: the largest "
                f"probability of a value is {percent(float(self.largest))}"
            )
        outright = "" if self.pinned == 0 else f", and gets it outright for {self.pinned:,}"
        if self.pinned == self.above:
            outright = ", and gets it outright for all of them"
        least = "at least " if self.several else ""
        return (
            f"whoever knows somebody's {quoted(self.known)} is above the limit of a value of {quoted(self.asked)} for "
            f"{least}{share}{outright}"
        )

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "known": self.known,
            "asked": self.asked,
            "people": self.people,
            "above": self.above,
            "pinned": self.pinned,
            "largest": float(self.largest),
            "at_least": self.several,
        }


def together_concerns(together: Iterable[Sequence[str]], found: Sequence[KnownColumn]) -> list[Concern]:
    """One concern for each list of columns that are kept together; two pairs of many are put into words."""
    concerns = []
    for columns in together:
        own = [one for one in found if one.known in columns and one.asked in columns]
        worst = sorted(own, key=lambda one: (-one.pinned, -one.above))[:2]
        says = "; ".join(one.sentence() for one in worst)
        concerns.append(
            Concern(
                "kept-together",
                Severity.LOOK,
                f"{name_some(list(columns))} are kept together{': ' + says if says else ''}",
                "If analysts do not need what goes with what, leave out --keep-together: then a value of one column "
                "says nothing of another beyond its bucket. Larger buckets (--min-size) and coarser values tell less.",
                people=max((one.above for one in own), default=None),
                columns=tuple(columns),
            )
        )
    return concerns
