"""How often the entries of a column repeat, or those of several together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Occurrences:
    """So many records that have something, so many different ones of it, and how many of those occur only once.

    `pairs` of records have the same. All but the first are estimates if there were too many to count.
    """

    records: int
    different: int
    once: int
    is_estimate: bool = False
    pairs: int = 0

    @property
    def several(self) -> int:
        """How many occur in more than one record."""
        return self.different - self.once


def may_be_alike(alike: int, people: int) -> bool:
    """Whether so many people who differ from others in spelling alone are hardly people of their own."""
    return alike * 200 >= people
