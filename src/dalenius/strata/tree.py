"""Trees of questions to the quasi-identifiers, which say to which leaf a row belongs.

A row is a code in every column: 0 .. C-1 in the order of the column's values, nulls last. An inner node asks whether
the code of one column is at most a threshold; a row goes on `below` if it is, and `above` if not. So a leaf is a box of
codes, and where a row belongs depends on its quasi-identifiers alone, which are published anyway.

**Look-up.** The leaf of a row takes a few table look-ups instead of a descent. A tree asks about few thresholds of a
column. Between two of them all codes are alike, so a code becomes its *rank*, the number of thresholds below it. The
ranks of all columns, as digits of mixed radix, are the cell of a row, and one table has the leaf of every cell. A large
tree has too many cells for that. It is then divided: subtrees, which ask about fewer thresholds each, have a table
each, and the tree that is left above them, in which they are the leaves, says which of the tables it is.

**Pruning.** `remove_leaves` and `collapse_strata` take away questions that nobody needs: those that lead to a leaf
without rows, or to the same stratum either way. What is not asked is not published: it would tell about the sample and
about what was merged, and serve nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.integer[Any]]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Table = npt.NDArray[np.integer[Any]]

MOST_CELLS = 2**21  # of all tables of a tree: of 2 bytes each, they stay near the processor
_MOST_CODES = 2**18  # in a table from codes to ranks; where thresholds are larger, ranks are searched for
_FEW_CELLS = 2**6  # a subtree with no more is not divided: what is above it is then the smaller tree
_ROWS_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False)
class Nodes:
    """The arrays of a tree (`Tree` says what they hold)."""

    column: Integers
    at_most: Integers
    below: Integers
    above: Integers
    leaf: Integers

    def children(self, place: int) -> tuple[int, int]:
        """Places of the two children of an inner node."""
        return int(self.below[place]), int(self.above[place])

    def thresholds(self, root: int) -> dict[int, set[int]]:
        """The thresholds that a subtree asks about, by column."""
        thresholds: dict[int, set[int]] = {}
        waiting = [root]
        while waiting:
            place = waiting.pop()
            if self.column[place] >= 0:
                thresholds.setdefault(int(self.column[place]), set()).add(int(self.at_most[place]))
                waiting += self.children(place)
        return thresholds


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


class TreeBuilder:
    """A tree under construction. It starts as one leaf, and any leaf can be cut in two."""

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


def remove_leaves(tree: Tree, empty: npt.NDArray[np.bool_]) -> Tree:
    """The tree without some of its leaves, at least one being left; the others stay in their order.

    Rows that would have come to such a leaf come to one of the others.
    """
    left = np.zeros(len(tree.column), dtype=np.int64)  # leaves that are kept, below each place
    for place in range(len(tree.column) - 1, -1, -1):
        if tree.column[place] < 0:
            left[place] = not empty[tree.leaf[place]]
        else:
            left[place] = left[tree.below[place]] + left[tree.above[place]]
    builder = TreeBuilder()
    waiting = [(0, builder.add())]
    while waiting:
        old, new = waiting.pop()
        while tree.column[old] >= 0 and not (left[tree.below[old]] and left[tree.above[old]]):
            old = int(tree.below[old] if left[tree.below[old]] else tree.above[old])
        if tree.column[old] >= 0:
            below, above = builder.cut(new, int(tree.column[old]), int(tree.at_most[old]))
            waiting += [(int(tree.below[old]), below), (int(tree.above[old]), above)]
    return builder.tree()


def collapse_strata(tree: Tree, stratum_of_leaf: npt.NDArray[np.int64]) -> tuple[Tree, npt.NDArray[np.int64]]:
    """The tree without questions whose answers all lead to one stratum, and the strata of the leaves that are left."""
    one = np.full(len(tree.column), -1, dtype=np.int64)  # the stratum to which all of a place's rows go, if it is one
    for place in range(len(tree.column) - 1, -1, -1):
        if tree.column[place] < 0:
            one[place] = stratum_of_leaf[tree.leaf[place]]
        elif one[tree.below[place]] == one[tree.above[place]]:
            one[place] = one[tree.below[place]]
    builder, strata = TreeBuilder(), {}
    waiting = [(0, builder.add())]
    while waiting:
        old, new = waiting.pop()
        if one[old] >= 0:
            strata[new] = int(one[old])
        else:
            below, above = builder.cut(new, int(tree.column[old]), int(tree.at_most[old]))
            waiting += [(int(tree.below[old]), below), (int(tree.above[old]), above)]
    return builder.tree(), np.asarray([strata[place] for place in builder.preorder_leaves()], dtype=np.int64)


class Lookup:
    """The look-up tables of a tree, for many rows."""

    def __init__(self, nodes: Nodes, most_cells: int = MOST_CELLS) -> None:
        by_column = nodes.thresholds(0)
        self._thresholds = {column: np.array(sorted(by_column[column]), np.int64) for column in sorted(by_column)}
        at_most = nodes.at_most.copy()
        for column, thresholds in self._thresholds.items():
            here = nodes.column == column
            at_most[here] = np.searchsorted(thresholds, at_most[here])
        ranks = {column: len(thresholds) + 1 for column, thresholds in self._thresholds.items()}
        self._cells = _Cells(
            Nodes(column=nodes.column, at_most=at_most, below=nodes.below, above=nodes.above, leaf=nodes.leaf),
            ranks,
            most_cells,
        )
        self._ranks_of_codes = {
            column: np.searchsorted(thresholds, np.arange(thresholds[-1] + 2)).astype(np.int64)
            for column, thresholds in self._thresholds.items()
            if thresholds[-1] < _MOST_CODES
        }

    def leaves_of(self, codes: Sequence[Codes]) -> npt.NDArray[np.int32]:
        """The leaf of each row."""
        leaves = np.empty(len(codes[0]) if len(codes) else 0, np.int32)
        for start in range(0, len(leaves), _ROWS_AT_ONCE):
            stop = min(len(leaves), start + _ROWS_AT_ONCE)
            ranks = {column: self._ranks(column, codes[column][start:stop]) for column in self._thresholds}
            leaves[start:stop] = self._cells.leaves_of(ranks, stop - start)
        return leaves

    def _ranks(self, column: int, codes: Codes) -> Integers:
        if codes.dtype == np.uint64:
            codes = codes.view(np.int64)  # codes are below 2^63
        table = self._ranks_of_codes.get(column)
        if table is not None:
            ranks: Integers = table.take(codes, mode="clip")  # a code above all thresholds is clipped to the last rank
            return ranks
        return np.searchsorted(self._thresholds[column], codes.astype(np.int64, copy=False))


class _Cells:
    """A tree whose codes are ranks: at most ranks[c] of them in column c."""

    def __init__(self, nodes: Nodes, ranks: Mapping[int, int], most_cells: int) -> None:
        self._ranks = ranks
        roots = _roots(nodes, most_cells)
        self._upper = _Cells(_above(nodes, roots), ranks, most_cells) if len(roots) > 1 else None
        tables = [_table(nodes, root) for root in roots]
        sizes = [table.size for table, _ in tables]
        self._first_cells = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
        self._leaves = np.concatenate([table.ravel() for table, _ in tables])
        # by column: how far a rank of the column goes in each of the tables, one after the other
        self._steps = {
            column: np.concatenate([_steps(table, thresholds, column, number) for table, thresholds in tables])
            for column, number in ranks.items()
        }

    def leaves_of(self, ranks: Mapping[int, Integers], rows: int) -> npt.NDArray[Any]:
        """The leaf of each row, given the ranks of its codes."""
        if self._upper is None:
            cells = np.zeros(rows, np.int64)
            for column, steps in self._steps.items():
                cells += steps.take(ranks[column], mode="clip")
        else:
            tables = self._upper.leaves_of(ranks, rows).astype(np.int64)
            cells = self._first_cells.take(tables, mode="clip")
            for column, steps in self._steps.items():
                places = tables * self._ranks[column]
                places += ranks[column]
                cells += steps.take(places, mode="clip")
        return self._leaves.take(cells, mode="clip")


def _roots(nodes: Nodes, most_cells: int) -> list[int]:
    """Subtrees that have all leaves between them and few enough cells: those with the most cells are divided."""

    def entry(root: int) -> tuple[int, int]:
        return -prod(len(thresholds) + 1 for thresholds in nodes.thresholds(root).values()), root

    waiting = [entry(0)]
    total = -waiting[0][0]
    while total > most_cells and -waiting[0][0] > _FEW_CELLS:
        cells, root = heappop(waiting)
        total += cells
        for child in nodes.children(root):
            heappush(waiting, entry(child))
            total -= entry(child)[0]
    return sorted(root for _, root in waiting)


def _above(nodes: Nodes, roots: Sequence[int]) -> Nodes:
    """The tree above the roots of subtrees, which become its leaves, in their order."""
    column, leaf = nodes.column.copy(), np.full(len(nodes.column), -1, np.int64)
    column[roots], leaf[roots] = -1, np.arange(len(roots))
    return Nodes(column=column, at_most=nodes.at_most, below=nodes.below, above=nodes.above, leaf=leaf)


def _table(nodes: Nodes, root: int) -> tuple[Table, dict[int, Integers]]:
    """The leaf of every cell of a subtree, an axis a column that it asks about, and its thresholds by column."""
    thresholds = {column: np.array(sorted(those), np.int64) for column, those in sorted(nodes.thresholds(root).items())}
    axes = {column: axis for axis, column in enumerate(thresholds)}
    narrow = np.dtype(np.uint16 if nodes.leaf.max() < 2**16 else np.int32)
    table: Table = np.empty([len(those) + 1 for those in thresholds.values()], narrow)
    low, high = [0] * len(thresholds), list(table.shape)
    waiting = [(root, low, high)]
    while waiting:
        place, low, high = waiting.pop()
        column = int(nodes.column[place])
        if column < 0:
            table[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = nodes.leaf[place]
            continue
        axis = axes[column]
        # a cut outside of the box leaves one side empty, which is fine
        cut = min(max(int(np.searchsorted(thresholds[column], nodes.at_most[place])) + 1, low[axis]), high[axis])
        below, above = nodes.children(place)
        waiting += [
            (below, low, [*high[:axis], cut, *high[axis + 1 :]]),
            (above, [*low[:axis], cut, *low[axis + 1 :]], high),
        ]
    return table, thresholds


def _steps(table: Table, thresholds: Mapping[int, Integers], column: int, ranks: int) -> Integers:
    """How far each rank of a column goes in the table of a subtree: not at all, if the subtree does not ask for it."""
    if column not in thresholds:
        return np.zeros(ranks, np.int64)
    stride = prod(table.shape[list(thresholds).index(column) + 1 :])
    return np.searchsorted(thresholds[column], np.arange(ranks)) * stride
