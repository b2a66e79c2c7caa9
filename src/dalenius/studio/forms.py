"""What the page sends, checked before anything is done with it. Numbers of limits stay the texts that were typed."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from dalenius.model.plan import PlanOptions
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.messages import RequestError

LARGEST_BODY = 8 * 10**6  # bytes: 100,000 limits by name fit

Name = Annotated[str, Field(max_length=10_000)]
Number = Annotated[str, Field(max_length=100)]
Rule = Literal["theta", "uniform", "l_diversity", "beta", "none"]
_FEW = Field(default=0, ge=0, le=10**6)


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RolesForm(_Form):
    """Which column is what."""

    sensitive: Name | None = None
    quasi_identifiers: list[Name] = Field(default_factory=list)
    identifiers: list[Name] = Field(default_factory=list)
    null_value: Name | None = None


class LimitsForm(_Form):
    """Every rule with the numbers last typed for it; `rule` says which one counts."""

    rule: Rule = "theta"
    theta: Number = "8"
    base: Number = "0.02"
    uniform: Number = "0.2"
    l_diversity: Number = "5"
    beta: Number = "3"
    values: dict[Name, Number] = Field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """What counts, by the names of a job file's [limits]."""
        rule: dict[str, Any] = {} if self.rule == "none" else {self.rule: getattr(self, self.rule)}
        base = {"base": self.base} if self.rule == "theta" else {}
        return {**rule, **base, "values": dict(self.values)}

    def policy(self) -> LimitPolicy:
        """The limits, checked; PolicyError for a number that is none."""
        return LimitPolicy.of(**self.given())


class SolveForm(_Form):
    """The sizes that buckets may have."""

    min_size: int | None = Field(default=None, ge=1, le=10**9)
    max_size: int | None = Field(default=None, ge=1, le=10**9)


class ProtectionForm(_Form):
    """What the adversary may know, what is added against it, and how the table is cut."""

    known_records: int = _FEW
    fake_values: int = _FEW
    avoid_ruled_out: bool = False
    strata: Literal["auto", "none"] | Annotated[int, Field(ge=1, le=10**6)] | list[Name] = "auto"


class ExploreForm(_Form):
    """Limits to look at. They become the draft's, unless they are only asked about."""

    limits: LimitsForm
    solve: SolveForm = SolveForm()
    protection: ProtectionForm = ProtectionForm()
    exact: bool = False
    sequence: int = 0
    draft: bool = True


class NothingForm(_Form):
    """An empty object."""


class ChooseForm(_Form):
    """A table by its ID."""

    id: Name


class PinForm(_Form):
    """What to call the limits that are kept for comparison."""

    label: Annotated[str, Field(max_length=200)] = ""


class PublishForm(_Form):
    """What to call the release, and how to write its tables."""

    name: Annotated[str, Field(max_length=200)]
    format: Literal["parquet", "csv"] = "parquet"


class VerifyForm(_Form):
    """Whether to hold the release against its table as well."""

    against: bool = False


class AuditForm(_Form):
    """Whether to say how often attackers are right."""

    truth: bool = False


class CountForm(_Form):
    """A condition to count by."""

    expression: Annotated[str, Field(max_length=200_000)]
    group_by: list[Name] = Field(default_factory=list)
    learn: bool = False
    truth: bool = False


AnyForm = TypeVar("AnyForm", bound=_Form)


def plan_options(solve: SolveForm, protection: ProtectionForm) -> PlanOptions:
    """The same options as `dalenius plan` has for these sizes and this adversary."""
    known, fakes = protection.known_records, protection.fake_values
    return PlanOptions.of(solve.min_size, solve.max_size, None, 60.0, known, fakes)


async def read_form(request: Request, form: type[AnyForm]) -> AnyForm:
    """The body of a request as a form; no body at all is an empty one."""
    require_type(request, "application/json")
    try:
        document = json.loads(await _bounded(request) or b"{}", parse_constant=_refused)
        json.dumps(document, ensure_ascii=False).encode()  # halves of characters have no place in any table
        return form.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        raise RequestError(400, "request", f"{where or 'the request'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise RequestError(400, "request", "the request is not valid JSON") from None


def require_type(request: Request, wanted: str) -> None:
    """Insist on the Content-Type: a form of another site cannot send these without asking first."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        raise RequestError(415, "unsupported", f"the Content-Type of this request has to be {wanted}")


async def _bounded(request: Request) -> bytes:
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


def _refused(_constant: str) -> Any:
    raise ValueError("NaN and infinities are no JSON")
