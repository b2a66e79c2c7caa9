"""The Python door: dalenius.plan."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import dalenius
from dalenius.errors import CountsError, InputError, PolicyError, UndecidedError, UsageError
from dalenius.fakes.quotas import draw_fakes
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.problem import SizeGroup, ValueCounts
from dalenius.planning import compare_counts
from tests.clocks import Clock

COUNTS = {"Flu": 90, "HIV": 10}


def assert_simple(plan: Plan) -> None:
    assert str(plan.solution.setting) == "25 x 2 + 10 x 5"
    assert (plan.solution.loss, plan.solution.bound, plan.solution.gap) == (185, 185, 0)
    assert plan.status == "optimal"


def test_the_docstring_is_true() -> None:
    result = doctest.testmod(sys.modules["dalenius.planning"])
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"Flu": 1, "HIV": "0.2"},
        {"Flu": 1, "HIV": 0.2},
        {"uniform": 1, "values": {"HIV": "1/5"}},
        dalenius.LimitPolicy.of(beta=1, values={"Flu": 1}),
    ],
)
def test_limits_in_every_form(limits: Any) -> None:
    assert_simple(dalenius.plan(COUNTS, limits))


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_tables_in_every_form(make: Callable[[Any], Any]) -> None:
    rows = {"Disease": ["Flu"] * 90 + ["HIV"] * 10}
    assert_simple(dalenius.plan(make(rows), {"Flu": 1, "HIV": "0.2"}, sensitive="Disease"))


def test_keys_that_are_both_rules_and_values() -> None:
    """A sensitive column whose values are called theta and beta: the limits are theirs."""
    plan = dalenius.plan({"theta": 90, "beta": 10}, {"theta": 1, "beta": "0.2"})
    assert str(plan.solution.setting) == "25 x 2 + 10 x 5"


def test_values_need_not_be_text() -> None:
    plan = dalenius.plan({1: np.int64(90), 2: np.int64(10)}, {1: 1, 2: "0.2"})
    assert str(plan.solution.setting) == "25 x 2 + 10 x 5"


def test_nobody_is_alone_unless_that_is_asked_for() -> None:
    plan = dalenius.plan(COUNTS, {"Flu": 1, "HIV": "0.2"})
    assert plan.solution.setting is not None
    assert plan.solution.setting.groups[0].size == 2
    alone = dalenius.plan(COUNTS, {"Flu": 1, "HIV": "0.2"}, min_size=1)
    assert str(alone.solution.setting) == "50 x 1 + 10 x 5"
    assert alone.exposure is not None
    assert (alone.exposure.outright, alone.exposure.people) == (50, 100)


@pytest.mark.parametrize("sizes", [{"max_size": 1}, {}])
def test_buckets_in_which_nothing_can_be_hidden_are_refused(sizes: dict[str, Any]) -> None:
    counts = COUNTS if sizes else {"Flu": 1}
    with pytest.raises(UsageError, match="alone in its bucket"):
        dalenius.plan(counts, {"uniform": 1}, **sizes)
    plan = dalenius.plan(counts, {"uniform": 1}, min_size=1, **sizes)
    assert plan.exposure is not None
    assert plan.exposure.outright == plan.exposure.people == sum(counts.values())


def test_order_of_the_input_does_not_matter() -> None:
    counts = {f"v{i}": 37 + 13 * i for i in range(12)}
    backwards = dict(reversed(counts.items()))
    limits = {"theta": 3, "base": "0.05"}
    one, other = dalenius.plan(counts, limits), dalenius.plan(backwards, limits)
    assert one.problem == other.problem
    assert one.solution.setting == other.solution.setting
    assert one.solution.partition == other.solution.partition


def test_not_eligible() -> None:
    plan = dalenius.plan({"Flu": 3, "HIV": 1}, {"uniform": "0.5"})
    assert plan.status == "infeasible"
    assert plan.solution.setting is None
    assert plan.no_solution is not None
    assert plan.no_solution.reason == "not-eligible"
    (value,) = plan.no_solution.ineligible
    assert (value.value, value.frequency, value.limit) == ("Flu", Fraction(3, 4), Fraction(1, 2))


@pytest.mark.parametrize("method", ["optimal", "two-size", "multi-size"])
def test_max_size_too_small_names_the_smallest_that_works(method: str) -> None:
    counts, limits = {"Flu": 100, "Cold": 90, "HIV": 10}, {"Flu": 1, "Cold": 1, "HIV": "0.06"}
    plan = dalenius.plan(counts, limits, method=method, max_size=16)
    assert plan.no_solution is not None
    assert plan.no_solution.reason == "max-size"
    smallest = plan.no_solution.smallest_max_size
    assert smallest == 17
    assert dalenius.plan(counts, limits, method=method, max_size=smallest).status != "infeasible"


def test_max_size_below_every_possible_bucket() -> None:
    plan = dalenius.plan({str(i): 10 for i in range(20)}, {"uniform": "0.1"}, max_size=5)
    assert plan.no_solution is not None
    assert plan.no_solution.smallest_max_size == 10


def test_the_automatic_max_size_grows_until_there_is_a_setting() -> None:
    """Counts without a common divisor and limits equal to frequencies: one bucket of 1,009 records."""
    counts = {"a": 500, "b": 300, "c": 209}
    plan = dalenius.plan(counts, {"beta": 0})
    assert str(plan.solution.setting) == "1 x 1009"
    assert plan.solution.max_size == 1009
    assert plan.status == "optimal"


def test_anatomy_is_reported_even_where_it_is_not_private() -> None:
    plan = dalenius.plan(COUNTS, {"Flu": 1, "HIV": "0.2"}, method="anatomy")
    assert plan.status == "infeasible"
    assert str(plan.solution.setting) == "20 x 5"
    assert any("not eligible for 5-diversity" in note for note in plan.notes)


def test_anatomy_where_it_is_private() -> None:
    plan = dalenius.plan({str(i): 10 for i in range(11)}, {"l_diversity": 9}, method="anatomy")
    assert plan.status in {"optimal", "feasible"}
    assert str(plan.solution.setting) == "10 x 9 + 2 x 10"


def test_two_size_is_only_called_optimal_where_it_is() -> None:
    counts = {f"v{i}": 10 * (i + 1) for i in range(20)}
    limits = {"theta": 2, "base": "0.02"}
    two, best = dalenius.plan(counts, limits, method="two-size"), dalenius.plan(counts, limits, gap=0)
    assert two.solution.loss is not None
    assert best.solution.loss is not None
    assert best.status == "optimal"
    assert two.solution.loss > best.solution.loss
    assert two.status == "feasible"
    assert two.solution.bound is not None
    assert two.solution.bound <= best.solution.loss


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "no method 'best'"),
        ({"min_size": 0}, "at least 1, got 0"),
        ({"max_size": 0}, "at least 1, got 0"),
        ({"min_size": 9, "max_size": 8}, "9 is above the largest, 8"),
        ({"min_size": 101}, "above the number of records, 100"),
        ({"gap": -1}, "gap must be"),
        ({"gap": "0.1"}, "gap must be a number, got str"),
        ({"max_size": 5.0}, "whole number, got float"),
        ({"gap": 1}, "gap must be"),
        ({"time_limit": 0}, "time limit must be"),
        ({"known_records": -1}, "known records must be at least 0, got -1"),
        ({"known_records": 100}, "knows all 100 of the table"),
        ({"known_records": True}, "whole number, got bool"),
        ({"fake_values": 1.0}, "whole number, got float"),
        ({"fake_values": 10**6}, "more than the 1,000"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dalenius.plan(COUNTS, {"uniform": 1}, **options)


def test_wrong_inputs() -> None:
    with pytest.raises(UsageError, match="sensitive column is not named"):
        dalenius.plan(pandas.DataFrame({"x": [1]}), {"uniform": 1})
    with pytest.raises(PolicyError, match="must be a LimitPolicy or a dict"):
        dalenius.plan(COUNTS, "0.1")  # type: ignore[arg-type]
    with pytest.raises(CountsError, match="has the type float, and a whole number is needed"):
        dalenius.plan({"a": 1.5}, {"uniform": 1})
    with pytest.raises(CountsError, match="make a DataFrame") as error:
        dalenius.plan({"Disease": ["secret"]}, {"uniform": 1})
    assert "secret" not in str(error.value)
    with pytest.raises(InputError, match="null"):
        dalenius.plan({None: 3}, {"uniform": 1})
    with pytest.raises(CountsError, match="more than one count"):
        dalenius.plan({1: 1, "1": 2}, {"uniform": 1})


def test_needed_by_names_the_smallest_bucket_that_may_hold_a_value() -> None:
    plan = dalenius.plan(COUNTS, {"Flu": 1, "HIV": "0.2"})
    assert {group.size: values for group, values in plan.needed_by().items()} == {2: ("Flu",), 5: ("HIV",)}


def test_all_errors_have_one_root() -> None:
    assert issubclass(UndecidedError, dalenius.DaleniusError)
    with pytest.raises(dalenius.DaleniusError):
        dalenius.plan({}, {"uniform": 1})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"theta": 8, "bas": "0.1"}, "'bas' is not a rule"),
        ({"thta": 8}, "Did you mean 'theta'"),
        ({"theta": 8, "Flu": "0.5"}, "limits of single values go under 'values'"),
        ({"theta": 8, "values": ["HIV"]}, "values must be a dict"),
        ({"Ebola": 1}, "'Ebola', which does not occur"),
    ],
)
def test_policies_with_slips(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        dalenius.plan(COUNTS, limits)


def test_policies_made_by_hand_are_checked_too() -> None:
    with pytest.raises(PolicyError, match="at most 1, got 2"):
        dalenius.LimitPolicy(uniform=Fraction(2))
    with pytest.raises(PolicyError, match=r"Use LimitPolicy\.of"):
        dalenius.LimitPolicy(uniform=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"min_size": 10}, {"max_size": 3}])
def test_anatomy_keeps_to_the_range_of_sizes(options: dict[str, int]) -> None:
    counts = dict.fromkeys("abcd", 25)
    plan = dalenius.plan(counts, {"uniform": "0.25"}, method="anatomy", **options)  # type: ignore[arg-type]
    assert plan.status == "infeasible"
    assert any("not in the range of sizes" in note for note in plan.notes)


def test_tight_limits_end_in_an_answer() -> None:
    """theta = 1 makes limits equal to frequencies: numerically hard, and one bucket always does."""
    plan = dalenius.plan({"a": 1015, "b": 2623, "c": 2658}, {"theta": 1})
    assert str(plan.solution.setting) == "1 x 6296"


def test_limits_beyond_every_searched_size_leave_one_bucket() -> None:
    plan = dalenius.plan({"a": 10**12, "b": 1}, {"a": 1, "b": "1e-9"})
    assert plan.solution.setting is not None
    assert plan.solution.setting.records == 10**12 + 1
    assert plan.status == "feasible"
    assert any("one bucket holds everybody" in note for note in plan.notes)
    with pytest.raises(UsageError, match="the largest that Dalenius searches"):
        dalenius.plan({"a": 10**12, "b": 1}, {"uniform": 1}, max_size=10**9)


def test_known_records_and_fakes_and_what_they_cost() -> None:
    counts = dict.fromkeys("abcdef", 20)
    plain = dalenius.plan(counts, {"uniform": "1/4"})
    assert plain.unprotected is None
    plan = dalenius.plan(counts, {"uniform": "1/4"}, known_records=1, fake_values=1)
    assert str(plan.solution.setting) == "24 x 5"
    assert plan.problem.min_size == 5
    assert plan.unprotected is not None
    assert plan.unprotected.loss == plain.solution.loss == 270
    assert plan.needed_by()[SizeGroup(5, 24)] == tuple("abcdef")
    assert plan.solution.partition is not None
    assert plan.solution.partition.fakes == ()
    full = draw_fakes(plan.problem, plan.solution.partition)
    assert full.slots == ((24,),) * 6


@pytest.mark.parametrize("method", ["optimal", "two-size", "multi-size", "anatomy"])
def test_every_method_plans_for_known_records_and_fakes(method: str) -> None:
    counts = {str(i): 100 + i for i in range(12)}
    plan = dalenius.plan(counts, {"uniform": "1/6"}, method=method, known_records=1, fake_values=2)
    assert plan.status in {"optimal", "feasible"}
    assert plan.solution.partition is not None
    assert plan.unprotected is not None
    assert plan.unprotected.loss is not None
    assert plan.solution.loss is not None
    assert plan.unprotected.loss < plan.solution.loss
    full = draw_fakes(plan.problem, plan.solution.partition)
    assert full.fake_values == 2


def test_limits_too_tight_for_fakes_in_proportion_leave_one_bucket() -> None:
    """a has no room for a fake of its own: one bucket has, with fakes of b and c."""
    counts, limits = {"a": 50, "b": 30, "c": 20}, {"a": "1/2", "b": "2/5", "c": "2/5"}
    plan = dalenius.plan(counts, limits, fake_values=1)
    assert str(plan.solution.setting) == "1 x 100"
    assert any("too tight for fake values in proportion" in note for note in plan.notes)
    assert plan.solution.partition is not None
    full = draw_fakes(plan.problem, plan.solution.partition)
    assert sum(row[0] for row in full.fakes) == 1
    assert full.fakes[0] == (0,)
    narrow = dalenius.plan(counts, limits, fake_values=1, max_size=50)
    assert narrow.no_solution is not None
    assert (narrow.no_solution.reason, narrow.no_solution.smallest_max_size) == ("max-size", 100)


def test_no_room_for_fakes() -> None:
    plan = dalenius.plan({"a": 50, "b": 50}, {"uniform": "1/2"}, fake_values=1)
    assert plan.no_solution is not None
    assert plan.no_solution.reason == "no-room-for-fakes"
    assert plan.unprotected is None


def test_not_eligible_with_known_records() -> None:
    plan = dalenius.plan({"Flu": 3, "HIV": 1}, {"Flu": "3/4", "HIV": 1}, known_records=1)
    assert plan.no_solution is not None
    (value,) = plan.no_solution.ineligible
    assert (value.value, value.smallest_limit) == ("Flu", Fraction(1))


def many_values() -> dict[str, int]:
    return {f"v{i}": 1 + (i * 7919) % 2999 for i in range(400)}


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        ({"theta": 2}, {"time_limit": 1}),  # it does not even begin
        ({"uniform": "0.2"}, {"time_limit": 1e-6, "max_size": 5000}),
    ],
)
def test_a_method_that_does_not_finish_says_so(limits: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(UndecidedError, match="takes longer than the time limit"):
        dalenius.plan(many_values(), limits, method="two-size", **options)


def test_a_time_limit_inside_the_relaxation_leaves_a_plan(clock: Clock) -> None:
    clock.step = 0.05
    plan = dalenius.plan(many_values(), {"theta": "1.5", "base": 0}, time_limit=0.2)
    assert plan.solution.setting is not None
    assert plan.solution.setting.records == sum(many_values().values())
    assert plan.solution.bound is None or plan.solution.bound <= plan.solution.setting.loss


def test_a_comparison_survives_a_method_that_does_not_finish(clock: Clock) -> None:
    clock.step = 0.01
    counts = ValueCounts.of(many_values().items())
    policy = dalenius.LimitPolicy.of(theta=2)
    plans = compare_counts(counts, policy, ["optimal", "two-size"], PlanOptions(time_limit=3))
    assert plans[0].status != "infeasible"
    assert plans[1].no_solution is not None
    assert plans[1].no_solution.reason == "undecided"
