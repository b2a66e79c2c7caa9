"""Fits to many draws at once, against statsmodels fitted to each and against what is known of extreme tables."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from dalenius.analysis.generalised import Lines, Model, fit_draws
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers

ROWS = 400


def lines_of(design: Floats, draws: int = 3, whole: Floats | None = None) -> Lines:
    """Every row is a line of its own, the same in all draws."""
    held = np.ones(len(design), bool) if whole is None else whole > 0
    return Lines(design, held, [np.arange(len(design))] * draws)


def some_design(seed: int = 0) -> Floats:
    """A constant, a year and a small number: columns of very different size."""
    random = np.random.default_rng(seed)
    return np.column_stack([np.ones(ROWS), random.integers(1900, 2000, ROWS), random.normal(size=ROWS) * 1e-4])


def some_outcomes(design: Floats, kinds: int, draws: int = 3, seed: int = 1) -> list[Integers]:
    random = np.random.default_rng(seed)
    logits = np.outer((design[:, 1] - 1950) / 30, np.arange(kinds))
    base = np.argmax(logits + random.gumbel(size=logits.shape), axis=1)
    found = []
    for _ in range(draws):
        own, moved = base.copy(), random.choice(ROWS, 60, replace=False)
        own[moved] = random.permuted(own[moved])
        found.append(own)
    return found


def standardised(design: Floats) -> tuple[Floats, Floats]:
    """Columns that statsmodels can fit, and the matrix back to coefficients of columns as they are."""
    means, scales = design.mean(axis=0), design.std(axis=0)
    means[0], scales[0] = 0, 1
    back = np.diag(1 / scales)
    back[0] -= means / scales
    return (design - means) / scales, back


@pytest.mark.parametrize("kinds", [2, 4])
def test_each_draw_has_its_own_maximum(kinds: int) -> None:
    design = some_design()
    codes = some_outcomes(design, kinds)
    estimates, covariance = fit_draws(Model(design, 0), lines_of(design), codes, kinds)
    plain, back = standardised(design)
    errors = np.sqrt(np.diag(covariance))
    within = []
    for found, own in zip(estimates, codes, strict=True):
        fit = sm.MNLogit(own, plain).fit(disp=0)
        expected = (back @ fit.params).ravel(order="F")
        assert np.abs((found - expected) / errors).max() < 0.01  # the prior
        whole = np.kron(np.eye(kinds - 1), back)
        within.append(whole @ fit.cov_params() @ whole.T)
    assert errors == pytest.approx(np.sqrt(np.diag(np.mean(within, axis=0))), rel=0.02)


def test_least_squares_of_large_numbers() -> None:
    """Numbers with a large mean lose no digits."""
    design, random = some_design(), np.random.default_rng(2)
    values = 1e9 + random.normal(size=30)
    codes = [random.integers(0, 30, ROWS) for _ in range(3)]
    estimates, covariance = fit_draws(Model(design, 0), lines_of(design), codes, 30, values)
    plain, back = standardised(design)
    fits = [sm.OLS(values[own], plain).fit() for own in codes]
    errors = np.sqrt(np.mean([np.diag(back @ fit.cov_params() @ back.T) for fit in fits], axis=0))
    assert np.sqrt(np.diag(covariance)) == pytest.approx(errors, rel=1e-5)
    for found, fit in zip(estimates, fits, strict=True):
        assert np.abs((found - back @ fit.params) / errors).max() < 1e-4


def test_rows_in_lines_are_rows() -> None:
    """Lines with many rows are as good as a line for every row; lines with nulls, and outcomes of -1, are no rows."""
    random = np.random.default_rng(3)
    lines = np.column_stack([np.ones(6), np.arange(6.0)])
    whole = np.array([1.0, 1, 0, 1, 1, 1])
    of_draws = [random.integers(0, 6, ROWS) for _ in range(3)]
    codes = [random.integers(-1, 2, ROWS) for _ in range(3)]
    made = Lines(lines, whole > 0, of_draws)
    estimates, _ = fit_draws(Model(lines, 0), made, codes, 2)
    numbers = np.array([3.0, 5.0])
    linear, _ = fit_draws(Model(lines, 0), made, codes, 2, numbers)
    for found, least, line, own in zip(estimates, linear, of_draws, codes, strict=True):
        kept = (own >= 0) & (line != 2)
        fit = sm.Logit(own[kept], lines[line[kept]]).fit(disp=0)
        assert found == pytest.approx(fit.params, abs=1e-3)
        assert least == pytest.approx(sm.OLS(numbers[own[kept]], lines[line[kept]]).fit().params)
    used = [int(((own >= 0) & (line != 2)).sum()) for line, own in zip(of_draws, codes, strict=True)]
    assert made.whole_rows(codes) == round(np.mean(used))


def test_an_outcome_that_never_goes_with_a_column_has_a_large_error() -> None:
    """Complete separation: the slope is finite, and not known."""
    design = np.column_stack([np.ones(100), np.arange(100) >= 50]).astype(float)
    codes = [(np.arange(100) >= 50).astype(np.int64)] * 2
    estimates, covariance = fit_draws(Model(design, 0), lines_of(design, 2), codes, 2)
    assert np.isfinite(estimates).all()
    assert (estimates[:, 1] > 5).all()
    assert np.sqrt(covariance[1, 1]) > 0.3 * estimates[0, 1]


@pytest.mark.parametrize("numbers", [None, np.arange(2.0)])
def test_columns_that_depend_on_each_other_are_refused(numbers: Floats | None) -> None:
    design = some_design()
    design = np.column_stack([design, design[:, 1] * 2 + 3])
    codes = some_outcomes(design, 2)
    with pytest.raises(UsageError, match="depend on each other"):
        fit_draws(Model(design, 0), lines_of(design), codes, 2, numbers)


def test_a_cell_that_nobody_is_in_in_one_draw() -> None:
    """The other draws say what its coefficient is; the one without does not fail."""
    design = np.column_stack([np.ones(40), np.arange(40) % 2, np.arange(40) < 4]).astype(float)
    lines = [np.arange(40), np.where(np.arange(40) < 4, np.arange(40) + 4, np.arange(40))]
    codes = [np.random.default_rng(draw).integers(0, 5, 40) for draw in range(2)]
    estimates, _ = fit_draws(Model(design, 0), Lines(design, np.ones(40, bool), lines), codes, 5, np.arange(5.0))
    assert estimates[0] == pytest.approx(sm.OLS(np.arange(5.0)[codes[0]], design).fit().params, abs=1e-5)
    assert np.isfinite(estimates).all()
    assert np.abs(estimates[1]).max() < 10


def test_an_outcome_that_no_draw_has_keeps_its_place() -> None:
    design = some_design()
    estimates, _ = fit_draws(Model(design, 0), lines_of(design), some_outcomes(design, 2), 3)
    assert estimates.shape == (3, 2 * design.shape[1])


def test_fewer_rows_than_coefficients_are_refused() -> None:
    design = np.column_stack([np.ones(3), [0.0, 1, 5], [1.0, 0, 1]])
    with pytest.raises(UsageError, match="fewer rows"):
        fit_draws(Model(design, 0), lines_of(design, 2), [np.arange(3)] * 2, 3, np.array([1.0, 2, 4]))


def test_the_way_back_from_standardised_columns() -> None:
    design = some_design()
    model = Model(design.copy(), 0)
    model.standardise(np.ones(ROWS))
    point = np.array([0.5, -1.0, 2.0])
    assert model.design @ point == pytest.approx(design @ (model.back() @ point))
    assert model.design.mean(axis=0) == pytest.approx([1, 0, 0], abs=1e-9)
    assert model.design.std(axis=0) == pytest.approx([0, 1, 1])
