"""Claims of proof on problems that tempt to claim too much: large ranges, tight limits, little time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dalenius
from dalenius.errors import UndecidedError
from dalenius.model.plan import Method
from dalenius.model.problem import BucketSetting, Partition, Problem, ValueCounts
from dalenius.planning import compare_counts
from dalenius.solve.caps import cap_matrix
from dalenius.solve.gale import validate_setting
from dalenius.solve.methods import solve
from dalenius.solve.optimal import find_optimum, lower_bound
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from tests.clocks import Clock
from tests.problems import acs


def two_values(parts: tuple[int, int], times: int, min_size: int, max_size: int) -> Problem:
    """Two values with limits equal to their frequencies: every bucket is a multiple of the parts' sum."""
    whole = sum(parts)
    limits = tuple(Fraction(part, whole) for part in parts)
    return Problem(("a", "b"), (parts[0] * times, parts[1] * times), limits, min_size, max_size)


def test_a_search_of_some_sizes_proves_nothing_about_the_others() -> None:
    table = two_values((100, 71), 3020, 50 * 171, 53 * 171)
    found = find_optimum(table)
    other = find_two_size_setting(table)
    assert found.setting is not None
    assert found.bound is not None
    assert other is not None
    assert found.bound <= other.loss
    assert found.setting.loss <= other.loss
    assert isinstance(validate_setting(table, found.setting), Partition)


def test_settings_outside_the_first_columns_are_found() -> None:
    table = two_values((40, 61), 47, 983, 1804)
    found = find_optimum(table)
    best = BucketSetting.of([(1111, 1), (1212, 3)])
    assert isinstance(validate_setting(table, best), Partition)
    assert found.setting is not None
    assert found.setting.loss <= best.loss


def test_the_smallest_max_size_is_the_smallest() -> None:
    table = two_values((40, 61), 47, 983, 1804)
    counts, limits = dict(zip("ab", table.counts, strict=True)), dict(zip("ab", table.limits, strict=True))
    for tried in (1000, 1111, 1200):
        plan = dalenius.plan(counts, limits, min_size=983, max_size=tried)
        assert plan.no_solution is not None
        assert plan.no_solution.is_smallest
        smallest = plan.no_solution.smallest_max_size
        assert smallest is not None
        assert dalenius.plan(counts, limits, min_size=983, max_size=smallest).status != "infeasible"
        assert dalenius.plan(counts, limits, min_size=983, max_size=smallest - 1).status == "infeasible"


def test_values_that_exceed_their_room_by_less_than_any_tolerance() -> None:
    block = 10**13 // 3
    counts = tuple(block * 3 // (i + 1) // 6 for i in range(3))
    total = sum(counts)
    limits = tuple(max(Fraction(count, total), Fraction(1, i + 2)) for i, count in enumerate(counts))
    found = find_optimum(Problem(("a", "b", "c"), counts, limits, 2, 47))
    assert found.setting is None
    assert found.certificate is not None
    assert found.certificate.proves == "no-setting"


def test_an_odd_number_of_records_has_no_buckets_of_two() -> None:
    one = Fraction(1)
    assert find_optimum(Problem(("a", "b"), (5 * 10**8, 5 * 10**8 + 1), (one, one), 2, 2)).setting is None


def test_a_proof_that_no_setting_exists_can_be_checked() -> None:
    table = Problem(("a", "b"), (9, 1), (Fraction(9, 10), Fraction(1, 5)), 2, 4)
    found = find_optimum(table)
    assert found.setting is None
    assert found.certificate is not None
    assert found.certificate.proves == "no-setting"
    assert certified_bound(table, found.certificate) == found.certificate.bound > 0


def test_a_heuristic_without_a_setting_proves_nothing() -> None:
    limits = (Fraction(5, 6), Fraction(2, 3), Fraction(1, 6))
    table = Problem(("a", "b", "c"), (10, 12, 3), limits, 2, 6)
    heuristic = solve(table, Method.TWO_SIZE, 0, 5)
    assert heuristic.setting is None
    assert heuristic.certificate is None
    assert find_optimum(table, gap=0).setting is not None


def test_a_full_proof_with_one_wide_range() -> None:
    times = 6_725_163_981
    found = find_optimum(two_values((3, 8), times, 27 * 11, 67 * 11), gap=0)
    assert found.setting is not None
    assert found.setting.loss == found.bound


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.005])
def test_a_bound_cut_short_is_weaker_and_true(seconds: float) -> None:
    proof = lower_bound(acs("Occupation", 300, 8), seconds)
    assert proof.bound is not None
    assert proof.certificate is not None
    assert 0 < proof.bound <= 1_686_811
    assert certified_bound(acs("Occupation", 300, 8), proof.certificate) == proof.certificate.bound


@pytest.mark.usefixtures("clock")
def test_many_sizes_in_use_take_little_memory() -> None:
    block = 10**8 // 300
    counts = [max(1, block * 300 // (i + 1) // 6) for i in range(300)]
    total = sum(counts)
    limits = tuple(max(Fraction(count, total), Fraction(1, i + 2)) for i, count in enumerate(counts))
    table = Problem(tuple(map(str, range(300))), tuple(counts), limits, 5, 3774)
    found = find_optimum(table, time_limit=60)
    assert found.setting is not None
    assert found.bound is not None
    assert found.bound <= found.setting.loss


def test_eligible_limits_always_have_a_plan(clock: Clock) -> None:
    clock.step = 0.1
    counts = {str(i): 10**9 + (i * 7919) % 10**6 for i in range(20)}
    total = sum(counts.values())
    limits = {value: Fraction(count, total) + Fraction(1, total**2) for value, count in counts.items()}
    plan = dalenius.plan(counts, limits, time_limit=2)
    assert str(plan.solution.setting) == f"1 x {total}"
    assert plan.status == "feasible"


def test_multi_size_keeps_what_it_has_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tuple(100 + 37 * i for i in range(30))
    total = sum(counts)
    limits = tuple(2 * Fraction(count, total) + Fraction(1, 50) for count in counts)
    table = Problem(tuple(map(str, range(30))), counts, limits, 5, 60)
    whole = solve(table, Method.TWO_SIZE, 0, 10)
    real = find_two_size_setting
    calls: list[int] = []

    def only_once(problem: Problem, deadline: float = 0.0) -> BucketSetting | None:
        calls.append(1)
        if len(calls) > 1:
            raise UndecidedError("out of time")
        return real(problem, deadline)

    monkeypatch.setattr("dalenius.solve.multi_size.find_two_size_setting", only_once)
    assert solve(table, Method.MULTI_SIZE, 0, 10).loss == whole.loss
    assert len(calls) > 1


def test_a_comparison_does_not_depend_on_the_order_of_methods() -> None:
    counts = ValueCounts.of({"a": 60, "b": 50, "c": 70, "d": 66}.items())
    policy = dalenius.LimitPolicy.of(uniform="0.5")
    one = compare_counts(counts, policy, ["optimal", "anatomy"])
    other = compare_counts(counts, policy, ["anatomy", "optimal"])
    assert {p.solution.method: p.solution.max_size for p in one} == {
        p.solution.method: p.solution.max_size for p in other
    }


def test_caps_of_fractions_beyond_64_bits() -> None:
    limits = (Fraction(29, 100), *(Fraction(k * 10**25 + 1, 7 * 10**25 + k) for k in range(1, 7)))
    sizes = np.arange(1, 3000)
    expected = [[limit.numerator * size // limit.denominator for size in sizes.tolist()] for limit in limits]
    assert cap_matrix(limits, sizes).tolist() == expected
