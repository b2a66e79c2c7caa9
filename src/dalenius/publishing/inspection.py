"""A look at the table before it is published: what a publisher should know while nothing is written yet.

`inspect` makes concerns of what the first reading found and of a sample of records, the heaviest first. It looks at
columns that say the sensitive value (determining.py), people who are there more than once, sensitive values that are
nearly all different, people who are alone with their quasi-identifiers, and codes for what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dalenius.errors import ConcernsError
from dalenius.model.concern import Concern, Severity, by_weight, name_some, percent, quoted
from dalenius.model.progress import Progress
from dalenius.place.survey import Survey
from dalenius.policy.roles import Roles, may_be_a_person
from dalenius.publishing.determining import (
    Determination,
    Integers,
    Pairs,
    determination,
    numbered,
    together,
    value_leaks,
)
from dalenius.publishing.engine import OpenTable, SampleCodes
from dalenius.publishing.missing_codes import is_number, missing_code_concerns
from dalenius.publishing.options import PublishRequest

INSPECTED_ROWS = 50_000

_STOP, _LOOK = 0.8, 0.4  # strengths of a determination
_LEAST_COVERED = 0.05  # of the people, to speak of all quasi-identifiers together
_REPEATED = 0.98  # as many different identifiers as records, or fewer
_LIKE_PEOPLE = 20  # records a person, at most, in a column that nobody named an identifier
_LEAST_ROWS = 20
_MANY_VALUES, _MANY_NUMBERS, _FEW_PEOPLE = 50, 1000, 20
_COARSER = "Make such columns coarser, or leave them out of the quasi-identifiers"
_NAMED = 3
_LISTED = 50


def inspect(
    survey: Survey, sample: SampleCodes, roles: Roles, strata_columns: Sequence[str] = ()
) -> tuple[Concern, ...]:
    """All that there is to say about a table, the heaviest first. Strata by a column answer what it rules out."""
    sample = _fewer(sample)
    columns = {name: numbered(codes) for name, codes in sample.codes.items()}
    return by_weight(
        [
            *_determining(survey, columns, sample, strata_columns),
            *_repeated_people(survey, roles),
            *_nearly_all_different(survey),
            *_unique_people(survey, columns, sample),
            *missing_code_concerns(survey, sample),
        ]
    )


def look(table: OpenTable, survey: Survey, request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """Look at an open table, and say what weighs before the work goes on; an error if the publisher is strict."""
    progress.stage("Looking", survey.rows)
    concerns = inspect(survey, table.sample(survey), request.roles, request.strata.columns)
    heavy = [one for one in concerns if one.severity is not Severity.NOTE]
    if heavy and request.options.strict:
        number = "1 concern" if len(heavy) == 1 else f"{len(heavy)} concerns"
        raise ConcernsError(
            "\n".join([f"nothing was published: strict makes errors of {number} about the table", *map(_lines, heavy)]),
            "Do what they say, or publish without --strict.",
        )
    for one in heavy:
        progress.tell(_lines(one))
    return concerns


def _lines(one: Concern) -> str:
    return f"{str(one.severity).upper()}: {one.message}.\n      {one.answer}"


def _fewer(sample: SampleCodes) -> SampleCodes:
    """At most so many of the records, evenly from all of them."""
    records = len(sample.values)
    if records <= INSPECTED_ROWS:
        return sample
    chosen = np.linspace(0, records - 1, INSPECTED_ROWS).astype(np.int64)
    return SampleCodes(
        sample.values[chosen], {name: one[chosen] for name, one in sample.codes.items()}, sample.combinations
    )


def _determining(
    survey: Survey, columns: dict[str, Integers], sample: SampleCodes, strata_columns: Sequence[str]
) -> Iterator[Concern]:
    if not columns or len(sample.values) < 2:
        return
    pairs = {name: Pairs.of(codes, sample.values) for name, codes in columns.items()}
    found = {name: determination(codes, sample.values, pairs[name]) for name, codes in columns.items()}
    strong = {name: one for name, one in found.items() if one.strength >= _LOOK and one.covered >= _LEAST_COVERED}
    for severity, says in ((Severity.STOP, True), (Severity.LOOK, False)):
        some = {name: one for name, one in strong.items() if (one.strength >= _STOP) is says}
        if some:
            yield _columns_concern(survey, some, severity)
    all_together = determination(together(list(columns.values())), sample.values) if len(columns) > 1 else None
    best = max(one.strength for one in found.values())
    if all_together is not None and all_together.covered >= _LEAST_COVERED and all_together.strength >= _LOOK:
        stop = all_together.strength >= _STOP
        if best < (_STOP if stop else _LOOK):  # otherwise a single column says as much
            yield _together_concern(survey, all_together, stop)
    yield from _leaks(survey, {name: one for name, one in pairs.items() if name not in strong}, strata_columns)


def _columns_concern(survey: Survey, found: dict[str, Determination], severity: Severity) -> Concern:
    """Columns that determine the value, each by itself."""
    sensitive = survey.sensitive.name
    ordered = sorted(found, key=lambda name: -found[name].strength)
    first = found[ordered[0]]
    verb = "determine" if severity is Severity.STOP else "nearly determine"
    if len(ordered) == 1:
        message = (
            f"{quoted(ordered[0])} {verb.replace('determine', 'determines')} {quoted(sensitive)}: whoever knows it "
            f"guesses {percent(first.right)} of the people right, and {percent(first.without)} without it"
        )
    else:
        each = ", ".join(f"{quoted(name)} ({percent(found[name].right)} guessed right)" for name in ordered[:_NAMED])
        more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
        message = (
            f"{len(ordered)} quasi-identifiers {verb} {quoted(sensitive)}, each by itself: {each}{more}; "
            f"{percent(first.without)} without them"
        )
    named = "it" if len(ordered) == 1 else "them"
    return Concern(
        code="determining-column",
        severity=severity,
        message=message,
        answer=f"Leave {named} out of the quasi-identifiers (--quasi-identifiers), or make {named} coarser first.",
        people=round(max(one.right * one.covered for one in found.values()) * survey.rows),
        columns=tuple(ordered),
    )


def _together_concern(survey: Survey, found: Determination, stop: bool) -> Concern:
    return Concern(
        code="determining-column",
        severity=Severity.STOP if stop else Severity.LOOK,
        message=(
            f"all quasi-identifiers together {'determine' if stop else 'nearly determine'} "
            f"{quoted(survey.sensitive.name)}: of people who share theirs with others, {percent(found.right)} are "
            f"guessed right, and {percent(found.without)} without them"
        ),
        answer="Publish fewer quasi-identifiers (--quasi-identifiers), or make some of them coarser first.",
        people=round(found.right * found.covered * survey.rows),
        columns=tuple(survey.domains),
    )


def _leaks(survey: Survey, pairs: dict[str, Pairs], strata_columns: Sequence[str]) -> Iterator[Concern]:
    """Columns that give single values away, and columns that rule single values out."""
    leaks = {name: value_leaks(one) for name, one in pairs.items()}
    sensitive = quoted(survey.sensitive.name)
    giving = {name: one for name, one in leaks.items() if len(one.given_away)}
    if giving:
        names = sorted(giving, key=lambda name: -giving[name].share)
        values = _texts(survey, [giving[name].given_away for name in names])
        yield Concern(
            code="determining-column",
            severity=Severity.LOOK,
            message=(
                f"{name_some(names)} {'gives' if len(names) == 1 else 'give'} values of {sensitive} away: nearly "
                f"everybody with certain entries has {name_some(values, 'or')}"
            ),
            answer=f"{_COARSER} (--quasi-identifiers).",
            people=round(max(one.share for one in giving.values()) * survey.rows),
            values=tuple(values[:_LISTED]),
            columns=tuple(names),
        )
    ruling = {name: one for name, one in leaks.items() if len(one.ruled_out) and name not in strata_columns}
    if ruling:
        names = sorted(ruling, key=lambda name: -len(ruling[name].ruled_out))
        values = _texts(survey, [ruling[name].ruled_out for name in names])
        excluded = min(one.excluded for one in ruling.values())
        yield Concern(
            code="determining-column",
            severity=Severity.LOOK,
            message=(
                f"{name_some(names)} {'rules' if len(names) == 1 else 'rule'} values of {sensitive} out: with entries "
                f"that {percent(excluded)} of the people have, hardly anybody has {name_some(values, 'or')}, so it is "
                "somebody else of their bucket"
            ),
            answer=f"Cut strata by such a column (--strata {names[0]}). Or: {_COARSER[0].lower()}{_COARSER[1:]}.",
            people=sum(count for text, count in _counts(survey) if text in set(values)),
            values=tuple(values[:_LISTED]),
            columns=tuple(names),
        )


def _texts(survey: Survey, places: Sequence[Integers]) -> list[str]:
    """Sensitive values by name, the most frequent first."""
    counts, texts = survey.sensitive.counts, survey.sensitive.texts
    return [texts[place] for place in sorted(set(np.concatenate(places).tolist()), key=lambda one: -counts[one])]


def _counts(survey: Survey) -> Iterator[tuple[str, int]]:
    return zip(survey.sensitive.texts, survey.sensitive.counts, strict=True)


def _repeated_people(survey: Survey, roles: Roles) -> Iterator[Concern]:
    """Identifiers with fewer different values than records, or columns without a role that look like such."""
    repeated = {
        name: found
        for name, found in survey.identifying.items()
        if found.records >= _LEAST_ROWS and 0 < found.different <= _REPEATED * found.records
        if may_be_a_person(name) and (name in roles.identifiers or found.different * _LIKE_PEOPLE >= found.records)
    }
    if not repeated:
        return
    name = min(repeated, key=lambda one: (one not in roles.identifiers, repeated[one].different))
    found = repeated[name]
    about = "about " if found.is_estimate else ""
    yield Concern(
        code="repeated-people",
        severity=Severity.LOOK,
        message=(
            f"{quoted(name)} has {about}{found.different:,} different values in {found.records:,} rows: if it stands "
            f"for people, they have several rows, and limits are about a row, not about a person"
        ),
        answer="Publish one row of each person, such as the first, if the limits are to be about people.",
        people=found.different - found.once,
        columns=(name,),
    )


def _nearly_all_different(survey: Survey) -> Iterator[Concern]:
    """A sensitive column in which people share their value with few others, or a number with very many values."""
    sensitive = survey.sensitive
    values, once = len(sensitive.texts), sum(count == 1 for count in sensitive.counts)
    rows = sum(sensitive.counts)
    if rows < _LEAST_ROWS:
        return
    stop = values > rows / 2
    few = values >= _MANY_VALUES and values * _FEW_PEOPLE > rows
    numbers = values > _MANY_NUMBERS and sum(map(is_number, sensitive.texts)) > 0.9 * values
    if not (stop or few or numbers):
        return
    shared = f"; {once:,} people have a value that nobody else has" if once else ""
    yield Concern(
        code="nearly-all-different",
        severity=Severity.STOP if stop else Severity.LOOK,
        message=(
            f"{quoted(sensitive.name)} has {values:,} different values in {rows:,} rows{shared}: a limit on each "
            "exact value does not protect against a guess that is nearly right"
        ),
        answer="Group the values before publishing, such as amounts into brackets.",
        people=once,
        columns=(sensitive.name,),
    )


def _unique_people(survey: Survey, columns: dict[str, Integers], sample: SampleCodes) -> Iterator[Concern]:
    """People whom nobody else resembles in all quasi-identifiers."""
    rows, known = len(sample.values), sample.combinations
    alone = known.once if known is not None else 0
    if known is not None and known.is_estimate:
        alone = int(float(f"{alone:.3g}"))
    if known is None and columns and len(columns) == len(survey.domains):
        alone = int((np.bincount(together(list(columns.values()))) == 1).sum())
    if not alone:
        return
    people: int | None = alone
    if known is None and rows < survey.rows:
        people, who = None, f"of {rows:,} people in a sample, {percent(alone / rows)} are"
        end = " (of all people, fewer)"
    else:
        about = "about " if known is not None and known.is_estimate else ""
        who = f"{about}{alone:,} people ({percent(alone / survey.rows)}) are" if alone > 1 else "1 person is"
        end = ""
    yield Concern(
        code="unique-people",
        severity=Severity.NOTE,
        message=(
            f"{who} alone with their quasi-identifiers{end}: whoever knows those finds their bucket, and only the "
            "limits protect them there"
        ),
        answer="Make quasi-identifiers coarser, or publish fewer, if that is too many.",
        people=people,
        columns=tuple(survey.domains),
    )
