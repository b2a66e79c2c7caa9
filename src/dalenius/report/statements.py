"""The statements at the top of the page: the verdict, the attacks, and whether the release is fit for publication.

A release is unfit if a check failed, if it was made with a seed, or if an attack broke a promise. Otherwise the
publisher gets warnings, first of all about values without a limit. A value with the limit 1 may fill a bucket: it is
shown there as often as the bucket has records that are not known. The sizes and worst cases in the manifest show where
that happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dalenius.model.attack_result import ATTACKS
from dalenius.release.manifest import SEEDED
from dalenius.report.formatting import listed, number, percent, plural, sentence, visible
from dalenius.verify.findings import SOURCE

Twin = dict[str, Any]
_LONGEST = 400  # characters of a message


@dataclass(frozen=True)
class Statement:
    """A statement at the top of the page, and whether it is good news."""

    tone: Literal["good", "bad", "warn", "plain"]
    title: str
    sentences: tuple[str, ...]


def statements(twin: Twin) -> list[Statement]:
    """The three statements, in reading order."""
    return [_verdict(twin), _attacks(twin), _publication(twin)]


def _verdict(twin: Twin) -> Statement:
    checks = twin["verify"]["checks"]
    if twin["verify"]["verified"]:
        text = [f"All {len(checks)} checks passed: every value of every bucket is within its limit."]
        if free := free_in_words(twin["release"]):
            text.append(f"{free}.")
        if compared(twin):
            but = ", apart from the fakes," if twin["release"]["fake_values"] else ""
            text.append(f"Its rows and its sensitive values{but} match the table that was given.")
        return Statement("good", "Verified", tuple(text))
    failed = [check for check in checks if check["outcome"] == "failed"]
    skipped = [check for check in checks if check["outcome"] == "not-checked"]
    rest = f", and {len(skipped)} could not be made" if skipped else ""
    text = [f"{len(failed)} of {plural(len(checks), 'check')} failed{rest}."]
    text += [sentence(f"{check['check']}: {visible(check['message'], _LONGEST)}") for check in failed]
    return Statement("bad", "NOT verified", tuple(text))


def _attacks(twin: Twin) -> Statement:
    audit = twin["audit"]
    if audit is None:
        note = f" ({visible(twin['audit_note'], _LONGEST)})" if twin["audit_note"] else ""
        return Statement("warn", "Not attacked", (f"No simulated attacker was played against the release{note}.",))
    if audit["broken"]:
        return Statement("bad", "A promise was broken", tuple(map(sentence, audit["broken"])))
    text = [
        "No simulated attacker broke a promise of the release. Section 6 shows what they infer beyond the promises."
    ]
    if audit["sampled"] is not None and audit["sampled"]["rows"]:
        rows, of = audit["sampled"]["rows"], audit["sampled"]["of"]
        text.append(f"Most of them were played against a random sample of {number(rows)} of {plural(of, 'record')}.")
    text += _learned(audit)
    if spared := not_played(audit):
        text.append(f"Every bucket is too large for {listed(spared)}, who were not played.")
        return Statement("warn", "Not attacked in full", tuple(text))
    return Statement("good", "No promise broken", tuple(text))


def _learned(audit: Twin) -> list[str]:
    """What the learning attacker infers: nothing is promised against this one, so the good news must mention it."""
    attack = audit.get("learning")
    if attack is None or not attack["people"]:
        return []
    who = "The attacker who learns across buckets"
    if attack["success"] is not None:
        return [
            f"{who} guesses the value of {percent(attack['success'])} of people; the buckets alone give "
            f"away {percent(attack['baseline'])}. Nothing is promised against this attacker."
        ]
    believes = []
    if above := attack["people_above_limit"]:
        people = plural(above, "person", "people")
        believes = [f"{who} believes some value of {people} with a probability above its limit."]
    return [*believes, "How often this attacker is right is not known without the table that was published."]


def _publication(twin: Twin) -> Statement:
    against, warnings = twin["against_publication"], twin["warnings"]
    if against:
        besides = ("Also:", *warnings) if warnings else ()
        return Statement("bad", "NOT fit for publication", (*against, "Do not publish this release.", *besides))
    if warnings:
        text = (
            "Nothing was found that forbids publication. Section 7 lists what is not promised. Whether all of this is "
            "acceptable is for the publisher to decide."
        )
        return Statement("warn", "Look at this before you publish", (*warnings, text))
    text = (
        "Every check passed, and no attack that was played broke a promise. Section 6 shows what attackers infer "
        "beyond the promises, and section 7 lists what is not promised. Whether that is acceptable is for the "
        "publisher to decide."
    )
    return Statement("plain", "Nothing was found against publication", (text,))


def against_publication(twin: Twin) -> list[str]:
    """Why the release must not be published, as sentences; none if nothing is wrong."""
    reasons = []
    if not twin["verify"]["verified"]:
        reasons.append("It did not pass its checks.")
    if twin["release"] is not None and twin["release"]["randomness"] == SEEDED:
        reasons.append("It was made with a seed: anybody who has the seed and the order of the table can undo it.")
    if twin["audit"] is not None and twin["audit"]["broken"]:
        reasons.append("A simulated attacker broke a promise.")
    return reasons


def warnings(twin: Twin) -> list[str]:
    """What the publisher should look at before publication, as sentences: problems, and what was not checked."""
    sentences = exposures(twin["release"]) if twin["release"] is not None else []
    if others := twin["other_files"]:
        them = "it" if others == 1 else "them"
        sentences.append(
            f"The folder of the release has {plural(others, 'other file')}, which nobody verified. If you publish the "
            f"folder, you publish {them} as well."
        )
    if not compared(twin):
        sentences.append(
            "The records were not compared with the table that was published, so this report does not show whether the "
            "release has all of them, unchanged."
        )
    if twin["audit"] is None:
        sentences.append(
            "No attack was played, so it is not known how much an attacker who learns across buckets can infer."
        )
    elif spared := not_played(twin["audit"]):
        sentences.append(
            f"Every bucket is too large for these attackers, who were not played: {listed(spared)}. What they could "
            "infer is not known."
        )
    return sentences


def compared(twin: Twin) -> bool:
    """Whether the records were compared with the table that was published."""
    return any(check["check"] == SOURCE and check["outcome"] != "not-checked" for check in twin["verify"]["checks"])


def not_played(audit: Twin) -> list[str]:
    """Attackers who had nobody to attack."""
    return [name for name in ATTACKS if name in audit and audit[name]["people"] == 0]


def is_free(value: Twin) -> bool:
    """Whether the value has a limit of 1, which is no limit."""
    return Fraction(value["limit"]) == 1


def without_limit(release: Twin) -> list[str]:
    """The names of the values without a limit."""
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


def single_buckets(release: Twin) -> int:
    """How many buckets have a single record."""
    return sum(int(group["buckets"]) for group in release["setting"] if group["size"] == 1)


def exposures(release: Twin) -> list[str]:
    """Whose values are in the clear, or nearly so, as sentences; none if no value fills a bucket."""
    if not without_limit(release):
        return []
    if len(release["values"]) == 1:  # then there is no room for fakes or known records
        return ["Every record has the same sensitive value: everybody is known to have it."]
    alone = single_buckets(release)
    filling = [value for value in release["values"] if is_free(value) and value["probability"] == "1"]
    larger = sum(1 for value in filling if value["worst"]["size"] > 1)
    return [
        *([_alone(alone, release["fake_values"])] if alone else []),
        *([_filled(larger, release)] if larger else []),
    ]


def without_exposure(release: Twin) -> str:
    """The sentence for a release in which no value without a limit fills a bucket."""
    records = "records that are not known" if release["known_records"] else "records"
    return f"None of them is shown in a bucket as often as the bucket has {records}."


def _alone(buckets: int, fakes: int) -> str:
    have = plural(buckets, "bucket has", "buckets have")
    if fakes:
        whose = "this person's sensitive value" if buckets == 1 else "these people's sensitive values"
        return f"{have} a single record: only fake values hide {whose}, {number(fakes)} in each bucket."
    whose = f"values of these {number(buckets)} people are" if buckets > 1 else "value of this person is"
    return f"{have} a single record: the sensitive {whose} published in the clear."


def _filled(values: int, release: Twin) -> str:
    known, fakes = release["known_records"], release["fake_values"]
    one = values == 1
    which = plural(values, "value without a limit", "values without a limit")
    if fakes:
        left = "records that are not known" if known else "records"
        shown = f"{which} {'is' if one else 'are'} shown as often as some bucket has {left}"
        if known:
            return (
                f"{shown}. For somebody who knows {plural(known, 'record')} of it, only fake values leave open whether "
                "all others have the value."
            )
        return f"{shown}: only fake values leave open whether everybody in it has the value."
    fills = f"{which} {'fills' if one else 'fill'} some bucket"
    if known:
        these = "it" if known == 1 else "them"
        return (
            f"{fills} except for {plural(known, 'record')}: somebody who knows {these} knows that all others in such a "
            "bucket have the value."
        )
    return f"{fills} of several records: everybody in such a bucket is known to have the value."
