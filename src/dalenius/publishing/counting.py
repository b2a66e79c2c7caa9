"""The first reading of a table: what it holds, and what the limits are to be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dalenius.errors import NoSuchColumnError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.model.progress import Progress
from dalenius.place.banded import BandedColumn, NumberBands
from dalenius.place.survey import Survey
from dalenius.policy.banding import policy_of_bands
from dalenius.policy.bands import Bands
from dalenius.policy.grouping import resolve_groups
from dalenius.policy.limits import LimitPolicy, as_policy, bands_in
from dalenius.policy.not_applicable import apart_sentence, refuse_not_applicable, without_not_applicable
from dalenius.policy.roles import Roles, identifying_columns
from dalenius.publishing.description import check_values
from dalenius.publishing.engine import OpenTable, SurveySpec, bands_of_numbers
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.stratify import Stratifier


def find_columns(table: OpenTable, roles: Roles) -> tuple[str, ...]:
    """Check that every named column is there; gives the columns that have no role."""
    named = [*roles.sensitive_columns, *roles.quasi_identifiers, *roles.all_identifiers]
    for name in named:
        if name not in table.names:
            raise NoSuchColumnError.in_table(name, table.names)
    for one in roles.all_sets:
        if one.name in table.names and one.name not in one.columns:
            raise UsageError(
                f"the sensitive set {one.name!r} is called like a column that is not part of it",
                "Give it another name.",
            )
    return tuple(name for name in table.names if name not in named)


def count(table: OpenTable, request: PublishRequest, progress: Progress) -> tuple[Survey, LimitPolicy]:
    """Read the table for the first time: what its columns hold, how often each sensitive value occurs, in the order in
    which values are to be dealt, and what the limits are to be made of."""
    progress.stage("Counting")
    roles, stratifier = request.roles, Stratifier(request)
    bands = _bands(table, request)
    spec = SurveySpec(
        roles.sensitive,
        roles.quasi_identifiers,
        request.options.null_name,
        stratifier.sample,
        identifying_columns(roles, table.names),
        bands[1] if bands is not None else None,
        missing=request.options.missing,
    )
    survey = table.survey(spec, progress)
    check_values(survey, request.format)
    request.budget.check_values(len(survey.sensitive.texts))
    stratifier.check(survey)
    sensitive, named = survey.sensitive, request.options.not_applicable
    counts = dict(zip(sensitive.texts, sensitive.counts, strict=True))
    own = without_not_applicable(ValueCounts.of(counts.items()), named)
    policy = as_policy(request.limits, own).ungrouping(request.options.null_name)
    sensitive.refuse_absent_codes(request.options.missing, policy.allow_absent)
    refuse_not_applicable(policy, counts, named)
    apart = [place for place, text in enumerate(sensitive.texts) if text in named]
    if bands is not None:
        return _with_numbers(survey, policy_of_bands(policy, bands[0]), apart)
    if policy.grouping is None and not apart:
        return survey, policy
    order = [place for place, text in enumerate(sensitive.texts) if text not in named]
    if policy.grouping is not None:
        values = [sensitive.texts[place] for place in order]
        tree = resolve_groups(policy.grouping, values, [counts[value] for value in values], policy.allow_absent)
        order = [order[place] for place in tree.order()]
    return replace(survey, sensitive=sensitive.dealt_in([*order, *apart], len(apart))), policy


def _with_numbers(survey: Survey, policy: LimitPolicy, apart: Sequence[int]) -> tuple[Survey, LimitPolicy]:
    """A survey of numbers in bands, which are dealt in ascending order: that is depth first, whatever holds them.

    Of their values, nulls alone may not apply.
    """
    sensitive = survey.sensitive
    if any(place != sensitive.null_code for place in apart):
        raise UsageError(
            "a band of numbers applies to whoever has such a number",
            "Only what is missing may not apply: name its codes with --missing, and --not-applicable missing.",
        )
    return replace(survey, sensitive=replace(sensitive, apart=len(apart))), policy


def counting_notes(survey: Survey) -> tuple[str, ...]:
    """What the publisher must know of people who are set apart, and of bands, if there are any."""
    sensitive = survey.sensitive
    pairs = zip(sensitive.texts, sensitive.counts, strict=True)
    sentence = apart_sentence(ValueCounts.of(pairs), sensitive.texts[sensitive.applying :])
    bands = sensitive.bands.notes if isinstance(sensitive, BandedColumn) else ()
    return bands if sentence is None else (sentence, *bands)


def refuse_fake_numbers(fake_values: int) -> None:
    """An error if sensitive numbers are to have fakes."""
    if fake_values:
        raise UsageError(
            "fake values are not made for numbers: an invented number may be one that nobody could have",
            "Leave out --fakes, or publish bands as text instead of numbers.",
        )


def _bands(table: OpenTable, request: PublishRequest) -> tuple[Bands, NumberBands] | None:
    """The bands that sensitive numbers count by, of all levels and the finest; None if that is not asked for."""
    spec = bands_in(request.limits)
    if spec is not None:
        refuse_fake_numbers(request.solving.fake_values)
    return bands_of_numbers(table, request.roles.sensitive, spec, request.key, request.options.missing)
