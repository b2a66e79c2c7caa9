"""A lower bound on the loss of units with sets of items, from prices, proven in integers.

Let every pressed item x have a price y(x, S) >= 0 in each size S, and every other item a price v(x) >= 0 that is the
same in all sizes. A bucket of S units costs at least what its rooms are worth, and what is left of its cost is shared
out to its units: with

    sigma(S) = ((S - 1)^2 - sum_x cap_x(S) y(x, S) - sum_x cap_x(S) v(x)) / S,

a valid bucket of S units, h_x of which have x, has

    (S - 1)^2  >=  S sigma(S) + sum_x h_x y(x, S) + sum_x h_x v(x)
               =   sum over its units of ( sigma(S) + sum of y(x, S) over the unit's pressed items ) + sum_x h_x v(x).

A unit of kind t cannot be in a bucket smaller than least(t). So over all buckets, whatever they are,

    loss  >=  sum_t n_t min over S >= least(t) of (sigma(S) + sum of y(x, S) over items x of t)  +  sum_x h_x v(x).

The multipliers of the linear program of `units_share.py` are the best prices. Where that has some of the sizes alone,
the best prices in another size, given what each kind of unit is worth, come from a linear program for that size: the
dearest units that fit into a bucket. Here they are whole multiples of 2^-20, and sigma is rounded down to one, so
that the bound is exact whatever became of them on the way.
"""

from __future__ import annotations

import time

import numpy as np

from dalenius.solve.caps import Floats, Integers
from dalenius.solve.highs_sparse import SparseFamily, SparseProgram
from dalenius.solve.unit_kinds import Kinds
from dalenius.solve.unit_problem import UnitProblem

_SCALE = 2**20
_LARGEST = 2.0**61


def bound_by_prices(
    problem: UnitProblem, kinds: Kinds, sizes: Integers, caps: Integers, prices: Floats, others: Floats
) -> int:
    """The bound over all bucketizations in `sizes`, 0 if the numbers are too large to say.

    `caps` has a row for every item and a column for every size; `prices` has a row for every pressed item, `others` an
    entry for every item that is not, in ascending order.
    """
    rest = np.setdiff1d(np.arange(len(problem.limits)), kinds.pressed)
    own, of_rest = caps[kinds.pressed], caps[rest]
    worth = (own * prices).sum(axis=0) + others @ of_rest + (sizes - 1.0) ** 2 + prices.sum(axis=0)
    if _SCALE * float(worth.max(initial=0.0)) > _LARGEST:
        return 0
    price = np.floor(np.maximum(prices, 0.0) * _SCALE).astype(np.int64)
    other = np.floor(np.maximum(others, 0.0) * _SCALE).astype(np.int64)
    left = (sizes - 1) ** 2 * _SCALE - (own * price).sum(axis=0) - other @ of_rest
    sigma = left // sizes
    least = np.full(len(kinds), np.iinfo(np.int64).max)
    for k, size in enumerate(sizes.tolist()):
        mine = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(mine, kinds.holder, price[kinds.held, k])
        least = np.where(kinds.least <= size, np.minimum(least, sigma[k] + mine), least)
    total: int = sum(n * worth for n, worth in zip(kinds.numbers.tolist(), least.tolist(), strict=True))
    total += sum(h * v for h, v in zip(problem.people[rest].tolist(), other.tolist(), strict=True))
    return max(0, -(-total // _SCALE))


def prices_in(kinds: Kinds, sizes: Integers, caps: Integers, worth: Floats, deadline: float) -> tuple[Floats, Floats]:
    """For each size the prices of pressed items, and what the dearest units that fit into a bucket are worth.

    `caps` has a row for every pressed item. After the deadline the prices are those of the size before.
    """
    number, pressed = len(kinds), len(kinds.pressed)
    every = np.arange(number)
    program = SparseProgram(
        costs=-worth,
        lower=np.full(1 + pressed, -np.inf),
        upper=np.zeros(1 + pressed),
        rows=np.concatenate([np.zeros(number, dtype=np.int64), 1 + kinds.held]),
        columns=np.concatenate([every, kinds.holder]),
        values=np.ones(number + len(kinds.holder)),
    )
    family = SparseFamily(program)
    prices, dearest = np.zeros((pressed, len(sizes))), np.zeros(len(sizes))
    for k in range(len(sizes) - 1, -1, -1):
        upper = np.concatenate([[sizes[k]], caps[:, k]]).astype(float)
        lower = np.full(1 + pressed, -np.inf)
        found = None
        if time.monotonic() < deadline:
            found = family.multipliers(lower, upper, kinds.least <= sizes[k])
        if found is not None:
            prices[:, k] = np.maximum(-found[1:], 0.0)
            dearest[k] = -float(found @ upper)
        elif k + 1 < len(sizes):
            prices[:, k] = prices[:, k + 1]
    return prices, dearest
