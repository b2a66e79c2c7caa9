"""The result of verifying a release: the checks in their order, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dalenius.model.concern import Advice, Concern, advise
from dalenius.model.exposure import Exposure, GroupShare
from dalenius.model.known_column import KnownColumn


class Outcome(StrEnum):
    """How a check ended. A release is not verified if a check could not be made."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a release: which check says so, how many of it there are, and a sentence.

    The sentence holds sensitive values' names, bucket numbers and counts, never a quasi-identifier.
    """

    check: str
    count: int
    message: str


@dataclass(frozen=True)
class Check:
    """One check: `summary` says what holds if it passed, and otherwise what is wrong or why it was not made."""

    check: str
    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it was made and nothing was found."""
        return self.outcome is Outcome.PASSED

    @property
    def count(self) -> int:
        """How many things are wrong, all findings together."""
        return sum(finding.count for finding in self.findings)


class SignatureState(StrEnum):
    """What is known of the signature of a release."""

    ABSENT = "absent"
    UNCHECKED = "unchecked"
    VALID = "valid"
    INVALID = "invalid"


@dataclass(frozen=True)
class Signature:
    """Whether a release is signed. `key` is the SHA-256 of the public key with which that was checked, if it was."""

    state: SignatureState
    key: str | None = None

    def as_object(self) -> dict[str, str | None]:
        """For JSON."""
        return {"state": str(self.state), "key": self.key}


@dataclass(frozen=True)
class Verdict:
    """All checks of a release. True if every one of them passed; notes do not count.

    `rows`, `people` and `buckets` are what the manifest says, if it could be read. `exposure` is how much ST shows of
    people, if it could be read to its end. `concerns` are what to know before publication, the heaviest first: a
    release may keep every promise and still be one that should not be published. `signature` is None if the manifest
    cannot be read. `groups` are the groups of values in the order of the manifest, with what ST holds of them, if it
    could be read. `known_columns` is what somebody gets who knows one of two columns that are kept together.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    rows: int | None = None
    buckets: int | None = None
    exposure: Exposure | None = None
    concerns: tuple[Concern, ...] = ()
    signature: Signature | None = None
    groups: tuple[GroupShare, ...] = ()
    people: int | None = None
    known_columns: tuple[KnownColumn, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether every check was made and passed."""
        return all(check.passed for check in self.checks)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong, in the order of the checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def advice(self) -> Advice:
        """Whether to publish, by the worst of the concerns."""
        return advise(self.concerns)

    def __bool__(self) -> bool:
        return self.verified

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.check == name)


def conclude_check(name: str, holds: str, findings: Sequence[Finding], obstacles: Sequence[str]) -> Check:
    """The check that follows from its findings, or from the obstacles to it; findings weigh more."""
    if findings:
        return Check(
            check=name,
            outcome=Outcome.FAILED,
            summary="; ".join(finding.message for finding in findings),
            findings=tuple(findings),
        )
    if obstacles:
        return Check(name, Outcome.NOT_CHECKED, "; ".join(dict.fromkeys(obstacles)))
    return Check(name, Outcome.PASSED, holds)
