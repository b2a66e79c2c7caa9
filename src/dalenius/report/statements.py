"""The first things that the page says: the verdict, the attacks, and what follows for publication.

What the twin says against publication, and what the publisher has to look at first.

Values without a limit, and whom a release gives away through them.

All of it is read from the sizes and the worst cases that the manifest states: a value with the limit 1 fills a bucket
if it is shown for as many records as are not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dalenius.model.attack_result import ATTACKS
from dalenius.release.manifest import SEEDED
from dalenius.report.shown import listed, number, percent, plural, sentence, visible
from dalenius.verify.findings import SOURCE


def is_free(value: Twin) -> bool:
    """Whether the value has a limit of 1, which is no limit."""
    return Fraction(value["limit"]) == 1


def without_limit(release: Twin) -> list[str]:
    """The names of such values."""
    return [value["value"] for value in release["values"] if is_free(value)]


def free_in_words(release: Twin) -> str:
    """How many values have no limit, as a clause; empty if all have one."""
    free, every = len(without_limit(release)), len(release["values"])
    if not free:
        return ""
    which = f"{number(free)} of {number(every)} values {'has' if free == 1 else 'have'}"
    if free == every:
        which = "The only value has" if every == 1 else f"All {number(every)} values have"
    return f"{which} a limit of 1, which is no limit"


def standing_alone(release: Twin) -> int:
    """How many buckets have a single record."""
    return sum(int(group["buckets"]) for group in release["setting"] if group["size"] == 1)


def exposures(release: Twin) -> list[str]:
    """Whose values are in the clear, or nearly so, as sentences; none if no bucket is filled by a single value."""
    if not without_limit(release):
        return []
    if len(release["values"]) == 1:  # then there is no room for fakes or known records
        return ["Every record has the same sensitive value: everybody is known to have it."]
    alone = standing_alone(release)
    filling = [value for value in release["values"] if is_free(value) and value["probability"] == "1"]
    larger = sum(1 for value in filling if value["worst"]["size"] > 1)
    return [
        *([_alone(alone, release["fake_values"])] if alone else []),
        *([_filled(larger, release)] if larger else []),
    ]


def without_exposure(release: Twin) -> str:
    """That no value without a limit fills a bucket, as a sentence."""
    records = "records that are not known" if release["known_records"] else "records"
    return f"None of them is shown for a bucket as often as it has {records}."


def _alone(buckets: int, fakes: int) -> str:
    have = plural(buckets, "bucket has", "buckets have")
    if fakes:
        whose = "this person's sensitive value is" if buckets == 1 else "these people's sensitive values are"
        return f"{have} a single record: {whose} hidden among fake values alone, {number(fakes)} in each bucket."
    whose = f"values of these {number(buckets)} people are" if buckets > 1 else "value of this person is"
    return f"{have} a single record: the sensitive {whose} published in the clear."


def _filled(values: int, release: Twin) -> str:
    known, fakes = release["known_records"], release["fake_values"]
    one = values == 1
    which = plural(values, "value without a limit", "values without a limit")
    if fakes:
        left = "records that are not known" if known else "records"
        told = f"{which} {'is' if one else 'are'} shown as often as some bucket has {left}"
        if known:
            told += f": to whoever knows {plural(known, 'record')} of it"
            return f"{told}, only fake values leave open whether all others have the value."
        return f"{told}: only fake values leave open whether everybody in it has the value."
    fills = f"{which} {'fills' if one else 'fill'} some bucket"
    if known:
        these = "it" if known == 1 else "them"
        return (
            f"{fills} but for {plural(known, 'record')}: whoever knows {these} knows that all others in such a bucket "
            "have the value."
        )
    return f"{fills} of several records: everybody in such a bucket is known to have the value."


def against_publication(twin: Twin) -> list[str]:
    """Why the release must not be published, as sentences; none if nothing was found."""
    found = []
    if not twin["verify"]["verified"]:
        found.append("It did not pass its checks.")
    if twin["release"] is not None and twin["release"]["randomness"] == SEEDED:
        found.append("It was made with a seed: whoever has the seed and the order of the table can undo it.")
    if twin["audit"] is not None and twin["audit"]["broken"]:
        found.append("A simulated attacker broke a promise.")
    return found


def warnings(twin: Twin) -> list[str]:
    """What forbids nothing and has to be looked at before publication, as sentences: found, or not looked for."""
    found = exposures(twin["release"]) if twin["release"] is not None else []
    if others := twin["other_files"]:
        them = "it" if others == 1 else "them"
        found.append(
            f"The folder of the release has {plural(others, 'other file')}, which nobody verified: whoever publishes "
            f"the folder publishes {them} as well."
        )
    if not compared(twin):
        found.append(
            "The records were not compared with the table that was published: whether the release has all of them, "
            "unchanged, is not known from this report."
        )
    if twin["audit"] is None:
        found.append(
            "No attack was played: what somebody gets out of the release who learns across buckets is not known."
        )
    elif spared := not_played(twin["audit"]):
        found.append(
            f"Every bucket is too large for these attackers, who were not played: {listed(spared)}. What they would "
            "get is not known."
        )
    return found


def compared(twin: Twin) -> bool:
    """Whether the records were held against the table that was published."""
    return any(check["check"] == SOURCE and check["outcome"] != "not-checked" for check in twin["verify"]["checks"])


def not_played(audit: Twin) -> list[str]:
    """Attackers that had nobody to be played against."""
    return [name for name in ATTACKS if name in audit and audit[name]["people"] == 0]


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
