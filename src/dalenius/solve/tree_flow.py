"""Is a setting valid where groups of values have limits too? A maximum flow through the tree of every size.

Records flow  source -> value i (o_i) -> i in size j -> its group in size j -> ... -> size j -> sink (S_j b_j).  What
leaves node v in size j is at most u_vj = cap[v, S_j] b_j. Dealing the records of a size depth first, round-robin, gives
every bucket floor or ceil of its share of every group, which is a run of consecutive records. So the setting is valid
iff the flow saturates the sink; else the values X on the source's side of the minimum cut show why not:

    sum_j b_j r(X, S_j)  <  o(X)        (`forest.py` has r).

The flow is kept as a matrix by node and size. Augmenting paths are sought backwards, from sizes that are short of
records to values that have some left: a node that lacks a record in size j asks its children that have room for one
more there; a value that is asked gives a record that is left, or one of its own in another size, whose nodes then lack
one. All nodes ask at once, depth by depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalenius.solve.caps import Integers, Mask
from dalenius.solve.forest import Forest

_NOBODY = -1
_MOST_ENDS = 64  # values with records left at which one search may end


@dataclass(frozen=True, eq=False)
class TreeFlow:
    """The quotas of the flow by value and size, and the values X that show why not all records have a place."""

    quotas: Integers
    blocked: Mask | None


def fill_tree(
    forest: Forest, counts: Integers, room: Integers, need: Integers, start: Integers | None = None
) -> TreeFlow:
    """A maximum flow. `room` has a row for each value and group, a column for each size; `need` fills the sizes.

    It is augmented from `start`, quotas that fit, or from a good guess.
    """
    flow = _Flow(forest, counts, room, need, start)
    while True:
        ends = flow.search()
        if not ends:
            break
        for value in ends:
            flow.augment(value)
    quotas = flow.flow[: forest.values].copy()
    return TreeFlow(quotas, flow.via == _NOBODY if flow.short.any() else None)


class _Flow:
    """The flow so far, and the tree of the last search."""

    def __init__(
        self, forest: Forest, counts: Integers, room: Integers, need: Integers, start: Integers | None
    ) -> None:
        self.forest, self.room = forest, room
        quotas = _guess(forest, counts, room, need) if start is None else start
        self.flow = forest.sums(quotas)[:-1]
        self.left = counts - quotas.sum(axis=1)
        self.short = need - quotas.sum(axis=0)
        self.via = np.full(len(counts), _NOBODY)  # the size in which a value was asked first
        self.asked_by = np.empty((0, 0), dtype=np.int64)

    def search(self) -> list[int]:
        """Values with records left that are asked for one; none if the flow is at its maximum."""
        forest, flow = self.forest, self.flow
        lacks = np.zeros((forest.root + 1, len(self.short)), dtype=np.bool_)
        lacks[forest.root] = self.short > 0
        self.asked_by = np.full(lacks.shape, _NOBODY)
        self.via[:] = _NOBODY
        has_room = flow < self.room
        has_some = flow > 0
        parent = forest.parent
        while True:
            for depth in reversed(forest.depths):  # from the root down: who has room is asked
                asked = lacks[parent[depth.nodes]] & has_room[depth.nodes] & ~lacks[depth.nodes]
                lacks[depth.nodes] |= asked
                place, size = np.nonzero(asked)
                node = depth.nodes[place]
                self.asked_by[node, size] = parent[node]
            fresh = np.flatnonzero((self.via == _NOBODY) & lacks[: forest.values].any(axis=1))
            self.via[fresh] = lacks[fresh].argmax(axis=1)
            ends = fresh[self.left[fresh] > 0]
            if len(ends):
                order = np.argsort(-self.left[ends], kind="stable")
                return [int(value) for value in ends[order[:_MOST_ENDS]]]
            place, size = np.nonzero(has_some[fresh] & ~lacks[parent[fresh]])
            if not len(place):
                return []
            value = fresh[place]  # gives a record that it has in another size
            lacks[parent[value], size] = True
            self.asked_by[parent[value], size] = value
            for depth in forest.depths:  # whose nodes, up to the root, then lack it
                groups = depth.nodes[depth.nodes >= forest.values]
                place, size = np.nonzero(lacks[groups] & has_some[groups] & ~lacks[parent[groups]])
                node = groups[place]
                lacks[parent[node], size] = True
                self.asked_by[parent[node], size] = node

    def augment(self, value: int) -> None:
        """Move as many records as the path carries that ends at a value with records left."""
        more, fewer, size = self._path(value)
        amount = min(
            int(self.left[value]),
            int(self.short[size]),
            min(int(self.room[cell] - self.flow[cell]) for cell in more),
            min((int(self.flow[cell]) for cell in fewer), default=int(self.left[value])),
        )
        if amount <= 0:  # another path was there first
            return
        for cell in more:
            self.flow[cell] += amount
        for cell in fewer:
            self.flow[cell] -= amount
        self.left[value] -= amount
        self.short[size] -= amount

    def _path(self, value: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
        """The nodes and sizes with more records, those with fewer, and the size that was short."""
        forest = self.forest
        more: list[tuple[int, int]] = []
        fewer: list[tuple[int, int]] = []
        node, size = value, int(self.via[value])
        while True:
            by = int(self.asked_by[node, size])
            if node == forest.root and by == _NOBODY:
                return more, fewer, size
            if node < forest.root and by == forest.parent[node]:
                more.append((node, size))
                node = by
                continue
            fewer.append((by, size))  # a child gave it up
            node = by
            if by < forest.values:
                size = int(self.via[by])


def _guess(forest: Forest, counts: Integers, room: Integers, need: Integers) -> Integers:
    """A good start: fill small sizes first, each node giving what the later sizes could not take anyway.

    First what values must give, then what their groups must, then what is still missing, from those nodes that leave
    the later sizes least room to spare.
    """
    values = forest.values
    quotas = np.zeros((values, len(need)), dtype=np.int64)
    left = counts.copy()
    later = room.sum(axis=1)
    for j, missing in enumerate(need.tolist()):
        later = later - room[:, j]
        spare = later - forest.sums(left)[:-1]
        must = np.maximum(-spare, 0)
        slack = room[:, j].copy()
        slack[:values] = np.minimum(slack[:values], left)
        taken = np.zeros(values, dtype=np.int64)
        for values_most, groups_most in ((must, slack), (slack, must), (slack, slack)):
            given = forest.sums(taken)[:-1]
            most = np.concatenate([values_most[:values], groups_most[values:]])
            most = np.maximum(np.minimum(most, slack) - given, 0)
            taken = taken + pour(forest, most, missing - int(taken.sum()), spare)
        quotas[:, j] = taken
        left = left - taken
    return quotas


def pour(forest: Forest, most: Integers, amount: int, spare: Integers) -> Integers:
    """`amount` or as much as the nodes let through, from the children with the least to spare first."""
    through = np.empty(forest.root + 1, dtype=np.int64)
    through[: forest.values] = most[: forest.values]
    for depth in forest.depths:
        sums = np.add.reduceat(through[depth.nodes], depth.starts)
        groups = depth.parents[depth.parents < forest.root]
        sums[: len(groups)] = np.minimum(sums[: len(groups)], most[groups])
        through[depth.parents] = sums
    through[forest.root] = min(int(through[forest.root]), amount)
    for depth in reversed(forest.depths):
        nodes = depth.nodes[np.lexsort((spare[depth.nodes], forest.parent[depth.nodes]))]
        before = np.cumsum(through[nodes]) - through[nodes]
        lengths = np.diff(depth.starts, append=len(nodes))
        before -= np.repeat(before[depth.starts], lengths)
        given = np.repeat(through[depth.parents], lengths)
        through[nodes] = np.minimum(np.maximum(given - before, 0), through[nodes])
    return through[: forest.values]
