"""Job files: the roles of the columns, the limits, the solver's settings and the attacker in one TOML file.

[table]
sensitive = "Disease"             # or several: ["diag_1", "insulin"], or sets of columns of one kind:
                                  # [{columns = ["diag_1", "diag_2"], name = "diagnosis", limits = {odds = 4}}]
person = "patient"                # whose rows they are, where people have several; never published
most_rows = 4                     # of people with more rows, so many are kept, at random
keep_together = [["diag_1", "insulin"]]  # sensitive columns whose values are published as tuples, too
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
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from dalenius.errors import JobFileError, MissingExtraError, PolicyError, UsageError, did_you_mean
from dalenius.model.plan import Method
from dalenius.policy.job_sections import SETS, TEXT, RuleSection, Section, SetLimits, SetSection, as_groups, set_entries
from dalenius.policy.job_sections import GroupsSection as GroupsSection
from dalenius.policy.job_sections import LimitsSection as LimitsSection
from dalenius.policy.job_sections import TableSection as TableSection
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.sensitive_sets import limits_of_sets
from dalenius.tables.delimited import require_regular


class SolveSection(Section):
    """How to look for a setting."""

    method: Annotated[Method, Field(strict=False)] | None = None
    min_size: int | None = Field(default=None, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    gap: Annotated[Decimal, Field(strict=False, ge=0, lt=1)] | None = None
    time_limit: Annotated[Decimal, Field(strict=False, gt=0)] | None = None


class AdversarySection(Section):
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


class ReportSection(Section):
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


class Job(Section):
    """A whole job file."""

    table: TableSection = TableSection()
    limits: LimitsSection = LimitsSection()
    solve: SolveSection = SolveSection()
    adversary: AdversarySection = AdversarySection()
    report: ReportSection = ReportSection()
    groups: Annotated[GroupsSection, BeforeValidator(as_groups)] = GroupsSection()

    @model_validator(mode="after")
    def _no_limit_for_what_does_not_apply(self) -> Self:
        both = next((value for value in self.table.not_applicable if value in self.limits.values), None)
        if both is not None:
            raise ValueError(f"{both!r} is under table.not_applicable, and has a limit in limits.values")
        return self

    def policy(self) -> LimitPolicy:
        """The limits of values and groups, checked; with several sensitive sets, those of the first."""
        return self.policies()[0]

    def policies(self) -> tuple[LimitPolicy, ...]:
        """The limits of each sensitive set; of one that is not named, without any."""
        general, sensitive = self.limits.policy(self.groups.grouping()), self.table.sensitive
        if not isinstance(sensitive, list):
            return (general,)
        own = [one.own_policy() for one in sensitive]
        return cast("tuple[LimitPolicy, ...]", limits_of_sets(general, own, [one.called for one in sensitive]))

    def said(self) -> dict[str, Any]:
        """What it says, by keys such as "table.sensitive"; nothing that is left out, or empty."""
        sections = self.sections()
        return {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}

    def sections(self) -> dict[str, dict[str, Any]]:
        """The entries of each section that are set, as a job file says them."""
        sections = {name: set_entries(section) for name, section in self.model_dump(by_alias=True).items()}
        if isinstance(self.table.sensitive, list):
            sections["table"]["sensitive"] = [one.entries() for one in self.table.sensitive]
        return sections

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
    where = "groups"
    try:
        job = Job.model_validate(document)
        job = _with_files(job, folder) if folder is not None else job
        job.groups.grouping()
        if isinstance(job.table.sensitive, list):
            where = "limits"
            job.policies()
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = next((one for one in found if one["type"] == _UNKNOWN), found[0])  # a typing error explains the others
        raise _job_error(first["type"], tuple(str(part) for part in first["loc"]), first["msg"]) from None
    except PolicyError as error:
        raise JobFileError(f"the job file's {where}: {error.message}", error.hint) from None
    return job


def _with_files(job: Job, folder: Path) -> Job:
    """The job with the files of its groups as they are found from a folder."""

    def found(groups: GroupsSection) -> GroupsSection:
        return (
            groups if groups.csv is None else groups.model_copy(update={"csv": str((folder / groups.csv).absolute())})
        )

    table = job.table
    if isinstance(table.sensitive, list):
        sets = [one.model_copy(update={"groups": found(one.groups)}) for one in table.sensitive]
        table = table.model_copy(update={"sensitive": sets})
    return job.model_copy(update={"groups": found(job.groups), "table": table})


_UNKNOWN = "extra_forbidden"
_SECTIONS: dict[str, type[BaseModel]] = {
    "table": TableSection,
    "limits": LimitsSection,
    "solve": SolveSection,
    "adversary": AdversarySection,
    "report": ReportSection,
    "groups": GroupsSection,
}


def _job_error(kind: str, location: tuple[str, ...], message: str) -> JobFileError:
    unions = ("str", "int", "decimal", "is-instance[Decimal]", TEXT, SETS)
    location = tuple(part for part in location if part not in unions)
    where = ".".join(location)
    if location[:2] == ("table", "sensitive") and len(location) > 2:
        where = ".".join([f"table.sensitive (set {int(location[2]) + 1})", *location[3:]])
    if kind == _UNKNOWN:
        return JobFileError(f"the job file has an unknown key: {where}", did_you_mean(location[-1], _keys_at(location)))
    return JobFileError(f"the job file's {where}: {message}" if where else f"the job file: {message}")


def _keys_at(location: tuple[str, ...]) -> list[str]:
    """The keys that there could have been in place of the last of these."""
    section: type[BaseModel] | None = Job if len(location) == 1 else _SECTIONS.get(location[0])
    inner = location[1:]
    if location[:2] == ("table", "sensitive") and len(location) > 3:
        inner = location[3:]
        parts: dict[str, type[BaseModel]] = {"limits": SetLimits, "groups": GroupsSection}
        section = parts.get(inner[0], SetSection) if len(inner) > 1 else SetSection
    if len(inner) > 2 and "levels" in inner[:2]:
        section = RuleSection
    return [field.alias or name for name, field in section.model_fields.items()] if section is not None else []


def job_text(job: Job) -> str:
    """The TOML text of a job, without what is not set. Reading it gives the same job."""
    try:
        import tomli_w
    except ImportError:
        raise MissingExtraError.of("tomli-w", "web") from None
    return tomli_w.dumps(
        {name: section for name, section in job.sections().items() if section}, multiline_strings=False
    )
