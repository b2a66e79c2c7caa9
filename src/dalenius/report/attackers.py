"""What simulated attackers got, in words: who they are, what they found, and what the release promises against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dalenius.model.attack_result import ATTACKS
from dalenius.report.shown import interval, number, part, percent, plural, sentence, times

_ORDER_SAYS_NOTHING = "It is promised that order says nothing."
_NOTHING_PROMISED = "Nothing is promised against this attacker."


@dataclass(frozen=True)
class Attacker:
    """One attacker: cells of the table, each with its interval if it has one, and sentences."""

    name: str
    who: str
    promised: str
    cells: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


def attackers(audit: dict[str, Any]) -> list[Attacker]:
    """Those that were played."""
    return [_attacker(name, audit[name], audit) for name in ATTACKS if name in audit]


def _attacker(name: str, attack: dict[str, Any], audit: dict[str, Any]) -> Attacker:
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
    told = tuple(_sentences(name, attack, audit["known_records"]))
    notes = tuple(map(sentence, attack["notes"]))
    return Attacker(name, ATTACKS[name], _promised(name, audit["known_records"]), cells, told, notes)


def _promised(name: str, known: int) -> str:
    if name == "corruption":
        if not known:
            return "Limits are promised to hold if no other record of the bucket is known, and no further."
        return f"Limits are promised to hold up to {plural(known, 'known record')} of a bucket, and no further."
    return _ORDER_SAYS_NOTHING if name == "order" else _NOTHING_PROMISED


def _share(attack: dict[str, Any], kind: str, approximate: bool) -> tuple[str, str]:
    """With its interval, unless that would promise too much."""
    share, ends = attack[kind], attack[f"{kind}_interval"]
    return percent(share), interval(ends) if ends is not None and not approximate else ""


def _sentences(name: str, attack: dict[str, Any], promised: int) -> list[str]:
    details = attack["details"]
    if not details:
        return []
    found = []
    if name == "corruption":
        found += _corruption(details, promised)
    elif name == "negative":
        found.append(_negative(details))
    elif name == "minimality":
        found += _minimality(details)
    if name != "corruption" and details.get("merged_strata") != 0:
        found += _guesses(attack)
    return found


def _corruption(details: dict[str, Any], promised: int) -> list[str]:
    chosen, known = details["chosen"], details["known"]
    records = plural(known, "record")
    above = f"{part(chosen['people_above_limit'], chosen['people'])} {'person' if chosen['people'] == 1 else 'people'}"
    found = [
        f"With {records} of others in the bucket known, and chosen for it, {above} can be put above a limit; "
        f"the largest probability is {times(chosen['worst_ratio'])} its limit."
    ]
    if known > promised:
        found.append("The release promises nothing against somebody who knows so many.")
    if details["random"]["people"]:
        found.append(f"Guesses and claims are those of somebody who knows {records} by chance.")
    return found


def _negative(details: dict[str, Any]) -> str:
    pairs = details["pairs"]
    if not pairs:
        return "No published and sensitive value were found that hardly ever go together: nothing is ruled out."
    return (
        f"{plural(pairs, 'pair')} of a published and a sensitive value hardly ever {'goes' if pairs == 1 else 'go'} "
        "together. That rules out "
        f"{details['mean_ruled_out']:.2f} of the values that a person may have, on average, and leaves "
        f"{plural(details['left_with_one'], 'person', 'people')} with one."
    )


def _minimality(details: dict[str, Any]) -> list[str]:
    if not details["merged_strata"]:
        return ["No stratum was merged from several parts: there is nothing to conclude."]
    found = [
        f"{part(details['merged_strata'], details['strata'])} strata were merged. By the model that concludes most, "
        f"{plural(details['pairs_above_limit'], 'pair')} of a part and a value "
        f"{'has' if details['pairs_above_limit'] == 1 else 'have'} a share above the value's limit."
    ]
    truth = details.get("truth")
    if truth and truth["worst_true_ratio"] is not None:
        worst = f"{times(truth['worst_true_ratio'])} its limit"
        found.append(f"In truth the largest share of a value in a merged part is {worst}.")
    return found


def _guesses(attack: dict[str, Any]) -> list[str]:
    """What the guesses are worth, and what is believed above a limit."""
    found = []
    success, baseline = attack["success"], attack["baseline"]
    if success is not None and baseline is not None:
        points = round(100 * (success - baseline), 1)
        more = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if points else "no more"
        found.append(f"Guesses {percent(success)} of people right; the bucket alone gives {percent(baseline)}: {more}.")
    claims, right, limit = attack["claims"], attack["claims_right"], attack["mean_limit"]
    if claims:
        people = plural(attack["people_above_limit"], "person", "people")
        told = f"{plural(claims, 'claim')} about {people} {'is' if claims == 1 else 'are'} above the limit, which is "
        told += percent(limit) if claims == 1 else f"{percent(limit)} on average"
        found.append(f"{told}; {_true(right, claims)}." if right is not None else f"{told}.")
    elif claims == 0:
        found.append("Believes nothing with a probability above its limit.")
    return found


def _true(right: int, claims: int) -> str:
    if claims == 1:
        return f"it is {'true' if right else 'not true'}"
    return f"{percent(right / claims)} of them are true"


def audit_in_words(audit: dict[str, Any]) -> str:
    """What the chart of attacks shows."""
    found = []
    for name in ATTACKS:
        if name in audit:
            attack = audit[name]
            parts = [
                f"{kind} {percent(attack[kind])}"
                for kind in ("success", "baseline", "control")
                if attack[kind] is not None
            ]
            found.append(f"{name}: {', '.join(parts) or 'nothing known'}")
    return "; ".join(found) + "."
