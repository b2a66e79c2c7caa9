"""Whole numbers of buckets near a fractional setting, by a quick rounding or by a search.

`round_nearby` rounds each fractional b(S) up or down (in all ways for the few that are least decided, to the nearest
whole number for the rest). A few buckets more or less of one or two sizes then make up for the records that are
missing, or too many. All candidates are tested against the cuts at hand at once, and the best that pass are the answer.
That is often good enough, and a hundred times cheaper than branch and bound.

`search_box` is branch and bound over z = b - base for a box of z around a base. Where the best point of the box is not
a valid setting, the cuts that it violates are added and the search is repeated: a maximum flow has the last word
(`gale.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from dalenius.model.problem import BucketSetting
from dalenius.solve.caps import Floats, Instance, Integers
from dalenius.solve.certificate import loss_costs
from dalenius.solve.cuts import Cut, coefficients, size_cut, violated_cuts
from dalenius.solve.gale import fill_sizes
from dalenius.solve.highs import Box, BoxAnswer, BoxStatus, LinearMaster, solve_box
from dalenius.solve.rows import Demand, Row
from dalenius.solve.set_cuts import SetCut, set_cut
from dalenius.solve.tree_flow import fill_tree

_SAFE = 2.0**61  # sums that are known to stay below this are those of 63-bit integers
_MOST_FREE = 7  # fractional numbers that are tried both ways
_MOST_CANDIDATES = 20_000
_MOST_SIZES = 200
_MOVED_SIZES = 24  # the smallest ones: the moves between pairs of sizes are listed, which grows with the cube
_FURTHER = 3  # times as many buckets more or less of the two smallest sizes
_CHUNK = 512  # candidates that are tested at once, the best ones first


@dataclass(frozen=True)
class Neighbourhood:
    """Settings of some sizes with base + z buckets, where low <= z <= high."""

    sizes: Integers
    base: list[int]
    low: list[int]
    high: list[int]

    @classmethod
    def of(cls, sizes: Integers, buckets: Floats, radius: int, total: int) -> Neighbourhood:
        """Up to `radius` buckets more or less than a fractional setting has, as far as `total` records allow."""
        base = [math.floor(b + 1e-7) for b in buckets]
        low = [max(-radius, -b) for b in base]
        high = [min(radius, total // int(size) - b) for size, b in zip(sizes, base, strict=True)]
        return cls(sizes=sizes, base=base, low=low, high=high)

    @property
    def base_loss(self) -> int:
        """The loss of the base, from which the costs of a search count."""
        return dot(loss_costs(self.sizes), self.base)


def search_box(
    master: LinearMaster, near: Neighbourhood, until: float, target: float, best: BucketSetting | None = None
) -> tuple[BoxAnswer, BucketSetting | None]:
    """The answer of branch and bound over a neighbourhood, and the valid setting that it found, if any.

    It has the least loss of all, or one of at most `target`; with a `best` setting known, a loss below that one's.
    Points that are not valid yield cuts, which are added to `master`, and the search goes on `until` the deadline (of
    `time.monotonic`).
    """
    instance, sizes = master.instance, near.sizes
    caps, costs, offset = instance.caps(sizes), loss_costs(sizes), near.base_loss
    while True:
        box = _box(instance, master.rows, caps, near)
        if best is not None:
            box.rows.append([-cost for cost in costs])
            box.rights.append(offset - (best.loss - 1))
        answer = solve_box(box, until - time.monotonic(), target - offset)
        if answer.point is None:
            return answer, None
        buckets = np.asarray([b + z for b, z in zip(near.base, answer.point, strict=True)], dtype=np.int64)
        cuts = broken_cuts(instance, sizes, caps, buckets)
        if not cuts:
            setting = BucketSetting.of(zip(sizes.tolist(), buckets.tolist(), strict=True))
            if setting.records != instance.total:  # rounding went astray: nothing is concluded
                return BoxAnswer(BoxStatus.STOPPED, None, -math.inf), None
            return answer, setting
        if not master.add_cuts(cuts) or time.monotonic() >= until:
            return BoxAnswer(BoxStatus.STOPPED, None, answer.bound), None


def broken_cuts(instance: Instance, sizes: Integers, caps: Integers, buckets: Integers) -> list[Cut | SetCut]:
    """Cuts that an integral setting violates; none iff it is valid."""
    used = np.flatnonzero(buckets)
    sizes, caps, buckets = sizes[used], caps[:, used], buckets[used]
    cuts = list(violated_cuts(instance, sizes, caps, buckets, 0))
    if cuts:
        return cuts
    room, need = caps * buckets, instance.needs(sizes) * buckets
    if instance.forest is not None:
        blocked = fill_tree(instance.forest, instance.counts, room, need).blocked
        return [] if blocked is None else [set_cut(instance, instance.forest, blocked)]
    _, short = fill_sizes(instance.counts, room, need)
    if short is None:
        return []
    reach = (caps[:, short] * buckets[short]).sum(axis=1)
    spans = tuple((int(s), int(s)) for s in sizes[short])
    return [size_cut(instance, reach >= instance.counts, spans)]


def round_nearby(
    demand: Demand, matrix: Integers, rights: Integers, sizes: Integers, buckets: Floats, most: int = 3, step: int = 2
) -> list[tuple[int, ...]]:
    """Whole numbers b of buckets of the given sizes with matrix b >= rights: `most` of them, those of least loss."""
    largest = _largest_product(matrix, buckets + 2 * _FURTHER * step + 2)
    if not 0 < len(sizes) <= _MOST_SIZES or largest > 2.0**62:
        return []
    candidates = _candidates(demand.total, sizes, buckets, step)
    losses = candidates @ np.asarray(loss_costs(sizes), dtype=float)
    order = np.argsort(losses, kind="stable")
    exact = np.float64 if largest <= 2.0**53 else np.int64  # a product of matrices of floats is several times as fast
    rows = np.ascontiguousarray(matrix.T, dtype=exact)
    points: list[tuple[int, ...]] = []
    for start in range(0, len(order), _CHUNK):
        chunk = candidates[order[start : start + _CHUNK]]
        good = (chunk.astype(exact) @ rows >= rights).all(axis=1)
        points += [tuple(point) for point in chunk[good][: most - len(points)].tolist()]
        if len(points) == most:
            break
    return points


def dot(left: list[int], right: list[int]) -> int:
    """The product of two vectors of Python integers."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def _box(instance: Instance, cuts: Sequence[Row], caps: Integers, near: Neighbourhood) -> Box:
    """The integer program in z, without the cuts that no point of the box violates."""
    matrix = coefficients(cuts, near.sizes, caps)
    rights = _rights_at_base([cut.right for cut in cuts], matrix, near.base)
    least = _least(matrix, near.low, near.high)
    needed = [k for k, (reach, right) in enumerate(zip(least, rights, strict=True)) if reach < right]
    units = [cuts[k].units for k in needed]
    rows = [
        row if unit == 1 else [a / unit for a in row] for row, unit in zip(matrix[needed].tolist(), units, strict=True)
    ]
    return Box(
        cost=loss_costs(near.sizes),
        sizes=near.sizes.tolist(),
        total=instance.total - dot(near.sizes.tolist(), near.base),
        low=near.low,
        high=near.high,
        rows=rows,
        rights=[rights[k] if unit == 1 else rights[k] / unit for k, unit in zip(needed, units, strict=True)],
        fractional=instance.units > 1,
    )


def _rights_at_base(rights: list[int], matrix: Integers, base: list[int]) -> list[int]:
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


def _largest_product(matrix: Integers, buckets: Floats) -> float:
    """No row times at most so many buckets is larger than this."""
    return float((np.abs(matrix.astype(float)) @ buckets).max(initial=0.0))


def _candidates(total: int, sizes: Integers, buckets: Floats, step: int) -> Integers:
    """Roundings with a move that makes up for their missing records; numbers of buckets that are not negative."""
    rounded = _roundings(buckets)
    moved = min(len(sizes), _MOVED_SIZES)
    moves = _moves(moved, step)
    amounts = moves @ sizes[:moved]
    order = np.argsort(amounts, kind="stable")
    missing = total - rounded @ sizes
    first, last = (np.searchsorted(amounts[order], missing, side=side) for side in ("left", "right"))
    number = last - first
    start = np.repeat(np.arange(len(rounded)), number)[:_MOST_CANDIDATES]
    offset = np.arange(len(start)) - np.repeat(np.cumsum(number) - number, number)[:_MOST_CANDIDATES]
    candidates = rounded[start]
    candidates[:, :moved] += moves[order[first[start] + offset]]
    return np.asarray(candidates[(candidates >= 0).all(axis=1)])


def _roundings(buckets: Floats) -> Integers:
    """Every way to round the numbers that are furthest from whole; the others go to the nearest whole number."""
    nearest = np.rint(buckets).astype(np.int64)
    doubt = np.abs(buckets - nearest)
    free = [int(j) for j in np.argsort(-doubt, kind="stable")[:_MOST_FREE] if doubt[j] > 1e-6]
    ways = _ways(len(free))
    rounded = np.repeat(nearest[None, :], len(ways), axis=0)
    rounded[:, free] = np.floor(buckets[free]).astype(np.int64) + ways
    return rounded


@cache
def _ways(free: int) -> Integers:
    return np.asarray(list(product((0, 1), repeat=free)), dtype=np.int64).reshape(2**free, free)


@cache
def _moves(sizes: int, step: int) -> Integers:
    """Up to `step` buckets more or less of one or two sizes, further for the two smallest: the change to b by row.

    Small buckets take few records each, and it is larger ones that are rounded.
    """
    steps = [*range(-step, 0), *range(1, step + 1)]
    single = np.concatenate([k * np.eye(sizes, dtype=np.int64) for k in steps])
    first, second = np.triu_indices(len(single), k=1)
    different = first % sizes != second % sizes
    smallest = np.zeros(((2 * _FURTHER * step + 1) ** min(2, sizes), sizes), dtype=np.int64)
    ranges = [range(-_FURTHER * step, _FURTHER * step + 1)] * min(2, sizes)
    smallest[:, : len(ranges)] = list(product(*ranges))
    further = np.abs(smallest).max(axis=1) > step
    none = np.zeros((1, sizes), dtype=np.int64)
    return np.concatenate([none, single, single[first[different]] + single[second[different]], smallest[further]])
