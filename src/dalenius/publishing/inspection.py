"""A look at the table before it is published: what a publisher should know while nothing is written yet.

`inspect` makes concerns of what the first reading found and of a sample of records, the heaviest first. It looks at
columns that say the sensitive value, people who are there more than once, sensitive values that are nearly all
different, diagnosis codes without limits on their chapters, people who are alone with their quasi-identifiers, and
codes for what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dalenius.errors import ConcernsError
from dalenius.infer.determining import Integers, numbered, together
from dalenius.infer.giveaways import determining_concerns
from dalenius.model.concern import Concern, Severity, by_weight, percent, quoted
from dalenius.model.progress import Progress
from dalenius.place.people import People
from dalenius.place.survey import Survey
from dalenius.policy.banding import bands_to_offer
from dalenius.policy.icd import groups_to_offer
from dalenius.policy.limits import LimitPolicy, grouping_in
from dalenius.policy.whose_rows import agreeing_people, repeated_people
from dalenius.publishing.engine import OpenTable, SampleCodes, SampleSpec, SurveySpec
from dalenius.publishing.missing_codes import is_number, missing_code_concerns
from dalenius.publishing.options import PublishRequest

INSPECTED_ROWS = 50_000
_SAMPLE_BYTES = 2**26

_LEAST_ROWS = 20
_GROUP_THEM = "Group the values: --groups takes a file, prefixes of codes, or bands of numbers."
_MANY_VALUES, _MANY_NUMBERS, _FEW_PEOPLE = 50, 1000, 20


def inspect(table: OpenTable, survey: Survey, request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """All that there is to say about an open table, the heaviest first. Strata by a column answer what it rules out.

    The survey is that of the first sensitive column. Further ones are surveyed here, and the first is forgotten.
    """
    first, *others = _Sensitive.all_of(request)
    found = [*_several_rows(table, survey, request), *_inspect_first(table, survey, request, first)]
    for one in others:
        spec = SurveySpec(
            one.column,
            request.roles.quasi_identifiers,
            one.null_value,
            SampleSpec(request.key, INSPECTED_ROWS, _SAMPLE_BYTES, keep=False),
            missing=one.missing,
        )
        found += _inspect_column(table, table.survey(spec, progress), request, one)
    return by_weight(found)


def _inspect_first(table: OpenTable, survey: Survey, request: PublishRequest, first: _Sensitive) -> Iterator[Concern]:
    """What there is to say about the first sensitive column, and about quasi-identifiers."""
    sample = table.sample(survey)
    if survey.sensitive.apart:  # nothing is to be hidden of people to whom the question does not apply
        sample = sample.only(survey.sensitive)
        survey = replace(
            survey, sensitive=survey.sensitive.only_applying, rows=sum(survey.sensitive.value_counts.counts)
        )
    sample = _fewer(sample)
    columns = {name: numbered(codes) for name, codes in sample.codes.items()}
    yield from determining_concerns(survey.sensitive, columns, sample.values, request.strata.columns)
    yield from _of_values(survey, first)
    if request.roles.person is None:  # else it is about all their rows (`unique_people`)
        yield from _unique_rows(survey, columns, sample)
    yield from missing_code_concerns(survey, sample, first.about)


def _inspect_column(table: OpenTable, survey: Survey, request: PublishRequest, one: _Sensitive) -> Iterator[Concern]:
    """What there is to say about a further sensitive column, and nothing about quasi-identifiers alone."""
    sample = _fewer(table.sample(survey))
    columns = {name: numbered(codes) for name, codes in sample.codes.items()}
    yield from determining_concerns(survey.sensitive, columns, sample.values, request.strata.columns)
    yield from _of_values(survey, one)
    yield from missing_code_concerns(replace(survey, domains={}), replace(sample, codes={}), one.about)


@dataclass(frozen=True)
class _Sensitive:
    """A sensitive column of a request, and what was asked for it.

    Options begin with `about` where there are several sensitive sets. Its numbers can be in bands only if it is
    the only one, and nobody has several rows.
    """

    column: str
    null_value: str | None
    missing: tuple[str, ...]
    limits: LimitPolicy | Mapping[Any, Any]
    about: str
    can_have_bands: bool

    @classmethod
    def all_of(cls, request: PublishRequest) -> list[_Sensitive]:
        """All columns of all sets."""
        roles = request.roles
        sets = roles.all_sets
        limits = request.set_limits or (request.limits,)
        return [
            cls(
                column,
                one.null_name,
                one.missing,
                own,
                f"{one.name}:" if len(sets) > 1 else "",
                not roles.by_people,
            )
            for one, own in zip(sets, limits, strict=True)
            for column in one.columns
        ]


def look(table: OpenTable, survey: Survey, request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """Look at an open table, and say what weighs before the work goes on; an error if the publisher is strict."""
    progress.stage("Looking", survey.rows)
    return weigh(inspect(table, survey, request, progress), request, progress)


def weigh(concerns: tuple[Concern, ...], request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """Say what is not a mere note, or make an error of it if the publisher is strict; gives the same concerns."""
    heavy = [one for one in concerns if one.severity is not Severity.NOTE]
    if heavy and request.options.strict:
        number = "1 concern" if len(heavy) == 1 else f"{len(heavy)} concerns"
        raise ConcernsError(
            "\n".join([f"nothing was published: strict makes errors of {number} about the table", *map(_lines, heavy)]),
            "Do what they say, or publish without --strict.",
        )
    for concern in heavy:
        progress.tell(_lines(concern))
    return concerns


def _several_rows(table: OpenTable, survey: Survey, request: PublishRequest) -> Iterator[Concern]:
    """People who have several rows, and nobody says so: by an identifier that repeats, or by all that rows agree in."""
    roles = request.roles
    found = list(repeated_people(survey.identifying, roles.identifiers, roles.person))
    yield from found
    if found or roles.person is not None:
        return
    for name in roles.identifiers:
        known = survey.identifying.get(name)
        if known is None or known.different == known.records or not survey.domains:
            continue
        agreeing = table.agreeing(survey, name)
        if agreeing is not None:
            yield from agreeing_people(name, agreeing.identifier, agreeing.quasi_identifiers, agreeing.both)


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


def _of_values(survey: Survey, one: _Sensitive) -> Iterator[Concern]:
    """What values alone say about a sensitive column."""
    yield from _nearly_all_different(survey, one)
    yield from _ungrouped_codes(survey, one)


def _nearly_all_different(survey: Survey, one: _Sensitive) -> Iterator[Concern]:
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
    offer = bands_to_offer(sensitive.value_counts, one.about) if numbers else None
    if offer is not None and not one.can_have_bands:
        offer = "put bands of numbers into the table as a column of text, and publish that"
    shared = f"; {once:,} people have a value that nobody else has" if once else ""
    yield Concern(
        code="nearly-all-different",
        severity=Severity.STOP if stop else Severity.LOOK,
        message=(
            f"{quoted(sensitive.name)} has {values:,} different values in {rows:,} rows{shared}: a limit on each "
            "exact value does not protect against a guess that is nearly right"
        ),
        answer=f"{offer[0].upper()}{offer[1:]}." if offer is not None else _GROUP_THEM,
        people=once,
        columns=(sensitive.name,),
    )


def _ungrouped_codes(survey: Survey, one: _Sensitive) -> Iterator[Concern]:
    """Diagnosis codes that have limits one by one, and their chapters none."""
    sensitive = survey.sensitive
    offer = groups_to_offer(sensitive.texts, one.about) if grouping_in(one.limits) is None else None
    if offer is not None:
        yield Concern(
            code="codes-without-groups",
            severity=Severity.LOOK,
            message=(
                f"{quoted(sensitive.name)} has {len(sensitive.texts):,} values that look like diagnosis codes, and a "
                "limit on each of them is none on a chapter: all values of a bucket may be heart diseases, or cancers"
            ),
            answer=f"{offer[0].upper()}{offer[1:]}.",
            columns=(sensitive.name,),
        )


def unique_people(people: People, columns: Iterable[str]) -> Iterator[Concern]:
    """People whom nobody else resembles in all quasi-identifiers of all their rows."""
    if alone := people.alone():
        whose = " of all their rows" if len(people.keys) > people.number else ""
        who = f"{alone:,} people ({percent(alone / people.number)}) are" if alone > 1 else "1 person is"
        yield _alone(who, whose, alone, columns)


def _alone(who: str, whose: str, people: int | None, columns: Iterable[str]) -> Concern:
    return Concern(
        code="unique-people",
        severity=Severity.NOTE,
        message=(
            f"{who} alone with their quasi-identifiers{whose}: whoever knows those finds their bucket, and only the "
            "limits protect them there"
        ),
        answer="Make quasi-identifiers coarser, or publish fewer, if that is too many.",
        people=people,
        columns=tuple(columns),
    )


def _unique_rows(survey: Survey, columns: dict[str, Integers], sample: SampleCodes) -> Iterator[Concern]:
    """People whom nobody else resembles in all quasi-identifiers, where everybody has one row."""
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
    yield _alone(who, end, people, survey.domains)
