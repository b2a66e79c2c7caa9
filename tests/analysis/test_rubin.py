"""Rubin's rules against the formulas, written out, and against the results of statsmodels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from dalenius.analysis.rubin import Pooled, barnard_rubin, pool, pool_estimates, require_target
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats

FOUND = np.array([[1.0, 2.0, 0.5], [1.4, 1.9, 0.5], [0.8, 2.3, 0.5], [1.1, 2.2, 0.5]])
WITHIN = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.25]])
NAMES = ("a", "b", "c")


def by_hand(found: list[float], within: float, freedom: float) -> tuple[float, float, float, float]:
    """One coefficient: its estimate, variance, degrees of freedom and γ, as Barnard and Rubin (1999) have them."""
    m = len(found)
    mean = sum(found) / m
    between = sum((one - mean) ** 2 for one in found) / (m - 1)
    total = within + (1 + 1 / m) * between
    gamma = (1 + 1 / m) * between / total
    old = (m - 1) / gamma**2 if gamma else math.inf
    observed = (freedom + 1) / (freedom + 3) * freedom * (1 - gamma)
    return mean, total, 1 / ((1 / old if gamma else 0) + 1 / observed), gamma


@pytest.mark.parametrize("freedom", [3.0, 40.0, 1e6])
def test_every_coefficient_is_pooled_by_the_rules(freedom: float) -> None:
    pooled = pool_estimates(NAMES, FOUND, WITHIN, freedom)
    for place in range(3):
        expected = by_hand(FOUND[:, place].tolist(), float(WITHIN[place, place]), freedom)
        assert pooled.estimates[place] == pytest.approx(expected[0])
        assert pooled.covariance[place, place] == pytest.approx(expected[1])
        assert pooled.freedom[place] == pytest.approx(expected[2])
        assert pooled.missing[place] == pytest.approx(expected[3], abs=1e-12)
    between = np.cov(FOUND.T)
    assert pooled.covariance == pytest.approx(WITHIN + 1.25 * between)


def test_a_whole_table_without_end_has_the_freedom_of_draws() -> None:
    pooled = pool_estimates(NAMES, FOUND, WITHIN)
    assert pooled.freedom[:2] == pytest.approx(3 / pooled.missing[:2] ** 2)
    assert pooled.freedom[2] == math.inf
    assert np.isfinite(pooled.conf_int().to_numpy()).all()
    close = pool_estimates(NAMES, FOUND, WITHIN, 1e12)
    assert close.freedom[:2] == pytest.approx(pooled.freedom[:2], rel=1e-6)


def test_of_the_table_itself_only_what_draws_say_is_unknown() -> None:
    pooled = pool_estimates(NAMES, FOUND, np.zeros((3, 3)), 0.0)
    assert pooled.freedom.tolist() == [3, 3, 3]
    assert pooled.covariance == pytest.approx(1.25 * np.cov(FOUND.T))
    assert pooled.missing.tolist() == [1, 1, 0]
    interval = pooled.conf_int().loc["c"]
    assert interval.tolist() == [0.5, 0.5]


def test_more_that_is_missing_leaves_less_freedom() -> None:
    gammas = np.linspace(0.01, 0.99, 20)
    found = barnard_rubin(gammas, 20, 100.0)
    assert (np.diff(found) < 0).all()
    assert (found < np.minimum(19 / gammas**2, 100)).all()


@pytest.fixture(name="pooled")
def some_pooled() -> Pooled:
    return pool_estimates(NAMES, FOUND, WITHIN, 40.0, ("A note.",))


@pytest.mark.parametrize("alpha", [0.05, 0.32])
def test_intervals_are_those_of_the_t_distribution(pooled: Pooled, alpha: float) -> None:
    for name, estimate, error, freedom in zip(NAMES, pooled.estimates, pooled.bse, pooled.freedom, strict=True):
        expected = stats.t(freedom, estimate, error).interval(1 - alpha)
        assert pooled.conf_int(alpha).loc[name].tolist() == pytest.approx(list(expected))


def test_p_values_are_where_intervals_touch_0(pooled: Pooled) -> None:
    for place, name in enumerate(NAMES):
        bound = pooled.conf_int(float(pooled.pvalues[name])).loc[name, "low"]
        assert bound == pytest.approx(0, abs=1e-8), place


def test_the_summary_has_what_the_parts_have(pooled: Pooled) -> None:
    summary = pooled.summary()
    assert list(summary.index) == list(NAMES)
    assert summary["estimate"].tolist() == pooled.params.tolist()
    assert summary["std_error"].tolist() == pytest.approx(np.sqrt(np.diag(pooled.covariance)).tolist())
    assert summary["p_value"].tolist() == pooled.pvalues.tolist()
    assert summary["high"].tolist() == pooled.conf_int()["high"].tolist()
    assert "Pooled over 4 completed tables." in repr(pooled)
    assert "A note." in repr(pooled)


def draws_of(seed: int, rows: int = 300, draws: int = 4) -> list[tuple[pd.DataFrame, Any]]:
    """Tables that differ in who has which of three outcomes."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"const": 1.0, "age": random.normal(size=rows), "male": random.integers(0, 2, rows)})
    outcome = (frame["age"] + random.gumbel(size=rows) > 0.5).astype(int) + (random.random(rows) < 0.3)
    found = []
    for _ in range(draws):
        own = outcome.to_numpy().copy()
        swapped = random.choice(rows, 30, replace=False)
        own[swapped] = random.permuted(own[swapped])
        found.append((frame, own))
    return found


def fits(family: str) -> list[Any]:
    made = {
        "logit": lambda frame, own: sm.Logit(own > 0, frame).fit(disp=0),
        "multinomial": lambda frame, own: sm.MNLogit(own, frame).fit(disp=0),
        "multinomial of series": lambda frame, own: sm.MNLogit(pd.Series(own, name="who"), frame).fit(disp=0),
        "linear": lambda frame, own: sm.OLS(own, frame).fit(),
        "linear of arrays": lambda frame, own: sm.OLS(own, frame.to_numpy()).fit(),
        "poisson": lambda frame, own: sm.GLM(own, frame, family=sm.families.Poisson()).fit(),
    }
    return [made[family](frame, own) for frame, own in draws_of(1)]


@pytest.mark.parametrize("family", ["logit", "linear", "linear of arrays", "poisson"])
def test_results_of_statsmodels_are_pooled(family: str) -> None:
    results = fits(family)
    pooled = pool(results)
    expected = [["const", "age", "male"], ["x0", "x1", "x2"]]["arrays" in family]
    assert list(pooled.names) == expected
    for place in range(3):
        found = [float(np.asarray(one.params)[place]) for one in results]
        within = float(np.mean([np.asarray(one.cov_params())[place, place] for one in results]))
        mean, total, freedom, gamma = by_hand(found, within, 297)
        assert pooled.estimates[place] == pytest.approx(mean)
        assert pooled.covariance[place, place] == pytest.approx(total)
        assert pooled.freedom[place] == pytest.approx(freedom)
        assert pooled.missing[place] == pytest.approx(gamma)


@pytest.mark.parametrize("family", ["multinomial", "multinomial of series"])
def test_coefficients_of_a_multinomial_model_have_their_own_errors(family: str) -> None:
    """statsmodels has a table of coefficients, and one covariance of all: outcome by outcome."""
    results = fits(family)
    pooled = pool(results)
    errors: Floats = np.mean([np.asarray(one.bse, np.float64) ** 2 for one in results], axis=0)
    params: Floats = np.array([np.asarray(one.params, np.float64) for one in results])
    for outcome in range(2):
        for place, name in enumerate(["const", "age", "male"]):
            at = outcome * 3 + place
            assert pooled.names[at].endswith(f": {name}")
            found = params[:, place, outcome].tolist()
            mean, total, *_ = by_hand(found, float(errors[place, outcome]), 294)
            assert pooled.estimates[at] == pytest.approx(mean)
            assert pooled.covariance[at, at] == pytest.approx(total)


def test_one_table_says_nothing_of_what_is_unknown() -> None:
    with pytest.raises(UsageError, match="one completed table"):
        pool(fits("logit")[:1])


def test_what_are_no_results_is_refused() -> None:
    for wrong in ([], [1, 2], [object()]):
        with pytest.raises(UsageError, match="params"):
            pool(wrong)


def test_results_of_different_models_are_refused() -> None:
    frame, own = draws_of(1)[0]
    other = sm.Logit(own > 0, frame[["const", "age"]]).fit(disp=0)
    with pytest.raises(UsageError, match="not of one model"):
        pool([fits("logit")[0], other])


def test_targets() -> None:
    for target in ("population", "table"):
        require_target(target)
    with pytest.raises(UsageError, match="no target 'sample'"):
        require_target("sample")
