"""Where people are, and what buckets show of them: how exposed everybody is, and whose value nothing hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dalenius.errors import ClearValuesError
from dalenius.model.exposure import BANDS, Exposure, ValueExposure
from dalenius.place.domains import Integers
from dalenius.place.people import Items
from dalenius.publishing.people_limits import LimitedSet
from dalenius.publishing.people_strata import PeopleCut


@dataclass(frozen=True)
class Buckets:
    """Where everybody is: people in the order of their buckets, and the number of each bucket's people.

    `first` is the number of people before each stratum, in that order, and `of` the bucket of each person, from 1.
    """

    people: Integers
    of: Integers
    sizes: Integers
    strata: tuple[int, ...]  # people of each stratum

    @classmethod
    def of_cut(cls, cut: PeopleCut) -> Buckets:
        """Number the buckets of all strata, one stratum after the other."""
        people, numbers, sizes = [], [], []
        last = 0
        for stratum in cut.strata:
            of = stratum.solution.bucket_of.astype(np.int64)
            order = np.argsort(of, kind="stable")
            people.append(stratum.people[order])
            numbers.append(of[order] + last + 1)
            sizes.append(np.bincount(of))
            last += len(sizes[-1])
        counts = tuple(len(one) for one in people)
        return cls(np.concatenate(people), np.concatenate(numbers), np.concatenate(sizes), counts)

    def shown(self, items: Items, kinds: int) -> Shown:
        """What the buckets show of one sensitive set."""
        mine = items.take(self.people)
        cells, counts = np.unique(np.repeat(self.of, np.diff(mine.offsets)) * kinds + mine.codes, return_counts=True)
        buckets = cells // kinds - 1
        return Shown(buckets, cells % kinds, counts, self.sizes[buckets])


@dataclass(frozen=True)
class Shown:
    """So many people of a bucket of this size have a value: a line for each bucket, counted from 0, and each value."""

    buckets: Integers
    codes: Integers
    counts: Integers
    sizes: Integers


def exposure_of(buckets: Buckets, sets: Sequence[LimitedSet]) -> Exposure:
    """Of every person the probability of the likeliest value of their bucket; of every value, that of its people."""
    largest = np.zeros(len(buckets.sizes), dtype=np.int64)
    values: list[ValueExposure] = []
    for one in sets:
        shown = buckets.shown(one.items, len(one.limits))
        np.maximum.at(largest, shown.buckets, shown.counts)
        about = f"{one.column.name!r}: " if len(sets) > 1 else ""
        values += [replace(value, value=about + value.value) for value in _by_value(shown, one.column.texts)]
    levels = np.unique(np.stack([largest, buckets.sizes]), axis=1, return_counts=True)
    (counts, sizes), times = levels
    people = (sizes * times).tolist()
    return Exposure.of_people(values, zip(counts.tolist(), sizes.tolist(), people, strict=True))


def _by_value(shown: Shown, texts: Sequence[str]) -> tuple[ValueExposure, ...]:
    """The people who have each value, by the share of it in their bucket."""
    many = len(texts)
    band = BANDS * shown.counts // shown.sizes
    bands = np.bincount(shown.codes * (BANDS + 1) + band, weights=shown.counts, minlength=many * (BANDS + 1))
    sums = np.bincount(shown.codes, weights=shown.counts**2 / shown.sizes, minlength=many)
    highest = [(0, 1)] * many
    for code, count, size in set(zip(shown.codes.tolist(), shown.counts.tolist(), shown.sizes.tolist(), strict=True)):
        highest[code] = max(highest[code], (count, size), key=lambda one: Fraction(*one))
    return Exposure.of(texts, bands.reshape(many, BANDS + 1).tolist(), sums.tolist(), highest, ()).values


def refuse_clear_values(buckets: Buckets, sets: Sequence[LimitedSet]) -> None:
    """An error if a bucket shows a value of everybody in it, though nobody has asked for it."""
    everybody = int(buckets.sizes.sum())
    alone = int((buckets.sizes == 1).sum())
    for one in sets:
        shown = buckets.shown(one.items, len(one.limits))
        outright = shown.counts == shown.sizes
        clear = np.bincount(shown.codes[outright], weights=shown.counts[outright], minlength=len(one.limits))
        meant = [one.policy.values.get(text) == 1 for text in one.column.texts]
        clear[np.array(meant)] = 0
        if clear.any() or alone:
            named = [repr(one.column.texts[code]) for code in np.argsort(-clear, kind="stable")[:3] if clear[code]]
            raise ClearValuesError(
                f"{int(clear.sum()) or alone:,} of {everybody:,} people would have a value of {one.column.name!r} "
                f"published outright" + (f" ({', '.join(named)})" if named else ""),
                "Choose limits that stay below 1, such as --odds 8. If it is meant, say so: --publish-in-the-clear.",
            )
