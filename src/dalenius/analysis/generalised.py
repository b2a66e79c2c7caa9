"""Logit, multinomial and linear models, fitted to many draws of the same people at once.

With the design x of line i (rows that agree in all that explains), and n_ik rows of it with outcome k:

- `logit`, `multinomial`: log (p_k / p_0) = x b_k for every outcome k, the first being the one that others are compared
  with. Maximum likelihood by Newton's method,

      b += H^-1 Σ_i x_i ⊗ (n_i - N_i p_i),     H = Σ_i N_i x_i x_i' ⊗ (diag p_i - p_i p_i'),     N_i = Σ_k n_ik.

  It is fitted to the mean of all draws first. Each draw starts from there with the H of that, which is as good as its
  own: draws differ little.
- `linear`: least squares, for numbers y: b = (Σ N x x')^-1 Σ x y.

Columns are standardised. Slopes of logit and multinomial models have a prior, N(0, 10²) for a standardised column, that
only matters where an outcome never occurs with a column: it has a finite slope then, with a large standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats

Family = Literal["logit", "multinomial", "linear"]
Numbers = npt.NDArray[np.integer[Any]]
ByDraw = Sequence[Numbers]  # a number of every row in each draw
_STEPS = 60
_CLOSE = 1e-8  # squared standard errors that a step goes at the end
_PRIOR = 1 / 10.0**2
_HALVINGS = 30
_RIDGE = 1e-9
_SINGULAR = 1e-9  # of the largest, the smallest spread that a direction of the design has


@dataclass(frozen=True)
class Lines:
    """The different lines of a design, which are without a null, and the line of every row in each draw."""

    design: Floats
    whole: npt.NDArray[np.bool_]
    of_draws: ByDraw

    def whole_rows(self, codes: ByDraw) -> int:
        """How many rows have no null, neither in the design nor as the outcome: the mean of all draws."""
        found = [int((self.whole[line] & (own >= 0)).sum()) for line, own in zip(self.of_draws, codes, strict=True)]
        return round(sum(found) / len(found))

    def counts(self, draw: int, outcomes: Numbers, kinds: int) -> Floats:
        """n: lines by outcomes."""
        line = self.of_draws[draw]
        kept = (outcomes >= 0) & self.whole[line]
        keys = line[kept].astype(np.int64) * kinds + outcomes[kept]
        return np.bincount(keys, minlength=len(self.design) * kinds).reshape(-1, kinds).astype(np.float64)


class Model:
    """A design whose columns are standardised, and the way back to the columns as they are."""

    def __init__(self, design: Floats, constant: int | None) -> None:
        self._means, self.scales = np.zeros(design.shape[1]), np.ones(design.shape[1])
        self.design, self.constant = design, constant

    def standardise(self, weights: Floats) -> None:
        """Standardise by the rows that each line has; a UsageError if columns depend on each other."""
        total = weights.sum()
        means = weights @ self.design / total
        spread = np.sqrt(np.maximum(weights @ (self.design - means) ** 2 / total, 0))
        own = np.arange(len(means)) != self.constant
        if self.constant is not None:
            self._means = np.where(own, means, 0.0)
        else:
            spread = np.sqrt(weights @ self.design**2 / total)
        self.scales = np.where(own & (spread > 0), spread, 1.0)
        self.design = (self.design - self._means) / self.scales
        strength = np.linalg.eigvalsh((self.design * (weights / total)[:, None]).T @ self.design)
        if strength[0] <= _SINGULAR * strength[-1]:
            raise UsageError(
                "columns of the formula depend on each other, so their coefficients cannot be told apart",
                "Leave out a column that follows from others, or that is the same for everybody.",
            )

    @property
    def prior(self) -> Floats:
        """The precision of every column's slope."""
        own = np.full(self.design.shape[1], _PRIOR)
        if self.constant is not None:
            own[self.constant] = 0.0
        return own

    def back(self) -> Floats:
        """The matrix that turns coefficients of standardised columns into those of columns as they are."""
        matrix = np.diag(1 / self.scales)
        if self.constant is not None:
            matrix[self.constant] -= self._means / self.scales
        return matrix


def fit_draws(
    model: Model, lines: Lines, codes: ByDraw, kinds: int, numbers: Floats | None = None
) -> tuple[Floats, Floats]:
    """The coefficients of each draw, outcome by outcome, and the covariance that those of a whole table have.

    `codes` have the outcome of every row, of so many `kinds`. Linear models take `numbers`, one for every outcome.
    """
    if numbers is not None:
        return _linear(model, lines, codes, numbers)
    draws = [lines.counts(draw, own, kinds) for draw, own in enumerate(codes)]
    mean = sum(draws[1:], draws[0]) / len(draws)
    model.standardise(mean.sum(axis=1))
    fit = _Newton(model)
    start, inverse = fit.fitted(mean)
    found: Floats = np.array([fit.nearby(own, start, inverse) for own in draws])
    back = np.kron(np.eye(kinds - 1), model.back())
    estimates: Floats = found.reshape(len(draws), -1) @ back.T
    covariance: Floats = back @ inverse @ back.T
    return estimates, covariance


class _Newton:
    """Newton's method. Coefficients are outcomes (but the first) x columns."""

    def __init__(self, model: Model) -> None:
        self._x, self._prior = model.design, model.prior

    def fitted(self, counts: Floats) -> tuple[Floats, Floats]:
        """The coefficients, and the inverse of the second derivatives there."""
        point: Floats = np.zeros((counts.shape[1] - 1, self._x.shape[1]))
        value, slope = self._at(counts, point)
        for _ in range(_STEPS):
            inverse = np.asarray(np.linalg.inv(self._curvature(counts, point)), dtype=np.float64)
            step = (inverse @ slope.ravel()).reshape(point.shape)
            gain = float((slope * step).sum())
            length = 1.0
            for _ in range(_HALVINGS):
                reached, new_slope = self._at(counts, point + length * step)
                if reached >= value + 0.1 * length * gain or gain < _CLOSE:
                    break
                length /= 2
            point, value, slope = point + length * step, reached, new_slope
            if gain < _CLOSE:
                return point, inverse
        raise UsageError("the model does not converge", "Leave out columns with rare values, or put them together.")

    def nearby(self, counts: Floats, start: Floats, inverse: Floats) -> Floats:
        """The coefficients of a table that is nearly the one whose coefficients and derivatives are given."""
        point = start
        value, slope = self._at(counts, point)
        for _ in range(_STEPS):
            step = (inverse @ slope.ravel()).reshape(point.shape)
            gain = float((slope * step).sum())
            reached, new_slope = self._at(counts, point + step)
            if gain < _CLOSE:
                return point + step
            if reached < value:
                break
            point, value, slope = point + step, reached, new_slope
        return self.fitted(counts)[0]

    def _shares(self, point: Floats) -> tuple[Floats, Floats]:
        """p and log p."""
        scores = np.zeros((len(self._x), len(point) + 1))
        scores[:, 1:] = self._x @ point.T
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return np.exp(scores), scores

    def _at(self, counts: Floats, point: Floats) -> tuple[float, Floats]:
        """The likelihood and its derivative."""
        shares, logs = self._shares(point)
        value = float((counts * logs).sum() - (self._prior * point**2).sum() / 2)
        apart = counts - counts.sum(axis=1, keepdims=True) * shares
        slope: Floats = apart[:, 1:].T @ self._x - self._prior * point
        return value, slope

    def _curvature(self, counts: Floats, point: Floats) -> Floats:
        shares = self._shares(point)[0][:, 1:]
        rows, (outcomes, columns) = counts.sum(axis=1), point.shape
        whole = np.zeros((outcomes, columns, outcomes, columns))
        for one in range(outcomes):
            for other in range(one + 1):
                weight = rows * shares[:, one] * ((one == other) - shares[:, other])
                block = (self._x * weight[:, None]).T @ self._x
                whole[one, :, other], whole[other, :, one] = block, block.T
        size = outcomes * columns
        found: Floats = whole.reshape(size, size) + np.diag(np.tile(self._prior, outcomes) + 1e-12)
        return found


def _linear(model: Model, lines: Lines, codes: ByDraw, numbers: Floats) -> tuple[Floats, Floats]:
    number = len(lines.design)
    middle = float(numbers[codes[0][codes[0] >= 0]].mean()) if model.constant is not None else 0.0
    numbers = numbers - middle  # squares of large numbers lose digits
    sums, squares, rows = [], [], []
    for line, own in zip(lines.of_draws, codes, strict=True):
        kept = (own >= 0) & lines.whole[line]
        y = numbers[own[kept]]
        rows.append(np.bincount(line[kept], minlength=number).astype(np.float64))
        sums.append(np.bincount(line[kept], weights=y, minlength=number))
        squares.append(float(y @ y))
    mean = sum(rows[1:], rows[0]) / len(rows)
    model.standardise(mean)
    freedom = mean.sum() - model.design.shape[1]
    if freedom < 1:
        raise UsageError("there are fewer rows than coefficients", "Leave columns of the formula out.")
    found, spread = [], 0.0
    for own_rows, own_sums, square in zip(rows, sums, squares, strict=True):
        gram = (model.design * own_rows[:, None]).T @ model.design
        right = model.design.T @ own_sums
        gram += np.eye(len(gram)) * (_RIDGE * np.trace(gram) / len(gram))  # a draw may have nobody in some cell
        point = np.linalg.solve(gram, right)
        found.append(point)
        spread += max(0.0, square - float(point @ right)) / freedom / len(rows)
    inverse = np.linalg.inv((model.design * mean[:, None]).T @ model.design)
    back = model.back()
    estimates = np.array(found) @ back.T
    if model.constant is not None:
        estimates[:, model.constant] += middle
    return estimates, back @ (inverse * spread) @ back.T
