"""Linear inequalities in b that every valid setting satisfies, and how to find the violated ones.

Write b(S) for the number of buckets of size S. Two kinds of inequality, both with integer coefficients:

    PC   for value i:                    sum_S cap[i, S] b(S)  >=  K o_i
    Gale for sizes J and values I:       sum_{S in J} (cap[not I, S] - K S) b(S)  >=  -K o(I)

where cap[not I, S] adds the caps of all values outside I, and o(I) the counts inside; all but b and S is in units of
1/K record (`caps.py`). The second is Gale's condition (`gale.py`) with the minimum resolved: it is tightest for
I = {i : sum_{S in J} cap[i, S] b(S) >= K o_i}.

Both are defined for every size, not only for those that a linear program has as columns so far.

Caps do not fall as sizes grow, so the violated sets J are nearly always all sizes up to some s, or from some s on;
those are checked with one cumulative sum. What remains is left to the maximum flow on integral settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dalenius.solve.caps import Floats, Integers, Mask

_PRIVACY_ROWS_A_ROUND = 8
_SIZE_ROWS_A_ROUND = 6
_LARGEST_SIZE = 2**62


class Demand(Protocol):
    """What a cut needs to know of a problem: an `Instance`, or one of many problems that share their caps."""

    @property
    def counts(self) -> Integers:
        """K o_i."""

    @property
    def units(self) -> int:
        """K."""

    @property
    def total(self) -> int:
        """n."""


class Row(Protocol):
    """sum_S a(S) b(S) >= right, with a(S) defined for every size."""

    @property
    def right(self) -> int:
        """The right-hand side."""

    @property
    def units(self) -> int:
        """The divisor that makes the row's numbers those of records."""

    @property
    def key(self) -> object:
        """Equal for equal rows."""

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:
        """a(S) for each of the given sizes, whose caps are the columns of `caps`."""

    def terms(self, size: int) -> Terms | None:
        """The terms of a(S), at this size and up to the next of the `edges`; None for a(S) = 0."""

    @property
    def edges(self) -> tuple[int, ...]:
        """The sizes at which the terms change."""


@dataclass(frozen=True)
class Terms:
    """a(S) = the caps of the masked values, added up, - per_size * S - per_loss * (S - 1)^2."""

    values: Mask | None = None
    per_size: int = 0
    per_loss: int = 0


@dataclass(frozen=True)
class LossRow:
    """The loss is at most `most`: sum_S -(S-1)^2 b(S) >= -most. Holds for the settings that beat a known one."""

    most: int

    @property
    def right(self) -> int:
        """The right-hand side."""
        return -self.most

    @property
    def units(self) -> int:
        """The loss is as it is."""
        return 1

    @property
    def key(self) -> object:
        """Equal for equal rows."""
        return self

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:  # noqa: ARG002 (the loss knows no caps)
        """-(S-1)^2."""
        return -((sizes - 1) ** 2)

    def terms(self, size: int) -> Terms | None:  # noqa: ARG002 (the same at every size)
        """The loss alone."""
        return Terms(per_loss=1)

    @property
    def edges(self) -> tuple[int, ...]:
        """None: the terms never change."""
        return ()


@dataclass(frozen=True, eq=False)
class Cut:
    """PC for the one value in `values` if `sizes` is empty; else Gale's condition for `sizes` and `values`.

    `values` is a mask over all values; `sizes` are closed ranges of sizes; `units` is K.
    """

    values: Mask
    sizes: tuple[tuple[int, int], ...]
    right: int
    units: int

    @cached_property
    def key(self) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """Equal for equal cuts."""
        return np.packbits(self.values).tobytes(), self.sizes

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:
        """The coefficient of b(S) for each of the given sizes, whose caps are the columns of `caps`."""
        if not self.sizes:
            return np.asarray(caps[int(np.flatnonzero(self.values)[0])])
        return np.where(self.covers(sizes), caps[~self.values].sum(axis=0) - sizes * self.units, 0)

    def covers(self, sizes: Integers) -> Mask:
        """Which of the sizes are in one of the cut's ranges."""
        inside = np.zeros(len(sizes), dtype=np.bool_)
        for low, high in self.sizes:
            inside |= (sizes >= low) & (sizes <= high)
        return inside

    def terms(self, size: int) -> Terms | None:
        """The value's caps for PC; for Gale's condition, inside its sizes, the caps of values outside I less K S."""
        if not self.sizes:
            return Terms(self.values)
        inside = any(low <= size <= high for low, high in self.sizes)
        return Terms(~self.values, per_size=self.units) if inside else None

    @property
    def edges(self) -> tuple[int, ...]:
        """Where the ranges of sizes begin and end."""
        return tuple(edge for low, high in self.sizes for edge in (low, high + 1))


def coefficients(rows: Sequence[Row], sizes: Integers, caps: Integers) -> Integers:
    """a(S) of several rows at once, one line a row: the caps of a row's values are added up as a product of matrices.

    Floating point is exact here, and many times as fast, as long as no sum reaches 2^53.
    """
    lines = np.empty((len(rows), len(sizes)), dtype=np.int64)
    gale = [k for k, row in enumerate(rows) if isinstance(row, Cut) and row.sizes]
    for k in set(range(len(rows))).difference(gale):
        lines[k] = rows[k].coefficients(sizes, caps)
    if gale:
        cuts = [row for row in rows if isinstance(row, Cut) and row.sizes]
        exact = np.float64 if caps.sum(axis=0, dtype=np.float64).max(initial=0.0) < 2.0**52 else np.int64
        others = ~np.stack([cut.values for cut in cuts])
        sums = (others.astype(exact) @ caps.astype(exact)).astype(np.int64)
        inside = np.stack([cut.covers(sizes) for cut in cuts])
        lines[gale] = np.where(inside, sums - sizes * cuts[0].units, 0)
    return lines


def privacy_cut(demand: Demand, value: int) -> Cut:
    """PC for one value."""
    mask = np.zeros(len(demand.counts), dtype=np.bool_)
    mask[value] = True
    return Cut(values=mask, sizes=(), right=int(demand.counts[value]), units=demand.units)


def size_cut(demand: Demand, saturated: Mask, sizes: tuple[tuple[int, int], ...]) -> Cut:
    """Gale's condition for some sizes, with the saturated values in I."""
    return Cut(values=saturated, sizes=sizes, right=-int(demand.counts[saturated].sum()), units=demand.units)


def violated_cuts(
    demand: Demand,
    sizes: Integers,
    caps: Integers,
    buckets: Floats | Integers,
    tolerance: float,
    privacy_rows: int = _PRIVACY_ROWS_A_ROUND,
) -> Iterator[Cut]:
    """Violated privacy constraints, and Gale's condition violated by the sizes up to, or from, some size.

    `sizes` (ascending) are those with a positive number of buckets. The worst few of each kind are returned; a
    violation counts if it is more than `tolerance` units. Exact for integral `buckets`.
    """
    counts = demand.counts
    taken = caps * buckets
    missing = counts - taken.sum(axis=1)
    for i in _worst(missing, tolerance, privacy_rows):
        yield privacy_cut(demand, i)
    for direction in (1, -1):
        reach = np.cumsum(taken[:, ::direction], axis=1)
        need = np.cumsum((demand.units * sizes * buckets)[::direction])
        unfilled = need - np.minimum(reach, counts[:, None]).sum(axis=0)
        for j in _worst(unfilled, tolerance, _SIZE_ROWS_A_ROUND):
            edge = int(sizes[::direction][j])
            span = (1, edge) if direction == 1 else (edge, _LARGEST_SIZE)
            yield size_cut(demand, reach[:, j] >= counts, (span,))


def without_violations(demand: Demand, sizes: Integers, caps: Integers, points: Integers) -> Mask:
    """Which of several integral settings, one row each, violate none of the inequalities of `violated_cuts`."""
    counts = demand.counts[:, None]
    taken = points[:, None, :] * caps  # by setting, value and size
    need = np.cumsum(demand.units * sizes * points, axis=1)
    up_to = np.cumsum(taken, axis=2)
    every = up_to[:, :, -1:]
    down_to = every - up_to + taken
    return np.asarray(
        (every >= counts).all(axis=(1, 2))
        & (np.minimum(up_to, counts).sum(axis=1) >= need).all(axis=1)
        & (np.minimum(down_to, counts).sum(axis=1) >= need[:, -1:] - need + demand.units * sizes * points).all(axis=1)
    )


def _worst(amounts: Floats | Integers, tolerance: float, most: int) -> list[int]:
    order = np.argsort(-amounts, kind="stable")[:most]
    return [int(i) for i in order if amounts[i] > tolerance]
