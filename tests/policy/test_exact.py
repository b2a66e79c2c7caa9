from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.errors import PolicyError
from dalenius.policy.exact import Number, exact_fraction, exact_limit, format_fraction


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.29", Fraction(29, 100)),
        (0.29, Fraction(29, 100)),
        ("17/100", Fraction(17, 100)),
        (" 17 / 100 ", Fraction(17, 100)),
        (1, Fraction(1)),
        (Decimal("0.020"), Fraction(1, 50)),
        ("1e-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
    ],
)
def test_numbers_are_exact(text: Number, value: Fraction) -> None:
    assert exact_fraction(text, "x") == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1/0", "0,5", "1e9999", "half", "0x10", "1_000", True, None, [1]])
def test_what_is_no_number_is_refused(text: object) -> None:
    with pytest.raises(PolicyError, match="theta must be"):
        exact_fraction(text, "theta")  # type: ignore[arg-type]


def test_a_number_of_absurd_length_is_refused() -> None:
    with pytest.raises(PolicyError, match="5000 characters"):
        exact_fraction("1" * 5000, "theta")


@pytest.mark.parametrize("number", ["0", "-0.1", "1.0001", "2", "101/100"])
def test_limits_outside_zero_to_one_are_refused(number: str) -> None:
    with pytest.raises(PolicyError, match="above 0 and at most 1"):
        exact_limit(number, "the limit of 'HIV'")


@given(st.decimals(0, 1, places=6))
def test_decimals_survive_being_shown(number: Decimal) -> None:
    assert Fraction(format_fraction(Fraction(number))) == Fraction(number)


def test_ratios_are_shown_as_such() -> None:
    assert format_fraction(Fraction(1, 3)) == "1/3"
    assert format_fraction(Fraction(1, 30001)) == "3.33322e-05"
