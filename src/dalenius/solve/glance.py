"""A good setting in a fraction of a second, however many sizes and values there are; for sliders, not for releases.

1. Where sizes and values are few, the exact method itself, as far as it gets at once (`optimal.begin_search`).
2. Else a few of the sizes: some evenly spread on a logarithmic scale, some where limits first allow a record (the sizes
   that the loss of rare values hangs on), and those that the caller knows to be good. The relaxation over these alone
   (`relaxation.py`), with the cuts that mattered for similar limits before as a start.
3. Integers near that (`nearby.py`): quick roundings, or whole numbers of buckets, of which one group takes the records
   that are left over; if need be near a relaxation that leaves a little more room, so that rounding does not matter. If
   there are none, those of a short search; and if nothing else will do, buckets of one size.

A setting is valid, checked on integers. There is a bound if every size was looked at: else more sizes could always do
better. In experiments with up to 1,000 values the loss was mostly within 1 % of the optimum, and always within 7 %.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.caps import Instance, Integers, smallest_size
from dalenius.solve.certificate import ExactBound, dense_bound, exact_bound, loss_costs, no_costs
from dalenius.solve.contraction import contract
from dalenius.solve.cuts import Cut, violated_cuts
from dalenius.solve.gale import validate_setting
from dalenius.solve.highs import LinearAnswer, LinearMaster, LinearTrouble
from dalenius.solve.nearby import Neighbourhood, round_nearby, search_box
from dalenius.solve.optimal import begin_search
from dalenius.solve.rows import Row

_FEW_CELLS = 8_000  # sizes x values, up to which the exact method is tried
_FEW_VALUES, _SOME_SIZES = 64, 800  # and up to which, where the values are few
_PATIENCE = 0.6  # of the time for that
_EVERY_SIZE = 64  # up to which no size is left out
_SPREAD = 24  # sizes, evenly spread
_AT_LIMITS = 24  # sizes at which limits first allow a record
_KNOWN = 64  # sizes that the caller knows to be good
_CUTS = 200  # that mattered before
_TOLERANCE = 0.25  # of a record: smaller violations are left to the rounding
_ROOM = (0.0, 0.5, 1.0, 2.0)  # records of every value, for which there is to be room
_GOOD = 1.01  # times the relaxation's loss
_A_SEARCH = 0.03  # seconds, at least
_GROUPS = 3  # that are tried for taking what is left over
_PLAIN_SIZES = 8
_RADIUS = 4
_GRACE = 1.0  # seconds that the relaxation, which everything else rests on, may take beyond the deadline
_ABOVE = 1.02  # times the relaxation's loss is good enough for a search


@dataclass(frozen=True)
class Memory:
    """Cuts that mattered before, which hold for the same counts under any limits, and sizes to look at besides.

    Limits of groups decide which values are one to the solvers, so problems that have them neither use cuts nor leave
    any.
    """

    cuts: tuple[Cut, ...] = ()
    units: int = 1
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Glance:
    """A valid setting with its quotas, or None if none was found; `finished` if the exact method would answer the same.

    `empty` says that there seems to be no setting, so that larger sizes are worth a try. It is a proof if `finished`.
    """

    partition: Partition | None
    bound: int | None
    finished: bool
    memory: Memory
    empty: bool = False


def glance(problem: Problem, gap: float, deadline: float, memory: Memory | None = None) -> Glance:
    """The best setting found by the deadline (of `time.monotonic`), or a moment later."""
    contraction = contract(problem)
    if contraction is None:
        return _glance(problem, gap, deadline, memory)
    found = _glance(contraction.problem, gap, deadline, memory)
    if found.partition is None:
        return found
    return replace(found, partition=contraction.expand_partition(found.partition))


def _glance(problem: Problem, gap: float, deadline: float, memory: Memory | None) -> Glance:
    instance, memory = Instance(problem), memory or Memory()
    if len(instance.sizes) == 0:
        return Glance(None, None, finished=True, memory=memory, empty=True)
    if _is_small(instance):
        now = time.monotonic()
        optimum, finished = begin_search(problem, gap, now + _PATIENCE * (deadline - now))
        if finished or optimum.setting is not None:
            partition = None if optimum.setting is None else partition_of(instance, optimum.setting)
            return Glance(partition, optimum.bound, finished=finished, memory=memory, empty=partition is None)
    return _on_few_sizes(instance, memory, deadline)


def _is_small(instance: Instance) -> bool:
    sizes, values = len(instance.sizes), len(instance.counts)
    return sizes * values <= _FEW_CELLS or (sizes <= _SOME_SIZES and values <= _FEW_VALUES)


def _on_few_sizes(instance: Instance, memory: Memory, deadline: float) -> Glance:
    master = LinearMaster(instance, _choose_sizes(instance, memory.sizes))
    if memory.units == instance.units and instance.forest is None:
        master.add_cuts(memory.cuts)
    try:
        answer = _relax(instance, master, deadline + _GRACE)
    except LinearTrouble:
        answer = None
    everything = len(master.sizes) == len(instance.sizes)
    if answer is None:
        proven = everything and _impossible(instance, master)
        return Glance(None, None, finished=proven, memory=memory, empty=True)
    useful = Memory(_useful_cuts(master, answer), instance.units) if instance.forest is None else memory
    partition = (
        _round_with_room(instance, master, answer)
        or _search(instance, master, answer, max(deadline, time.monotonic() + _A_SEARCH))
        or _one_size(instance)
    )
    bound = None
    if everything:
        bound = max(0, math.ceil(_bound(instance, master, answer).bound))
    return Glance(partition, bound, finished=False, memory=useful)


def _choose_sizes(instance: Instance, also: Sequence[int]) -> Integers:
    """The few sizes, ascending."""
    if len(instance.sizes) <= _EVERY_SIZE:
        return instance.sizes
    first, last, known = instance.first_size, instance.last_size, instance.problem.known_records
    needed = np.sort([smallest_size(limit, known) for limit in instance.problem.tightest])
    needed = needed[needed <= last].astype(np.int64)
    weights = np.cumsum(needed.astype(float))
    places = np.searchsorted(weights, weights[-1:] * (np.arange(_AT_LIMITS) + 1) / _AT_LIMITS * (1 - 1e-12))
    spread = np.rint(np.geomspace(first, last, _SPREAD)).astype(np.int64)
    besides = np.asarray(also[:_KNOWN], dtype=np.int64)
    sizes = np.unique(np.concatenate([spread, needed[places] if len(needed) else needed, besides, [last]]))
    return np.asarray(sizes[(sizes >= first) & (sizes <= last)])


def _relax(instance: Instance, master: LinearMaster, deadline: float) -> LinearAnswer | None:
    """The best fractional setting of the sizes at hand, violated cuts added until there are none; None if none is."""
    answer = master.solve()
    while answer is not None and time.monotonic() < deadline:
        used = np.flatnonzero(answer.buckets > 0)
        used = used[np.argsort(master.sizes[used])]
        sizes, caps = master.sizes[used], master.caps[:, used]
        if not master.add_cuts(
            list(violated_cuts(instance, sizes, caps, answer.buckets[used], _TOLERANCE * instance.units))
        ):
            break
        answer = master.solve()
    return answer


def _impossible(instance: Instance, master: LinearMaster) -> bool:
    """Whether the cuts prove that no sizes at all, all of which are there, have a setting."""
    try:
        answer = master.solve_shortfall()
    except LinearTrouble:
        return False
    return exact_bound(instance, master.rows, answer.multipliers, no_costs).bound > 0


def _useful_cuts(master: LinearMaster, answer: LinearAnswer) -> tuple[Cut, ...]:
    """The cuts that the answer rests on."""
    rows: Iterable[Row] = (master.rows[k] for k in np.flatnonzero(answer.multipliers > 0)[:_CUTS])
    return tuple(row for row in rows if isinstance(row, Cut))


def _bound(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> ExactBound:
    """The bound that the multipliers prove, where every size is a column."""
    rows = master.rows[: len(answer.multipliers)]
    matrix = master.matrix(np.arange(len(master.sizes)))[: len(rows)]
    return dense_bound(instance, master.sizes, matrix, rows, answer.multipliers)


def _round_with_room(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> Partition | None:
    """Integers near the relaxation; where these lose much more, or are not there, near one that leaves more room."""
    good = _GOOD * float((master.sizes - 1.0) ** 2 @ answer.buckets)
    best: Partition | None = None
    for records in _ROOM:
        with suppress(LinearTrouble):
            around = master.solve_with_room(records) if records else answer
            for find in (_round, _round_evenly):
                partition = None if around is None else find(instance, master, around)
                if partition is not None and (best is None or partition.setting.loss < best.setting.loss):
                    best = partition
                if best is not None and best.setting.loss <= good:
                    return best
    return best


def _round(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> Partition | None:
    """The best quick rounding that is valid."""
    used = np.flatnonzero(answer.buckets > 1e-9)
    used = used[np.argsort(master.sizes[used])]
    sizes, rights = master.sizes[used], np.asarray([row.right for row in master.rows], dtype=np.int64)
    for point in round_nearby(instance, master.matrix(used), rights, sizes, answer.buckets[used]):
        partition = partition_of(instance, BucketSetting.of(zip(sizes.tolist(), point, strict=True)))
        if partition is not None:
            return partition
    return None


def _round_evenly(instance: Instance, master: LinearMaster, answer: LinearAnswer) -> Partition | None:
    """Buckets in whole numbers, one group of which makes up for the records that are too many or too few.

    Its buckets are then of two sizes that differ by 1. Numbers of the others are rounded down, or up.
    """
    used = np.flatnonzero(answer.buckets > 1e-6)
    used = used[np.argsort(-answer.buckets[used] * master.sizes[used], kind="stable")]
    sizes, fractions = master.sizes[used].tolist(), answer.buckets[used]
    for rounding in (np.floor(fractions + 1e-6), np.ceil(fractions - 1e-6)):
        for j in range(min(_GROUPS, len(sizes))):
            others = [(sizes[k], int(number)) for k, number in enumerate(rounding) if k != j]
            own = instance.total - sum(size * number for size, number in others)
            buckets = max(1, own // sizes[j])
            size, larger = divmod(own, buckets)
            if size < instance.first_size or size + (larger > 0) > instance.last_size:
                continue
            setting = BucketSetting.of([*others, (size, buckets - larger), (size + 1, larger)])
            partition = partition_of(instance, setting)
            if partition is not None:
                return partition
    return None


def _one_size(instance: Instance) -> Partition | None:
    """Buckets of one size, and of one more record where that does not divide the table; the smallest that will do."""
    known, total = instance.problem.known_records, instance.total
    holding = max(smallest_size(limit, known) for limit in instance.problem.tightest)
    least = min(max(instance.first_size, holding), instance.last_size)
    for size in np.unique(np.rint(np.geomspace(least, instance.last_size, _PLAIN_SIZES))).astype(int).tolist():
        buckets = total // size
        own, larger = divmod(total, buckets)
        setting = BucketSetting.of([(own, buckets - larger), (own + 1, larger)])
        partition = partition_of(instance, setting) if setting.groups[-1].size <= instance.last_size else None
        if partition is not None:
            return partition
    return None


def partition_of(instance: Instance, setting: BucketSetting) -> Partition | None:
    """The quotas of a setting; None if it is not valid. Cuts that are quick to check come before the flow."""
    groups = np.asarray([(group.size, group.buckets) for group in setting.groups], dtype=np.int64)
    sizes, buckets = groups[:, 0], groups[:, 1]
    if setting.records != instance.total or next(
        violated_cuts(instance, sizes, instance.caps(sizes), buckets, 0), None
    ):
        return None
    verdict = validate_setting(instance.problem, setting)
    return verdict if isinstance(verdict, Partition) else None


def _search(instance: Instance, master: LinearMaster, answer: LinearAnswer, deadline: float) -> Partition | None:
    """The first valid integers within a small box around the fractional setting."""
    near = Neighbourhood.of(master.sizes, answer.buckets, _RADIUS, instance.total)
    target = _ABOVE * float(np.asarray(loss_costs(master.sizes), dtype=float) @ answer.buckets)
    _, setting = search_box(master, near, deadline, target)
    return None if setting is None else partition_of(instance, setting)
