"""The first two pages, in words: the verdict and what it rests on, and the figures that somebody who signs has to see.

Everything has its bounds here, so that each of the two fits on a sheet of paper: so many findings, so many values, and
so many letters of each. The annex has the rest.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dalenius.model.concern import Advice, Severity
from dalenius.model.exposure import BANDS
from dalenius.report.attackers import every_attack
from dalenius.report.formatting import (
    NOTHING,
    SPACE,
    listed,
    number,
    percentages,
    plain,
    plural,
    sentence,
    tenths,
    visible,
)
from dalenius.report.group_tree import on_the_front_page
from dalenius.report.statements import compared, measured

Twin = dict[str, Any]
MOST_LINES = 10  # of findings
MOST_VALUES = 12
_MOST_NAMED = 3
_LONGEST_MESSAGE = 200
_WHOLE_MESSAGE = 2000
_LONGEST_NAME = 36
_SHORT_NAME = 24
_LINE = 100  # characters of the list of findings
_VERDICTS = {
    Advice.PUBLISH: ("good", "✓", "Publish"),
    Advice.LOOK_FIRST: ("warn", "!", "Look at this first"),
    Advice.DO_NOT_PUBLISH: ("bad", "✗", "Do not publish"),
}
_SEVERITIES = {
    Severity.STOP: ("bad", "✗", "Stop"),
    Severity.LOOK: ("warn", "!", "Look"),
    Severity.NOTE: ("plain", "·", "Note"),
}


def front_page(twin: Twin) -> Twin:
    """What the first two pages show, by name."""
    tone, mark, words = _VERDICTS[Advice(twin["verdict"])]
    findings = [finding_in_words(finding, _LONGEST_MESSAGE) for finding in twin["findings"]]
    in_full = [finding_in_words(finding) for finding in twin["findings"]]
    shown = _fitting(findings)
    exposure, release = twin["exposure"], twin["release"]
    return {
        "verdict": {"tone": tone, "mark": mark, "words": words, "why": _why(twin, findings)},
        "findings": shown,
        "more_findings": len(findings) - len(shown),
        "every_finding": in_full if shown != in_full else [],
        "done": _done(twin),
        "exposure": exposure_in_words(exposure) if exposure is not None else "",
        "groups": on_the_front_page(twin),
        "bands": bands_in_words(exposure) if exposure is not None else "",
        "attackers": _attacker_rows(twin),
        "values": _value_rows(exposure, release) if exposure is not None and release is not None else [],
        "more_values": max(0, len(exposure["values"]) - MOST_VALUES) if exposure is not None else 0,
        "counts": _counts(twin),
    }


def _why(twin: Twin, findings: list[Twin]) -> str:
    """The heaviest finding; or that there is none, without clearing whatever the release was not made to withstand."""
    if twin["verdict"] != Advice.PUBLISH:
        return str(findings[0]["message"])
    beyond = any(finding["code"] == "above-limit" for finding in twin["findings"])
    whom = "whom the release was made to withstand" if beyond else "who was played"
    return (
        "Nothing was found against publication: every check passed, nobody's value is published outright, and no "
        f"attacker {whom} is right noticeably more often than the limits allow."
    )


def _fitting(findings: list[Twin]) -> list[Twin]:
    """The heaviest findings, as many as there is room for."""
    lines, shown = 0, list[Twin]()
    for finding in findings:
        lines += sum(-(-len(finding[part]) // _LINE) for part in ("message", "answer"))
        if shown and lines > MOST_LINES:
            break
        shown.append(finding)
    return shown


def finding_in_words(finding: Twin, longest: int = _WHOLE_MESSAGE) -> Twin:
    """A finding as a line of the list."""
    tone, mark, word = _SEVERITIES[Severity(finding["severity"])]
    return {
        "tone": tone,
        "mark": mark,
        "word": word,
        "message": percentages(sentence(visible(finding["message"], longest))),
        "answer": percentages(finding["answer"] or ""),
    }


def _done(twin: Twin) -> list[tuple[str, str, str]]:
    """What the verdict rests on, as (tone, mark, words): never more than was done."""
    checks = twin["verify"]["checks"]
    passed = sum(check["passed"] for check in checks)
    good, bad, open_ = ("good", "✓"), ("bad", "✗"), ("warn", "?")
    rows = [(*(good if passed == len(checks) else bad), f"{passed} of {plural(len(checks), 'check')} passed")]
    if compared(twin):
        same = all(check["passed"] for check in checks if check["check"] == "source")
        rows.append((*good, "compared with the table") if same else (*bad, "not the table that was given"))
    else:
        rows.append((*open_, "not compared with the table"))
    audit = twin["audit"]
    if audit is None:
        rows.append((*open_, "not attacked"))
    else:
        played = len({name for _, name, attack in every_attack(audit) if attack["people"]})
        rows.append(
            (*good, f"{plural(played, 'attacker')} played")
            if measured(audit)
            else (*open_, f"{plural(played, 'attacker')} played; how often right is not known")
        )
    return rows


def exposure_in_words(exposure: Twin) -> str:
    """The first thing to know about a release."""
    everybody = plural(round(exposure["people"]), "person", "people")
    mean, highest = tenths(exposure["mean"]), tenths(exposure["highest"])
    if not exposure["outright"]:
        return (
            f"Nobody's value is published outright. To whoever finds a person's bucket, the release gives the person's "
            f"own value a probability of {mean} on average over {everybody}, and of {highest} at most."
        )
    clear = sorted((one for one in exposure["values"] if one["outright"]), key=lambda one: -one["outright"])
    named = [f"“{visible(one['value'], _SHORT_NAME)}” {round(one['outright']):,}" for one in clear]
    share = tenths(exposure["outright"] / exposure["people"])
    return (
        f"{round(exposure['outright']):,} of {everybody} ({share}) have their value published outright: "
        f"{listed(named, _MOST_NAMED)}. On average, the release gives a person's own value a probability of {mean}."
    )


def bands_in_words(exposure: Twin) -> str:
    """What the chart of exposure shows."""
    parts = [
        f"{number(round(people))} ({tenths(people / exposure['people'])}) {_band(place)}"
        for place, people in enumerate(exposure["bands"])
        if people
    ]
    return f"People by the probability that the release gives to their own value: {'; '.join(parts)}."


def _band(place: int) -> str:
    if place == BANDS:
        return "published outright"
    return f"from {10 * place} to less than {10 * place + 10}{SPACE}%"


def _attacker_rows(twin: Twin) -> list[Twin]:
    """One row an attacker, in the words of `dalenius audit`."""
    audit = twin["audit"]
    if audit is None:
        return []
    heaviest = {
        (one["attacker"], next(iter(one["columns"]), None), bool(one["groups"])): _SEVERITIES[Severity(one["severity"])]
        for one in reversed(twin["findings"])
    }
    rows = []
    for label, name, attack in every_attack(audit):
        guesses = tuple(tenths(attack[kind]) for kind in ("success", "baseline", "control"))
        column = attack.get("column")
        rows.append(_attacker_row(label, guesses, attack, heaviest.get((name, column, False))))
        if attack["groups"] is not None:
            found = heaviest.get((name, column, True))
            rows.append(_attacker_row(f"{label}: groups", (NOTHING,) * 3, attack["groups"], found))
    return rows


def _attacker_row(name: str, guesses: tuple[str, ...], attack: Twin, found: tuple[str, str, str] | None) -> Twin:
    claims, right, points = attack["claims"], attack["claims_right"], attack["points"]
    tone, mark, _ = found or ("plain", "", "")
    return {
        "name": name,
        "cells": (
            *guesses,
            number(attack["people_above_limit"]),
            number(claims),
            tenths(right / claims if claims and right is not None else None),
            tenths(attack["mean_limit"]),
        ),
        "points": f"{points:+.1f}" if points else NOTHING if points is None else "0",
        "tone": tone,
        "mark": mark if tone != "plain" else "",
    }


def _value_rows(exposure: Twin, release: Twin) -> list[Twin]:
    """The values that expose people most, first those that are published outright."""
    limits = {value["value"]: Fraction(value["limit"]) for value in release["values"]}
    worst = sorted(exposure["values"], key=lambda one: (-one["outright"], -one["highest"], -one["mean"]))
    return [
        {
            "name": _without_middle(visible(one["value"], _WHOLE_MESSAGE)),
            "people": number(round(one["people"])),
            "limit": _limit(limits.get(one["value"])),
            "mean": tenths(one["mean"]),
            "highest": tenths(one["highest"]),
            "outright": number(round(one["outright"])),
            "tone": "bad" if one["outright"] else "plain",
        }
        for one in worst[:MOST_VALUES]
    ]


def _without_middle(name: str) -> str:
    """A long name cut in its middle: names often differ at their ends."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[1 - half :]}"


def _limit(limit: Fraction | None) -> str:
    return NOTHING if limit is None else "no limit" if limit == 1 else tenths(float(limit))


def _counts(twin: Twin) -> list[str]:
    """How good counts are: in counts, and not in squares."""
    sentences = []
    if twin["count_error"] is not None:
        sentences.append(percentages(sentence(visible(twin["count_error"]["sentence"], _LONGEST_MESSAGE))))
    if (workload := twin["workload"]) is not None:
        learned = workload.get("learned") or workload
        sentences.append(
            f"Of {number(workload['queries'])} random count queries, half are off by at most "
            f"{tenths(learned['median_relative_error'])}."
        )
    if not sentences:
        sentences.append("Not known: the sensitive values of the release cannot be read.")
    return sentences


def squared_error(release: Twin) -> str:
    """The paper's measure, for those who compare with it."""
    return f"Mean squared error (MSE): {plain(release['mse'])}. Loss: {number(release['loss'])}."
