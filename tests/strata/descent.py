"""What a tree means, one row at a time: the oracle for everything faster."""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.strata.tree import Tree


def leaf_of(tree: Tree, row: Sequence[int]) -> int:
    place = 0
    while tree.column[place] >= 0:
        is_below = row[tree.column[place]] <= tree.at_most[place]
        place = int(tree.below[place] if is_below else tree.above[place])
    return int(tree.leaf[place])


def check_form(tree: Tree) -> None:
    """Children are behind their parents, everything but the root is a child once, and leaves are numbered in order."""
    inner = tree.column >= 0
    places = [place for place in range(len(tree.column)) if inner[place]]
    children = [int(child) for place in places for child in (tree.below[place], tree.above[place])]
    assert sorted(children) == list(range(1, len(tree.column)))
    assert all(tree.below[place] > place and tree.above[place] > place for place in places)
    assert tree.leaf[inner].tolist() == [-1] * len(places)
    assert tree.leaf[~inner].tolist() == list(range(tree.leaves))
