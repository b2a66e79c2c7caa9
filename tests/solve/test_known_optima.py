"""Every solver on problems whose optimum is known."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dalenius.model.problem import Partition, Problem
from dalenius.solve.gale import validate_setting
from dalenius.solve.multi_size import find_multi_size_setting
from dalenius.solve.optimal import find_optimum, lower_bound
from dalenius.solve.two_size import find_two_size_setting
from dalenius.verify.proof import certified_bound
from paper.two_size_paper import full_pruning, loss_pruning, no_pruning
from tests.clocks import Clock
from tests.effort import cases
from tests.problems import acs, problem

# Proven optima of the ACS 2018 counts at 300K: (column, theta) -> loss.
OPTIMA = {
    ("Occupation", 2): 5_819_212,
    ("Occupation", 8): 1_686_811,
    ("Occupation", 32): 275_815,
    ("Education", 2): 3_759_965,
    ("Education", 8): 531_287,
    ("Education", 32): 50_804,
}


@pytest.mark.parametrize(("column", "theta"), OPTIMA)
def test_acs_optimum_with_full_proof(column: str, theta: int) -> None:
    table = acs(column, 300, theta)
    found = find_optimum(table, gap=0, time_limit=3600)
    assert found.setting is not None
    assert isinstance(validate_setting(table, found.setting), Partition)
    assert found.setting.loss == found.bound == OPTIMA[column, theta]


@pytest.mark.parametrize(("column", "theta"), OPTIMA)
def test_acs_optimum_to_the_usual_gap(column: str, theta: int) -> None:
    table = acs(column, 300, theta)
    found = find_optimum(table)
    assert found.setting is not None
    assert found.bound is not None
    assert found.bound <= OPTIMA[column, theta] <= found.setting.loss
    assert found.setting.loss - found.bound <= 1e-4 * found.setting.loss
    assert found.certificate is not None
    assert certified_bound(table, found.certificate) == found.certificate.bound


@pytest.mark.parametrize(("column", "theta"), cases(*OPTIMA, usually=3))
def test_the_papers_searches_agree_on_real_counts(column: str, theta: int) -> None:
    table = acs(column, 300, theta)
    closed = find_two_size_setting(table)
    assert closed is not None
    for search in (no_pruning, loss_pruning, full_pruning):
        found = search(table)
        assert found is not None
        assert found.loss == closed.loss
    many = find_multi_size_setting(table)
    assert many is not None
    assert OPTIMA[column, theta] <= many.loss <= closed.loss


def scaled_to(total: int) -> Problem:
    counts = [count * total // 300_000 for count in acs("Occupation", 300, 8).counts]
    return problem(counts, [min(Fraction(1), 8 * Fraction(c, sum(counts)) + Fraction(1, 50)) for c in counts])


@pytest.mark.parametrize("total", [10**10, 2**31 + 12345, 10**15])
def test_beyond_32_bits(total: int) -> None:
    table = scaled_to(total)
    found = find_optimum(table, gap=0)
    assert found.setting is not None
    assert found.setting.records == table.total > 2**31
    assert isinstance(validate_setting(table, found.setting), Partition)
    assert found.setting.loss == found.bound
    two = find_two_size_setting(table)
    assert two is not None
    assert isinstance(validate_setting(table, two), Partition)


def test_uniform_limits_need_one_size() -> None:
    table = problem([10] * 10, [Fraction(1, 10)] * 10)
    found = find_optimum(table, gap=0)
    assert str(found.setting) == "10 x 10"
    assert found.bound == 810


def test_limits_equal_to_frequencies_leave_one_bucket() -> None:
    """Coprime counts and f' = f: only the bucket that holds everybody keeps the limits (Lemma 1)."""
    counts = [101, 103, 107]
    table = problem(counts, [Fraction(c, sum(counts)) for c in counts], max_size=sum(counts))
    found = find_optimum(table, gap=0)
    assert str(found.setting) == "1 x 311"
    assert found.bound == 310**2


def test_an_infeasible_range_is_proven_so() -> None:
    counts = [101, 103, 107]
    table = problem(counts, [Fraction(c, sum(counts)) for c in counts], max_size=310)
    assert find_optimum(table, gap=0).setting is None
    assert lower_bound(table).bound is None


def rare_value(rare: int) -> Problem:
    """A limit of 1/9973 among others, which each rare record needs a bucket of 9973 for."""
    counts = [40_000, 30_000, 30_000 - rare, rare]
    return problem(counts, [Fraction(1, 2), Fraction(2, 5), Fraction(2, 5), Fraction(1, 9973)], max_size=12_000)


def test_a_range_of_many_thousand_sizes() -> None:
    """Sizes come as columns when they are needed, and the bound still covers every size."""
    table = rare_value(4)
    found = find_optimum(table)
    assert found.setting is not None
    assert found.bound is not None
    assert isinstance(validate_setting(table, found.setting), Partition)
    assert found.setting.loss - found.bound <= 1e-4 * found.setting.loss
    assert found.certificate is not None
    assert certified_bound(table, found.certificate) == found.certificate.bound


def test_a_range_of_many_thousand_sizes_can_be_infeasible() -> None:
    """Eleven records would need eleven buckets of 9973, which is more than there are records."""
    assert find_optimum(rare_value(11)).setting is None


def test_running_out_of_time_is_not_called_proof(clock: Clock) -> None:
    clock.step = 0.01
    table = acs("Occupation", 500, 4)
    found = find_optimum(table, gap=0, time_limit=0.05)
    assert found.setting is not None
    assert found.bound is not None
    assert found.bound <= found.setting.loss
    assert isinstance(validate_setting(table, found.setting), Partition)
