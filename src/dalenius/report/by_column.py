"""A twin by sensitive column: each of them alone, as if there were no other, and all of them as one.

Of a plain release, both are the twin itself.
"""

from __future__ import annotations

from typing import Any

Twin = dict[str, Any]


def one_by_one(twin: Twin) -> list[Twin]:
    """A twin for each sensitive column: its values, its groups, and how exposed the people are who have them."""
    views, first = [], 0
    for release in _releases(twin["release"]):
        name, groups = release["columns"]["sensitive"]["name"], len(release["groups"])
        exposure = twin["exposure"]
        if exposure is not None and release["by_people"]:
            own = [value for value in exposure["values"] if value["column"] == name]
            exposure = {**exposure, "values": own}
        counted = twin["verify"]["groups"]
        verify = {**twin["verify"], "groups": counted[first : first + groups] if release["by_people"] else counted}
        views.append({**twin, "release": release, "exposure": exposure, "verify": verify})
        first += groups
    return views


def all_at_once(release: Twin) -> Twin:
    """The release with the values and groups of all sensitive columns, which are named like column and value."""
    if not release["others"]:
        return release
    values, groups = list[Twin](), list[Twin]()
    for own in _releases(release):
        name, first = own["columns"]["sensitive"]["name"], len(groups)
        values += [
            {**value, "value": named(name, value["value"]), "group": _moved(value["group"], first)}
            for value in own["values"]
        ]
        groups += [
            {**group, "name": named(name, group["name"]), "parent": _moved(group["parent"], first)}
            for group in own["groups"]
        ]
    values.sort(key=lambda value: -float("inf") if value["share_of_limit"] is None else -value["share_of_limit"])
    return {**release, "values": values, "groups": groups, "others": []}


def column_names(release: Twin) -> list[str]:
    """The sensitive columns."""
    return [own["columns"]["sensitive"]["name"] for own in _releases(release)]


def named(column: str | None, value: str) -> str:
    """A value, or a group of values, of one of several columns."""
    return value if column is None else f"{column}: {value}"


def _releases(release: Twin) -> list[Twin]:
    others = [
        {
            **release,
            "columns": {**release["columns"], "sensitive": other["column"]},
            **{key: other[key] for key in ("null_value", "groups", "values")},
            "others": [],
        }
        for other in release["others"]
    ]
    return [{**release, "others": []}, *others]


def _moved(place: int | None, first: int) -> int | None:
    return None if place is None else place + first
