"""The checks of a release: findings as they come in, what they add up to, and the verdict as a JSON object.

The object is the same for the command line, the report and Studio.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from dalenius.model.concern import Concern, Severity, by_weight
from dalenius.model.exposure import Exposure, GroupShare, exposure_sentence
from dalenius.model.known_column import KnownColumn, together_concerns
from dalenius.model.verdict import Check, Finding, Signature, Verdict, conclude_check
from dalenius.release.manifest import Manifest

FILES, MANIFEST, HASHES, SCHEMA = "files", "manifest", "hashes", "schema"
SIZES, STRATA, LIMITS, VALUES, ORDER, SOURCE = "sizes", "strata", "limits", "values", "order", "source"
JOB, SIGNATURE, CHAIN = "job", "signature", "chain"

# The checks in their order, with what holds where nothing was found.
HOLDS = {
    FILES: "the manifest and both tables are there",
    MANIFEST: "it is of a known format, and consistent",
    HASHES: "both tables are the files that the manifest names",
    SCHEMA: "columns and types are as the manifest says, and every byte follows from the rows",
    SIZES: "every bucket has the size that the setting gives it, in both tables",
    STRATA: "every record is in a bucket of the stratum that its quasi-identifiers lead to",
    LIMITS: "no bucket holds more of a value than its limit allows",
    VALUES: "counts and worst cases of all values are as the manifest says",
    ORDER: "the rows are in the canonical order",
    SOURCE: "the records are exactly those of the table",
    JOB: "the release is what the job says",
    SIGNATURE: "the manifest was signed with the key",
    CHAIN: "it follows on the release before: the buckets that were there are the same",
}
# The same where people have several rows or several sensitive values.
_OF_PEOPLE = {
    FILES: "the manifest and all tables are there",
    HASHES: "all tables are the files that the manifest names",
    SIZES: "every bucket has as many people as the setting says, equally many rows of each, and what they can have",
    STRATA: "everybody is in a bucket of the stratum that their rows lead to",
    LIMITS: "no bucket has more people with a value than its limit allows",
    ORDER: "rows and people are in the canonical order",
    SOURCE: "the people, their rows and what they have are those of the table",
}
# The same where buckets stay from release to release.
_OF_CHAINS = {
    SIZES: "in ST every bucket has the size that the setting gives it, and in QIT no bucket has more rows",
    STRATA: "every record of a new bucket is in the stratum that its quasi-identifiers lead to",
}
_OF_TUPLES = {VALUES: f"{HOLDS[VALUES]}, and tuples have the values that their columns have"}
_BEFORE_FORMAT_4 = {SCHEMA: "columns and types are as the manifest says"}
_IF_ASKED = {SOURCE, JOB, SIGNATURE, CHAIN}
_LONGEST_NAME = 60
_VALUES_NAMED = 3
_FORMAT = 2  # of the JSON object


class Report:
    """Collects findings, obstacles (why a check could not be made) and notes."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.obstacles: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.holds = dict(HOLDS)
        self.exposure: Exposure | None = None
        self.signature: Signature | None = None
        self.groups: tuple[GroupShare, ...] = ()
        self.known_columns: tuple[KnownColumn, ...] = ()
        self.concerns: list[Concern] = []

    def fail(self, check: str, message: str, count: int = 1) -> None:
        """Something is wrong."""
        self.findings.append(Finding(check, int(count), message))

    def not_checked(self, checks: Iterable[str], why: str) -> None:
        """These checks could not be made, or not in full."""
        self.obstacles += [(check, why) for check in checks]

    def note(self, message: str) -> None:
        """Worth knowing, and not wrong."""
        self.notes.append(message)

    def add(self, other: Report, about: str = "") -> None:
        """Take over what another report collected; `about` says what of, where there are several."""
        self.findings += [replace(finding, message=about + finding.message) for finding in other.findings]
        self.obstacles += [(check, about + why) for check, why in other.obstacles]
        self.notes += [about + note for note in other.notes]
        self.holds |= {check: holds for check, holds in other.holds.items() if holds != HOLDS[check]}
        self.exposure = other.exposure or self.exposure
        self.groups = other.groups or self.groups
        self.known_columns += other.known_columns
        self.concerns += other.concerns

    def checks(self, asked: Collection[str], manifest: Manifest | None = None) -> tuple[Check, ...]:
        """All checks: what not everybody wants only if it was asked for, and that of strata if there are any."""
        with_strata = manifest is not None and manifest.strata is not None
        promised = dict(self.holds)
        if manifest is not None and not manifest.is_plain:
            promised |= {check: holds for check, holds in _OF_PEOPLE.items() if promised[check] == HOLDS[check]}
        if manifest is not None and (manifest.surplus or manifest.newest > 1):
            promised |= {check: holds for check, holds in _OF_CHAINS.items() if promised[check] == HOLDS[check]}
        if manifest is not None and manifest.together:
            promised |= {check: holds for check, holds in _OF_TUPLES.items() if promised[check] == HOLDS[check]}
        if manifest is not None and not manifest.is_strict:
            promised |= _BEFORE_FORMAT_4
        left_out = {*(_IF_ASKED - set(asked)), *(() if with_strata else (STRATA,))}
        return tuple(
            conclude_check(
                name,
                holds,
                [finding for finding in self.findings if finding.check == name],
                [f"not checked: {why}" for check, why in self.obstacles if check == name],
            )
            for name, holds in promised.items()
            if name not in left_out
        )

    def verdict(self, asked: Collection[str], manifest: Manifest | None = None) -> Verdict:
        """What it all adds up to; with the manifest, if it can be read."""
        checks = self.checks(asked, manifest)
        clear = (*_in_the_clear(self.exposure, manifest), *_set_apart(manifest))
        kept = [one.columns for one in manifest.together] if manifest is not None else []
        together = together_concerns(kept, self.known_columns)
        concerns = by_weight((*_failures(checks), *clear, *together, *self.concerns, *_earlier_format(manifest)))
        if manifest is None:
            return Verdict(checks, tuple(self.notes), concerns=concerns)
        return Verdict(
            checks,
            tuple(self.notes),
            manifest.rows,
            manifest.buckets,
            self.exposure,
            concerns,
            self.signature,
            self.groups,
            manifest.people,
            self.known_columns,
        )


def _failures(checks: Iterable[Check]) -> list[Concern]:
    """A release that is not what it says it is should not be published."""
    return [
        Concern(check.check, Severity.STOP, f"the check of {check.check} did not pass: {check.summary}")
        for check in checks
        if not check.passed
    ]


def _in_the_clear(exposure: Exposure | None, manifest: Manifest | None) -> list[Concern]:
    """Values that are published outright: against publication where people are alone, or where it is most of them."""
    if exposure is None or manifest is None or not exposure.outright:
        return []
    alone = sum(group.buckets for group in manifest.own_setting if group.size == 1)
    clear = sorted((value for value in exposure.values if value.outright), key=lambda value: -value.outright)
    single = f"; {plural(alone, 'bucket')} of a single {'record' if manifest.is_plain else 'person'}" if alone else ""
    return [
        Concern(
            "in-the-clear",
            Severity.STOP if alone or 2 * exposure.outright >= exposure.people else Severity.LOOK,
            f"{exposure_sentence(exposure)}{single}",
            "Publish again with limits below 1: --odds 8 never reaches 1.",
            people=round(exposure.outright),
            values=tuple(value.value for value in clear),
        )
    ]


def _set_apart(manifest: Manifest | None) -> list[Concern]:
    """People of whom it is published outright that the question does not apply to them."""
    if manifest is None or manifest.apart is None:
        return []
    values = [value.value for value in manifest.values if not value.applies]
    people, named = manifest.apart.rows, ", ".join(map(quote, values[:_VALUES_NAMED]))
    more = " and others" if len(values) > _VALUES_NAMED else ""
    return [
        Concern(
            "not-applicable",
            Severity.LOOK,
            f"{plural(people, 'person is', 'people are')} set apart, of {manifest.rows:,}: it is published outright "
            f"that the question does not apply to them ({named}{more})",
            "If that is nobody's secret, it is meant. If not, leave it out of not_applicable.",
            people=people,
            values=tuple(values),
        )
    ]


def _earlier_format(manifest: Manifest | None) -> list[Concern]:
    """Releases of earlier formats are judged by the rules of their time, which leave writers a choice of bytes."""
    if manifest is None or manifest.is_strict:
        return []
    return [
        Concern(
            "earlier-format",
            Severity.LOOK,
            f"the release has format {manifest.made_in} and was judged by the rules of that format: it was not checked "
            "that every byte of its files follows from the rows",
            "Publish the table again before the release goes to anybody else.",
        )
    ]


def quote(value: str) -> str:
    """A sensitive value's name in a sentence: quoted, escaped, and not too long."""
    return repr(value if len(value) <= _LONGEST_NAME else value[: _LONGEST_NAME - 3] + "...")


def plural(count: int, thing: str, things: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """The verdict as one JSON object. The keys are a contract (docs/json.md)."""
    return {
        "format": _FORMAT,
        "verified": verdict.verified,
        "rows": verdict.rows,
        "people": verdict.people,
        "buckets": verdict.buckets,
        "checks": [
            {
                "check": check.check,
                "outcome": str(check.outcome),
                "passed": check.passed,
                "count": check.count,
                "message": check.summary,
                "findings": [{"count": finding.count, "message": finding.message} for finding in check.findings],
            }
            for check in verdict.checks
        ],
        "exposure": verdict.exposure.as_object() if verdict.exposure is not None else None,
        "groups": [group.as_object() for group in verdict.groups],
        "known_columns": [known.as_object() for known in verdict.known_columns],
        "findings": [concern.as_object() for concern in verdict.concerns],
        "signature": verdict.signature.as_object() if verdict.signature is not None else None,
        "notes": list(verdict.notes),
    }
