from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

import dalenius
from dalenius.errors import PolicyError
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.planning import prepare_problem
from dalenius.policy.banding import with_bands_as_values
from dalenius.policy.limits import LimitPolicy, ResolvedLimits, resolve_limits

COUNTS = ValueCounts.of([("C50", 6), ("C51", 4), ("A01", 20), ("A02", 60), ("E11", 10)])  # A01, A02, C50, C51, E11
TREE = {"tree": {"any cancer": {"breast": ["C50"], "vulva": ["C51"]}, "any infection": ["A01", "A02"], "E": ["E11"]}}


def resolve(**policy: Any) -> ResolvedLimits:
    return resolve_limits(LimitPolicy.of(**policy), COUNTS)


def limits(**policy: Any) -> dict[str, Fraction | None]:
    groups = resolve(**policy).groups
    assert groups is not None
    return {group.name: group.limit for group in groups.groups}


def by_odds(odds: int, frequency: str) -> Fraction:
    share = Fraction(frequency)
    return odds * share / (1 - share + odds * share)


def test_the_rule_is_for_groups_of_every_level() -> None:
    assert limits(odds=4, grouping=TREE) == {
        "any infection": by_odds(4, "0.8"),
        "any cancer": by_odds(4, "0.1"),
        "breast": by_odds(4, "0.06"),
        "vulva": by_odds(4, "0.04"),
        "E": by_odds(4, "0.1"),
    }
    assert resolve(odds=4, grouping=TREE).limits == resolve(odds=4).limits


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        ({"uniform": "0.3"}, "0.3"),
        ({"l_diversity": 4}, "0.25"),
        ({"theta": 2, "base": "0.05"}, "0.25"),
        ({"beta": 3}, "0.4"),
    ],
)
def test_every_rule_is_for_groups(rule: dict[str, Any], limit: str) -> None:
    assert limits(**rule, grouping=TREE)["any cancer"] == Fraction(limit)


def test_a_level_may_have_another_rule_or_none() -> None:
    found = limits(odds=4, grouping=TREE, levels={"level 1": {"odds": 2}, "level 2": "none"})
    assert found["any cancer"] == by_odds(2, "0.1")
    assert found["breast"] is None


def test_limits_by_name_go_before_every_rule() -> None:
    found = limits(odds=4, grouping=TREE, groups={"any cancer": "0.2", "breast": 1}, levels={"level 2": "none"})
    assert (found["any cancer"], found["breast"], found["vulva"]) == (Fraction(1, 5), Fraction(1), None)


def test_without_a_rule_groups_have_no_limit() -> None:
    values = dict.fromkeys(COUNTS.values, "0.9")
    assert set(limits(values=values, grouping=TREE).values()) == {None}


def test_the_limit_of_a_group_covers_its_values() -> None:
    found = resolve(grouping=TREE, groups={"any cancer": "0.2", "any infection": "0.9"}, values={"E11": "0.3"})
    assert found.limits == (*[Fraction(1)] * 4, Fraction(3, 10))
    assert found.tightest == (Fraction(9, 10), Fraction(9, 10), Fraction(1, 5), Fraction(1, 5), Fraction(3, 10))


def test_what_no_limit_covers_is_listed() -> None:
    with pytest.raises(PolicyError, match="no limit covers 1 of 5 sensitive values: 'E11'"):
        resolve(grouping=TREE, groups={"any cancer": "0.2", "any infection": "0.9"})
    with pytest.raises(PolicyError, match="no limit covers 2 of 5 sensitive values: 'A01', 'A02'"):
        resolve(grouping=TREE, groups={"any cancer": "0.2", "any infection": 1, "E": "0.5"})


@pytest.mark.parametrize(
    ("policy", "message", "hint"),
    [
        ({"groups": {"any cancre": "0.2"}}, "no group 'any cancre'", "Did you mean 'any cancer'"),
        ({"levels": {"level 3": "none"}}, "no level 'level 3'", "Did you mean 'level"),
        ({"groups": {"any cancer": 2}}, "the limit of the group 'any cancer'", "at most 1|largest probability"),
        ({"levels": {"level 1": {"ods": 2}}}, "'ods' is not a rule", "Did you mean 'odds'"),
        ({"levels": {"level 1": "all"}}, "must have a rule, or 'none'", "odds = 8"),
        ({"levels": {"level 1": LimitPolicy.of(values={"A01": 1})}}, "must be a rule alone", "in the policy itself"),
    ],
)
def test_limits_that_make_no_sense(policy: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(PolicyError, match=message) as error:
        resolve(odds=8, grouping=TREE, **policy)
    assert error.value.hint is not None
    assert re.search(hint, error.value.hint)


def test_limits_on_groups_need_groups() -> None:
    with pytest.raises(PolicyError, match="nothing says what the groups are"):
        LimitPolicy.of(odds=8, groups={"any cancer": "0.2"})


def test_groups_of_a_classification_go_by_name_or_by_codes() -> None:
    name = "Neoplasms (C00-D49)"
    assert limits(odds=8, grouping="icd10", groups={"c00-d49": "0.2"})[name] == Fraction(1, 5)
    assert limits(odds=8, grouping="icd10", groups={name: "0.2"})[name] == Fraction(1, 5)
    assert limits(odds=8, grouping="icd10", groups={"neoplasms": "0.2"})[name] == Fraction(1, 5)
    with pytest.raises(PolicyError, match="has two limits"):
        limits(odds=8, grouping="icd10", groups={name: "0.2", "C00-D49": "0.2"})
    with pytest.raises(PolicyError, match="there is no group 'C00-D48'") as error:
        limits(odds=8, grouping="icd10", groups={"C00-D48": "0.2"})
    assert error.value.hint == "Did you mean 'C00-D49'?"


@pytest.mark.parametrize(("grouping", "name"), [("icd10", "F00-F99"), ("prefix:1", "F")])
def test_a_limit_for_a_group_without_values(grouping: str, name: str) -> None:
    with pytest.raises(PolicyError, match=r"the group 'F00-F99', and no value|there is no group 'F'"):
        resolve(odds=8, grouping=grouping, groups={name: "0.2"})
    found = resolve(odds=8, grouping=grouping, groups={name: "0.2"}, allow_absent=True)
    assert found.notes == (f"the policy names the group {name!r}, and no value of the data is in it",)
    with pytest.raises(PolicyError, match="there is no group 'nonsense'"):
        resolve(odds=8, grouping="icd10", groups={"nonsense": "0.2"}, allow_absent=True)


def test_quantiles_that_fall_together_are_said() -> None:
    counts = ValueCounts.of([("1", 98), ("2", 1), ("3", 1)])
    found = resolve_limits(LimitPolicy.of(odds=8, grouping="quantiles:4"), counts)
    assert found.notes == ("there are 2 bands and not 4: too many records have the same number",)


def test_a_rule_that_gives_a_group_nothing() -> None:
    with pytest.raises(PolicyError, match="gives the group 'any infection' the limit 0"):
        resolve(odds=8, grouping=TREE, levels={"level 1": {"theta": 0}})


def test_python_callers_give_groups_in_the_dict_of_limits() -> None:
    plan = dalenius.plan(
        dict(zip(COUNTS.values, COUNTS.counts, strict=True)),
        {"odds": 8, "grouping": "icd10", "groups": {"C00-D49": "0.5"}, "levels": {"block": "none"}},
    )
    assert plan.problem.groups is not None
    limited = {group.name: group.limit for group in plan.problem.groups.groups if group.limit is not None}
    assert limited["Neoplasms (C00-D49)"] == Fraction(1, 2)
    assert len(limited) == 3
    with pytest.raises(PolicyError, match="groups must be a dict"):
        dalenius.plan({"A01": 2, "C50": 2}, {"odds": 8, "grouping": "icd10", "groups": "C00-D49"})


def test_a_group_may_be_named_like_a_value() -> None:
    """Limits of values and of groups are given apart, so nothing is ambiguous."""
    found = resolve(odds=8, grouping="prefix:3", values={"C50": "0.3"}, groups={"C50": "0.2"})
    assert found.groups is not None
    assert found.limits[2] == Fraction(3, 10)
    assert found.groups.groups[found.groups.of_value[2]].limit == Fraction(1, 5)


def test_the_smallest_bucket_goes_by_the_tightest_limits() -> None:
    policy = LimitPolicy.of(grouping="prefix:1", levels={"prefix 1": {"uniform": "1/60"}})
    _, problem = prepare_problem(COUNTS, policy, PlanOptions())
    assert (problem.min_size, problem.max_size) == (60, 60)
    assert problem.limits == (Fraction(1),) * 5


NESTED = {"cuts": [[50], [50, 100], [10, 50, 100]]}


def of_bands(pairs: dict[str, int], **given: Any) -> tuple[dict[str, Fraction], dict[str, Fraction | None]]:
    """The limits of bands and of the coarser ones above them, for numbers given as texts."""
    policy, counts, _ = with_bands_as_values(LimitPolicy.of(**given).ungrouping("?"), ValueCounts.of(pairs.items()))
    found = resolve_limits(policy, counts)
    coarser = {group.name: group.limit for group in found.groups.groups} if found.groups is not None else {}
    return dict(zip(counts.values, found.limits, strict=True)), coarser


def test_coarser_bands_are_groups_of_bands() -> None:
    numbers = {"5": 10, "20": 20, "60": 30, "200": 30, "?": 10}
    bands, coarser = of_bands(numbers, beta=1, grouping=NESTED)
    share = {"below 10": 10, "10 to below 50": 20, "50 to below 100": 30, "100 and above": 30, "?": 10}
    assert bands == {name: Fraction(2 * count, 100) for name, count in share.items()}
    sums = {"below 50": 30, "50 and above": 60, "50 to below 100": 30, "100 and above": 30}
    assert coarser == {name: min(1, Fraction(2 * count, 100)) for name, count in sums.items()}


def test_rules_of_levels_of_bands() -> None:
    """A rule that is only for one level leaves the others their own; a band of two levels has the tightest."""
    numbers = {"5": 10, "20": 20, "60": 30, "200": 40}
    levels = {"band": {"uniform": "0.9"}, "level 1": "none"}
    bands, coarser = of_bands(numbers, uniform="0.8", grouping=NESTED, levels=levels)
    assert set(bands.values()) == {Fraction(9, 10)}
    assert coarser["50 and above"] is None
    assert coarser["below 50"] == coarser["50 to below 100"] == Fraction(8, 10), "of level 2 too"
    _, coarser = of_bands(numbers, uniform="0.8", grouping=NESTED, levels={"level 1": {"uniform": "0.7"}})
    assert coarser["below 50"] == Fraction(7, 10)
    with pytest.raises(PolicyError, match="the groups have no level 'level 3'"):
        of_bands(numbers, uniform="0.8", grouping=NESTED, levels={"level 3": "none"})


def test_coarser_bands_have_limits_by_name() -> None:
    numbers = {"5": 10, "20": 20, "60": 30, "200": 40}
    groups = {"50 and above": "0.75", "100 and above": "0.5", "below 10": "0.25"}
    bands, coarser = of_bands(numbers, uniform="0.9", grouping=NESTED, groups=groups)
    assert (bands["below 10"], bands["100 and above"]) == (Fraction(1, 4), Fraction(1, 2))
    assert (coarser["50 and above"], coarser["100 and above"]) == (Fraction(3, 4), Fraction(1, 2)), "on every level"
    assert of_bands(numbers, grouping=NESTED, levels={"level 1": {"uniform": "0.9"}})[1]["below 50"] == Fraction(9, 10)
    with pytest.raises(PolicyError, match="there is no group '50 or above'") as error:
        of_bands(numbers, uniform="0.9", grouping=NESTED, groups={"50 or above": "0.75"})
    assert error.value.hint == "Did you mean '50 and above'?"
    with pytest.raises(PolicyError, match="10 to below 60"):
        of_bands(numbers, uniform="0.9", grouping=NESTED, groups={"10 to below 60": "0.75"})
    with pytest.raises(PolicyError, match="'below 50', and no value of the data"):
        of_bands({"60": 30, "200": 40}, uniform="0.9", grouping=NESTED, groups={"below 50": "0.75"})
    of_bands(numbers, uniform="0.9", grouping=NESTED, groups={"50 or above": "0.75"}, allow_absent=True)
