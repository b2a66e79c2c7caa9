"""The integer program, the scaled domain and the count of Remark 2, each against something simpler."""

from __future__ import annotations

import pytest

from dalenius.model.problem import Problem, ValueCounts
from dalenius.solve.two_size import find_two_size_setting
from paper.problems import problem, scale_domain
from paper.theory import PAPERS_COUNT, count_settings
from paper.two_size_ilp import two_size_ilp
from tests.problems import acs, example_3

SMALL = problem(ValueCounts.of([("a", 400), ("b", 60), ("c", 30), ("d", 10)]), 2)


@pytest.mark.parametrize("case", [SMALL, example_3()])
def test_the_integer_program_finds_the_two_size_optimum(case: Problem) -> None:
    best = find_two_size_setting(case)
    assert best is not None
    answer = two_size_ilp(case, 30)
    assert answer.finished
    assert answer.loss == pytest.approx(best.loss, rel=1e-4)


def test_the_integer_program_can_be_stopped() -> None:
    answer = two_size_ilp(acs("Occupation", 300, 8), 0.05)
    assert not answer.finished
    assert answer.seconds < 10


def test_a_scaled_domain_has_the_same_records() -> None:
    counts = ValueCounts.of([("a", 1000), ("b", 500), ("c", 3)])
    found = scale_domain(counts, 4, 0)
    assert found.total == counts.total
    assert len([value for value in found.values if value.startswith("a ")]) == 4
    assert sum(n for value, n in zip(found.values, found.counts, strict=True) if value.startswith("b ")) == 500
    assert scale_domain(counts, 4, 0) == found
    assert scale_domain(counts, 4, 1) != found


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("total", [0, 59, 60, 400])
def test_settings_are_counted_as_by_enumeration(total: int, least: int) -> None:
    pairs = [(a, b) for a in range(3, 9) for b in range(a + 1, 9)]
    found = sum(
        1
        for a, b in pairs
        for n in range(least, total // b + 1)
        if (total - b * n) % a == 0 and total - b * n >= least * a
    )
    assert count_settings(total, 3, 8, least) == found


def test_the_papers_number_is_not_what_there_is() -> None:
    assert (PAPERS_COUNT, count_settings(1_000_000, 3, 20)) == (2_077_869, 2_653_977)
