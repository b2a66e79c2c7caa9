"""Whether a table is that of a release: the same rows, people and values, but for rows that were left out.

Where rows were left out, people who have more rows than anybody may keep are in the release with some of them, and
nobody knows which. All the others are there as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dalenius.attack.aligned_rows import SAME_TABLE
from dalenius.attack.linking import Bits, Items, Linked
from dalenius.attack.records import Records
from dalenius.attack.shown_counts import ShownCounts
from dalenius.errors import InputError
from dalenius.infer.candidates import Floats, Integers
from dalenius.release.manifest import Persons

_TOO_FAR = 0.25  # of the values: the table of a release leaves less than 0.03, made-up values often more


@dataclass(frozen=True)
class LeftOut:
    """People of whom some rows are not in the release: how many of them are to be expected in each bucket.

    `items` are the values that everybody in the table has in any row, set by set.
    """

    people: Floats
    items: tuple[Items, ...]

    def add_to(self, counts: Floats, items: Items, shown: ShownCounts) -> Floats:
        """How many people of each cell have its value (or group) in any row, if `counts` have it in the release.

        Those who have it in other rows alone are spread evenly over the people who have such rows.
        """
        more = values_left_out(items, shown)
        shares = self.people / max(float(self.people.sum()), 1e-300)
        raised = counts + more[shown.values] * shares[shown.buckets]
        having: Floats = np.minimum(raised, shown.sizes.people[shown.buckets])
        return having


def values_left_out(items: Items, shown: ShownCounts) -> Integers:
    """By value, how many people have it in rows alone that are not in the release."""
    there = np.bincount(shown.values, weights=shown.counts, minlength=shown.kinds).astype(np.int64)
    more: Integers = np.maximum(np.bincount(items.codes, minlength=shown.kinds) - there, 0)
    return more


def check_classes(classes: Integers, unit_classes: Integers, what: str, left_out: Bits | None = None) -> None:
    """The table and the release as multisets of rows, or of people; `left_out` are those with rows that are not there.

    These are somewhere among the places that the others leave.
    """
    if len(unit_classes) != len(classes):
        raise InputError(
            f"the table is not that of the release: it has {len(unit_classes):,} {what}, "
            f"and the release {len(classes):,}",
            SAME_TABLE,
        )
    whole = unit_classes if left_out is None else unit_classes[~left_out]
    kinds = int(max(classes.max(initial=-1), unit_classes.max(initial=-1))) + 1
    places, there = np.bincount(classes, minlength=kinds), np.bincount(whole[whole >= 0], minlength=kinds)
    differ = int(np.maximum(there - places, 0).sum()) + int((whole < 0).sum())
    if differ:
        raise InputError(f"the table is not that of the release: {differ:,} {what} differ", SAME_TABLE)


def check_values(
    items: Sequence[Items], shown: Sequence[ShownCounts], left_out: bool = False, fakes: bool = False
) -> None:
    """Each value has as many people in the table as in the release; more if rows were left out, fewer with fakes."""
    for own, one in zip(items, shown, strict=True):
        there = np.bincount(one.values, weights=one.counts, minlength=one.kinds).astype(np.int64)
        more = np.bincount(own.codes, minlength=one.kinds) - there
        if ((more > 0).any() and not left_out) or ((more < 0).any() and not fakes):
            raise InputError("the table is not that of the release: the sensitive values are others", SAME_TABLE)


def check_room(surplus: int) -> None:
    """No values may be left over wherever people are."""
    if surplus:
        raise InputError(
            "the table cannot have given this release: the buckets of people with the same quasi-identifiers have no "
            f"room for {surplus:,} of their values",
            SAME_TABLE,
        )


def check_linked(linked: Linked) -> None:
    """If nearly nothing fits, it is another table, although nothing proves it."""
    if linked.misplaced > _TOO_FAR * linked.held:
        raise InputError(
            "the table is hardly that of the release: no buckets with room were found for "
            f"{linked.misplaced / linked.held:.0%} of its values",
            SAME_TABLE,
        )


def with_rows_left_out(persons: Persons, records: Records, rows: int) -> Bits | None:
    """The people of the table who have more rows than anybody keeps; None if no row was left out."""
    if not persons.dropped:
        return None
    missing = len(records.people) - rows
    if missing != persons.dropped:
        raise InputError(
            f"the table is not that of the release: {persons.dropped:,} of its rows were left out, and this one has "
            f"{missing:,} more than the release",
            SAME_TABLE,
        )
    return np.bincount(records.people) > (persons.most_rows or 0)


def expected_left_out(classes: Integers, unit_classes: Integers, buckets: Integers, left_out: Bits) -> Floats:
    """Of each bucket, how many people with rows that were left out: the places of a class that others leave, evenly."""
    kinds = int(classes.max(initial=-1)) + 1
    whole = unit_classes[~left_out]
    places = np.bincount(classes, minlength=kinds)
    free = places - np.bincount(whole[(whole >= 0) & (whole < kinds)], minlength=kinds)
    shares = free / np.maximum(places, 1)
    return np.bincount(buckets, weights=shares[classes]).astype(np.float64)
