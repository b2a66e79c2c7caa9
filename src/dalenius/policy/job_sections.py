"""The sections of a job file about the table, the limits and the groups; `job.py` has the others, and reads them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from dalenius.errors import UsageError
from dalenius.policy.exact import written_number, written_numbers
from dalenius.policy.group_sources import grouping_of, parse_groups
from dalenius.policy.grouping import Grouping
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import Roles, SensitiveSet, check_sets
from dalenius.policy.together import in_order


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


def as_groups(value: object) -> object:
    """One text stands for a section: "icd10" for named = "icd10"."""
    if isinstance(value, str):
        return parse_groups(value)
    if isinstance(value, dict | GroupsSection):
        return value
    raise ValueError("expected a text such as 'icd10', or a section")


ExactNumber = Annotated[str | int | Decimal, BeforeValidator(written_number)]
OneOrMore = Annotated[str | int | Decimal | list[Any], BeforeValidator(written_numbers)]


class Section(BaseModel):
    """A part of a job file, in which there are no other keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class RuleSection(Section):
    """A rule for limits."""

    odds: ExactNumber | None = None
    floor: ExactNumber | None = None
    theta: ExactNumber | None = None
    base: ExactNumber | None = None
    uniform: ExactNumber | None = None
    l_diversity: ExactNumber | None = None
    beta: ExactNumber | None = None


class SetLimits(RuleSection):
    """The rule and its exceptions, and what is meant though it looks like a mistake."""

    allow_absent: bool | None = None
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
        return set_entries(self.model_dump())


class LimitsSection(SetLimits):
    """The same, and whether values may be published outright."""

    publish_in_the_clear: bool | None = None


class GroupsSection(Section):
    """Where groups of values come from: one of the keys, but for `from` and `ungrouped`."""

    model_config = ConfigDict(**Section.model_config, populate_by_name=True)

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


class SetSection(Section):
    """A sensitive column, or several of one kind under one name, with limits, groups and codes of its own."""

    columns: list[str] = Field(min_length=1)
    name: str | None = None
    null_value: str | None = None
    missing: list[str] | None = None
    limits: SetLimits = SetLimits()
    groups: Annotated[GroupsSection, BeforeValidator(as_groups)] = GroupsSection()

    @property
    def called(self) -> str:
        """Its name: that of its column, if it has one."""
        return self.name if self.name is not None else self.columns[0] if len(self.columns) == 1 else ""

    def own_policy(self) -> LimitPolicy | None:
        """Its limits; None if it has none of its own."""
        grouping = self.groups.grouping()
        return self.limits.policy(grouping) if self.limits.entries() or grouping is not None else None

    def entries(self) -> dict[str, Any] | str:
        """What is set, as a job file says it; a column without anything else is a text."""
        sections = {"limits": self.limits.entries(), "groups": set_entries(self.groups.model_dump(by_alias=True))}
        said = {**self.model_dump(exclude={"limits", "groups", "missing"}), "missing": self.missing, **sections}
        entries = {key: value for key, value in said.items() if value is not None and value != {}}
        return self.columns[0] if list(entries) == ["columns"] and len(self.columns) == 1 else entries


def _set_of_text(value: object) -> object:
    return {"columns": [value]} if isinstance(value, str) else value


TEXT, SETS = "a text", "a list of sets"  # no key is called like this
Sensitive = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[Annotated[SetSection, BeforeValidator(_set_of_text)]], Tag(SETS)],
    Discriminator(lambda value: SETS if isinstance(value, list) else TEXT),
]


class TableSection(Section):
    """The roles of the columns."""

    sensitive: Sensitive | None = None
    quasi_identifiers: list[str] = Field(default_factory=list)
    identifiers: list[str] = Field(default_factory=list)
    person: str | None = None
    most_rows: int | None = Field(default=None, ge=1)
    keep_together: list[list[str]] = Field(default_factory=list)
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
        columns = [column for one in self.sets for column in one.columns]
        roles = [*self.quasi_identifiers, *self.identifiers, *columns]
        if self.person is not None and self.person not in self.identifiers:
            roles.append(self.person)
        twice = next((column for column in roles if roles.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"the column {twice!r} has more than one role")
        if isinstance(self.sensitive, list):
            self._check_sets(self.sets)
        self._check_together(self.sets)
        return self

    def _check_together(self, sets: tuple[SensitiveSet, ...]) -> None:
        if self.keep_together and self.sensitive is not None:  # which columns are sensitive may be said elsewhere
            try:
                in_order(self.keep_together, sets)
            except UsageError as error:
                raise ValueError(f"{error.message}. {error.hint}") from None

    def _check_sets(self, sets: tuple[SensitiveSet, ...]) -> None:
        if not sets:
            raise ValueError("sensitive is a list without columns")
        names = tuple(self.quasi_identifiers)
        try:
            check_sets(Roles(sets[0].name, names, tuple(self.identifiers), self.person, sets))
        except UsageError as error:
            raise ValueError(f"{error.message}. {error.hint}") from None

    @property
    def sets(self) -> tuple[SensitiveSet, ...]:
        """The sensitive sets; none if the job names no sensitive column."""
        if self.sensitive is None:
            return ()
        given = [SetSection(columns=[self.sensitive])] if isinstance(self.sensitive, str) else self.sensitive
        return tuple(
            SensitiveSet(
                one.called,
                tuple(one.columns),
                one.null_value if one.null_value is not None else self.null_value,
                tuple(one.missing if one.missing is not None else self.missing),
            )
            for one in given
        )


def set_entries(section: dict[str, Any]) -> dict[str, Any]:
    """The entries that are set, as a job file says them."""
    entries = {key: value for key, value in section.items() if value is not None and value not in ([], {})}
    if "levels" in entries:
        entries["levels"] = _rules_of_levels(entries["levels"])
    return {key: str(value) if key == "method" else value for key, value in entries.items()}


def _rules_of_levels(levels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {level: set_entries(rule) or "none" for level, rule in levels.items()}
