"""The first reading of a table: what it holds, and what the limits are to be made of."""

from __future__ import annotations

from dataclasses import replace

from dalenius.errors import NoSuchColumnError, UsageError
from dalenius.model.progress import Progress
from dalenius.place.banded import NumberBands
from dalenius.place.survey import Survey
from dalenius.policy.bands import resolve_bands
from dalenius.policy.grouping import policy_of_bands, resolve_groups
from dalenius.policy.limits import LimitPolicy, as_policy, bands_in
from dalenius.policy.roles import Roles, identifying_columns
from dalenius.publishing.description import check_values
from dalenius.publishing.engine import OpenTable, SurveySpec
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.stratify import Stratifier


def find_columns(table: OpenTable, roles: Roles) -> tuple[str, ...]:
    """Check that every named column is there; gives the columns that have no role."""
    named = [roles.sensitive, *roles.quasi_identifiers, *roles.identifiers]
    for name in named:
        if name not in table.names:
            raise NoSuchColumnError.in_table(name, table.names)
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
        request.options.null_value,
        stratifier.sample,
        identifying_columns(roles, table.names),
        bands,
    )
    survey = table.survey(spec, progress)
    check_values(roles, survey, request.format)
    request.budget.check_values(len(survey.sensitive.texts))
    stratifier.check(survey)
    policy = as_policy(request.limits, survey.sensitive.value_counts)
    if bands is not None:
        return survey, policy_of_bands(policy)
    if policy.grouping is None:
        return survey, policy
    values, counts = survey.sensitive.texts, survey.sensitive.counts
    order = resolve_groups(policy.grouping, values, counts, policy.allow_absent).order()
    return replace(survey, sensitive=survey.sensitive.dealt_in(order)), policy


def _bands(table: OpenTable, request: PublishRequest) -> NumberBands | None:
    """The bands that sensitive numbers count by; None if that is not asked for."""
    spec = bands_in(request.limits)
    if spec is None:
        return None
    if request.solving.fake_values:
        raise UsageError(
            "fake values are not made for numbers: an invented number may be one that nobody could have",
            "Leave out --fakes, or publish bands as text instead of numbers.",
        )
    seen = table.numbers(request.roles.sensitive, None if spec.cuts else request.key)
    bands = resolve_bands(spec, seen.numbers, seen.counts)
    return NumberBands(seen.data_type, bands.cuts, bands.names)
