"""Exact lower bounds on the loss from approximate multipliers.

For rows a_r . b >= rhs_r that every valid setting satisfies and any multipliers y_r >= 0,

    cost . b  >=  y . rhs + sum_S r(S) b(S),        r(S) = cost(S) - sum_r y_r a_r(S)
              >=  y . rhs + n * lambda,             lambda = min_S r(S) / S,

since sum_S S b(S) = n and b >= 0. Whatever rounding a linear program's solver did, the right-hand side computed on
integers is a true bound: it is the certificate. The minimum runs over every size from M to M', whether or not the
linear program ever had it as a column.

With d(S) = r(S) - lambda S >= 0, the same inequality reads cost . b >= bound + sum_S d(S) b(S): a setting that beats
a known loss U has b(S) <= (U - bound) / d(S). With cost = 0, a bound above 0 proves that no valid setting exists;
with the cost 1 or -1 on one size and 0 on the others, the bound limits b(S) from below or above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import mul

import numpy as np

from dalenius.model.plan import Certificate, CertificateRow, Proof
from dalenius.solve.caps import Floats, Instance, Integers
from dalenius.solve.cuts import Cut
from dalenius.solve.rows import Demand, Row
from dalenius.solve.set_cuts import SetCut

Costs = Callable[[Integers], list[int]]

_BITS = 48  # multipliers are rounded down to multiples of 2^-48 / K
_CELLS = 4_000_000  # values x sizes whose caps are held at once
_ROUNDING = 2.3e-16  # the relative error of one floating-point operation


@dataclass(frozen=True)
class ExactBound:
    """A lower bound, the multipliers behind it (`weights`, in units of 1 / `scale`) and lambda."""

    bound: Fraction
    slope: Fraction
    cuts: tuple[Row, ...]
    weights: tuple[int, ...]
    scale: int
    units: int

    @property
    def multipliers(self) -> Floats:
        """The multipliers as floating-point numbers, which they are exactly."""
        return np.asarray([weight / self.scale for weight in self.weights])

    def certificate(self, proves: Proof = "loss") -> Certificate:
        """The bound as others can check it: on the loss, or above 0 to show that no setting exists."""
        rows = (
            CertificateRow(Fraction(weight, self.scale), tuple(np.flatnonzero(cut.values).tolist()), cut.sizes)
            for cut, weight in zip(self.cuts, self.weights, strict=True)
            if isinstance(cut, Cut | SetCut)
        )
        return Certificate(bound=self.bound, rows=tuple(rows), proves=proves, units=self.units)


def loss_costs(sizes: Integers) -> list[int]:
    """(S - 1)^2 as Python integers, for sizes of any magnitude."""
    return [(int(size) - 1) ** 2 for size in sizes]


def no_costs(sizes: Integers) -> list[int]:
    """0 for every size."""
    return [0] * len(sizes)


def single_cost(size: int, cost: int) -> Costs:
    """`cost` for one size, 0 for the others."""
    return lambda sizes: [cost if int(other) == size else 0 for other in sizes]


def size_pieces(instance: Instance) -> Iterator[Integers]:
    """All sizes from M to M' in pieces whose cap matrices are of bounded memory."""
    step = max(64, _CELLS // max(1, len(instance.counts)))
    for start in range(instance.first_size, instance.last_size + 1, step):
        yield np.arange(start, min(start + step, instance.last_size + 1), dtype=np.int64)


def reduced_rates(
    instance: Instance, sizes: Integers, rows: Sequence[Row], multipliers: Floats, costs: Costs
) -> tuple[Floats, Floats]:
    """r(S) / S in floating point for the given sizes (ascending), and a bound on its error.

    Between two edges of the rows, sum_r y_r a_r(S) is a weighted sum of caps and powers of S: one product of a vector
    and the cap matrix for all rows together.
    """
    caps = instance.distinct_caps(sizes)
    used = [(row, y) for row, y in zip(rows, multipliers.tolist(), strict=True) if y > 0.0]
    reduced = np.asarray(costs(sizes), dtype=float)
    scale = np.abs(reduced)
    of_sets = [(row, y) for row, y in used if isinstance(row, SetCut)]
    if of_sets:
        every = instance.caps(sizes)
        for cut, y in of_sets:
            taken = y * cut.coefficients(sizes, every)
            reduced -= taken
            scale += taken
        used = [(row, y) for row, y in used if not isinstance(row, SetCut)]
    edges = {int(np.searchsorted(sizes, edge)) for row, _ in used for edge in row.edges}
    cuts = sorted({0, len(sizes)} | {edge for edge in edges if 0 < edge < len(sizes)})
    for start, stop in pairwise(cuts):
        weights = np.zeros(len(instance.counts))
        per_size = per_loss = 0.0
        for row, y in used:
            terms = row.terms(int(sizes[start]))
            if terms is not None:
                if terms.values is not None:
                    weights[terms.values] += y
                per_size += y * terms.per_size
                per_loss += y * terms.per_loss
        part = slice(start, stop)
        taken = instance.by_distinct_limit(weights) @ caps[:, part]
        added = per_size * sizes[part] + per_loss * (sizes[part] - 1.0) ** 2
        reduced[part] += added - taken
        scale[part] += added + taken
    return reduced / sizes, scale / sizes * _ROUNDING * (len(instance.counts) + len(rows) + 16)


def exact_bound(
    instance: Instance,
    cuts: Sequence[Row],
    multipliers: Floats,
    costs: Costs = loss_costs,
    only: Integers | None = None,
) -> ExactBound:
    """The lower bound on costs . b that these multipliers prove, over every size from M to M'.

    `only` (ascending) are the sizes in question where all others are known to have no buckets.
    """
    scale, weights, used = _whole_weights(multipliers, instance.units)
    cuts = [cuts[k] for k in used]
    rounded = np.asarray([weight / scale for weight in weights])
    near, ceiling = [], np.inf
    for sizes in size_pieces(instance) if only is None else [only]:
        rate, error = reduced_rates(instance, sizes, cuts, rounded, costs)
        ceiling = min(ceiling, float((rate + error).min()))
        near.append((sizes, rate - error))
    # Only sizes that could be the minimum, given the error bound, are looked at exactly.
    candidates = np.concatenate([sizes[rate <= ceiling] for sizes, rate in near])
    reduced = _exact_reduced(instance, candidates, cuts, weights, costs, scale)
    return _bound_from(reduced, candidates, cuts, weights, scale, instance)


def dense_bound(
    demand: Demand, sizes: Integers, matrix: Integers, cuts: Sequence[Row], multipliers: Floats
) -> ExactBound:
    """The lower bound on the loss that these multipliers prove, where `sizes` are all from M to M'.

    `matrix` has the coefficients of the cuts, one column a size. `exact_bound` has the same bound without a matrix.
    """
    scale, weights, used = _whole_weights(multipliers, demand.units)
    cuts, matrix = [cuts[k] for k in used], matrix[used]
    rounded = np.asarray([weight / scale for weight in weights])
    costs = (sizes - 1.0) ** 2
    rate = (costs - rounded @ matrix) / sizes
    error = (costs + rounded @ np.abs(matrix)) / sizes * _ROUNDING * (len(used) + 16)
    near = np.flatnonzero(rate - error <= (rate + error).min())
    columns = zip(loss_costs(sizes[near]), matrix[:, near].T.tolist(), strict=True)
    reduced = [cost * scale - sum(map(mul, weights, column)) for cost, column in columns]
    return _bound_from(reduced, sizes[near], cuts, weights, scale, demand)


def _whole_weights(multipliers: Floats, units: int) -> tuple[int, list[int], list[int]]:
    """Multipliers rounded down to whole multiples of 1 / scale, without those that vanish, and where they were."""
    scale = 2**_BITS * units  # a power of two: products with it, and quotients, are exact
    weights = [int(y * scale) if y > 0 else 0 for y in multipliers.tolist()]
    used = [k for k, weight in enumerate(weights) if weight]
    return scale, [weights[k] for k in used], used


def _bound_from(
    reduced: list[int], sizes: Integers, cuts: Sequence[Row], weights: list[int], scale: int, demand: Demand
) -> ExactBound:
    """The bound, given scale * r(S) for the sizes that could be the minimum."""
    slope = min(Fraction(r, size) for r, size in zip(reduced, sizes.tolist(), strict=True))
    start = sum(weight * cut.right for weight, cut in zip(weights, cuts, strict=True))
    bound = (start + slope * demand.total) / scale
    return ExactBound(
        bound=bound,
        slope=slope / scale,
        cuts=tuple(cuts),
        weights=tuple(weights),
        scale=scale,
        units=demand.units,
    )


def _exact_reduced(
    instance: Instance, sizes: Integers, cuts: Sequence[Row], weights: Sequence[int], costs: Costs, scale: int
) -> list[int]:
    """scale * r(S), exactly."""
    caps = instance.caps(sizes)
    reduced = [cost * scale for cost in costs(sizes)]
    for cut, weight in zip(cuts, weights, strict=True):
        for j, a in enumerate(cut.coefficients(sizes, caps).tolist()):
            reduced[j] -= weight * a
    return reduced


def possible_sizes(instance: Instance, bound: ExactBound, loss: int) -> tuple[Integers, list[int]]:
    """The sizes that a setting of at most this loss can use, and the most buckets of each."""
    slack = loss - bound.bound
    sizes_kept, most = [], []
    for sizes in size_pieces(instance):
        rate, error = reduced_rates(instance, sizes, bound.cuts, bound.multipliers, loss_costs)
        keep = sizes[(rate - error - float(bound.slope)) * sizes <= float(slack) * (1 + 1e-9) + 1e-9]
        exact = _exact_reduced(instance, keep, bound.cuts, bound.weights, loss_costs, bound.scale)
        for size, r in zip(keep.tolist(), exact, strict=True):
            d = Fraction(r, bound.scale) - bound.slope * size
            limit = instance.total // size if d == 0 else min(instance.total // size, int(slack // d))
            if limit > 0:
                sizes_kept.append(size)
                most.append(limit)
    return np.asarray(sizes_kept, dtype=np.int64), most
