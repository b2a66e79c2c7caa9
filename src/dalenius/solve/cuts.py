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

Where groups of values have limits, `set_cuts.py` has the inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dalenius.solve.caps import Floats, Integers, Mask
from dalenius.solve.rows import Demand, Row, Terms
from dalenius.solve.set_cuts import SetCut, violated_set_cuts

_PRIVACY_ROWS_A_ROUND = 8
_SIZE_ROWS_A_ROUND = 6
_LARGEST_SIZE = 2**62


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
    return Cut(values=mask, sizes=(), right=int(demand.demands[value]), units=demand.units)


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
) -> Iterator[Cut | SetCut]:
    """Violated privacy constraints, and Gale's condition violated by the sizes up to, or from, some size.

    `sizes` (ascending) are those with a positive number of buckets. The worst few of each kind are returned; a
    violation counts if it is more than `tolerance` units. Exact for integral `buckets`.
    """
    if demand.forest is not None:
        yield from violated_set_cuts(demand, demand.forest, sizes, caps, buckets, tolerance, privacy_rows)
        return
    counts = demand.counts
    taken = caps * buckets
    missing = demand.demands - taken.sum(axis=1)
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
    if demand.forest is not None:
        pairs = (np.flatnonzero(point) for point in points)
        found = (violated_cuts(demand, sizes[used], caps[:, used], points[k, used], 0) for k, used in enumerate(pairs))
        return np.asarray([next(cuts, None) is None for cuts in found], dtype=np.bool_)
    counts = demand.counts[:, None]
    taken = points[:, None, :] * caps  # by setting, value and size
    need = np.cumsum(demand.units * sizes * points, axis=1)
    up_to = np.cumsum(taken, axis=2)
    every = up_to[:, :, -1:]
    down_to = every - up_to + taken
    return np.asarray(
        (every >= demand.demands[:, None]).all(axis=(1, 2))
        & (np.minimum(up_to, counts).sum(axis=1) >= need).all(axis=1)
        & (np.minimum(down_to, counts).sum(axis=1) >= need[:, -1:] - need + demand.units * sizes * points).all(axis=1)
    )


def _worst(amounts: Floats | Integers, tolerance: float, most: int) -> list[int]:
    order = np.argsort(-amounts, kind="stable")[:most]
    return [int(i) for i in order if amounts[i] > tolerance]
