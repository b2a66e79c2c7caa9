"""The mathematics of learning: against brute force, against placements, and where nothing is left to learn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import dalenius
from dalenius.infer.association import Association, components
from dalenius.infer.compositions import find_compositions
from dalenius.model.estimate import Estimate
from dalenius.place.slots import Placement

Floats = npt.NDArray[np.float64]

SLOTS = np.array([[4.0, 2, 0, 6], [3, 3, 3, 0], [0, 5, 2, 1]])
SETS = np.array([[(number >> bit) & 1 for bit in range(4)] for number in range(16)], dtype=np.float64)


def placement_noise(slots: Floats) -> Floats:
    """Cov y / s."""
    noise: Floats = np.diag(slots.sum(axis=1)) - (slots / slots.sum(axis=0)) @ slots.T
    return noise


@pytest.mark.parametrize("ratio", [0.0, 1e-3, 0.5, 20.0])
def test_the_closed_form_is_gaussian_conditioning(ratio: float) -> None:
    records, noise, matching = SLOTS.sum(axis=0), 0.2, np.array([5.0, 2, 4])
    mean = matching.sum() / records.sum()
    vague = 1e5  # the variance of the common mean, which has none to speak of
    prior = vague + noise * (ratio * np.eye(4) + np.diag(1 / records))
    seen = SLOTS @ prior @ SLOTS.T + noise * placement_noise(SLOTS)
    gain = np.linalg.solve(seen, SLOTS @ prior)
    shares = mean + gain.T @ (matching - SLOTS.sum(axis=1) * mean)
    left = prior - prior @ SLOTS.T @ gain
    chosen = SETS * records
    means, variances = Association(SLOTS).moments_given(
        np.tile(matching, (16, 1)), SETS, np.full(16, noise), np.array([ratio])
    )
    assert means[:, 0] == pytest.approx(chosen @ shares, abs=1e-5)
    assert variances[:, 0] == pytest.approx(np.einsum("qx,xz,qz->q", chosen, left, chosen), abs=1e-4)


def test_without_association_it_is_the_estimate_of_buckets() -> None:
    matching = np.array([[5.0, 2, 4]])
    means, variances = Association(SLOTS).moments_given(
        matching, np.array([[1.0, 0, 0, 1]]), np.array([0.24]), np.zeros(1)
    )
    sizes, slots = SLOTS.sum(axis=1), SLOTS[:, [0, 3]].sum(axis=1)
    assert means[0, 0] == pytest.approx((matching[0] * slots / sizes).sum())
    assert variances[0, 0] == pytest.approx(0.24 * (slots * (sizes - slots) / sizes).sum())


def test_one_class_has_nothing_to_teach() -> None:
    posterior = Association(np.array([[10.0, 20, 30]])).posterior(np.array([[24.0]]), np.array([[1.0, 0, 1]]))
    assert posterior.mean[0] == pytest.approx(24 * 40 / 60)
    assert posterior.deviation[0] > 0


@pytest.mark.parametrize("matching", [[0.0, 0, 0], [12.0, 9, 8], [5.0, 2, 4]])
def test_no_values_and_all_values_are_exact(matching: list[float]) -> None:
    posterior = Association(SLOTS).posterior(np.tile(matching, (2, 1)), np.array([[0.0] * 4, [1.0] * 4]))
    assert posterior.mean == pytest.approx([0, sum(matching)], abs=1e-9)
    assert posterior.low == pytest.approx([0, sum(matching)], abs=1e-6)
    assert posterior.high == pytest.approx([0, sum(matching)], abs=1e-6)


def test_none_and_all_of_the_rows_are_exact() -> None:
    posterior = Association(SLOTS).posterior(np.array([[0.0, 0, 0], [12, 9, 8]]), np.array([[1.0, 0, 0, 1]] * 2))
    assert posterior.mean == pytest.approx([0, 14])
    assert posterior.deviation == pytest.approx([0, 0], abs=1e-6)


def test_values_that_fill_classes_of_their_own_are_exact() -> None:
    slots = np.array([[4.0, 0, 0], [3, 0, 0], [0, 5, 4], [0, 1, 6]])
    assert [part.tolist() for part in components(slots > 0)] == [[0, 0, 1, 1], [0, 1, 1]]
    posterior = Association(slots).posterior(np.array([[2.0, 1, 3, 2]] * 2), np.array([[1.0, 0, 0], [0, 1, 1]]))
    assert posterior.mean == pytest.approx([3, 5])
    assert posterior.deviation == pytest.approx([0, 0], abs=1e-6)


def test_buckets_of_one_record_leave_nothing_open() -> None:
    posterior = Association(np.diag([3.0, 2.0, 1.0])).posterior(np.array([[2.0, 0, 1]]), np.array([[1.0, 0, 1]]))
    assert posterior.mean[0] == pytest.approx(3)
    assert posterior.deviation[0] == pytest.approx(0, abs=1e-9)


def test_answers_are_cut_to_bounds_and_rounded_outwards() -> None:
    posterior = Association(SLOTS).posterior(np.array([[5.0, 2, 4]]), np.array([[1.0, 0, 0, 1]]))

    def within(least: int, most: int) -> Estimate:
        mean, deviation = float(posterior.mean[0]), float(posterior.deviation[0])
        low, high = float(posterior.low[0]), float(posterior.high[0])
        return Estimate.of(5, 1.0, least, most).with_learning(mean, deviation, low, high)

    assert within(0, 14).interval == (int(np.floor(posterior.low[0])), int(np.ceil(posterior.high[0])))
    assert within(9, 11).interval == (9, 9)
    assert within(9, 11).estimate == 9
    assert within(0, 1).interval == (1, 1)


def test_rows_are_where_the_model_says_whatever_the_data() -> None:
    """E y = X p and its covariance, over many keys; the matching records are as bunched as can be."""
    counts = {"a": 30, "b": 24, "c": 18, "d": 12}
    plan = dalenius.plan(counts, {"theta": 2, "base": "0.05"})
    assert plan.solution is not None
    partition = plan.solution.partition
    assert partition is not None
    values = np.repeat(np.arange(4), list(counts.values()))
    matches = np.arange(84) % 12 < np.array([11, 1, 6, 3])[values]
    random = np.random.default_rng(7)
    totals, found = [], None
    for _ in range(4000):
        order, buckets = Placement([partition], random.bytes(32)).buckets(values, np.zeros(4, np.int64))
        if found is None:
            by_bucket = np.argsort(buckets, kind="stable")
            found = find_compositions([(buckets[by_bucket].astype(np.int64), values[order][by_bucket])])
            assert found.number > 2
        totals.append(np.bincount(found.of(buckets)[matches[order]], minlength=found.number))
    assert found is not None
    slots = found.blocks[0].slots
    records = slots.sum(axis=0)
    shares = np.bincount(values, weights=matches) / records
    scatter = shares * (1 - shares) * records / (records - 1)
    expected = sum(
        scatter[x] * (np.diag(slots[:, x]) - np.outer(slots[:, x], slots[:, x]) / records[x]) for x in range(4)
    )
    error = np.sqrt(np.diag(expected) / len(totals))
    assert np.abs(np.mean(totals, axis=0) - slots @ shares) == pytest.approx(0, abs=4.5 * error.max())
    assert np.cov(np.transpose(totals)) == pytest.approx(expected, abs=0.1 * np.diag(expected).max())
