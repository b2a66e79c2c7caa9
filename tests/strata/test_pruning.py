from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dalenius.strata.growing import every_combination, kd_tree
from dalenius.strata.tree import collapse_strata, remove_leaves


@given(seed=st.integers(0, 10_000), leaves=st.integers(1, 12), lost=st.sets(st.integers(0, 11)))
def test_rows_of_other_leaves_stay_together_and_in_order(seed: int, leaves: int, lost: set[int]) -> None:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 6, 300), rng.integers(0, 4, 300)]
    tree = kd_tree(codes, leaves)
    empty = np.array([leaf in lost for leaf in range(tree.leaves)])
    if empty.all():
        empty[0] = False
    pruned = remove_leaves(tree, empty)
    assert pruned.leaves == tree.leaves - empty.sum()
    assert len(pruned.column) == 2 * pruned.leaves - 1
    before = tree.leaves_of(codes)
    there = ~empty[before]
    rank = np.cumsum(~empty) - 1
    assert (pruned.leaves_of(codes)[there] == rank[before[there]]).all()


def test_a_thousand_codes_of_which_three_are_used() -> None:
    tree = every_combination({0: 1000})
    used = np.isin(np.arange(1000), [5, 17, 900])
    pruned = remove_leaves(tree, ~used)
    assert (pruned.leaves, len(pruned.column)) == (3, 5)
    assert pruned.leaves_of([np.array([5, 17, 900])]).tolist() == [0, 1, 2]


@given(seed=st.integers(0, 10_000), leaves=st.integers(1, 12), strata=st.integers(1, 4))
def test_collapsed_trees_lead_everybody_to_the_same_stratum(seed: int, leaves: int, strata: int) -> None:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 6, 300), rng.integers(0, 4, 300)]
    tree = kd_tree(codes, leaves)
    stratum_of_leaf = rng.integers(0, strata, tree.leaves)
    less, stratum_of_less = collapse_strata(tree, stratum_of_leaf)
    assert len(stratum_of_less) == less.leaves <= tree.leaves
    assert (stratum_of_less[less.leaves_of(codes)] == stratum_of_leaf[tree.leaves_of(codes)]).all()
    for place in np.flatnonzero(less.column >= 0).tolist():
        sides = [less.below[place], less.above[place]]
        if all(less.column[side] < 0 for side in sides):
            assert len({int(stratum_of_less[less.leaf[side]]) for side in sides}) == 2
