"""Marginals against the sum over all assignments, and margins that scaling must keep."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from dalenius.infer.candidates import Block
from dalenius.infer.naive_bayes import exact_beliefs, marginals, match_values, scale_margins


def block(counts: list[int], fakes: int = 0, buckets: int = 3) -> Block:
    size = sum(counts) - fakes
    return Block(
        np.arange(buckets),
        np.arange(buckets) * size,
        size,
        fakes,
        np.tile(np.arange(len(counts)), (buckets, 1)),
        np.tile(np.array(counts), (buckets, 1)),
    )


def by_force(weights: np.ndarray) -> np.ndarray:
    """The share of each (row, slot) in the sum over all assignments of slots to rows."""
    found = np.zeros(weights.shape)
    total = 0.0
    for slots in permutations(range(len(weights))):
        weight = float(np.prod([weights[row, slot] for row, slot in enumerate(slots)]))
        total += weight
        for row, slot in enumerate(slots):
            found[row, slot] += weight
    return found / total


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 6])
def test_marginals_are_those_of_all_assignments(slots: int) -> None:
    weights = np.random.default_rng(slots).random((4, slots, slots)) ** 3
    found = marginals(weights)
    for bucket in range(4):
        np.testing.assert_allclose(found[bucket], by_force(weights[bucket]), rtol=1e-9)


@pytest.mark.parametrize(("counts", "fakes"), [([1, 1, 1], 0), ([2, 1, 2], 0), ([2, 2], 1), ([1, 3, 1], 2)])
def test_repeated_values_and_fakes(counts: list[int], fakes: int) -> None:
    made = block(counts, fakes)
    likelihood = np.random.default_rng(1).random(made.shape)
    if fakes:
        likelihood[:, -1] = 1.0
    found = exact_beliefs(made, likelihood)
    value_of = np.repeat(np.arange(len(counts)), counts)
    for bucket in range(len(made.buckets)):
        rows = [*range(made.size), *[made.size] * fakes]
        by_slot = by_force(likelihood[bucket][rows][:, value_of])
        expected = np.stack([by_slot[:, value_of == value].sum(axis=1) for value in range(len(counts))], axis=1)
        np.testing.assert_allclose(found[bucket, : made.size], expected[: made.size], rtol=1e-9)
        if fakes:
            np.testing.assert_allclose(found[bucket, -1], expected[made.size :].sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize(("counts", "fakes"), [([3, 4, 5], 0), ([6, 2, 4], 2), ([1] * 12, 0)])
def test_scaling_keeps_rows_and_comes_to_the_counts(counts: list[int], fakes: int) -> None:
    made = block(counts, fakes)
    weights = np.random.default_rng(2).random(made.shape) + 0.01
    found = scale_margins(made, weights, 200)
    np.testing.assert_allclose(found.sum(axis=2), np.tile(made.masses, (3, 1)), rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), made.counts, rtol=1e-6)


def test_a_flat_likelihood_gives_the_shares() -> None:
    for counts, fakes in ([2, 1, 1], 0), ([2, 2], 1), ([5, 6, 1], 0), ([5, 6, 3], 2):
        made = block(counts, fakes)
        np.testing.assert_allclose(match_values(made, np.ones(made.shape)), np.broadcast_to(made.shares(), made.shape))


def test_a_row_that_no_value_fits_is_not_a_number_nowhere() -> None:
    made = block([6, 6])
    weights = np.ones(made.shape)
    weights[0, 0] = 0.0
    assert np.isfinite(scale_margins(made, weights, 4)).all()


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize(
    ("counts", "fakes"), [([3, 3, 3], 0), ([1] * 9, 0), ([5, 2, 1, 1], 0), ([8, 1], 0), ([4, 4, 3], 0), ([4, 3, 3], 2)]
)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_large_buckets_are_nearly_matched_as_all_assignments_are(
    counts: list[int], fakes: int, spread: float, precision: Any
) -> None:
    """Off by a tenth of what there is to learn at most; by scaling alone, it is up to 0.3."""
    made = block(counts, fakes, buckets=40)
    likelihood = np.exp(np.random.default_rng(4).normal(0, spread, made.shape))
    if fakes:
        likelihood[:, -1] = 1.0
    likelihood /= likelihood.max(axis=2, keepdims=True)
    exact, found = exact_beliefs(made, likelihood), match_values(made, likelihood.astype(precision))
    learned = np.sqrt(((exact - made.shares()) ** 2).mean())
    off, off_by_scaling = (
        np.sqrt(((one - exact) ** 2).mean()) / learned
        for one in (found, scale_margins(made, likelihood * made.counts[:, None, :], 100))
    )
    assert off < min(0.1, 0.03 + 0.05 * spread)
    assert off < off_by_scaling
    assert found.dtype == precision
    np.testing.assert_allclose(found.sum(axis=2), np.tile(made.masses, (40, 1)), rtol=1e-4)


def test_hopeless_rows_of_large_buckets_are_matched_all_the_same() -> None:
    """Likelihoods as far apart as they may be, in single precision."""
    made = block([6, 5])
    likelihood: Any = np.full(made.shape, 1e-13, np.float32)
    likelihood[:, :, 0] = 1.0
    found = match_values(made, likelihood)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, np.broadcast_to(made.shares(), made.shape), rtol=1e-3)
