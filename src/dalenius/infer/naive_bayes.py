"""The learning attacker: naive Bayes fitted to a release by expectation maximisation (deFinetti attack, Kifer 2009).

A record with sensitive value x has value z in quasi-identifier a with probability theta_a(z | x), independently of the
other quasi-identifiers. Nobody knows who has x, so theta is learned together with that:

    M   N_a(x, z)  = sum of p(r, x) over the rows r with value z in a,
        theta_a    = (N_a(x, z) + P_a(z)) / (sum over z of N_a(x, z) + 1),      P_a(z) the share of z among all rows;
    E   p(r, .)    in proportion to the product over a of theta_a(z_ra | x) / P_a(z_ra), and matched within r's bucket,

from p(r, x) = count / size. It converges slowly and learns noise when it is left to run: a dozen rounds are enough.

**Matching** (`match_values`) makes beliefs fit a bucket: every row has one value, and every value as many rows as the
bucket has of it. Let w[r, s] be the weight of giving slot s of a bucket to row r, and let every one-to-one assignment
of slots to rows have a probability in proportion to the product of its weights. The marginal p[r, s] is exact if it is
summed over all of them, by dynamic programming over the set of rows that the first slots went to:

    F(A) = sum over assignments of the first |A| slots to the rows A,   R(A) = the same of the other slots and rows,
    p[r, s] = sum over A of size s without r of F(A) w[r, s] R(A + r) / F(all),

which takes T 2^T steps for T slots. Where T is larger, two approximations are put together. Sinkhorn's scaling finds
r_i w[i, j] c_j with the right margins; where weights differ little, marginals differ from those of a random assignment
by a share 1 / T too little. Belief propagation (the Bethe permanent of Vontobel 2013) finds b / (1 - b) = a_i w[i, j]
c_j, and they differ by a share 1 / (T (T - 2)) too much. So (T - 2) / (T - 1) of the latter and 1 / (T - 1) of the
former are right to the first order in log w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dalenius.infer.candidates import Beliefs, Block, Candidates, Column, Floats, Integers

MOST_SLOTS = 8  # of a bucket whose marginals are exact
PASSES = 2
_FEW_PASSES = 2  # of each of two approximations, which are then scaled together
_SMALLEST = {4: 1e-30, 8: 1e-250}  # by the bytes of a number
ROUNDS = 12
_CHANGE = 1e-3  # of a row's beliefs, in the mean, below which nothing more is to be learned
_LEAST = -60.0  # the logarithm of the smallest likelihood: products of eight of them are still numbers


@dataclass(frozen=True)
class NaiveBayes:
    """The fitted model: beliefs, and for every column log theta(z | x) / P(z) by x and z."""

    beliefs: Beliefs
    tables: tuple[Floats, ...]
    rounds: int


def learn(candidates: Candidates, rounds: int = ROUNDS, each_round: Callable[[], None] | None = None) -> NaiveBayes:
    """Fit, until beliefs hardly change or for so many rounds."""
    beliefs = candidates.shares()
    sums = _zeros(candidates)
    for block, p in zip(candidates.blocks, beliefs, strict=True):
        _add(sums, candidates, block, p)
    tables = _tables(candidates, sums)
    round_number = 0
    while round_number < rounds:
        round_number += 1
        change, sums = 0.0, _zeros(candidates)
        for place, block in enumerate(candidates.blocks):
            p = match_values(block, likelihood(candidates, block, tables))
            change += float(np.abs(p - beliefs[place]).sum())
            beliefs[place] = p
            _add(sums, candidates, block, p)
        tables = _tables(candidates, sums)
        if each_round is not None:
            each_round()
        if change < _CHANGE * candidates.rows:
            break
    return NaiveBayes(beliefs, tuple(tables), round_number)


def likelihood(candidates: Candidates, block: Block, tables: list[Floats]) -> Floats:
    """The product over columns for each row's values, the largest of a row being 1; fakes can be anything."""
    buckets, rows, different = block.shape
    logs = np.zeros((buckets, rows, different))
    for column, table in zip(candidates.columns, tables, strict=True):
        logs[:, : block.size] += table.ravel().take(_places(column, block))
    logs -= logs.max(axis=2, keepdims=True)
    np.maximum(logs, _LEAST, out=logs)
    return np.exp(logs, out=logs)


def log_scores(tables: tuple[Floats, ...], columns: tuple[Column, ...], rows: Integers, frequencies: Floats) -> Floats:
    """For people without a bucket: log (frequency of x times the product over columns), rows x values.

    A cell that nobody in the release has says nothing: the code after the last has the logarithm 0.
    """
    with np.errstate(divide="ignore"):
        scores = np.tile(np.log(frequencies), (len(rows), 1))
    for column, table in zip(columns, tables, strict=True):
        scores += np.pad(table, ((0, 0), (0, 1)))[:, column.codes[rows]].T
    return scores


def match_values(block: Block, likelihood: Floats, passes: int = PASSES) -> Floats:
    """Beliefs in proportion to the likelihood of each row's values, matched within each bucket, in its precision."""
    if block.slots <= MOST_SLOTS:
        return exact_beliefs(block, likelihood)
    p = likelihood * 1
    p *= block.counts[:, None, :]
    p = _scaled(block, p, _FEW_PASSES)
    p += propagated(block, likelihood) * (block.slots - 2)
    return _scaled(block, p, passes)


def propagated(block: Block, likelihood: Floats, passes: int = _FEW_PASSES) -> Floats:
    """Beliefs by belief propagation: each row tells each slot how well it fits among others, and slots tell rows."""
    counts, masses = _margins(block, likelihood)
    least = _SMALLEST[likelihood.dtype.itemsize]
    of_slots, of_rows, others = likelihood.copy(), np.empty_like(likelihood), np.empty_like(likelihood)
    for _ in range(passes):
        np.subtract(np.einsum("brj,bj->br", of_slots, counts)[:, :, None], of_slots, out=of_rows)
        np.divide(likelihood, np.maximum(of_rows, least, out=of_rows), out=of_rows)
        np.subtract(np.einsum("brj,r->bj", of_rows, masses)[:, None, :], of_rows, out=others)
        np.maximum(others, least, out=others)
        np.divide(likelihood, others, out=of_slots)
    others += of_rows  # b = odds / (1 + odds), the odds being of_rows / others
    of_rows *= counts[:, None, :]
    of_rows /= others
    of_rows *= masses[:, None] / np.maximum(of_rows.sum(axis=2, keepdims=True), least)
    return of_rows


def scale_margins(block: Block, weights: Floats, passes: int) -> Floats:
    """Sinkhorn's scaling: columns add up to counts, then rows to their masses, so many times over."""
    return _scaled(block, weights * 1.0, passes)


def _scaled(block: Block, p: Floats, passes: int) -> Floats:
    """The same in place."""
    counts, masses = _margins(block, p)
    least = _SMALLEST[p.dtype.itemsize]
    for _ in range(passes):
        p *= masses[:, None] / np.maximum(p.sum(axis=2, keepdims=True), least)
        p *= counts[:, None, :] / np.maximum(p.sum(axis=1, keepdims=True), least)
    p *= masses[:, None] / np.maximum(p.sum(axis=2, keepdims=True), least)
    return p


def _margins(block: Block, like: Floats) -> tuple[Floats, Floats]:
    """Counts and masses, in the precision of something."""
    return block.counts.astype(like.dtype), block.masses.astype(like.dtype)


def exact_beliefs(block: Block, likelihood: Floats) -> Floats:
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
    by_value: Floats = np.diff(np.take_along_axis(sums, ends[:, None, :], axis=2), axis=2, prepend=0.0)
    if block.fakes:
        by_value = np.concatenate([by_value[:, :size], by_value[:, size:].sum(axis=1, keepdims=True)], axis=1)
    return np.maximum(by_value, 0.0)


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
    sums = np.zeros((slots, rows, buckets))
    for taken in reversed(order):
        slot = taken.bit_count()
        for row in _others(taken, rows):
            part = by_slot[slot, row] * rest[taken | 1 << row]
            rest[taken] += part
            sums[slot, row] += first[taken] * part
    result: Floats = (sums / rest[0]).transpose(2, 1, 0)
    return result


def _others(taken: int, rows: int) -> list[int]:
    return [row for row in range(rows) if not taken >> row & 1]


def _values_of_slots(ends: Integers, slots: int) -> Integers:
    """Which of its bucket's values each slot has."""
    values: Integers = (np.arange(slots)[None, :, None] >= ends[:, None, :]).sum(axis=2)
    return values


def _places(column: Column, block: Block) -> Integers:
    """The places in a column's table of each row's value with each of its sensitive values."""
    codes = column.codes[block.rows].astype(np.int64)
    places: Integers = block.values[:, None, :] * column.kinds + codes[:, :, None]
    return places


def _zeros(candidates: Candidates) -> list[Floats]:
    return [np.zeros(candidates.values * column.kinds) for column in candidates.columns]


def _add(sums: list[Floats], candidates: Candidates, block: Block, p: Floats) -> None:
    """The block's part of N_a, for every column."""
    weights = np.ascontiguousarray(p[:, : block.size]).ravel()
    for total, column in zip(sums, candidates.columns, strict=True):
        total += np.bincount(_places(column, block).ravel(), weights=weights, minlength=len(total))


def _tables(candidates: Candidates, sums: list[Floats]) -> list[Floats]:
    tables = []
    for column, flat in zip(candidates.columns, sums, strict=True):
        counts = flat.reshape(candidates.values, column.kinds)
        shares = np.bincount(column.codes[: candidates.rows], minlength=column.kinds) / max(1, candidates.rows)
        theta = (counts + shares) / (counts.sum(axis=1, keepdims=True) + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # a value that nobody in the release has says nothing
            tables.append(np.where(shares > 0, np.log(theta / shares), 0.0))
    return tables
