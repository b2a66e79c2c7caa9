"""The regression against sums over all truths, finite differences, dense covariances and associations made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dalenius.infer import regression as module
from dalenius.infer.candidates import Block, Floats
from dalenius.infer.curvature import Curvature, Pair
from dalenius.infer.regression import Regression, fit, matched
from tests.infer.designs import Made, all_truths, column, fake_shares, make, row_shares, tiny

CASES: dict[str, dict[str, Any]] = {
    "one stratum": {},
    "two strata": {"strata": (0, 0, 0, 4, 4)},
    "fakes": {"fakes": 2, "strata": (0, 0, 1, 1)},
}

LITTLE_KNOWN = 2.0  # τ before anything is seen, so that the release decides


@pytest.fixture(params=CASES, name="made")
def each_case(request: pytest.FixtureRequest) -> Made:
    return tiny(1, **CASES[request.param])


def some_point(made: Made, seed: int = 2) -> Pair:
    random, kinds = np.random.default_rng(seed), made.design.kinds
    return random.normal(size=(made.design.width, kinds)), random.normal(size=(made.design.strata, kinds))


def likelihood(made: Made, slopes: Floats, levels: Floats) -> float:
    return all_truths(made, row_shares(made, slopes, levels))[0]


def beliefs_of_rows(made: Made, beliefs: list[Floats]) -> Floats:
    """Beliefs as a table of rows and values."""
    table = np.zeros((made.design.rows, made.design.kinds))
    for block, own in zip(made.design.candidates.blocks, beliefs, strict=True):
        for place in range(len(block.buckets)):
            for number, row in enumerate(block.rows[place]):
                table[row, block.values[place]] = own[place, number]
    return table


def associated(strength: float, *, rows: int = 1200, size: int = 4, seed: int = 0) -> Made:
    """Two columns that say something of three values, and one that does not; 300 buckets at random."""
    random = np.random.default_rng(seed)
    one, other, none = (random.integers(0, 2, rows) for _ in range(3))
    logits = strength * np.stack([np.zeros(rows), 2.0 * one - 1, 2.0 * other - 1], axis=1)
    truth = np.argmax(logits + random.gumbel(size=logits.shape), axis=1)
    columns = [column(own, name=name) for own, name in ((one, "one"), (other, "other"), (none, "none"))]
    return make(truth, [size] * (rows // size), columns)


def test_what_is_left_within_buckets_is_the_sum_over_all_truths(made: Made) -> None:
    slopes, levels = some_point(made)
    base = np.array([0.3, -0.2, 0.1])
    residuals, shares, _ = module._at(made.design, base, (slopes, levels - base))
    p = row_shares(made, slopes, levels)
    assert shares == pytest.approx(p, abs=1e-5)
    assert residuals + shares == pytest.approx(all_truths(made, p)[1], abs=1e-5)


def test_the_derivative_is_that_of_the_sum_over_all_truths(made: Made) -> None:
    slopes, levels = some_point(made)
    *_, derivative = module._at(made.design, np.zeros(3), (slopes, levels))
    step = 1e-5
    for part, numbers in enumerate((slopes, levels)):
        for place in np.ndindex(numbers.shape):
            apart = []
            for sign in (1, -1):
                moved = [slopes.copy(), levels.copy()]
                moved[part][place] += sign * step
                apart.append(likelihood(made, *moved))
            difference = (apart[0] - apart[1]) / (2 * step)
            assert derivative[part][place] == pytest.approx(difference, abs=2e-4)


def test_large_buckets_keep_their_margins() -> None:
    """They are matched by scaling: everybody has one value, and every value as many as the bucket has."""
    made = associated(1.0, rows=240, size=24)
    point = fit(made.design, 2).point
    residuals, shares, _ = module._at(made.design, np.zeros(3), point)
    left = (residuals + shares).reshape(-1, 24, 3)
    assert left.sum(axis=2) == pytest.approx(1.0, abs=1e-5)
    counts = np.array([[held.count(value) for value in range(3)] for held in made.held])
    assert left.sum(axis=1) == pytest.approx(counts, abs=0.02)


def test_the_fit_is_the_most_probable_point() -> None:
    """The derivative of likelihood and prior is 0 there, and no point nearby is better."""
    made = tiny(4, strata=(0, 0, 0, 1, 1, 1))
    found = fit(made.design, 60)
    variances = module._variances(
        made.design, found.deviations, module._weights(made.design, found.deviations, found.point)
    )
    slopes, levels = found.point

    def worth(moved: Floats, more: Floats) -> float:
        prior = float((moved**2 / variances.slopes).sum() + (more**2).sum() / variances.levels)
        return likelihood(made, moved, more + found.base) - prior / 2

    best, random = worth(slopes, levels), np.random.default_rng(0)
    for _ in range(30):
        apart = random.normal(size=slopes.shape), random.normal(size=levels.shape)
        size = 0.03 / np.sqrt((apart[0] ** 2).sum() + (apart[1] ** 2).sum())
        assert worth(slopes + size * apart[0], levels + size * apart[1]) < best + 1e-4


def test_what_complete_rows_tell_is_learned_from_buckets() -> None:
    made = associated(1.2)
    found = fit(made.design)
    slopes = found.point[0].reshape(3, 2, 3)  # columns, codes, values
    apart = slopes[:, 1] - slopes[:, 0]
    expected = np.array([[0, 2.4, 0], [0, 0, 2.4], [0, 0, 0]])
    assert apart - apart.mean(axis=1, keepdims=True) == pytest.approx(
        expected - expected.mean(axis=1, keepdims=True), abs=0.5
    )
    left = beliefs_of_rows(made, found.beliefs(made.design.candidates, np.arange(3)))
    alike = beliefs_of_rows(made, [block.shares() for block in made.design.candidates.blocks])
    each = np.arange(made.design.rows)
    assert np.log(left[each, made.truth]).mean() > np.log(alike[each, made.truth]).mean() + 0.15


def test_where_there_is_nothing_to_learn_rows_are_alike() -> None:
    made = associated(0.0)
    found = fit(made.design)
    assert (found.deviations[:3] < 0.12).all()
    left = beliefs_of_rows(made, found.beliefs(made.design.candidates, np.arange(3)))
    alike = beliefs_of_rows(made, [block.shares() for block in made.design.candidates.blocks])
    assert np.abs(left - alike).mean() < 0.03


def test_parts_that_say_more_have_larger_slopes() -> None:
    found = fit(associated(1.2).design)
    one, other, none = found.deviations[:3]
    assert min(one, other) > 4 * none


def test_beliefs_are_the_sum_over_all_truths_at_the_fit(made: Made) -> None:
    found = fit(made.design, 4)
    p = row_shares(made, found.point[0], found.levels())
    left = beliefs_of_rows(made, found.beliefs(made.design.candidates, np.arange(made.design.kinds)))
    assert left == pytest.approx(all_truths(made, p)[1], abs=1e-5)


def test_values_of_one_kind_are_alike() -> None:
    """Two values that are not told apart share what their kind has, as often as the bucket has each."""
    random = np.random.default_rng(3)
    truth, codes = random.integers(0, 3, 24), random.integers(0, 2, 24)
    whole = make(truth, [4] * 6, [column(codes)], values=3)
    kind_of = np.array([0, 1, 1])
    found = fit(make(kind_of[truth], [4] * 6, [column(codes)], values=2).design, 4)
    left = beliefs_of_rows(whole, found.beliefs(whole.design.candidates, kind_of))
    levels = found.levels()[:, kind_of]
    p = row_shares(whole, found.point[0][:, kind_of], levels)
    assert left == pytest.approx(all_truths(whole, p)[1], abs=1e-5)


def test_others_are_judged_as_rows_are() -> None:
    made = tiny(2, strata=(3, 3, 7, 7, 7))
    found = fit(made.design, 4)
    features = made.design.features(slice(0, made.design.rows))
    strata = made.design.numbers[made.design.row_strata]
    assert strata.tolist() == sorted(strata)
    assert set(strata.tolist()) == {3, 7}
    assert found.logits_of(features, strata) == pytest.approx(found.logits(), abs=1e-4)
    shares = np.bincount(made.design.row_strata) / made.design.rows
    for nowhere in (-1, 5, 9):
        elsewhere = found.logits_of(features, np.full(made.design.rows, nowhere))
        assert elsewhere == pytest.approx(features @ found.point[0] + shares @ found.levels(), abs=1e-5)


def test_fakes_can_be_anything_as_often_as_it_is_there() -> None:
    """One row, one fake and two values: by hand."""
    block = Block(np.array([0]), np.array([0]), 1, 1, np.array([[0, 1]]), np.array([[1, 1]]))
    left = matched(block, np.array([[[0.3, 0.6]]]), np.array([[20.0, 10.0]]))
    first, second = 0.3 * 10, 0.6 * 20  # the fake is the other value
    assert left == pytest.approx(np.array([[[first, second]]]) / (first + second))


def test_fakes_of_enumeration_and_of_the_program_agree() -> None:
    made = tiny(5, strata=(0, 0, 1, 1), fakes=1)
    shares = fake_shares(made)
    expected = made.design.compositions / made.design.compositions.sum(axis=1, keepdims=True)
    assert np.array(shares) == pytest.approx(expected)


@pytest.mark.parametrize("case", ["one stratum", "two strata"])
def test_draws_scatter_as_their_covariance_says(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """J + P' of noise through the inverse of H + P', around where the release alone would have the point."""
    monkeypatch.setattr("dalenius.infer.curvature._TOLERANCE", 1e-6)
    monkeypatch.setattr("dalenius.infer.curvature._MOST_STEPS", 400)
    monkeypatch.setattr(module, "_WIDER", 1.0)
    monkeypatch.setattr(module, "_FACTORS", np.ones(1))
    monkeypatch.setattr(module, "_PRIOR", np.zeros(1))
    made = tiny(1, **CASES[case])
    found = fit(made.design, 6)
    believed = np.zeros_like(found._beliefs)
    believed[:, np.abs(module._GRID - LITTLE_KNOWN).argmin()] = 1.0
    known = replace(found, _beliefs=believed)
    random = np.random.default_rng(0)
    draws = np.array([flat(known.draw(random)) for _ in range(1500)])
    expected = covariance(known)
    apart = draws - moved(known)
    errors = np.sqrt(np.diag(expected) / len(draws))
    assert np.abs(apart.mean(axis=0) / errors).max() < 4.5
    directions = np.vstack([random.normal(size=(20, draws.shape[1])), *typical_logits(known)])
    ratios = (apart @ directions.T).var(axis=0) / np.einsum("di,ij,dj->d", directions, expected, directions)
    assert ratios == pytest.approx(1.0, abs=0.18)  # five standard errors of a variance


def typical_logits(found: Regression) -> list[Floats]:
    """What gives the logits of one value against the next of somebody with the mean features of a stratum."""
    design, directions = found.design, []
    for stratum in range(design.strata):
        reach = np.append(design.means[stratum], np.eye(design.strata)[stratum])
        directions += [np.kron(reach, np.eye(design.kinds)[x] - np.eye(design.kinds)[x - 1]) for x in (1, 2)]
    return directions


def flat(point: Pair) -> Floats:
    return np.append(point[0].ravel(), point[1].ravel())


def drawn_precision(found: Regression) -> Floats:
    """P', of every slope and level."""
    size = found.point[0].size + found.point[1].size
    return np.full(size, 1 / module._GRID[np.abs(module._GRID - LITTLE_KNOWN).argmin()] ** 2)


def whole(found: Regression) -> Floats:
    """H."""
    size = found.point[0].size + found.point[1].size
    return np.array([flat(found._curvature.times(unflat(found, unit))) for unit in np.eye(size)])


def moved(found: Regression) -> Floats:
    """Where the release alone would have the point: the fit's prior is taken back, and that of draws put in."""
    pull = flat(found._pulled) - drawn_precision(found) * flat(found.point)
    centre: Floats = flat(found.point) + np.linalg.solve(whole(found) + np.diag(drawn_precision(found)), pull)
    return centre


def covariance(found: Regression) -> Floats:
    """That of draws whose τ are known, from dense matrices."""
    design, prior = found.design, drawn_precision(found)
    slopes = design.width * design.kinds
    noise = totals_noise(found, found._curvature)
    for bucket, stratum in enumerate(design.stratum_of):
        first, rows_in = design.first_rows[bucket], design.sizes[bucket]
        own = slice(first, first + rows_in)
        centred = design.features(own) - design.means[stratum]
        derivative = np.zeros(len(prior))
        derivative[:slopes] = (centred.T @ found._residuals[own] * found._damped).ravel()
        noise += np.outer(derivative, derivative)
    inverse = np.linalg.inv(whole(found) + np.diag(prior))
    scatter: Floats = inverse @ (noise + np.diag(prior)) @ inverse.T
    return scatter


def totals_noise(found: Regression, curvature: Curvature) -> Floats:
    """What the totals of strata tell of means of features and of levels."""
    design = found.design
    size = (design.width + design.strata) * design.kinds
    total = np.zeros((size, size))
    for stratum in range(design.strata):
        reach = np.append(design.means[stratum], np.eye(design.strata)[stratum])
        total += np.kron(np.outer(reach, reach), curvature.between[stratum])
    return total


def unflat(found: Regression, numbers: Floats) -> Pair:
    slopes = found.point[0].size
    return numbers[:slopes].reshape(found.point[0].shape), numbers[slopes:].reshape(found.point[1].shape)


def test_draws_are_wider_where_less_is_known() -> None:
    """A quarter of the buckets: slopes scatter about twice as much, as standard errors do."""
    random = np.random.default_rng(0)
    scatter = []
    for rows in (800, 3200):
        found = fit(associated(1.2, rows=rows).design)
        draws = np.array([found.draw(random)[0] for _ in range(40)]).reshape(40, 3, 2, 3)
        apart = draws[:, 0, 1] - draws[:, 0, 0]
        scatter.append(float((apart - apart.mean(axis=1, keepdims=True)).std(axis=0).mean()))
    assert 1.3 < scatter[0] / scatter[1] < 3.0


def test_rounds_are_told() -> None:
    told: list[int] = []
    fit(tiny().design, 5, each_round=lambda: told.append(1))
    assert len(told) == 5
