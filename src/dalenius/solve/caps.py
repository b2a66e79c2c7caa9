"""How many records of a value a bucket may hold: all that solvers know of a limit.

An attacker who knows Q records of a bucket of size S leaves S - Q, of which a value may be at most a share f'_i. So

    c[i, S] = floor(f'_i * max(0, S - Q))

of the values in a bucket of size S may be i, computed on exact rationals, so that every privacy test is an integer
comparison. Without fake values that is how many records of value i it may hold: cap[i, S] = c[i, S].

With sigma fake values in every bucket, c[i, S] is for records and fakes together, and the fakes of a size are in
proportion to its records: a records of value i in buckets of size S come with sigma a / S fakes. So a (S + sigma) / S
values must find room. Solvers count in units of 1/K record, K a power of two (K = 1 without fakes):

    cap[i, S] = ceil(K c[i, S] S / (S + sigma)),      K o_i units of value i,      K S units in a bucket of size S.

Rounding up keeps every setting that is valid in exact proportion, so that a lower bound is one for those settings too;
`gale.py` goes back to whole records, and `fakes/quotas.py` to whole fakes. K > m (1 + sigma), so that the caps of all
values together reach K S only where the values can fill S + sigma slots: if sum_i c[i, S] <= S + sigma - 1, then
sum_i cap[i, S] < K S - K S / (S + sigma) + m <= K S.

Notation used by all solvers (Section 3 of the paper): o_i records carry value i, n = sum of o_i, S is a bucket size, b
the number of buckets of that size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dalenius.errors import CountsError
from dalenius.model.problem import Problem
from dalenius.solve.forest import Forest

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_INT64_MAX = 2**63 - 1
_USUAL_UNITS = 2**20  # of a record, where there are fake values
_MOST = 2**58  # units, times 1 + sigma: products of them with a few more factors still fit in 63 bits
_LARGE_SIZE = 2**20  # above every size that is searched: the caps of all values together fit too


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
    """Caps whose products do not fit into 63 bits: floats, and integers where those are close to a whole number."""
    rates = np.asarray([above / below for above, below in zip(numerators, denominators, strict=True)])
    products = rates[:, None] * sizes
    caps = np.floor(products).astype(np.int64)
    close = np.abs(products - np.rint(products)) <= 1e-9 * np.maximum(1.0, products)
    for i, j in np.argwhere(close).tolist():
        caps[i, j] = numerators[i] * int(sizes[j]) // denominators[i]
    return caps


def most_values(limits: tuple[Fraction, ...], sizes: Integers, known_records: int) -> Integers:
    """c[i, S]: the most values i in a bucket of size S, records and fakes together."""
    return cap_matrix(limits, np.maximum(np.asarray(sizes, dtype=np.int64) - known_records, 0))


def caps_in_units(
    limits: tuple[Fraction, ...], sizes: Integers, known_records: int, fake_values: int, units: int
) -> Integers:
    """cap[i, S] = ceil(K c S / (S + sigma)) = K c - floor(K c sigma / (S + sigma)), which does not overflow."""
    most = most_values(limits, sizes, known_records)
    if not fake_values:
        return most
    most = most * units
    return np.asarray(most - most * fake_values // (np.asarray(sizes, dtype=np.int64) + fake_values))


def smallest_size(limit: Fraction, known_records: int = 0) -> int:
    """The smallest bucket that may hold a record with this limit: ceil(1 / f') records that nobody knows, and Q."""
    return -(-limit.denominator // limit.numerator) + known_records


def units_of_a_record(total: int, values: int, fake_values: int) -> int:
    """K: 1 without fakes; else a power of two above m (1 + sigma), 2^20 if n leaves room for that."""
    if not fake_values:
        return 1
    least = 1 << (values * (1 + fake_values)).bit_length()
    most = min(_MOST // (total * (1 + fake_values)), 2**62 // (values * min(total, _LARGE_SIZE)))
    units = max(least, min(_USUAL_UNITS, 1 << max(0, most.bit_length() - 1)))
    if units > most:
        raise CountsError(
            f"{fake_values} fake values in every bucket cannot be shared out exactly between {values:,} values of "
            f"{total:,} records",
            "Use fewer fake values, or none.",
        )
    return units


@dataclass(frozen=True)
class Instance:
    """A problem as the solvers see it: counts as an array, and caps for whatever sizes they ask about.

    `counts`, `caps` and `needs` are in units of 1/K record; sizes, numbers of buckets and `total` are whole. With
    groups (`forest`), caps have a row for each of them after those of the values.
    """

    problem: Problem

    @cached_property
    def units(self) -> int:
        """K, the units that a record is counted in."""
        return units_of_a_record(self.total, len(self.problem.counts), self.problem.fake_values)

    @cached_property
    def forest(self) -> Forest | None:
        """The groups of values that have limits; None if the problem has no groups."""
        return Forest.of(self.problem)

    @cached_property
    def _limits(self) -> tuple[Fraction, ...]:
        """Those of the values, and then of the groups."""
        return self.problem.limits + (self.forest.limits if self.forest is not None else ())

    @cached_property
    def records(self) -> Integers:
        """o_i."""
        return np.asarray(self.problem.counts, dtype=np.int64)

    @cached_property
    def counts(self) -> Integers:
        """K o_i."""
        return self.records * self.units

    @property
    def demands(self) -> Integers:
        """What PC asks room for."""
        return self.counts

    def needs(self, sizes: Integers) -> Integers:
        """K S, what it takes to fill a bucket."""
        return sizes * self.units

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
        return self._caps(self._distinct[0], sizes)

    def by_distinct_limit(self, weights: Floats) -> Floats:
        """Weights of values, added up by limit."""
        limits, position = self._distinct
        return np.asarray(np.bincount(position, weights=weights, minlength=len(limits)), dtype=np.float64)

    def caps(self, sizes: Integers) -> Integers:
        """cap[i, S] for the given sizes."""
        return self._caps(self._limits, sizes)

    def most_values(self, sizes: Integers) -> Integers:
        """c[i, S] for the given sizes: the most values i in a bucket, records and fakes together."""
        return most_values(self._limits, sizes, self.problem.known_records)

    @property
    def fits_one_bucket(self) -> bool:
        """Lemma 1: whether one bucket may hold everybody."""
        caps = self.caps(np.asarray([self.total]))[:, 0]
        counts = self.counts if self.forest is None else self.forest.sums(self.counts)[:-1]
        return bool((caps >= counts).all())

    def _caps(self, limits: tuple[Fraction, ...], sizes: Integers) -> Integers:
        return caps_in_units(limits, sizes, self.problem.known_records, self.problem.fake_values, self.units)


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
    binding = order[first]
    return caps[binding], counts[binding]
