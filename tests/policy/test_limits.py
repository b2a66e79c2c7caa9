from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dalenius.errors import PolicyError
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy, resolve_limits

COUNTS = ValueCounts.of([("Flu", 70), ("HIV", 10), ("Cold", 20)])  # sorted: Cold, Flu, HIV


def resolved(**policy: Any) -> dict[str, Fraction]:
    return dict(zip(COUNTS.values, resolve_limits(LimitPolicy.of(**policy), COUNTS).limits, strict=True))


def test_theta_and_base() -> None:
    assert resolved(theta=2, base="0.02") == {
        "Cold": Fraction(42, 100),
        "Flu": Fraction(1),  # 1.42 is cut to 1
        "HIV": Fraction(22, 100),
    }


def test_theta_without_base() -> None:
    assert resolved(theta="1.5")["HIV"] == Fraction(15, 100)


def test_uniform() -> None:
    assert set(resolved(uniform="0.8").values()) == {Fraction(4, 5)}


def test_l_diversity() -> None:
    assert set(resolved(l_diversity=10).values()) == {Fraction(1, 10)}


def test_beta() -> None:
    assert resolved(beta=3) == {"Cold": Fraction(4, 5), "Flu": Fraction(1), "HIV": Fraction(2, 5)}


def test_exceptions_go_before_the_rule() -> None:
    assert resolved(uniform="0.8", values={"HIV": "0.15", "Flu": 1}) == {
        "Cold": Fraction(4, 5),
        "Flu": Fraction(1),
        "HIV": Fraction(15, 100),
    }


def test_values_alone_are_enough_if_they_cover_everything() -> None:
    assert resolved(values={"HIV": "0.5", "Flu": 1, "Cold": 1})["HIV"] == Fraction(1, 2)


def test_values_that_nothing_covers_are_listed() -> None:
    with pytest.raises(PolicyError, match=r"2 of 3 sensitive values: 'Cold', 'Flu'"):
        resolved(values={"HIV": "0.5"})


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"theta": -1}, "theta must not be negative, got -1"),
        ({"theta": 1, "base": "-0.1"}, "base must not be negative"),
        ({"base": "0.02"}, "base needs theta"),
        ({"theta": 1, "uniform": "0.1"}, "got theta and uniform"),
        ({"uniform": 0}, "uniform must be above 0 and at most 1, got 0"),
        ({"l_diversity": "2.5"}, "whole number of at least 1, got 2.5"),
        ({"l_diversity": 0}, "whole number of at least 1"),
        ({"beta": "-0.5"}, "beta must not be negative"),
        ({"values": {"HIV": "1.5"}}, "the limit of 'HIV' must be above 0 and at most 1, got 1.5"),
    ],
)
def test_policies_that_make_no_sense(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        LimitPolicy.of(**policy)


def test_a_rule_that_ends_at_zero_is_refused() -> None:
    with pytest.raises(PolicyError, match="the limit 0"):
        resolved(theta=0)


def test_values_named_but_absent_are_pointed_out() -> None:
    policy = LimitPolicy.of(uniform="0.8", values={"hiv": "0.1", "Ebola": "0.1"})
    notes = resolve_limits(policy, COUNTS).notes
    assert any("'hiv'" in note and "did you mean 'HIV'" in note for note in notes)
    assert any("'Ebola'" in note and "does not occur" in note for note in notes)


def test_values_that_look_alike_are_pointed_out() -> None:
    counts = ValueCounts.of([("HIV", 1), ("hiv ", 1), ("Flu", 3), ("ＨＩＶ", 1)])
    notes = resolve_limits(LimitPolicy.of(uniform="0.8"), counts).notes
    assert len(notes) == 1
    assert "'HIV'" in notes[0]
    assert "'hiv '" in notes[0]
    assert "'Flu'" not in notes[0]
