"""Beliefs that fit a bucket: every row has one value, and every value as many rows as the bucket has of it.

Let w[r, s] be the weight of giving slot s of a bucket to row r, and let every one-to-one assignment of slots to rows
have a probability in proportion to the product of its weights. The marginal p[r, s] is exact if it is summed over all
of them, by dynamic programming over the set of rows that the first slots went to:

    F(A) = sum over assignments of the first |A| slots to the rows A,   R(A) = the same of the other slots and rows,
    p[r, s] = sum over A of size s without r of F(A) w[r, s] R(A + r) / F(all),

which takes T 2^T steps for T slots. Where T is larger, Sinkhorn's scaling finds r_i w[i, j] c_j with the right margins:
the first-order answer.
"""

from __future__ import annotations

import numpy as np

from dalenius.infer.candidates import Block, Floats, Integers

MOST_SLOTS = 8  # of a bucket whose marginals are exact
PASSES = 4


def matched(block: Block, likelihood: Floats, passes: int = PASSES) -> Floats:
    """Beliefs in proportion to the likelihood of each row's values, and matched within each bucket."""
    if block.slots <= MOST_SLOTS:
        return exact(block, likelihood)
    return scaled(block, likelihood * block.counts[:, None, :], passes)


def scaled(block: Block, weights: Floats, passes: int) -> Floats:
    """Sinkhorn's scaling: columns add up to counts, then rows to their masses, so many times over."""
    p = weights * 1.0
    masses = block.masses[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(passes):
            p *= masses / p.sum(axis=2, keepdims=True)
            np.nan_to_num(p, copy=False, posinf=0.0)
            p *= np.nan_to_num(block.counts[:, None, :] / p.sum(axis=1, keepdims=True), posinf=0.0)
        p *= masses / p.sum(axis=2, keepdims=True)
    return np.nan_to_num(p, copy=False, posinf=0.0)


def exact(block: Block, likelihood: Floats) -> Floats:
    """The marginals of all assignments; those of fakes together in the last row, of slots by their value."""
    slots, size = block.slots, block.size
    ends = np.cumsum(block.counts, axis=1)
    value_of = _values_of_slots(ends, slots)
    rows = likelihood
    if block.fakes:
        rows = np.concatenate([likelihood[:, :size], np.repeat(likelihood[:, size:], block.fakes, axis=1)], axis=1)
    by_slot = marginals(np.take_along_axis(rows, value_of[:, None, :], axis=2))
    sums = np.zeros((*by_slot.shape[:2], slots + 1))
    np.cumsum(by_slot, axis=2, out=sums[:, :, 1:])
    found: Floats = np.diff(np.take_along_axis(sums, ends[:, None, :], axis=2), axis=2, prepend=0.0)
    if block.fakes:
        found = np.concatenate([found[:, :size], found[:, size:].sum(axis=1, keepdims=True)], axis=1)
    return np.maximum(found, 0.0)


def marginals(weights: Floats) -> Floats:
    """For matrices (buckets x rows x slots), the probability of each slot for each row."""
    buckets, rows, slots = weights.shape
    everyone = (1 << rows) - 1
    order = sorted(range(everyone), key=int.bit_count)
    by_slot = np.ascontiguousarray(weights.transpose(2, 1, 0))
    first = np.zeros((everyone + 1, buckets))
    rest = np.zeros((everyone + 1, buckets))
    first[0], rest[everyone] = 1.0, 1.0
    for taken in order:
        for row in _others(taken, rows):
            first[taken | 1 << row] += first[taken] * by_slot[taken.bit_count(), row]
    found = np.zeros((slots, rows, buckets))
    for taken in reversed(order):
        slot = taken.bit_count()
        for row in _others(taken, rows):
            part = by_slot[slot, row] * rest[taken | 1 << row]
            rest[taken] += part
            found[slot, row] += first[taken] * part
    result: Floats = (found / rest[0]).transpose(2, 1, 0)
    return result


def _others(taken: int, rows: int) -> list[int]:
    return [row for row in range(rows) if not taken >> row & 1]


def _values_of_slots(ends: Integers, slots: int) -> Integers:
    """Which of its bucket's values each slot has."""
    found: Integers = (np.arange(slots)[None, :, None] >= ends[:, None, :]).sum(axis=2)
    return found
