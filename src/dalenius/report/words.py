"""What the twin says of a release, in sentences for people."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dalenius.release.manifest import CRYPTOGRAPHIC
from dalenius.report.charts import drawn_values
from dalenius.report.shown import SPACE, chance, listed, number, part, percent, plain, plural, share_of_limit, visible
from dalenius.report.statements import exposures, free_in_words, is_free, without_limit

_NEAREST = 5
_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
Twin = dict[str, Any]


def linked(twin: Twin) -> str:
    """What a bucket says about whose its values are."""
    release = twin["release"]
    fakes, known = release["fake_values"], release["known_records"]
    if len(release["values"]) == 1:
        return "Here every value in the release is the same, so everybody's is known."
    if not fakes and all(group["size"] == 1 for group in release["setting"]):
        return "Here every bucket has a single record, so the value that it shows is this person's."
    if not twin["holds"]:
        return "A bucket is not meant to say which value is whose; whether these keep to that is not known."
    told = f"The bucket itself does not say which value is whose{', nor which ones are fake' if fakes else ''}"
    if exposures(release) and not fakes and not known:
        told += ", unless it has a single record or all of its values are the same"
    if release["randomness"] != CRYPTOGRAPHIC:
        told += "; the seed does, to whoever has it and the order of the table"
    return f"{told}."


def free_values(release: Twin) -> str:
    """About which values nothing is promised, as a sentence; empty if there are none."""
    free, every = len(without_limit(release)), len(release["values"])
    them = "it" if free == 1 else "any of them" if free == every else "them"
    return f"{free_in_words(release)}: nothing is promised about {them} (section 7)." if free else ""


def limits_in_words(release: Twin) -> str:
    """The range of the limits."""
    limits = [Fraction(value["limit"]) for value in release["values"]]
    low, high = min(limits), max(limits)
    if low == high:
        whose = "the only value" if len(limits) == 1 else "every value"
        return f"1 for {whose}, which is no limit" if high == 1 else f"{chance(high)} for {whose}"
    return f"from {chance(low)} to {'1, which is no limit' if high == 1 else chance(high)}"


def example(release: Twin) -> tuple[str, ...]:
    """The promise on one value: that with the lowest limit, which is meant to be protected most."""
    possible = [value for value in release["values"] if value["probability"] is not None and not is_free(value)]
    if not possible:
        return ()
    value = min(possible, key=lambda one: Fraction(one["limit"]))
    known = release["known_records"]
    worst, name = value["worst"], _quoted(value["value"])
    shown = worst["size"] + release["fake_values"]
    people = plural(worst["size"], "person", "people")
    bucket = (
        f"Take {name}, whose limit is {chance(value['limit'])}. In the bucket where this comes nearest to it, "
        f"{name} is {worst['count']:,} of the {plural(shown, 'value')} shown for {people}."
    )
    if known:
        whichever = "the value of one of these people" if known == 1 else f"the values of {known:,} of these people"
        finds = (
            f"Somebody who finds a person in that bucket, and who knows {whichever}, is left with "
            f"{worst['size'] - known:,}, at most {worst['count']:,} of whom can have it, and with nothing in the "
            "bucket that says who"
        )
    else:
        most = "at most " if release["fake_values"] else ""
        finds = (
            f"Somebody who finds a person in that bucket sees {people}, {most}{worst['count']:,} of whom "
            f"{'has' if worst['count'] == 1 else 'have'} it, and nothing in the bucket that says who"
        )
    bound = " at most" if known or release["fake_values"] else ""
    return (
        bucket,
        f"{finds}: by the bucket, the person has it with a probability of {chance(value['probability'])}{bound}.",
    )


def nearest(release: Twin) -> list[str]:
    """The values that come nearest to their limits, of those that have one."""
    known, fakes = release["known_records"], release["fake_values"]
    found = []
    limited = [value for value in drawn_values(release, len(release["values"])) if not is_free(value)]
    for value in limited[:_NEAREST]:
        worst = value["worst"]
        full = Fraction(value["probability"]) == Fraction(value["limit"])
        at = "exactly the limit" if full else f"{share_of_limit(value['share_of_limit'])} of it"
        left = worst["size"] - known
        case = part(worst["count"], left)
        if fakes:
            share = percent(Fraction(worst["count"], left))
            case = f"{plural(worst['count'], 'value')} for {plural(left, 'record')} ({share})"
        found.append(f"{_quoted(value['value'])}: {case}. The limit is {chance(value['limit'])}; this is {at}.")
    return found


def values_in_words(release: Twin) -> str:
    """What the chart of values shows."""
    values = release["values"]
    limited = [value for value in values if not is_free(value)]
    free = len(values) - len(limited)
    text = f"Of {plural(len(values), 'value')}, {number(free)} {_have(free)} no limit. " if free else ""
    if not limited:
        text = f"None of the {number(free)} values has a limit. " if free > 1 else "The only value has no limit. "
    if limited:
        shares = [value["share_of_limit"] for value in limited if value["share_of_limit"] is not None]
        full = sum(1 for value in limited if value["probability"] == str(Fraction(value["limit"])))
        above = sum(1 for share in shares if share > 1)
        close = sum(1 for share in shares if 0.9 <= share < 1)
        text += f"Of {'those with a limit' if free else plural(len(values), 'value')}, {number(full)} {_are(full)} "
        text += (
            f"exactly at the limit in the worst bucket, {number(close)} {_are(close)} between 90{SPACE}% and all of "
        )
        text += f"it, and {number(above)} {_are(above)} above it. "
    if drawn := drawn_values(release):
        low = min(drawn, key=lambda one: Fraction(one["probability"]))
        high = max(drawn, key=lambda one: Fraction(one["probability"]))
        least, most = (percent(Fraction(one["probability"])) for one in (low, high))
        if low["probability"] != high["probability"]:
            text += f"Among those drawn, the worst case goes from {least} ({_quoted(low['value'])}) to {most} "
            text += f"({_quoted(high['value'])})."
        else:
            text += f"The worst case{' of each that is drawn' if len(drawn) > 1 else ''} is {least}."
    return text.rstrip()


def sizes_in_words(release: Twin) -> str:
    """What the chart of sizes shows."""
    setting, rows = release["setting"], release["rows"]
    top = max(setting, key=lambda group: group["records"])
    if len(setting) == 1:
        every = f"All {number(rows)} records are" if rows > 1 else "The only record is"
        return f"{every} in {plural(top['buckets'], 'bucket')} of {top['size']:,}."
    seen, middle = 0, setting[-1]["size"]
    for group in setting:
        seen += group["records"]
        if 2 * seen >= rows:
            middle = group["size"]
            break
    return (
        f"The smallest buckets have {plural(setting[0]['size'], 'record')} and the largest {setting[-1]['size']:,}. "
        f"The size with the most records is {top['size']:,}, with {part(top['records'], rows)}. At least half of "
        f"the records are in buckets of at most {middle:,}."
    )


def strata_in_words(release: Twin) -> list[str]:
    """How the table was cut."""
    strata = release["strata"]
    if strata is None:
        return ["The table was not cut into strata: anybody may be in a bucket with anybody."]
    columns = listed([_quoted(name) for name in strata["columns"]])
    number_of = plural(strata["number"], "stratum", "strata")
    by = f" by {columns}" if strata["columns"] else ""
    told = f"The table was cut{by} into {number_of}, with {strata['smallest']:,} to {strata['largest']:,} records each."
    if strata["number"] == 1:
        told = f"The table was cut{by}, and all of it was merged into one stratum."
    follows = "Which one a record is in follows from what is published of it as it is."
    found = [f"{told} A bucket holds records of one stratum. {follows}"]
    if strata["merged"]:
        found.append(
            f"{plural(strata['merged'], 'stratum', 'strata')} with {part(strata['merged_records'], release['rows'])} "
            f"records {'was' if strata['merged'] == 1 else 'were'} merged from several of the {strata['leaves']:,} "
            "parts that the published cuts make."
        )
    return found


def proof(release: Twin) -> str:
    """How good the bucket sizes are proven to be, and of which ones that is said."""
    if release["gap"] is None or release["bound"] is None:
        return "How far this is from the smallest loss that these limits allow was not proven."
    if release["loss"] == 0:
        return "No loss is smaller than 0."
    of = "of these strata " if release["strata"] is not None else ""
    could = (
        "none loses less than this one"
        if release["gap"] == 0
        else f"at most {percent(release['gap'])} of this loss could be saved"
    )
    return (
        f"No setting {of}that keeps these limits, with bucket sizes in the range that was searched, has a loss below "
        f"{number(release['bound'])}, by the publisher's solver: {could}. The range and the proof are not part of the "
        "release, and this was not checked here."
    )


def fakes(release: Twin, audit: Twin | None) -> list[str]:
    """What fake values there are, and what for."""
    sigma = release["fake_values"]
    if not sigma:
        return ["There are no fake values: every sensitive value in the release is somebody's."]
    every = sigma * release["buckets"]
    total = release["rows"] + every
    found = [
        f"Every bucket shows {plural(sigma, 'value')} that {_are(sigma)} nobody's: {part(every, total)} values in the "
        "release are fake. They are not marked.",
        "They are there against somebody who knows more records of a bucket than the limits allow for. They are a "
        "brake and no limit: next to rare values, and where few buckets are of one size, they may add nothing.",
    ]
    share = ((audit or {}).get("negative") or {}).get("details", {}).get("fakes_ruled_out")
    if share is not None:
        found.append(
            f"Of all pairs of a record and a fake value in its bucket, {percent(share)} can be ruled out by what the "
            "release shows about who hardly ever has what."
        )
    else:
        found.append("How many of them can be ruled out takes an audit with the table that was published to say.")
    return found


def command(twin: Twin) -> str:
    """What makes such a report again, in the folder of the release."""
    asked_to_compare = any(check["check"] == "source" for check in twin["verify"]["checks"])
    options = {
        "--audit": twin["audit"] is not None or twin["audit_note"] is not None,
        "--truth TABLE": asked_to_compare,
        "--control TABLE": twin["with_control"],
    }
    return " ".join(["dalenius report .", *(option for option, given in options.items() if given), "-o ../report.html"])


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


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
