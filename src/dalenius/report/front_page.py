"""The first two pages, in words: the verdict and what it rests on, and the figures that somebody who signs has to see.

Everything has its bounds here, so that each of the two fits on a sheet of paper: so many findings, so many values, and
so many letters of each. The annex has the rest.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from dalenius.model.attack_result import ATTACKS
from dalenius.model.concern import Advice, Severity
from dalenius.model.exposure import BANDS
from dalenius.report.formatting import (
    NOTHING,
    SPACE,
    fine_percent,
    listed,
    number,
    percent,
    plain,
    plural,
    sentence,
    visible,
)
from dalenius.report.statements import compared, measured

Twin = dict[str, Any]
MOST_FINDINGS = 4
MOST_VALUES = 12
_MOST_NAMED = 3
_LONGEST_MESSAGE = 260
_LONGEST_NAME = 40
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
_NOTHING_FOUND = (
    "Nothing was found against publication: every check passed, nobody's value is published outright, and no attacker "
    "who was played is right more often than the limits allow. Section 7 of the annex lists what is not promised."
)
_PERCENT_SIGN = re.compile(r"(?<=\d)%")


def front_page(twin: Twin) -> Twin:
    """What the first two pages show, by name."""
    tone, mark, words = _VERDICTS[Advice(twin["verdict"])]
    findings = [finding_row(finding) for finding in twin["findings"]]
    exposure, release = twin["exposure"], twin["release"]
    return {
        "verdict": {"tone": tone, "mark": mark, "words": words, "why": findings[0]["message"] if findings else ""}
        | ({"why": _NOTHING_FOUND} if tone == "good" else {}),
        "findings": findings[:MOST_FINDINGS],
        "more_findings": max(0, len(findings) - MOST_FINDINGS),
        "every_finding": findings,
        "done": _done(twin),
        "exposure": exposure_in_words(exposure) if exposure is not None else "",
        "bands": bands_in_words(exposure) if exposure is not None else "",
        "attackers": _attacker_rows(twin),
        "values": _value_rows(exposure, release) if exposure is not None and release is not None else [],
        "more_values": max(0, len(exposure["values"]) - MOST_VALUES) if exposure is not None else 0,
        "counts": _counts(twin),
    }


def finding_row(finding: Twin, longest: int = _LONGEST_MESSAGE) -> Twin:
    """A finding as a line of the list."""
    tone, mark, word = _SEVERITIES[Severity(finding["severity"])]
    return {
        "tone": tone,
        "mark": mark,
        "word": word,
        "message": spaced(sentence(visible(finding["message"], longest))),
        "answer": spaced(finding["answer"] or ""),
    }


def spaced(text: str) -> str:
    """Percent signs as the rest of the page has them."""
    return _PERCENT_SIGN.sub(f"{SPACE}%", text)


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
        played = sum(1 for name in ATTACKS if name in audit and audit[name]["people"])
        rows.append(
            (*good, f"{plural(played, 'attacker')} played")
            if measured(audit)
            else (*open_, f"{plural(played, 'attacker')} played; how often right is not known")
        )
    return rows


def exposure_in_words(exposure: Twin) -> str:
    """The first thing to know about a release."""
    everybody = plural(round(exposure["people"]), "person", "people")
    mean, highest = percent(exposure["mean"]), percent(exposure["highest"])
    if not exposure["outright"]:
        return (
            f"Nobody's value is published outright. To whoever finds a person's bucket, the release gives the person's "
            f"own value a probability of {mean} on average over {everybody}, and of {highest} at most."
        )
    clear = sorted((one for one in exposure["values"] if one["outright"]), key=lambda one: -one["outright"])
    named = [f"“{visible(one['value'], _LONGEST_NAME)}” {round(one['outright']):,}" for one in clear]
    share = percent(exposure["outright"] / exposure["people"])
    return (
        f"{round(exposure['outright']):,} of {everybody} ({share}) have their value published outright: "
        f"{listed(named, _MOST_NAMED)}. On average, the release gives a person's own value a probability of {mean}."
    )


def bands_in_words(exposure: Twin) -> str:
    """What the chart of exposure shows."""
    parts = [
        f"{number(round(people))} ({percent(people / exposure['people'])}) {_band(place)}"
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
    heaviest = {one["attacker"]: _SEVERITIES[Severity(one["severity"])] for one in reversed(twin["findings"])}
    rows = []
    for name in ATTACKS:
        if name not in audit:
            continue
        attack = audit[name]
        claims, right, points = attack["claims"], attack["claims_right"], attack["points"]
        tone, mark, _ = heaviest.get(name, ("plain", "", ""))
        rows.append(
            {
                "name": name,
                "cells": (
                    *(percent(attack[kind]) for kind in ("success", "baseline", "control")),
                    number(attack["people_above_limit"]),
                    number(claims),
                    percent(right / claims if claims and right is not None else None),
                    percent(attack["mean_limit"]),
                ),
                "points": f"{points:+.1f}" if points else NOTHING if points is None else "0",
                "tone": tone,
                "mark": mark,
            }
        )
    return rows


def _value_rows(exposure: Twin, release: Twin) -> list[Twin]:
    """The values that expose people most, first those that are published outright."""
    limits = {value["value"]: Fraction(value["limit"]) for value in release["values"]}
    worst = sorted(exposure["values"], key=lambda one: (-one["outright"], -one["highest"], -one["mean"]))
    return [
        {
            "name": visible(one["value"], _LONGEST_NAME),
            "people": number(round(one["people"])),
            "limit": _limit(limits.get(one["value"])),
            "mean": percent(one["mean"]),
            "highest": percent(one["highest"]),
            "outright": number(round(one["outright"])),
            "tone": "bad" if one["outright"] else "plain",
        }
        for one in worst[:MOST_VALUES]
    ]


def _limit(limit: Fraction | None) -> str:
    return NOTHING if limit is None else "no limit" if limit == 1 else fine_percent(limit)


def _counts(twin: Twin) -> list[str]:
    """How good counts are: in counts, and not in squares."""
    sentences = []
    if twin["count_error"] is not None:
        sentences.append(spaced(sentence(visible(twin["count_error"]["sentence"], _LONGEST_MESSAGE))))
    if (workload := twin["workload"]) is not None:
        learned = workload.get("learned") or workload
        sentences.append(
            f"Of {number(workload['queries'])} random count queries, half are off by at most "
            f"{percent(learned['median_relative_error'])}."
        )
    if not sentences:
        sentences.append("Not known: the sensitive values of the release cannot be read.")
    return sentences


def squared_error(release: Twin) -> str:
    """The paper's measure, for those who compare with it."""
    return f"Mean squared error (MSE): {plain(release['mse'])}. Loss: {number(release['loss'])}."
