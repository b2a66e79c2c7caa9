"""Groups of values on the page: the tree with limits, largest shares and people, and sentences about it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dalenius.model.groups import MOST_LEVELS
from dalenius.report.formatting import (
    chance,
    fine_percent,
    listed,
    number,
    part,
    percent,
    plural,
    share_of_limit,
    tenths,
    visible,
)
from dalenius.report.statements import limited_groups

Twin = dict[str, Any]
MOST_GROUPS = 1000  # on the page; the twin has them all
_NEAREST = 5
_SHORT_NAME = 60


def on_the_front_page(twin: Twin) -> str:
    """That groups have limits, and which of these groups is shown most openly; empty if none has a limit."""
    release = twin["release"]
    limited = limited_groups(release) if release is not None else []
    possible = [group for group in limited if group["probability"] is not None]
    if not possible:
        return ""
    worst = max(possible, key=lambda group: (Fraction(group["probability"]), group["name"]))
    name, limit = f"“{visible(worst['name'], _SHORT_NAME)}”", fine_percent(Fraction(worst["limit"]))
    says = "" if twin["verify"]["verified"] else ", as the manifest says"
    most = f"{tenths(float(Fraction(worst['probability'])))}{says}; its limit is {limit}."
    if len(limited) == 1:
        return f"One group of values has a limit too. The largest share of a bucket that {name} has is {most}"
    return (
        f"{number(len(limited))} groups of values have limits too. Of these, {name} has the largest share of a bucket: "
        f"{most}"
    )


def tree(twin: Twin) -> list[Twin]:
    """The groups from the top, each with those within it; the first so many of them.

    The manifest of a broken release may have any number within each other. What is too deep is beside its parent.
    """
    groups = twin["release"]["groups"][:MOST_GROUPS]
    counted = twin["verify"]["groups"]
    top, homes = list[Twin](), list[tuple[int, list[Twin]]]()  # by group: its depth, and the list for those within it
    for place, group in enumerate(groups):
        exposure = counted[place]["exposure"] if place < len(counted) else None
        node: Twin = {"name": visible(group["name"]), "facts": _facts(group, exposure, twin["release"]), "within": []}
        parent = group["parent"]
        depth, home = homes[parent] if parent is not None and parent < place else (0, top)
        home.append(node)
        homes.append((depth + 1, node["within"] if depth + 1 < MOST_LEVELS else home))
    return top


def _facts(group: Twin, exposure: Twin | None, release: Twin) -> list[str]:
    """What there is to say of a group, in a few words each."""
    worst, left = group["worst"], group["worst"]["size"] - release["known_records"]
    share = f"at most {worst['count']:,} {'for' if release['fake_values'] else 'of'} {left:,}"
    share += f" ({percent(Fraction(group['probability']))})" if group["probability"] is not None else ""
    limit = "no limit"
    if group["limit"] is not None:
        limit = f"limit {fine_percent(Fraction(group['limit']))}"
        share += f", {share_of_limit(group['share_of_limit'])} of the limit"
    who = (
        plural(group["count"], "row", "rows") if release["fake_values"] else plural(group["count"], "person", "people")
    )
    facts = [limit, share, f"{who}, {plural(group['values'], 'value')}"]
    if exposure is not None and exposure["people"]:
        facts.append(f"mean exposure {tenths(exposure['mean'])}")
        if exposure["outright"]:
            facts.append(f"certain for {plural(round(exposure['outright']), 'person', 'people')}")
    return facts


def nearest(release: Twin) -> list[str]:
    """The groups that come nearest to their limits, one sentence each."""
    limited = [group for group in limited_groups(release) if group["share_of_limit"] is not None]
    limited.sort(key=lambda group: -group["share_of_limit"])
    sentences = []
    for group in limited[:_NEAREST]:
        worst, left = group["worst"], group["worst"]["size"] - release["known_records"]
        case = (
            f"{worst['count']:,} values for {plural(left, 'record')}"
            if release["fake_values"]
            else part(worst["count"], left)
        )
        full = Fraction(group["probability"]) == Fraction(group["limit"])
        at = "exactly the limit" if full else f"{share_of_limit(group['share_of_limit'])} of it"
        sentences.append(
            f"“{visible(group['name'], 80)}”: {case}. The limit is {chance(group['limit'])}; this is {at}."
        )
    return sentences


def in_words(twin: Twin) -> str:
    """How many groups there are, and how many have a limit."""
    release = twin["release"]
    every, limited = release["groups"], limited_groups(release)
    levels = [visible(level, 80) for level in dict.fromkeys(group["level"] for group in every) if level]
    have = "has a limit" if len(limited) == 1 else "have a limit"
    who = f"{number(len(limited)) if limited else 'None'} of {plural(len(every), 'group')} of values {have}."
    if len(levels) > 1:
        who += f" There are {number(len(levels))} levels of groups: {listed(levels)}."
    if len(every) > MOST_GROUPS:
        who += f" The first {number(MOST_GROUPS)} are below; the JSON twin of this report lists them all."
    return who
