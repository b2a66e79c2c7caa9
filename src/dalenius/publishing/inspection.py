"""A look at the table before it is published: what a publisher should know while nothing is written yet.

`inspect` makes concerns of what the first reading found and of a sample of records, the heaviest first. It looks at
columns that say the sensitive value, people who are there more than once, sensitive values that are nearly all
different, diagnosis codes without limits on their chapters, people who are alone with their quasi-identifiers, and
codes for what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dalenius.errors import ConcernsError
from dalenius.infer.determining import Integers, numbered, together
from dalenius.infer.giveaways import determining_concerns, repeated_people
from dalenius.model.concern import Concern, Severity, by_weight, percent, quoted
from dalenius.model.progress import Progress
from dalenius.place.survey import Survey
from dalenius.policy.banding import bands_to_offer
from dalenius.policy.icd import groups_to_offer
from dalenius.policy.limits import grouping_in
from dalenius.publishing.engine import OpenTable, SampleCodes
from dalenius.publishing.missing_codes import is_number, missing_code_concerns
from dalenius.publishing.options import PublishRequest

INSPECTED_ROWS = 50_000

_LEAST_ROWS = 20
_GROUP_THEM = "Group the values: --groups takes a file, prefixes of codes, or bands of numbers."
_MANY_VALUES, _MANY_NUMBERS, _FEW_PEOPLE = 50, 1000, 20


def inspect(survey: Survey, sample: SampleCodes, request: PublishRequest) -> tuple[Concern, ...]:
    """All that there is to say about a table, the heaviest first. Strata by a column answer what it rules out."""
    if survey.sensitive.apart:  # nothing is to be hidden of people to whom the question does not apply
        sample = sample.only(survey.sensitive)
        survey = replace(
            survey, sensitive=survey.sensitive.only_applying, rows=sum(survey.sensitive.value_counts.counts)
        )
    sample = _fewer(sample)
    columns = {name: numbered(codes) for name, codes in sample.codes.items()}
    return by_weight(
        [
            *determining_concerns(survey.sensitive, columns, sample.values, request.strata.columns),
            *(repeated_people(survey.identifying, request.roles.identifiers) if request.roles.person is None else ()),
            *_nearly_all_different(survey),
            *_ungrouped_codes(survey, request),
            *_unique_people(survey, columns, sample),
            *missing_code_concerns(survey, sample),
        ]
    )


def look(table: OpenTable, survey: Survey, request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """Look at an open table, and say what weighs before the work goes on; an error if the publisher is strict."""
    progress.stage("Looking", survey.rows)
    concerns = inspect(survey, table.sample(survey), request)
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
    offer = bands_to_offer(sensitive.value_counts) if numbers else None
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


def _ungrouped_codes(survey: Survey, request: PublishRequest) -> Iterator[Concern]:
    """Diagnosis codes that have limits one by one, and their chapters none."""
    sensitive = survey.sensitive
    offer = groups_to_offer(sensitive.texts) if grouping_in(request.limits) is None else None
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
