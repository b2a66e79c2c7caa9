"""The second derivatives against dense matrices that plain loops make of a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dalenius.infer import curvature as module
from dalenius.infer.candidates import Floats
from dalenius.infer.curvature import Curvature, Variances
from tests.infer.designs import Made, all_truths, row_shares

CASES: dict[str, dict[str, Any]] = {
    "one stratum": {},
    "two strata": {"strata": (0, 0, 0, 1, 1, 1)},
    "fakes": {"fakes": 1},
    "fakes in strata": {"fakes": 2, "strata": (0, 0, 1, 1)},
    "strata of which some share": {"strata": (0, 0, 1, 1, 2, 2, 3, 3)},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket or two are a piece already, and three cells of covariances are many."""
    monkeypatch.setattr("dalenius.infer.features.ROWS_AT_ONCE", 4)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr("dalenius.infer.features._MOST_CELLS", 3)
    monkeypatch.setattr(module, "_TOLERANCE", 1e-7)
    monkeypatch.setattr(module, "_MOST_STEPS", 1000)


class Dense:
    """A design at some point: what is left within buckets, and the matrices of slopes and levels in full."""

    def __init__(self, made: Made, seed: int = 0) -> None:
        design, random = made.design, np.random.default_rng(seed)
        self.made, self.design = made, design
        slopes = random.normal(size=(design.width, design.kinds))
        levels = random.normal(size=(design.strata, design.kinds))
        self.p = row_shares(made, slopes, levels)
        self.q = all_truths(made, self.p)[1]
        self.rest = self.q - self.p
        self.features = made.features()
        self.means = np.array([self.features[rows].mean(axis=0) for rows in self.strata_rows()])
        self.curvature = Curvature(design, self.rest.astype(np.float32), self.p.astype(np.float32))

    def strata_rows(self) -> list[Any]:
        return [np.flatnonzero(self.design.row_strata == stratum) for stratum in range(self.design.strata)]

    def within(self) -> Floats:
        """A ⊗ C by feature and value, features first, before it is scaled."""
        values, features = self.design.kinds, self.design.width
        total = np.zeros((features * values, features * values))
        for cell in range(self.design.cells):
            a, c, rows = np.zeros((values, values)), np.zeros((features, features)), 0
            for stratum in np.flatnonzero(self.design.cell_of == cell).tolist():
                own = self.strata_rows()[stratum]
                mean = self.rest[own].mean(axis=0)
                for bucket, members in enumerate(self.made.rows):
                    if self.made.stratum(bucket) == stratum:
                        apart = self.rest[members].mean(axis=0) - mean
                        a += len(members) * np.outer(apart, apart)
                centred = self.features[own] - self.means[stratum]
                c, rows = c + centred.T @ centred, rows + len(own)
            total += np.kron(c / rows, a)
        return total

    def diagonal(self) -> tuple[Floats, Floats]:
        """What buckets show, and h: row by row, as the docstring has it."""
        shown, told = np.zeros((2, self.design.width, self.design.kinds))
        for stratum, rows in enumerate(self.strata_rows()):
            for f in range(self.design.width):
                centred = self.features[rows, f] - self.means[stratum, f]
                told[f] += (centred[:, None] ** 2 * self.p[rows] * (1 - self.p[rows])).sum(axis=0)
        for bucket, rows in enumerate(self.made.rows):
            mean = self.means[self.made.stratum(bucket)]
            for f in range(self.design.width):
                z = self.features[rows, f]
                for x in range(self.design.kinds):
                    w = self.q[rows, x] * (1 - self.q[rows, x])
                    shown[f, x] += ((z - mean[f]) @ self.rest[rows, x]) ** 2
                    if len(rows) > 1 and w.sum() > 1e-9:
                        told[f, x] -= len(rows) / (len(rows) - 1) * (z**2 @ w - (z @ w) ** 2 / w.sum())
        return shown, told

    def whole(self) -> Floats:
        """Slopes, then levels; what the totals of strata say is in both."""
        scale = self.curvature.scale.astype(np.float64).ravel()
        slopes, strata, values = len(scale), self.design.strata, self.design.kinds
        matrix = np.zeros((slopes + strata * values,) * 2)
        matrix[:slopes, :slopes] = scale[:, None] * self.within() * scale[None, :]
        for stratum, rows in enumerate(self.strata_rows()):
            w = sum(np.diag(self.p[row]) - np.outer(self.p[row], self.p[row]) for row in rows)
            place = np.zeros(strata)
            place[stratum] = 1
            reach = np.kron(np.append(self.means[stratum], place), np.eye(values).reshape(values, 1, values)).T
            flat = reach.reshape(values, -1, order="F") if reach.ndim < 3 else reach[:, 0]
            matrix += np.einsum("ki,kl,lj->ij", flat.T if flat.shape[0] != values else flat, w, flat)
        return matrix

    def precision(self, variances: Variances) -> Floats:
        slopes = np.repeat(1 / variances.slopes[self.design.coding.part_of], self.design.kinds)
        return np.append(slopes, np.full(self.design.strata * self.design.kinds, 1 / variances.levels))
