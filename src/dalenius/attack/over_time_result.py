"""What the intersection of releases came to, added up over people, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import NewChain, Share
from dalenius.model.concern import Advice, Concern, Severity, advise, by_weight

Bits = npt.NDArray[np.bool_]

_FORMAT = 1
_AFTER = (
    "Publish releases of the same people as a chain (--ledger FILE, --after PREVIOUS): whoever stays then stays in "
    "their bucket. What releases that are out say together cannot be taken back."
)


@dataclass
class Claims:
    """Beliefs above limits, of values or of groups: how many, of how many people the truth is known, and right."""

    people: int = 0
    claims: int = 0
    known: int = 0
    right: int = 0
    limits: float = 0.0

    def add(self, other: Claims) -> None:
        """Those of other people as well."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_object(self, with_truth: bool) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        share = Share.of(self.right, self.known) if with_truth else None
        return {
            "people_above_limit": self.people,
            "claims": self.claims,
            "claims_scored": self.known if with_truth else None,
            "claims_right": self.right if with_truth else None,
            "claims_right_interval": [share.low, share.high] if share is not None else None,
            "mean_limit": self.limits / self.claims if self.claims else None,
        }


@dataclass(frozen=True)
class Scores:
    """What is believed of each of some people: who is above a limit, who is left with one value, who with none.

    `best` is the probability of the likeliest value, and `right` the share of the likeliest that is true, 0 where the
    truth is not known. `ratio` is the largest belief by its limit.
    """

    above: Bits
    above_group: Bits
    pinned: Bits
    nothing: Bits
    best: Floats
    right: Floats
    ratio: float
    values: Claims
    groups: Claims | None


@dataclass
class Sums:
    """Scores of people, added up; `known` are those whose true value is known."""

    people: int = 0
    above: int = 0
    pinned: int = 0
    pinned_known: int = 0
    pinned_right: float = 0.0
    nothing: int = 0
    known: int = 0
    best: float = 0.0
    right: float = 0.0
    ratio: float = 0.0

    def __post_init__(self) -> None:
        self.values = Claims()
        self.groups: Claims | None = None

    def add(self, scores: Scores, truth: Integers | None, otherwise: Scores | None = None) -> None:
        """Of whoever is left with no value the guess is that of `otherwise`."""
        best, right = scores.best, scores.right
        if otherwise is not None:
            best = np.where(scores.nothing, otherwise.best, best)
            right = np.where(scores.nothing, otherwise.right, right)
        known = truth >= 0 if truth is not None else np.zeros(len(best), bool)
        self.people += len(best)
        self.above += int((scores.above | scores.above_group).sum())
        self.pinned += int(scores.pinned.sum())
        self.pinned_known += int((scores.pinned & known).sum())
        self.pinned_right += float(scores.right[scores.pinned & known].sum())
        self.nothing += int(scores.nothing.sum())
        self.known += int(known.sum())
        self.best += float(best.sum())
        self.right += float(right[known].sum())
        self.ratio = max(self.ratio, scores.ratio)
        self.values.add(scores.values)
        if scores.groups is not None:
            self.groups = self.groups or Claims()
            self.groups.add(scores.groups)

    @property
    def expected(self) -> float | None:
        """The share of people whose value is guessed, by the attacker's own beliefs; None if there is nobody."""
        return self.best / self.people if self.people else None

    @property
    def success(self) -> Share | None:
        """The share of people whose value is guessed rightly, of those whose value is known."""
        return Share.of(self.right, self.known)

    def as_object(self, with_truth: bool) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        success = self.success
        return {
            "people": self.people,
            "people_above_limit": self.above,
            "pinned": self.pinned,
            "pinned_scored": self.pinned_known if with_truth else None,
            "pinned_right": round(self.pinned_right) if with_truth else None,
            "contradicted": self.nothing,
            "largest_ratio": self.ratio,
            "expected": self.expected,
            "people_scored": self.known if with_truth else None,
            "success": success.share if success is not None else None,
            "success_interval": [success.low, success.high] if success is not None else None,
            "values": self.values.as_object(with_truth),
            "groups": self.groups.as_object(with_truth) if self.groups is not None else None,
        }


@dataclass(frozen=True)
class ReleaseInTime:
    """One of the releases: which of those given it follows on (from 1), how many of those linked are in it, and how
    many of them are above a limit by this release alone.
    """

    rows: int
    buckets: int
    chain: int | None
    follows: int | None
    linked: int
    above_alone: int


@dataclass(frozen=True)
class Movers:
    """People who are in another bucket of their chain than before: what is left of the old value and of the new one.

    Whoever shares a bucket with one of them, before or after, is a bystander: a value that the mover can hardly have is
    more likely theirs. Of bystanders, those are looked at whose quasi-identifiers nobody shares in the last release.
    """

    people: int
    above_limit: int
    pinned: int
    contradicted: int
    largest_ratio: float
    bystanders: int
    bystanders_above_limit: int
    bystanders_largest_ratio: float


@dataclass(frozen=True)
class OverTime:
    """The intersection of releases, beside the buckets of the last one alone, and beside people linked at random.

    `linked` is how many people are linked in so many releases. `one_bucket` of them have one bucket in all releases,
    those of a chain: there is nothing to intersect. `control` is None if nobody else has more.
    """

    releases: tuple[ReleaseInTime, ...]
    columns: tuple[str, ...]
    linked: Mapping[int, int]
    one_bucket: int
    intersection: Sums
    baseline: Sums
    control: Sums | None
    movers: Movers | None
    new_chain: NewChain | None
    with_truth: bool
    notes: tuple[str, ...] = ()

    @property
    def best_single_release(self) -> int:
        """The most people whom one of the releases alone puts above a limit."""
        return max(one.above_alone for one in self.releases)

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What to know before the next release is published, the heaviest first."""
        found, sums = [], self.intersection
        if not sums.people and not (self.movers is not None and self.movers.people):
            found.append(
                Concern(
                    "nobody-linked",
                    Severity.LOOK,
                    "nobody was linked: no combination of quasi-identifiers is that of one person in two releases",
                    "An attacker may know more. If numbers grow, say so (--advance age=1), or link by columns that "
                    "stay what they are (--link).",
                )
            )
        if sums.above:
            found.append(
                Concern(
                    "across-releases",
                    Severity.STOP,
                    f"the releases together put {sums.above:,} of {sums.people:,} linked people above a limit, and "
                    f"leave {sums.pinned:,} with one value",
                    _AFTER,
                    people=sums.above,
                    attacker="intersection",
                )
            )
        if self.movers is not None and self.movers.above_limit:
            found.append(
                Concern(
                    "moved",
                    Severity.LOOK,
                    f"of {self.movers.people:,} people whose bucket changed within a chain, "
                    f"{self.movers.above_limit:,} are above a limit with their old or their new value",
                    "A value that changed is not the other one: limits of a chain are about people whose values stay.",
                    people=self.movers.above_limit,
                    attacker="intersection",
                )
            )
        if self.movers is not None and self.movers.bystanders_above_limit:
            found.append(
                Concern(
                    "bystanders",
                    Severity.LOOK,
                    f"of {self.movers.bystanders:,} people in buckets that somebody moved from or to, "
                    f"{self.movers.bystanders_above_limit:,} are above a limit: what the mover can hardly have is more "
                    "likely theirs",
                    "The fewer values change from one release to the next, the fewer people this is about.",
                    people=self.movers.bystanders_above_limit,
                    attacker="intersection",
                )
            )
        return by_weight(found)

    @property
    def advice(self) -> Advice:
        """Whether to publish, by the worst of the concerns."""
        return advise(self.concerns)


def over_time_object(result: OverTime) -> dict[str, Any]:
    """The audit as one JSON object. The keys are a contract (docs/json.md)."""
    movers, beside = result.movers, result.new_chain
    return {
        "format": _FORMAT,
        "verdict": str(result.advice),
        "findings": [concern.as_object() for concern in result.concerns],
        "releases": [asdict(one) for one in result.releases],
        "link": list(result.columns),
        "linked": [{"releases": number, "people": people} for number, people in result.linked.items()],
        "one_bucket": result.one_bucket,
        "best_single_release": result.best_single_release,
        "intersection": result.intersection.as_object(result.with_truth),
        "baseline": result.baseline.as_object(result.with_truth),
        "control": result.control.as_object(result.with_truth) if result.control is not None else None,
        "movers": asdict(movers) if movers is not None else None,
        "new_chain": beside.as_object() if beside is not None else None,
        "notes": list(result.notes),
    }
