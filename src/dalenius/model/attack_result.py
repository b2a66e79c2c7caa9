"""The results of simulated attacks on a release: how well each did, its baselines, and the promises that it broke.

A limit is what may be believed. An attacker who puts people above limits and is right no more often than the limits
allow has learned nothing that they forbid; one who is right more often has, even if no promise of the release covers
it. `Attack.points` is by how much, and `Audit.concerns` what follows for publication.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dalenius.model.concern import Advice, Concern, Severity, advise, by_weight

# The attackers in the order in which they are played and shown, and what each of them does.
ATTACKS = {
    "corruption": "Knows the sensitive values of some records of a bucket, and infers the others.",
    "negative": "Rules out values that, as the release shows, hardly ever occur with a person's quasi-identifiers.",
    "learning": "Learns from all buckets together how quasi-identifiers and values are related, and uses it in each.",
    "minimality": "Asks why parts of the table were merged into one stratum: which of them has too much of a value?",
    "order": "Knows how the program works, and tries to read values from the order of rows.",
}

STOP_ABOVE = 10.0  # percentage points by which claims are right more often than limits allow: against publication
LOOK_ABOVE = 1.0  # to be looked at
_WORST = 3  # values, in a sentence

_NORMAL_95 = 1.959963984540054  # the 0.975 quantile of the normal distribution


@dataclass(frozen=True)
class Share:
    """A share of people with its 95 % interval."""

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, count: float, people: int, z: float = _NORMAL_95) -> Share | None:
        """Wilson's interval for `count` of `people`; the count may be an expected one. None if there are no people.

        With p = count / people and n people, the interval is

            (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n).
        """
        if people <= 0:
            return None
        share = min(max(count / people, 0.0), 1.0)
        centre = share + z * z / (2 * people)
        reach = z * math.sqrt(share * (1 - share) / people + z * z / (4 * people * people))
        scale = 1 + z * z / people
        low, high = (centre - reach) / scale, (centre + reach) / scale
        return cls(share, min(share, max(0.0, low)), max(share, min(1.0, high)))


@dataclass(frozen=True)
class ValueClaims:
    """The claims about one value: how many, how many of them are true, and the value's limit."""

    value: str
    claims: int
    right: float
    limit: float

    @property
    def excess(self) -> float:
        """How many more are true than the limit allows."""
        return self.right - self.claims * self.limit


@dataclass(frozen=True)
class Attack:
    """One attacker. What can be told only with the true values is None if they were not given.

    `success` is the share of people whose value is guessed, `baseline` that of guessing by count / size within the
    bucket, and `control` that of the same guesses on people whom they cannot be about. A claim is a (person, value)
    whose probability the attacker puts above the value's limit; `claims_right` of them are true, and `mean_limit` is
    the mean of their limits. `worst` are the values whose claims are true more often than their limits allow, the worst
    first. `broken` are promises of the release that the attack broke, as sentences. `beyond` says that the attacker
    knows more than the release was made to withstand.
    """

    name: str
    people: int
    success: Share | None = None
    baseline: Share | None = None
    control: Share | None = None
    people_above_limit: int | None = None
    claims: int | None = None
    claims_right: int | None = None
    mean_limit: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    worst: tuple[ValueClaims, ...] = ()
    beyond: bool = False

    @property
    def right(self) -> Share | None:
        """The share of claims that are true."""
        return Share.of(self.claims_right, self.claims) if self.claims and self.claims_right is not None else None

    @property
    def points(self) -> float | None:
        """By how many percentage points claims are true more often than the limits allow; None without the truth."""
        if self.claims == 0 and self.claims_right is not None:
            return 0.0
        return 100 * (self.right.share - self.mean_limit) if self.right and self.mean_limit is not None else None

    @property
    def concern(self) -> Concern | None:
        """What it means for publication; None if there is nothing to worry about, or nothing known."""
        points, right, limit = self.points, self.right, self.mean_limit
        if points is None or right is None or limit is None or points <= LOOK_ABOVE or right.low <= limit:
            return None
        severity = Severity.NOTE if self.beyond else Severity.STOP if points > STOP_ABOVE else Severity.LOOK
        named = ", ".join(repr(value.value) for value in self.worst[:_WORST])
        message = (
            f"the attacker {self.name!r} puts {self.people_above_limit or 0:,} people above a limit, and is right in "
            f"{right.share:.1%} of the claims where the limits allow {limit:.1%}"
            + (f"; worst: {named}" if named else "")
        )
        return Concern(
            "above-limit",
            severity,
            message + ("; the release was not made to withstand this attacker" if self.beyond else ""),
            "Publish again with --corrupted 1."
            if self.beyond
            else "Leave out columns that tell the value, or lower "
            "these values' limits; compare --strata auto and --strata none.",
            people=self.people_above_limit,
            points=round(points, 1),
            attacker=self.name,
            values=tuple(value.value for value in self.worst),
        )


@dataclass(frozen=True)
class Audit:
    """All attacks on a release. `used` of its rows were looked at by attacks that learn: all, or a sample.

    `approximate` says that in this sample the truth is not certain, so that intervals do not cover all of the error.
    `others` are concerns that do not come from attacks: from verifying the release, and from the table itself.
    """

    attacks: tuple[Attack, ...]
    rows: int
    buckets: int
    known_records: int
    fake_values: int
    used: int
    notes: tuple[str, ...] = ()
    approximate: bool = False
    others: tuple[Concern, ...] = ()

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What to know before publication, the heaviest first: from the attacks, and from what was seen before them."""
        broken = (Concern("promise-broken", Severity.STOP, sentence) for sentence in self.broken)
        attacks = (attack.concern for attack in self.attacks)
        unknown = [
            Concern(
                "not-measured",
                Severity.LOOK,
                f"{max(attack.people_above_limit or 0 for attack in unscored):,} people are put above a limit by an "
                "attacker; how often rightly is not known without the table",
                "Audit with --truth TABLE.",
            )
            for unscored in [[attack for attack in self.attacks if attack.claims and attack.claims_right is None]]
            if unscored
        ]
        return by_weight((*self.others, *broken, *(one for one in attacks if one is not None), *unknown))

    @property
    def advice(self) -> Advice:
        """Whether to publish, by the worst of the concerns."""
        return advise(self.concerns)

    @property
    def broken(self) -> tuple[str, ...]:
        """Promises that an attack broke, as sentences."""
        return tuple(sentence for attack in self.attacks for sentence in attack.broken)

    @property
    def sampled(self) -> bool:
        """Whether some rows were left out."""
        return self.used < self.rows

    def __getitem__(self, name: str) -> Attack:
        return next(attack for attack in self.attacks if attack.name == name)
