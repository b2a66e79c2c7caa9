"""Two attackers who know which rows are a person's: the one who assumes that values persist, and the one who does not.

A release by rows takes every row for a person of its own. A person with rows in the buckets g_1 ... g_m, of S_k rows
with c_k(x) of value x, is then in several of them, and

    intersection    believes that all rows have one value: p(x) in proportion to prod over k of c_k(x) / S_k;
    union           asks whether some row has x: p(x) = 1 - prod over k of (1 - c_k(x) / S_k).

Of several rows in one bucket, the j-th has one row and one value fewer to choose from: (c - j) / (S - j), and
(S - c - j) / (S - j). Where buckets have no value in common, values have changed, and the first attacker guesses as
if there were one bucket. `pinned` are people whose buckets have one value in common, and `best_claims_right` are those
of the people above a limit of whom the most probable value is right.

In a release by people, everybody is in one bucket. Then both believe h_x / P, which the limits bound, and are right as
often: nobody in a bucket is told from the others. Who also knows that a person's value is the same in all rows can
leave out those of the bucket whose values change, as the `rows` of ST tell; nothing is promised then. `steady` says
what that would give away.

A claim is right if the person has the value in any row. The baseline guesses from one of the buckets; the control tries
the same guesses on somebody else with as many rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalenius.attack.claims import ABOVE, ClaimSums
from dalenius.attack.linking import Items
from dalenius.attack.listed_scores import Entries, ListedScores, best_of_each, listed_result
from dalenius.attack.one_bucket import in_one_bucket, steady_people
from dalenius.attack.people_target import PeopleTarget, group_items, in_groups, joined, one_bucket_guess
from dalenius.attack.shown_counts import ShownCounts
from dalenius.attack.whereabouts import Holders
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import Attack, Share

INTERSECTION, UNION = "intersection", "union"
_ENTRIES = 2**21  # of (row, value) that are looked at at once
_NOBODY = "nobody has several rows"
_REMEDY = "Publish again with --person COLUMN: then limits are about people, and not about rows."


def intersection(target: PeopleTarget) -> Attack:
    """Believes that all rows of a person have the same value."""
    target.progress.stage("Intersection")
    if target.by_people:
        return in_one_bucket(INTERSECTION, target, {"steady": steady_people(target)})
    if not target.holders.number:
        return Attack(INTERSECTION, 0, not_played=_NOBODY)
    return _Attacker(INTERSECTION, target).play()


def union(target: PeopleTarget) -> Attack:
    """Asks whether a person has a value in any row."""
    target.progress.stage("Union")
    if target.by_people:
        return in_one_bucket(UNION, target, {})
    if not target.holders.number:
        return Attack(UNION, 0, not_played=_NOBODY)
    return _Attacker(UNION, target).play()


class _Truth:
    """Who really has what, as sorted keys; the shuffled one has the items of somebody else with as many rows."""

    def __init__(self, items: Items, rows: Integers) -> None:
        self._keys, self._kinds = items.keys, items.kinds
        rng = np.random.default_rng(0)  # nothing secret: whom somebody else stands for
        self._other = np.empty(len(rows), np.int64)
        self._other[np.argsort(rows, kind="stable")] = np.lexsort((rng.random(len(rows)), rows))

    def of(self, people: Integers, values: Integers) -> Floats:
        """1 where the person has the value."""
        return self._has(people * self._kinds + values)

    def of_others(self, people: Integers, values: Integers) -> Floats:
        """1 where somebody else has it."""
        return self._has(self._other[people] * self._kinds + values)

    def _has(self, keys: Integers) -> Floats:
        if not len(self._keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: Floats = (self._keys[place] == keys).astype(np.float64)
        return found


@dataclass(frozen=True)
class _Slots:
    """What each row of some people may be: owner, value, and count and size of the bucket, less the rows before it."""

    owners: Integers
    cells: Integers
    before: Integers

    @classmethod
    def of(cls, shown: ShownCounts, holders: Holders, start: int, stop: int) -> _Slots:
        rows = np.arange(holders.first[start], holders.first[stop])
        owners = np.repeat(np.arange(start, stop), holders.rows[start:stop])
        buckets = holders.buckets[rows]
        keys = owners * (len(shown.first) + 1) + buckets
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        before = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        places, cells = _cells(shown, buckets)
        return cls(owners[places], cells, before[places])


def _cells(shown: ShownCounts, buckets: Integers) -> tuple[Integers, Integers]:
    """All cells of some buckets: which bucket it is of, and the cell."""
    widths = np.diff(shown.first)[buckets]
    ends = np.cumsum(widths)
    cells = np.repeat(shown.first[buckets] - ends + widths, widths) + np.arange(int(ends[-1]) if len(ends) else 0)
    return np.repeat(np.arange(len(buckets)), widths), cells


class _Attacker:
    """Plays one of the two on people who have several rows."""

    def __init__(self, name: str, target: PeopleTarget) -> None:
        self._name, self._target = name, target
        self._shown, self._holders = target.shown, target.holders
        rows = self._holders.rows
        self._guess = one_bucket_guess(target.shown)
        self._truth = _Truth(target.items, rows) if target.items is not None else None
        self._group_truth: _Truth | None = None
        groups = target.groups
        if groups is not None and target.items is not None:
            self._group_truth = _Truth(group_items(target.items, groups), rows)
        sums = ClaimSums(groups.limits) if groups is not None else None
        self._scores = ListedScores(ClaimSums(target.limits), sums)
        self._pinned, self._pinned_right, self._nothing = 0, 0.0, 0
        self._best_right = 0.0

    def play(self) -> Attack:
        """Look at people, some at a time."""
        for start, stop in _parts(self._shown, self._holders):
            self._add(start, stop)
        best = round(self._best_right) if self._truth is not None else None
        details: dict[str, Any] = {"several_rows": self._holders.number, "best_claims_right": best}
        if self._name == INTERSECTION:
            right = round(self._pinned_right) if self._truth is not None else None
            details |= {"pinned": self._pinned, "pinned_right": right, "nothing_in_common": self._nothing}
            interval = Share.of(self._pinned_right, self._pinned) if self._truth is not None else None
            details["pinned_right_interval"] = [interval.low, interval.high] if interval is not None else None
        return listed_result(
            self._name,
            self._scores,
            self._target.release,
            self._truth is not None,
            details,
            self._target.groups,
            remedy=_REMEDY,
        )

    def _add(self, start: int, stop: int) -> None:
        slots = _Slots.of(self._shown, self._holders, start, stop)
        values = self._shown.values[slots.cells]
        one = self._guess[slots.cells] / self._holders.rows[slots.owners]
        truth = self._truth.of(slots.owners, values) if self._truth is not None else self._share(slots)
        alone = np.bincount(slots.owners - start, one * truth, minlength=stop - start)
        self._scores.baseline += float(alone.sum())
        if self._name == INTERSECTION:
            owners, values, p = intersected(self._shown, self._holders, slots)
        else:
            owners, values, p = united(self._shown, slots)
        right = others = None
        if self._truth is not None:
            right, others = self._truth.of(owners, values), self._truth.of_others(owners, values)
        self._scores.add(Entries(owners - start, values, p, right, others), np.ones(stop - start, np.int64))
        different = np.bincount(owners - start, minlength=stop - start)
        self._scores.right += float(alone[different == 0].sum())  # nothing in common: as if there were one bucket
        only = (different == 1)[owners - start]
        self._pinned += int(only.sum())
        self._nothing += int((different == 0).sum())
        self._pinned_right += float(right[only].sum()) if right is not None else 0.0
        if right is not None:
            limits = self._scores.values.limits
            above = np.isin(owners, owners[p > limits[values] + ABOVE])
            self._best_right += float((best_of_each(owners, p) * right)[above].sum())
        self._add_groups(start, stop, (owners, values, p))

    def _share(self, slots: _Slots) -> Floats:
        sizes = self._shown.sizes.slots[self._shown.buckets[slots.cells]]
        shares: Floats = self._shown.counts[slots.cells] / sizes
        return shares

    def _add_groups(self, start: int, stop: int, beliefs: tuple[Integers, Integers, Floats]) -> None:
        groups, shown, sums = self._target.groups, self._target.shown_groups, self._scores.groups
        if groups is None or shown is None or sums is None:
            return
        if self._name == UNION:
            owners, numbers, p = united(shown, _Slots.of(shown, self._holders, start, stop))
        else:
            owners, numbers, p = in_groups(*beliefs, groups)
        right = self._group_truth.of(owners, numbers) if self._group_truth is not None else None
        sums.add_listed(p, numbers, owners - start, np.ones(stop - start, np.int64), right)


def _parts(shown: ShownCounts, holders: Holders) -> Iterator[tuple[int, int]]:
    """Ranges of people who have about as many entries together."""
    entries = np.cumsum(np.append(0, np.diff(shown.first)[holders.buckets]))[holders.first]
    start = 0
    while start < holders.number:
        stop = int(np.searchsorted(entries, entries[start] + _ENTRIES, side="right")) - 1
        stop = min(max(stop, start + 1), holders.number)
        yield start, stop
        start = stop


def intersected(shown: ShownCounts, holders: Holders, slots: _Slots) -> tuple[Integers, Integers, Floats]:
    """Owner, value and belief: values that all rows of the owner may have, in proportion to the product of shares."""
    left = shown.counts[slots.cells] - slots.before
    able = left > 0
    sizes = shown.sizes.slots[shown.buckets[slots.cells]] - slots.before
    owners, values = slots.owners[able], shown.values[slots.cells[able]]
    logs = np.log(left[able] / sizes[able])
    keys, sums, rows = joined(owners * shown.kinds + values, logs, np.add)
    owners, values = keys // shown.kinds, keys % shown.kinds
    everywhere = rows == holders.rows[owners]
    owners, values, sums = owners[everywhere], values[everywhere], sums[everywhere]
    if not len(owners):
        return owners, values, sums
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    lengths = np.diff(np.append(starts, len(owners)))
    weights = np.exp(sums - np.repeat(np.maximum.reduceat(sums, starts), lengths))
    return owners, values, weights / np.repeat(np.add.reduceat(weights, starts), lengths)


def united(shown: ShownCounts, slots: _Slots) -> tuple[Integers, Integers, Floats]:
    """Owner, value and the probability that some row of the owner has it."""
    sizes = shown.sizes.slots[shown.buckets[slots.cells]] - slots.before
    without = np.maximum(sizes - shown.counts[slots.cells], 0) / sizes
    keys, products, _ = joined(slots.owners * shown.kinds + shown.values[slots.cells], without, np.multiply)
    return keys // shown.kinds, keys % shown.kinds, 1.0 - products
