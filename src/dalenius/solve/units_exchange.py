"""Exchanges of units between buckets until no cap is broken; all sizes stay as they are.

For every pair (bucket, item) above its cap, a unit of the bucket that has the item is offered to some buckets with room
for it, in exchange for one of theirs. The change of the sum of all excesses is computed for all offers at once. Of each
unit the best offer counts, and of these as many are carried out as have no bucket in common. Offers that change nothing
are taken now and then, and items that stay above their caps weigh more and more, so that the search leaves dead ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.solve.caps import Integers
from dalenius.solve.unit_block import Block

_OFFERS = 40_000  # in a sweep, about
_FEWEST, _MOST = 8, 400  # offers for a unit
_CELLS = 3_000_000  # looked at to list buckets with room, in a sweep
_MOST_PAIRS = 60_000  # above their caps, that a sweep takes up
_PATIENCE = 60  # sweeps without progress, before the search gives up
_SIDEWAYS = 0.3  # of the offers that change nothing


@dataclass
class _Offers:
    """One line a unit: it leaves its bucket, and for each of several others, enters that one instead of its partner."""

    unit: Integers
    bucket: Integers
    other: Integers
    partner: Integers


def exchange(
    block: Block, random: np.random.Generator, deadline: float, each: Callable[[], None], patience: int = _PATIENCE
) -> int:
    """Exchange until nothing is broken, or there is no progress; returns the excess that is left."""
    bad = block.broken()
    weights = np.ones(block.number + 1)
    weights[-1] = 0.0
    least, waited = int(block.excess(bad).sum()), 0
    while bad.size and waited < patience and time.monotonic() < deadline:
        each()
        touched = _sweep(block, bad, weights, random)
        bad = block.broken(np.unique(np.concatenate([bad, touched])))
        left = int(block.excess(bad).sum())
        if left < least:
            least, waited = left, 0
        else:
            waited += 1
            weights[:-1] += (block.room[bad, :-1] < 0).any(axis=0)
    return int(block.excess(bad).sum())


def _sweep(block: Block, bad: Integers, weights: npt.NDArray[np.float64], random: np.random.Generator) -> Integers:
    """One round of offers and exchanges; the buckets that took part."""
    row, item = np.nonzero(block.room[bad] < 0)
    if len(row) > _MOST_PAIRS:
        chosen = random.choice(len(row), _MOST_PAIRS, replace=False)
        row, item = row[chosen], item[chosen]
    number = min(_MOST, max(_FEWEST, _OFFERS // len(row)))
    repeats = max(1, min(4, _OFFERS // (len(row) * number)))
    bucket, item = np.repeat(bad[row], repeats), np.repeat(item, repeats)
    unit = _some_unit(block, bucket, item, random)
    other = _with_room(block, item, number, random)
    partner = _members(block, other, random)
    offers = _Offers(unit, bucket, other, partner)
    change = _changes(block, offers, weights)
    best = np.argmin(change + 0.5 * random.random(change.shape), axis=1)
    lines = np.arange(len(best))
    gain = change[lines, best]
    good = (gain < 0) | ((gain == 0) & (random.random(len(gain)) < _SIDEWAYS))
    good &= other[lines, best] != bucket
    pick = np.flatnonzero(good)
    return _carry_out(
        block, unit[pick], bucket[pick], partner[pick, best[pick]], other[pick, best[pick]], gain[pick], random
    )


def _some_unit(block: Block, bucket: Integers, item: Integers, random: np.random.Generator) -> Integers:
    """For each pair a random unit of the bucket that has the item."""
    units, which = block.shared(bucket)
    has = np.flatnonzero(block.have(units, item[which]))
    which = which[has]
    number = np.bincount(which, minlength=len(bucket))
    start = np.cumsum(number) - number
    chosen: Integers = units[has[start + (random.random(len(bucket)) * number).astype(np.int64)]]
    return chosen


def _with_room(block: Block, item: Integers, number: int, random: np.random.Generator) -> Integers:
    """For each item some buckets, with room for it if it is not too much work to find them."""
    buckets = len(block.sizes)
    others = random.integers(buckets, size=(len(item), number))
    different, which = np.unique(item, return_inverse=True)
    if len(different) * buckets > _CELLS:
        return others
    rooms = np.flatnonzero((block.room[:, different] > 0).T.ravel())  # by item, then bucket
    of_item, bucket = rooms // buckets, rooms % buckets
    count = np.bincount(of_item, minlength=len(different))
    start = np.cumsum(count) - count
    listed = np.flatnonzero(count[which] > 0)
    own = which[listed]
    places = start[own][:, None] + (random.random((len(listed), number)) * count[own][:, None]).astype(np.int64)
    others[listed] = bucket[places]
    return others


def _members(block: Block, buckets: Integers, random: np.random.Generator) -> Integers:
    """A random unit of each bucket."""
    places = block.first[buckets] + (random.random(buckets.shape) * block.sizes[buckets]).astype(np.int64)
    members: Integers = block.order[places]
    return members


def _changes(block: Block, offers: _Offers, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """By how much each offer would change the weighted excess."""
    room, width = block.room, block.items.shape[1]
    leaving, entering = block.items[offers.unit], block.items[offers.partner]
    bucket, other = offers.bucket, offers.other
    change = np.zeros(other.shape)
    comes = np.ones(entering.shape, dtype=np.bool_)  # which items of the partner the unit does not have
    for k in range(width):
        item = leaving[:, k]
        same = entering == item[:, None, None]
        comes &= ~same
        goes = ~same.any(axis=2)
        relief = (room[bucket, item] < 0)[:, None]
        burden = room[other, item[:, None]] <= 0
        change += weights[item][:, None] * goes * (burden.astype(np.int8) - relief)
    for k in range(width):
        item = entering[:, :, k]
        burden = room[bucket[:, None], item] <= 0
        relief = room[other, item] < 0
        change += weights[item] * comes[:, :, k] * (burden.astype(np.int8) - relief)
    return change


def _carry_out(
    block: Block,
    unit: Integers,
    bucket: Integers,
    partner: Integers,
    other: Integers,
    gain: npt.NDArray[np.float64],
    random: np.random.Generator,
) -> Integers:
    """Carry out exchanges that have no bucket in common, the best first; the buckets that took part."""
    rank = np.empty(len(gain), dtype=np.int64)
    rank[np.argsort(gain + 0.5 * random.random(len(gain)))] = np.arange(len(gain))
    first = np.full(len(block.sizes), len(gain), dtype=np.int64)
    np.minimum.at(first, bucket, rank)
    np.minimum.at(first, other, rank)
    done = np.flatnonzero((first[bucket] == rank) & (first[other] == rank))
    unit, bucket, partner, other = unit[done], bucket[done], partner[done], other[done]
    leaving, entering = block.items[unit], block.items[partner]
    room = block.room
    room[bucket[:, None], leaving] += 1
    room[bucket[:, None], entering] -= 1
    room[other[:, None], entering] += 1
    room[other[:, None], leaving] -= 1
    block.swap(unit, partner)
    return np.concatenate([bucket, other])
