"""What the twin says of a release, in sentences for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dalenius.report.charts import drawn_values
from dalenius.report.shown import (
    SPACE,
    chance,
    listed,
    number,
    part,
    percent,
    plain,
    plural,
    sentence,
    share_of_limit,
    visible,
)

_NEAREST = 5
_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
Twin = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """One of the first things that the page says, and whether it is good news."""

    tone: Literal["good", "bad", "warn"]
    title: str
    sentences: tuple[str, ...]


def statements(twin: Twin) -> list[Statement]:
    """The verdict, the attacks, and what follows for publication."""
    return [_verdict(twin), _attacks(twin), _publication(twin)]


def _verdict(twin: Twin) -> Statement:
    checks = twin["verify"]["checks"]
    if twin["verify"]["verified"]:
        told = (
            f"All {len(checks)} checks of the release's files passed: every value of every bucket is within its limit."
        )
        return Statement("good", "Verified", (told,))
    failed = [check for check in checks if check["outcome"] == "failed"]
    skipped = [check for check in checks if check["outcome"] == "not-checked"]
    told = f"{len(failed)} of {plural(len(checks), 'check')} failed"
    told += f", and {len(skipped)} could not be made." if skipped else "."
    found = (f"{check['check']}: {visible(check['message'], 400)}" for check in failed)
    return Statement("bad", "NOT verified", (told, *map(sentence, found)))


def _attacks(twin: Twin) -> Statement:
    audit = twin["audit"]
    if audit is None:
        note = f" ({visible(twin['audit_note'], 400)})" if twin["audit_note"] else ""
        return Statement("warn", "Not attacked", (f"No simulated attacker was played against the release{note}.",))
    if audit["broken"]:
        return Statement("bad", "A promise was broken", tuple(map(sentence, audit["broken"])))
    told = "No simulated attacker broke a promise of the release. What they learn beyond the promises is in section 6."
    return Statement("good", "No promise broken", (told,))


def _publication(twin: Twin) -> Statement:
    if twin["fit_for_publication"]:
        told = (
            "Nothing that was checked here speaks against publication. Whether what is not promised (section 7) is "
            "acceptable is for the publisher to decide."
        )
        return Statement("good", "Fit for publication", (told,))
    return Statement("bad", "NOT fit for publication", (*twin["against_publication"], "Do not publish this release."))


def example(release: Twin) -> tuple[str, ...]:
    """The promise on one value: that with the lowest limit, which is meant to be protected most."""
    possible = [value for value in release["values"] if value["probability"] is not None]
    if not possible:
        return ()
    value = min(possible, key=lambda one: Fraction(one["limit"]))
    known = release["known_records"]
    worst, name = value["worst"], _quoted(value["value"])
    shown = worst["size"] + release["fake_values"]
    bucket = (
        f"Take {name}, whose limit is {chance(value['limit'])}. Where it is most frequent, it is {worst['count']:,} of "
        f"the {plural(shown, 'value')} shown for a bucket of {plural(worst['size'], 'person', 'people')}."
    )
    if known:
        whichever = "the value of one of these people" if known == 1 else f"the values of {known:,} of these people"
        finds = (
            f"Somebody who finds a person in that bucket, and who knows {whichever}, is left with "
            f"{worst['size'] - known:,}, at most {worst['count']:,} of whom can have it"
        )
    else:
        finds = (
            "Somebody who finds a person in that bucket sees the people and the values, and nothing that says which "
            "belong together"
        )
    concludes = f"{finds}: the person has {name} with a probability of {chance(value['probability'])} at most."
    return bucket, concludes


def nearest(release: Twin) -> list[str]:
    """The values that come nearest to their limits."""
    known = release["known_records"]
    found = []
    for value in drawn_values(release)[:_NEAREST]:
        worst = value["worst"]
        share = value["share_of_limit"]
        full = Fraction(value["probability"]) == Fraction(value["limit"])
        at = "exactly the limit" if full else f"{share_of_limit(share)} of it"
        free = Fraction(value["limit"]) == 1
        limit = "It has no limit." if free else f"The limit is {chance(value['limit'])}; this is {at}."
        found.append(f"{_quoted(value['value'])}: at most {part(worst['count'], worst['size'] - known)}. {limit}")
    return found


def values_in_words(release: Twin) -> str:
    """What the chart of values shows."""
    values = release["values"]
    shares = [value["share_of_limit"] for value in values if value["share_of_limit"] is not None]
    full = sum(1 for value in values if value["probability"] == str(Fraction(value["limit"])))
    above = sum(1 for share in shares if share > 1)
    close = sum(1 for share in shares if 0.9 <= share < 1)
    text = f"Of {plural(len(values), 'value')}, {number(full)} {_are(full)} exactly at the limit in the worst bucket, "
    text += (
        f"{number(close)} {_are(close)} between 90{SPACE}% and all of it, and {number(above)} {_are(above)} above it."
    )
    if drawn := drawn_values(release):
        low = min(drawn, key=lambda one: Fraction(one["probability"]))
        high = max(drawn, key=lambda one: Fraction(one["probability"]))
        text += (
            f" Among those drawn, the worst case goes from {percent(Fraction(low['probability']))} "
            f"({_quoted(low['value'])}) to {percent(Fraction(high['probability']))} ({_quoted(high['value'])})."
        )
    return text


def sizes_in_words(release: Twin) -> str:
    """What the chart of sizes shows."""
    setting, rows = release["setting"], release["rows"]
    top = max(setting, key=lambda group: group["records"])
    if len(setting) == 1:
        return f"All {plural(rows, 'record')} are in {plural(top['buckets'], 'bucket')} of {top['size']:,}."
    seen, middle = 0, setting[-1]["size"]
    for group in setting:
        seen += group["records"]
        if 2 * seen >= rows:
            middle = group["size"]
            break
    return (
        f"The smallest buckets have {plural(setting[0]['size'], 'record')} and the largest {setting[-1]['size']:,}. "
        f"The size with the most records is {top['size']:,}, with {part(top['records'], rows)}. Half of the records "
        f"are in buckets of at most {middle:,}."
    )


def strata_in_words(release: Twin) -> list[str]:
    """How the table was cut."""
    strata = release["strata"]
    if strata is None:
        return ["The table was not cut into strata: a bucket may hold anybody."]
    columns = listed([_quoted(name) for name in strata["columns"]])
    number_of = plural(strata["number"], "stratum", "strata")
    by = f" by {columns}" if strata["columns"] else ""
    told = f"The table was cut{by} into {number_of}, with {strata['smallest']:,} to {strata['largest']:,} records each."
    if strata["number"] == 1:
        told = f"The table was cut{by}, and all of it was merged into one stratum."
    found = [told, "Buckets hold records of one stratum. Which one a record is in follows from its quasi-identifiers."]
    if strata["merged"]:
        found.append(
            f"{plural(strata['merged'], 'stratum', 'strata')} with {part(strata['merged_records'], release['rows'])} "
            f"records were merged from several of the {strata['leaves']:,} parts that the tree of cuts has."
        )
    return found


def proof(release: Twin) -> str:
    """How good the bucket sizes are proven to be."""
    where = "these strata and " if release["strata"] is not None else ""
    if release["gap"] is None:
        return f"How far this is from the best possible for {where}these limits was not proven."
    if release["gap"] == 0:
        return f"This is proven to be the best possible for {where}these limits."
    return f"At most {percent(release['gap'])} of it could be saved for {where}these limits: that is proven."


def fakes(release: Twin, audit: Twin | None) -> list[str]:
    """What fake values there are, and what for."""
    sigma = release["fake_values"]
    if not sigma:
        return ["There are no fake values: every sensitive value in the release is somebody's."]
    every = sigma * release["buckets"]
    total = release["rows"] + every
    found = [
        f"Every bucket shows {plural(sigma, 'value')} that {_are(sigma)} nobody's: {part(every, total)} of the values "
        "in the release are fake. Nothing says which.",
        "They are there against somebody who knows more records of a bucket than the limits allow for. They are a "
        "brake and no limit: next to rare values, and in sizes with few buckets, they may add nothing.",
    ]
    share = ((audit or {}).get("negative") or {}).get("details", {}).get("fakes_ruled_out")
    if share is not None:
        found.append(
            f"Of all pairs of a record and a fake value in its bucket, {percent(share)} can be ruled out by what the "
            "release shows about who hardly ever has what."
        )
    else:
        found.append("How many of them can be ruled out is known from an audit with the table that was published.")
    return found


def without_limit(release: Twin) -> tuple[list[str], int]:
    """The values whose limit is 1, and how many of these fill a bucket somewhere."""
    free = [value for value in release["values"] if Fraction(value["limit"]) == 1]
    return [value["value"] for value in free], sum(1 for value in free if value["probability"] == "1")


def smallest_bucket(release: Twin) -> int:
    """The number of records in the smallest bucket."""
    return int(min(group["size"] for group in release["setting"]))


def workload_rows(workload: Twin) -> list[tuple[str, str, str]]:
    """Measure, from single buckets, and learned."""
    learned = workload.get("learned")
    rows: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("Relative error, mean", "mean_relative_error", percent),
        ("Relative error, median", "median_relative_error", percent),
        (f"95{SPACE}% intervals that hold the true count", "coverage", percent),
        ("Mean width of these intervals", "mean_interval_width", plain),
    ]
    return [(name, form(workload[key]), form(learned[key]) if learned else "") for name, key, form in rows]


def _quoted(name: str) -> str:
    """A name in a sentence; letters that run from right to left do not turn the rest of it around."""
    return f"“{_ISOLATE}{visible(name, 80)}{_END}”"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
