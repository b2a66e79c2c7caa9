"""Simulated truths: every bucket keeps its values, every value its slots, and what was learned is in them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dalenius.infer.candidates import Column, Integers
from dalenius.infer.simulation import BucketSample, Simulator


@st.composite
def samples(draw: st.DrawFn) -> BucketSample:
    """A few buckets, of any sizes and values, in one stratum or two."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    fakes = draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes)))
    values = draw(st.integers(1, 4))
    slots = sum(sizes) + sum(fakes)
    chosen = draw(st.lists(st.integers(0, values - 1), min_size=slots, max_size=slots))
    codes = draw(st.lists(st.integers(0, 2), min_size=sum(sizes), max_size=sum(sizes)))
    buckets = np.arange(len(sizes))
    return BucketSample(
        columns=(Column("q", np.array(codes, dtype=np.int32), 3),),
        row_buckets=np.repeat(buckets, sizes),
        slot_buckets=np.repeat(buckets, np.array(sizes) + np.array(fakes)),
        slot_values=np.array(chosen, dtype=np.int64),
        stratum_of=(buckets >= draw(st.integers(0, len(sizes)))).astype(np.int64),
        values=values,
    )


def table(buckets: Integers, values: Integers) -> list[tuple[int, int]]:
    return sorted(zip(buckets.tolist(), values.tolist(), strict=True))


@given(samples(), st.integers(0, 2**32))
def test_buckets_keep_their_values_and_values_their_slots(sample: BucketSample, seed: int) -> None:
    simulator = Simulator(sample, np.random.default_rng(seed))
    truth = simulator.truth(simulator.weights())
    fakes = np.bincount(sample.slot_buckets) - np.bincount(sample.row_buckets)
    fake_rows = np.repeat(np.arange(len(sample.stratum_of)), fakes)
    owners = np.concatenate([sample.row_buckets, fake_rows])
    assert table(owners, truth) == table(sample.slot_buckets, sample.slot_values)
    placed = simulator.place(truth)
    assert (sample.stratum_of[placed] == sample.row_strata).all()
    own = truth[: sample.rows]
    assert table(placed, own) == table(sample.row_buckets, own)


def test_truths_have_the_probabilities_that_weights_give() -> None:
    """Against all assignments of a bucket of three values, in 4,000 copies of it."""
    copies, codes = 4_000, np.array([0, 1, 1], dtype=np.int32)
    buckets = np.repeat(np.arange(copies), 3)
    sample = BucketSample(
        columns=(Column("q", np.tile(codes, copies), 2),),
        row_buckets=buckets,
        slot_buckets=buckets,
        slot_values=np.tile(np.array([0, 1, 2]), copies),
        stratum_of=np.zeros(copies, dtype=np.int64),
        values=3,
    )
    logs = np.array([[1.2, 0.0, 0.0], [0.0, 0.5, 0.0], [-0.4, 0.3, 0.0]])
    drawn = Simulator(sample, np.random.default_rng(3)).truth(logs, 0.8, sweeps=40).reshape(copies, 3)
    chances = {
        order: np.exp(0.8 * sum(logs[value, codes[row]] for row, value in enumerate(order)))
        for order in permutations(range(3))
    }
    for order, chance in chances.items():
        share = chance / sum(chances.values())
        found = (drawn == order).all(axis=1).mean()
        assert abs(found - share) < 5 * np.sqrt(share * (1 - share) / copies)


def test_a_part_of_the_buckets_is_whole_buckets() -> None:
    sizes = np.array([2, 3, 4, 2, 3])
    buckets = np.repeat(np.arange(5), sizes)
    sample = BucketSample(
        columns=(Column("q", buckets.astype(np.int32), 5),),
        row_buckets=buckets,
        slot_buckets=buckets,
        slot_values=buckets % 3,
        stratum_of=np.array([0, 0, 1, 1, 1]),
        values=3,
    )
    part = sample.part(20, np.random.default_rng(0))
    assert 0 < part.rows < sample.rows
    own = part.columns[0].codes  # the number of the bucket that it was
    assert (np.bincount(own, minlength=5)[np.unique(own)] == sizes[np.unique(own)]).all()
    assert (part.slot_values == own % 3).all()
    assert (part.stratum_of == sample.stratum_of[np.unique(own)]).all()
    assert sample.part(1_000, np.random.default_rng(0)) is sample
