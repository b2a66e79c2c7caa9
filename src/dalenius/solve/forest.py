"""Groups of values as the solvers see them: a tree in arrays, and what a bucket can take through it.

Nodes are the m values, then the groups that have a limit, then the root. A matrix of caps has a row for each value and
each group, and a column for each size. Of a set X of values a bucket of size S takes at most

    r(X, S) = min(S, sum of g_v over the children v of the root),
    g_v = cap[v, S] for a value in X, 0 for one outside,  g_v = min(cap[v, S], sum of g over the children) for a group.

Without groups that is min(S, cap[X, S]).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dalenius.model.groups import NO_GROUP, Group
from dalenius.model.problem import Problem

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Depth:
    """The nodes of one depth, by parent: those of parents[k] start at starts[k]."""

    nodes: Integers
    starts: Integers
    parents: Integers


@dataclass(frozen=True, eq=False)
class Forest:
    """The groups that matter: `parent` of every value and group, and the `limits` of the groups."""

    values: int
    limits: tuple[Fraction, ...]
    parent: Integers

    @classmethod
    def of(cls, problem: Problem) -> Forest | None:
        """The tree of a problem's groups; None if it has none.

        Groups without a limit are left out, and those of one member that says as much by itself.
        """
        if problem.groups is None:
            return None
        groups, values = problem.groups.groups, len(problem.values)
        above = [group.parent for group in groups]
        children: list[list[int]] = [[] for _ in groups]  # values as they are, groups from `values` on
        parent = list(problem.groups.of_value)
        for value, group in enumerate(parent):
            if group != NO_GROUP:
                children[group].append(value)
        kept: dict[int, int] = {}
        for place in range(len(groups) - 1, -1, -1):
            limit = groups[place].limit
            if limit is not None and _matters(limit, children[place], problem, groups):
                kept[place] = values + place
                if above[place] != NO_GROUP:
                    children[above[place]].append(values + place)
                continue
            for child in children[place]:  # they go one up
                if child < values:
                    parent[child] = above[place]
                else:
                    above[child - values] = above[place]
                if above[place] != NO_GROUP:
                    children[above[place]].append(child)
        order = sorted(kept)
        number = {place: values + k for k, place in enumerate(order)} | {NO_GROUP: values + len(order)}
        nodes = [number[group] for group in parent] + [number[above[place]] for place in order]
        limits = tuple(limit for place in order if (limit := groups[place].limit) is not None)
        return cls(values, limits, np.asarray(nodes, dtype=np.int64))

    @property
    def root(self) -> int:
        """The last node."""
        return len(self.parent)

    @cached_property
    def _depth(self) -> Integers:
        """Of each node; the root's is 0."""
        depth = np.zeros(self.root + 1, dtype=np.int64)
        for node in range(self.values, self.root):  # parents of groups come before them
            depth[node] = depth[self.parent[node]] + 1
        depth[: self.values] = depth[self.parent[: self.values]] + 1
        return depth

    @cached_property
    def depths(self) -> tuple[_Depth, ...]:
        """All nodes but the root by depth, the deepest first; those of one parent are neighbours."""
        found = []
        for level in range(int(self._depth.max()), 0, -1):
            nodes = np.flatnonzero(self._depth == level)
            nodes = nodes[np.argsort(self.parent[nodes], kind="stable")]
            parents, starts = np.unique(self.parent[nodes], return_index=True)
            found.append(_Depth(nodes, starts, parents))
        return tuple(found)

    @cached_property
    def paths(self) -> Integers:
        """For each value the nodes from the top down to itself, one column a depth, and then the root again."""
        paths = np.full((self.values, int(self._depth.max())), self.root)
        at, values = np.arange(self.values), np.arange(self.values)
        while len(values):
            paths[values, self._depth[at] - 1] = at
            at = self.parent[at]
            values, at = values[at < self.root], at[at < self.root]
        return paths

    def sums(self, counts: Integers) -> Integers:
        """The records under each node, given those of each value (in rows); the root's are last."""
        totals = np.zeros((self.root + 1, *counts.shape[1:]), dtype=np.int64)
        totals[: self.values] = counts
        for depth in self.depths:
            totals[depth.parents] = np.add.reduceat(totals[depth.nodes], depth.starts, axis=0)
        return totals

    def most(self, chosen: npt.NDArray[np.bool_], caps: Integers) -> Integers:
        """Of the chosen values, what each column of caps lets through: r(X, S) without the size itself."""
        most = np.empty((self.root + 1, caps.shape[1]), dtype=caps.dtype)
        most[: self.values] = np.where(chosen[:, None], caps[: self.values], 0)
        for depth in self.depths:
            through = np.add.reduceat(most[depth.nodes], depth.starts, axis=0)
            groups = depth.parents[depth.parents < self.root]
            if len(groups):
                np.minimum(through[: len(groups)], caps[groups], out=through[: len(groups)])
            most[depth.parents] = through
        return np.asarray(most[self.root])

    def under(self, node: int) -> npt.NDArray[np.bool_]:
        """Which values are under a node; a value is under itself."""
        return np.asarray((self.paths == node).any(axis=1), dtype=np.bool_)


def _matters(limit: Fraction, children: list[int], problem: Problem, groups: tuple[Group, ...]) -> bool:
    """A group of one says nothing that its member does not say, unless its limit is smaller."""
    if len(children) != 1:
        return len(children) > 1
    (child,) = children
    values = len(problem.values)
    below = problem.limits[child] if child < values else groups[child - values].limit
    return below is None or limit < below
