"""R pools a logistic regression over completed tables as Rubin's rules do, computed here from fits of our own.

The rules, for m draws with estimates of mean Q and variance B, whose own variances have mean U: the estimate is Q, and
its variance T = U + (1 + 1/m) B. With lambda = (1 + 1/m) B / T, and n degrees of freedom that the complete data have,
Barnard and Rubin (1999) give 1 / (1/old + 1/observed) degrees of freedom, where old = (m - 1) / lambda^2 and
observed = (n + 1) / (n + 3) n (1 - lambda).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.r.conftest import Pooled, PoolInR, RunScript

Array = npt.NDArray[np.float64]
TERMS = ("(Intercept)", "age", "smokeryes")
SCRIPTS = ("pool_with_mice.R", "pool_with_mitools.R")


def read_draw(path: Path) -> tuple[Array, Array]:
    """The columns that explain (a constant, age, smoking), and whether somebody has cancer in this draw."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    explaining = np.array([(1, int(row["age"]), row["smoker"] == "yes") for row in rows], dtype=np.float64)
    return explaining, np.array([row["disease"] == "cancer" for row in rows], dtype=np.float64)


def fit(explaining: Array, ill: Array) -> tuple[Array, Array]:
    """A logistic regression by Newton's method: the coefficients, and their variances."""
    found: Array = np.zeros(explaining.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-explaining @ found))
        information = (explaining.T * (p * (1 - p))) @ explaining
        found = found + np.linalg.solve(information, explaining.T @ (ill - p))
    variances: Array = np.diagonal(np.linalg.inv(information))
    return found, variances


def pool(folder: Path, *, as_mitools: bool = False) -> dict[str, Pooled]:
    """Rubin's rules; mitools has B instead of (1 + 1/m) B among the observed degrees of freedom."""
    draws = [read_draw(path) for path in sorted(folder.glob("draw-*.csv"))]
    fits = [fit(*draw) for draw in draws]
    estimates = np.array([found for found, _ in fits])
    within = np.mean([variances for _, variances in fits], axis=0)
    between = estimates.var(axis=0, ddof=1)
    more = 1 + 1 / len(fits)
    variance = within + more * between
    known = within / (within + between) if as_mitools else within / variance  # 1 - lambda
    n = len(draws[0][1]) - len(TERMS)
    old = (len(fits) - 1) / (1 - within / variance) ** 2
    observed = (n + 1) / (n + 3) * n * known
    found = zip(estimates.mean(axis=0), np.sqrt(variance), 1 / (1 / old + 1 / observed), strict=True)
    return {term: Pooled(*map(float, numbers)) for term, numbers in zip(TERMS, found, strict=True)}


def assert_same(pooled: dict[str, Pooled], expected: dict[str, Pooled]) -> None:
    assert list(pooled) == list(expected)
    for term, one in expected.items():
        assert pooled[term].estimate == pytest.approx(one.estimate, abs=1e-4, rel=1e-4), term
        assert pooled[term].error == pytest.approx(one.error, rel=1e-4), term
        assert pooled[term].df == pytest.approx(one.df, rel=1e-4), term


def test_mice_pools_as_rubins_rules_do(pool_in_r: PoolInR, completed: Path) -> None:
    assert_same(pool_in_r("pool_with_mice.R", completed), pool(completed))


def test_mitools_pools_as_rubins_rules_do_but_for_a_factor_in_the_degrees_of_freedom(
    pool_in_r: PoolInR, completed: Path
) -> None:
    assert_same(pool_in_r("pool_with_mitools.R", completed), pool(completed, as_mitools=True))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_folder_without_draws_is_refused(script: str, run_script: RunScript, tmp_path: Path) -> None:
    done = run_script(script, tmp_path)
    assert done.returncode != 0
    assert "two draws or more" in done.stderr
