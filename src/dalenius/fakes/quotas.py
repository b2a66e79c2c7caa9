"""Which fake values go to which size: in proportion to the records, in whole numbers, within every limit.

A size group of b buckets of size S with a_i records of value i gets sigma b fakes, phi_i of value i:

    sum_i phi_i = sigma b,        a_i + phi_i <= c[i, S] b        (hard; `caps.py` has c),

and phi_i is t_i = sigma a_i / S rounded up or down wherever that is possible. The hard part always is for a setting
that is valid: a_i <= c[i, S] b, and the rooms add up to (sum_i c[i, S] - S) b >= sigma b.

Which values are rounded up is random: somebody who knows how often each value occurs in the table learns phi_i from ST,
added up over the groups, and nothing about which of its slots are fake. The one thing that would tell is a total of 0:
then no slot with that value is fake. So values with fewer than S / sigma records in the group, for which t_i < 1, are
lifted towards one fake, at the cost of the values with most records. None of these gives more than half of its share,
or its last fake; if that is not enough for everyone, all are lifted by the same part of the way.

A plan has the quotas of records alone, and is the same whenever it is made again. The fakes belong to one release:
`draw_partition` orders the values as they are dealt, and `draw_fakes` draws the fakes.

**Marks.** Not all phi_i can be marked (`can_be_marked`). A group of b buckets is dealt a'_i = a_i + phi_i slots of
value i, one value after the other: position p goes to bucket p mod b (`place/slots.py`). Marks are sigma slots in every
bucket, phi_i of them of value i. Whether there are such marks depends on which buckets have which values, and for few
buckets and many values there may be none. It is a transportation problem between values and kinds of buckets: buckets
are of one kind from one end of a value (modulo b) to the next, so there are at most m + 1 kinds. With n_k buckets of
kind k that hold v_ki slots of value i, marks exist iff a flow value i (phi_i) -> kind k (n_k v_ki) -> sink (sigma n_k)
fills every kind: spread evenly over the n_k buckets it is a fractional marking, and where there is a fractional one
there is an integral one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dalenius.errors import SelfCheckError, SolverError, UndecidedError
from dalenius.fakes.rooms import RandomBits, Rooms, portion
from dalenius.model.plan import Plan
from dalenius.model.problem import Partition, Problem, SizeGroup
from dalenius.solve.caps import Instance, Integers, Mask
from dalenius.solve.forest import Forest
from dalenius.solve.gale import fill_sizes

_MOST_CELLS = 4_000_000  # values x kinds
_FRACTION_BITS = 20  # shares are multiples of 2^-20 fakes
_DRAWS = 24
_SPREADS = 64


def draw_partition(plan: Plan, values: Sequence[str], rng: RandomBits) -> Partition:
    """The plan's quotas with the values in this order, the one in which they are dealt, and fakes drawn for it.

    Whether fakes can be marked depends on the order: it comes first.
    """
    problem, partition = plan.problem, plan.solution.partition
    if partition is None:
        raise SelfCheckError("a plan without a partition")
    place = {value: place for place, value in enumerate(problem.values)}
    order = [place[value] for value in values]
    return draw_fakes(problem.take(order), Partition(partition.setting, tuple(partition.quotas[i] for i in order)), rng)


def draw_fakes(problem: Problem, partition: Partition, rng: RandomBits | None = None) -> Partition:
    """The partition with `problem.fake_values` fake values for every bucket; as it is, where there are none.

    Without `rng` the operating system's generator is used.
    """
    if not problem.fake_values:
        return partition
    rng = secrets.SystemRandom() if rng is None else rng
    groups = partition.setting.groups
    sizes = np.asarray([group.size for group in groups], dtype=np.int64)
    instance = Instance(problem)
    slots = instance.most_values(sizes) * np.asarray([group.buckets for group in groups], dtype=np.int64)
    quotas = np.asarray(partition.quotas, dtype=np.int64)
    columns = [
        _markable_fakes(quotas[:, j], slots[:, j], group, problem.fake_values, rng, instance.forest)
        for j, group in enumerate(groups)
    ]
    fakes = np.stack(columns, axis=1).tolist()
    return replace(partition, fakes=tuple(tuple(row) for row in fakes))


def price_notes(plan: Plan) -> tuple[str, ...]:
    """The cost of known records and fake values, as a note for the publisher; none if it is not known."""
    loss, without = plan.solution.loss, plan.unprotected.loss if plan.unprotected is not None else None
    if loss is None or without is None:
        return ()
    times = f", {loss / without:.2f} times" if without else ""
    return (f"the price of protection: a loss of {loss:,} instead of {without:,}{times}",)


def unprotected_notes(parts: Sequence[Partition]) -> tuple[str, ...]:
    """A note on the records that fakes do not help.

    Quotas can be worked out from the counts, and so can the sizes without a fake of a value.
    """
    number = sum(
        records
        for part in parts
        for quotas, fakes in zip(part.quotas, part.fakes, strict=True)
        for records, fake in zip(quotas, fakes, strict=True)
        if not fake
    )
    if not number:
        return ()
    return (f"fakes do not help {number:,} records: there is no fake of their value in buckets of their size",)


def can_be_marked(slots: Integers, fakes: Integers, buckets: int, fake_values: int) -> bool:
    """Whether some choice of `fake_values` slots in each bucket has these fakes of each value.

    Groups with far more values than can be looked at are taken to be markable.
    """
    present = np.flatnonzero(slots)
    slots, fakes = slots[present], fakes[present]
    ends = np.cumsum(slots)
    firsts = np.unique(np.concatenate(([0], ends % buckets)))
    if len(firsts) * len(slots) > _MOST_CELLS:
        return True
    number = np.diff(firsts, append=buckets)
    held = _up_to(ends, firsts, buckets) - _up_to(ends - slots, firsts, buckets)
    _, cut = fill_sizes(fakes, held * number, fake_values * number)
    return cut is None


def fakes_of_a_group(
    records: Integers,
    slots: Integers,
    size: int,
    buckets: int,
    fake_values: int,
    rng: RandomBits,
    *,
    lift: bool = True,
    shuffled: bool = True,
    forest: Forest | None = None,
) -> Integers:
    """phi_i for one size group; `slots` are c[i, S] b, with groups of values (`forest`) those of groups behind them.

    First every value's expected number of fakes, in fixed point, which keeps the sum and the rooms; then whole numbers
    by systematic sampling: with the expectations laid end to end in random order, and a grid of distance 1 at a random
    place, value i gets the grid points in its piece. That is its expectation rounded up or down, the sum is exact, and
    the probability of rounding up is the fractional part. The values of a group are laid as neighbours, so that its sum
    is one rounded up or down as well.
    """
    total = fake_values * buckets
    tree = Rooms(forest, np.minimum(slots - (records if forest is None else forest.sums(records)[:-1]), total))
    room = tree.of_values
    if (tree.rooms < 0).any() or tree.all_together() < total:
        raise SolverError(
            f"{total} fake values do not fit into {buckets} buckets of {size}",
            "This is probably a bug in Dalenius: please report it.",
        )
    bits = max(0, min(_FRACTION_BITS, 61 - (len(records) * (total + 1)).bit_length()))
    one = 1 << bits
    share = _proportional(records, size, fake_values, one)
    share = _lift_rare(share, (records > 0) & (room > 0), one) if lift else share
    expected = _fit_shares(share, records, tree.times(one), total * one, one)
    order = tree.random_order(rng) if shuffled else np.arange(len(records))
    ends = np.cumsum(expected[order]) + rng.getrandbits(bits) if bits else np.cumsum(expected[order])
    reached = ends // one
    whole = np.empty_like(expected)
    whole[order] = np.diff(reached, prepend=0)
    return whole


def _up_to(positions: Integers, firsts: Integers, buckets: int) -> Integers:
    """For each end and each bucket: how many positions before the end are in the bucket."""
    return np.asarray(-((firsts[None, :] - positions[:, None]) // buckets))


def _markable_fakes(
    records: Integers,
    slots: Integers,
    group: SizeGroup,
    fake_values: int,
    rng: RandomBits,
    forest: Forest | None = None,
) -> Integers:
    """phi_i that can be marked (`can_be_marked`): drawn again while they cannot.

    With few buckets and many values it may take some draws; the buckets of rare values are then the same few. If none
    of `_DRAWS` will do, rare values are not lifted; and then those that are rounded up are not chosen at random but
    spread evenly over the values as they are dealt, from a random start on, which spreads them over the buckets.
    """
    for draw in range(4 * _DRAWS):
        lift, shuffled = draw // _DRAWS % 2 == 0, draw < 2 * _DRAWS
        fakes = fakes_of_a_group(
            records, slots, group.size, group.buckets, fake_values, rng, lift=lift, shuffled=shuffled, forest=forest
        )
        if can_be_marked(records + fakes, fakes, group.buckets, fake_values):
            return fakes
    raise UndecidedError(
        f"no place was found for fake values in {group.buckets:,} buckets of size {group.size}, in {4 * _DRAWS} draws",
        f"Group the rarest sensitive values; or give another --fakes than {fake_values}, or a larger --min-size.",
    )


def _proportional(records: Integers, size: int, fake_values: int, one: int) -> Integers:
    """sigma a_i / S in fixed point, the parts lost to rounding down given to as many values that lost some."""
    share, lost = _divide(records, fake_values * one, size)
    missing = int(lost.sum()) // size
    share[np.flatnonzero(lost)[:missing]] += 1
    return share


def _divide(records: Integers, factor: int, size: int) -> tuple[Integers, Integers]:
    """records * factor divided by size, with remainders; in two steps, so that the product does not overflow."""
    whole, rest = np.divmod(records, size)
    if size * factor < 2**62:
        quotient, remainder = np.divmod(rest * factor, size)
        return whole * factor + quotient, remainder
    pairs = [divmod(int(r) * factor, size) for r in rest]
    quotient = np.asarray([pair[0] for pair in pairs], dtype=np.int64)
    return whole * factor + quotient, np.asarray([pair[1] for pair in pairs], dtype=np.int64)


def _lift_rare(share: Integers, possible: Mask, one: int) -> Integers:
    """Values below one fake, if they can have one, lifted towards it, at the cost of those that have more than one."""
    rare = possible & (share < one)
    missing = np.where(rare, one - share, 0)
    spare = np.where(share > one, np.minimum(share - one, share // 2), 0)
    amount = min(int(missing.sum()), int(spare.sum()))
    return share + portion(missing, amount) - portion(spare, amount)


def _fit_shares(share: Integers, records: Integers, tree: Rooms, total: int, one: int) -> Integers:
    """Shares that fit. What is over goes where it only rounds up, then in proportion, then to any value with room."""
    room = tree.of_values
    fitting = tree.within(np.minimum(share, room))
    present = records > 0
    free = np.maximum(np.minimum(np.where(present, -(-share // one) * one, 0), room) - fitting, 0)
    fitting = fitting + tree.portion(fitting, free, total - int(fitting.sum()))
    fitting = _spread_in_proportion(fitting, share, tree, total)
    for most in (np.where(present, room, 0), room):
        free = np.maximum(most - fitting, 0)
        fitting = fitting + tree.portion(fitting, free, total - int(fitting.sum()))
    return fitting


def _spread_in_proportion(fitting: Integers, share: Integers, tree: Rooms, total: int) -> Integers:
    """Give what is missing from the total to values with room, in proportion to their shares, round by round."""
    for _ in range(_SPREADS):
        missing = total - int(fitting.sum())
        left = tree.left(fitting)
        weights = np.where(left > 0, share, 0).astype(float)
        if missing <= 0 or not weights.any():
            break
        added = np.minimum(left, np.floor(weights * (missing / weights.sum())).astype(np.int64))
        added = tree.portion(fitting, added, int(added.sum()))
        if not added.any():
            break
        fitting = fitting + added
    return fitting
