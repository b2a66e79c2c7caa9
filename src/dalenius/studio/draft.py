"""The publisher's draft: roles of columns, limits, protection. There is one per server; every tab sees the same.

Every change gives the draft another number. A tab says which number it shows. If another tab has changed the draft
since, its change is refused: nobody overwrites what they have not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import ValidationError

from dalenius.errors import JobFileError, UsageError
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import name_of_nulls
from dalenius.policy.bands import BandSpec
from dalenius.policy.grouping import Grouping
from dalenius.policy.job import AdversarySection, Job, LimitsSection, ReportSection, SolveSection, TableSection
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.not_applicable import refuse_fakes
from dalenius.policy.roles import Roles
from dalenius.publishing.counting import refuse_fake_numbers
from dalenius.publishing.options import PublishOptions, StrataChoice
from dalenius.studio.forms import (
    GroupingForm,
    LimitsForm,
    ProtectionForm,
    PublishForm,
    RolesForm,
    SolveForm,
    plan_options,
)
from dalenius.studio.group_choice import (
    GroupSource,
    grouping_in_force,
    groups_section,
    limits_of_job,
)
from dalenius.studio.messages import RequestError


class Unseen(NamedTuple):
    """What a job file says that no page shows."""

    strict: bool | None = None
    time_limit: Decimal | None = None
    report: ReportSection = ReportSection()


@dataclass(frozen=True)
class Draft:
    """Everything that determines a release, except the table.

    `source` has the groups of values that the limits name by an ID, if they do. `unseen` is what a job file says that
    no page shows: it stays as it is.
    """

    roles: RolesForm = field(default_factory=RolesForm)
    limits: LimitsForm = field(default_factory=LimitsForm)
    solve: SolveForm = field(default_factory=SolveForm)
    protection: ProtectionForm = field(default_factory=ProtectionForm)
    unseen: Unseen = field(default_factory=Unseen)
    source: GroupSource | None = None

    @classmethod
    def of_job(cls, job: Job) -> Draft:
        """The draft of a job file. Studio ignores its method: it always looks for the optimum."""
        table, solve, adversary = job.table, job.solve, job.adversary
        if table.person is not None or not isinstance(table.sensitive, str | None):
            raise JobFileError(
                "Studio has one row a person and one sensitive column so far, and this job file says "
                + ("person" if table.person is not None else "that there are several"),
                "Use the command line: dalenius publish TABLE --job FILE --out DIR.",
            )
        if table.keep_together:
            raise JobFileError(
                "Studio keeps no columns together, and this job file says keep_together",
                "Use the command line: dalenius publish TABLE --job FILE --out DIR.",
            )
        try:
            limits, source = limits_of_job(job)
            return cls(
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
            )
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"][:2])
            raise JobFileError(f"Studio does not accept this part of the job file: {where}") from None

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
    def question(self) -> tuple[LimitsForm, PlanOptions, list[str]]:
        """What an exploration depends on, besides the counts."""
        return self.limits, self.options, self.roles.not_applicable

    def with_roles(self, roles: RolesForm) -> Draft:
        """The draft with other roles, without limits of another column and without strata by other columns."""
        names = [*roles.quasi_identifiers, *roles.identifiers, *([roles.sensitive] if roles.sensitive else [])]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
        limits, protection = self.limits, self.protection
        if roles.sensitive != self.roles.sensitive:
            of_column = {"values": {}, "grouping": GroupingForm(), "groups": {}, "levels": {}}
            limits = limits.model_copy(update={**of_column, "publish_in_the_clear": None})
        limits = limits.without(roles.not_applicable)
        if isinstance(protection.strata, list):
            columns = [name for name in protection.strata if name in roles.quasi_identifiers]
            protection = protection.model_copy(update={"strata": columns or "auto"})
        source = self.source if limits.grouping.source == "file" else None
        return replace(self, roles=roles, limits=limits, protection=protection, source=source)

    def fitting(self, columns: Sequence[str]) -> Draft:
        """The part of the draft that fits a table with these columns."""
        roles = self.roles
        sensitive = roles.sensitive if roles.sensitive in columns else None
        fitting = RolesForm(
            sensitive=sensitive,
            quasi_identifiers=[name for name in roles.quasi_identifiers if name in columns],
            identifiers=[name for name in roles.identifiers if name in columns],
            null_value=roles.null_value if sensitive is not None else None,
            missing=roles.missing if sensitive is not None else [],
            not_applicable=roles.not_applicable if sensitive is not None else [],
        )
        return self if fitting == roles else self.with_roles(fitting)

    def to_look_at(self, roles: RolesForm) -> Draft:
        """What a look at the table depends on: these roles, bands of numbers, and the columns that cut strata."""
        draft = self.with_roles(roles)
        strata, grouping = draft.protection.strata, draft.limits.grouping
        protection = ProtectionForm(strata=strata if isinstance(strata, list) else "none")
        bands = grouping if grouping.has_bands else GroupingForm()
        absent = draft.limits.allow_absent
        return Draft(roles, LimitsForm(rule="none", grouping=bands, allow_absent=absent), protection=protection)

    def with_limits(
        self, limits: LimitsForm, solve: SolveForm, protection: ProtectionForm, source: GroupSource | None
    ) -> Draft:
        """The draft with other limits, the source of their groups, and another protection."""
        refuse_fakes(self.roles.not_applicable, protection.fake_values)
        if limits.grouping.has_bands:
            refuse_fake_numbers(protection.fake_values)
        limits = limits.without(self.roles.not_applicable)
        return replace(self, limits=limits, solve=solve, protection=protection, source=source)

    def to_publish(self) -> Roles:
        """The roles, complete."""
        roles = self.roles
        if roles.sensitive is None:
            raise RequestError(409, "not-ready", "no sensitive column is chosen", "Choose one on the first page.")
        if not roles.quasi_identifiers:
            raise RequestError(
                409, "not-ready", "no quasi-identifier is chosen", "Choose the columns to publish on the first page."
            )
        return Roles(roles.sensitive, tuple(roles.quasi_identifiers), tuple(roles.identifiers))

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
                sensitive=roles.sensitive,
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
            "limits": self.limits.model_dump(),
            "solve": self.solve.model_dump(),
            "protection": self.protection.model_dump(),
            "group_source": self.source.state() if self.source is not None else None,
        }


def _strata_of(table: TableSection) -> Any:
    choice = StrataChoice.of(table.strata if table.strata is not None else "auto", table.quasi_identifiers)
    if choice.kind == "number":
        return choice.number
    return list(choice.columns) if choice.kind == "columns" else choice.kind


class Tab(NamedTuple):
    """Who asks: a tab of the browser, and the number of the draft that it shows."""

    id: str
    shows: int


_MOST_STEPS = 200
_MOST_LIMITS = 500_000  # of single values, in all steps together
_PARTS = ("roles", "limits", "solve", "protection")


class History:
    """The draft, those before it, and those that were undone. Not safe for threads by itself."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.number = draft, 0
        self._saved = draft
        self._past: list[Draft] = []
        self._undone: list[Draft] = []
        self._gesture = ""
        self._author, self._since = "", 0  # the tab that made the last changes, and the number of the first of them

    def is_stale(self, tab: Tab | None) -> bool:
        """Whether somebody else has changed the draft since this tab read it. Without a tab nobody can tell."""
        if tab is None or tab.shows == self.number:
            return False
        return tab.id != self._author or tab.shows < self._since - 1

    def require_fresh(self, tab: Tab | None) -> None:
        """Refuse a tab that shows an older draft."""
        if self.is_stale(tab):
            raise RequestError(
                409, "stale", "another tab has changed the draft", "Take over the newer draft, then change it."
            )

    def change(self, draft: Draft, tab: Tab | None = None, gesture: str = "") -> None:
        """Another draft. Changes of the same gesture are one step."""
        if draft == self.draft:
            return
        self.require_fresh(tab)
        if not gesture or gesture != self._gesture:
            kept = 1 + len(draft.limits.values) + len(draft.limits.groups) + len(draft.limits.grouping.ungrouped)
            most = max(2, min(_MOST_STEPS, _MOST_LIMITS // kept))
            self._past = [*self._past, self.draft][-most:]
        self._undone.clear()
        self._move(draft, tab, gesture)

    def step(self, tab: Tab | None, *, back: bool) -> None:
        """Undo the last change, or redo what was undone last. Without any, nothing happens."""
        self.require_fresh(tab)
        source, target = (self._past, self._undone) if back else (self._undone, self._past)
        if source:
            target.append(self.draft)
            self._move(source.pop(), tab)

    def restart(self, draft: Draft, tab: Tab | None = None, *, forget: bool) -> None:
        """The draft for another table, or for other columns. It is no step, and with `forget` there is no way back."""
        if forget:
            self._past, self._undone = [], []
        if forget or draft != self.draft:
            self._move(draft, tab)

    def _move(self, draft: Draft, tab: Tab | None, gesture: str = "") -> None:
        author = tab.id if tab is not None else ""
        self.draft, self._gesture = draft, gesture
        self.number += 1
        if author != self._author or not author:
            self._author, self._since = author, self.number

    def saved(self, draft: Draft) -> None:
        """Somebody has the job file of this draft."""
        self._saved = draft

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it: the number, what can be undone and redone, and whether the job file was saved."""
        return {
            "number": self.number,
            "undo": _changed_part(self.draft, self._past),
            "redo": _changed_part(self.draft, self._undone),
            "saved": self.draft == self._saved,
        }


def _changed_part(draft: Draft, others: list[Draft]) -> str | None:
    """The part of the draft in which it differs from the last of the others."""
    if not others:
        return None
    return next((part for part in _PARTS if getattr(draft, part) != getattr(others[-1], part)), _PARTS[0])
