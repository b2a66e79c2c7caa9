"""The publisher's draft: which column is what, the limits, the protection. One a server; every tab sees the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from dalenius.errors import JobFileError, NoSuchColumnError, UsageError
from dalenius.model.plan import PlanOptions
from dalenius.policy.job import AdversarySection, Job, LimitsSection, SolveSection, TableSection
from dalenius.policy.roles import Roles
from dalenius.publishing.options import PublishOptions, StrataChoice
from dalenius.studio.forms import LimitsForm, ProtectionForm, RolesForm, SolveForm, plan_options
from dalenius.studio.messages import RequestError


@dataclass(frozen=True)
class Draft:
    """Everything that a release is made by, except for the table."""

    roles: RolesForm = field(default_factory=RolesForm)
    limits: LimitsForm = field(default_factory=LimitsForm)
    solve: SolveForm = field(default_factory=SolveForm)
    protection: ProtectionForm = field(default_factory=ProtectionForm)

    @classmethod
    def of_job(cls, job: Job) -> Draft:
        """What a job file says; its method, gap and time limit are not for Studio."""
        table, solve, adversary = job.table, job.solve, job.adversary
        choice = StrataChoice.of(table.strata if table.strata is not None else "auto", table.quasi_identifiers)
        strata = (
            choice.number
            if choice.kind == "number"
            else list(choice.columns)
            if choice.kind == "columns"
            else choice.kind
        )
        try:
            return cls(
                RolesForm(
                    sensitive=table.sensitive,
                    quasi_identifiers=list(table.quasi_identifiers),
                    identifiers=list(table.identifiers),
                    null_value=table.null_value,
                ),
                _limits_of(job.limits),
                SolveForm(min_size=solve.min_size, max_size=solve.max_size),
                ProtectionForm(
                    known_records=adversary.corrupted or 0,
                    fake_values=adversary.fakes or 0,
                    avoid_ruled_out=bool(adversary.avoid_ruled_out),
                    strata=strata,
                ),
            )
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"][:2])
            raise JobFileError(f"the job file has more in it than Studio takes: {where}") from None

    @property
    def options(self) -> PlanOptions:
        """How to look for a setting."""
        return plan_options(self.solve, self.protection)

    @property
    def question(self) -> tuple[LimitsForm, PlanOptions]:
        """What an exploration depends on, besides the counts."""
        return self.limits, self.options

    def with_roles(self, roles: RolesForm) -> Draft:
        """Other roles; what was said of another column's values, or of strata by columns that are none, goes."""
        named = [*roles.quasi_identifiers, *roles.identifiers, *([roles.sensitive] if roles.sensitive else [])]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
        limits, protection = self.limits, self.protection
        if roles.sensitive != self.roles.sensitive:
            limits = limits.model_copy(update={"values": {}})
        if isinstance(protection.strata, list):
            kept = [name for name in protection.strata if name in roles.quasi_identifiers]
            protection = protection.model_copy(update={"strata": kept or "auto"})
        return Draft(roles, limits, self.solve, protection)

    def fitting(self, columns: Sequence[str]) -> Draft:
        """What fits a table with these columns."""
        roles = self.roles
        sensitive = roles.sensitive if roles.sensitive in columns else None
        kept = RolesForm(
            sensitive=sensitive,
            quasi_identifiers=[name for name in roles.quasi_identifiers if name in columns],
            identifiers=[name for name in roles.identifiers if name in columns],
            null_value=roles.null_value if sensitive is not None else None,
        )
        return self if kept == roles else self.with_roles(kept)

    def exploring(self, limits: LimitsForm, solve: SolveForm, protection: ProtectionForm) -> Draft:
        """Other limits and another protection."""
        return replace(self, limits=limits, solve=solve, protection=protection)

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

    def publish_options(self, table: str | None, kind: Any = "parquet") -> PublishOptions:
        """How a release is made and written."""
        given = self.protection
        return PublishOptions(
            null_value=self.roles.null_value,
            table=table,
            format=kind,
            avoid_ruled_out=self._avoids,
            strata=given.strata,
        )

    @property
    def _avoids(self) -> bool:
        """Without fakes there is none to avoid, whatever the box says."""
        return self.protection.avoid_ruled_out and self.protection.fake_values > 0

    def job(self) -> Job:
        """The job file with which the command line makes the same release."""
        roles, solve, given = self.roles, self.solve, self.protection
        return Job(
            table=TableSection(
                sensitive=roles.sensitive,
                quasi_identifiers=list(roles.quasi_identifiers),
                identifiers=list(roles.identifiers),
                null_value=roles.null_value,
                strata=given.strata,
            ),
            limits=LimitsSection(**self.limits.given()),
            solve=SolveSection(min_size=solve.min_size, max_size=solve.max_size),
            adversary=AdversarySection(
                corrupted=given.known_records, fakes=given.fake_values, avoid_ruled_out=self._avoids or None
            ),
        )

    def state(self) -> dict[str, Any]:
        """The draft's part of GET /api/state."""
        roles = self.roles.model_dump()
        null_value = roles.pop("null_value")
        return {
            "roles": roles,
            "null_value": null_value,
            "limits": self.limits.model_dump(),
            "solve": self.solve.model_dump(),
            "protection": self.protection.model_dump(),
        }


def require_columns(roles: RolesForm, columns: Sequence[str]) -> None:
    """Refuse a column that the table does not have."""
    for name in (roles.sensitive, *roles.quasi_identifiers, *roles.identifiers):
        if name is not None and name not in columns:
            raise NoSuchColumnError.in_table(name, columns)


def _limits_of(section: LimitsSection) -> LimitsForm:
    given: dict[str, Any] = {}
    for rule in ("theta", "base", "uniform", "l_diversity", "beta"):
        number = getattr(section, rule)
        if number is not None:
            given[rule] = str(number)
            if rule != "base":
                given["rule"] = rule
    if "theta" in given:
        given.setdefault("base", "0")
    elif section.values and "rule" not in given:
        given["rule"] = "none"
    values = {value: str(limit) for value, limit in section.values.items()}
    section.policy()  # refuses two rules, and numbers that are none
    return LimitsForm(**given, values=values)
