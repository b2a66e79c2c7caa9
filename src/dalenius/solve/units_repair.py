"""Buckets that change their sizes: repairs of what exchanges leave broken, and small improvements.

`repair` moves single units out of buckets that break caps, or into them where a larger bucket may hold more, as cheaply
as it can. What is still broken is merged with other buckets: caps do not fall with sizes, and cap(P + P') >= cap(P) +
cap(P') without known units, so that merging two valid buckets is valid, and in the end one bucket of everybody is.

`improve` moves units from larger to smaller buckets while all caps hold, which lowers the loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers, Mask
from dalenius.solve.unit_block import Block
from dalenius.solve.units_exchange import exchange

Prices = npt.NDArray[np.number]

_CELLS = 6_000_000  # of moves and items, looked at at once
_OFFERS = 64  # for a unit that moves
_MOST_UNITS = 400  # that are looked at in one round
_ROUNDS = 40  # of moves without progress
_PARTNERS = 256  # for a merger
_MANY = 200  # buckets that are broken: so many are merged at once, each with the best of a few
_FEW_PARTNERS = 16


def repair(
    block: Block, smallest: int, largest: int, random: np.random.Generator, deadline: float, each: Callable[[], None]
) -> None:
    """Make every bucket valid, with sizes between `smallest` and `largest` as far as possible."""
    bad, waited = block.broken(), 0
    least = int(block.excess(bad).sum())
    while bad.size and waited < _ROUNDS and time.monotonic() < deadline:
        each()
        _move_some(block, bad, smallest, largest, random)
        block.arrange()
        bad = block.broken()
        left = int(block.excess(bad).sum())
        waited = 0 if left < least else waited + 1
        least = min(least, left)
        if waited and waited % 10 == 0:
            exchange(block, random, deadline, each, patience=10)
            bad = block.broken()
    while bad.size:
        each()
        touched = _merge_many(block, bad, largest, random) if len(bad) > _MANY else np.empty(0, dtype=np.int64)
        if not touched.size:
            bucket = int(random.choice(bad))
            touched = np.unique([bucket, _merge(block, bucket, largest, random)])
        bad = np.union1d(np.setdiff1d(bad, touched, assume_unique=True), block.broken(touched))
    block.arrange()


def improve(
    block: Block, smallest: int, random: np.random.Generator, deadline: float, each: Callable[[], None]
) -> None:
    """Lower the loss of a valid block by moves from larger to smaller buckets, until hardly any is found."""
    waited = 0
    while waited < _ROUNDS and time.monotonic() < deadline:
        each()
        waited = 0 if _shrink_some(block, smallest, random) else waited + 1
        block.arrange()


def _move_some(block: Block, bad: Integers, smallest: int, largest: int, random: np.random.Generator) -> None:
    """Moves out of broken buckets and into them, each of which lowers the excess; the cheapest for each bucket."""
    if len(bad) > _MOST_UNITS:
        bad = random.choice(bad, _MOST_UNITS, replace=False)
    number = max(4, min(_OFFERS, _CELLS // (2 * len(bad) * block.number)))
    bucket = np.repeat(bad, number)
    other = _others(block, bucket, random)
    out = random.random(len(bucket)) < 0.7
    source, target = np.where(out, bucket, other), np.where(out, other, bucket)
    unit = _some_member(block, source, random)
    culprit = _culprits(block, bad, random)
    unit = np.where(out & (random.random(len(unit)) < 0.8), np.repeat(culprit, number), unit)
    change, cost = _changes(block, unit, source, target)
    allowed = (block.sizes[source] > smallest) & (block.sizes[target] < largest) & (source != target) & (change < 0)
    price = cost / np.where(allowed, -change, 1)
    _carry_out(block, unit, source, target, price, allowed)


def _shrink_some(block: Block, smallest: int, random: np.random.Generator) -> bool:
    """Moves from larger to smaller buckets that break nothing; False if there are none."""
    number = max(8, _CELLS // (8 * block.number))
    sizes = block.sizes.astype(float)
    source = random.choice(len(sizes), number, p=sizes / sizes.sum())
    target = random.integers(len(sizes), size=number)
    fits = (block.sizes[target] + 1 < block.sizes[source]) & (block.sizes[target] > 0)
    fits &= block.sizes[source] > smallest
    source, target = source[fits], target[fits]
    if not len(source):
        return False
    unit = _some_member(block, source, random)
    change, cost = _changes(block, unit, source, target)
    return _carry_out(block, unit, source, target, cost, change <= 0) > 0


def _others(block: Block, bucket: Integers, random: np.random.Generator) -> Integers:
    """Other buckets that are not empty, half of them about as large as the bucket or a little larger."""
    by_size = np.argsort(block.sizes, kind="stable")
    by_size = by_size[block.sizes[by_size] > 0]
    sizes = block.sizes[by_size]
    low = np.searchsorted(sizes, block.sizes[bucket])
    share = random.random(len(bucket)) ** 2
    near = low + (share * (len(sizes) - low)).astype(np.int64)
    anywhere = random.integers(len(sizes), size=len(bucket))
    places = np.where(random.random(len(bucket)) < 0.5, near, anywhere)
    return by_size[np.minimum(places, len(sizes) - 1)]


def _some_member(block: Block, bucket: Integers, random: np.random.Generator) -> Integers:
    places = block.first[bucket] + (random.random(len(bucket)) * block.sizes[bucket]).astype(np.int64)
    members: Integers = block.order[np.minimum(places, len(block.order) - 1)]
    return members


def _culprits(block: Block, bad: Integers, random: np.random.Generator) -> Integers:
    """For each broken bucket the unit that has most of the items above their caps."""
    units, which = block.shared(bad)
    guilt = (block.room[bad[which][:, None], block.items[units]] < 0).sum(axis=1) + 0.9 * random.random(len(units))
    order = np.lexsort((-guilt, which))
    return units[order[np.searchsorted(which[order], np.arange(len(bad)))]]


def _changes(block: Block, unit: Integers, source: Integers, target: Integers) -> tuple[Integers, Integers]:
    """By how much each move would change the excess, and the loss."""
    change = np.empty(len(unit), dtype=np.int64)
    piece = max(1, _CELLS // (block.number + 1))
    for start in range(0, len(unit), piece):
        part = slice(start, start + piece)
        change[part] = _change_at(block, unit[part], source[part], -1) + _change_at(block, unit[part], target[part], 1)
    return change, 2 * (block.sizes[target] - block.sizes[source]) + 2


def _change_at(block: Block, unit: Integers, bucket: Integers, sign: int) -> Integers:
    """The change of the excess of a bucket that a unit enters or leaves."""
    sizes = block.sizes[bucket]
    room = block.room[bucket]
    before = np.minimum(room, 0).sum(axis=1, dtype=np.int64)
    room += block.caps(np.maximum(sizes + sign, 0)) - block.caps(sizes)
    room[np.arange(len(unit))[:, None], block.items[unit]] -= sign
    return np.asarray(before - np.minimum(room, 0).sum(axis=1, dtype=np.int64))


def _carry_out(
    block: Block, unit: Integers, source: Integers, target: Integers, price: npt.NDArray[np.number], allowed: Mask
) -> int:
    """Carry out the cheapest of the allowed moves that have no bucket in common; how many there were."""
    pick = np.flatnonzero(allowed)
    pick = pick[np.argsort(price[pick], kind="stable")]
    first = np.full(len(block.sizes), len(pick), dtype=np.int64)
    rank = np.arange(len(pick))
    np.minimum.at(first, source[pick], rank)
    np.minimum.at(first, target[pick], rank)
    done = pick[(first[source[pick]] == rank) & (first[target[pick]] == rank)]
    for bucket, sign in ((source[done], -1), (target[done], 1)):
        block.resize(bucket, sign)
        block.room[bucket[:, None], block.items[unit[done]]] -= sign
    block.bucket_of[unit[done]] = target[done]
    return len(done)


def _merge_many(block: Block, bad: Integers, largest: int, random: np.random.Generator) -> Integers:
    """Put many broken buckets together with others, those first that become valid at least cost; which they are.

    That happens where there was no time for exchanges. One by one, a hundred thousand mergers would take long.
    """
    others = np.flatnonzero(block.sizes > 0)
    most = max(1, _CELLS // (_FEW_PARTNERS * (block.number + 1)))
    chosen = random.choice(bad, most, replace=False) if len(bad) > most else bad
    bucket = np.repeat(chosen, _FEW_PARTNERS)
    other = random.choice(others, len(bucket))
    sizes = block.sizes[bucket] + block.sizes[other]
    room = block.room[bucket] + block.room[other] + block.caps(sizes)
    room -= block.caps(block.sizes[bucket]) + block.caps(block.sizes[other])
    left = -np.minimum(room, 0).sum(axis=1, dtype=np.int64)
    saved = block.excess(bucket) + block.excess(other) - left
    pick = np.flatnonzero((bucket != other) & (saved > 0))
    pick = pick[np.lexsort((sizes[pick], -saved[pick], left[pick] > 0, sizes[pick] > largest))]
    first = np.full(len(block.sizes), len(pick), dtype=np.int64)
    rank = np.arange(len(pick))
    np.minimum.at(first, bucket[pick], rank)
    np.minimum.at(first, other[pick], rank)
    done = pick[(first[bucket[pick]] == rank) & (first[other[pick]] == rank)]
    bucket, other = bucket[done], other[done]
    block.room[other] = room[done]
    block.sizes[other] += block.sizes[bucket]
    block.sizes[bucket] = 0
    block.room[bucket] = block.caps(np.zeros(1, dtype=np.int64))
    into = np.arange(len(block.sizes))
    into[bucket] = other
    block.bucket_of = into[block.bucket_of]
    return np.concatenate([bucket, other])


def _merge(block: Block, bucket: int, largest: int, random: np.random.Generator) -> int:
    """Put a broken bucket together with the one that makes it valid at least cost, or else helps most; which one."""
    others = np.flatnonzero(block.sizes > 0)
    others = others[others != bucket]
    if len(others) > _PARTNERS:
        others = random.choice(others, _PARTNERS, replace=False)
    sizes = block.sizes[others] + block.sizes[bucket]
    room = block.room[others] + block.room[bucket] + block.caps(sizes)
    room -= block.caps(block.sizes[others]) + block.caps(block.sizes[[bucket]])
    saved = np.minimum(room, 0).sum(axis=1, dtype=np.int64) + block.excess(others) + block.excess(np.asarray([bucket]))
    broken = (room < 0).any(axis=1)
    best = np.lexsort((sizes, -saved, broken, sizes > largest))[0]
    other = int(others[best])
    block.room[other] = room[best]
    block.sizes[other] += block.sizes[bucket]
    block.bucket_of[block.bucket_of == bucket] = other
    block.sizes[bucket] = 0
    block.room[bucket] = block.caps(np.zeros(1, dtype=np.int64))[0]
    return other
