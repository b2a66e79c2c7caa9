"""How many units of each kind go to buckets of each size, and how many buckets there are: a linear program.

    minimise sum_S (S - 1)^2 b(S)    over b, z >= 0, where z(t, S) units of kind t (`unit_kinds.py`) go to size S

    sum_S z(t, S) = n_t                                             every unit has a place
    sum_t z(t, S) = S b(S)                                          that fill the buckets
    sum of z(t, S) over kinds t with x  <=  cap_x(S) b(S)           for every pressed item x and size S
    sum_S cap_x(S) b(S)  >=  h_x                                    for every other item x

Every bucketization gives a solution. So its optimum bounds the loss from below (`units_prices.py` proves it), at
least as well as representatives do, since all items of a unit count at once. And it says which units belong in which
size, so that each size has room for what comes into it: what is left to the search is to deal units within a size.

Slack s asks for more room than that, (1 - s) cap_x(S) b(S), because a dealing cannot fill every bucket to the brim with
everything at once. An excess has a price that no bucketization would pay, so that there is always an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dalenius.solve.caps import Floats, Integers, Mask
from dalenius.solve.highs_sparse import SparseProgram, solve_sparse
from dalenius.solve.unit_kinds import Kinds
from dalenius.solve.unit_problem import UnitProblem

_TINY = 1e-7
_PRICE = 4.0  # of an excess, in buckets of the largest size
_WORTH_A_BUCKET = 0.3  # of a bucket, that is rounded up if there are enough units


@dataclass(frozen=True, eq=False)
class Shares:
    """The optimum: z by kind and size, b, and how many units buckets have more than S; what a unit of each kind is
    worth, and the prices of room: in each size for pressed items (rows), in all sizes for the others."""

    cost: float
    units: Floats
    buckets: Floats
    larger: Floats
    worth: Floats
    prices: Floats
    prices_of_others: Floats

    def at(self, kept: Mask) -> Shares:
        """The same for some of the sizes, where the others have next to no buckets."""
        return replace(
            self,
            units=self.units[:, kept],
            buckets=self.buckets[kept],
            larger=self.larger[kept],
            prices=self.prices[:, kept],
        )


@dataclass(frozen=True, eq=False)
class Sizing:
    """`buckets[k]` buckets of `sizes[k]` units each, and `larger[k]` units more in the same buckets."""

    sizes: Integers
    buckets: Integers
    larger: Integers

    @property
    def room(self) -> Integers:
        """The units in buckets of each size."""
        return self.sizes * self.buckets + self.larger


def share_out(
    problem: UnitProblem,
    kinds: Kinds,
    sizes: Integers,
    caps: Integers,
    slack: Floats,
    seconds: float,
    fixed: Floats | None = None,
) -> Shares | None:
    """The optimum; `caps` has a row for every item, `slack` for every pressed one; None if it is not found in time.

    Some b can be `fixed`, those that are not NaN. If all are, buckets can be larger by one, at what that costs.
    """
    number, many, pressed = len(kinds), len(sizes), len(kinds.pressed)
    allowed = kinds.least[:, None] <= sizes
    if fixed is not None:
        allowed &= fixed != 0
    kind, size = np.nonzero(allowed)
    column = np.full(allowed.shape, -1, dtype=np.int64)
    column[kind, size] = np.arange(len(kind))
    others = np.setdiff1d(np.arange(len(problem.limits)), kinds.pressed)
    room = caps[kinds.pressed] * (1.0 - slack[:, None])
    item, at = np.nonzero(caps[kinds.pressed])
    other, there = np.nonzero(caps[others])
    owned = column[kinds.holder]  # of pairs of a kind and an item, by size
    pair, of_size = np.nonzero(owned >= 0)
    first, lacking = len(kind), np.arange(len(others))
    excess = first + many + np.arange(len(item) + 1)
    fills, holds, fits = number, number + many, number + many + many * pressed
    entries: tuple[tuple[Integers, Integers, Any], ...] = (
        (kind, np.arange(first), 1.0),
        (fills + size, np.arange(first), 1.0),
        (fills + np.arange(many), first + np.arange(many), -sizes.astype(float)),
        (holds + of_size * pressed + kinds.held[pair], owned[pair, of_size], 1.0),
        (holds + at * pressed + item, first + at, -room[item, at]),
        (holds + at * pressed + item, excess[:-1], -1.0),
        (fits + other, first + there, caps[others][other, there].astype(float)),
        (fits + lacking, excess[-1] + lacking, 1.0),
        (fills + np.arange(many), excess[-1] + len(others) + np.arange(many), -1.0),
    )
    rows, columns, values = (np.concatenate(parts) for parts in zip(*(map(_flat, entries)), strict=True))
    given = np.full(many, np.nan) if fixed is None else fixed
    complete = not np.isnan(given).any()
    known = np.full(first + 2 * many + len(item) + len(others), np.nan)
    known[first : first + many] = given
    known[len(known) - many :] = np.where(given > 0, np.nan, 0.0) if complete else 0.0
    above, below = np.full(many * pressed, -np.inf), np.zeros(many * pressed)
    elastic = np.full(len(item) + len(others), _PRICE * float(sizes[-1]) ** 2)
    program = SparseProgram(
        costs=np.concatenate([np.zeros(first), (sizes - 1.0) ** 2, elastic, 2.0 * sizes - 1.0]),
        lower=np.concatenate([kinds.numbers, np.zeros(many), above, problem.people[others]]).astype(float),
        upper=np.concatenate([kinds.numbers, np.zeros(many), below, np.full(len(others), np.inf)]).astype(float),
        rows=rows,
        columns=columns,
        values=values,
        fixed=known,
    )
    answer = solve_sparse(program, seconds)
    if answer is None:
        return None
    units = np.zeros(allowed.shape)
    units[kind, size] = np.maximum(answer.values[:first], 0.0)
    return Shares(
        cost=answer.cost,
        units=units,
        buckets=np.maximum(answer.values[first : first + many], 0.0),
        larger=np.maximum(answer.values[len(known) - many :], 0.0),
        worth=answer.multipliers[:number],
        prices=np.maximum(-answer.multipliers[holds:fits], 0.0).reshape(many, pressed).T,
        prices_of_others=np.maximum(answer.multipliers[fits:], 0.0),
    )


def _flat(entry: tuple[Integers, Integers, Any]) -> tuple[Integers, Integers, Floats]:
    rows, columns, values = entry
    return rows, columns, np.broadcast_to(np.asarray(values, dtype=float), rows.shape)


def round_buckets(total: int, sizes: Integers, buckets: Floats) -> Integers:
    """Whole numbers of buckets near the fractional ones, which hold no more than all units; hardly any are left."""
    whole = np.floor(buckets + _TINY).astype(np.int64)
    part = buckets - whole
    left = total - int(whole @ sizes)
    for k in np.argsort(-part, kind="stable").tolist():
        if part[k] > _WORTH_A_BUCKET and sizes[k] <= left:
            whole[k] += 1
            left -= int(sizes[k])
    if not whole.any():
        whole[np.searchsorted(sizes, min(total, int(sizes[-1])), side="right") - 1] = 1
        left = total - int(whole @ sizes)
    smallest = int(np.flatnonzero(whole)[0])
    whole[smallest] += max(0, left // int(sizes[smallest]))
    return whole


def size_up(total: int, sizes: Integers, buckets: Integers, larger: Floats) -> Sizing:
    """The units that are left make buckets larger: those of which the program says so, else the smallest."""
    more = np.where(buckets > 0, np.floor(larger + _TINY), 0).astype(np.int64)
    left = total - int(buckets @ sizes) - int(more.sum())
    order = np.argsort(more - larger, kind="stable")
    order = order[buckets[order] > 0]
    for k in range(left):
        more[order[k % len(order)]] += 1
    return Sizing(sizes, buckets, more)


def whole_quotas(kinds: Kinds, sizing: Sizing, units: Floats, random: np.random.Generator) -> Integers:
    """Whole numbers of units of each kind for each size that fill the sizes: z, rounded kind by kind.

    What is rounded off at one kind is made up for at the next ones.
    """
    quotas = np.zeros(units.shape, dtype=np.int64)
    owed = np.zeros(units.shape[1])
    wanted = np.where((units > _TINY) & (sizing.buckets > 0), units, 0.0)
    totals = wanted.sum(axis=1)
    for t in random.permutation(len(kinds)).tolist():
        number = int(kinds.numbers[t])
        use = np.flatnonzero(wanted[t])
        if not len(use):
            use = np.flatnonzero((sizing.buckets > 0) & (kinds.least[t] <= sizing.sizes))
            use = use[-1:] if len(use) else np.flatnonzero(sizing.buckets)[-1:]
            share = np.asarray([float(number)])
        else:
            share = wanted[t, use] * (number / totals[t])
        aim = np.maximum(share + owed[use], 0.0)
        aim *= number / max(float(aim.sum()), _TINY)
        given = np.floor(aim).astype(np.int64)
        most = np.argsort(given - aim, kind="stable")[: number - int(given.sum())]
        given[most] += 1
        given[-1] += number - int(given.sum())
        quotas[t, use] = given
        owed[use] += share - given
    _fill(quotas, sizing, kinds, random)
    return quotas


def _fill(quotas: Integers, sizing: Sizing, kinds: Kinds, random: np.random.Generator) -> None:
    """Move units between sizes until these have as many as they hold, preferably kinds that fit there."""
    missing = sizing.room - quotas.sum(axis=0)
    while missing.any():
        source, target = int(np.argmin(missing)), int(np.argmax(missing))
        amount = int(min(-missing[source], missing[target]))
        fit = quotas[:, source] * (kinds.least <= sizing.sizes[target])
        there = fit if fit.any() else quotas[:, source]
        some = np.flatnonzero(there)
        for t in random.permutation(some)[:amount].tolist():
            quotas[t, source] -= 1
            quotas[t, target] += 1
            missing[source] += 1
            missing[target] -= 1
