"""Quick integers near a fractional setting: often good enough, and a hundred times cheaper than branch and bound.

Round each fractional b(S) up or down (all ways for the least decided few, the nearest way for the rest), then make up
for the records that are now missing or too many with up to two buckets more or less of each of two sizes in use. Every
candidate is tested against the cuts at hand, all of them at once; the best that passes is the answer.
"""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from dalenius.solve.caps import Floats, Instance, Integers
from dalenius.solve.certificate import loss_costs

_MOST_FREE = 7  # fractional numbers that are tried both ways
_MOST_CANDIDATES = 20_000
_MOST_SIZES = 40  # the moves between pairs of sizes are listed, which grows with the cube
_STEPS = (-2, -1, 1, 2)


def round_nearby(
    instance: Instance, matrix: Integers, rights: Integers, sizes: Integers, buckets: Floats
) -> list[tuple[int, ...]]:
    """Whole numbers b of buckets of the given sizes with matrix b >= rights, a few, those of least loss first."""
    if not 0 < len(sizes) <= _MOST_SIZES or _overflows(matrix, buckets):
        return []
    rounded = _roundings(buckets)
    amounts, moves = _moves(sizes)
    missing = instance.total - rounded @ sizes
    order = np.argsort(amounts, kind="stable")
    first, last = (np.searchsorted(amounts[order], missing, side=side) for side in ("left", "right"))
    matches = ((r, order[k]) for r in range(len(rounded)) for k in range(first[r], last[r]))
    pairs = list(islice(matches, _MOST_CANDIDATES))
    if not pairs:
        return []
    start, move = np.asarray(pairs).T
    candidates = rounded[start] + moves[move]
    candidates = candidates[(candidates >= 0).all(axis=1)]
    for row, right in zip(matrix, rights, strict=True):
        candidates = candidates[candidates @ row >= right]
    losses = candidates @ np.asarray(loss_costs(sizes), dtype=float)
    return [tuple(candidates[k].tolist()) for k in np.argsort(losses, kind="stable")[:3]]


def _overflows(matrix: Integers, buckets: Floats) -> bool:
    """Whether a row times a number of buckets near the given one might not fit in 63 bits."""
    products = np.abs(matrix.astype(float)) @ (buckets + 2 * max(_STEPS) + 2)
    return bool(products.max(initial=0.0) > 2.0**62)


def _roundings(buckets: Floats) -> Integers:
    """Every way to round the numbers that are furthest from whole; the others go to the nearest whole number."""
    nearest = np.rint(buckets).astype(np.int64)
    doubt = np.abs(buckets - nearest)
    free = [int(j) for j in np.argsort(-doubt, kind="stable")[:_MOST_FREE] if doubt[j] > 1e-6]
    down = np.floor(buckets[free]).astype(np.int64)
    ways = np.asarray(list(product((0, 1), repeat=len(free))), dtype=np.int64).reshape(2 ** len(free), len(free))
    rounded = np.repeat(nearest[None, :], len(ways), axis=0)
    rounded[:, free] = down + ways
    return rounded


def _moves(sizes: Integers) -> tuple[Integers, Integers]:
    """Nothing, or a few buckets more or less of one or two sizes: the records that takes, and the change to b."""
    q = len(sizes)
    single = np.concatenate([step * np.eye(q, dtype=np.int64) for step in _STEPS])
    first, second = np.triu_indices(len(single), k=1)
    different = first % q != second % q
    moves = np.concatenate(
        [np.zeros((1, q), dtype=np.int64), single, single[first[different]] + single[second[different]]]
    )
    return moves @ sizes, moves
