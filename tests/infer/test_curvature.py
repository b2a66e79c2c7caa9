"""The second derivatives against dense matrices that plain loops make of a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dalenius.infer import curvature as module
from dalenius.infer.candidates import Floats
from dalenius.infer.curvature import Curvature, Pair, System, Variances
from tests.infer.designs import Made, all_truths, column, make, row_shares, tiny

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

    def scales(self) -> tuple[Floats, Floats]:
        """h over the diagonal of A ⊗ C, and h over what buckets show; rare entries are believed to be as others."""
        shown, told = self.diagonal()
        plain = np.diag(self.within()).reshape(shown.shape)
        pseudo = module._PSEUDO * plain.mean(axis=0)
        least, most = module._RANGE
        whole = np.clip((np.maximum(told, shown) + pseudo) / (plain + pseudo), least, most)
        seen = np.clip((shown + pseudo) / (plain + pseudo), least, most)
        return whole, whole / seen

    def totals(self, stratum: int) -> Floats:
        """W of a stratum."""
        total = np.zeros((self.design.kinds, self.design.kinds))
        for row in self.strata_rows()[stratum]:
            total += np.diag(self.p[row]) - np.outer(self.p[row], self.p[row])
        return total

    def whole(self) -> Floats:
        """Slopes, then levels, as the curvature is scaled; what the totals of strata say is of both."""
        scale = self.curvature.scale.astype(np.float64).ravel()
        slopes, strata = len(scale), self.design.strata
        matrix = np.zeros((slopes + strata * self.design.kinds,) * 2)
        matrix[:slopes, :slopes] = scale[:, None] * self.within() * scale[None, :]
        for stratum in range(strata):
            reach = np.append(self.means[stratum], np.eye(strata)[stratum])  # of a slope or level to the logits
            matrix += np.kron(np.outer(reach, reach), self.totals(stratum))
        return matrix

    def precision(self, variances: Variances) -> Floats:
        return np.append(1 / variances.slopes, np.full(self.design.strata * self.design.kinds, 1 / variances.levels))


def flat(point: Pair) -> Floats:
    return np.append(point[0].ravel(), point[1].ravel())


def some_point(dense: Dense, seed: int = 5) -> Pair:
    random = np.random.default_rng(seed)
    kinds = dense.design.kinds
    return random.normal(size=(dense.design.width, kinds)), random.normal(size=(dense.design.strata, kinds))


def some_variances(dense: Dense) -> Variances:
    size = dense.design.width, dense.design.kinds
    return Variances(np.random.default_rng(6).uniform(0.05, 2.0, size), 0.4)


@pytest.fixture(params=CASES, name="dense")
def each_case(request: pytest.FixtureRequest) -> Dense:
    return Dense(tiny(3, **CASES[request.param]), seed=4)


def test_the_diagonal_is_that_of_the_rows(dense: Dense) -> None:
    whole, excess = dense.scales()
    assert dense.curvature.scale**2 == pytest.approx(whole, rel=2e-3)
    assert dense.curvature.excess == pytest.approx(excess, rel=2e-3)


def test_times_is_the_product_with_the_whole(dense: Dense) -> None:
    point = some_point(dense)
    expected = dense.whole() @ flat(point)
    assert flat(dense.curvature.times(point)) == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(expected).max())


def test_the_whole_is_no_less_than_nothing(dense: Dense) -> None:
    assert np.linalg.eigvalsh(dense.whole()).min() > -1e-6


def test_a_system_is_solved(dense: Dense) -> None:
    variances, right = some_variances(dense), some_point(dense, 7)
    system = System(dense.design, dense.curvature, variances)
    precision = dense.precision(variances)
    assert flat(system.precision(right)) == pytest.approx(precision * flat(right))
    expected = np.linalg.solve(dense.whole() + np.diag(precision), flat(right))
    assert flat(system.solve(right)) == pytest.approx(expected, rel=1e-2, abs=2e-3 * np.abs(expected).max())


def test_a_system_without_anything_learned_is_its_precision() -> None:
    """Where slopes are known to be 0, nothing moves them."""
    dense = Dense(tiny(3))
    variances = Variances(np.full((dense.design.width, dense.design.kinds), 1e-9), 1e-9)
    right = some_point(dense)
    solved = System(dense.design, dense.curvature, variances).solve(right)
    assert flat(solved) == pytest.approx(1e-9 * flat(right), rel=1e-4, abs=1e-14)


def test_spectra_are_the_main_directions_of_a_part(dense: Dense) -> None:
    """Strengths of typical matrices before they are scaled, times the mean square of the scale in that direction."""
    scale = dense.curvature.scale.astype(np.float64)
    dense.curvature.scale = np.ones_like(dense.curvature.scale)
    features, values = dense.curvature.typical()
    dense.curvature.scale = scale.astype(np.float32)
    for part, spectrum in enumerate(dense.curvature.spectra()):
        own = dense.design.coding.part_of == part
        whole = np.kron(features[np.ix_(own, own)], values)
        axes, kinds = np.linalg.eigh(features[np.ix_(own, own)])[1], np.linalg.eigh(values)[1]
        found = []
        for axis in axes.T:
            for kind in kinds.T:
                direction = np.kron(axis, kind)
                strength = direction @ whole @ direction
                assert whole @ direction == pytest.approx(strength * direction, abs=1e-6 * np.abs(whole).max())
                found.append(strength * (direction**2 @ scale[own].ravel() ** 2))
        assert np.sort(spectrum) == pytest.approx(np.sort(found), rel=1e-3, abs=1e-4 * max(found))
    expected = np.concatenate([np.linalg.eigvalsh(dense.totals(one)) for one in range(dense.design.strata)])
    assert dense.curvature.level_spectrum() == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("case", ["one stratum", "fakes"])
def test_the_typical_matrices_are_the_whole_of_one_cell(case: str) -> None:
    dense = Dense(tiny(3, **CASES[case]), seed=4)
    dense.curvature.scale = np.ones_like(dense.curvature.scale)
    within = dense.within()
    assert np.kron(*dense.curvature.typical()) == pytest.approx(within, abs=1e-3 * np.abs(within).max())


def dispersions(dense: Dense) -> Floats:
    """By part and value: the squared derivatives of strata around their mean, over those of buckets; half believed."""
    shown = dense.diagonal()[0]
    strata = dense.design.strata
    by_stratum = np.array(
        [
            (dense.features[rows] - dense.means[stratum]).T @ dense.rest[rows]
            for stratum, rows in enumerate(dense.strata_rows())
        ]
    )
    apart = ((by_stratum - by_stratum.mean(axis=0)) ** 2).sum(axis=0)
    found = np.ones((len(dense.design.coding.parts), dense.design.kinds))
    for part, value in np.ndindex(found.shape):
        own = dense.design.coding.part_of == part
        ratio = apart[own, value].sum() / shown[own, value].sum()
        found[part, value] += max(0.0, ratio - 1) * strata / (strata + module._FEW_STRATA)
    return found


def test_draws_take_what_buckets_show(dense: Dense) -> None:
    before, excess = dense.curvature.scale.astype(np.float64), dense.curvature.excess
    loose = dispersions(dense)[dense.design.coding.part_of]
    damped = dense.curvature.as_shown()
    assert damped == pytest.approx(1 / np.sqrt(loose), rel=1e-3)
    assert dense.curvature.scale == pytest.approx(before / np.sqrt(excess * loose), rel=1e-3)


def test_slopes_that_differ_between_strata_are_known_less() -> None:
    """Two strata with opposite associations: their derivatives cancel out, and no slope is known by that."""
    random = np.random.default_rng(1)
    buckets, size, strata = 60, 4, 6
    truth = random.integers(0, 2, buckets * size)
    turned = np.repeat(np.arange(strata) % 2, buckets * size // strata)
    plain = [column(truth ^ turned)]
    alike = [column(truth)]
    own = np.repeat(np.arange(strata), buckets // strata).tolist()
    apart, same = (make(truth, [size] * buckets, columns, strata=own) for columns in (plain, alike))
    loose = [float(without_slopes(made).as_shown().min()) for made in (apart, same)]
    assert loose[0] < 0.75
    assert loose[1] == pytest.approx(1.0, abs=0.05)


def without_slopes(made: Made) -> Curvature:
    """Where slopes are 0 and levels are those of strata."""
    levels = np.log(made.design.compositions / made.design.compositions.sum(axis=1, keepdims=True))
    p = row_shares(made, np.zeros((made.design.width, made.design.kinds)), levels)
    q = all_truths(made, p)[1]
    return Curvature(made.design, (q - p).astype(np.float32), p.astype(np.float32))
