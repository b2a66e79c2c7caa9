from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.place.permutation import LARGEST_TABLE, KeyedPermutations


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def image(permutations: KeyedPermutations, which: int, size: int) -> list[int]:
    return [int(x) for x in permutations(np.full(size, which), np.arange(size))]


@given(
    sizes=st.lists(st.integers(1, 3000) | st.integers(LARGEST_TABLE - 2, LARGEST_TABLE + 40), min_size=1, max_size=4),
    number=st.integers(0, 2**256 - 1),
)
def test_every_image_is_hit_once(sizes: list[int], number: int) -> None:
    permutations = KeyedPermutations(key(number), sizes)
    for which, size in enumerate(sizes):
        assert sorted(image(permutations, which, size)) == list(range(size))


def test_mixed_values_in_one_batch_are_what_they_are_alone() -> None:
    sizes = [5, 2000, 1024, 100_000]
    permutations = KeyedPermutations(key(1), sizes)
    rng = np.random.default_rng(0)
    which = rng.integers(0, 4, 500)
    ranks = rng.integers(0, np.asarray(sizes)[which])
    together = permutations(which, ranks)
    alone = [int(permutations(which[k : k + 1], ranks[k : k + 1])[0]) for k in range(500)]
    assert together.tolist() == alone


def test_sizes_beyond_32_bits() -> None:
    size = 2**33 + 7
    permutations = KeyedPermutations(key(2), [size])
    ranks = np.concatenate((np.arange(1000), size - 1 - np.arange(1000)))
    images = permutations(np.zeros(2000, dtype=int), ranks)
    assert len(set(images.tolist())) == 2000
    assert int(images.max()) < size
    assert 0.4 * size < float(images.mean()) < 0.6 * size


def test_another_key_or_another_value_is_another_order() -> None:
    one, other = KeyedPermutations(key(3), [2000, 2000]), KeyedPermutations(key(4), [2000, 2000])
    assert image(one, 0, 2000) == image(KeyedPermutations(key(3), [2000]), 0, 2000)
    assert image(one, 0, 2000) != image(other, 0, 2000)
    assert image(one, 0, 2000) != image(one, 1, 2000)


def chi_squared(observed: np.ndarray, expected: float) -> float:
    return float(((observed - expected) ** 2 / expected).sum())


def test_all_orders_of_four_are_equally_likely() -> None:
    seen = Counter(tuple(image(KeyedPermutations(key(number), [4]), 0, 4)) for number in range(4800))
    assert set(seen) == set(itertools.permutations(range(4)))
    assert chi_squared(np.asarray(list(seen.values())), 200) < 49.7  # 23 degrees of freedom, p = 0.001


@pytest.mark.parametrize("size", [LARGEST_TABLE + 1, 5000])
def test_where_a_rank_goes_is_uniform(size: int) -> None:
    cells, keys = 16, 1600
    ranks = np.asarray([0, 1, size // 2, size - 1])
    counts = np.zeros((len(ranks), cells))
    for number in range(keys):
        images = KeyedPermutations(key(number), [size])(np.zeros(len(ranks), dtype=int), ranks)
        counts[np.arange(len(ranks)), (images.astype(float) * cells / size).astype(int)] += 1
    for row in counts:
        assert chi_squared(row, keys / cells) < 37.7  # 15 degrees of freedom, p = 0.001


def test_neighbouring_ranks_are_independent() -> None:
    """The cell of rank r says nothing about the cell of rank r + 1."""
    size, cells = 40_000, 8
    images = np.asarray(image(KeyedPermutations(key(5), [size]), 0, size)) * cells // size
    joint = np.zeros((cells, cells))
    np.add.at(joint, (images[:-1], images[1:]), 1)
    assert chi_squared(joint, (size - 1) / cells**2) < 103.4  # 63 degrees of freedom, p = 0.001


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, got 16"):
        KeyedPermutations(bytes(16), [3])
