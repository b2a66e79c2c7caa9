"""Room for fake values in a size group: that of each value and, with limits on groups of values, of each group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dalenius.solve.caps import Integers
from dalenius.solve.forest import Forest
from dalenius.solve.tree_flow import pour

_KEY_BITS = 64


class RandomBits(Protocol):
    """A source of random bits: `secrets.SystemRandom()`, or `random.Random(seed)` for tests."""

    def getrandbits(self, k: int, /) -> int:
        """A uniformly random whole number of k bits."""


@dataclass(frozen=True, eq=False)
class Rooms:
    """Room for fakes: that of each value, and behind them that of each group."""

    forest: Forest | None
    rooms: Integers

    @property
    def of_values(self) -> Integers:
        """That of each value by itself."""
        return self.rooms if self.forest is None else self.rooms[: self.forest.values]

    def times(self, factor: int) -> Rooms:
        """So many times the room."""
        return replace(self, rooms=self.rooms * factor)

    def all_together(self) -> int:
        """The room that all values have together."""
        if self.forest is None:
            return int(self.rooms.sum())
        return int(self.forest.most(np.ones(self.forest.values, dtype=np.bool_), self.rooms[:, None])[0])

    def within(self, shares: Integers) -> Integers:
        """Shares of values cut, in proportion, to the room of their groups."""
        if self.forest is None:
            return shares
        shares = shares.copy()
        for node in range(self.forest.root - 1, self.forest.values - 1, -1):  # a group comes after those above it
            inside = self.forest.under(node)
            shares[inside] = portion(shares[inside], int(self.rooms[node]))
        return shares

    def left(self, taken: Integers) -> Integers:
        """The room that each value has left, were it the only one to take more."""
        if self.forest is None:
            return self.rooms - taken
        left = np.append(self.rooms - self.forest.sums(taken)[:-1], np.iinfo(np.int64).max)
        for depth in reversed(self.forest.depths):  # from the top down
            left[depth.nodes] = np.minimum(left[depth.nodes], left[self.forest.parent[depth.nodes]])
        return left[: self.forest.values]

    def portion(self, taken: Integers, free: Integers, amount: int) -> Integers:
        """`amount`, or as much as there is, of what is free: without groups, in proportion to it."""
        amount = min(amount, int(free.sum()))
        if self.forest is None or amount <= 0:
            return portion(free, max(amount, 0))
        most = np.maximum(self.rooms - self.forest.sums(taken)[:-1], 0)
        most[: self.forest.values] = np.minimum(most[: self.forest.values], free)
        return pour(self.forest, most, amount, -np.append(free, most[self.forest.values :]))

    def random_order(self, rng: RandomBits) -> Integers:
        """A random order of the values in which those of every group are neighbours."""
        if self.forest is None:
            return random_order_of(len(self.rooms), rng)
        keys = random_order_of(self.forest.root + 1, rng)[self.forest.paths]
        return np.lexsort(keys.T[::-1])


def portion(available: Integers, amount: int) -> Integers:
    """`amount` in all, from each in proportion to what is available; whole numbers, the largest give the rest."""
    everything = int(available.sum())
    if amount >= everything:
        return available
    part: Integers = np.floor(available * (amount / everything * (1 - 1e-12))).astype(np.int64)
    left = available - part
    order = np.argsort(-available, kind="stable")
    before = np.concatenate(([0], np.cumsum(left[order])[:-1]))
    part[order] += np.clip(amount - int(part.sum()) - before, 0, left[order])
    return part


def random_order_of(number: int, rng: RandomBits) -> Integers:
    """A uniformly random order of 0, ..., number - 1: by random keys (equal ones occur once in 2^64 pairs)."""
    drawn = rng.getrandbits(_KEY_BITS * number).to_bytes(_KEY_BITS // 8 * number, "little")
    return np.argsort(np.frombuffer(drawn, dtype=np.uint64), kind="stable")
