"""Sentences about people, where a release has several rows or several sensitive values of each."""

from __future__ import annotations

from typing import Any

from dalenius.report.by_column import column_names
from dalenius.report.formatting import chance, listed, number, percent, plural, visible

Twin = dict[str, Any]
_MOST_NUMBERS = 12
_MOST_NAMED = 3
_SHORT_NAME = 24


def whom(release: Twin, count: int) -> str:
    """So many of whatever is in a bucket."""
    return plural(count, "person", "people") if release["by_people"] else plural(count, "record")


def how_many(release: Twin) -> str:
    """How much was published: people, their rows, and what was left out."""
    persons = release["persons"]
    if persons is None:
        return plural(release["people"], "person", "people") + (" with one row each" if release["by_people"] else "")
    size = f"{plural(release['people'], 'person', 'people')} with {plural(release['rows'], 'row')}"
    return size + (f", {number(persons['dropped'])} more left out" if persons["dropped"] else "")


def which_columns(release: Twin) -> tuple[str, list[str], int]:
    """The sensitive columns on the first page: what they are called together, a few names, and how many more."""
    names = [visible(name, _SHORT_NAME) for name in column_names(release)]
    what = "sensitive column" if len(names) == 1 else "sensitive columns"
    return what, names[:_MOST_NAMED], max(0, len(names) - _MOST_NAMED)


def promise(twin: Twin) -> str:
    """What is promised, on the first page."""
    release = twin["release"]
    if release is None or not release["by_people"]:
        return ""
    several = bool(release["others"])
    says = "" if twin["verify"]["verified"] else " according to the manifest"
    if release["persons"] is not None:
        start = f"Limits are about people{says}, not rows"
        knows = "the quasi-identifiers in all rows of the person, and which rows are theirs,"
    else:
        start, knows = (
            f"Limits are about people{says}, and every row is a person of its own",
            "the person's quasi-identifiers",
        )
    value = "every value of every sensitive column" if several else "every value"
    text = f"{start}. For every person and {value}: whoever knows {knows} gives “has it” at most its limit."
    if several:
        text += " That is so for each column by itself, not for what values of one column say of another."
    if release["together"]:
        text += " Of columns that are kept together, the release itself says that."
    return text


def kept_together(twin: Twin) -> list[Twin]:
    """Lists of columns that are kept together, and what somebody gets who knows one of them, if it was measured."""
    known = twin["verify"]["known_columns"]
    return [
        {
            "names": [visible(name, _SHORT_NAME) for name in columns],
            "sentences": [_known_column(one) for one in known if {one["known"], one["asked"]} <= set(columns)],
        }
        for columns in twin["release"]["together"]
    ]


def _known_column(one: Twin) -> str:
    """What somebody gets who knows a person's value of one column, about another."""
    asked, least = f"“{visible(one['asked'], _SHORT_NAME)}”", "at least " if one["at_least"] else ""
    start = f"Whoever knows a person's “{visible(one['known'], _SHORT_NAME)}”"
    people = "people with a value of it" if one["at_least"] else "people"
    if not one["above"]:
        largest = percent(one["largest"])
        return f"{start} gives no value of {asked} a probability above its limit; the largest is {largest}."
    outright = f", and knows it outright for {number(one['pinned'])}" if one["pinned"] else ""
    return (
        f"{start} gives some value of {asked} a probability above its limit for {least}{number(one['above'])} of "
        f"{number(one['people'])} {people}{outright}."
    )


def rows_each(release: Twin) -> str:
    """How many people have how many rows; empty if everybody has one."""
    persons = release["persons"]
    if persons is None:
        return ""
    parts = [
        f"{plural(one['people'], 'person has', 'people have')} {plural(one['rows'], 'row')}"
        for one in persons["rows_each"]
    ]
    return listed(parts, _MOST_NUMBERS)


def left_out(release: Twin) -> str:
    """What --most-rows left out; empty if nothing."""
    persons = release["persons"]
    if persons is None or not persons["dropped"]:
        return ""
    most = plural(persons["most_rows"], "row")
    return (
        f"{plural(persons['dropped'], 'row')} of the table {'is' if persons['dropped'] == 1 else 'are'} not in the "
        f"release: of people with more than {most}, {number(persons['most_rows'])} were kept, chosen at random."
    )


def sources(release: Twin) -> list[Twin]:
    """The sensitive columns, each with the columns of the source that it has the values of, if these are several."""
    columns = [release["columns"]["sensitive"], *(other["column"] for other in release["others"])]
    values = [release["values"], *(other["values"] for other in release["others"])]
    nulls = [release["null_value"], *(other["null_value"] for other in release["others"])]
    return [
        {
            "name": column["name"],
            "type": column["type"],
            "of": column["of"] if column["of"] != [column["name"]] else [],
            "values": len(own),
            "null_value": null,
        }
        for column, own, null in zip(columns, values, nulls, strict=True)
    ]


def example_of(value: Twin, name: str, release: Twin) -> tuple[str, ...]:
    """The promise for one value, in the bucket that comes nearest to its limit."""
    worst, known = value["worst"], release["known_records"]
    people = plural(worst["size"], "person", "people")
    have = "has" if worst["count"] == 1 else "have"
    each = " in one of their rows" if release["persons"] is not None else ""
    bucket = (
        f"Take {name}, whose limit is {chance(value['limit'])}. In the bucket that comes nearest to this limit, "
        f"{worst['count']:,} of {people} {have} it{each}."
    )
    if not known:
        return (
            bucket,
            "Nothing in the bucket shows who. Somebody who finds a person in it infers that the person has it with a "
            f"probability of {chance(value['probability'])}.",
        )
    left = worst["size"] - known
    return (
        bucket,
        f"Somebody who finds a person in it, and who knows all about {plural(known, 'other', 'others')}, is left with "
        f"{left:,}. At most {worst['count']:,} of these have it, and nothing in the bucket shows who: the person has "
        f"it with a probability of {chance(value['probability'])} at most.",
    )
