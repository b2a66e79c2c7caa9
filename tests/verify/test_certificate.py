from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dalenius.model.plan import Certificate
from dalenius.model.problem import Problem
from dalenius.solve.optimal import find_optimum
from dalenius.solve.sizes import least_min_size
from dalenius.verify.proof import certified_bound
from tests.problems import acs


def found_certificate() -> Certificate:
    certificate = find_optimum(acs("Education", 300, 8)).certificate
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


@pytest.mark.parametrize(("known", "fakes"), [(1, 0), (0, 1), (2, 2)])
def test_the_adversary_is_part_of_the_proof(known: int, fakes: int) -> None:
    """A certificate proves its bound for its own adversary; read for a weaker one, a bound that is true there."""
    open_table = acs("Education", 300, 8)
    low = least_min_size(open_table.limits, known)
    table = replace(open_table, min_size=low, max_size=52, known_records=known, fake_values=fakes)
    found = find_optimum(table, gap=0.01).certificate
    assert found is not None
    assert found.units == (2**20 if fakes else 1)
    bound = certified_bound(table, found)
    assert bound == found.bound > 531_287
    assert certified_bound(replace(open_table, max_size=52), found) <= 531_287
    for units in (1, 7, 2**30):  # whatever the units, the rows are true
        assert certified_bound(table, replace(found, units=units)) <= optimal_loss(table)
    with pytest.raises(ValueError, match="units must be at least 1"):
        certified_bound(table, replace(found, units=0))


def optimal_loss(table: Problem) -> int:
    setting = find_optimum(table).setting
    assert setting is not None
    return setting.loss


def test_a_certificate_of_another_table_does_not_fit() -> None:
    assert certified_bound(acs("Education", 300, 32), found_certificate()) <= 50_804
