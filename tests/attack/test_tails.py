"""Tails of the hypergeometric distribution against exact sums of ratios."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.attack.minimality_models import log_probability, tails


def exact(slots: int, having: int, drawn: int, least: int) -> tuple[Fraction, Fraction]:
    """P(X >= least) and E(X; X >= least), in ratios."""
    ways = {
        k: math.comb(having, k) * math.comb(slots - having, drawn - k)
        for k in range(max(0, least), drawn + 1)
        if having >= k and slots - having >= drawn - k
    }
    every = math.comb(slots, drawn)
    return Fraction(sum(ways.values()), every), Fraction(sum(k * way for k, way in ways.items()), every)


@given(st.integers(1, 300), st.data())
def test_against_exact_sums(slots: int, data: st.DataObject) -> None:
    cases = data.draw(
        st.lists(st.tuples(st.integers(0, slots), st.integers(1, slots), st.integers(0, slots + 1)), min_size=1)
    )
    having, drawn, least = (np.array(part) for part in zip(*cases, strict=True))
    logs, means = tails(slots, having, drawn, least)
    for case, log, mean in zip(cases, logs.tolist(), means.tolist(), strict=True):
        probability, moment = exact(slots, *case)
        if probability == 0:
            assert log == -math.inf
            continue
        # the logarithm of a ratio that may be too small for floating point
        wanted = math.log(probability.numerator) - math.log(probability.denominator)
        assert log == pytest.approx(wanted, abs=1e-9, rel=1e-9)
        assert mean == pytest.approx(float(moment / probability), abs=1e-9, rel=1e-9)


def test_numbers_of_a_large_table() -> None:
    """Fifty deviations above the mean, of ten million: the logarithm is that of the first terms."""
    slots, having, drawn, least = 10_000_000, 800_000, 20_000, 3518
    (log,), (mean,) = tails(slots, np.array([having]), np.array([drawn]), np.array([least]))
    (first,) = log_probability(slots, np.array([having]), np.array([drawn]), np.array([least]))
    chosen = math.lgamma(having + 1) - math.lgamma(least + 1) - math.lgamma(having - least + 1)
    others = slots - having
    chosen += math.lgamma(others + 1) - math.lgamma(drawn - least + 1) - math.lgamma(others - drawn + least + 1)
    chosen -= math.lgamma(slots + 1) - math.lgamma(drawn + 1) - math.lgamma(slots - drawn + 1)
    assert first == pytest.approx(chosen, abs=1e-6)
    assert -1000 < log < -500
    assert first < log < first + 1
    assert least < mean < least + 2
