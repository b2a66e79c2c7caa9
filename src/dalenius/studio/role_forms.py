"""The roles of columns as a page sends them: one sensitive column, or several sets of them, and whose rows they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from dalenius.errors import NoSuchColumnError
from dalenius.model.problem import MOST_CODES
from dalenius.policy.job import TableSection
from dalenius.release.manifest import MOST_SETS
from dalenius.studio.forms import Form, Name


class SetForm(Form):
    """A sensitive column, or several of one kind under one name. A job file may give it codes of its own."""

    columns: Annotated[list[Name], Field(min_length=1)]
    name: Name | None = None
    null_value: Name | None = None
    missing: Annotated[list[Name] | None, Field(max_length=MOST_CODES)] = None

    @property
    def called(self) -> str:
        """Its name: that of its column, if it has one."""
        return self.name if self.name is not None else self.columns[0] if len(self.columns) == 1 else ""


class RolesForm(Form):
    """The roles of columns. `sensitive` is the first of the `sets`, which are empty if it is a column by itself."""

    sensitive: Name | None = None
    sets: Annotated[list[SetForm], Field(max_length=1 + MOST_SETS)] = Field(default_factory=list)
    person: Name | None = None
    most_rows: Annotated[int, Field(ge=1, le=10**9)] | None = None
    quasi_identifiers: list[Name] = Field(default_factory=list)
    identifiers: list[Name] = Field(default_factory=list)
    null_value: Name | None = None
    missing: Annotated[list[Name], Field(max_length=MOST_CODES)] = Field(default_factory=list)
    not_applicable: list[Name] = Field(default_factory=list)

    @classmethod
    def of_job(cls, table: TableSection) -> RolesForm:
        """What a job file says of the table."""
        said = table.model_dump(include=set(cls.model_fields) - {"sensitive"})
        if not isinstance(table.sensitive, list):
            return cls.model_validate({**said, "sensitive": table.sensitive})
        sets = [one.model_dump(include=set(SetForm.model_fields)) for one in table.sensitive]
        return cls.model_validate({**said, "sensitive": table.sensitive[0].called, "sets": sets}).plainly()

    @property
    def all_sets(self) -> list[SetForm]:
        """The sensitive sets, of which there may be none yet."""
        return self.sets or ([SetForm(columns=[self.sensitive])] if self.sensitive is not None else [])

    @property
    def sensitive_columns(self) -> list[str]:
        """The columns that any of the sets is made of."""
        return [column for one in self.all_sets for column in one.columns]

    @property
    def by_people(self) -> bool:
        """Whether people may have several rows or sensitive values: then people count, and not rows."""
        return self.person is not None or len(self.sensitive_columns) > 1

    def plainly(self) -> RolesForm:
        """The same with as few sets as will do: codes of the only set are those of the table."""
        if not self.sets:
            return self
        first, update = self.sets[0], dict[str, Any]({"sensitive": self.sets[0].called})
        if len(self.sets) == 1:
            update["sets"] = [SetForm(columns=first.columns, name=first.name)] if len(first.columns) > 1 else []
            update |= {} if first.null_value is None else {"null_value": first.null_value}
            update |= {} if first.missing is None else {"missing": first.missing}
        return self.model_copy(update=update)

    @property
    def of_sensitive(self) -> tuple[Any, ...]:
        """What they say of the sensitive columns, and whose they are."""
        return self.sensitive, self.sets, self.person, self.null_value, self.missing, self.not_applicable

    def require_columns(self, columns: Sequence[str]) -> None:
        """Refuse a column that the table does not have."""
        for name in (*self.sensitive_columns, *self.quasi_identifiers, *self.identifiers, self.person):
            if name is not None and name not in columns:
                raise NoSuchColumnError.in_table(name, columns)

    @model_validator(mode="after")
    def _one_meaning_each(self) -> Self:
        both = next((value for value in self.missing if value in self.not_applicable), None)
        if both is not None:
            raise ValueError(f"{both!r} cannot both be missing and not apply")
        return self
