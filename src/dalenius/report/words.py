"""Sentences for people about the release that a twin describes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dalenius.release.manifest import CRYPTOGRAPHIC
from dalenius.report.charts import drawn_values
from dalenius.report.formatting import (
    SPACE,
    chance,
    listed,
    number,
    part,
    percent,
    plain,
    plural,
    share_of_limit,
    visible,
)
from dalenius.report.people_words import example_of
from dalenius.report.statements import (
    exposures,
    free_in_words,
    has_own_limit,
    has_values_of_nobody,
    limited_groups,
    without_limit,
)

_NEAREST = 5
_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
Twin = dict[str, Any]


def linked(twin: Twin) -> str:
    """Whether a bucket shows whose its values are."""
    release = twin["release"]
    fakes, known = has_values_of_nobody(release), release["known_records"]
    if len(release["values"]) == 1:
        return "Here every value in the release is the same, so everybody's value is known."
    one = "person" if release["by_people"] else "record"
    if not fakes and all(group["size"] == 1 for group in release["setting"]):
        return f"Here every bucket has a single {one}, so it shows that person's value."
    if not twin["holds"]:
        return "A bucket should not show which value is whose, but whether these buckets do is not known."
    whose = (
        "" if not fakes else ", or which ones are fake" if release["fake_values"] else ", or which ones are nobody's"
    )
    text = f"The bucket itself does not show which value is whose{whose}"
    if exposures(release) and not fakes and not known:
        same = "everybody in it has the value" if release["by_people"] else "all of its values are the same"
        text += f", unless it has a single {one} or {same}"
    if release["randomness"] != CRYPTOGRAPHIC:
        text += "; the seed does, to anybody who has it and the order of the table"
    return f"{text}."


def free_values(release: Twin) -> str:
    """Which values have no promise, as a sentence; empty if there are none."""
    free, every = len(without_limit(release)), len(release["values"])
    them = "it" if free == 1 else "any of them" if free == every else "them"
    return f"{free_in_words(release)}: nothing is promised about {them} (section 7)." if free else ""


def set_apart(release: Twin) -> str:
    """What is published of people to whom the question does not apply; empty if there are none."""
    apart = release["not_applicable"]
    if not apart:
        return ""
    people, names = sum(one["count"] for one in apart), [_quoted(one["value"]) for one in apart]
    return (
        f"The question does not apply to {number(people)} of {plural(release['rows'], 'person', 'people')} "
        f"({listed(names)}). This is published outright: "
        "they have buckets of their own, without limits, and hide nobody else. What is said here of limits and of "
        "exposure is about the others."
    )


def limits_in_words(release: Twin) -> str:
    """The range of the limits, of values and of groups."""
    limits = [Fraction(value["limit"]) for value in release["values"]]
    groups = [Fraction(group["limit"]) for group in limited_groups(release)]
    low, high = min(limits), max(limits)
    none = f"which is no limit{' of its own' if groups else ''}"
    if low == high:
        whose = "the only value" if len(limits) == 1 else "every value"
        text = f"1 for {whose}, {none}" if high == 1 else f"{chance(high)} for {whose}"
    else:
        text = f"from {chance(low)} to {f'1, {none}' if high == 1 else chance(high)}"
    if not groups:
        return text
    least, most = chance(min(groups)), chance(max(groups))
    of_groups = f"from {least} to {most}" if least != most else least
    return f"{text}; {of_groups} for {plural(len(groups), 'group')} of values"


def example(release: Twin) -> tuple[str, ...]:
    """The promise for one value: the one with the lowest limit, which needs the most protection."""
    possible = [value for value in release["values"] if value["probability"] is not None and has_own_limit(value)]
    if not possible:
        return ()
    value = min(possible, key=lambda one: Fraction(one["limit"]))
    known = release["known_records"]
    worst, name = value["worst"], _quoted(value["value"])
    if release["by_people"]:
        return example_of(value, name, release)
    shown = worst["size"] + release["fake_values"]
    people = plural(worst["size"], "person", "people")
    bucket = (
        f"Take {name}, whose limit is {chance(value['limit'])}. In the bucket that comes nearest to this limit, "
        f"{name} is {worst['count']:,} of the {plural(shown, 'value')} shown for {people}."
    )
    if known:
        whichever = "the value of one of these people" if known == 1 else f"the values of {known:,} of these people"
        finds = (
            f"Somebody who finds a person in that bucket, and who knows {whichever}, is left with "
            f"{worst['size'] - known:,}. At most {worst['count']:,} of these can have it, and nothing in the bucket "
            "shows who"
        )
    else:
        most = "at most " if has_values_of_nobody(release) else ""
        finds = (
            f"Somebody who finds a person in that bucket sees {people}, {most}{worst['count']:,} of whom "
            f"{_have(worst['count'])} it, and nothing in the bucket that shows who"
        )
    bound = " at most" if known or has_values_of_nobody(release) else ""
    return (
        bucket,
        f"{finds}. From the bucket, the person has it with a probability of {chance(value['probability'])}{bound}.",
    )


def nearest(release: Twin) -> list[str]:
    """The limited values that come nearest to their limits, one sentence each."""
    known, fakes = release["known_records"], has_values_of_nobody(release)
    sentences = []
    limited = [value for value in drawn_values(release, len(release["values"])) if has_own_limit(value)]
    for value in limited[:_NEAREST]:
        worst = value["worst"]
        full = Fraction(value["probability"]) == Fraction(value["limit"])
        at = "exactly the limit" if full else f"{share_of_limit(value['share_of_limit'])} of it"
        left = worst["size"] - known
        case = part(worst["count"], left)
        if fakes:
            share = percent(Fraction(worst["count"], left))
            case = f"{plural(worst['count'], 'value')} for {plural(left, 'record')} ({share})"
        sentences.append(f"{_quoted(value['value'])}: {case}. The limit is {chance(value['limit'])}; this is {at}.")
    return sentences


def values_in_words(release: Twin) -> str:
    """What the chart of values shows."""
    parts = (_limits_missing(release), _nearness(release), _worst_cases(release))
    return " ".join(filter(None, parts))


def _limits_missing(release: Twin) -> str:
    """How many values have no limit; empty if all have one."""
    free, every = sum(not has_own_limit(value) for value in release["values"]), len(release["values"])
    if not free:
        return ""
    own = " of its own" if limited_groups(release) else ""
    if free == every:
        return (
            f"None of the {number(free)} values has a limit{own}." if free > 1 else f"The only value has no limit{own}."
        )
    own = " of their own" if own and free > 1 else own
    return f"Of {plural(every, 'value')}, {number(free)} {_have(free)} no limit{own}."


def _nearness(release: Twin) -> str:
    """How many values are at their limits, near them and above; empty if none has a limit."""
    limited = [value for value in release["values"] if has_own_limit(value)]
    if not limited:
        return ""
    shares = [value["share_of_limit"] for value in limited if value["share_of_limit"] is not None]
    full = sum(value["probability"] == str(Fraction(value["limit"])) for value in limited)
    above = sum(share > 1 for share in shares)
    close = sum(0.9 <= share < 1 for share in shares)
    every = len(release["values"])
    which = plural(every, "value") if len(limited) == every else "those with a limit"
    return (
        f"Of {which}, {number(full)} {_are(full)} exactly at the limit in the worst bucket, {number(close)} "
        f"{_are(close)} between 90{SPACE}% and all of it, and {number(above)} {_are(above)} above it."
    )


def _worst_cases(release: Twin) -> str:
    """The range of the worst cases in the chart; empty if nothing is drawn."""
    drawn = drawn_values(release)
    if not drawn:
        return ""
    low = min(drawn, key=lambda value: Fraction(value["probability"]))
    high = max(drawn, key=lambda value: Fraction(value["probability"]))
    least, most = (percent(Fraction(value["probability"])) for value in (low, high))
    if low["probability"] == high["probability"]:
        return f"The worst case{' of each value in the chart' if len(drawn) > 1 else ''} is {least}."
    return (
        f"In the chart, the worst case ranges from {least} ({_quoted(low['value'])}) to {most} "
        f"({_quoted(high['value'])})."
    )


def sizes_in_words(release: Twin) -> str:
    """What the chart of sizes shows."""
    setting, everybody = release["setting"], sum(group["people"] for group in release["setting"])
    one, many = ("person", "people") if release["by_people"] else ("record", "records")
    if release["chain"] is not None and release["chain"]["surplus"]:
        one, many = "place", "places"
    top = max(setting, key=lambda group: group["people"])
    if len(setting) == 1:
        every = f"All {number(everybody)} {many} are" if everybody > 1 else f"The only {one} is"
        return f"{every} in {plural(top['buckets'], 'bucket')} of {top['size']:,}."
    seen, middle = 0, setting[-1]["size"]
    for group in setting:
        seen += group["people"]
        if 2 * seen >= everybody:
            middle = group["size"]
            break
    return (
        f"The smallest buckets have {plural(setting[0]['size'], one, many)} and the largest {setting[-1]['size']:,}. "
        f"The size with the most {many} is {top['size']:,}, with {part(top['people'], everybody)}. At least half of "
        f"the {many} are in buckets of at most {middle:,}."
    )


def strata_in_words(release: Twin) -> list[str]:
    """How the table was cut into strata."""
    strata = release["strata"]
    if strata is None:
        whose = (
            "The table" if not release["not_applicable"] else "Beside people to whom the question does not apply, it"
        )
        each = "" if release["persons"] is None else " Everybody has equally many rows."
        return [f"{whose} was not cut into strata: anybody may share a bucket with anybody.{each}"]
    of_people, chain = release["by_people"], release["chain"]
    if chain is not None and chain["release"] > 1:
        number_of = plural(strata["number"], "stratum", "strata")
        return [
            f"The buckets of the chain are in {number_of}, each of one release: new people are in strata of their own."
        ]
    columns = [*(["the number of rows of a person"] if strata["by_number_of_rows"] else [])]
    columns += [_quoted(name) for name in strata["columns"]]
    number_of = plural(strata["number"], "stratum", "strata")
    by = f" by {listed(columns)}" if columns else ""
    smallest, largest = (strata[f"{which}_people"] for which in ("smallest", "largest"))
    many = "people" if of_people else "records"
    cut = f"The table was cut{by} into {number_of}, with {smallest:,} to {largest:,} {many} each."
    if strata["number"] == 1:
        cut = f"The table was cut{by}, and all parts were merged into one stratum."
    follows = "The quasi-identifiers of a record determine its stratum."
    if release["persons"] is not None:
        follows = (
            "People of a stratum have equally many rows. The rows of a person determine the stratum: where it was cut "
            "by a column, the least value of the person's rows decides."
        )
    sentences = [f"{cut} A bucket holds {many} of one stratum. {follows}"]
    if strata["merged"]:
        sentences.append(
            f"{plural(strata['merged'], 'stratum', 'strata')} with {part(strata['merged_people'], release['people'])} "
            f"{many} {'was' if strata['merged'] == 1 else 'were'} merged from several of the {strata['leaves']:,} "
            "parts that the published cuts make."
        )
    return sentences


def proof(release: Twin) -> str:
    """How good the bucket sizes are proven to be, and among which settings."""
    if release["gap"] is None or release["bound"] is None:
        return "It was not proven how far this is from the smallest loss that these limits allow."
    if release["loss"] == 0:
        return "No loss can be smaller than 0."
    of = "of these strata " if release["strata"] is not None else ""
    could = (
        "none has a smaller loss than this one"
        if release["gap"] == 0
        else f"at most {percent(release['gap'])} of this loss could be saved"
    )
    return (
        f"According to the publisher's solver, no setting {of}that keeps these limits, with bucket sizes in the range "
        f"that was searched, has a loss below {number(release['bound'])}: {could}. The range and the proof are not "
        "part of the release, so this was not checked here."
    )


def fakes(release: Twin, audit: Twin | None) -> list[str]:
    """How many fake values there are, and what they are for."""
    sigma = release["fake_values"]
    surplus = release["chain"]["surplus"] if release["chain"] is not None else 0
    if not sigma:
        whose = ", or did" if surplus else ""
        return [f"There are no fake values: every sensitive value in the release belongs to somebody{whose}."]
    every = sigma * release["buckets"]
    total = release["rows"] + surplus + every
    sentences = [
        f"Every bucket shows {plural(sigma, 'fake value')}, which {'belongs' if sigma == 1 else 'belong'} to nobody: "
        f"{part(every, total)} values in the release are fake. They are not marked.",
        "They slow down somebody who knows more records of a bucket than the limits allow for. They guarantee no "
        "limit: next to rare values, and where few buckets have the same size, they may add nothing.",
    ]
    share = ((audit or {}).get("negative") or {}).get("details", {}).get("fakes_ruled_out")
    if share is not None:
        sentences.append(
            f"Of all pairs of a record and a fake value in its bucket, {percent(share)} can be ruled out, because the "
            "release shows who hardly ever has which value."
        )
    else:
        sentences.append("Only an audit with the table that was published shows how many of them can be ruled out.")
    return sentences


def command(twin: Twin) -> str:
    """The command that makes such a report again, in the folder of the release."""
    with_source = any(check["check"] == "source" for check in twin["verify"]["checks"])
    options = {
        "--audit": twin["audit"] is not None or twin["audit_note"] is not None,
        "--truth TABLE": with_source,
        "--control TABLE": twin["with_control"],
    }
    return " ".join(
        ["dalenius report .", *(option for option, in_use in options.items() if in_use), "-o ../report.html"]
    )


def workload_rows(workload: Twin) -> list[tuple[str, str, str]]:
    """Rows of the table of errors: the measure, from single buckets, and learned."""
    learned = workload.get("learned")
    rows: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("Relative error, mean", "mean_relative_error", percent),
        ("Relative error, median", "median_relative_error", percent),
        (f"95{SPACE}% intervals that contain the true count", "coverage", percent),
        ("Mean width of these intervals", "mean_interval_width", plain),
    ]
    return [(name, text(workload[key]), text(learned[key]) if learned else "") for name, key, text in rows]


def _quoted(name: str) -> str:
    """A name in a sentence, isolated so that right-to-left letters do not reverse the rest."""
    return f"“{_ISOLATE}{visible(name, 80)}{_END}”"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
