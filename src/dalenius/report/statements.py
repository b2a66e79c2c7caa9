"""What the report itself has to say about publication, besides what the checks and the attackers found.

`own_concerns` adds to the findings of the checks and the attacks: a seed, values without a limit, other files in the
folder, and whatever was not done. Nothing that was not checked or not attacked is cleared. A value with the limit 1 may
fill a bucket: it is shown there as often as the bucket has records that are not known. The sizes and worst cases in the
manifest show where that happens.

`statements` are two paragraphs at the top of the annex: about the checks, and about the attacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dalenius.model.concern import Concern, Severity
from dalenius.release.manifest import SEEDED
from dalenius.report.attackers import every_attack
from dalenius.report.by_column import all_at_once
from dalenius.report.formatting import listed, number, part, percent, percentages, plural, sentence, visible
from dalenius.verify.findings import SOURCE

Twin = dict[str, Any]
_LONGEST = 400  # characters of a message
_NEW_CHAIN = (
    "Consider a new chain: a first release again, with a new ledger. Whoever has releases of both chains can intersect "
    "them; dalenius audit estimates what that would give away."
)
NOT_MEASURED = "not-measured"


Tone = Literal["good", "bad", "warn", "plain"]


@dataclass(frozen=True)
class Statement:
    """A statement at the top of the annex, and whether it is good news."""

    tone: Tone
    title: str
    sentences: tuple[str, ...]


def statements(twin: Twin) -> list[Statement]:
    """Both statements, in reading order."""
    return [_checks(twin), _attacks(twin)]


def _checks(twin: Twin) -> Statement:
    checks = twin["verify"]["checks"]
    if twin["verify"]["verified"]:
        release = all_at_once(twin["release"])
        also = ", and every group of values that has a limit," if limited_groups(release) else ""
        in_people = ", counted in people" if release["by_people"] else ""
        text = [f"All {len(checks)} checks passed: every value{also} of every bucket is within its limit{in_people}."]
        if free := free_in_words(release):
            text.append(f"{free}.")
        if compared(twin):
            but = ", apart from the fakes," if release["fake_values"] else ""
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
    exceeded = [one for one in twin["findings"] if one["code"] == "above-limit"]
    nothing_broken = "No simulated attacker broke a promise of the release."
    if exceeded:
        nothing_broken = "That breaks no promise of the release, which makes none against these attackers."
    text = [
        *(percentages(sentence(visible(one["message"], _LONGEST))) for one in exceeded),
        f"{nothing_broken} Section 6 shows what they infer beyond the promises.",
    ]
    if audit["sampled"] is not None and audit["sampled"]["rows"]:
        rows, of = audit["sampled"]["rows"], audit["sampled"]["of"]
        text.append(f"Most of them were played against a random sample of {number(rows)} of {plural(of, 'record')}.")
    text += _learned(audit)
    spared = not_played(audit)
    if spared:
        text.append(f"Every bucket is too large for {listed(spared)}, who were not played.")
    if exceeded:
        tone: Tone = "bad" if any(one["severity"] == Severity.STOP for one in exceeded) else "warn"
        return Statement(tone, "Attackers are right more often than the limits allow", tuple(text))
    if spared:
        return Statement("warn", "Not attacked in full", tuple(text))
    if not measured(audit):
        return Statement("warn", "No promise broken, but not known how often attackers are right", tuple(text))
    return Statement("good", "No promise broken, and no claims right noticeably more often than allowed", tuple(text))


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


def own_concerns(twin: Twin) -> list[Concern]:
    """What the checks and the attacks do not say: how the release was made, and what was not looked at."""
    release = all_at_once(twin["release"]) if twin["release"] is not None else None
    concerns = []
    if release is not None and release["randomness"] == SEEDED:
        message = "the release was made with a seed: anybody who has the seed and the order of the table can undo it"
        concerns.append(Concern("seeded", Severity.STOP, message, "Publish again without a seed."))
    concerns += [*_not_attacked(twin), *_not_compared(twin), *_of_chain(twin)]
    if release is not None and (release["fake_values"] or release["known_records"]):  # else they are in the clear
        answer = "Publish again with limits below 1: --odds 8 never reaches 1."
        concerns += [
            Concern("without-limit", Severity.LOOK, text.removesuffix("."), answer) for text in exposures(release)
        ]
    if others := twin["other_files"]:
        message = (
            f"the folder of the release has {plural(others, 'other file')}, which nobody verified: whoever gets the "
            f"folder gets {'it' if others == 1 else 'them'} as well"
        )
        concerns.append(Concern("other-files", Severity.LOOK, message, "Move whatever is not the release elsewhere."))
    return concerns


def _not_attacked(twin: Twin) -> list[Concern]:
    """A release that was not attacked, or attacked without the truth, is not cleared."""
    audit = twin["audit"]
    if audit is None:
        message = "not attacked: no attacker was played, so it is not known what they can infer"
        answer = "Make the report with --audit --truth TABLE."
        return [Concern("not-attacked", Severity.LOOK, message, answer)]
    concerns = []
    if not measured(audit):
        message = "how often the attackers are right is not known without the table that was published"
        concerns.append(Concern(NOT_MEASURED, Severity.LOOK, message, "Make the report with --audit --truth TABLE."))
    if spared := not_played(audit):
        message = (
            f"every bucket is too large for these attackers, who were not played: {listed(spared)}; what they could "
            "infer is not known"
        )
        concerns.append(Concern("not-played", Severity.LOOK, message, "Publish again with a smaller --max-size."))
    return concerns


def _not_compared(twin: Twin) -> list[Concern]:
    if compared(twin):
        return []
    message = (
        "the records were not compared with the table that was published: whether the release has all of them, "
        "unchanged, is not known"
    )
    return [Concern("not-compared", Severity.LOOK, message, "Make the report with --truth TABLE.")]


def _of_chain(twin: Twin) -> list[Concern]:
    """Releases that do not precede this one, and too many places that are nobody's."""
    concerns = []
    chain = twin["release"]["chain"] if twin["release"] is not None else None
    if strangers := sum(not one["precedes"] for one in twin["earlier"]):
        which = (
            "a release that was given does" if strangers == 1 else f"{number(strangers)} releases that were given do"
        )
        message = f"{which} not precede this one in its chain, or one between them is missing"
        answer = "Give all earlier releases of the chain, as they were published."
        concerns.append(Concern("not-preceding", Severity.LOOK, message, answer))
    if chain is not None and chain["advises_new_chain"]:
        message = (
            f"{number(chain['surplus'])} of {plural(chain['places'], 'place')} in buckets are nobody's "
            f"({chain['surplus_share']:.0%}), more than a third"
        )
        concerns.append(Concern("surplus", Severity.NOTE, message, _NEW_CHAIN))
    return concerns


def chain_in_words(twin: Twin) -> list[str]:
    """Where the release is one of a chain: which one, what is left over, and which releases precede it."""
    chain = twin["release"]["chain"]
    if chain is None:
        return []
    sentences = [
        f"This is release {number(chain['release'])} of a chain, whose buckets go on from release to release: whoever "
        "stays is in the same bucket with the same values. All these releases together tell no more about somebody who "
        "stays than one of them."
    ]
    if chain["surplus"]:
        sentences.append(
            f"{part(chain['surplus'], chain['places'])} places in buckets are nobody's: of people who left, or filled "
            "up by the publisher. Their values stay. Sizes of buckets, counts of values and worst cases include them."
        )
    else:
        sentences.append("Every place in a bucket is somebody's.")
    if chain["advises_new_chain"]:
        sentences.append(f"That is more than a third. {_NEW_CHAIN}")
    if chain["held_back"]:
        held = plural(chain["held_back"], "new person is", "new people are")
        sentences.append(f"According to the manifest, {held} held back: in no bucket yet, and not in the release.")
    for one in twin["earlier"]:
        which = "A release of no chain" if one["release"] is None else f"Release {number(one['release'])}"
        fits = "precedes this one" if one["precedes"] else "does not precede this one, or one between them is missing"
        size = f"{plural(one['rows'], 'record')} in {plural(one['buckets'], 'bucket')}"
        sentences.append(f"{which}, with {size}, {fits}.")
    return sentences


def has_values_of_nobody(release: Twin) -> bool:
    """Whether a bucket may show values that are nobody's."""
    return bool(release["fake_values"] or (release["chain"] is not None and release["chain"]["surplus"]))


def measured(audit: Twin) -> bool:
    """Whether it is known how often attackers are right; for some of what a known record gives away it always is."""
    others = [attack for _, name, attack in every_attack(audit) if name != "corruption" and attack["people"]]
    return not others or any(attack["claims_right"] is not None for attack in others)


def compared(twin: Twin) -> bool:
    """Whether the records were compared with the table that was published."""
    return any(check["check"] == SOURCE and check["outcome"] != "not-checked" for check in twin["verify"]["checks"])


def not_played(audit: Twin) -> list[str]:
    """Attackers who had nobody to attack."""
    return [label for label, _, attack in every_attack(audit) if attack["people"] == 0]


def limited_groups(release: Twin) -> list[Twin]:
    """The groups of values that have a limit."""
    return [group for group in release["groups"] if group["limit"] is not None and Fraction(group["limit"]) < 1]


def has_own_limit(value: Twin) -> bool:
    """Whether the value has a limit below 1; a limit of 1 is no limit."""
    return Fraction(value["limit"]) < 1


def is_free(value: Twin) -> bool:
    """Whether the value has no limit, and is in no group that has one."""
    return not has_own_limit(value) and Fraction(value["group_limit"] or 1) == 1


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
    """How many buckets have a single record, or person."""
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
        *([_alone(alone, release)] if alone else []),
        *([_filled(larger, release)] if larger else []),
    ]


def without_exposure(release: Twin) -> str:
    """The sentence for a release in which no value without a limit fills a bucket."""
    if release["by_people"]:
        whom = "those who are not known" if release["known_records"] else "its people"
        return f"In no bucket do all of {whom} have one of them."
    records = "records that are not known" if release["known_records"] else "records"
    return f"None of them is shown in a bucket as often as the bucket has {records}."


def _alone(buckets: int, release: Twin) -> str:
    have, fakes = plural(buckets, "bucket has", "buckets have"), release["fake_values"]
    if release["by_people"]:
        whose = f"of these {number(buckets)} people" if buckets > 1 else "of this person"
        return f"{have} a single person: the sensitive values {whose} are published in the clear."
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
        if release["by_people"]:
            return (
                f"{fills} except for {plural(known, 'person', 'people')}: somebody who knows what they have knows that "
                "all others in such a bucket have the value."
            )
        return (
            f"{fills} except for {plural(known, 'record')}: somebody who knows {these} knows that all others in such a "
            "bucket have the value."
        )
    of_several = "people" if release["by_people"] else "records"
    return f"{fills} of several {of_several}: everybody in such a bucket is known to have the value."
