from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
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


@given(
    odds=st.fractions(min_value=1, max_value=10**6),
    count=st.integers(1, 10**9),
    others=st.integers(1, 10**9),
    floor=st.fractions(min_value=0, max_value=1).filter(lambda number: number < 1),
)
def test_odds_stay_below_one_and_let_there_be_a_release(
    odds: Fraction, count: int, others: int, floor: Fraction
) -> None:
    """f' < 1 for every f < 1, f' >= f, and the odds at the limit are exactly K times those in the table."""
    frequency = Fraction(count, count + others)
    limit = LimitPolicy.of(odds=odds, floor=0).rule_limit(count, count + others)
    assert limit is not None
    assert frequency <= limit < 1
    assert limit / (1 - limit) == odds * frequency / (1 - frequency)
    assert LimitPolicy.of(odds=odds, floor=floor).rule_limit(count, count + others) == max(limit, floor) < 1


@given(st.lists(st.integers(1, 50), min_size=2, max_size=6), st.fractions(min_value=1, max_value=20))
def test_under_odds_there_is_always_a_release_with_nobody_in_the_clear(counts: list[int], odds: Fraction) -> None:
    plan = dalenius.plan({f"v{i}": count for i, count in enumerate(counts)}, {"odds": odds, "floor": 0})
    assert plan.status != "infeasible"
    assert plan.exposure is not None
    assert plan.exposure.outright == 0
    assert plan.exposure.highest < 1


def test_the_floor_of_odds_is_two_percent_unless_another_is_given() -> None:
    assert LimitPolicy.of(odds=8).floor == Fraction(1, 50)
    assert LimitPolicy.of(odds=8).rule_limit(1, 10**6) == Fraction(1, 50)
    assert LimitPolicy.of(odds=8, floor=0).rule_limit(1, 10**6) == Fraction(8, 10**6 + 7)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"odds": "0.5"}, "odds must be at least 1"),
        ({"odds": 8, "floor": 1}, "floor must be at least 0 and below 1"),
        ({"floor": "0.02"}, "floor needs odds"),
        ({"odds": 8, "theta": 8}, "only one rule is allowed, got odds and theta"),
    ],
)
def test_odds_that_mean_nothing_are_refused(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        LimitPolicy.of(**policy)


def test_a_rule_that_ends_at_zero_is_refused() -> None:
    with pytest.raises(PolicyError, match="the limit 0"):
        resolved(theta=0)


def test_limits_for_absent_values_are_refused_unless_they_are_meant() -> None:
    named = {"hiv": "0.1", "Ebola": "0.1"}
    with pytest.raises(PolicyError, match="'hiv', 'Ebola', which do not occur") as refused:
        resolve_limits(LimitPolicy.of(uniform="0.8", values=named), COUNTS)
    assert "Did you mean 'HIV'?" in (refused.value.hint or "")
    notes = resolve_limits(LimitPolicy.of(uniform="0.8", values=named, allow_absent=True), COUNTS).notes
    assert ["'hiv'" in notes[0], "'Ebola'" in notes[1]] == [True, True]


def test_values_that_look_alike_are_pointed_out() -> None:
    counts = ValueCounts.of([("HIV", 1), ("hiv ", 1), ("Flu", 3), ("ＨＩＶ", 1)])
    notes = resolve_limits(LimitPolicy.of(uniform="0.8"), counts).notes
    assert len(notes) == 1
    assert "'HIV'" in notes[0]
    assert "'hiv '" in notes[0]
    assert "'Flu'" not in notes[0]
