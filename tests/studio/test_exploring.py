"""Quick answers are valid and say what they are; exact ones are those of `plan`; what is offered can be had."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import PolicyError
from dalenius.model.exposure import exposure_sentence
from dalenius.model.plan import Method, PlanOptions, Status
from dalenius.model.problem import BucketSetting, ValueCounts
from dalenius.planning import compare_counts, plan_counts, prepare_problem
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.solve.two_size import find_two_size_setting
from dalenius.studio.exploration import Curve, Exploration, exploration_object
from dalenius.studio.explorer import CURVE, Explorer
from dalenius.studio.offers import rounded_up
from tests.effort import examples

HOSPITAL = ValueCounts.of([("Flu", 900), ("Asthma", 400), ("Diabetes", 250), ("Cancer", 60), ("HIV", 20)])


def generated(values: int, shape: str, records: int = 200_000, seed: int = 1) -> ValueCounts:
    rng = np.random.default_rng(seed)
    weights = {
        "zipf": 1 / np.arange(1, values + 1) ** 1.1,
        "lognormal": rng.lognormal(0, 1.5, values),
        "equal": np.ones(values),
    }[shape]
    counts = np.maximum(1, weights / weights.sum() * records).astype(int)
    return ValueCounts.of((f"v{k:04d}", int(count)) for k, count in enumerate(counts))


def holds(counts: ValueCounts, limits: tuple[Fraction, ...], setting: BucketSetting, options: PlanOptions) -> bool:
    """Whether records, with fakes in proportion, can fill the buckets within the limits: a maximum flow by networkx.

    In units of 1 / lcm of a record, so that fakes in proportion are whole, and with a record's worth of tolerance for
    the rooms that `solve.caps` rounds up.
    """
    known, fakes = options.known_records, options.fake_values
    graph: Any = nx.DiGraph()
    scale = math.lcm(*(group.size + fakes for group in setting.groups)) if fakes else 1
    for value, (count, limit) in enumerate(zip(counts.counts, limits, strict=True)):
        graph.add_edge("records", ("value", value), capacity=count * scale)
        for place, group in enumerate(setting.groups):
            most = math.floor(limit * max(0, group.size - known))
            room = Fraction(most * group.size * scale, group.size + fakes) * group.buckets
            graph.add_edge(("value", value), ("size", place), capacity=math.floor(room) + (scale if fakes else 0))
    for place, group in enumerate(setting.groups):
        graph.add_edge(("size", place), "buckets", capacity=group.records * scale)
    return setting.records == counts.total and nx.maximum_flow_value(graph, "records", "buckets") == (
        counts.total * scale
    )


def check(answer: Exploration, counts: ValueCounts, policy: LimitPolicy, options: PlanOptions) -> None:
    """Whatever was asked, the answer is true."""
    if answer.setting is None:
        assert answer.status in ("infeasible", "undecided")
        assert answer.obstacle is not None
        return
    assert answer.status in ("optimal", "feasible")
    limits = resolve_limits(policy, counts).limits
    assert holds(counts, limits, answer.setting, options)
    if answer.bound is not None:
        assert answer.bound <= answer.setting.loss
    own = dict(zip(answer.values, answer.limits, strict=True))
    assert [own[value] for value in counts.values] == list(limits)
    for limit, worst in zip(answer.limits, answer.worst, strict=True):
        assert limit is not None
        assert worst is not None
        assert 0 < worst <= limit + Fraction(1, 10**12)


RULES: list[dict[str, Any]] = [
    {"odds": 4},
    {"theta": 8, "base": "0.02"},
    {"theta": 2, "base": "0.01"},
    {"theta": 16, "base": 0},
    {"theta": 4, "base": "0.001"},
    {"theta": "1.2"},
    {"beta": 3},
    {"beta": 1},
    {"uniform": "0.2"},
    {"l_diversity": 5},
]


@pytest.mark.parametrize("shape", ["zipf", "lognormal", "equal"])
@pytest.mark.parametrize("values", [3, 50, 300])
def test_quick_answers_are_valid_under_every_rule(values: int, shape: str) -> None:
    counts = generated(values, shape)
    explorer, options = Explorer(counts), PlanOptions()
    for rule in RULES:
        policy = LimitPolicy.of(**rule)
        answer = explorer.quick(policy)
        check(answer, counts, policy, options)
        possible = prepare_problem(counts, policy, options)[1]
        eligible = all(
            count <= limit * counts.total for count, limit in zip(counts.counts, possible.limits, strict=True)
        )
        assert (answer.setting is not None) == eligible  # one bucket of everybody is always there


@pytest.mark.parametrize("shape", ["zipf", "lognormal"])
def test_quick_answers_are_near_the_exact_ones(shape: str) -> None:
    counts = generated(120, shape)
    explorer = Explorer(counts)
    for rule in RULES[:4]:
        policy = LimitPolicy.of(**rule)
        quick = explorer.quick(policy).setting
        best = plan_counts(counts, policy).solution.loss
        assert quick is not None
        assert best is not None
        assert best * (1 - 1e-4) <= quick.loss <= 1.1 * best


def test_one_limit_after_the_other() -> None:
    """A slider that moves: every answer is for the limits of its own question, whatever was asked before."""
    counts = generated(60, "zipf")
    explorer, options = Explorer(counts), PlanOptions()
    for step in range(12):
        policy = LimitPolicy.of(theta=8 - Fraction(step, 2), base="0.02", values={"v0007": Fraction(20 + step, 100)})
        check(explorer.quick(policy), counts, policy, options)
    for step in range(12):
        policy = LimitPolicy.of(theta=2, base="0.02", values={"v0055": Fraction(1 + 8 * step, 100)})
        check(explorer.quick(policy), counts, policy, options)


small_counts = (
    st.lists(st.integers(1, 60), min_size=1, max_size=6)
    .filter(lambda numbers: sum(numbers) > 1)
    .map(lambda numbers: ValueCounts.of((f"v{k}", number) for k, number in enumerate(numbers)))
)
shares = st.integers(1, 40).map(lambda number: Fraction(number, 40))


@st.composite
def policies(draw: st.DrawFn, counts: ValueCounts) -> LimitPolicy:
    rule = draw(
        st.fixed_dictionaries({"odds": st.integers(1, 16), "floor": shares.filter(lambda share: share < 1)})
        | st.fixed_dictionaries({"theta": st.integers(0, 6), "base": shares})
        | st.fixed_dictionaries({"uniform": shares})
        | st.fixed_dictionaries({"l_diversity": st.integers(1, 5)})
        | st.fixed_dictionaries({"beta": st.integers(0, 4)})
    )
    named = draw(st.dictionaries(st.sampled_from(counts.values), shares, max_size=3))
    return LimitPolicy.of(**rule, values=named)


@st.composite
def plan_options(draw: st.DrawFn, total: int) -> PlanOptions:
    known = draw(st.integers(0, 2)) if total > 3 else 0
    largest = draw(st.none() | st.integers(2, total))
    smallest = draw(st.none() | st.integers(1, largest or total))
    return PlanOptions(smallest, largest, known_records=known, fake_values=draw(st.integers(0, 2)))


@settings(max_examples=examples(150))
@given(st.data())
def test_what_calls_itself_exact_is_what_plan_finds(data: st.DataObject) -> None:
    counts = data.draw(small_counts)
    policy, options = data.draw(policies(counts)), data.draw(plan_options(counts.total))
    answer = Explorer(counts).quick(policy, options)
    check(answer, counts, policy, options)
    plan = plan_counts(counts, policy, Method.OPTIMAL, options)
    found = None if plan.status is Status.INFEASIBLE else plan.solution.setting
    if answer.exact:
        assert answer.setting == found
        assert answer.bound == plan.solution.bound
    if found is None:
        assert answer.setting is None
    elif options.max_size is None:
        assert answer.setting is not None
    if (
        answer.setting is not None
        and found is not None
        and plan.solution.bound is not None
        and answer.bound is not None
    ):
        assert answer.setting.loss >= plan.solution.bound or answer.setting.groups[-1].size > plan.solution.max_size


@settings(max_examples=examples(60))
@given(st.data())
def test_exact_answers_are_those_of_plan(data: st.DataObject) -> None:
    counts = data.draw(small_counts)
    policy, options = data.draw(policies(counts)), data.draw(plan_options(counts.total))
    explorer = Explorer(counts)
    if data.draw(st.booleans()):
        explorer.quick(policy, options)  # what was asked before makes no difference
    answer = explorer.explore(policy, options, exact=True)
    plan = plan_counts(counts, policy, Method.OPTIMAL, options)
    assert answer.exact
    assert answer.status == ("infeasible" if plan.no_solution is not None else str(plan.status))
    assert answer.setting == (None if plan.status is Status.INFEASIBLE else plan.solution.setting)
    assert answer.bound == plan.solution.bound
    assert answer.notes == plan.notes
    without = plan.unprotected
    assert (answer.unprotected and answer.unprotected.loss) == (without and without.loss)
    assert explorer.quick(policy, options).setting == answer.setting
    assert explorer.quick(policy, options).exact


@pytest.mark.parametrize("rule", RULES[:4])
def test_plan_is_the_same_whenever_it_is_asked(rule: dict[str, Any]) -> None:
    counts = generated(150, "lognormal")
    first, second = (plan_counts(counts, LimitPolicy.of(**rule)).solution for _ in range(2))
    assert first.setting == second.setting
    assert first.partition == second.partition
    assert first.bound == second.bound


@settings(max_examples=examples(150))
@given(st.data())
def test_what_is_offered_can_be_had(data: st.DataObject) -> None:
    counts = data.draw(small_counts)
    policy, options = data.draw(policies(counts)), data.draw(plan_options(counts.total))
    answer = Explorer(counts).explore(policy, options, exact=data.draw(st.booleans()))
    if answer.obstacle is None or answer.obstacle.offer is None:
        return
    offer = answer.obstacle.offer
    assert offer.values or offer.solve
    for value, text in offer.values.items():
        place = answer.values.index(value)
        before = answer.limits[place]
        assert before is not None
        assert before <= Fraction(text) <= 1
    taken = replace(policy, values={**policy.values, **{value: Fraction(text) for value, text in offer.values.items()}})
    plan = plan_counts(counts, taken, Method.OPTIMAL, replace(options, **(offer.solve or {})))
    assert plan.no_solution is None
    assert plan.solution.setting is not None


@given(small_counts, st.data())
def test_there_is_an_offer_wherever_limits_alone_are_to_blame(counts: ValueCounts, data: st.DataObject) -> None:
    policy = data.draw(policies(counts))
    answer = Explorer(counts).quick(policy)
    if answer.obstacle is not None and answer.obstacle.kind == "not-eligible":
        assert answer.obstacle.offer is not None
        assert set(answer.obstacle.offer.values) == set(answer.obstacle.values)
        assert [not own for own in answer.eligible] == [limit is not None for limit in answer.smallest]
        for value, text in answer.obstacle.offer.values.items():
            least = answer.smallest[answer.values.index(value)]
            assert least is not None
            assert least <= Fraction(text) <= least * Fraction(101, 100)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=1))
def test_limits_are_rounded_up_by_little(limit: Fraction) -> None:
    text = rounded_up(limit)
    assert limit <= Fraction(text) <= limit * Fraction(101, 100)
    assert Fraction(text) < 1 or limit == 1
    assert "/" in text or len(text.lstrip("0.")) <= 3


def test_an_offer_of_larger_buckets() -> None:
    policy, options = LimitPolicy.of(theta=2, base="0.01"), PlanOptions(max_size=10)
    exact = Explorer(HOSPITAL).explore(policy, options, exact=True)
    assert exact.obstacle is not None
    assert exact.obstacle.kind == "max-size"
    assert exact.obstacle.offer is not None
    assert exact.obstacle.offer.solve is not None
    size = exact.obstacle.offer.solve["max_size"]
    assert plan_counts(HOSPITAL, policy, options=PlanOptions(max_size=size)).no_solution is None
    assert plan_counts(HOSPITAL, policy, options=PlanOptions(max_size=size - 1)).no_solution is not None


def test_an_offer_of_room_for_fakes() -> None:
    counts = ValueCounts.of([("a", 5), ("b", 5)])
    policy, options = LimitPolicy.of(uniform="1/2"), PlanOptions(fake_values=2)
    answer = Explorer(counts).quick(policy, options)
    assert answer.obstacle is not None
    assert answer.obstacle.kind == "no-room-for-fakes"
    assert answer.obstacle.offer is not None
    limits = {value: Fraction(text) for value, text in answer.obstacle.offer.values.items()}
    assert plan_counts(counts, LimitPolicy(values=limits), options=options).no_solution is None
    lower = {value: limit - Fraction(1, 50) for value, limit in limits.items()}
    assert plan_counts(counts, LimitPolicy(values=lower), options=options).no_solution is not None


def test_peers_are_those_of_a_comparison() -> None:
    for rule in RULES[:4]:
        policy = LimitPolicy.of(**rule)
        answer = Explorer(HOSPITAL).explore(policy, exact=True)
        _, two, anatomy = compare_counts(HOSPITAL, policy, [Method.OPTIMAL, Method.TWO_SIZE, Method.ANATOMY])
        for name, plan in (("two-size", two), ("anatomy", anatomy)):
            peer = answer.peers[name]
            assert peer is not None
            assert peer.setting == plan.solution.setting
            assert (peer.status == "infeasible") == (plan.status is Status.INFEASIBLE)
        shown = exploration_object(answer)
        assert answer.setting is not None
        assert two.solution.loss is not None
        assert shown["gain"]["two-size"] == pytest.approx(two.solution.loss / answer.setting.loss)


def test_the_value_that_forces_large_buckets_and_what_its_limit_costs() -> None:
    policy = LimitPolicy.of(uniform="0.6", values={"HIV": "0.02"})
    answer = Explorer(HOSPITAL).explore(policy, exact=True)
    assert answer.forcing is not None
    assert answer.setting is not None
    assert answer.forcing.value == "HIV"
    assert answer.forcing.size == answer.setting.groups[-1].size >= 50
    assert answer.forcing.relaxed_limit == Fraction(1, 25)
    relaxed = plan_counts(HOSPITAL, LimitPolicy.of(uniform="0.6", values={"HIV": "0.04"})).solution.loss
    assert relaxed is not None
    assert answer.forcing.saves == pytest.approx(1 - relaxed / answer.setting.loss, abs=1e-3)
    quick = Explorer(HOSPITAL).quick(policy).forcing
    assert quick is not None
    assert (quick.value, quick.saves) == ("HIV", None)


def test_nothing_is_forced_without_limits() -> None:
    answer = Explorer(HOSPITAL).explore(LimitPolicy.of(uniform=1), exact=True)
    assert answer.setting == BucketSetting.of([(2, HOSPITAL.total // 2)])
    assert answer.forcing is None


def test_the_price_of_protection() -> None:
    policy, options = LimitPolicy.of(theta=3, base="0.05"), PlanOptions(known_records=1, fake_values=1)
    explorer = Explorer(HOSPITAL)
    assert explorer.quick(policy, options).unprotected is None  # nobody knows yet
    without = plan_counts(HOSPITAL, policy).solution
    exact = explorer.explore(policy, options, exact=True)
    assert exact.unprotected is not None
    assert exact.unprotected.loss == without.loss
    other = Explorer(HOSPITAL)
    assert other.explore(policy, PlanOptions(), exact=True).exact
    assert other.quick(policy, options).unprotected == exact.unprotected
    shown = exploration_object(exact)["price"]
    assert exact.setting is not None
    assert without.loss is not None
    assert shown["ratio"] == pytest.approx(exact.setting.loss / without.loss)


@pytest.mark.parametrize(
    ("policy", "options", "kind"),
    [
        (LimitPolicy.of(values={"HIV": "0.1"}), PlanOptions(), "policy"),
        (LimitPolicy.of(theta=0), PlanOptions(), "policy"),
        (LimitPolicy.of(uniform="0.6"), PlanOptions(min_size=5, max_size=2), "usage"),
        (LimitPolicy.of(uniform="0.6"), PlanOptions(known_records=10**6), "usage"),
    ],
)
def test_questions_that_make_no_sense_are_answered(policy: LimitPolicy, options: PlanOptions, kind: str) -> None:
    for exact in (False, True):
        answer = Explorer(HOSPITAL).explore(policy, options, exact=exact)
        assert answer.status == "infeasible"
        assert answer.obstacle is not None
        assert answer.obstacle.kind == kind
        assert answer.values == ("Flu", "Asthma", "Diabetes", "Cancer", "HIV")
        json.dumps(exploration_object(answer), allow_nan=False)
    assert answer.limits[-1] == policy.values.get("HIV", policy.rule_limit(20, HOSPITAL.total))


def test_limits_that_are_no_numbers() -> None:
    answer = Explorer(HOSPITAL).refusal(PolicyError("theta must be a decimal"))
    assert answer.obstacle is not None
    assert (answer.obstacle.kind, answer.obstacle.message) == ("policy", "theta must be a decimal")
    assert answer.limits == (None,) * 5


def test_the_object_has_everything_in_the_order_of_counts() -> None:
    counts = ValueCounts.of([("b", 30), ("a", 30), ("<i>", 90), ("z", 200)])
    policy = LimitPolicy.of(theta=3, base="0.1")
    shown = exploration_object(Explorer(counts).explore(policy, exact=True))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["values"] == ["z", "<i>", "a", "b"]
    assert shown["counts"] == [200, 90, 30, 30]
    assert shown["exact_limits"] == ["1", "61/70", "5/14", "5/14"]
    assert shown["limits"] == [1.0, pytest.approx(61 / 70), pytest.approx(5 / 14), pytest.approx(5 / 14)]
    assert (shown["n"], shown["m"], shown["exact"], shown["status"]) == (350, 4, True, "optimal")
    assert sum(group["records"] for group in shown["setting"]) == 350
    assert sum(group["loss"] for group in shown["setting"]) == shown["loss"]
    assert shown["mse"] == pytest.approx(shown["loss"] / 349)
    plan = plan_counts(counts, policy)
    assert [group["needed_by_number"] for group in shown["setting"]] == [len(v) for v in plan.needed_by().values()]
    for group, needed in zip(shown["setting"], plan.needed_by().values(), strict=True):
        assert set(group["needed_by"]) <= set(needed)
    assert plan.exposure is not None
    assert plan.error is not None
    by_value = {value.value: value for value in plan.exposure.values}
    exposure = shown["exposure"]
    assert exposure["bands"] == list(plan.exposure.bands)
    assert sum(exposure["bands"]) == exposure["people"] == 350
    assert exposure["sentence"] == exposure_sentence(plan.exposure)
    assert (exposure["outright"], exposure["mean"]) == (plan.exposure.outright, plan.exposure.mean)
    assert exposure["highest"] == max(by_value[value].highest for value in shown["values"])
    for at, value in enumerate(shown["values"]):
        assert exposure["by_value"]["outright"][at] == by_value[value].outright
        assert exposure["by_value"]["mean"][at] == pytest.approx(by_value[value].mean, abs=1e-6)
        assert exposure["by_value"]["highest"][at] == pytest.approx(float(by_value[value].highest), abs=1e-6)
    assert shown["count_error"] == plan.error.as_object()
    assert set(shown["peers"]) == set(shown["gain"]) == {"two-size", "anatomy"}
    keys = """exact status n m values counts limits exact_limits eligible smallest worst groups setting loss mse bound
        gap peers gain price forcing exposure count_error problem notes seconds"""
    assert set(shown) == set(keys.split())


def test_answers_to_other_odds_are_not_mixed_up() -> None:
    explorer = Explorer(HOSPITAL)
    for rule in ({"odds": 2}, {"odds": 8}, {"odds": 8, "floor": "0.1"}):
        policy = LimitPolicy.of(**rule)
        answer = explorer.explore(policy, exact=True)
        assert answer.setting == plan_counts(HOSPITAL, policy).solution.setting
        assert explorer.quick(policy).setting == answer.setting


def test_the_trade_off_is_that_of_plan() -> None:
    """More odds show more of people, and cost less."""
    counts, floor, options = generated(20, "zipf"), Fraction(1, 50), PlanOptions(known_records=1)
    explorer = Explorer(counts)
    curve = Curve(LimitPolicy.of(odds=1, floor=floor))
    points = explorer.trade_off(curve, options)
    assert tuple(point.odds for point in points) == CURVE
    for point in points:
        plan = plan_counts(counts, LimitPolicy.of(odds=point.odds, floor=floor), options=options)
        assert plan.exposure is not None
        assert plan.error is not None
        assert point.exposure == pytest.approx(plan.exposure.mean, rel=0.1)
        assert point.error == pytest.approx(plan.error.typical, rel=0.05)
    assert points[0].exposure < points[-1].exposure
    assert explorer.known_trade_off(curve, options) is None
    explorer.learn_trade_off(curve, options, points)
    assert explorer.known_trade_off(curve, options) == points
    assert explorer.known_trade_off(curve, PlanOptions()) is None


def test_a_trade_off_leaves_out_what_cannot_be_kept() -> None:
    two = ValueCounts.of([("yes", 50), ("no", 50)])
    points = Explorer(two).trade_off(Curve(LimitPolicy.of(odds=1, floor=0)), PlanOptions(max_size=2, known_records=1))
    assert points == ()


def test_what_another_explorer_found_is_not_learned() -> None:
    answer = Explorer(HOSPITAL).explore(LimitPolicy.of(uniform="0.6"), exact=True)
    other = Explorer(ValueCounts.of([("x", 3), ("y", 3)]))
    other.learn(answer, LimitPolicy.of(uniform="0.6"))
    assert other.quick(LimitPolicy.of(uniform="0.6")).values == ("x", "y")


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 60), (1, 300)])
def test_the_larger_of_two_sizes_holds_every_value(sizes: tuple[int, int]) -> None:
    """Pairs of sizes that are left out, because some value fits in neither, have no setting."""
    counts = ValueCounts.of([("a", 400), ("b", 90), ("c", 9), ("d", 1)])
    policy = LimitPolicy.of(theta=2, base="0.01")
    _, problem = prepare_problem(counts, policy, PlanOptions(min_size=sizes[0], max_size=sizes[1]))
    setting = find_two_size_setting(problem)
    needed = max(-(-limit.denominator // limit.numerator) for limit in problem.limits)
    assert setting is None or setting.groups[-1].size >= needed
