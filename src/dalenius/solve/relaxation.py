"""The linear relaxation of the multi-size problem: an exact lower bound, and a point to round.

    minimise sum_S (S-1)^2 b(S)   subject to   sum_S S b(S) = n,  b >= 0,  and every PC and Gale inequality (`cuts.py`).

There are exponentially many Gale inequalities and possibly many thousand sizes, so both come as needed: solve, add the
inequalities that the solution violates, then the sizes that the multipliers price below zero, until there are none.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from dalenius.solve.caps import Floats, Instance, Integers, smallest_size
from dalenius.solve.certificate import (
    Costs,
    ExactBound,
    exact_bound,
    loss_costs,
    no_costs,
    reduced_rates,
    single_cost,
    size_pieces,
)
from dalenius.solve.cuts import privacy_cut, violated_cuts
from dalenius.solve.highs import LinearAnswer, LinearMaster, LinearTrouble
from dalenius.solve.rows import LossRow, Row
from dalenius.solve.set_cuts import set_cut

_ALL_SIZES = 400  # up to this many sizes are columns from the start
_NEW_SIZES = 64
_TOLERANCE = 1e-10  # of the records
_SINGLE_PROOFS = 8  # values that are tried, each of which takes a look at all sizes


@dataclass(frozen=True)
class Relaxation:
    """The best fractional setting, an exact bound on the loss, and the linear program for more work.

    It is not `complete` if the deadline came first: there may be a better bound.
    """

    master: LinearMaster
    buckets: Floats
    bound: ExactBound
    complete: bool = True


@dataclass(frozen=True)
class NoSetting:
    """No valid setting exists between M and M'. The proof is a bound above 0 with cost 0; None for an empty range."""

    proof: ExactBound | None


def relax(instance: Instance, deadline: float = math.inf) -> Relaxation | NoSetting:
    """Solve the relaxation, or prove that it has no solution.

    At the deadline (of `time.monotonic`), or if the linear program gets into numerical trouble, the multipliers at hand
    are used: their bound is weaker, and as exact.
    """
    if instance.sizes.size == 0:
        return NoSetting(None)
    proof = _single_value_proof(instance)
    if proof is not None:
        return NoSetting(proof)
    master = LinearMaster(instance, _first_columns(instance))
    last = _empty_answer(master)
    allowed = 0.0
    while time.monotonic() < deadline:
        try:
            answer = master.solve(allowed)
            if answer is not None:
                last = answer
                if _separate(instance, master, answer) or _price(instance, master, answer, loss_costs, deadline):
                    continue
                break
            answer = master.solve_shortfall()
        except LinearTrouble:
            break
        if _price(instance, master, answer, no_costs, deadline):
            continue
        proof = exact_bound(instance, master.rows, answer.multipliers, no_costs)
        if proof.bound > 0:
            return NoSetting(proof)
        # Infeasible by rounding alone: let the cuts give way by as little, and let integers decide.
        allowed = max(2 * answer.shortfall, 10 * allowed, 1e-12)
        if allowed > _TOLERANCE:
            break
    return _relaxation(instance, master, last, complete=time.monotonic() < deadline)


def _single_value_proof(instance: Instance) -> ExactBound | None:
    """A value, or group, that no mix of these sizes can hold: max_S cap[i, S] / S < K o_i / n. Its PC is the proof.

    Linear programs may miss it, because the difference can be far below their tolerance.
    """
    last, forest = instance.last_size, instance.forest
    room = instance.caps(np.asarray([last]))[:, 0].tolist()
    counts = instance.demands if forest is None else forest.sums(instance.counts)[:-1]
    tight = [i for i, count in enumerate(counts.tolist()) if room[i] * instance.total < count * last]
    for i in tight[:_SINGLE_PROOFS]:
        row: Row = privacy_cut(instance, i) if forest is None else set_cut(instance, forest, forest.under(i))
        proof = exact_bound(instance, [row], np.ones(1), no_costs)
        if proof.bound > 0:
            return proof
    return None


def _empty_answer(master: LinearMaster) -> LinearAnswer:
    return LinearAnswer(np.zeros(len(master.sizes)), np.zeros(len(master.rows)), 0.0)


def _relaxation(instance: Instance, master: LinearMaster, answer: LinearAnswer, *, complete: bool) -> Relaxation:
    """Rows and columns added after the answer count for nothing in it."""
    buckets = np.zeros(len(master.sizes))
    buckets[: len(answer.buckets)] = answer.buckets
    rows = master.rows[: len(answer.multipliers)]
    return Relaxation(
        master=master, buckets=buckets, bound=exact_bound(instance, rows, answer.multipliers), complete=complete
    )


def _first_columns(instance: Instance) -> Integers:
    """All sizes if they are few; else those where some limit first allows a record, and a spread of others."""
    sizes = instance.sizes
    if len(sizes) <= _ALL_SIZES:
        return sizes
    known = instance.problem.known_records
    first_allowed = {smallest_size(limit, known) for limit in instance.problem.tightest}
    spread = np.geomspace(instance.first_size, instance.last_size, _ALL_SIZES // 4)
    columns = np.unique(np.concatenate([sorted(first_allowed)[-_ALL_SIZES:], np.rint(spread), [instance.last_size]]))
    return np.asarray(columns[(columns >= instance.first_size) & (columns <= instance.last_size)], dtype=np.int64)


def _separate(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> int:
    """Add the cuts that the answer violates."""
    used = np.flatnonzero(answer.buckets > 0)
    used = used[np.argsort(master.sizes[used])]
    tolerance = _TOLERANCE * instance.total * instance.units
    cuts = violated_cuts(instance, master.sizes[used], master.caps[:, used], answer.buckets[used], tolerance)
    return master.add_cuts(list(cuts))


def _price(
    instance: Instance, master: LinearMaster, answer: LinearAnswer, costs: Costs, deadline: float = math.inf
) -> bool:
    """Add the sizes that could lower the objective."""
    if len(master.sizes) == len(instance.sizes):
        return False
    own, _ = reduced_rates(instance, np.sort(master.sizes), master.rows, answer.multipliers, costs)
    level = float(own.min())
    level -= 1e-9 * max(1.0, abs(level))
    rates, sizes = [], []
    for piece in size_pieces(instance):
        rate, _ = reduced_rates(instance, piece, master.rows, answer.multipliers, costs)
        rates.append(rate[rate < level])
        sizes.append(piece[rate < level])
        if time.monotonic() >= deadline:
            break
    better = np.concatenate(sizes)[np.argsort(np.concatenate(rates), kind="stable")]
    better = better[~np.isin(better, master.sizes)][:_NEW_SIZES]
    if better.size:
        master.add_sizes(np.sort(better))
    return bool(better.size)


def bucket_range(relaxed: Relaxation, loss: int, size: int, only: Integers) -> tuple[int, int]:
    """The fewest and the most buckets of this size in any setting of at most this loss, proven exactly.

    `only` (ascending) are the sizes that such a setting can use.
    """
    instance, master = relaxed.master.instance, relaxed.master
    master.add_cuts([LossRow(loss)])
    ends = []
    for sign in (1, -1):
        try:
            answer = master.solve_for(size, sign)
        except LinearTrouble:
            return 0, instance.total // size
        if answer is None:  # perhaps by rounding: nothing is concluded from it
            return 0, instance.total // size
        proof = exact_bound(instance, master.rows, answer.multipliers, single_cost(size, sign), only)
        ends.append(math.ceil(proof.bound) * sign)
    return max(0, ends[0]), min(instance.total // size, ends[1])
