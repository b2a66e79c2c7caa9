"""Settings near a given one as an integer program in the distance from it, and the cuts that a setting violates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalenius.solve.caps import Instance, Integers
from dalenius.solve.certificate import loss_costs
from dalenius.solve.cuts import Cut, Row, coefficients, size_cut, violated
from dalenius.solve.gale import fill_sizes
from dalenius.solve.highs import Box

_SAFE = 2.0**61  # sums that are known to stay below this are those of 63-bit integers


def box_around(
    instance: Instance,
    cuts: Sequence[Row],
    sizes: Integers,
    caps: Integers,
    base: list[int],
    low: list[int],
    high: list[int],
) -> Box:
    """The integer program in z = b - base, low <= z <= high, without the cuts that no point of the box violates."""
    matrix = coefficients(cuts, sizes, caps)
    rights = _whole([cut.right for cut in cuts], matrix, base)
    least = _least(matrix, low, high)
    needed = [k for k, (reach, right) in enumerate(zip(least, rights, strict=True)) if reach < right]
    units = [cuts[k].units for k in needed]
    rows = [
        row if unit == 1 else [a / unit for a in row] for row, unit in zip(matrix[needed].tolist(), units, strict=True)
    ]
    beyond = [rights[k] if unit == 1 else rights[k] / unit for k, unit in zip(needed, units, strict=True)]
    total = instance.total - dot(sizes.tolist(), base)
    return Box(loss_costs(sizes), sizes.tolist(), total, low, high, rows, beyond, instance.units > 1)


def _whole(rights: list[int], matrix: Integers, base: list[int]) -> list[int]:
    """What is left of the right-hand sides at the base, exactly."""
    if _fits(matrix, [abs(b) for b in base]):
        taken = (matrix @ np.asarray(base, dtype=np.int64)).tolist()
    else:
        taken = [dot(row, base) for row in matrix.tolist()]
    return [right - part for right, part in zip(rights, taken, strict=True)]


def _least(matrix: Integers, low: list[int], high: list[int]) -> list[int]:
    """The least that each row can come to in the box."""
    if _fits(matrix, [max(abs(lo), abs(hi)) for lo, hi in zip(low, high, strict=True)]):
        down, up = np.minimum(matrix, 0), np.maximum(matrix, 0)
        least: list[int] = (up @ np.asarray(low, dtype=np.int64) + down @ np.asarray(high, dtype=np.int64)).tolist()
        return least
    return [sum(a * (lo if a > 0 else hi) for a, lo, hi in zip(row, low, high, strict=True)) for row in matrix.tolist()]


def _fits(matrix: Integers, most: list[int]) -> bool:
    return float((np.abs(matrix).astype(float) @ np.asarray(most, dtype=float)).max(initial=0.0)) < _SAFE


def broken(instance: Instance, sizes: Integers, caps: Integers, buckets: Integers) -> list[Cut]:
    """Cuts that an integral setting violates; none iff it is valid."""
    used = np.flatnonzero(buckets)
    sizes, caps, buckets = sizes[used], caps[:, used], buckets[used]
    found = list(violated(instance, sizes, caps, buckets, 0))
    if found:
        return found
    _, short = fill_sizes(instance.counts, caps * buckets, instance.needs(sizes) * buckets)
    if short is None:
        return []
    reach = (caps[:, short] * buckets[short]).sum(axis=1)
    spans = tuple((int(s), int(s)) for s in sizes[short])
    return [size_cut(instance, reach >= instance.counts, spans)]


def dot(left: list[int], right: list[int]) -> int:
    """The product of two vectors of Python integers."""
    return sum(a * b for a, b in zip(left, right, strict=True))
