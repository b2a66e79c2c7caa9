"""The one thing that solvers know of a limit: how many records of a value a bucket may hold.

    cap[i, S] = floor(f'_i * S)

computed on exact rationals, so that every privacy test is an integer comparison. Notation used by all solvers
(Section 3 of the paper): o_i records carry value i, n = sum of o_i, S is a bucket size, b the number of buckets of
that size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dalenius.model.problem import Problem

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_INT64_MAX = 2**63 - 1


def cap_matrix(limits: tuple[Fraction, ...], sizes: Integers) -> Integers:
    """The matrix cap[i, S], one row a limit and one column a size."""
    numerators = [limit.numerator for limit in limits]
    denominators = [limit.denominator for limit in limits]
    largest = max(numerators, default=0) * int(sizes.max(initial=0))
    if largest <= _INT64_MAX and max(denominators, default=1) <= _INT64_MAX:
        above, below = np.asarray(numerators, dtype=np.int64), np.asarray(denominators, dtype=np.int64)
        return np.asarray(above[:, None] * sizes // below[:, None])
    return _caps_of_large_fractions(numerators, denominators, sizes)


def _caps_of_large_fractions(numerators: list[int], denominators: list[int], sizes: Integers) -> Integers:
    """Where the products do not fit: floating point, and Python integers wherever that is close to a whole number."""
    rates = np.asarray([above / below for above, below in zip(numerators, denominators, strict=True)])
    products = rates[:, None] * sizes
    caps = np.floor(products).astype(np.int64)
    close = np.abs(products - np.rint(products)) <= 1e-9 * np.maximum(1.0, products)
    for i, j in np.argwhere(close).tolist():
        caps[i, j] = numerators[i] * int(sizes[j]) // denominators[i]
    return caps


def smallest_size(limit: Fraction) -> int:
    """The smallest bucket that may hold a record with this limit: ceil(1 / f')."""
    return -(-limit.denominator // limit.numerator)


@dataclass(frozen=True)
class Instance:
    """A problem as the solvers see it: counts as an array, and caps for whatever sizes they ask about."""

    problem: Problem

    @cached_property
    def counts(self) -> Integers:
        """o_i."""
        return np.asarray(self.problem.counts, dtype=np.int64)

    @cached_property
    def total(self) -> int:
        """n = |T|."""
        return self.problem.total

    @property
    def first_size(self) -> int:
        """M, the smallest bucket size allowed."""
        return self.problem.min_size

    @property
    def last_size(self) -> int:
        """M', the largest bucket size worth a look: no bucket holds more than n records."""
        return min(self.problem.max_size, self.total)

    @cached_property
    def sizes(self) -> Integers:
        """All sizes from M to M'."""
        return np.arange(self.first_size, self.last_size + 1, dtype=np.int64)

    @cached_property
    def _distinct(self) -> tuple[tuple[Fraction, ...], Integers]:
        """The different limits, and for each value the position of its limit among them."""
        position = {limit: k for k, limit in enumerate(dict.fromkeys(self.problem.limits))}
        return tuple(position), np.asarray([position[limit] for limit in self.problem.limits], dtype=np.int64)

    def distinct_caps(self, sizes: Integers) -> Integers:
        """cap[., S] once for each different limit."""
        return cap_matrix(self._distinct[0], np.asarray(sizes, dtype=np.int64))

    def by_distinct_limit(self, weights: Floats) -> Floats:
        """Weights of values, added up by limit."""
        limits, position = self._distinct
        return np.asarray(np.bincount(position, weights=weights, minlength=len(limits)), dtype=np.float64)

    def caps(self, sizes: Integers) -> Integers:
        """cap[i, S] for the given sizes."""
        return cap_matrix(self.problem.limits, np.asarray(sizes, dtype=np.int64))


def binding_rows(caps: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """The privacy constraints that matter: of values with the same caps, the one with the most records.

    Returns (caps, counts) without the others. The constraint sum_j cap[i, S_j] b_j >= o_i depends on a value only
    through its caps and its count, so nothing is lost.
    """
    contiguous = np.ascontiguousarray(caps)
    width = contiguous.shape[1] * contiguous.itemsize
    keys = contiguous.view(np.dtype((np.void, width))).ravel()
    order = np.lexsort((-counts,))
    _, first = np.unique(keys[order], return_index=True)
    kept = order[first]
    return caps[kept], counts[kept]
