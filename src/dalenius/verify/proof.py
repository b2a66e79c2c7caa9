"""Check a certificate: recompute, on exact fractions and from first principles, the bound that its rows prove.

`dalenius plan --certificate` writes a certificate, a proof that no valid setting loses less than some bound. The
arithmetic is stated in `model.plan.Certificate`. The judge takes counts, limits and the adversary from the publisher
and not from the file; from the file it takes the rows, the range of bucket sizes, and the claims to compare with.
Whatever the rows are, they prove a true bound. A file that states another one than it proves is refused.
Rows of a problem with groups of values have a form of their own (`group_rows`).

Nothing is imported from `solve`: the judge must not share the author's bugs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, lcm

from dalenius.errors import InputError, UsageError
from dalenius.model.groups import NO_GROUP, Groups
from dalenius.model.plan import Certificate, CertificateRow, Proof
from dalenius.model.problem import Problem, ValueCounts
from dalenius.policy.exact import format_fraction
from dalenius.verify.certificate_file import Claim
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
        for size, gain in _all_gains(problem, rows, certificate.units)
    )
    return (start + slope * problem.total) / scale


def _right(problem: Problem, row: CertificateRow) -> int:
    """The right-hand side of a row, in records."""
    counts = sum(problem.counts[i] for i in set(row.values))
    return -counts if row.sizes else counts


def _all_gains(problem: Problem, rows: Sequence[tuple[CertificateRow, int]], units: int) -> Iterator[tuple[int, int]]:
    """For every size S, the sum of weight_r * a_r(S) over all rows."""
    if problem.groups is None:
        return _gains(problem, rows, units)
    from dalenius.verify.group_rows import gains_with_groups  # here, because nothing else needs numpy

    return gains_with_groups(problem, rows, units)


def _gains(problem: Problem, rows: Sequence[tuple[CertificateRow, int]], units: int) -> Iterator[tuple[int, int]]:
    """The same without groups.

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
    groups: Groups | None = None,
    known_records: int = 0,
    fake_values: int = 0,
    min_size: int | None = None,
    max_size: int | None = None,
) -> ProofVerdict:
    """Recompute the bound for the publisher's counts and limits, and compare all that the certificate says.

    `limits`, and the values of `groups`, are in the order of the counts. Without `min_size` or `max_size` the range is
    the certificate's.
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
        groups=_groups(stated, counts, groups),
    )
    _check_range(problem)
    proven = certified_bound(problem, claim.certificate)
    others = _other_groups(stated, counts, groups)
    exactly = (problem.min_size, problem.max_size) == (stated.min_size, stated.max_size)
    findings = (*_differences(stated, problem), *others, *_shortfall(claim.certificate, proven, exactly))
    return ProofVerdict(
        problem=problem,
        proves=claim.certificate.proves,
        stated=claim.certificate.bound,
        proven=proven,
        findings=findings,
    )


def _groups(stated: Problem, counts: ValueCounts, groups: Groups | None) -> Groups | None:
    """The publisher's groups, in the order of the certificate's values.

    A certificate that knows of no groups is judged without: what it proves holds all the more with them.
    """
    if stated.groups is None:
        return None
    if groups is None:
        return Groups((), (NO_GROUP,) * len(stated.values))
    place = {value: number for number, value in enumerate(counts.values)}
    return groups.take([place[value] for value in stated.values])


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


@dataclass(frozen=True)
class _Node:
    """A group that has values: the names of its parent and of the values for which it is the lowest, and its limit."""

    parent: str | None
    limit: Fraction | None
    values: frozenset[str]


def _nodes(groups: Groups | None, values: Sequence[str]) -> dict[str, _Node]:
    """By name. Groups without values do not matter, wherever they are listed."""
    if groups is None:
        return {}
    own: dict[int, set[str]] = {place: set() for value in range(len(values)) for place in groups.path(value)}
    for value, place in zip(values, groups.of_value, strict=True):
        if place != NO_GROUP:
            own[place].add(value)
    names = [group.name for group in groups.groups]
    return {
        names[place]: _Node(
            parent=None if groups.groups[place].parent == NO_GROUP else names[groups.groups[place].parent],
            limit=groups.groups[place].limit,
            values=frozenset(members),
        )
        for place, members in own.items()
    }


def _other_groups(stated: Problem, counts: ValueCounts, groups: Groups | None) -> Iterator[str]:
    """What the certificate says of groups and is not so."""
    theirs, yours = _nodes(stated.groups, stated.values), _nodes(groups, counts.values)
    unknown, missing = sorted(set(theirs) - set(yours)), sorted(set(yours) - set(theirs))
    if unknown:
        yield f"the certificate has groups that you do not have: {_names(unknown)}"
    if missing:
        yield f"the certificate does not have your groups {_names(missing)}"
    both = [(name, theirs[name], yours[name]) for name in sorted(set(theirs) & set(yours))]
    limits = [(name, it, you) for name, it, you in both if it.limit != you.limit]
    for name, it, you in limits[:1]:
        first = f"{quote(name)} it has {_limit(it.limit)}, and you have {_limit(you.limit)}"
        yield f"{plural(len(limits), 'limit of a group differs', 'limits of groups differ')} from yours: of {first}"
    others = [name for name, it, you in both if (it.parent, it.values) != (you.parent, you.values)]
    if others:
        yield f"{plural(len(others), 'group has', 'groups have')} another parent or other values: {_names(others)}"


def _limit(limit: Fraction | None) -> str:
    return "none" if limit is None else format_fraction(limit)


def _shortfall(certificate: Certificate, proven: Fraction, exactly: bool) -> Iterator[str]:
    """What the certificate says of its bound and does not prove.

    Of the range of sizes that it is about it proves `exactly` that, and not more: else it is not as it was written.
    """
    if proven < certificate.bound or (exactly and proven > certificate.bound):
        stated = _number(certificate.bound)
        beside = "a little less" if proven < certificate.bound else "a little more"
        found = _number(proven) if _number(proven) != stated else beside
        yield f"the certificate says that its bound is {stated}, and it proves {found}"
    if certificate.proves == "no-setting" and proven <= 0:
        yield f"only a bound above 0 proves that there is no setting, and the certificate proves {_number(proven)}"


def _number(number: Fraction) -> str:
    """A bound for people to read. It is rounded: the exact ratio can be long, and is in the JSON object."""
    if number.denominator == 1:
        return f"{number.numerator:,}"
    whole, rest = divmod(round(abs(number) * 10_000), 10_000)
    return f"{'-' if number < 0 else ''}{whole:,}.{rest:04}"
