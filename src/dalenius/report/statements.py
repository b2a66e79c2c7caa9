"""The first things that the page says: the verdict, the attacks, and what follows for publication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dalenius.report.exposed import free_in_words
from dalenius.report.publication import compared, not_played
from dalenius.report.shown import listed, number, percent, plural, sentence, visible

Twin = dict[str, Any]
_LONGEST = 400


@dataclass(frozen=True)
class Statement:
    """One of the first things that the page says, and whether it is good news."""

    tone: Literal["good", "bad", "warn", "plain"]
    title: str
    sentences: tuple[str, ...]


def statements(twin: Twin) -> list[Statement]:
    """All three, in the order in which they are read."""
    return [_verdict(twin), _attacks(twin), _publication(twin)]


def _verdict(twin: Twin) -> Statement:
    checks = twin["verify"]["checks"]
    if twin["verify"]["verified"]:
        told = [f"All {len(checks)} checks passed: every value of every bucket is within its limit."]
        if free := free_in_words(twin["release"]):
            told.append(f"{free}.")
        if compared(twin):
            but = ", but for the fakes," if twin["release"]["fake_values"] else ""
            told.append(f"Its rows and its sensitive values{but} are those of the table that was given.")
        return Statement("good", "Verified", tuple(told))
    failed = [check for check in checks if check["outcome"] == "failed"]
    skipped = [check for check in checks if check["outcome"] == "not-checked"]
    told = [f"{len(failed)} of {plural(len(checks), 'check')} failed"]
    told[0] += f", and {len(skipped)} could not be made." if skipped else "."
    told += [sentence(f"{check['check']}: {visible(check['message'], _LONGEST)}") for check in failed]
    return Statement("bad", "NOT verified", tuple(told))


def _attacks(twin: Twin) -> Statement:
    audit = twin["audit"]
    if audit is None:
        note = f" ({visible(twin['audit_note'], _LONGEST)})" if twin["audit_note"] else ""
        return Statement("warn", "Not attacked", (f"No simulated attacker was played against the release{note}.",))
    if audit["broken"]:
        return Statement("bad", "A promise was broken", tuple(map(sentence, audit["broken"])))
    told = ["No simulated attacker broke a promise of the release. What they get beyond the promises is in section 6."]
    if audit["sampled"] is not None and audit["sampled"]["rows"]:
        rows, of = audit["sampled"]["rows"], audit["sampled"]["of"]
        told.append(f"Most of them were played against a random sample of {number(rows)} of {plural(of, 'record')}.")
    told += _learned(audit)
    if spared := not_played(audit):
        told.append(f"Every bucket is too large for {listed(spared)}, who were not played.")
        return Statement("warn", "Not attacked in full", tuple(told))
    return Statement("good", "No promise broken", tuple(told))


def _learned(audit: Twin) -> list[str]:
    """What the attacker gets against whom nothing is promised: it belongs to the good news."""
    attack = audit.get("learning")
    if attack is None or not attack["people"]:
        return []
    who = "The one who learns across buckets"
    if attack["success"] is not None:
        return [
            f"{who} guesses the value of {percent(attack['success'])} of people; the buckets alone give "
            f"{percent(attack['baseline'])}. Nothing is promised against this attacker."
        ]
    believes = []
    if above := attack["people_above_limit"]:
        people = plural(above, "person", "people")
        believes = [f"{who} believes some value of {people} with a probability above its limit."]
    return [*believes, "How often they are right is not known without the table that was published."]


def _publication(twin: Twin) -> Statement:
    against, warnings = twin["against_publication"], twin["warnings"]
    if against:
        besides = ("Apart from that:", *warnings) if warnings else ()
        return Statement("bad", "NOT fit for publication", (*against, "Do not publish this release.", *besides))
    if warnings:
        told = "Nothing was found that forbids publication. What is not promised is in section 7; whether all of this "
        told += "is acceptable is for the publisher to decide."
        return Statement("warn", "Look at this before you publish", (*warnings, told))
    told = "Every check passed, and no attack that was played broke a promise. Whether what attackers get beyond the "
    told += "promises (section 6), and what is not promised (section 7), are acceptable is for the publisher to decide."
    return Statement("plain", "Nothing was found against publication", (told,))
