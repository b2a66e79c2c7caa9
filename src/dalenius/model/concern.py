"""What a publisher has to know about a table or a release, by weight, and the one verdict that follows from it.

Concerns come from looking at the table before it is published, from verifying the release and from attacking it. They
are one list, the heaviest first, for people and for scripts (docs/json.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a concern weighs: nothing to do, to be looked at before publication, or against publication."""

    NOTE = "note"
    LOOK = "look"
    STOP = "stop"


class Advice(StrEnum):
    """The verdict on a release: that of the worst concern."""

    PUBLISH = "publish"
    LOOK_FIRST = "look at this first"
    DO_NOT_PUBLISH = "do not publish"


_ADVICE = {Severity.NOTE: Advice.PUBLISH, Severity.LOOK: Advice.LOOK_FIRST, Severity.STOP: Advice.DO_NOT_PUBLISH}
_WEIGHTS = list(Severity)
_LONGEST = 40  # characters of a name


@dataclass(frozen=True)
class Concern:
    """One thing to know. `message` is a sentence for people that holds no row; `answer` says what to do about it.

    `people` is how many it concerns, and `points` by how many percentage points an attacker's claims are right more
    often than the limits allow.
    """

    code: str
    severity: Severity
    message: str
    answer: str = ""
    people: int | None = None
    points: float | None = None
    attacker: str | None = None
    values: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @classmethod
    def of_object(cls, concern: dict[str, Any]) -> Concern:
        """The concern that `as_object` gave."""
        given: dict[str, Any] = {**concern, "answer": concern["answer"] or ""}
        given |= {name: tuple(given[name]) for name in ("values", "columns", "groups")}
        return cls(**{**given, "severity": Severity(given["severity"])})

    def as_object(self) -> dict[str, Any]:
        """For JSON: what is not known is null, and every key is there."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "answer": self.answer or None,
            "people": self.people,
            "points": self.points,
            "attacker": self.attacker,
            "values": list(self.values),
            "columns": list(self.columns),
            "groups": list(self.groups),
        }


def by_weight(concerns: Iterable[Concern]) -> tuple[Concern, ...]:
    """The heaviest first; among equals, those that concern more people, then in the order given."""
    return tuple(sorted(concerns, key=lambda one: (-_WEIGHTS.index(one.severity), -(one.people or 0))))


def advise(concerns: Iterable[Concern]) -> Advice:
    """The verdict: that of the worst of them, and to publish where there are none."""
    return _ADVICE[max((concern.severity for concern in concerns), key=_WEIGHTS.index, default=Severity.NOTE)]


def quoted(name: str) -> str:
    """The name of a column or a value in a message."""
    return repr(name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "...")


def name_some(names: Sequence[str], word: str = "and", most: int = 3) -> str:
    """The first few of some names: 'a', 'b' and 2 more."""
    some = [quoted(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(some)} {word} {len(names) - most:,} more"
    return f" {word} ".join(filter(None, [", ".join(some[:-1]), *some[-1:]]))


def percent(share: float) -> str:
    """A share in a message. What is not everything never looks like it, nor does what is not nothing."""
    if 0.1 <= share <= 0.9 or share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"
