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
from dalenius.report.by_column import all_at_once, named, one_by_one
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
from dalenius.report.people_words import promise
from dalenius.report.statements import compared, measured

Twin = dict[str, Any]
MOST_LINES = 10  # of findings
MOST_LINES_OF_PEOPLE = 7  # where the promise takes some
MOST_VALUES = 12
MOST_COLUMNS = 4  # sensitive ones
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
    exposure, release = twin["exposure"], twin["release"]
    by_people = release is not None and release["by_people"]
    shown = _fitting(findings, MOST_LINES_OF_PEOPLE if by_people else MOST_LINES)
    joined = {**twin, "release": all_at_once(release)} if release is not None else twin
    tables = _value_tables(twin) if exposure is not None and release is not None else []
    return {
        "verdict": {"tone": tone, "mark": mark, "words": words, "why": _why(twin, findings)},
        "findings": shown,
        "more_findings": len(findings) - len(shown),
        "every_finding": in_full if shown != in_full else [],
        "done": _done(twin),
        "exposure": exposure_in_words(exposure) if exposure is not None else "",
        "promise": promise(twin),
        "groups": on_the_front_page(joined),
        "bands": bands_in_words(exposure) if exposure is not None else "",
        "attackers": _attacker_rows(twin),
        "values": tables,
        "more_values": sum(table["more"] for table in tables),
        "more_columns": max(0, len(release["others"]) + 1 - MOST_COLUMNS) if release is not None else 0,
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


def _fitting(findings: list[Twin], most: int) -> list[Twin]:
    """The heaviest findings, as many as there is room for."""
    lines, shown = 0, list[Twin]()
    for finding in findings:
        lines += sum(-(-len(finding[part]) // _LINE) for part in ("message", "answer"))
        if shown and lines > most:
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
    several = exposure["several"]
    if not exposure["outright"] and several:
        return (
            "Nobody's value is published outright. To whoever finds a person's bucket, the release gives the value "
            f"that the person has most likely a probability of {mean} on average over {everybody}, and of {highest} at "
            "most."
        )
    if not exposure["outright"]:
        return (
            f"Nobody's value is published outright. To whoever finds a person's bucket, the release gives the person's "
            f"own value a probability of {mean} on average over {everybody}, and of {highest} at most."
        )
    clear = sorted((one for one in exposure["values"] if one["outright"]), key=lambda one: -one["outright"])
    columns = len({one["column"] for one in exposure["values"]})
    names = [one["value"] if columns == 1 else named(one["column"], one["value"]) for one in clear]
    shown = [
        f"“{visible(name, _SHORT_NAME)}” {round(one['outright']):,}" for name, one in zip(names, clear, strict=True)
    ]
    share = tenths(exposure["outright"] / exposure["people"])
    what, whose = ("a value", "the likeliest value of a person") if several else ("their value", "a person's own value")
    return (
        f"{round(exposure['outright']):,} of {everybody} ({share}) have {what} published outright: "
        f"{listed(shown, _MOST_NAMED)}. On average, the release gives {whose} a probability of {mean}."
    )


def bands_in_words(exposure: Twin) -> str:
    """What the chart of exposure shows."""
    parts = [
        f"{number(round(people))} ({tenths(people / exposure['people'])}) {_band(place)}"
        for place, people in enumerate(exposure["bands"])
        if people
    ]
    return f"{bands_title(exposure)}: {'; '.join(parts)}."


def bands_title(exposure: Twin) -> str:
    """What the bars of the chart of exposure are."""
    which = "the value they have most likely" if exposure["several"] else "their own value"
    return f"People by the probability that the release gives to {which}"


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


def _value_tables(twin: Twin) -> list[Twin]:
    """For each sensitive column the values that expose people most; fewer of each where there are several columns."""
    views = one_by_one(twin)[:MOST_COLUMNS]
    most = MOST_VALUES if len(views) == 1 else max(2, (MOST_VALUES - len(views)) // len(views))
    return [
        {
            "name": own["release"]["columns"]["sensitive"]["name"],
            "rows": _value_rows(own["exposure"], own["release"], most),
            "more": max(0, len(own["exposure"]["values"]) - most),
        }
        for own in views
        if own["exposure"]["values"]
    ]


def _value_rows(exposure: Twin, release: Twin, most: int) -> list[Twin]:
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
        for one in worst[:most]
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
