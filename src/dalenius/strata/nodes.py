"""Trees of questions to the quasi-identifiers, which say to which leaf a row belongs.

A row is a code in every column: 0 .. C-1 in the order of the column's values, nulls last. An inner node asks whether
the code of one column is at most a threshold; a row goes on `below` if it is, and `above` if not. So a leaf is a box of
codes, and where a row belongs depends on its quasi-identifiers alone, which are published anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dalenius.strata.lookup import Codes, Lookup, Nodes


@dataclass(frozen=True, eq=False)
class Tree(Nodes):
    """Nodes in preorder, from the root at place 0: `below` and `above` are always behind the node itself.

    `column` is -1 for a leaf, and `leaf` is -1 for an inner node. Leaves are numbered from 0 in the order of places.
    """

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int(self.leaf.max()) + 1

    def leaves_of(self, codes: Sequence[Codes]) -> npt.NDArray[np.int32]:
        """The leaf of each row, given the codes of every column that the tree may ask for."""
        return self._lookup.leaves_of(codes)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self)


class Growing:
    """A tree that is being made: at first, and whenever it is asked, a leaf can be cut in two."""

    def __init__(self) -> None:
        self._column: list[int] = []
        self._at_most: list[int] = []
        self._children: list[tuple[int, int]] = []
        self.leaves = 0

    def add(self) -> int:
        """A new leaf, and its place."""
        self._column.append(-1)
        self._at_most.append(0)
        self._children.append((0, 0))
        self.leaves += 1
        return len(self._column) - 1

    def cut(self, place: int, column: int, at_most: int) -> tuple[int, int]:
        """Make a leaf an inner node; the places of its two leaves."""
        below, above = self.add(), self.add()
        self._column[place], self._at_most[place], self._children[place] = column, at_most, (below, above)
        self.leaves -= 1
        return below, above

    def preorder_leaves(self) -> list[int]:
        """The places at which leaves were made, in the order in which the tree numbers them."""
        return [place for place in self._preorder() if self._column[place] < 0]

    def _preorder(self) -> list[int]:
        order, waiting = [], [0]
        while waiting:
            place = waiting.pop()
            order.append(place)
            if self._column[place] >= 0:
                waiting.extend(reversed(self._children[place]))
        return order

    def tree(self) -> Tree:
        """The tree in preorder: the order in which nodes were made (their gains, that is) does not show."""
        order = self._preorder()
        place_of = np.zeros(len(order), np.int64)
        place_of[order] = np.arange(len(order))
        column = np.array(self._column, np.int64)[order]
        children = np.array(self._children, np.int64)[order]
        is_leaf = column < 0
        return Tree(
            column=column,
            at_most=np.array(self._at_most, np.int64)[order],
            below=np.where(is_leaf, 0, place_of[children[:, 0]]),
            above=np.where(is_leaf, 0, place_of[children[:, 1]]),
            leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
        )
