"""What a page sends, checked before anything else happens.

The numbers of limits stay the text that was typed, except percentages and decimal commas: "5 %" and "0,05" become
"0.05", exactly. So the job file and the command line never see them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from dalenius.analysis.draw_files import Format
from dalenius.model.estimate import Unit
from dalenius.model.plan import PlanOptions
from dalenius.policy.exact import format_fraction
from dalenius.policy.grouping import Grouping
from dalenius.policy.limits import NO_RULE, LimitPolicy
from dalenius.studio.messages import RequestError

LARGEST_BODY = 8 * 10**6  # bytes: 100,000 limits by name fit

_TYPED = re.compile(r"(\d+(?:[.,]\d*)?|[.,]\d+)\s*(%?)")
_TYPED_RATIO = re.compile(r"(\d+)\s*/\s*(\d+)")


def plain_number(text: str) -> str:
    """A number as the command line writes it: "5 %" and "0,05" are "0.05". Anything else stays as it is."""
    typed = _TYPED.fullmatch(text.strip())
    if typed is None:
        ratio = _TYPED_RATIO.fullmatch(text.strip())
        return text if ratio is None else f"{ratio[1]}/{ratio[2]}"
    number = typed[1].replace(",", ".")
    if not typed[2]:
        return number
    whole, _, rest = number.partition(".")
    shifted = Fraction(int(f"{whole or 0}{rest}"), 10 ** (len(rest) + 2))
    exact = format_fraction(shifted)
    return exact if Fraction(exact) == shifted else f"{shifted.numerator}/{shifted.denominator}"


Name = Annotated[str, Field(max_length=10_000)]
Number = Annotated[str, Field(max_length=100), AfterValidator(plain_number)]
Rule = Literal["odds", "theta", "uniform", "l_diversity", "beta", "none"]
RuleNumber: TypeAlias = Literal["odds", "floor", "theta", "base", "uniform", "l_diversity", "beta"]
RULE_NUMBERS: tuple[RuleNumber, ...] = get_args(RuleNumber)
LevelRule: TypeAlias = dict[RuleNumber, Number]
_SECOND = {"odds": "floor", "theta": "base"}  # the other number of a rule that has two
_FEW = Field(default=0, ge=0, le=10**6)


class Form(BaseModel):
    """What a page sends: nothing else may be in it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GroupingForm(Form):
    """Where groups of values come from: lengths of `prefix` as they were typed, and a `file` by its ID.

    Bands of numbers come from `cuts`, `quantiles` or a `width`, with a `start` or without, as they were typed.
    """

    source: Literal["none", "icd9", "icd10", "prefix", "file", "cuts", "quantiles", "width"] = "none"
    prefix: Annotated[str, Field(max_length=100)] = "1"
    file: Name | None = None
    cuts: Annotated[str, Field(max_length=20_000)] = ""
    quantiles: Annotated[str, Field(max_length=100)] = "8"
    width: Annotated[str, Field(max_length=100)] = ""
    start: Annotated[str, Field(max_length=100)] = ""
    ungrouped: list[Name] = Field(default_factory=list)

    @property
    def has_bands(self) -> bool:
        """Whether the groups are bands of numbers."""
        return self.source in ("cuts", "quantiles", "width")


class LimitsForm(Form):
    """Every rule with the numbers last typed for it; `rule` is the one in force.

    `groups` are limits by name, and `levels` rules for groups of a level, of which an empty one gives no limits.
    `allow_absent` and `publish_in_the_clear` are as in a job file, where they may be left out.
    """

    rule: Rule = "odds"
    odds: Number = "4"
    floor: Number = "0.02"
    theta: Number = "8"
    base: Number = "0.02"
    uniform: Number = "0.2"
    l_diversity: Number = "5"
    beta: Number = "3"
    values: dict[Name, Number] = Field(default_factory=dict)
    grouping: GroupingForm = GroupingForm()
    groups: dict[Name, Number] = Field(default_factory=dict)
    levels: dict[Name, LevelRule] = Field(default_factory=dict)
    allow_absent: bool | None = None
    publish_in_the_clear: bool | None = None

    def without(self, values: Sequence[str]) -> LimitsForm:
        """The same without limits of these values: those that do not apply have none."""
        own = {value: limit for value, limit in self.values.items() if value not in values}
        return self if own == self.values else self.model_copy(update={"values": own})

    def in_force(self) -> dict[str, Any]:
        """The rule in force and the limits by value, group and level, by the names of [limits] in a job file."""
        names = [name for name in (self.rule, _SECOND.get(self.rule)) if name is not None and name != "none"]
        rule = {name: getattr(self, name) for name in names}
        of_groups: dict[str, Any] = {}
        if self.grouping.source != "none":
            levels = {level: dict(own) or NO_RULE for level, own in self.levels.items()}
            of_groups = {"groups": dict(self.groups), "levels": levels}
        return {**rule, **of_groups, "values": dict(self.values), "allow_absent": self.allow_absent}

    def policy(self, grouping: Grouping | None) -> LimitPolicy:
        """The limits with the groups in force, checked; PolicyError for a text that is not a number."""
        return LimitPolicy.of(**self.in_force(), grouping=grouping)


class SolveForm(Form):
    """The sizes that buckets may have, and how near to the optimum a setting has to be proven."""

    min_size: int | None = Field(default=None, ge=1, le=10**9)
    max_size: int | None = Field(default=None, ge=1, le=10**9)
    gap: float | None = Field(default=None, ge=0, lt=1)


class ProtectionForm(Form):
    """What an attacker may know, the fake values against it, and how the table is cut."""

    known_records: int = _FEW
    fake_values: int = _FEW
    avoid_ruled_out: bool = False
    strata: Literal["auto", "none"] | Annotated[int, Field(ge=1, le=10**6)] | list[Name] = "auto"


class ExploreForm(Form):
    """Limits to explore. They become those of the draft, unless `draft` is false.

    Where there are several sensitive sets they are those of one, `of_set`, or general ones. The rule is the general one
    unless it is the set's `own_rule`.
    """

    limits: LimitsForm
    of_set: Name | None = None
    own_rule: bool = False
    solve: SolveForm = SolveForm()
    protection: ProtectionForm = ProtectionForm()
    exact: bool = False
    sequence: int = 0
    draft: bool = True
    gesture: Annotated[str, Field(max_length=40)] = ""  # changes of one gesture are undone together


class StartForm(Form):
    """A rule with one number, for which a number that can be kept is wanted."""

    rule: Literal["uniform", "l_diversity"]
    limits: LimitsForm
    solve: SolveForm = SolveForm()
    protection: ProtectionForm = ProtectionForm()


class NothingForm(Form):
    """An empty object."""


class ChooseForm(Form):
    """A table by its ID."""

    id: Name


class PinForm(Form):
    """A name for the pinned limits."""

    label: Annotated[str, Field(max_length=200)] = ""


class PublishForm(Form):
    """The name of the release, the format of its tables, and whether values in the clear are meant."""

    name: Annotated[str, Field(max_length=200)]
    format: Literal["parquet", "csv"] = "parquet"
    in_the_clear: bool = False


RELEASE = PublishForm(name="release")  # where nobody has given it another name


class HeadForm(Form):
    """What the report's first page is headed with."""

    title: Name | None = None
    dataset: Name | None = None
    controller: Name | None = None
    purpose: Name | None = None


class VerifyForm(Form):
    """Whether to compare the release with its table as well."""

    against: bool = False


class AuditForm(Form):
    """Whether to measure how often attackers are right."""

    truth: bool = False


class CountForm(Form):
    """A count query, of people or of rows where these differ."""

    expression: Annotated[str, Field(max_length=200_000)]
    group_by: list[Name] = Field(default_factory=list)
    learn: bool = True
    truth: bool = False
    unit: Unit = "people"


class CrossTabForm(Form):
    """A cross-tab by columns, and ranges of numbers as they were typed."""

    rows: Annotated[list[Name], Field(min_length=1, max_length=3)]
    columns: Annotated[list[Name], Field(min_length=1, max_length=3)]
    ranges: dict[Name, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict)
    draws: Annotated[int, Field(ge=2, le=1000)] = 20


class CompletedForm(Form):
    """Completed tables with some of the sensitive columns."""

    columns: Annotated[list[Name], Field(max_length=1000)]
    draws: Annotated[int, Field(ge=2, le=1000)] = 20
    format: Format = "parquet"


AnyForm = TypeVar("AnyForm", bound=Form)


def plan_options(solve: SolveForm, protection: ProtectionForm) -> PlanOptions:
    """The options that `dalenius plan` would have for these sizes and this protection."""
    known, fakes = protection.known_records, protection.fake_values
    return PlanOptions.of(solve.min_size, solve.max_size, solve.gap, 60.0, known, fakes)


async def read_form(request: Request, form: type[AnyForm]) -> AnyForm:
    """The body of a request as a form. No body at all means an empty form."""
    require_type(request, "application/json")
    try:
        document = json.loads(await read_body(request) or b"{}", parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode()  # refuses unpaired surrogates
        return form.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        raise RequestError(400, "request", f"{where or 'the request'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise RequestError(400, "request", "the request is not valid JSON") from None


def require_type(request: Request, content_type: str) -> None:
    """Require the Content-Type: a form on another site cannot send these without permission."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != content_type:
        raise RequestError(415, "unsupported", f"the Content-Type of this request must be {content_type}")


async def read_body(request: Request) -> bytes:
    """The body of a request; an error if it is too large."""
    too_large = RequestError(413, "too-large", f"the request has more than {LARGEST_BODY:,} bytes")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > LARGEST_BODY:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise too_large
    return bytes(body)


def _refuse_constant(_constant: str) -> Any:
    raise ValueError("NaN and infinities are not JSON")
