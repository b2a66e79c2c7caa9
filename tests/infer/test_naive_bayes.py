"""Learning finds an association that is there, and stops where there is none."""

from __future__ import annotations

import numpy as np

from dalenius.infer.candidates import Candidates, Column, make_blocks
from dalenius.infer.naive_bayes import learn, log_scores


def candidates(agree: float, rows: int = 4000, values: int = 8, size: int = 4) -> tuple[Candidates, np.ndarray]:
    """Buckets of different values, rows in random order, and a column that tells the value with some probability."""
    rng = np.random.default_rng(0)
    buckets = rows // size
    held = np.stack([rng.permutation(values)[:size] for _ in range(buckets)])
    truth = held.ravel()
    codes = np.where(rng.random(rows) < agree, truth, rng.integers(0, values, rows)).astype(np.int32)
    bucket_of = np.repeat(np.arange(buckets), size)
    cells = np.sort(held, axis=1).ravel()
    parts = make_blocks(bucket_of, bucket_of, cells, np.ones(rows, np.int64))
    return Candidates(np.arange(buckets) + 1, bucket_of, parts, values, (Column("z", codes, values),)), truth


def accuracy(made: Candidates, beliefs: list[np.ndarray], truth: np.ndarray) -> float:
    right = 0
    for block, p in zip(made.blocks, beliefs, strict=True):
        guess = np.take_along_axis(block.values, p.argmax(axis=2), axis=1)
        right += int((guess == truth[block.rows]).sum())
    return right / len(truth)


def test_what_goes_together_is_learned() -> None:
    made, truth = candidates(1.0)
    learned = learn(made)
    assert accuracy(made, learned.beliefs, truth) > 0.99
    table = learned.tables[0]
    assert (table.argmax(axis=1) == np.arange(8)).all()
    scores = log_scores(learned.tables, made.columns, np.arange(100), np.full(8, 1 / 8))
    assert (scores.argmax(axis=1) == truth[:100]).all()


def test_nothing_is_learned_where_nothing_goes_together() -> None:
    made, truth = candidates(0.0)
    assert abs(accuracy(made, learn(made).beliefs, truth) - 0.25) < 0.035


def test_beliefs_have_the_margins_of_the_buckets() -> None:
    made, _ = candidates(0.5)
    for block, p in zip(made.blocks, learn(made, rounds=3).beliefs, strict=True):
        np.testing.assert_allclose(p.sum(axis=2), 1, rtol=1e-9)
        np.testing.assert_allclose(p.sum(axis=1), block.counts, rtol=1e-9)


def test_a_cell_that_nobody_has_says_nothing() -> None:
    made, _ = candidates(1.0)
    learned = learn(made)
    column = made.columns[0]
    outside = (Column(column.name, np.append(column.codes, np.int32(column.kinds)), column.kinds),)
    frequencies = np.arange(1, 9) / 36
    scores = log_scores(learned.tables, outside, np.array([made.rows]), frequencies)
    np.testing.assert_allclose(scores[0], np.log(frequencies))
