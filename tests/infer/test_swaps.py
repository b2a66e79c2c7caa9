"""Swaps against the enumeration of all ways to give slots to rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import pytest

from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.swaps import Fits, Swaps

DRAWS = 4000


def fits_of(table: Floats) -> Fits:
    def fits(rows: Integers, values: Integers) -> Floats:
        found: Floats = table[rows, values]
        return found

    return fits


def enumerated(table: Floats, values: list[int], rows: list[int]) -> dict[tuple[int, ...], float]:
    """The probability of what the rows have; `rows` are those of people and then those of fakes."""
    weights: dict[tuple[int, ...], float] = {}
    for given in set(permutations(values)):
        weights[given] = float(np.exp(sum(table[row, value] for row, value in zip(rows, given, strict=True))))
    whole = sum(weights.values())
    return {given: weight / whole for given, weight in weights.items()}


def assert_as_probable(seen: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float], draws: int) -> None:
    """Every frequency within five standard errors, and nothing else seen."""
    assert set(seen) <= set(expected)
    for given, share in expected.items():
        error = np.sqrt(share * (1 - share) / draws)
        assert abs(seen[given] / draws - share) <= 5 * error + 2 / draws, (given, share)


@pytest.mark.parametrize("held", [[0, 1], [0, 0, 1], [0, 1, 2], [0, 0, 1, 1], [2, 1, 0, 0, 1]])
def test_truths_are_drawn_as_often_as_they_are_probable(held: list[int]) -> None:
    """Many buckets that are alike are as many draws of one."""
    size, random = len(held), np.random.default_rng(len(held))
    table = random.normal(scale=1.2, size=(size, 3))
    buckets = np.repeat(np.arange(DRAWS), size)
    swaps = Swaps(buckets, buckets)
    values = np.tile(held, DRAWS)
    drawn = values[swaps.draw(values, fits_of(np.tile(table, (DRAWS, 1))), 60, random)].reshape(DRAWS, size)
    seen = Counter(tuple(line) for line in drawn.tolist())
    assert_as_probable(seen, enumerated(table, held, list(range(size))), DRAWS)


def test_fakes_are_rows_that_nobody_is() -> None:
    held, fakes, random = [0, 1, 1, 2], 2, np.random.default_rng(0)
    table, fake = random.normal(size=(2, 3)), np.log([0.7, 0.2, 0.1])
    rows, slots = np.repeat(np.arange(DRAWS), 2), np.repeat(np.arange(DRAWS), 4)
    whole = np.concatenate([np.tile(table, (DRAWS, 1)), np.tile(fake, (DRAWS * fakes, 1))])
    values = np.tile(held, DRAWS)
    drawn = values[Swaps(rows, slots).draw(values, fits_of(whole), 60, random)]
    seen = Counter(tuple(line) for line in drawn[: DRAWS * 2].reshape(-1, 2).tolist())
    expected: dict[tuple[int, ...], float] = defaultdict(float)
    for given, share in enumerated(np.vstack([table, fake, fake]), held, [0, 1, 2, 3]).items():
        expected[given[:2]] += share
    assert_as_probable(seen, dict(expected), DRAWS)


def test_without_sweeps_every_assignment_is_as_probable() -> None:
    held, random = [0, 1, 2], np.random.default_rng(1)
    buckets = np.repeat(np.arange(DRAWS), 3)

    def never(rows: Integers, values: Integers) -> Floats:
        return np.zeros(len(rows))

    values = np.tile(held, DRAWS)
    drawn = values[Swaps(buckets, buckets).draw(values, never, 0, random)].reshape(-1, 3)
    seen = Counter(tuple(line) for line in drawn.tolist())
    assert_as_probable(seen, dict.fromkeys(permutations(held), 1 / 6), DRAWS)


@pytest.mark.parametrize("fakes", [0, 3])
def test_what_a_bucket_has_never_changes(fakes: int) -> None:
    """Every slot is given once, to a row of its bucket or to a fake of it."""
    random = np.random.default_rng(2)
    sizes = random.integers(1, 20, 200)
    rows, slots = np.repeat(np.arange(200), sizes), np.repeat(np.arange(200), sizes + fakes)
    values = random.integers(0, 5, len(slots))
    table = random.normal(scale=3.0, size=(len(slots), 5))
    drawn = Swaps(rows, slots).draw(values, fits_of(table), 7, random)
    assert sorted(drawn.tolist()) == list(range(len(slots)))
    assert (slots[drawn[: len(rows)]] == rows).all()
    assert (slots[drawn[len(rows) :]] == np.repeat(np.arange(200), fakes)).all()


def test_what_cannot_be_is_not_drawn() -> None:
    """A value that goes with one row only is in that row after some sweeps, wherever it was."""
    random = np.random.default_rng(3)
    buckets = np.repeat(np.arange(500), 4)
    table = np.zeros((2000, 2))
    table[:, 1] = np.where(np.arange(2000) % 4 == 2, 0, -60.0)
    values = np.tile([1, 0, 0, 0], 500)
    drawn = values[Swaps(buckets, buckets).draw(values, fits_of(table), 60, random)].reshape(-1, 4)
    assert (drawn == [0, 0, 1, 0]).all()


@pytest.mark.parametrize(("size", "kinds"), [(16, 16), (40, 20)])
def test_large_buckets_are_mixed_as_well(size: int, kinds: int) -> None:
    """How well values fit their rows, on the average, is nearly what it is after very many sweeps."""
    buckets, random = np.repeat(np.arange(200), size), np.random.default_rng(4)
    table, values = random.normal(scale=1.5, size=(len(buckets), kinds)), np.tile(np.arange(size) % kinds, 200)
    swaps, rows = Swaps(buckets, buckets), np.arange(len(buckets))
    few, many = (
        float(table[rows, values[swaps.draw(values, fits_of(table), sweeps, random)]].mean()) for sweeps in (24, 600)
    )
    assert few == pytest.approx(many, rel=0.02)


def test_buckets_of_one_are_left_alone() -> None:
    buckets = np.arange(6)
    drawn = Swaps(buckets, buckets).draw(np.arange(6), fits_of(np.zeros((6, 6))), 3, np.random.default_rng(0))
    assert drawn.tolist() == list(range(6))


def test_the_same_generator_gives_the_same_draw() -> None:
    buckets, values = np.repeat(np.arange(50), 4), np.tile([0, 1, 1, 2], 50)
    table = np.random.default_rng(1).normal(size=(200, 3))
    swaps = Swaps(buckets, buckets)
    one, same, other = (swaps.draw(values, fits_of(table), 5, np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert (one == same).all()
    assert (one != other).any()


def test_work_grows_with_rows_and_not_with_their_square() -> None:
    def asked(rows: int) -> int:
        """For how many rows it is asked how well they fit."""
        number = 0

        def fits(own: Integers, values: Integers) -> Floats:
            nonlocal number
            number += len(own)
            return np.zeros(len(values))

        swaps = Swaps(np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        swaps.draw(np.arange(rows), fits, 24, np.random.default_rng(0))
        return number

    assert asked(4000) < 2.2 * asked(2000)
