"""Attackers on people where a bucket is a set of people: all that they can say is what the bucket shows.

Everybody in a bucket of P people, h of whom have x, has x with probability h / P. As nobody is told from the others,
beliefs are about the people of a bucket alike, and it is enough to count how many of them are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dalenius.attack.claims import ClaimSums
from dalenius.attack.corruption import ChosenRecords, broken_sentence, numbers_known
from dalenius.attack.linking import Items
from dalenius.attack.listed_scores import Entries, ListedScores, listed_result
from dalenius.attack.people_target import PeopleTarget, group_items, one_bucket_guess
from dalenius.attack.shown_counts import ShownCounts
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import Attack, Claims
from dalenius.verify.buckets import WholeBuckets

_CHOSEN_ONLY = (
    "The corrupting attacker chooses whose values to know. People above a limit are at most so many: somebody with "
    "several values may be counted for each"
)
_ONE_BUCKET = "Everybody is in one bucket of people, so that there is nothing to put together"


def in_one_bucket(name: str, target: PeopleTarget, details: dict[str, Any]) -> Attack:
    """Believe h / P, and count how many people are right."""
    shown, groups = target.shown, target.groups
    each = shown.sizes.people
    scores = ListedScores(ClaimSums(target.limits), ClaimSums(groups.limits) if groups is not None else None)
    p = _shares(shown)
    right = others = None
    if target.items is not None:
        right = _having(target, shown, lambda items: items)
        others = _others(shown, right, each)
    scores.add(Entries(shown.buckets, shown.values, p, right, others), each)
    known = right if right is not None else p * each[shown.buckets]
    scores.baseline = float((one_bucket_guess(shown) * known).sum())
    if groups is not None and scores.groups is not None and (of_groups := target.shown_groups) is not None:
        true = None
        if target.items is not None:
            true = _having(target, of_groups, lambda items: group_items(items, groups))
        scores.groups.add_listed(_shares(of_groups), of_groups.values, of_groups.buckets, each, true)
    with_truth = target.items is not None
    notes = (_ONE_BUCKET, *_steady_note(target, details.get("steady")))
    return listed_result(name, scores, target.release, with_truth, details, groups, notes=notes)


def _steady_note(target: PeopleTarget, steady: dict[str, Any] | None) -> tuple[str, ...]:
    """A sentence, if such claims are right more often than limits allow."""
    if steady is None or not steady["claims"] or steady["claims_right"] <= steady["mean_limit"] * steady["claims"]:
        return ()
    right, name = steady["claims_right"] / steady["claims"], target.columns[target.number]
    return (
        f"Whoever knows of one of {steady['people']:,} people that {name!r} is the same in all their rows can put "
        f"{steady['people_above_limit']:,} of them above a limit, and is right in {right:.1%} of the claims, where the "
        f"limits would allow {steady['mean_limit']:.1%}; nothing is promised against that",
    )


def chosen_people(target: PeopleTarget, known: int) -> Attack:
    """The corrupting attacker who chooses whose values to know: how many of the others can be put above a limit."""
    manifest = target.release.manifest
    promised = manifest.adversary.known_records
    numbers = numbers_known(int(target.shown.sizes.people.max(initial=1)))
    exposure = ChosenRecords(target.limits, 0, promised, known, numbers)
    exposure.add(_whole_buckets(target.shown))
    broken = [broken_sentence(exposure.people_above(promised), promised, "a limit")]
    about = None
    if target.groups is not None and target.shown_groups is not None:
        of_groups = ChosenRecords(target.groups.limits, 0, promised, known)
        of_groups.add(_whole_buckets(target.shown_groups))
        broken.append(broken_sentence(of_groups.people_above(promised), promised, "the limit of a group of values"))
        about = Claims(people_above_limit=of_groups.people_above(known))
    by_known = [
        {"known": q, "worst_ratio": exposure.worst_ratio(q), "people_above_limit": exposure.people_above(q)}
        for q in exposure.numbers
    ]
    chosen = {"people": exposure.rows, "worst_ratio": exposure.worst_ratio(known)}
    return Attack(
        name="corruption",
        people=exposure.rows,
        people_above_limit=exposure.people_above(known),
        details={
            "known": known,
            "chosen": {**chosen, "people_above_limit": exposure.people_above(known)},
            "random": {"people": 0, "rows": 0},
            "by_known": [{**one, "success": None} for one in by_known],
            "most_exposed": exposure.most_exposed(),
        },
        notes=(_CHOSEN_ONLY,),
        broken=tuple(filter(None, broken)),
        beyond=known > promised,
        groups=about,
    )


def _whole_buckets(shown: ShownCounts) -> WholeBuckets:
    """Buckets with something, as the corrupting attacker reads them."""
    there = np.flatnonzero(np.diff(shown.first))
    return WholeBuckets(
        numbers=shown.sizes.numbers[there],
        sizes=shown.sizes.people[there],
        first_runs=shown.first[there],
        codes=shown.values.astype(np.int32),
        counts=shown.counts,
    )


def _having(target: PeopleTarget, shown: ShownCounts, told: Callable[[Items], Items]) -> Floats:
    """For every cell, how many people of the bucket really have the value, or what `told` makes of values.

    It is what the release shows, since a bucket has these people; and what they have besides, in rows that are not
    in the release.
    """
    counts = shown.counts.astype(np.float64)
    left_out = target.where.left_out
    return counts if left_out is None else left_out.add_to(counts, told(left_out.items[target.number]), shown)


def _shares(shown: ShownCounts) -> Floats:
    shares: Floats = shown.counts / shown.sizes.slots[shown.buckets]
    return shares


def _others(shown: ShownCounts, right: Floats, each: Integers) -> Floats:
    """How many would have the value of as many people who are drawn from all that have equally many rows."""
    _, kind = np.unique(shown.sizes.rows_each, return_inverse=True)
    people = np.bincount(kind, weights=each)
    keys = kind[shown.buckets] * shown.kinds + shown.values
    having = np.bincount(keys, weights=right, minlength=len(people) * shown.kinds)
    others: Floats = having[keys] / np.maximum(people[kind[shown.buckets]], 1) * each[shown.buckets]
    return others


def steady_people(target: PeopleTarget) -> dict[str, Any] | None:
    """What somebody could claim who knows of a person, besides, that the value is the same in all their rows.

    Such a person is one of those of the bucket whom ST shows with a value in all rows, and it has these by value. So
    how many claims are right needs no truth. None if rows have several values, or nobody has several rows.
    """
    shown = target.shown
    if len(target.release.manifest.columns.sensitive.of) > 1 or int(shown.sizes.rows_each.max(initial=1)) < 2:
        return None
    cells = np.flatnonzero((shown.sizes.rows_each[shown.buckets] > 1) & (shown.steady > 0))
    buckets, counts = shown.buckets[cells], shown.steady[cells]
    people = np.bincount(buckets, weights=counts, minlength=len(shown.sizes.numbers)).astype(np.int64)
    sums = ClaimSums(target.limits)
    sums.add_listed(counts / people[buckets], shown.values[cells], buckets, people, counts.astype(np.float64))
    return {
        "people": int(people.sum()),
        "people_above_limit": sums.people,
        "claims": sums.claims,
        "claims_right": round(sums.right),
        "mean_limit": sums.mean_limit,
    }
