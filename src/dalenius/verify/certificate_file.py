"""The file of a certificate: what it claims, and of which problem. Nothing in it is believed (`proof`).

A file of format 1 is about values alone. One of format 2 has groups of values as well, and its rows are about sets of
values (`group_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dalenius.errors import InputError
from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.model.plan import Certificate, CertificateRow, Proof
from dalenius.model.problem import LARGEST_TOTAL, Problem
from dalenius.tables.delimited import require_regular

_HINT = "Give the file that 'dalenius plan --certificate' wrote."


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_Whole = Annotated[int, Field(ge=0, le=LARGEST_TOTAL)]
_Size = Annotated[int, Field(ge=1, le=2**62)]
_Limit = Annotated[str, Field(pattern=r"^[0-9]{1,200}(/0*[1-9][0-9]{0,199})?$")]
_Multiplier = Annotated[str, Field(pattern=r"^[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?$")]
_Bound = Annotated[str, Field(pattern=r"^-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?$")]


class _Value(_Entry):
    value: str
    count: _Whole
    limit: _Limit


class _GroupedValue(_Value):
    group: _Whole | None


class _Group(_Entry):
    name: Annotated[str, Field(min_length=1)]
    parent: _Whole | None
    limit: _Limit | None


class _Row(_Entry):
    multiplier: _Multiplier
    values: list[_Whole]
    sizes: list[Annotated[list[_Size], Field(min_length=2, max_length=2)]]


class _AnyFile(_Entry):
    min_size: _Size
    max_size: _Size
    known_records: _Whole
    fake_values: _Whole
    units: Annotated[int, Field(ge=1, le=2**62)]
    proves: Proof
    bound: _Bound
    rows: list[_Row]


class _File(_AnyFile):
    format: Literal[1]
    values: Annotated[list[_Value], Field(min_length=1)]


class _GroupedFile(_AnyFile):
    format: Literal[2]
    groups: list[_Group]
    values: Annotated[list[_GroupedValue], Field(min_length=1)]


@dataclass(frozen=True)
class Claim:
    """What a file says: a certificate, and the problem whose bound it is said to prove."""

    problem: Problem
    certificate: Certificate


def read_certificate(path: Path) -> Claim:
    """A certificate from its file; an `InputError` if it is not one."""
    try:
        require_regular(path)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"the certificate cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError("the certificate is not a text file", _HINT) from None
    try:
        document = json.loads(text)
        grouped = isinstance(document, dict) and document.get("format") == 2
        file = (_GroupedFile if grouped else _File).model_validate(document)
    except ValidationError as error:  # before ValueError, which it is
        raise InputError(f"the certificate is not one: {_first_problem(error)}", _HINT) from None
    except (ValueError, RecursionError):
        raise InputError("the certificate is not valid JSON", _HINT) from None
    return _claim(file)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = "not an exact ratio" if first["type"] == "string_pattern_mismatch" else first["msg"].lower()
    return f"{place or 'the file'}: {message}"


def _claim(file: _File | _GroupedFile) -> Claim:
    wrong = next(_problems(file), None)
    if wrong is not None:
        raise InputError(f"the certificate is not one: {wrong}", _HINT)
    rows = (
        CertificateRow(Fraction(row.multiplier), tuple(row.values), tuple((low, high) for low, high in row.sizes))
        for row in file.rows
    )
    problem = Problem(
        values=tuple(entry.value for entry in file.values),
        counts=tuple(entry.count for entry in file.values),
        limits=tuple(Fraction(entry.limit) for entry in file.values),
        min_size=file.min_size,
        max_size=file.max_size,
        known_records=file.known_records,
        fake_values=file.fake_values,
        groups=_groups(file) if isinstance(file, _GroupedFile) else None,
    )
    return Claim(problem, Certificate(Fraction(file.bound), tuple(rows), file.proves, file.units))


def _problems(file: _File | _GroupedFile) -> Iterator[str]:
    """What makes no sense in it, the first thing first."""
    grouped = isinstance(file, _GroupedFile)
    if _has_twice([entry.value for entry in file.values]):
        yield "it lists a value twice"
    if isinstance(file, _GroupedFile):
        yield from _group_problems(file)
    for number, row in enumerate(file.rows):
        if grouped and (row.sizes or not row.values):
            yield f"rows.{number} has sizes, or no values"
        if not grouped and not row.sizes and len(row.values) != 1:
            yield f"rows.{number} has no sizes, and not one value"
        if any(value >= len(file.values) for value in row.values):
            yield f"rows.{number} is about a value that is not listed"


def _group_problems(file: _GroupedFile) -> Iterator[str]:
    if _has_twice([group.name for group in file.groups]):
        yield "it lists a group twice"
    for number, group in enumerate(file.groups):
        if group.parent is not None and group.parent >= number:
            yield f"groups.{number} comes before the group that it is part of"
    for number, value in enumerate(file.values):
        if value.group is not None and value.group >= len(file.groups):
            yield f"values.{number} is in a group that is not listed"


def _has_twice(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _groups(file: _GroupedFile) -> Groups:
    groups = (
        Group(
            name=group.name,
            limit=None if group.limit is None else Fraction(group.limit),
            parent=NO_GROUP if group.parent is None else group.parent,
        )
        for group in file.groups
    )
    return Groups(tuple(groups), tuple(NO_GROUP if value.group is None else value.group for value in file.values))
