"""The results of simulated attacks on a release: how well each did, its baselines, and the promises that it broke.

A limit is what may be believed. An attacker who puts people above limits and is right no more often than the limits
allow has learned nothing that they forbid; one who is right more often has, even if no promise of the release covers
it. `Attack.points` is by how much, and `Audit.concerns` what follows for publication.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dalenius.model.concern import Advice, Concern, Severity, advise, by_weight, name_some

# The attackers in the order in which they are played and shown, and what each of them does.
ATTACKS = {
    "corruption": "Knows the sensitive values of some records of a bucket, and infers the others.",
    "negative": "Rules out values that, as the release shows, hardly ever occur with a person's quasi-identifiers.",
    "learning": "Learns from all buckets together how quasi-identifiers and values are related, and uses it in each.",
    "minimality": "Asks why parts of the table were merged into one stratum: which of them has too much of a value?",
    "order": "Knows how the program works, and tries to read values from the order of rows.",
    "intersection": "Knows which rows are a person's, assumes that their value stays the same, and combines buckets.",
    "union": "Knows which rows are a person's, and asks whether any of them has a value.",
    "other-column": "Knows a person's value in another sensitive column, and what goes with it.",
}

LEARNING = "learning"
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
class ClaimsAbout:
    """The claims about one value or group: how many, how many of them are true, and its limit."""

    name: str
    claims: int
    right: float
    limit: float

    @property
    def excess(self) -> float:
        """How many more are true than the limit allows."""
        return self.right - self.claims * self.limit


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What an attacker believes above limits, of values or of groups of values. Without the truth, what needs it is
    None.

    A claim is a (person, value) whose probability the attacker puts above the value's limit; `claims_right` of them are
    true, and `mean_limit` is the mean of their limits. `worst` are the values whose claims are true more often than
    their limits allow, the worst first.
    """

    people_above_limit: int | None = None
    claims: int | None = None
    claims_right: int | None = None
    mean_limit: float | None = None
    worst: tuple[ClaimsAbout, ...] = ()

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
    def alarm(self) -> float:
        """The same, or 0 if that is too little to matter, may be chance, or is not known."""
        points, right = self.points, self.right
        if points is None or right is None or self.mean_limit is None or right.low <= self.mean_limit:
            return 0.0
        return points if points > LOOK_ABOVE else 0.0

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "people_above_limit": self.people_above_limit,
            "claims": self.claims,
            "claims_right": self.claims_right,
            "claims_right_interval": [self.right.low, self.right.high] if self.right is not None else None,
            "mean_limit": self.mean_limit,
            "points": self.points,
        }


@dataclass(frozen=True)
class Attack(Claims):
    """One attacker, with the claims about values; `groups` are those about groups of values, if any has a limit.

    `success` is the share of people whose value is guessed, `baseline` that of guessing by count / size within the
    bucket, and `control` that of the same guesses on people whom they cannot be about. `broken` are promises of the
    release that the attack broke, as sentences. `beyond` says that the attacker knows more than the release was made to
    withstand. `remedy` says what to do against this attacker, if that is not what helps against most. `column` is the
    sensitive column that it is about, where there are several. `not_played` says why it was not played, if so.
    """

    name: str
    people: int
    success: Share | None = None
    baseline: Share | None = None
    control: Share | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    beyond: bool = False
    groups: Claims | None = None
    remedy: str = ""
    column: str | None = None
    not_played: str | None = None

    @property
    def threat(self) -> tuple[float, float]:
        """How bad it is: first by its alarm about values or groups, then by success."""
        alarm = max(self.alarm, self.groups.alarm if self.groups is not None else 0.0)
        return alarm, self.success.share if self.success is not None else 0.0

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What it means for publication; nothing if there is nothing to worry about, or nothing known."""
        about = [self._concern(self, "values", "above a limit")]
        if self.groups is not None:
            about.append(self._concern(self.groups, "groups", "above the limit of a group of values"))
        return tuple(one for one in about if one is not None)

    def _concern(self, claims: Claims, what: str, above: str) -> Concern | None:
        points, right, limit = claims.alarm, claims.right, claims.mean_limit
        if not points or right is None or limit is None:
            return None
        severity = Severity.NOTE if self.beyond else Severity.STOP if points > STOP_ABOVE else Severity.LOOK
        named = ", ".join(repr(one.name) for one in claims.worst[:_WORST])
        about = f" on {self.column!r}" if self.column is not None else ""
        message = (
            f"the attacker {self.name!r}{about} puts {claims.people_above_limit or 0:,} people {above}, and is right "
            f"in {right.share:.1%} of the claims where the limits allow {limit:.1%}"
            + (f"; worst: {named}" if named else "")
        )
        names = tuple(one.name for one in claims.worst)
        return Concern(
            "above-limit",
            severity,
            message + ("; the release was not made to withstand this attacker" if self.beyond else ""),
            "Publish again with --corrupted 1."
            if self.beyond
            else self.remedy
            or f"Leave out columns that tell the value, or lower these {what}' limits; compare --strata auto and "
            "--strata none.",
            people=claims.people_above_limit,
            points=round(points, 1),
            attacker=self.name,
            values=names if claims is self else (),
            groups=names if claims is not self else (),
            columns=(self.column,) if self.column is not None else (),
        )

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "column": self.column,
            "people": self.people,
            **_share_object("success", self.success),
            **_share_object("baseline", self.baseline),
            **_share_object("control", self.control),
            **super().as_object(),
            "worst_values": [{"value": one.name, **_about_object(one)} for one in self.worst],
            "groups": self._groups_object(),
            "details": dict(self.details),
            "notes": list(self.notes),
            "not_played": self.not_played,
        }

    def _groups_object(self) -> dict[str, Any] | None:
        if self.groups is None:
            return None
        worst = [{"group": one.name, **_about_object(one)} for one in self.groups.worst]
        return {**self.groups.as_object(), "worst_groups": worst}


def _share_object(name: str, share: Share | None) -> dict[str, Any]:
    return {
        name: share.share if share is not None else None,
        f"{name}_interval": [share.low, share.high] if share is not None else None,
    }


def _about_object(one: ClaimsAbout) -> dict[str, Any]:
    return {"claims": one.claims, "claims_right": one.right, "limit": one.limit}


@dataclass(frozen=True)
class NewChain:
    """What another release of a chain's people, outside of the chain, would give away: an estimate.

    Of the `people` whose quasi-identifiers nobody shares, so many would be above a limit, and left with one value, by
    the two releases together. `expected` is the share of values that would be guessed; None if there is nobody.
    """

    people: int
    people_above_limit: int
    pinned: int
    expected: float | None

    def as_object(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "people": self.people,
            "people_above_limit": self.people_above_limit,
            "pinned": self.pinned,
            "expected": self.expected,
        }


@dataclass(frozen=True)
class Audit:
    """All attacks on a release. `used` of its rows were looked at by attacks that learn: all, or a sample.

    `approximate` says that in this sample the truth is not certain, so that intervals do not cover all of the error.
    `others` are concerns that do not come from attacks: from verifying the release, and from the table itself. Attacks
    are in the order of sensitive columns, where there are several. `people` is how many there are, where rows are not.
    `new_chain` is what a release beside its chain would cost, where it is of one.
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
    people: int | None = None
    new_chain: NewChain | None = None

    @property
    def columns(self) -> tuple[str | None, ...]:
        """The sensitive columns that were attacked, in their order; (None,) where there is one."""
        return tuple(dict.fromkeys(attack.column for attack in self.attacks))

    def of(self, column: str | None) -> tuple[Attack, ...]:
        """The attacks on one sensitive column."""
        return tuple(attack for attack in self.attacks if attack.column == column)

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What to know before publication, the heaviest first: from the attacks, and from what was seen before them."""
        broken = (Concern("promise-broken", Severity.STOP, sentence) for sentence in self.broken)
        attacks = (concern for attack in self.attacks for concern in attack.concerns)
        every = [claims for attack in self.attacks for claims in (attack, attack.groups) if claims is not None]
        unscored = [claims.people_above_limit or 0 for claims in every if claims.claims and claims.claims_right is None]
        unknown = [
            Concern(
                "not-measured",
                Severity.LOOK,
                f"{max(unscored, default=0):,} people are put above a limit by an attacker; how often rightly is not "
                "known without the table",
                "Audit with --truth TABLE.",
            )
        ]
        return by_weight((*self.others, *broken, *attacks, *self._unplayed(), *(unknown if unscored else ())))

    def _unplayed(self) -> Iterator[Concern]:
        """The attacker who learns is the strongest: nothing is cleared without that one."""
        unplayed = [attack for attack in self.attacks if attack.name == LEARNING and attack.not_played is not None]
        if unplayed:
            columns = tuple(attack.column for attack in unplayed if attack.column is not None)
            about = f" of {name_some(columns)}" if columns else ""
            yield Concern(
                "not-played",
                Severity.LOOK,
                f"what can be learned{about} across buckets was not tried: {unplayed[0].not_played}. So nobody knows "
                "how far such an attacker gets",
                "Do not take this release for safe against whoever learns what goes with which quasi-identifiers.",
                attacker=LEARNING,
                columns=columns,
            )

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
        """An attack by its name; where there are several sensitive columns, that on the first."""
        return next(attack for attack in self.attacks if attack.name == name)
