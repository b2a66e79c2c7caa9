"""A grown tree keeps its bounds, finds what was planted and nothing else, and is the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dalenius.strata.growing import grow_tree
from dalenius.strata.tree import Tree
from tests.strata.descent import check_form

Rows = list[np.ndarray[Any, Any]]


def noise(rows: int, seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    sizes = [90, 2, 16, 5, 9, 8, 80]
    return [random.integers(0, size, rows).astype(np.uint8) for size in sizes]


def same(one: Tree, other: Tree) -> bool:
    names = ("column", "at_most", "below", "above", "leaf")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def planted(codes: Rows) -> np.ndarray[Any, Any]:
    """Four kinds of people: by the first column, then by the third or the last."""
    return np.where(codes[0] <= 40, np.where(codes[2] <= 6, 0, 1), np.where(codes[6] <= 12, 2, 3))


def test_planted_structure_is_found_in_noise() -> None:
    codes = noise(20_000)
    kind = planted(codes)
    random = np.random.default_rng(1)
    values = np.where(random.random(20_000) < 0.5, kind, random.integers(0, 10, 20_000))
    tree = grow_tree(codes, values, 100, 50)
    check_form(tree)
    assert tree.leaves == 4
    assert tree.at_most[tree.column >= 0].tolist() == [40, 6, 12]
    np.testing.assert_array_equal(tree.leaves_of(codes), kind)


def test_values_that_have_nothing_to_do_with_anything_are_not_cut() -> None:
    cut = 0
    for seed in range(20):
        values = np.random.default_rng(seed).integers(0, (2, 5, 10, 50)[seed % 4], 5_000)
        cut += grow_tree(noise(5_000), values, 20, 100).leaves > 1
    assert cut <= 3


@pytest.mark.parametrize(("leaf_rows", "most_leaves"), [(1, 7), (50, 1000), (500, 99), (3000, 99), (50, 1), (50, 2)])
def test_bounds_are_kept(leaf_rows: int, most_leaves: int) -> None:
    codes = noise(10_000)
    values = (codes[0] // 4 + codes[6] // 8 * 30).astype(np.int64)  # more than 64 values
    tree = grow_tree(codes, values, leaf_rows, most_leaves)
    check_form(tree)
    assert tree.leaves <= most_leaves
    assert np.bincount(tree.leaves_of(codes), minlength=tree.leaves).min() >= leaf_rows
    if most_leaves < 10:
        assert tree.leaves == most_leaves


def test_same_rows_same_tree_in_any_order() -> None:
    codes = noise(5_000)
    values = planted(codes) + np.random.default_rng(3).integers(0, 3, 5_000)
    first = grow_tree(codes, values, 20, 100)
    assert same(first, grow_tree(codes, values, 20, 100))
    order = np.random.default_rng(4).permutation(5_000)
    assert same(first, grow_tree([column[order] for column in codes], values[order], 20, 100))


def test_columns_with_very_many_codes() -> None:
    random = np.random.default_rng(5)
    column = np.sort(random.integers(0, 2**63 - 1, 10_000)).astype(np.uint64)
    values = (np.arange(10_000) >= 3_000).astype(np.int64)
    tree = grow_tree([column], values, 10, 10)
    check_form(tree)
    leaves = tree.leaves_of([column])
    assert (np.diff(leaves) >= 0).all()
    wrong = sum(min(np.bincount(values[leaves == leaf], minlength=2)) for leaf in range(tree.leaves))
    assert wrong <= 10_000 / 256


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_hardly_any_rows(rows: int) -> None:
    assert grow_tree(noise(rows), np.arange(rows), 1, 10).leaves == 1


def test_no_columns() -> None:
    assert grow_tree([], np.arange(10), 1, 10).leaves == 1


def test_the_order_of_growth_does_not_show() -> None:
    """Nodes are in preorder whichever was cut first: the one below a node is next to it."""
    codes = noise(20_000)
    tree = grow_tree(codes, planted(codes), 100, 50)
    inner = np.flatnonzero(tree.column >= 0)
    assert (tree.below[inner] == inner + 1).all()
