"""Check a certificate: recompute, on exact fractions and from first principles, the bound that its rows prove.

`dalenius plan --certificate` writes a certificate, a proof that no valid setting loses less than some bound. The
arithmetic is stated in `model.plan.Certificate`. The judge takes counts, limits and the adversary from the publisher
and not from the file; from the file it takes the rows, the range of bucket sizes, and the claims to compare with.
Whatever the rows are, they prove a true bound, so a file that somebody changed proves a poorer one or is refused.

Nothing is imported from `solve`: the judge must not share the author's bugs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, lcm
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dalenius.errors import InputError, UsageError
from dalenius.model.plan import Certificate, CertificateRow, Proof
from dalenius.model.problem import LARGEST_TOTAL, Problem, ValueCounts
from dalenius.policy.exact import format_fraction
from dalenius.tables.delimited import require_regular
from dalenius.verify.findings import plural, quote

_MOST_SIZES = 1_000_000  # sizes are looked at one by one; the solvers have the same bound
_LISTED = 5


def certified_bound(problem: Problem, certificate: Certificate) -> Fraction:
    """The lower bound on the loss of every valid setting that the certificate's rows prove.

    For a certificate that no setting exists it is a bound on 0 instead: above 0, it is that proof.

    Every row holds for every valid setting whatever its multiplier, so the result needs no trust in whoever made the
    certificate: a certificate with nonsense in it proves a poor bound, not a false one.
    """
    if any(row.multiplier < 0 for row in certificate.rows):
        raise ValueError("a certificate's multipliers must not be negative")
    if certificate.units < 1:
        raise ValueError(f"a certificate's units must be at least 1, got {certificate.units}")
    scale = lcm(*(row.multiplier.denominator for row in certificate.rows))
    rows = [(row, int(row.multiplier * scale)) for row in certificate.rows]
    start = certificate.units * sum(weight * _right(problem, row) for row, weight in rows)
    costs = certificate.proves == "loss"
    slope = min(
        Fraction(scale * (size - 1) ** 2 * costs - gain, size)
        for size, gain in _gains(problem, rows, certificate.units)
    )
    return (start + slope * problem.total) / scale


def _right(problem: Problem, row: CertificateRow) -> int:
    """The right-hand side of a row, in records."""
    counts = sum(problem.counts[i] for i in set(row.values))
    return -counts if row.sizes else counts


def _gains(problem: Problem, rows: Sequence[tuple[CertificateRow, int]], units: int) -> Iterator[tuple[int, int]]:
    """For every size S, the sum of weight_r * a_r(S) over all rows.

    A row covers whole ranges of sizes, and a cap depends on a value's limit alone. So between two edges of ranges the
    sum is one of caps, one term for each limit, and of a multiple of S.
    """
    first, stop = problem.min_size, min(problem.max_size, problem.total) + 1
    spans = [span for row, _ in rows for span in row.sizes]
    edges = {edge for low, high in spans for edge in (low, high + 1) if first < edge < stop}
    for start, end in pairwise([first, *sorted(edges), stop]):
        weights, of_size = _weights(problem, rows, start)
        for size in range(start, end):
            caps = (weight * _cap(problem, limit, size, units) for limit, weight in weights)
            yield size, sum(caps) - of_size * units * size


def _weights(
    problem: Problem, rows: Sequence[tuple[CertificateRow, int]], size: int
) -> tuple[list[tuple[Fraction, int]], int]:
    """The weight of each limit's cap, and of the size itself, in the sum of the rows that cover a size."""
    own: dict[int, int] = defaultdict(int)  # by value
    gale = 0
    for row, weight in rows:
        if not row.sizes:
            (value,) = row.values
            own[value] += weight
        elif any(low <= size <= high for low, high in row.sizes):
            gale += weight  # of every value, less those of the row
            for value in set(row.values):
                own[value] -= weight
    by_limit: dict[Fraction, int] = defaultdict(int)
    for value, limit in enumerate(problem.limits):
        by_limit[limit] += gale + own.get(value, 0)
    return [(limit, weight) for limit, weight in by_limit.items() if weight], gale


def _cap(problem: Problem, limit: Fraction, size: int, units: int) -> int:
    """How many records of a value a bucket may hold beside their share of the fakes, in units, rounded up.

    Of the size - Q records that are not known, at most a share `limit` may have the value, fakes included.
    """
    most = max(0, limit.numerator * (size - problem.known_records) // limit.denominator)
    return -(-units * most * size // (size + problem.fake_values))


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


class _Row(_Entry):
    multiplier: _Multiplier
    values: list[_Whole]
    sizes: list[Annotated[list[_Size], Field(min_length=2, max_length=2)]]


class _File(_Entry):
    format: Literal[1]
    min_size: _Size
    max_size: _Size
    known_records: _Whole
    fake_values: _Whole
    units: Annotated[int, Field(ge=1, le=2**62)]
    values: Annotated[list[_Value], Field(min_length=1)]
    proves: Proof
    bound: _Bound
    rows: list[_Row]


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
        file = _File.model_validate(json.loads(text))
    except ValidationError as error:  # before ValueError, which it is
        raise InputError(f"the certificate is not one: {_first_problem(error)}", _HINT) from None
    except (ValueError, RecursionError):
        raise InputError("the certificate is not valid JSON", _HINT) from None
    return _claim(file)


_HINT = "Give the file that 'dalenius plan --certificate' wrote."


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = "not an exact ratio" if first["type"] == "string_pattern_mismatch" else first["msg"].lower()
    return f"{place or 'the file'}: {message}"


def _claim(file: _File) -> Claim:
    names = [entry.value for entry in file.values]
    if len(set(names)) < len(names):
        raise InputError("the certificate is not one: it lists a value twice", _HINT)
    for number, row in enumerate(file.rows):
        if not row.sizes and len(row.values) != 1:
            raise InputError(f"the certificate is not one: rows.{number} has no sizes, and not one value", _HINT)
        if any(value >= len(names) for value in row.values):
            raise InputError(f"the certificate is not one: rows.{number} is about a value that is not listed", _HINT)
    rows = (
        CertificateRow(Fraction(row.multiplier), tuple(row.values), tuple((low, high) for low, high in row.sizes))
        for row in file.rows
    )
    problem = Problem(
        values=tuple(names),
        counts=tuple(entry.count for entry in file.values),
        limits=tuple(Fraction(entry.limit) for entry in file.values),
        min_size=file.min_size,
        max_size=file.max_size,
        known_records=file.known_records,
        fake_values=file.fake_values,
    )
    return Claim(problem, Certificate(Fraction(file.bound), tuple(rows), file.proves, file.units))


@dataclass(frozen=True)
class ProofVerdict:
    """What a certificate proves about the publisher's own counts and limits, and what is wrong with it.

    `problem` is what the bound was recomputed for.
    """

    problem: Problem
    proves: Proof
    stated: Fraction
    proven: Fraction
    findings: tuple[str, ...]

    @property
    def verified(self) -> bool:
        """Whether the certificate is about these counts and limits, and proves what it says."""
        return not self.findings

    @property
    def least_loss(self) -> int | None:
        """The loss that every valid setting has at least: losses are whole numbers, and not negative."""
        return max(0, ceil(self.proven)) if self.proves == "loss" else None


def check_certificate(
    claim: Claim,
    counts: ValueCounts,
    limits: Sequence[Fraction],
    *,
    known_records: int = 0,
    fake_values: int = 0,
    min_size: int | None = None,
    max_size: int | None = None,
) -> ProofVerdict:
    """Recompute the bound for the publisher's counts and limits, and compare all that the certificate says.

    `limits` are in the order of the counts. Without `min_size` or `max_size` the range is the certificate's.
    """
    stated = claim.problem
    own = dict(zip(counts.values, zip(counts.counts, limits, strict=True), strict=True))
    if set(own) != set(stated.values):
        raise InputError(_other_values(set(stated.values), set(own)), "Give the counts that it was made from.")
    problem = Problem(
        values=stated.values,
        counts=tuple(own[value][0] for value in stated.values),
        limits=tuple(own[value][1] for value in stated.values),
        min_size=stated.min_size if min_size is None else min_size,
        max_size=stated.max_size if max_size is None else max_size,
        known_records=known_records,
        fake_values=fake_values,
    )
    _check_range(problem)
    proven = certified_bound(problem, claim.certificate)
    findings = (*_differences(stated, problem), *_shortfall(claim.certificate, proven))
    return ProofVerdict(
        problem=problem,
        proves=claim.certificate.proves,
        stated=claim.certificate.bound,
        proven=proven,
        findings=findings,
    )


def _check_range(problem: Problem) -> None:
    if problem.known_records < 0 or problem.fake_values < 0:
        raise UsageError("--corrupted and --fakes must not be negative")
    last = min(problem.max_size, problem.total)
    if problem.min_size < 1 or problem.min_size > last:
        raise UsageError(
            f"there are no bucket sizes from {problem.min_size:,} to {last:,} in a table of {problem.total:,} records"
        )
    if last - problem.min_size >= _MOST_SIZES:
        raise UsageError(f"the range has more than the {_MOST_SIZES:,} bucket sizes that can be checked")


def _other_values(stated: set[str], own: set[str]) -> str:
    unknown, missing = sorted(stated - own), sorted(own - stated)
    if unknown:
        return f"the certificate is about {_names(unknown)}, which the counts do not have"
    return f"the certificate is not about {_names(missing)}, which the counts have"


def _names(values: list[str]) -> str:
    listed = ", ".join(quote(value) for value in values[:_LISTED])
    return listed + (f" and {len(values) - _LISTED:,} more" if len(values) > _LISTED else "")


def _differences(stated: Problem, problem: Problem) -> Iterator[str]:
    """What the certificate says of the problem and is not so."""
    values = range(len(problem.values))
    counts = [i for i in values if stated.counts[i] != problem.counts[i]]
    for i in counts[:1]:
        first = f"{quote(problem.values[i])} it has {stated.counts[i]:,} records, and you have {problem.counts[i]:,}"
        yield f"{plural(len(counts), 'count differs', 'counts differ')} from yours: of {first}"
    limits = [i for i in values if stated.limits[i] != problem.limits[i]]
    for i in limits[:1]:
        own, other = format_fraction(problem.limits[i]), format_fraction(stated.limits[i])
        first = f"{quote(problem.values[i])} it has {other}, and you have {own}"
        yield f"{plural(len(limits), 'limit differs', 'limits differ')} from yours: of {first}"
    if stated.known_records != problem.known_records:
        yield f"the certificate has --corrupted {stated.known_records}, and you have {problem.known_records}"
    if stated.fake_values != problem.fake_values:
        yield f"the certificate has --fakes {stated.fake_values}, and you have {problem.fake_values}"
    if problem.min_size < stated.min_size or min(problem.max_size, problem.total) > stated.max_size:
        yield (
            f"the certificate is about bucket sizes from {stated.min_size:,} to {stated.max_size:,}, and yours are "
            f"from {problem.min_size:,} to {problem.max_size:,}"
        )


def _shortfall(certificate: Certificate, proven: Fraction) -> Iterator[str]:
    """What the certificate says of its bound and does not prove."""
    if proven < certificate.bound:
        stated = _number(certificate.bound)
        less = _number(proven) if _number(proven) != stated else "a little less"
        yield f"the certificate says that its bound is {stated}, and it proves {less}"
    if certificate.proves == "no-setting" and proven <= 0:
        yield f"only a bound above 0 proves that there is no setting, and the certificate proves {_number(proven)}"


def _number(number: Fraction) -> str:
    """A bound for people to read. It is rounded: the exact ratio can be long, and is in the JSON object."""
    if number.denominator == 1:
        return f"{number.numerator:,}"
    whole, rest = divmod(round(abs(number) * 10_000), 10_000)
    return f"{'-' if number < 0 else ''}{whole:,}.{rest:04}"
