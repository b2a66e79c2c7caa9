"""Job files: the roles of the columns, the limits, the solver's settings and the attacker in one TOML file.

[table]
sensitive = "Disease"
quasi_identifiers = ["Gender", "Zipcode"]
identifiers = ["Name"]            # never published
strata = "auto"                   # or "none", a number, or a list of quasi-identifiers
strict = false                    # whether concerns about the table are errors
missing = ["?"]                   # values that stand for a missing one
not_applicable = ["N"]            # values that say that the question does not apply

[limits]                          # one rule for every value ...
odds = 8
floor = "0.02"                    # the least limit, for rare values

[limits.values]                   # ... and exceptions by value
HIV = "0.02"

[limits.groups]                   # by group
"C00-D49" = "0.1"

[limits.levels]                   # and by level: "none", or another rule
block = "none"

[groups]                          # or groups = "icd10" at the top; see group_sources.py
named = "icd10"
ungrouped = ["?"]                 # values that are in no group

[solve]
method = "optimal"
max_size = 50

[adversary]
corrupted = 1                     # records of a bucket that somebody may know
fakes = 2                         # fake sensitive values added to every bucket
avoid_ruled_out = false           # exchange fake values that the release itself would rule out

[report]                          # the head of the report's first page
title = "Discharges 2026"
dataset = "hospital discharges, version 3"
controller = "City Hospital"
purpose = "Open data for research on epidemics"

`read_job` and `parse_job` check such a file, and `job_text` writes one.
"""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dalenius.errors import JobFileError, MissingExtraError, PolicyError, UsageError, did_you_mean
from dalenius.model.plan import Method
from dalenius.policy.exact import written_number, written_numbers
from dalenius.policy.group_sources import grouping_of, parse_groups
from dalenius.policy.grouping import Grouping
from dalenius.policy.limits import LimitPolicy
from dalenius.tables.delimited import require_regular


def _strata(value: object) -> object:
    """Refuse what strata cannot be. Which columns the table has is not known yet."""
    listed = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    if isinstance(value, bool) or not (listed or isinstance(value, str | int)):
        raise ValueError("expected 'auto', 'none', a number or a list of columns")
    return value


def _prefix(value: object) -> object:
    """Refuse what lengths of prefixes cannot be. Whether they make sense is checked with the groups."""
    lengths = value if isinstance(value, list) else [value]
    if value is not None and any(isinstance(length, bool) or not isinstance(length, str | int) for length in lengths):
        raise ValueError("expected a length, or a list of lengths: 3 or [1, 3]")
    return value


def _level_rule(value: object) -> object:
    """ "none" is a rule without entries, and nothing else is."""
    if value == "none":
        return {}
    if not value or isinstance(value, str):
        raise ValueError("expected 'none', or a rule such as {odds = 8}")
    return value


def _groups(value: object) -> object:
    """One text stands for a section: "icd10" for named = "icd10"."""
    if isinstance(value, str):
        return parse_groups(value)
    if isinstance(value, dict | GroupsSection):
        return value
    raise ValueError("expected a text such as 'icd10', or a section")


ExactNumber = Annotated[str | int | Decimal, BeforeValidator(written_number)]
OneOrMore = Annotated[str | int | Decimal | list[Any], BeforeValidator(written_numbers)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class TableSection(_Section):
    """The roles of the columns."""

    sensitive: str | None = None
    quasi_identifiers: list[str] = Field(default_factory=list)
    identifiers: list[str] = Field(default_factory=list)
    null_value: str | None = None
    strata: Annotated[str | int | list[str] | None, BeforeValidator(_strata)] = None
    strict: bool | None = None
    missing: list[str] = Field(default_factory=list)
    not_applicable: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_meaning_each(self) -> Self:
        both = next((value for value in self.missing if value in self.not_applicable), None)
        if both is not None:
            raise ValueError(f"{both!r} is under missing and under not_applicable")
        return self

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        roles = [*self.quasi_identifiers, *self.identifiers, *([self.sensitive] if self.sensitive is not None else [])]
        twice = next((column for column in roles if roles.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"the column {twice!r} has more than one role")
        return self


class RuleSection(_Section):
    """A rule for limits."""

    odds: ExactNumber | None = None
    floor: ExactNumber | None = None
    theta: ExactNumber | None = None
    base: ExactNumber | None = None
    uniform: ExactNumber | None = None
    l_diversity: ExactNumber | None = None
    beta: ExactNumber | None = None


class LimitsSection(RuleSection):
    """The rule and its exceptions, and what is meant though it looks like a mistake."""

    allow_absent: bool | None = None
    publish_in_the_clear: bool | None = None
    values: dict[str, ExactNumber] = Field(default_factory=dict)
    groups: dict[str, ExactNumber] = Field(default_factory=dict)
    levels: dict[str, Annotated[RuleSection, BeforeValidator(_level_rule)]] = Field(default_factory=dict)

    def policy(self, grouping: Grouping | None = None) -> LimitPolicy:
        """The limits, checked."""
        fields = self.entries()
        fields.pop("publish_in_the_clear", None)
        return LimitPolicy.of(**fields, grouping=grouping)

    def entries(self) -> dict[str, Any]:
        """What is set, as a job file says it."""
        return _set_entries(self.model_dump())


class GroupsSection(_Section):
    """Where groups of values come from: one of the keys, but for `from` and `ungrouped`."""

    model_config = ConfigDict(**_Section.model_config, populate_by_name=True)

    named: str | None = None
    csv: str | None = None
    prefix: Annotated[str | int | list[str | int] | None, BeforeValidator(_prefix)] = None
    prefixes: dict[str, str] = Field(default_factory=dict)
    tree: dict[str, Any] = Field(default_factory=dict)
    cuts: Annotated[list[Any], BeforeValidator(written_numbers)] = Field(default_factory=list)
    quantiles: OneOrMore | None = None
    width: OneOrMore | None = None
    start: ExactNumber | None = Field(default=None, alias="from")
    ungrouped: list[str] = Field(default_factory=list)

    def grouping(self) -> Grouping | None:
        """The groups, checked, with their file read; None if there are none."""
        return grouping_of(self.model_dump(by_alias=True)) if self != GroupsSection() else None


class SolveSection(_Section):
    """How to look for a setting."""

    method: Annotated[Method, Field(strict=False)] | None = None
    min_size: int | None = Field(default=None, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    gap: Annotated[Decimal, Field(strict=False, ge=0, lt=1)] | None = None
    time_limit: Annotated[Decimal, Field(strict=False, gt=0)] | None = None


class AdversarySection(_Section):
    """What the attacker may know, and the fake values added against them."""

    corrupted: int | None = Field(default=None, ge=0)
    fakes: int | None = Field(default=None, ge=0)
    avoid_ruled_out: bool | None = None


def _one_line(value: object) -> object:
    """A text on one line; nothing if it is blank."""
    return (" ".join(value.split()) or None) if isinstance(value, str) else value


# The first page has room for no more.
Line = Annotated[Annotated[str, Field(max_length=100)] | None, BeforeValidator(_one_line)]
Lines = Annotated[Annotated[str, Field(max_length=200)] | None, BeforeValidator(_one_line)]


class ReportSection(_Section):
    """What the report's first page is headed with: whose data this is, and what it is published for."""

    title: Line = None
    dataset: Line = None
    controller: Line = None
    purpose: Lines = None

    def but(self, **given: str | None) -> ReportSection:
        """The same with other texts, checked; None leaves a text as it is."""
        changed = {name: text for name, text in given.items() if text is not None}
        try:
            return ReportSection.model_validate({**self.model_dump(), **changed})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise UsageError(
                f"the report's {first['loc'][0]}: {first['msg']}", "The first page has room for no more."
            ) from None


class Job(_Section):
    """A whole job file."""

    table: TableSection = TableSection()
    limits: LimitsSection = LimitsSection()
    solve: SolveSection = SolveSection()
    adversary: AdversarySection = AdversarySection()
    report: ReportSection = ReportSection()
    groups: Annotated[GroupsSection, BeforeValidator(_groups)] = GroupsSection()

    @model_validator(mode="after")
    def _no_limit_for_what_does_not_apply(self) -> Self:
        both = next((value for value in self.table.not_applicable if value in self.limits.values), None)
        if both is not None:
            raise ValueError(f"{both!r} is under table.not_applicable, and has a limit in limits.values")
        return self

    def policy(self) -> LimitPolicy:
        """The limits of values and groups, checked."""
        return self.limits.policy(self.groups.grouping())

    def said(self) -> dict[str, Any]:
        """What it says, by keys such as "table.sensitive"; nothing that is left out, or empty."""
        sections = {name: _set_entries(section) for name, section in self.model_dump(by_alias=True).items()}
        return {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}

    @property
    def says_more_than_a_head(self) -> bool:
        """Whether it is about a release, and not only about the head of its report."""
        return any(not key.startswith("report.") for key in self.said())


def read_job(path: Path) -> Job:
    """Read and check a job file."""
    try:
        require_regular(path)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise JobFileError(f"the job file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JobFileError("the job file is not UTF-8 text", "Save it as UTF-8.") from None
    return parse_job(text, path.parent)


def parse_job(text: str, folder: Path | None = None) -> Job:
    """Check the text of a job file. Its file of groups is looked for from `folder`, or from the working directory."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise JobFileError(f"the job file is not valid TOML: {error}") from None
    except (ValueError, RecursionError, ArithmeticError):  # the last of an exponent that Decimal does not have
        raise JobFileError("the job file is not valid TOML: a number is too long, or the nesting too deep") from None
    try:
        job = Job.model_validate(document)
        if folder is not None and job.groups.csv is not None:
            csv = str((folder / job.groups.csv).absolute())
            job = job.model_copy(update={"groups": job.groups.model_copy(update={"csv": csv})})
        job.groups.grouping()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _job_error(first["type"], tuple(str(part) for part in first["loc"]), first["msg"]) from None
    except PolicyError as error:
        raise JobFileError(f"the job file's groups: {error.message}", error.hint) from None
    return job


_SECTIONS: dict[str, type[BaseModel]] = {
    "table": TableSection,
    "limits": LimitsSection,
    "solve": SolveSection,
    "adversary": AdversarySection,
    "report": ReportSection,
    "groups": GroupsSection,
}


def _job_error(kind: str, location: tuple[str, ...], message: str) -> JobFileError:
    location = tuple(part for part in location if part not in ("str", "int", "decimal", "is-instance[Decimal]"))
    where = ".".join(location)
    if kind == "extra_forbidden":
        section = _SECTIONS.get(location[0]) if len(location) > 1 else Job
        known = list(section.model_fields) if section is not None else []
        return JobFileError(f"the job file has an unknown key: {where}", did_you_mean(location[-1], known))
    return JobFileError(f"the job file's {where}: {message}" if where else f"the job file: {message}")


def job_text(job: Job) -> str:
    """The TOML text of a job, without what is not set. Reading it gives the same job."""
    try:
        import tomli_w
    except ImportError:
        raise MissingExtraError.of("tomli-w", "web") from None
    sections = {name: _set_entries(section) for name, section in job.model_dump(by_alias=True).items()}
    return tomli_w.dumps({name: section for name, section in sections.items() if section}, multiline_strings=False)


def _set_entries(section: dict[str, Any]) -> dict[str, Any]:
    """The entries that are set. TOML needs tables last, and they are: limits by value, group and level."""
    entries = {key: value for key, value in section.items() if value is not None and value not in ([], {})}
    if "levels" in entries:
        entries["levels"] = _rules_of_levels(entries["levels"])
    return {key: str(value) if key == "method" else value for key, value in entries.items()}


def _rules_of_levels(levels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {level: _set_entries(rule) or "none" for level, rule in levels.items()}
