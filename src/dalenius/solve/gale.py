"""Is a setting of any number of sizes valid? Gale's condition, decided by a maximum flow.

Records flow  source -> value i (o_i) -> size j (u_ij = cap[i, S_j] b_j) -> sink (S_j b_j).  The setting is valid iff
the flow saturates the sink, and an integral flow is the record partition. Gale's theorem says the same without a
flow: for every set J of sizes,

    sum_i min(o_i, sum_{j in J} u_ij)  >=  sum_{j in J} S_j b_j.

The paper's Example 5 shows that PC, FC and CC are not enough for three sizes; this is what is. When the flow falls
short, the minimum cut names a set J that violates the condition.

With fake values all of this is in units of 1/K record (`caps.py`), and the flow of whole records is a second one: the
first, divided by K, shows that it exists wherever the rooms are rounded up, u_ij <= ceil(cap[i, S_j] b_j / K).

The flow is kept as the m x q matrix of quotas, and augmenting paths are sought between the q sizes alone: along
j <- j' all values can move records at once, up to sum_i min(x_ij', u_ij - x_ij). That is exact for any count that
fits in 63 bits.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dalenius.errors import SolverError
from dalenius.model.problem import BucketSetting, Partition, Problem, Violation
from dalenius.solve.caps import Instance, Integers, Mask
from dalenius.solve.forest import Forest
from dalenius.solve.tree_flow import fill_tree


def validate_setting(problem: Problem, setting: BucketSetting) -> Partition | Violation:
    """The record partition of a valid setting, or the constraint that fails and where."""
    instance = Instance(problem)
    sizes = np.asarray([group.size for group in setting.groups], dtype=np.int64)
    buckets = np.asarray([group.buckets for group in setting.groups], dtype=np.int64)
    if setting.records != instance.total:
        return Violation("capacity", setting.records, instance.total, sizes=tuple(sizes.tolist()))
    room = instance.caps(sizes) * buckets
    need = instance.needs(sizes) * buckets
    if instance.forest is not None:
        filled = fill_tree(instance.forest, instance.counts, room, need)
        if filled.blocked is not None:
            return _tree_violation(instance, instance.forest, sizes, buckets, filled.blocked)
        quotas = filled.quotas
    else:
        quotas, cut = fill_sizes(instance.counts, room, need)
        if cut is not None:
            return _violation(instance, room, sizes, buckets, cut)
    if instance.units > 1:
        quotas = whole_quotas(instance, sizes, buckets)
    return Partition(setting, tuple(tuple(row) for row in quotas.tolist()))


def whole_quotas(instance: Instance, sizes: Integers, buckets: Integers) -> Integers:
    """Quotas in whole records for a setting with fakes that is valid in units of 1/K record.

    They exist for the rooms ceil(cap b / K): a flow in units, divided by K, is within these whole numbers. None is
    above c b, with c = c[i, S], since cap <= K c. As far as possible a quota a leaves room for floor(sigma a / S) fakes
    too: a + floor(sigma a / S) = floor(a (S + sigma) / S) <= c b, that is, a <= ((c b + 1) S - 1) // (S + sigma).
    """
    fakes = instance.problem.fake_values
    slots = instance.most_values(sizes) * buckets
    most = -(-instance.caps(sizes) * buckets // instance.units)
    in_proportion = np.minimum(most, slots + 1 + (-(slots + 1) * fakes - 1) // (sizes + fakes))
    if instance.forest is not None:
        return _whole_quotas_of_groups(instance, instance.forest, in_proportion, most, sizes * buckets)
    # Values in their own order: the tightest first would leave them the least room for their fakes.
    start = _greedy(instance.records, in_proportion, sizes * buckets, tightest_first=False)
    quotas, cut = fill_sizes(instance.records, in_proportion, sizes * buckets, start)
    if cut is not None:
        quotas, cut = fill_sizes(instance.records, most, sizes * buckets, quotas)
    if cut is not None:
        raise _no_whole_quotas()
    return quotas


def _whole_quotas_of_groups(
    instance: Instance, forest: Forest, in_proportion: Integers, most: Integers, need: Integers
) -> Integers:
    """The same through the tree of groups."""
    filled = fill_tree(forest, instance.records, in_proportion, need)
    if filled.blocked is not None:
        filled = fill_tree(forest, instance.records, most, need, filled.quotas)
    if filled.blocked is not None:
        raise _no_whole_quotas()
    return filled.quotas


def _no_whole_quotas() -> SolverError:
    return SolverError(
        "records in whole numbers do not fill the sizes, which fractions do",
        "This is probably a bug in Dalenius: please report it.",
    )


def _tree_violation(instance: Instance, forest: Forest, sizes: Integers, buckets: Integers, blocked: Mask) -> Violation:
    """The values on the source's side of the cut, and what the buckets take of them; in records."""
    most = np.minimum(forest.most(blocked, instance.caps(sizes)), instance.needs(sizes))
    return Violation(
        "privacy" if np.count_nonzero(blocked) == 1 else "groups",
        have=int(most @ buckets) // instance.units,
        need=int(instance.records[blocked].sum()),
        values=tuple(np.flatnonzero(blocked).tolist()),
        sizes=tuple(sizes.tolist()),
    )


def _violation(instance: Instance, room: Integers, sizes: Integers, buckets: Integers, cut: Integers) -> Violation:
    """The cut in the words of Theorem 3 where it is one of its constraints, and as a cut otherwise.

    In records: what there is, in units, is rounded down, and stays below what is needed, which is whole.
    """
    counts, units = instance.counts, instance.units
    over = np.flatnonzero(room.sum(axis=1) < counts)
    if over.size:
        i = int(over[0])
        have, need = int(room[i].sum()) // units, int(instance.records[i])
        return Violation("privacy", have, need, values=(i,), sizes=tuple(sizes.tolist()))
    reach = room[:, cut].sum(axis=1)
    return Violation(
        "fill" if len(cut) == 1 else "cut",
        have=int(np.minimum(reach, counts).sum()) // units,
        need=int((sizes * buckets)[cut].sum()),
        values=tuple(np.flatnonzero(reach >= counts).tolist()),
        sizes=tuple(sizes[cut].tolist()),
    )


def fill_sizes(
    counts: Integers, room: Integers, need: Integers, start: Integers | None = None
) -> tuple[Integers, Integers | None]:
    """A maximum flow: (quotas, None) if it fills every size, else (quotas, the violated set J of columns).

    It is augmented from `start`, a flow that fits, or from a good guess.
    """
    quotas = _greedy(counts, room, need) if start is None else start
    left = counts - quotas.sum(axis=1)
    short = need - quotas.sum(axis=0)
    while True:
        paths, reached = _augmenting_paths(quotas, room, left, short)
        if not paths:
            return quotas, (np.flatnonzero(reached) if short.any() else None)
        for path in paths:
            _augment(quotas, room, left, short, path)


def _greedy(counts: Integers, room: Integers, need: Integers, *, tightest_first: bool = True) -> Integers:
    """A good start: fill small sizes first, each value giving what the later sizes could not take anyway.

    What is still missing comes from values in their order, or from those first that leave the later sizes least room
    to spare: then there is hardly anything left to augment.
    """
    quotas = np.zeros_like(room)
    left = counts.copy()
    later = room.sum(axis=1)
    for j in range(room.shape[1]):
        later = later - room[:, j]
        most = np.minimum(room[:, j], left)
        spare = later - left
        take = np.minimum(np.maximum(-spare, 0), most)  # what it must take
        missing = int(need[j]) - int(take.sum())
        if missing < 0:
            take, missing = np.zeros_like(take), int(need[j])
        order = np.argsort(spare, kind="stable") if tightest_first else slice(None)
        take[order] += _first((most - take)[order], missing)
        quotas[:, j] = take
        left = left - take
    return quotas


def _augmenting_paths(
    quotas: Integers, room: Integers, left: Integers, short: Integers
) -> tuple[list[list[int]], np.typing.NDArray[np.bool_]]:
    """Shortest paths of sizes, each from one that is short to one that an unplaced record can enter.

    Returns the paths, the first of which can carry records, and, if there are none, the sizes reached: the set J that
    violates Gale's condition. Sizes are reached level by level, through values that have room in one size and records
    in another; every value counts once.
    """
    parent = np.full(len(short), -1)
    reached = short > 0
    level = np.flatnonzero(reached)
    unseen = np.arange(len(left))
    while level.size:
        enters = quotas[unseen[:, None], level] < room[unseen[:, None], level]
        entered = enters.any(axis=1)
        if not entered.any():
            break
        values, sizes = unseen[entered], level[enters[entered].argmax(axis=1)]
        ends = dict.fromkeys(sizes[left[values] > 0].tolist())
        if ends:
            return [_back(parent, end) for end in ends], reached
        gives = quotas[values] > 0
        donors = np.flatnonzero(gives.any(axis=0) & ~reached)
        parent[donors] = sizes[gives[:, donors].argmax(axis=0)]
        reached[donors] = True
        level, unseen = donors, unseen[~entered]
    return [], reached


def _back(parent: Integers, last: int) -> list[int]:
    """The path that ends here."""
    path = [last]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path[::-1]


def _augment(quotas: Integers, room: Integers, left: Integers, short: Integers, path: list[int]) -> None:
    """Move as many records as the path carries: each size takes from the next, the last one takes unplaced records."""
    movable = [np.minimum(quotas[:, donor], room[:, j] - quotas[:, j]) for j, donor in pairwise(path)]
    entering = np.minimum(left, room[:, path[-1]] - quotas[:, path[-1]])
    amount = min(int(short[path[0]]), int(entering.sum()), *(int(moves.sum()) for moves in movable))
    if not amount:  # another path was there first
        return
    short[path[0]] -= amount
    for (j, donor), moves in zip(pairwise(path), movable, strict=True):
        share = _first(moves, amount)
        quotas[:, j] += share
        quotas[:, donor] -= share
    share = _first(entering, amount)
    quotas[:, path[-1]] += share
    left -= share


def _first(available: Integers, amount: int) -> Integers:
    """Take `amount` in all from the front of `available`."""
    left = amount - (np.cumsum(available) - available)
    return np.asarray(np.minimum(np.maximum(left, 0), available))  # several times as fast as `clip`
