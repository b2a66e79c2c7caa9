"""Small designs whose truth is known, and what a regression says of them, worked out with plain loops.

The oracles share nothing with the program but the order of its features: a column's codes, then curves, then what is
asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import exp, log

import numpy as np

from dalenius.infer.candidates import Candidates, Column, Floats, Integers, make_blocks
from dalenius.infer.features import Coding, Design, Singles

LISTS = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Made:
    """A design, with the values of every bucket (those of fakes too), and every row's own."""

    design: Design
    held: list[list[int]]
    truth: Integers

    @property
    def rows(self) -> list[list[int]]:
        """The rows of every bucket."""
        firsts = np.cumsum([0, *self.design.sizes]).tolist()
        return [list(range(first, last)) for first, last in pairwise(firsts)]

    def stratum(self, bucket: int) -> int:
        """The stratum of a bucket, from 0."""
        return int(self.design.stratum_of[bucket])

    def features(self) -> Floats:
        """All features, as numbers of double precision."""
        whole: Floats = self.design.features(slice(0, self.design.rows)).astype(np.float64)
        return whole


def candidates_of(held: LISTS, sizes: Sequence[int], values: int, columns: Sequence[Column]) -> Candidates:
    """Buckets with these values; what is more than rows is fake."""
    cells = [(bucket, value, list(own).count(value)) for bucket, own in enumerate(held) for value in sorted(set(own))]
    buckets, of, counts = np.array(cells, np.int64).T
    bucket_of = np.repeat(np.arange(len(sizes)), sizes)
    blocks = make_blocks(bucket_of, buckets, of, counts)
    return Candidates(np.arange(len(sizes)) + 1, bucket_of, blocks, values, tuple(columns))


def column(codes: Sequence[int] | Integers, *, ordered: bool = False, name: str = "q") -> Column:
    """A quasi-identifier with these codes."""
    own = np.asarray(codes, np.int32)
    return Column(name, own, int(own.max()) + 1, ordered)


def make(
    truth: Sequence[int] | Integers,
    sizes: Sequence[int],
    columns: Sequence[Column],
    *,
    strata: Sequence[int] | None = None,
    fakes: LISTS = (),
    values: int | None = None,
    further: Singles | None = None,
) -> Made:
    """The design of rows with these values, in buckets of these sizes, one after the other."""
    own = np.asarray(truth, np.int64)
    parts = np.split(own, np.cumsum(sizes)[:-1])
    held = [[*part.tolist(), *(fakes[bucket] if fakes else ())] for bucket, part in enumerate(parts)]
    number = values or max(map(max, held)) + 1
    candidates = candidates_of(held, sizes, number, columns)
    coding = Coding(columns, len(own), further)
    places = np.zeros(len(sizes), np.int64) if strata is None else np.asarray(strata, np.int64)
    return Made(Design(candidates, places, coding, further), held, own)


def tiny(seed: int = 0, *, strata: Sequence[int] = (0, 0, 0, 0, 0), fakes: int = 0, values: int = 3) -> Made:
    """Buckets of one to four rows, a plain column, one with curves, and a feature that is asked for."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 5, len(strata)).tolist()
    rows = sum(sizes)
    truth = random.integers(0, values, rows)
    truth[:values] = np.arange(values)
    plain = (truth + random.integers(0, 2, rows)) % 3
    plain[:3] = [0, 1, 2]
    age = random.integers(0, 6, rows)
    age[:6] = np.arange(6)
    further = random.normal(size=(rows, 1)).astype(np.float32)
    fake = random.integers(0, values, (len(sizes), fakes)).tolist()
    columns = [column(plain, name="plain"), column(age, ordered=True, name="age")]
    return make(truth, sizes, columns, strata=strata, fakes=fake if fakes else (), values=values, further=further)


def row_shares(made: Made, slopes: Floats, levels: Floats) -> Floats:
    """What a model with these slopes and whole levels says of every row: p."""
    features, shares = made.features(), np.zeros((made.design.rows, made.design.kinds))
    for bucket, rows in enumerate(made.rows):
        for row in rows:
            logits = features[row] @ slopes + levels[made.stratum(bucket)]
            weights = [exp(logit - max(logits)) for logit in logits]
            shares[row] = np.array(weights) / sum(weights)
    return shares


def fake_shares(made: Made) -> list[list[float]]:
    """How often each value is in each stratum, fakes included."""
    counts = np.zeros((made.design.strata, made.design.kinds))
    for bucket, held in enumerate(made.held):
        for value in held:
            counts[made.stratum(bucket), value] += 1
    listed: list[list[float]] = (counts / counts.sum(axis=1, keepdims=True)).tolist()
    return listed


def all_truths(made: Made, shares: Floats) -> tuple[float, Floats]:
    """The logarithm of the sum over all truths of their products, and what is left for every row: q."""
    left, total, fake = np.zeros_like(shares), 0.0, fake_shares(made)
    for bucket, (rows, held) in enumerate(zip(made.rows, made.held, strict=True)):
        own = fake[made.stratum(bucket)]
        weights = {}
        for values in set(permutations(held)):
            weight = 1.0
            for row, value in zip(rows, values[: len(rows)], strict=True):
                weight *= shares[row, value]
            for value in values[len(rows) :]:
                weight *= own[value]
            weights[values] = weight
        whole = sum(weights.values())
        total += log(whole)
        for values, weight in weights.items():
            for row, value in zip(rows, values[: len(rows)], strict=True):
                left[row, value] += weight / whole
    return total, left
