"""Values without a limit, and whom a release gives away through them.

All of it is read from the sizes and the worst cases that the manifest states: a value with the limit 1 fills a bucket
if it is shown for as many records as are not known.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dalenius.report.shown import number, plural

Twin = dict[str, Any]


def is_free(value: Twin) -> bool:
    """Whether the value has a limit of 1, which is no limit."""
    return Fraction(value["limit"]) == 1


def without_limit(release: Twin) -> list[str]:
    """The names of such values."""
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


def standing_alone(release: Twin) -> int:
    """How many buckets have a single record."""
    return sum(int(group["buckets"]) for group in release["setting"] if group["size"] == 1)


def exposures(release: Twin) -> list[str]:
    """Whose values are in the clear, or nearly so, as sentences; none if no bucket is filled by a single value."""
    if not without_limit(release):
        return []
    if len(release["values"]) == 1:  # then there is no room for fakes or known records
        return ["Every record has the same sensitive value: everybody is known to have it."]
    alone = standing_alone(release)
    filling = [value for value in release["values"] if is_free(value) and value["probability"] == "1"]
    larger = sum(1 for value in filling if value["worst"]["size"] > 1)
    return [
        *([_alone(alone, release["fake_values"])] if alone else []),
        *([_filled(larger, release)] if larger else []),
    ]


def without_exposure(release: Twin) -> str:
    """That no value without a limit fills a bucket, as a sentence."""
    records = "records that are not known" if release["known_records"] else "records"
    return f"None of them is shown for a bucket as often as it has {records}."


def _alone(buckets: int, fakes: int) -> str:
    have = plural(buckets, "bucket has", "buckets have")
    if fakes:
        whose = "this person's sensitive value is" if buckets == 1 else "these people's sensitive values are"
        return f"{have} a single record: {whose} hidden among fake values alone, {number(fakes)} in each bucket."
    whose = f"values of these {number(buckets)} people are" if buckets > 1 else "value of this person is"
    return f"{have} a single record: the sensitive {whose} published in the clear."


def _filled(values: int, release: Twin) -> str:
    known, fakes = release["known_records"], release["fake_values"]
    one = values == 1
    which = plural(values, "value without a limit", "values without a limit")
    if fakes:
        left = "records that are not known" if known else "records"
        told = f"{which} {'is' if one else 'are'} shown as often as some bucket has {left}"
        if known:
            told += f": to whoever knows {plural(known, 'record')} of it"
            return f"{told}, only fake values leave open whether all others have the value."
        return f"{told}: only fake values leave open whether everybody in it has the value."
    fills = f"{which} {'fills' if one else 'fill'} some bucket"
    if known:
        these = "it" if known == 1 else "them"
        return (
            f"{fills} but for {plural(known, 'record')}: whoever knows {these} knows that all others in such a bucket "
            "have the value."
        )
    return f"{fills} of several records: everybody in such a bucket is known to have the value."
