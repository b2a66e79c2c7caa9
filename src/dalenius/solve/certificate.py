"""Exact lower bounds on the loss from approximate multipliers.

For rows a_r . b >= rhs_r that every valid setting satisfies and any multipliers y_r >= 0,

    cost . b  >=  y . rhs + sum_S r(S) b(S),        r(S) = cost(S) - sum_r y_r a_r(S)
              >=  y . rhs + n * lambda,             lambda = min_S r(S) / S,

since sum_S S b(S) = n and b >= 0. Whatever rounding a linear program's solver did, the right-hand side computed on
integers is a true bound: it is the certificate. The minimum runs over every size from M to M', whether or not the linear
program ever had it as a column.

With d(S) = r(S) - lambda S >= 0, the same inequality reads cost . b >= bound + sum_S d(S) b(S): a setting that beats a
known loss U has b(S) <= (U - bound) / d(S). And with cost = 0, a bound above 0 proves that no valid setting exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.model.solution import Certificate, CertificateRow
from dalenius.solve.caps import Floats, Instance, Integers
from dalenius.solve.cuts import Cut

_BITS = 48  # multipliers are rounded down to multiples of 2^-48
_CELLS = 4_000_000  # values x sizes whose caps are held at once
_MARGIN = 1e-12  # relative; float64 sums of a few hundred terms are good to 1e-13


@dataclass(frozen=True)
class ExactBound:
    """A lower bound, the multipliers behind it (in units of 2^-48) and lambda."""

    bound: Fraction
    slope: Fraction
    cuts: tuple[Cut, ...]
    weights: tuple[int, ...]

    def certificate(self) -> Certificate:
        """The bound in a form that others can check."""
        rows = (
            CertificateRow(Fraction(weight, 2**_BITS), tuple(np.flatnonzero(cut.values).tolist()), cut.sizes)
            for cut, weight in zip(self.cuts, self.weights, strict=True)
        )
        return Certificate(self.bound, tuple(rows))


def loss_costs(sizes: Integers) -> list[int]:
    """(S - 1)^2 as Python integers, for sizes of any magnitude."""
    return [(int(size) - 1) ** 2 for size in sizes]


def size_pieces(instance: Instance) -> Iterator[Integers]:
    """All sizes from M to M' in pieces whose cap matrices are of bounded memory."""
    step = max(64, _CELLS // max(1, len(instance.counts)))
    for start in range(instance.first_size, instance.last_size + 1, step):
        yield np.arange(start, min(start + step, instance.last_size + 1), dtype=np.int64)


def reduced_rates(
    instance: Instance, sizes: Integers, cuts: Sequence[Cut], multipliers: Floats, with_cost: bool
) -> tuple[Floats, Floats]:
    """r(S) / S in floating point for the given sizes, and a bound on its error."""
    caps = instance.caps(sizes)
    rate = (sizes - 1.0) ** 2 / sizes if with_cost else np.zeros(len(sizes))
    scale = rate.copy()
    for cut, y in zip(cuts, multipliers, strict=True):
        part = y * (cut.coefficients(sizes, caps) / sizes)
        rate -= part
        scale += np.abs(part)
    return rate, scale * _MARGIN


def exact_bound(
    instance: Instance, cuts: Sequence[Cut], multipliers: Floats, with_cost: bool = True
) -> ExactBound:
    """The bound that these multipliers prove, over every size from M to M'; `with_cost=False` for cost = 0."""
    weights = [int(y * 2**_BITS) if y > 0 else 0 for y in multipliers]
    used = [k for k, weight in enumerate(weights) if weight]
    cuts, weights = [cuts[k] for k in used], [weights[k] for k in used]
    rounded = np.asarray([weight / 2**_BITS for weight in weights])
    near, ceiling = [], np.inf
    for sizes in size_pieces(instance):
        rate, error = reduced_rates(instance, sizes, cuts, rounded, with_cost)
        ceiling = min(ceiling, float((rate + error).min()))
        near.append((sizes, rate - error))
    # Only sizes that could be the minimum, given the error bound, are looked at exactly.
    candidates = np.concatenate([sizes[rate <= ceiling] for sizes, rate in near])
    slope = min(
        Fraction(r, int(size)) for r, size in zip(_exact_reduced(instance, candidates, cuts, weights, with_cost), candidates, strict=True)
    )
    start = sum(weight * cut.right for weight, cut in zip(weights, cuts, strict=True))
    return ExactBound((start + slope * instance.total) / 2**_BITS, slope / 2**_BITS, tuple(cuts), tuple(weights))


def _exact_reduced(
    instance: Instance, sizes: Integers, cuts: Sequence[Cut], weights: Sequence[int], with_cost: bool
) -> list[int]:
    """2^48 r(S), exactly."""
    caps = instance.caps(sizes)
    reduced = [cost * 2**_BITS if with_cost else 0 for cost in loss_costs(sizes)]
    for cut, weight in zip(cuts, weights, strict=True):
        for j, a in enumerate(cut.coefficients(sizes, caps).tolist()):
            reduced[j] -= weight * a
    return reduced


def possible_sizes(instance: Instance, bound: ExactBound, loss: int) -> tuple[Integers, list[int]]:
    """The sizes that a setting of at most this loss can use, and the most buckets of each."""
    slack = loss - bound.bound
    multipliers = np.asarray([weight / 2**_BITS for weight in bound.weights])
    sizes_kept, most = [], []
    for sizes in size_pieces(instance):
        rate, error = reduced_rates(instance, sizes, bound.cuts, multipliers, with_cost=True)
        keep = sizes[(rate - error - float(bound.slope)) * sizes <= float(slack) * (1 + 1e-9) + 1e-9]
        for size, r in zip(keep.tolist(), _exact_reduced(instance, keep, bound.cuts, bound.weights, True), strict=True):
            d = Fraction(r, 2**_BITS) - bound.slope * size
            limit = instance.total // size if d == 0 else min(instance.total // size, int(slack // d))
            if limit > 0:
                sizes_kept.append(size)
                most.append(limit)
    return np.asarray(sizes_kept, dtype=np.int64), most
