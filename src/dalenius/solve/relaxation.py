"""The linear relaxation of the multi-size problem: an exact lower bound, and a point to round.

    minimise sum_S (S-1)^2 b(S)   subject to   sum_S S b(S) = n,  b >= 0,  and every PC and Gale inequality (`cuts.py`).

There are exponentially many Gale inequalities and possibly many thousand sizes, so both come as needed: solve, add the
inequalities that the solution violates, then the sizes that the multipliers price below zero, until there are none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalenius.errors import SolverError
from dalenius.solve.caps import Floats, Instance, Integers, smallest_size
from dalenius.solve.certificate import ExactBound, exact_bound, reduced_rates, size_pieces
from dalenius.solve.cuts import violated
from dalenius.solve.highs import LinearAnswer, LinearMaster

_ALL_SIZES = 400  # up to this many sizes are columns from the start
_NEW_SIZES = 64
_ROUNDS = 5_000
_TOLERANCE = 1e-10  # of the records


@dataclass(frozen=True)
class Relaxation:
    """The best fractional setting, an exact bound on the loss, and the linear program for more work."""

    master: LinearMaster
    buckets: Floats
    bound: ExactBound


@dataclass(frozen=True)
class NoSetting:
    """Proof that no valid setting exists between M and M': with cost 0, a bound above 0."""

    proof: ExactBound | None


def relax(instance: Instance) -> Relaxation | NoSetting:
    """Solve the relaxation, or prove that it has no solution."""
    if instance.sizes.size == 0:
        return NoSetting(None)
    master = LinearMaster(instance, _first_columns(instance))
    allowed = 0.0
    for _ in range(_ROUNDS):
        answer = master.solve(allowed)
        if answer is None:
            answer = master.solve_shortfall()
            if _price(instance, master, answer, with_cost=False):
                continue
            proof = exact_bound(instance, master.cuts, answer.multipliers, with_cost=False)
            if proof.bound > 0:
                return NoSetting(proof)
            # Infeasible by rounding alone: let the cuts give way by as little, and let integers decide.
            allowed = max(2 * answer.shortfall, 10 * allowed, 1e-12)
            continue
        if _separate(instance, master, answer) or _price(instance, master, answer, with_cost=True):
            continue
        return Relaxation(master, answer.buckets, exact_bound(instance, master.cuts, answer.multipliers))
    raise SolverError(f"the linear relaxation did not settle in {_ROUNDS} rounds")


def _first_columns(instance: Instance) -> Integers:
    """All sizes if they are few; else those where some limit first allows a record, and a spread of others."""
    sizes = instance.sizes
    if len(sizes) <= _ALL_SIZES:
        return sizes
    first_allowed = {smallest_size(limit) for limit in instance.problem.limits}
    spread = np.geomspace(instance.first_size, instance.last_size, _ALL_SIZES // 4)
    chosen = np.unique(np.concatenate([sorted(first_allowed)[-_ALL_SIZES:], np.rint(spread), [instance.last_size]]))
    return np.asarray(chosen[(chosen >= instance.first_size) & (chosen <= instance.last_size)], dtype=np.int64)


def _separate(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> int:
    """Add the cuts that the answer violates."""
    used = np.flatnonzero(answer.buckets > 0)
    used = used[np.argsort(master.sizes[used])]
    tolerance = _TOLERANCE * instance.total
    found = violated(instance.counts, master.sizes[used], master.caps[:, used], answer.buckets[used], tolerance)
    return master.add_cuts(list(found))


def _price(instance: Instance, master: LinearMaster, answer: LinearAnswer, with_cost: bool) -> bool:
    """Add the sizes that could lower the objective."""
    if len(master.sizes) == len(instance.sizes):
        return False
    own, _ = reduced_rates(instance, master.sizes, master.cuts, answer.multipliers, with_cost)
    level = float(own.min())
    level -= 1e-9 * max(1.0, abs(level))
    rates, sizes = [], []
    for piece in size_pieces(instance):
        rate, _ = reduced_rates(instance, piece, master.cuts, answer.multipliers, with_cost)
        rates.append(rate[rate < level])
        sizes.append(piece[rate < level])
    better = np.concatenate(sizes)[np.argsort(np.concatenate(rates), kind="stable")]
    better = better[~np.isin(better, master.sizes)][:_NEW_SIZES]
    if better.size:
        master.add_sizes(np.sort(better))
    return bool(better.size)
