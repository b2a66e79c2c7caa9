"""Trees made without looking at sensitive values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dalenius.errors import UsageError
from dalenius.strata.growing import every_combination, kd_tree
from tests.strata.descent import check_form


@pytest.mark.parametrize("kinds", [{0: 1}, {2: 7}, {0: 3, 1: 2}, {2: 2, 0: 5}, {0: 4, 1: 1, 2: 6}, {}])
def test_every_combination_has_its_own_leaf_in_order(kinds: dict[int, int]) -> None:
    tree = every_combination(kinds)
    check_form(tree)
    rows = list(product(*(range(codes) for codes in kinds.values())))
    assert tree.leaves == len(rows)
    codes = [np.zeros(len(rows), np.uint8) for _ in range(3)]
    for place, column in enumerate(kinds):
        codes[column] = np.array([row[place] for row in rows], np.uint8)
    assert tree.leaves_of(codes).tolist() == list(range(len(rows)))


def test_depth_is_as_small_as_it_can_be() -> None:
    tree = every_combination({0: 1000})
    depth = np.zeros(len(tree.column), int)
    for place in np.flatnonzero(tree.column >= 0):
        depth[tree.below[place]] = depth[tree.above[place]] = depth[place] + 1
    assert depth.max() == 10


def test_too_many_combinations() -> None:
    with pytest.raises(UsageError, match="100,000,000 combinations"):
        every_combination({0: 10_000, 1: 10_000})


def test_medians_halve_again_and_again() -> None:
    codes = [np.random.default_rng(seed).permutation(4096).astype(np.uint16) for seed in range(3)]
    tree = kd_tree(codes, 16)
    check_form(tree)
    assert np.bincount(tree.leaves_of(codes)).tolist() == [256] * 16
    assert set(tree.column.tolist()) == {-1, 0, 1, 2}


def test_medians_of_columns_with_few_codes() -> None:
    random = np.random.default_rng(0)
    codes = [random.integers(0, kinds, 1000).astype(np.uint64) for kinds in (2, 3)]
    tree = kd_tree(codes, 100)
    check_form(tree)
    assert tree.leaves == 6
    assert (np.bincount(tree.leaves_of(codes)) > 0).all()


def test_medians_of_nothing() -> None:
    assert kd_tree([], 5).leaves == 1
    assert kd_tree([np.zeros(0, np.uint8)], 5).leaves == 1
    assert kd_tree([np.ones(10, np.uint8)], 5).leaves == 1
