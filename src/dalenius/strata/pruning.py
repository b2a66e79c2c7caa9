"""Trees without leaves that nobody is in: a question that leads to one of them need not be asked."""

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
