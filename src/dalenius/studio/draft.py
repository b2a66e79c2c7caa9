"""The publisher's draft: roles of columns, limits, protection. There is one per server; every tab sees the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from dalenius.errors import JobFileError, UsageError
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import name_of_nulls
from dalenius.policy.bands import BandSpec
from dalenius.policy.grouping import Grouping
from dalenius.policy.job import AdversarySection, Job, LimitsSection, ReportSection, SolveSection, TableSection
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.not_applicable import refuse_fakes
from dalenius.policy.roles import Roles, check_sets
from dalenius.publishing.counting import refuse_fake_numbers
from dalenius.publishing.options import PublishOptions, StrataChoice
from dalenius.publishing.people_rules import check_most_rows, check_people
from dalenius.studio.forms import (
    ExploreForm,
    GroupingForm,
    LimitsForm,
    ProtectionForm,
    PublishForm,
    SolveForm,
    plan_options,
)
from dalenius.studio.group_choice import GroupSource, grouping_in_force, groups_section, limits_of_job
from dalenius.studio.messages import RequestError
from dalenius.studio.role_forms import RolesForm, SetForm
from dalenius.studio.set_choice import (
    OwnLimits,
    apart,
    in_effect,
    kept_apart,
    moved,
    only_columns,
    only_set_of_job,
    own_of_job,
    policy_of,
    refuse_bands,
    refuse_together,
    roles_of,
    sensitive_set,
    set_sections,
    without_names,
)

Question: TypeAlias = "tuple[LimitsForm, dict[str, OwnLimits], PlanOptions, list[str]]"


class Unseen(NamedTuple):
    """What a job file says that no page shows."""

    strict: bool | None = None
    time_limit: Decimal | None = None
    report: ReportSection = ReportSection()


@dataclass(frozen=True)
class Draft:
    """Everything that determines a release, except the table.

    `source` has the groups of values that the limits name by an ID, if they do. Where there are several sensitive sets,
    `own` has what each of them has for itself, by its name, and `limits` are the general ones. `unseen` is what a job
    file says that no page shows: it stays as it is.
    """

    roles: RolesForm = field(default_factory=RolesForm)
    limits: LimitsForm = field(default_factory=LimitsForm)
    solve: SolveForm = field(default_factory=SolveForm)
    protection: ProtectionForm = field(default_factory=ProtectionForm)
    unseen: Unseen = field(default_factory=Unseen)
    source: GroupSource | None = None
    own: dict[str, OwnLimits] = field(default_factory=dict)

    @classmethod
    def of_job(cls, job: Job) -> Draft:
        """The draft of a job file. Studio ignores its method: it always looks for the optimum."""
        refuse_together(job)
        job = only_set_of_job(job)
        table, solve, adversary = job.table, job.solve, job.adversary
        try:
            limits, source = limits_of_job(job)
            draft = cls(
                roles=RolesForm.of_job(table),
                limits=limits,
                solve=SolveForm(
                    min_size=solve.min_size,
                    max_size=solve.max_size,
                    gap=float(solve.gap) if solve.gap is not None else None,
                ),
                protection=ProtectionForm(
                    known_records=adversary.corrupted or 0,
                    fake_values=adversary.fakes or 0,
                    avoid_ruled_out=bool(adversary.avoid_ruled_out),
                    strata=_strata_of(table),
                ),
                unseen=Unseen(table.strict, solve.time_limit, job.report),
                source=source,
                own=own_of_job(job),
            )
            draft.refuse_for_people()
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"][:2])
            raise JobFileError(f"Studio does not accept this part of the job file: {where}") from None
        return draft

    @property
    def by_people(self) -> bool:
        """Whether people count, and not rows."""
        return self.roles.by_people

    @property
    def options(self) -> PlanOptions:
        """The options of the search for a setting."""
        return plan_options(self.solve, self.protection)

    @property
    def grouping(self) -> Grouping | None:
        """The groups of values in force; an error if they make no sense."""
        return grouping_in_force(self.limits.grouping, self.source)

    def policy(self) -> LimitPolicy:
        """The limits of values and groups, checked."""
        return self.limits.policy(self.grouping).ungrouping(self.null_name)

    def limits_of(self, name: str) -> tuple[LimitsForm, GroupSource | None]:
        """The limits that a sensitive set comes to, and the source of its groups."""
        if len(self.roles.all_sets) < 2:
            return self.limits, self.source
        own = self.own.get(name)
        return in_effect(self.limits, own), own.source if own is not None else None

    def policies(self) -> tuple[LimitPolicy, ...]:
        """The limits of each sensitive set, checked; general ones as long as there is none."""
        return tuple(
            policy_of(*self.limits_of(one.called), sensitive_set(one, self.roles).null_name)
            for one in self.roles.all_sets
        ) or (self.policy(),)

    def refuse_for_people(self) -> None:
        """An error for what cannot be asked for where people count, and not rows."""
        if not self.by_people or self.roles.sensitive is None:
            return
        for one in self.roles.all_sets:
            refuse_bands(self.limits_of(one.called)[0], one.called)
        options = PublishOptions(not_applicable=tuple(self.roles.not_applicable))
        solving = PlanOptions(fake_values=self.protection.fake_values)
        check_people(roles_of(self.roles), self.policies(), options, solving)
        check_sets(roles_of(self.roles))

    @property
    def bands(self) -> BandSpec | None:
        """The bands that take the place of values, if the groups are bands of numbers."""
        grouping = self.grouping
        return grouping.bands if grouping is not None else None

    @property
    def null_name(self) -> str | None:
        """The name under which nulls count, and codes for what is missing; None if nulls are errors."""
        return name_of_nulls(self.roles.null_value, self.roles.missing)

    @property
    def question(self) -> Question:
        """What an exploration depends on, besides the counts."""
        return self.limits, self.own, self.options, self.roles.not_applicable

    def with_roles(self, roles: RolesForm) -> Draft:
        """The draft with other roles, without limits of other columns and without strata by other columns."""
        roles = roles.plainly()
        names = [*roles.quasi_identifiers, *roles.identifiers, *roles.sensitive_columns]
        if roles.person is not None and roles.person not in roles.identifiers:
            names.append(roles.person)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
        check_most_rows(roles_of(roles), roles.most_rows)
        limits, protection = moved(self.roles, roles, self.limits, self.own), self.protection
        own = kept_apart(self.roles, roles, self.limits, self.source, self.own)
        source = self.source
        if len(roles.all_sets) == 1 and len(self.roles.all_sets) > 1:
            source = self.limits_of(roles.all_sets[0].called)[1]
        limits = limits.without(roles.not_applicable)
        if isinstance(protection.strata, list):
            columns = [name for name in protection.strata if name in roles.quasi_identifiers]
            protection = protection.model_copy(update={"strata": columns or "auto"})
        source = source if limits.grouping.source == "file" else None
        draft = replace(self, roles=roles, limits=limits, protection=protection, source=source, own=own)
        draft.refuse_for_people()
        return draft

    def fitting(self, columns: Sequence[str]) -> Draft:
        """The part of the draft that fits a table with these columns."""
        fitting = only_columns(self.roles, columns)
        return self if fitting == self.roles else self.with_roles(fitting)

    def to_look_at(self, roles: RolesForm) -> Draft:
        """What a look at the table depends on: these roles, bands of numbers, and the columns that cut strata."""
        draft = self.with_roles(roles)
        strata, grouping = draft.protection.strata, draft.limits.grouping
        protection = ProtectionForm(strata=strata if isinstance(strata, list) else "none")
        bands = grouping if grouping.has_bands else GroupingForm()
        absent = draft.limits.allow_absent
        return Draft(roles, LimitsForm(rule="none", grouping=bands, allow_absent=absent), protection=protection)

    def with_limits(self, form: ExploreForm, source: GroupSource | None) -> Draft:
        """The draft with other limits, the source of their groups, and another protection."""
        protection = form.protection
        refuse_fakes(self.roles.not_applicable, protection.fake_values)
        if form.limits.grouping.has_bands:
            refuse_fake_numbers(protection.fake_values)
        limits, own = form.limits.without(self.roles.not_applicable), self.own
        if len(self.roles.all_sets) > 1:
            source = source if form.of_set is not None else None
            limits, own = self._of_set(form, limits, source)
        draft = replace(
            self,
            limits=limits,
            solve=form.solve,
            protection=protection,
            source=source if len(self.roles.all_sets) < 2 else None,
            own=own,
        )
        draft.refuse_for_people()
        return draft

    def _of_set(
        self, form: ExploreForm, limits: LimitsForm, source: GroupSource | None
    ) -> tuple[LimitsForm, dict[str, OwnLimits]]:
        """General limits and those of the sets, once a page has sent limits of one of them, or general ones."""
        if form.of_set is None:
            return without_names(limits), self.own
        if form.of_set not in [one.called for one in self.roles.all_sets]:
            raise UsageError(f"there is no sensitive column {form.of_set!r}", "Choose one on the first page.")
        form = form.model_copy(update={"limits": limits})
        general, mine = apart(self.limits, self.own.get(form.of_set or ""), form, source)
        others = {name: own for name, own in self.own.items() if name != form.of_set}
        return general, others if mine.says_nothing else {**others, form.of_set or "": mine}

    def to_publish(self) -> Roles:
        """The roles, complete."""
        roles = self.roles
        if roles.sensitive is None:
            raise RequestError(409, "not-ready", "no sensitive column is chosen", "Choose one on the first page.")
        if not roles.quasi_identifiers:
            raise RequestError(
                409, "not-ready", "no quasi-identifier is chosen", "Choose the columns to publish on the first page."
            )
        return roles_of(roles)

    def publish_options(self, table: str | None, form: PublishForm) -> PublishOptions:
        """How to make and write the release."""
        return PublishOptions(
            null_value=self.roles.null_value,
            missing=tuple(self.roles.missing),
            not_applicable=tuple(self.roles.not_applicable),
            table=table,
            format=form.format,
            avoid_ruled_out=self._avoids_ruled_out,
            strata=self.protection.strata,
            in_the_clear=form.in_the_clear,
            strict=bool(self.unseen.strict),
            most_rows=self.roles.most_rows,
        )

    @property
    def _avoids_ruled_out(self) -> bool:
        """Without fakes there is nothing to avoid, whatever the box says."""
        return self.protection.avoid_ruled_out and self.protection.fake_values > 0

    def job(self, head: ReportSection | None = None, in_the_clear: bool = False, *, written: bool = False) -> Job:
        """The job with which the command line makes the same release, and its report with this head.

        If it is to be `written`, a file of groups that was uploaded is named as it is called elsewhere.
        """
        roles, solve, protection = self.roles, self.solve, self.protection
        return Job(
            table=TableSection(
                sensitive=set_sections(roles, self.own, written=written) if roles.sets else roles.sensitive,
                person=roles.person,
                most_rows=roles.most_rows,
                quasi_identifiers=list(roles.quasi_identifiers),
                identifiers=list(roles.identifiers),
                null_value=roles.null_value,
                strata=protection.strata,
                strict=self.unseen.strict,
                missing=list(roles.missing),
                not_applicable=list(roles.not_applicable),
            ),
            limits=LimitsSection(
                **self.limits.in_force(),
                publish_in_the_clear=in_the_clear or self.limits.publish_in_the_clear,
            ),
            solve=SolveSection(
                min_size=solve.min_size,
                max_size=solve.max_size,
                gap=Decimal(str(solve.gap)) if solve.gap is not None else None,
                time_limit=self.unseen.time_limit,
            ),
            adversary=AdversarySection(
                corrupted=protection.known_records,
                fakes=protection.fake_values,
                avoid_ruled_out=self._avoids_ruled_out or None,
            ),
            report=head or self.unseen.report,
            groups=groups_section(self.limits.grouping, self.source, written=written),
        )

    def state(self) -> dict[str, Any]:
        """The draft's part of GET /api/state."""
        roles = self.roles.model_dump()
        codes = {name: roles.pop(name) for name in ("null_value", "missing", "not_applicable")}
        return {
            "roles": roles,
            **codes,
            "by_people": self.by_people,
            "limits": self.limits.model_dump(),
            "of_sets": [self._state_of(one) for one in self.roles.all_sets] if self.by_people else [],
            "solve": self.solve.model_dump(),
            "protection": self.protection.model_dump(),
            "group_source": self.source.state() if self.source is not None else None,
        }

    def _state_of(self, one: SetForm) -> dict[str, Any]:
        """A sensitive set with the limits that it comes to."""
        limits, source = self.limits_of(one.called)
        own = self.own.get(one.called)
        return {
            "name": one.called,
            "columns": one.columns,
            "null_name": sensitive_set(one, self.roles).null_name,
            "own_rule": own is not None and not own.follows,
            "limits": limits.model_dump(),
            "group_source": source.state() if source is not None else None,
        }


def _strata_of(table: TableSection) -> Any:
    choice = StrataChoice.of(table.strata if table.strata is not None else "auto", table.quasi_identifiers)
    if choice.kind == "number":
        return choice.number
    return list(choice.columns) if choice.kind == "columns" else choice.kind
