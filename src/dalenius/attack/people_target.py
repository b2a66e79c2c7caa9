"""What attackers on people are given."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.attack.claims import LimitedGroups
from dalenius.attack.linking import Items
from dalenius.attack.listed_scores import best_of_each
from dalenius.attack.reading import limits_of
from dalenius.attack.shown_counts import ShownCounts, read_group_counts
from dalenius.attack.whereabouts import Holders, Whereabouts
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

MOST_ENTRIES = 2**26  # of (row, value): where there are more, some people stand for all


@dataclass(frozen=True)
class PeopleTarget:
    """What attackers on people are given: a sensitive column of the release, what buckets show of it, and who is there.

    `number` is that of the column, `whole` the release with all of them, and `where` what is there of these. `holders`
    are the people whom attackers are about: those with several rows, or everybody. `items` are the values that they
    really have; None without the truth. `groups` are groups of values with a limit, and `shown_groups` what buckets
    show of them. `columns` are the names of all sensitive columns, and `several_values` says whether people can have
    several values of any of them.
    """

    release: ReleaseFolder
    whole: ReleaseFolder
    number: int
    where: Whereabouts
    shown: ShownCounts
    holders: Holders
    items: Items | None
    limits: tuple[Fraction, ...]
    groups: LimitedGroups | None
    shown_groups: ShownCounts | None
    progress: Progress
    columns: tuple[str, ...]
    several_values: bool

    @property
    def by_people(self) -> bool:
        """Whether a bucket is a set of people, so that everybody is in one of them."""
        return self.release.manifest.has_several_values


def people_target(release: ReleaseFolder, number: int, where: Whereabouts, progress: Progress) -> PeopleTarget:
    """The target for one sensitive column; of a release by rows, people who have several."""
    view = release.view(number)
    views = [release.manifest.view(place) for place in range(release.manifest.sets)]
    shown, groups = where.shown[number], LimitedGroups.of(view.manifest)
    holders = where.rows
    if not view.manifest.has_several_values and where.people is not None:
        holders = _some(where.people.take(np.flatnonzero(where.people.rows > 1)), shown)
    return PeopleTarget(
        release=view,
        whole=release,
        number=number,
        where=where,
        shown=shown,
        holders=holders,
        items=holders.items[number] if holders.items is not None else None,
        limits=tuple(limits_of(view)),
        groups=groups,
        shown_groups=read_group_counts(view, groups, shown) if groups is not None else None,
        progress=progress,
        columns=tuple(one.columns.sensitive.name for one in views),
        several_values=int(shown.sizes.rows_each.max(initial=1)) > 1
        or any(len(one.columns.sensitive.of) > 1 for one in views),
    )


def _some(holders: Holders, shown: ShownCounts) -> Holders:
    """A random sample of people, if there are too many values that they might have."""
    entries = np.cumsum(np.append(0, np.diff(shown.first)[holders.buckets]))[holders.first[1:]]
    if not len(entries) or entries[-1] <= MOST_ENTRIES:
        return holders
    share = MOST_ENTRIES / float(entries[-1])
    rng = np.random.default_rng(0)  # nothing secret: who stands for the others
    return holders.take(np.sort(rng.permutation(holders.number)[: max(1, int(share * holders.number))]))


def group_items(items: Items, groups: LimitedGroups) -> Items:
    """The groups that people have values of."""
    people = len(items.first) - 1
    holding = groups.holding[items.codes]
    owners = np.repeat(np.arange(people), np.diff(items.first))
    return Items.of(np.repeat(owners, holding.shape[1]), holding.ravel(), people, len(groups.names))


def one_bucket_guess(shown: ShownCounts) -> Floats:
    """For every cell whether it is the most frequent of its bucket; where several are, each has its part."""
    return best_of_each(shown.buckets, shown.counts.astype(np.float64))


def joined(keys: Integers, numbers: Floats, join: Any) -> tuple[Integers, Floats, Integers]:
    """The different keys in ascending order, their numbers joined, and how many these were."""
    if not len(keys):
        return keys, numbers, keys
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], join.reduceat(numbers[order], starts), np.diff(np.append(starts, len(keys)))


def in_groups(
    owners: Integers, values: Integers, p: Floats, groups: LimitedGroups, join: Any = np.add
) -> tuple[Integers, Integers, Floats]:
    """Beliefs in values as those in the groups that hold them: owner, group and sum, or whatever `join` makes of it."""
    holding = groups.holding[values]
    inside = holding >= 0
    keys = (owners[:, None] * len(groups.names) + holding)[inside]
    keys, sums, _ = joined(keys, np.broadcast_to(p[:, None], holding.shape)[inside], join)
    return keys // len(groups.names), keys % len(groups.names), sums
