from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dalenius.audit.certificate import certified_bound
from dalenius.model.solution import Certificate
from dalenius.solve.optimal import optimal
from tests.problems import acs


def found_certificate() -> Certificate:
    certificate = optimal(acs("Education", 300, 8)).certificate
    assert certificate is not None
    return certificate


def test_a_certificate_with_changed_multipliers_proves_no_more() -> None:
    """Whatever somebody writes into a certificate, what it proves stays below the optimum."""
    table = acs("Education", 300, 8)
    certificate = found_certificate()
    for factor in (Fraction(0), Fraction(1, 2), Fraction(11, 10), Fraction(5)):
        rows = tuple(replace(row, multiplier=row.multiplier * factor) for row in certificate.rows)
        assert certified_bound(table, Certificate(certificate.bound, rows)) <= 531_287


def test_negative_multipliers_are_refused() -> None:
    certificate = found_certificate()
    rows = tuple(replace(row, multiplier=-row.multiplier) for row in certificate.rows)
    with pytest.raises(ValueError, match="must not be negative"):
        certified_bound(acs("Education", 300, 8), Certificate(certificate.bound, rows))


def test_a_certificate_of_another_table_does_not_fit() -> None:
    assert certified_bound(acs("Education", 300, 32), found_certificate()) <= 50_804
