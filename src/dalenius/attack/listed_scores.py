"""How good beliefs are that come as a list, and not bucket by bucket: guesses and claims, as in `scoring`.

An entry is a belief about an owner, who is one person or several people of whom the attacker believes the same: how
probable a value is, how many of these people have it, and how many of other people would, for the control.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalenius.attack.claims import ClaimSums, LimitedGroups
from dalenius.attack.scoring import BINS, TIE, calibration, claims_of, group_claims
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.attack_result import Attack, Share
from dalenius.release.folder import ReleaseFolder


@dataclass(frozen=True)
class Entries:
    """Beliefs in the order of owners. `right` and `others` are None without the truth."""

    owners: Integers
    values: Integers
    p: Floats
    right: Floats | None
    others: Floats | None


@dataclass
class ListedScores:
    """Sums over people, of whom `people` were looked at."""

    values: ClaimSums
    groups: ClaimSums | None = None
    people: int = 0
    right: float = 0.0
    baseline: float = 0.0
    control: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((3, BINS)))

    def add(self, entries: Entries, each: Integers) -> None:
        """Entries about owners, of whom owner k stands for `each[k]` people. Baselines are the caller's."""
        self.people += int(each.sum())
        self.values.add_listed(entries.p, entries.values, entries.owners, each, entries.right)
        top = best_of_each(entries.owners, entries.p)
        if entries.right is not None and entries.others is not None:
            self.right += float((top * entries.right).sum())
            self.control += float((top * entries.others).sum())
        weights = each[entries.owners].astype(np.float64)
        places = np.minimum((entries.p * BINS).astype(np.int64), BINS - 1)
        parts = [weights, weights * entries.p, entries.right if entries.right is not None else 0 * weights]
        for number, part in enumerate(parts):
            self.bins[number] += np.bincount(places, part, minlength=BINS)


def best_of_each(owners: Integers, p: Floats) -> Floats:
    """1 for the most probable entry of each owner; where there are several, each has its part. Owners are in order."""
    if not len(p):
        return np.zeros(0)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    lengths = np.diff(np.append(starts, len(p)))
    top = p >= np.repeat(np.maximum.reduceat(p, starts), lengths) - TIE
    shared: Floats = top / np.repeat(np.add.reduceat(top.astype(np.float64), starts), lengths)
    return shared


def listed_result(
    name: str,
    scores: ListedScores,
    release: ReleaseFolder,
    with_truth: bool,
    details: dict[str, Any],
    groups: LimitedGroups | None = None,
    **others: Any,
) -> Attack:
    """The scores as a result; `others` are further fields of it."""
    people = scores.people
    about = None
    if scores.groups is not None and groups is not None:
        about = group_claims(scores.groups, groups, with_truth)
    return Attack(
        name=name,
        people=people,
        success=Share.of(scores.right, people) if with_truth else None,
        baseline=Share.of(scores.baseline, people),
        control=Share.of(scores.control, people) if with_truth else None,
        details={
            "mean_belief": scores.values.mean_belief,
            "calibration": calibration(scores.bins, with_truth),
            **details,
        },
        groups=about,
        worst=scores.values.worst([entry.value for entry in release.manifest.values]) if with_truth else (),
        **claims_of(scores.values, with_truth),
        **others,
    )
