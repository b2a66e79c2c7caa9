"""Different ones are counted, exactly while there is room and nearly so after that."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.model.entries import Occurrences
from dalenius.place.occurrences import OccurrenceCounter, count_numbers


@given(st.lists(st.lists(st.integers(0, 40), max_size=20), max_size=6))
def test_exact_while_there_is_room(batches: list[list[int]]) -> None:
    counter = OccurrenceCounter(most=50)
    for batch in batches:
        counter.add(np.asarray(batch, dtype=np.uint64))
    counts = Counter(number for batch in batches for number in batch)
    once = sum(count == 1 for count in counts.values())
    pairs = sum(count * (count - 1) // 2 for count in counts.values())
    assert counter.finish() == Occurrences(counts.total(), len(counts), once, pairs=pairs)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_close_where_there_is_none(repeats: int) -> None:
    rng = np.random.default_rng(3)
    hashes = rng.permutation(np.repeat(rng.integers(0, 2**64, 40_000, dtype=np.uint64), repeats))
    counter = OccurrenceCounter(most=4000)
    for batch in np.array_split(hashes, 9):
        counter.add(batch)
    found = counter.finish()
    assert found.records == len(hashes)
    assert found.is_estimate
    assert found.different == pytest.approx(40_000, rel=0.001)  # the share that repeats is exact
    assert found.once == (len(hashes) if repeats == 1 else 0)


def test_numbers_of_a_large_table() -> None:
    rng = np.random.default_rng(4)
    alone = np.arange(200_000, dtype=np.uint32) * 64
    shared = np.repeat(np.arange(100_000, dtype=np.uint32), 3) * 64 + 1
    found = count_numbers(np.array_split(rng.permutation(np.concatenate([alone, shared])), 5))
    assert found.records == 500_000
    assert found.is_estimate
    assert found.once == pytest.approx(200_000, rel=0.03)
    assert found.different == pytest.approx(300_000, rel=0.03)
    assert found.pairs == pytest.approx(300_000, rel=0.03)
    assert count_numbers([np.arange(1000), np.arange(500)]) == Occurrences(1500, 1000, 500, pairs=500)
