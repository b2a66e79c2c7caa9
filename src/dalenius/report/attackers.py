"""What simulated attackers infer, in words: who they are, what they get, and what the release promises against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dalenius.model.attack_result import ATTACKS
from dalenius.report.formatting import interval, listed, number, part, percent, plural, sentence, times, visible

_ORDER_PROMISE = "The release promises that the order of rows reveals nothing."
_WORST = 3  # groups, in a sentence
_NO_PROMISE = "Nothing is promised against this attacker."
_ONE_BUCKET = "The limits hold against this attacker: everybody is in one bucket of people."


@dataclass(frozen=True)
class Attacker:
    """One attacker: cells of the table, each with its interval if there is one, and sentences."""

    name: str
    who: str
    promise: str
    cells: tuple[tuple[str, str], ...]
    group_cells: tuple[str, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


def every_attack(audit: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """What it is called on the page, name and result of each attack; first those on the first sensitive column.

    Attackers who do not apply to a column are left out.
    """
    found = [(name, one[name]) for one in (audit, *audit.get("other_columns", ())) for name in ATTACKS if name in one]
    return [
        (f"{attack['column']}: {name}" if attack.get("column") else name, name, attack)
        for name, attack in found
        if attack.get("not_played") is None
    ]


def left_out(audit: dict[str, Any]) -> list[str]:
    """Who does not apply, and why, as sentences."""
    reasons: dict[str, list[str]] = {}
    for played in (audit, *audit.get("other_columns", ())):
        for name in ATTACKS:
            if name in played and (reason := played[name].get("not_played")) is not None:
                column = played[name]["column"]
                reasons.setdefault(reason, []).append(f"{column}: {name}" if column else name)
    return [f"Not played, because {reason}: {listed(names)}." for reason, names in reasons.items()]


def attackers(audit: dict[str, Any]) -> list[Attacker]:
    """The attackers who were played."""
    return [_attacker(label, name, attack, audit) for label, name, attack in every_attack(audit)]


def _attacker(label: str, name: str, attack: dict[str, Any], audit: dict[str, Any]) -> Attacker:
    approximate = audit["approximate"]
    claims, right = attack["claims"], attack["claims_right"]
    if attack["baseline"] is None:  # nobody was left to make claims about
        claims = None
    cells = (
        (number(attack["people"]), ""),
        *(_share(attack, kind, approximate) for kind in ("success", "baseline", "control")),
        (number(attack["people_above_limit"]), ""),
        (number(claims), ""),
        (percent(right / claims if claims and right is not None else None), ""),
        (percent(attack["mean_limit"]), ""),
    )
    known = audit["known_records"]
    return Attacker(
        name=label,
        who=ATTACKS[name],
        promise=_promise(name, known, attack["details"]),
        cells=cells,
        group_cells=_group_cells(attack["groups"]) if attack["groups"] is not None else (),
        sentences=tuple(_sentences(name, attack, known)),
        notes=tuple(map(sentence, attack["notes"])),
    )


def _group_cells(groups: dict[str, Any]) -> tuple[str, ...]:
    claims, right = groups["claims"], groups["claims_right"]
    return (
        number(groups["people_above_limit"]),
        number(claims),
        percent(right / claims if claims and right is not None else None),
        percent(groups["mean_limit"]),
    )


def _promise(name: str, known: int, details: dict[str, Any]) -> str:
    if name == "corruption":
        if not known:
            return "The limits hold as long as no other record of the bucket is known."
        return f"The limits hold for up to {plural(known, 'known record')} of a bucket, and not beyond."
    if name in ("intersection", "union") and "several_rows" not in details:
        return _ONE_BUCKET
    return _ORDER_PROMISE if name == "order" else _NO_PROMISE


def _share(attack: dict[str, Any], kind: str, approximate: bool) -> tuple[str, str]:
    """A share with its interval, unless the figures are approximate."""
    share, ends = attack[kind], attack[f"{kind}_interval"]
    return percent(share), interval(ends) if ends is not None and not approximate else ""


def _sentences(name: str, attack: dict[str, Any], promised: int) -> list[str]:
    details = attack["details"]
    if not details:
        return []
    sentences = []
    if name == "corruption":
        sentences += _corruption(details, promised)
    elif name == "negative":
        sentences.append(_negative(details))
    elif name == "intersection":
        sentences += _intersection(details)
    elif name == "other-column":
        known = details["known_column"]
        kept = any(one["kept_together"] for one in details["known_columns"] if one["column"] == known)
        tuples = " The release keeps the two together, and says what goes with what." if kept else ""
        sentences.append(f"The column that is known is “{visible(known, 60)}”.{tuples}")
    elif name == "minimality":
        sentences += _minimality(details, " or group of values" if attack["groups"] is not None else "")
    if name != "corruption" and details.get("merged_strata") != 0:
        sentences += _guesses(attack)
    if attack["groups"] is not None and details.get("merged_strata") != 0:
        sentences.append(_about_groups(attack["groups"]))
    return sentences


def _about_groups(groups: dict[str, Any]) -> str:
    """Claims that somebody's value is one of a group."""
    claims, right = groups["claims"], groups["claims_right"]
    if claims is None and groups["people_above_limit"]:
        people = plural(groups["people_above_limit"], "person", "people")
        return f"The probability that somebody's value is one of a group exceeds the limit of the group for {people}."
    if not claims:
        return "Believes of no group of values that somebody's value is in it, with a probability above its limit."
    text = (
        f"{plural(claims, 'claim')} that somebody's value is one of a group {'is' if claims == 1 else 'are'} above the "
    )
    text += f"limit of the group, {'' if claims == 1 else 'on average '}{percent(groups['mean_limit'])}"
    text += f"; {_true(right, claims)}" if right is not None else ""
    worst = [f"“{visible(one['group'], 60)}”" for one in groups["worst_groups"][:_WORST]]
    return f"{text}.{f' Right more often than allowed: {listed(worst)}.' if worst else ''}"


def _corruption(details: dict[str, Any], promised: int) -> list[str]:
    chosen, known = details["chosen"], details["known"]
    records = plural(known, "record")
    above = f"{part(chosen['people_above_limit'], chosen['people'])} {'person' if chosen['people'] == 1 else 'people'}"
    sentences = [
        f"If the attacker chooses {records} of others in the bucket to know, the probability exceeds a limit for "
        f"{above}. The largest probability is {times(chosen['worst_ratio'])} its limit."
    ]
    if known > promised:
        sentences.append("The release promises nothing against somebody who knows this many.")
    if details["random"]["people"]:
        sentences.append(f"Guesses and claims are those of somebody who knows {records} by chance.")
    return sentences


def _negative(details: dict[str, Any]) -> str:
    pairs = details["pairs"]
    if not pairs:
        return "No quasi-identifier and sensitive value hardly ever occur together, so nothing can be ruled out."
    return (
        f"{plural(pairs, 'pair')} of a quasi-identifier and a sensitive value hardly ever "
        f"{'occurs' if pairs == 1 else 'occur'} together. On average, that rules out "
        f"{details['mean_ruled_out']:.2f} of the values that a person may have. It leaves "
        f"{plural(details['left_with_one'], 'person', 'people')} with one value."
    )


def _intersection(details: dict[str, Any]) -> list[str]:
    """How many people are left with one value, if buckets could be put together."""
    if "pinned" not in details:
        return []
    pinned, right = details["pinned"], details["pinned_right"]
    rightly = f", {percent(right / pinned)} of them rightly" if pinned and right is not None else ""
    return [
        f"Of {plural(details['several_rows'], 'person', 'people')} with several rows, {number(pinned)} "
        f"{'is' if pinned == 1 else 'are'} left with one value that all their buckets have{rightly}."
    ]


def _minimality(details: dict[str, Any], group: str) -> list[str]:
    if not details["merged_strata"]:
        return ["No stratum was merged from several parts, so there is nothing to conclude."]
    sentences = [
        f"{part(details['merged_strata'], details['strata'])} strata were merged. In the model that infers most, "
        f"{plural(details['pairs_above_limit'], 'pair')} of a part and a value{group} "
        f"{'has' if details['pairs_above_limit'] == 1 else 'have'} a share above its limit."
    ]
    truth = details.get("truth")
    if truth and truth["worst_true_ratio"] is not None:
        worst = f"{times(truth['worst_true_ratio'])} its limit"
        sentences.append(f"In the table, the largest share of a value{group} in a merged part is {worst}.")
    return sentences


def _guesses(attack: dict[str, Any]) -> list[str]:
    """How good the guesses are, and which beliefs exceed a limit."""
    sentences = []
    success, baseline = attack["success"], attack["baseline"]
    if success is not None and baseline is not None:
        points = round(100 * (success - baseline), 1)
        more = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if points else "no gain"
        sentences.append(
            f"Guesses right for {percent(success)} of people; the bucket alone gives away {percent(baseline)}: {more}."
        )
    claims, right, limit = attack["claims"], attack["claims_right"], attack["mean_limit"]
    if claims:
        people = plural(attack["people_above_limit"], "person", "people")
        text = f"{plural(claims, 'claim')} about {people} {'is' if claims == 1 else 'are'} above the limit, which is "
        text += percent(limit) if claims == 1 else f"{percent(limit)} on average"
        sentences.append(f"{text}; {_true(right, claims)}." if right is not None else f"{text}.")
    elif claims == 0:
        sentences.append("Believes no value with a probability above its limit.")
    return sentences


def _true(right: int, claims: int) -> str:
    if claims == 1:
        return f"it is {'true' if right else 'not true'}"
    return f"{percent(right / claims)} of them are true"


def audit_in_words(audit: dict[str, Any]) -> str:
    """What the chart of attacks shows."""
    attacks = []
    for label, _, attack in every_attack(audit):
        parts = [
            f"{kind} {percent(attack[kind])}" for kind in ("success", "baseline", "control") if attack[kind] is not None
        ]
        attacks.append(f"{label}: {', '.join(parts) or 'nothing known'}")
    return "; ".join(attacks) + "."
