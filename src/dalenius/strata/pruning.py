"""Trees without questions that need not be asked: one that leads to a leaf that nobody is in, or to one stratum anyway.

What is not asked is not published: it would tell about the sample, and about what was merged, and serve nobody.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dalenius.strata.nodes import Growing, Tree


def without(tree: Tree, empty: npt.NDArray[np.bool_]) -> Tree:
    """The tree without some of its leaves, at least one being left; the others stay in their order.

    Rows that would have come to such a leaf come to one of the others.
    """
    kept = np.zeros(len(tree.column), dtype=np.int64)  # leaves that are kept, below each place
    for place in range(len(tree.column) - 1, -1, -1):
        if tree.column[place] < 0:
            kept[place] = not empty[tree.leaf[place]]
        else:
            kept[place] = kept[tree.below[place]] + kept[tree.above[place]]
    growing = Growing()
    waiting = [(0, growing.add())]
    while waiting:
        old, new = waiting.pop()
        while tree.column[old] >= 0 and not (kept[tree.below[old]] and kept[tree.above[old]]):
            old = int(tree.below[old] if kept[tree.below[old]] else tree.above[old])
        if tree.column[old] >= 0:
            below, above = growing.cut(new, int(tree.column[old]), int(tree.at_most[old]))
            waiting += [(int(tree.below[old]), below), (int(tree.above[old]), above)]
    return growing.tree()


def collapsed(tree: Tree, stratum_of_leaf: npt.NDArray[np.int64]) -> tuple[Tree, npt.NDArray[np.int64]]:
    """The tree without questions whose answers all lead to one stratum, and the strata of the leaves that are left."""
    one = np.full(len(tree.column), -1, dtype=np.int64)  # the stratum to which all of a place's rows go, if it is one
    for place in range(len(tree.column) - 1, -1, -1):
        if tree.column[place] < 0:
            one[place] = stratum_of_leaf[tree.leaf[place]]
        elif one[tree.below[place]] == one[tree.above[place]]:
            one[place] = one[tree.below[place]]
    growing, strata = Growing(), {}
    waiting = [(0, growing.add())]
    while waiting:
        old, new = waiting.pop()
        if one[old] >= 0:
            strata[new] = int(one[old])
        else:
            below, above = growing.cut(new, int(tree.column[old]), int(tree.at_most[old]))
            waiting += [(int(tree.below[old]), below), (int(tree.above[old]), above)]
    return growing.tree(), np.asarray([strata[place] for place in growing.preorder_leaves()], dtype=np.int64)
