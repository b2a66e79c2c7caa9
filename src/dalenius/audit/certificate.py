"""Check a certificate: recompute the lower bound on the loss from its rows, on exact fractions, from first principles.

Imports nothing from `solve`. The arithmetic is the one stated in `model.solution.Certificate`.
"""

from __future__ import annotations

from fractions import Fraction

from dalenius.model.problem import Problem
from dalenius.model.solution import Certificate, CertificateRow


def certified_bound(problem: Problem, certificate: Certificate) -> Fraction:
    """The lower bound on the loss of every valid setting that the certificate's rows prove.

    For a certificate that no setting exists it is a bound on 0 instead: above 0, it is that proof.

    Every row holds for every valid setting whatever its multiplier, so the result needs no trust in whoever made the
    certificate: a certificate with nonsense in it proves a poor bound, not a false one.
    """
    if any(row.multiplier < 0 for row in certificate.rows):
        raise ValueError("a certificate's multipliers must not be negative")
    start = sum((row.multiplier * _right(problem, row) for row in certificate.rows), Fraction(0))
    sizes = range(problem.min_size, min(problem.max_size, problem.total) + 1)
    slope = min(_reduced(problem, certificate, size) / size for size in sizes)
    return start + slope * problem.total


def _right(problem: Problem, row: CertificateRow) -> int:
    counts = sum(problem.counts[i] for i in row.values)
    return -counts if row.sizes else counts


def _reduced(problem: Problem, certificate: Certificate, size: int) -> Fraction:
    caps = [limit.numerator * size // limit.denominator for limit in problem.limits]
    reduced = Fraction((size - 1) ** 2 if certificate.proves == "loss" else 0)
    for row in certificate.rows:
        if not row.sizes:
            (value,) = row.values
            reduced -= row.multiplier * caps[value]
        elif any(low <= size <= high for low, high in row.sizes):
            inside = set(row.values)
            reduced -= row.multiplier * (sum(cap for i, cap in enumerate(caps) if i not in inside) - size)
    return reduced
