"""The leaf of a row by table look-ups is the leaf that descending finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.strata.growing import every_combination
from dalenius.strata.tree import Lookup, Tree, TreeBuilder
from tests.effort import examples
from tests.strata.descent import check_form, leaf_of

LARGEST = 2**63 - 1


def random_tree(draw: st.DrawFn, columns: int, codes: int) -> Tree:
    """Any cuts at all: also thresholds that no row of a subtree can be on both sides of."""
    growing = TreeBuilder()
    leaves = [growing.add()]
    for _ in range(draw(st.integers(0, 25))):
        place = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        leaves += growing.cut(place, draw(st.integers(0, columns - 1)), draw(st.integers(0, codes)))
    return growing.tree()


@st.composite
def trees_and_rows(draw: st.DrawFn) -> tuple[Tree, np.ndarray[Any, Any]]:
    codes = draw(st.sampled_from([1, 5, 255, 2**40, LARGEST]))
    columns = draw(st.integers(1, 4))
    tree = random_tree(draw, columns, codes)
    # on the thresholds and beside them is where mistakes are made
    edges = [int(t) + d for t in tree.at_most for d in (0, 1) if 0 <= int(t) + d <= codes]
    code = st.integers(0, codes) if not edges else st.one_of(st.integers(0, codes), st.sampled_from(edges))
    rows = draw(st.lists(st.lists(code, min_size=columns, max_size=columns), max_size=30))
    kind = draw(st.sampled_from([np.int64, np.uint64, *([np.uint8] if codes <= 255 else [])]))
    return tree, np.array(rows, kind).reshape(-1, columns)


@settings(max_examples=examples(300))
@given(trees_and_rows(), st.sampled_from([1, 2, 5, 30, 2**21]))
def test_leaves_are_those_of_a_descent(case: tuple[Tree, np.ndarray[Any, Any]], most_cells: int) -> None:
    tree, rows = case
    check_form(tree)
    found = Lookup(tree, most_cells).leaves_of(list(rows.T))
    assert found.dtype == np.int32
    assert found.tolist() == [leaf_of(tree, [int(code) for code in row]) for row in rows]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int64])
def test_codes_of_every_type_and_more_rows_than_are_looked_up_at_once(kind: type[np.integer[Any]]) -> None:
    growing = TreeBuilder()
    below, above = growing.cut(growing.add(), 1, 50)
    growing.cut(below, 0, 20)
    growing.cut(above, 1, 99)
    tree = growing.tree()
    random = np.random.default_rng(0)
    codes = [random.integers(0, 120, 40_000).astype(kind) for _ in range(3)]
    expected = np.where(codes[1] <= 50, np.where(codes[0] <= 20, 0, 1), np.where(codes[1] <= 99, 2, 3))
    np.testing.assert_array_equal(tree.leaves_of(codes), expected)


def test_a_tree_with_too_many_cells_for_one_table() -> None:
    random = np.random.default_rng(1)
    growing = TreeBuilder()
    leaves = [growing.add()]
    for _ in range(2_000):
        place = leaves.pop(int(random.integers(len(leaves))))
        leaves += growing.cut(place, int(random.integers(8)), int(random.integers(1000)))
    tree = growing.tree()
    rows = random.integers(0, 1000, (500, 8)).astype(np.uint16)
    assert tree.leaves_of(list(rows.T)).tolist() == [leaf_of(tree, row.tolist()) for row in rows]


def test_no_cut_and_no_rows() -> None:
    tree = every_combination({})
    assert tree.leaves == 1
    assert tree.leaves_of([np.zeros(3, np.uint8)]).tolist() == [0, 0, 0]
    assert tree.leaves_of([np.zeros(0, np.uint8)]).tolist() == []
