"""OpenDP's noise against the exact law of Y/X.

The noise cannot be seeded. Tests leave room for chance: by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart
an empirical distribution function of n draws is off by more than sqrt(ln(2/α) / 2n) with probability at most α = 1e-9.
"""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import dalenius
from dalenius.dp_risk import ratio as theorem
from dalenius.dp_risk.noise import draw, laplace, require_opendp
from dalenius.dp_risk.ratio import noise_alone, noisy_ratios, pinned, ratio, thresholds, typical
from dalenius.errors import MissingExtraError
from tests.dp_risk.exact import claimed_above, quantile, ratio_at_most

DRAWS = 4_000
ROOM = math.sqrt(math.log(2 / 1e-9) / (2 * DRAWS))

CASES = [(1, 1, 1.0), (5, 2, 0.1), (20, 1, 0.1), (100, 50, 0.1), (1000, 990, 0.1), (30, 3, 1.0), (300, 0, 0.01)]


def test_the_noise_is_laplace() -> None:
    noise = np.sort(laplace(3.0, DRAWS))
    exact = np.where(noise < 0, 0.5 * np.exp(noise / 3.0), 1 - 0.5 * np.exp(-noise / 3.0))
    assert np.abs(exact - (np.arange(DRAWS) + 0.5) / DRAWS).max() < ROOM + 1 / DRAWS
    assert len(np.unique(noise)) == DRAWS  # continuous, not whole numbers


def test_the_two_counts_have_noise_of_their_own() -> None:
    noise = draw(0.5, DRAWS)
    assert len(noise.of_size) == len(noise.of_count) == DRAWS
    assert abs(np.corrcoef(np.sign(noise.of_size), np.sign(noise.of_count))[0, 1]) < 0.1


@pytest.mark.parametrize(("size", "count", "epsilon"), CASES)
def test_simulated_ratios_follow_the_exact_law(size: int, count: int, epsilon: float) -> None:
    noise = draw(epsilon, DRAWS)
    ratios, claims = noisy_ratios(np.array([size]), np.array([count]), noise)
    found = np.sort(ratios[0])
    exact = [ratio_at_most(t, size, count, 1 / epsilon) for t in found.tolist()]
    assert np.abs(np.array(exact) - (np.arange(DRAWS) + 0.5) / DRAWS).max() < ROOM + 1 / DRAWS
    for limit in (0.05, 0.3, 0.9):
        above = pinned(ratios, claims, thresholds([limit])).mean()
        assert above == pytest.approx(claimed_above(limit, size, count, 1 / epsilon), abs=ROOM)


@pytest.mark.parametrize(("size", "count", "epsilon"), CASES)
def test_median_and_interval_are_quantiles_of_it(size: int, count: int, epsilon: float) -> None:
    found = ratio(size, count, draw(epsilon, DRAWS))
    for value, share in ((found.interval[0], 0.025), (found.median, 0.5), (found.interval[1], 0.975)):
        assert ratio_at_most(value, size, count, 1 / epsilon) == pytest.approx(share, abs=ROOM)


def test_simulation_and_theorem_agree_where_groups_are_large_and_not_where_they_are_small() -> None:
    points = {point.size: point for point in typical([draw(0.1, DRAWS)])}
    assert points[100].factor == pytest.approx(1.02)
    assert points[1000].factor == pytest.approx(1.0002)
    for size in (1_000, 10_000):
        found = points[size].ratio
        spread = math.sqrt(theorem.variance(size, size // 2, 0.1))
        assert found.median == pytest.approx(found.mean, abs=0.15 * spread)
        assert (found.interval[1] - found.interval[0]) / spread == pytest.approx(4.2, abs=0.6)
    small = points[10].ratio
    assert small.mean == pytest.approx(1.5)
    assert small.median < 0.5 < 0.5 * small.mean
    width = quantile(0.975, 10, 5, 10) - quantile(0.025, 10, 5, 10)
    assert width > 2 * 4.2 * math.sqrt(small.variance)


def test_a_claim_needs_a_group_and_nothing_is_above_one() -> None:
    ratios, claims = np.array([[2.0, 2.0, 0.5]]), np.array([[True, False, True]])
    assert pinned(ratios, claims, thresholds([0.9])).tolist() == [[True, False, False]]
    assert pinned(ratios, claims, thresholds([1.0])).tolist() == [[False, False, False]]


@pytest.mark.parametrize("limit", [0.02, 0.3, 0.99])
def test_what_noise_alone_pins(limit: float) -> None:
    for b in (1.0, 100.0):
        assert noise_alone(thresholds([limit]))[0] == pytest.approx(claimed_above(limit, 0, 0, b))
    assert noise_alone(thresholds([1.0]))[0] == 0


def test_without_opendp_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opendp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingExtraError) as caught:
        require_opendp()
    assert caught.value.exit_code == 2
    assert "pip install 'dalenius[dp]'" in str(caught.value)


def test_opendp_has_one_door_and_its_settings_are_left_alone() -> None:
    source = Path(dalenius.__file__).parent
    users = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "opendp" for name in names):
                users.add(path)
    assert users == {source / "dp_risk" / "noise.py"}
    from opendp.mod import GLOBAL_FEATURES

    before = set(GLOBAL_FEATURES)
    laplace(1.0, 1)
    assert before == GLOBAL_FEATURES
