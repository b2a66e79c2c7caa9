"""Check a certificate: recompute the lower bound on the loss from its rows, on exact fractions, from first principles.

Imports nothing from `solve`. The arithmetic is the one stated in `model.solution.Certificate`.
"""

from __future__ import annotations

from fractions import Fraction

from dalenius.model.plan import Certificate, CertificateRow
from dalenius.model.problem import Problem


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
    rights = (row.multiplier * _right(problem, row) for row in certificate.rows)
    start = sum(rights, Fraction(0)) * certificate.units
    sizes = range(problem.min_size, min(problem.max_size, problem.total) + 1)
    slope = min(_reduced(problem, certificate, size) / size for size in sizes)
    return start + slope * problem.total


def _right(problem: Problem, row: CertificateRow) -> int:
    counts = sum(problem.counts[i] for i in row.values)
    return -counts if row.sizes else counts


def _reduced(problem: Problem, certificate: Certificate, size: int) -> Fraction:
    units = certificate.units
    caps = [_cap(problem, limit, size, units) for limit in problem.limits]
    reduced = Fraction((size - 1) ** 2 if certificate.proves == "loss" else 0)
    for row in certificate.rows:
        if not row.sizes:
            (value,) = row.values
            reduced -= row.multiplier * caps[value]
        elif any(low <= size <= high for low, high in row.sizes):
            inside = set(row.values)
            reduced -= row.multiplier * (sum(cap for i, cap in enumerate(caps) if i not in inside) - units * size)
    return reduced


def _cap(problem: Problem, limit: Fraction, size: int, units: int) -> int:
    """How many records of a value a bucket may hold beside their share of the fakes, in units, rounded up.

    Of the size - Q records that are not known, at most a share `limit` may have the value, fakes included.
    """
    most = max(0, limit.numerator * (size - problem.known_records) // limit.denominator)
    return -(-units * most * size // (size + problem.fake_values))
