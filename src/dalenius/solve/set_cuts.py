"""Inequalities in b where groups of values have limits: one for every set X of values.

    sum_S r(X, S) b(S)  >=  K o(X)        (`forest.py` has r, in units of 1/K record)

holds for every valid setting, and a setting for which all of them hold is valid (`tree_flow.py`). They are PC for a
single value, the same for a group as a whole, and Gale's condition with its minimum resolved size by size.

Separation. For a set J of sizes let H_v(J) be the most records under node v that the sizes in J take:

    H_v(J) = min(o_v, u_v(J)) for a value,
    H_v(J) = min over J' in J of  sum of H over the children (J') + u_v(J - J')  for a group,

u_v(J) = sum over J of cap[v, S] b(S). The sizes in J can be filled iff the sum of H(J) over the top of the tree is at
least what they need; and all records of a node v have a place iff H_v of all sizes is o_v. Caps do not fall as sizes
grow, so J and J' are nearly always neighbouring sizes: with these alone, H comes out of one sweep over the intervals,

    H_v[a, b) = min(sum of H over the children [a, b),  H_v[a, b - 1) + u_v(b - 1),  H_v[a + 1, b) + u_v(a)).

What remains is left to the maximum flow. X is read off backwards: a value is in it if o is above u(J) for the J at
which the minima arrive there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers, Mask
from dalenius.solve.forest import Forest
from dalenius.solve.rows import Demand, Terms

Numbers = npt.NDArray[Any]  # floats, or integers where they are exact

_ROWS_A_ROUND = 6
_MOST_CELLS = 4_000_000  # nodes x intervals
_MOST_INTERVALS = 40  # sizes up to which all intervals are looked at; beyond, those from one end


@dataclass(frozen=True, eq=False)
class SetCut:
    """The inequality of the set `values`, a mask over all values; `units` is K."""

    values: Mask
    right: int
    units: int
    forest: Forest

    @cached_property
    def key(self) -> bytes:
        """Equal for equal cuts."""
        return np.packbits(self.values).tobytes()

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """It is about all of them."""
        return ()

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:
        """r(X, S) in units, for each of the given sizes, whose caps are the columns of `caps`."""
        return np.minimum(self.forest.most(self.values, caps), sizes * self.units)

    def terms(self, size: int) -> Terms | None:
        """There are none: minima are no sums."""
        raise NotImplementedError(f"r(X, {size}) has no terms")

    @property
    def edges(self) -> tuple[int, ...]:
        """None."""
        return ()


def set_cut(demand: Demand, forest: Forest, values: Mask) -> SetCut:
    """The inequality of a set of values."""
    return SetCut(values, int(demand.counts[values].sum()), demand.units, forest)


def value_cut(demand: Demand, forest: Forest, value: int) -> SetCut:
    """PC for one value."""
    mask = np.zeros(forest.values, dtype=np.bool_)
    mask[value] = True
    return set_cut(demand, forest, mask)


def violated_set_cuts(
    demand: Demand,
    forest: Forest,
    sizes: Integers,
    caps: Integers,
    buckets: Numbers,
    tolerance: float,
    value_rows: int = 8,
) -> Iterator[SetCut]:
    """The worst violated inequalities of single values, of groups, and of sizes that cannot be filled.

    `sizes` (ascending) are those with a positive number of buckets. A violation counts if it is more than `tolerance`
    units. Exact for integral `buckets`.
    """
    if not len(sizes):
        return
    room = _Room(demand, forest, sizes, caps * buckets)
    missing = demand.counts - room.taken[: forest.values].sum(axis=1)
    for value in _worst(missing, tolerance, value_rows):
        yield value_cut(demand, forest, value)
    everything = (0, len(sizes))
    for node in _worst(room.missing_by_group(), tolerance, _ROWS_A_ROUND):
        yield set_cut(demand, forest, room.blocked(forest.values + node, *everything))
    need = np.append(0, np.cumsum(demand.units * sizes * buckets))
    for from_left in (True, False):
        spans = [(0, b) if from_left else (b - 1, len(sizes)) for b in range(1, len(sizes) + 1)]
        first, last = np.asarray(spans).T
        unfilled = need[last] - need[first] - room.filled(spans)
        for place in _worst(unfilled, tolerance, _ROWS_A_ROUND):
            yield set_cut(demand, forest, room.blocked(forest.root, *spans[place]))


class _Room:
    """H for the intervals of sizes."""

    def __init__(self, demand: Demand, forest: Forest, sizes: Integers, taken: Numbers) -> None:
        self.counts, self.forest, self.taken = demand.counts, forest, taken
        self._up_to = np.concatenate([np.zeros((len(taken), 1), dtype=taken.dtype), np.cumsum(taken, axis=1)], axis=1)
        number = len(sizes)
        every = number <= _MOST_INTERVALS and number**2 * len(taken) <= _MOST_CELLS
        spans = [(a, b) for a in range(number) for b in range(a + 1, number + 1) if every or a == 0 or b == number]
        spans.sort(key=lambda span: span[1] - span[0])
        self._place = {span: place for place, span in enumerate(spans)}
        self._below = self._sweep(spans)

    def _sweep(self, spans: list[tuple[int, int]]) -> Numbers:
        """`_most` for every node, and `_below`, the sum over its children, for every group and the root."""
        forest, values = self.forest, self.forest.values
        first, last = np.asarray(spans).T
        self._most = np.empty((forest.root, len(spans)), dtype=self.taken.dtype)
        within = self._up_to[:values, last] - self._up_to[:values, first]
        np.minimum(within, self.counts[:, None], out=self._most[:values])
        below = np.zeros((forest.root + 1 - values, len(spans)), dtype=self.taken.dtype)
        for depth in forest.depths:
            sums = np.add.reduceat(self._most[depth.nodes], depth.starts, axis=0)
            below[depth.parents - values] = sums
            groups = depth.parents[depth.parents < forest.root]
            if len(groups):
                self._most[groups] = self._through(groups, sums[: len(groups)], spans)
        return below

    def _through(self, groups: Integers, sums: Numbers, spans: list[tuple[int, int]]) -> Numbers:
        most = sums.copy()
        taken = self.taken[groups]
        for place, (a, b) in enumerate(spans):  # the shorter ones first
            for inner, size in (((a, b - 1), b - 1), ((a + 1, b), a)):
                if inner[0] == inner[1]:
                    np.minimum(most[:, place], taken[:, size], out=most[:, place])
                elif inner in self._place:
                    np.minimum(most[:, place], most[:, self._place[inner]] + taken[:, size], out=most[:, place])
        return most

    def filled(self, spans: list[tuple[int, int]]) -> Numbers:
        """What the sizes from a up to b can take in all, for some (a, b)."""
        return np.asarray(self._below[-1, [self._place[span] for span in spans]])

    def missing_by_group(self) -> Numbers:
        """Of each group the records that have no place because of its own limit."""
        forest, everything = self.forest, self._place[0, self.taken.shape[1]]
        records = forest.sums(self.counts)[:-1]
        missing = records - self._most[:, everything]
        below = np.zeros(forest.root + 1, dtype=missing.dtype)
        for depth in forest.depths:
            below[depth.parents] = np.add.reduceat(missing[depth.nodes], depth.starts)
        return np.asarray((missing - below[:-1])[forest.values :])

    def blocked(self, node: int, a: int, b: int) -> Mask:
        """The values under a node that are on the source's side of the cut behind H[a, b)."""
        mask = np.zeros(self.forest.values, dtype=np.bool_)
        pending = [(node, a, b)]
        while pending:
            node, a, b = pending.pop()
            if node < self.forest.root:
                a, b = self._cut_at(node, a, b)
            children = self._children[node]
            own = children[children < self.forest.values]
            mask[own] = self.counts[own] > self._up_to[own, b] - self._up_to[own, a]
            pending += [(int(child), a, b) for child in children[len(own) :]]
        return mask

    def _cut_at(self, node: int, a: int, b: int) -> tuple[int, int]:
        """The sizes in which a group is not itself the narrow place."""
        while a < b:
            place = self._place[a, b]
            most = self._most[node, place]
            if most == self._below[node - self.forest.values, place]:
                break
            shorter = (a, b - 1)
            inner = 0 if a == b - 1 else self._most[node, self._place[shorter]] if shorter in self._place else None
            if inner is not None and inner + self.taken[node, b - 1] == most:
                b -= 1
            else:
                a += 1
        return a, b

    @cached_property
    def _children(self) -> dict[int, Integers]:
        """Of each group and the root, values first."""
        found: dict[int, Integers] = {}
        for depth in self.forest.depths:
            parts = np.split(depth.nodes, depth.starts[1:])
            found |= {int(parent): np.sort(part) for parent, part in zip(depth.parents, parts, strict=True)}
        return found


def _worst(amounts: Numbers, tolerance: float, most: int) -> list[int]:
    order = np.argsort(-amounts, kind="stable")[:most]
    return [int(i) for i in order if amounts[i] > tolerance]
