"""The first reading of a table: what it holds, and what the limits are to be made of."""

from __future__ import annotations

from dataclasses import replace

from dalenius.errors import NoSuchColumnError
from dalenius.model.progress import Progress
from dalenius.place.survey import Survey
from dalenius.policy.grouping import resolve_groups
from dalenius.policy.limits import LimitPolicy, as_policy
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
    spec = SurveySpec(
        roles.sensitive,
        roles.quasi_identifiers,
        request.options.null_name,
        stratifier.sample,
        identifying_columns(roles, table.names),
        missing=request.options.missing,
    )
    survey = table.survey(spec, progress)
    check_values(roles, survey, request.format)
    request.budget.check_values(len(survey.sensitive.texts))
    stratifier.check(survey)
    policy = as_policy(request.limits, survey.sensitive.value_counts).ungrouping(request.options.null_name)
    survey.sensitive.refuse_absent_codes(request.options.missing, policy.allow_absent)
    if policy.grouping is None:
        return survey, policy
    values, counts = survey.sensitive.texts, survey.sensitive.counts
    order = resolve_groups(policy.grouping, values, counts, policy.allow_absent).order()
    return replace(survey, sensitive=survey.sensitive.dealt_in(order)), policy
