"""The results of simulated attacks on a release: how well each did, its baselines, and the promises that it broke."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The attackers in the order in which they are played and shown, and what each of them does.
ATTACKS = {
    "corruption": "Knows the sensitive values of some records of a bucket, and infers the others.",
    "negative": "Rules out values that, as the release shows, hardly ever occur with a person's quasi-identifiers.",
    "learning": "Learns from all buckets together how quasi-identifiers and values are related, and uses it in each.",
    "minimality": "Asks why parts of the table were merged into one stratum: which of them has too much of a value?",
    "order": "Knows how the program works, and tries to read values from the order of rows.",
}

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
class Attack:
    """One attacker. What can be told only with the true values is None if they were not given.

    `success` is the share of people whose value is guessed, `baseline` that of guessing by count / size within the
    bucket, and `control` that of the same guesses on people whom they cannot be about. A claim is a (person, value)
    whose probability the attacker puts above the value's limit; `claims_right` of them are true, and `mean_limit` is
    the mean of their limits. `broken` are promises of the release that the attack broke, as sentences.
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

    @property
    def right(self) -> Share | None:
        """The share of claims that are true."""
        return Share.of(self.claims_right, self.claims) if self.claims and self.claims_right is not None else None


@dataclass(frozen=True)
class Audit:
    """All attacks on a release. `used` of its rows were looked at by attacks that learn: all, or a sample.

    `approximate` says that in this sample the truth is not certain, so that intervals do not cover all of the error.
    """

    attacks: tuple[Attack, ...]
    rows: int
    buckets: int
    known_records: int
    fake_values: int
    used: int
    notes: tuple[str, ...] = ()
    approximate: bool = False

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
