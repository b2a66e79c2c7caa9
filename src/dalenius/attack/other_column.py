"""The attacker who knows a person's value in one sensitive column, and asks for another.

The lists of two columns have nothing in common but their buckets: in a bucket of S people with c(x) of value x and c(y)
of y, all ways to match the two lists are alike, and knowing y says nothing about x. But columns may go together, and
that can be learned from all buckets, as the learning attacker does for quasi-identifiers. If people have x and y with

    lift(x, y) = P(x, y) / (P(x) P(y)),

then a bucket has n(x, y) people with both in proportion to c(x) c(y) lift(x, y), scaled to the counts of the bucket:
sum over y of n(x, y) = c(x), sum over x of n(x, y) = c(y). The lift is learned by expectation maximisation: n for a
lift, starting with 1, and the lift from the sum of n over all buckets, smoothed by one person. The belief is

    p(x | bucket, y) = n(x, y) / c(y).

It is the same for all people of the bucket with y. Where people can have several values, c(x) people with x have about
c(x) m pairs of x and some y, m being the mean number of values y of the bucket's people; n is scaled to that, and
somebody is counted for each value that may be known. Where the two columns are kept together, the release says n(x, y),
and nothing is to be learned (`kept_together`). F'-privacy does not cover either, so no success breaks a promise. Of
several other columns each is tried alone; the one that is right most often is shown, without the truth the one with
the most claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dalenius.attack.claims import ClaimSums
from dalenius.attack.kept_together import table_of, tuples_of_pairs, with_both
from dalenius.attack.linking import Items
from dalenius.attack.listed_scores import Entries, ListedScores, listed_result
from dalenius.attack.people_target import PeopleTarget, group_items, in_groups, one_bucket_guess
from dalenius.attack.shown_counts import ShownCounts
from dalenius.attack.whereabouts import Holders
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import Attack

NAME = "other-column"
ROUNDS = 10
_SCALINGS = 4  # of n to the counts of a bucket, in each round
_MOST_PAIRS = 2**23  # of two values in a bucket: where there are more, some buckets stand for all
_NOT_COVERED = "F'-privacy does not cover what columns say about each other: beliefs above a limit break no promise"
_LEAST = (
    "of columns that are kept together, the attacker counts what is in the same row of a person, which is the least "
    "that there is"
)
_EACH = "somebody with several values in the known column is counted for each"
_APART = "Publish again without --keep-together: then what goes with what is not published."
_REMEDY = "Publish one of the two columns alone, or lower the limits of the values that go with the other column."


def other_column(target: PeopleTarget) -> Attack:
    """Try every other sensitive column, and score the best."""
    others = [place for place in range(len(target.where.shown)) if place != target.number]
    kept = [place for place in others if table_of(target.whole, place, target.number) is not None]
    target.progress.stage("Other column")
    played = [(place, *_play(target, place, together=place in kept)) for place in others]
    with_truth = target.where.rows.items is not None
    place, scores, people = max(played, key=lambda one: _success(one[1]) if with_truth else one[1].values.claims)
    details: dict[str, Any] = {
        "known_column": target.columns[place],
        "known_columns": [
            {
                "column": target.columns[other],
                "success": _success(own) if with_truth and own.people else None,
                "claims": own.values.claims,
                "kept_together": other in kept,
            }
            for other, own, _ in played
        ],
        "rounds": ROUNDS,
    }
    notes = [_NOT_COVERED]
    if target.several_values:
        notes += [f"{NAME}: {_EACH}", *([f"{NAME}: {_LEAST}"] if kept else [])]
    everybody = int(target.where.shown[place].counts.sum())
    if people < everybody:
        notes.append(f"{NAME}: a random sample of {people:,} of {everybody:,} people, in whole buckets, is attacked")
    if scores.people < people:
        notes.append(
            f"{NAME}: {people - scores.people:,} people are not scored, of whom the table does not tell which values "
            "they have together in the release"
        )
    remedy = _APART if place in kept else _REMEDY
    return listed_result(
        NAME, scores, target.release, with_truth, details, target.groups, notes=tuple(notes), remedy=remedy
    )


def _success(scores: ListedScores) -> float:
    return scores.right / max(1, scores.people)


@dataclass(frozen=True)
class Pairs:
    """Values y that are known and x that are asked for, bucket by bucket, as cells of two lists, in the order of y."""

    known: ShownCounts
    asked: ShownCounts
    known_cells: Integers
    asked_cells: Integers

    @classmethod
    def of(cls, known: ShownCounts, asked: ShownCounts) -> Pairs:
        """All pairs; of too many, those of a random sample of buckets."""
        widths = np.diff(known.first) * np.diff(asked.first)
        chosen = np.ones(len(widths), bool)
        if int(widths.sum()) > _MOST_PAIRS:
            order = np.random.default_rng(0).permutation(len(widths))  # nothing secret: which buckets stand for all
            chosen[order[np.cumsum(widths[order]) > _MOST_PAIRS]] = False
        cells = np.flatnonzero(chosen[known.buckets])
        each = np.diff(asked.first)[known.buckets[cells]]
        ends = np.cumsum(each)
        first = asked.first[known.buckets[cells]]
        pairs = np.repeat(first - ends + each, each) + np.arange(int(ends[-1]) if len(ends) else 0)
        return cls(known, asked, np.repeat(cells, each), pairs)

    def match(self) -> Floats:
        """How many people of the bucket have both values, as learned from all buckets."""
        known, asked = self.known, self.asked
        sizes = known.sizes.slots[known.buckets[self.known_cells]]
        plain = known.counts[self.known_cells].astype(np.float64) * asked.counts[self.asked_cells] / sizes
        held = known.counts * asked.values_each[known.buckets], asked.counts * known.values_each[asked.buckets]
        keys = self.known.values[self.known_cells] * self.asked.kinds + self.asked.values[self.asked_cells]
        kinds, kind = np.unique(keys, return_inverse=True)
        expected = self._expected(kinds, plain, keys)
        both = plain
        for _ in range(ROUNDS):
            lift = (np.bincount(kind, both, minlength=len(kinds)) + 1) / (expected + 1)
            both = self._scale(plain * lift[kind], held)
        return both

    def _expected(self, kinds: Integers, plain: Floats, keys: Integers) -> Floats:
        """How many people would have both if columns had nothing to do with each other."""
        known = np.bincount(keys // self.asked.kinds, plain, minlength=self.known.kinds)
        asked = np.bincount(keys % self.asked.kinds, plain, minlength=self.asked.kinds)
        expected: Floats = known[kinds // self.asked.kinds] * asked[kinds % self.asked.kinds] / max(plain.sum(), 1.0)
        return expected

    def _scale(self, both: Floats, held: tuple[Floats, Floats]) -> Floats:
        """To how many pairs each value of each bucket is in, those of the known value last."""
        for _ in range(_SCALINGS):
            for cells, counts in ((self.asked_cells, held[1]), (self.known_cells, held[0])):
                sums = np.bincount(cells, both, minlength=len(counts))
                both = both * (counts / np.maximum(sums, 1e-300))[cells]
        return both

    def shares(self, both: Floats) -> Floats:
        """Of the people of the bucket with the known value, how many have the other one as well."""
        most = np.minimum(self.known.counts[self.known_cells], self.asked.counts[self.asked_cells])
        shares: Floats = np.minimum(both, most) / self.known.counts[self.known_cells]
        return shares

    def people_with_both(self, known: Items, asked: Items, buckets: Integers) -> Floats:
        """How many people of the bucket really have both."""
        cells = with_both(known, asked, buckets, (self.known, self.asked))
        width = len(self.asked.values)
        pairs = self.known_cells * width + self.asked_cells
        wanted = cells[0] * width + cells[1]
        place = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        there = pairs[place] == wanted
        return np.bincount(place[there], minlength=len(pairs)).astype(np.float64)


def _people_with(everybody: Holders, items: Items, shown: ShownCounts) -> Integers:
    """For every cell, how many of these people have the value."""
    keys = everybody.buckets[items.owners] * shown.kinds + items.codes
    place = np.minimum(np.searchsorted(shown.keys, keys), len(shown.keys) - 1)
    return np.bincount(place[shown.keys[place] == keys], minlength=len(shown.keys))


def _play(target: PeopleTarget, place: int, *, together: bool) -> tuple[ListedScores, int]:
    """Who knows the values of one other column; and how many people were looked at."""
    known = target.where.shown[place]
    asked, everybody, groups = target.shown, target.where.rows, target.groups
    pairs = Pairs.of(known, asked)
    each = _scored(target, place, pairs)
    both = (
        tuples_of_pairs(target.whole, (place, target.number), (known, asked), (pairs.known_cells, pairs.asked_cells))
        if together
        else pairs.match()
    )
    p = pairs.shares(both)
    values = asked.values[pairs.asked_cells]
    right = others = None
    if everybody.items is not None:
        right = (p * each[pairs.known_cells]).astype(np.float64)  # with one row each, it is what the release says
        if not together or target.several_values:
            right = pairs.people_with_both(everybody.items[place], everybody.items[target.number], everybody.buckets)
        totals = np.bincount(asked.values, asked.counts, minlength=asked.kinds)
        others = each[pairs.known_cells] * (totals / max(1, int(asked.sizes.slots.sum())))[values]
    scores = ListedScores(ClaimSums(target.limits), ClaimSums(groups.limits) if groups is not None else None)
    scores.add(Entries(pairs.known_cells, values, p, right, others), each)
    sizes = asked.sizes.slots[asked.buckets[pairs.asked_cells]]
    expected = each[pairs.known_cells] * asked.counts[pairs.asked_cells] / sizes
    guess = one_bucket_guess(asked)[pairs.asked_cells]
    scores.baseline = float((guess * (right if right is not None else expected)).sum())
    if groups is not None and scores.groups is not None:
        if target.several_values:
            _add_groups(target, place, (pairs, p) if together else None, scores.groups)
        else:
            owners, numbers, beliefs = in_groups(pairs.known_cells, values, p, groups)
            true = in_groups(pairs.known_cells, values, right, groups)[2] if right is not None else None
            scores.groups.add_listed(beliefs, numbers, owners, each, true)
    return scores, int(known.counts[np.unique(pairs.known_cells)].sum())


def _add_groups(target: PeopleTarget, place: int, tuples: tuple[Pairs, Floats] | None, sums: ClaimSums) -> None:
    """Claims about groups, where somebody may have several values of one, so that beliefs do not add up.

    A group is matched as a value is. Where `tuples` say what goes with what, it is at least as probable as its value.
    """
    known, everybody, groups, shown = target.where.shown[place], target.where.rows, target.groups, target.shown_groups
    if groups is None or shown is None:
        return
    if tuples is None:
        pairs = Pairs.of(known, shown)
        beliefs = pairs.shares(pairs.match())
    else:
        of_values, p = tuples
        values = of_values.asked.values[of_values.asked_cells]
        owners, numbers, beliefs = in_groups(of_values.known_cells, values, p, groups, np.maximum)
        cells = np.searchsorted(shown.keys, known.buckets[owners] * shown.kinds + numbers)
        pairs = Pairs(known, shown, owners, cells)
    right = None
    if everybody.items is not None:
        items = group_items(everybody.items[target.number], groups)
        right = pairs.people_with_both(everybody.items[place], items, everybody.buckets)
    each = _scored(target, place, pairs)
    sums.add_listed(beliefs, shown.values[pairs.asked_cells], pairs.known_cells, each, right)


def _scored(target: PeopleTarget, place: int, pairs: Pairs) -> Integers:
    """For every known value of a bucket, how many people with it are scored."""
    known, everybody = pairs.known, target.where.rows
    each = np.zeros(len(known.values), np.int64)
    each[pairs.known_cells] = known.counts[pairs.known_cells]
    if everybody.items is not None:  # those who were not found are not scored
        each = np.minimum(each, _people_with(everybody, everybody.items[place], known))
    return each
