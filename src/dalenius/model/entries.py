"""What is seen in the entries of a column: how often they repeat, and which stand for a missing one."""

from __future__ import annotations

from dataclasses import dataclass

_TEXTS = """
    ?, ??, -, --, ., n/a, na, n.a., nan, null, nil, missing, unknown, unk, unspecified, undetermined, invalid,
    unknown/invalid, not available, not applicable, not known, not stated, not mapped, not recorded, not in universe,
    no answer, no data, refused, prefer not to say, unbekannt, keine angabe, inconnu, desconocido
"""
MISSING_TEXTS = frozenset(text.strip() for text in _TEXTS.split(","))  # in lower case, without blanks around them


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


def is_missing_code(text: str) -> bool:
    """Whether a value probably stands for a missing one."""
    return " ".join(text.casefold().split()) in MISSING_TEXTS or not text.strip()
