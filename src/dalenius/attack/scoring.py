"""How good beliefs are: guesses against the truth, and claims against the limits.

A guess is a row's most probable value; where several are, each counts for its part. Claims are in `claims`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalenius.attack.aligned_rows import People
from dalenius.attack.claims import ABOVE, ClaimSums, LimitedGroups
from dalenius.attack.reading import Target
from dalenius.infer.candidates import Beliefs, Candidates, Floats
from dalenius.model.attack_result import Attack, Claims, Share

TIE = 1e-12
_SOME = 1e-6
BINS = 10
_MOST_EXPOSED = 10


@dataclass
class Scores:
    """Sums over people; `groups` are claims about groups of values, if any of them has a limit."""

    people: int
    values: ClaimSums
    groups: ClaimSums | None = None
    right: float = 0.0
    baseline: float = 0.0
    control: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((3, BINS)))  # candidates, their beliefs, the truth of them
    exposed: list[tuple[int, float, int, int]] = field(default_factory=list)  # above, excess, bucket, size


def score(target: Target, beliefs: Beliefs) -> Scores:
    """Everything that beliefs are judged by: how probable every value of a bucket is for each of its rows."""
    candidates, people, frequencies = target.candidates, target.people, target.frequencies
    scores = Scores(candidates.rows, ClaimSums(target.limits))
    if target.groups is not None:
        scores.groups = ClaimSums(target.groups.limits)
    for place, block in enumerate(candidates.blocks):
        p = beliefs[place][:, : block.size]
        shares = block.counts / block.slots
        truth = people.truth[place][:, : block.size] if people is not None else None
        top = guesses(p)
        scores.control += float((top * frequencies[block.values][:, None, :]).sum())
        if truth is None:
            scores.baseline += block.size * float(shares.max(axis=1).sum())
        else:
            scores.right += float((top * truth).sum())
            scores.baseline += float((guesses(shares[:, None, :]) * truth).sum())
        excess = scores.values.add(p, block.values, truth)
        if target.groups is not None and scores.groups is not None:
            target.groups.add_claims(scores.groups, block, p, truth)
        _add_to_bins(scores.bins, p, truth)
        above = (excess > 0).any(axis=2).sum(axis=1)
        numbers = candidates.numbers[block.buckets].tolist()
        _add_exposed(scores, above.tolist(), excess.sum(axis=(1, 2)).tolist(), numbers, block.size)
    return scores


def guesses(p: Floats) -> Floats:
    """The most probable values, sharing 1 where there are several."""
    top = p >= p.max(axis=-1, keepdims=True) - TIE
    shared: Floats = top / top.sum(axis=-1, keepdims=True)
    return shared


def attack_result(
    name: str,
    scores: Scores,
    target: Target,
    details: dict[str, Any],
    notes: tuple[str, ...] = (),
    control: Share | None = None,
) -> Attack:
    """The scores as a result; `control` replaces that of somebody else's truth."""
    people, with_truth = scores.people, target.people is not None
    shared = {
        "mean_belief": scores.values.mean_belief,
        "calibration": calibration(scores.bins, with_truth),
        "most_exposed": most_exposed(scores.exposed),
    }
    groups = None
    if scores.groups is not None and target.groups is not None:
        groups = group_claims(scores.groups, target.groups, with_truth)
    return Attack(
        name=name,
        people=people,
        success=Share.of(scores.right, people) if with_truth else None,
        baseline=Share.of(scores.baseline, people),
        control=control or (Share.of(scores.control, people) if with_truth else None),
        details={**shared, **details},
        notes=notes,
        groups=groups,
        worst=scores.values.worst([entry.value for entry in target.release.manifest.values]) if with_truth else (),
        **claims_of(scores.values, with_truth),
    )


def group_claims(sums: ClaimSums, groups: LimitedGroups, with_truth: bool) -> Claims:
    """Claims about groups: where too many are true, some group is named, however few of its own are."""
    return Claims(**{**claims_of(sums, with_truth), "worst": sums.worst(groups.names, _SOME) if with_truth else ()})


def claims_of(sums: ClaimSums, with_truth: bool) -> dict[str, Any]:
    """Sums as the fields of `Claims`."""
    return {
        "people_above_limit": sums.people,
        "claims": sums.claims,
        "claims_right": round(sums.right) if with_truth else None,
        "mean_limit": sums.mean_limit,
    }


def calibration(bins: Floats, with_truth: bool) -> list[dict[str, Any]]:
    """Of the candidates believed with a probability in each tenth: how many, the mean belief, and how many are true."""
    return [
        {
            "from": place / BINS,
            "to": (place + 1) / BINS,
            "candidates": round(count),
            "mean_belief": _mean(believed, count),
            "right": _mean(true, count) if with_truth else None,
        }
        for place, (count, believed, true) in enumerate(bins.T.tolist())
    ]


def most_exposed(exposed: list[tuple[int, float, int, int]]) -> list[dict[str, int]]:
    """The buckets with the most people above a limit; never a person."""
    return [
        {"bucket": bucket, "size": size, "people_above_limit": above} for above, _, bucket, size in exposed if above
    ]


def by_quasi_identifiers(candidates: Candidates, beliefs: Beliefs, people: People) -> dict[str, float] | None:
    """The attacker who knows a person's quasi-identifiers and not the row: the mean over the rows that it may be.

    In a sample not all of these rows are there, so there is no answer.
    """
    if not people.whole or not len(people.classes.cell_counts):
        return None
    keys = [
        people.classes.class_of[block.rows][:, :, None] * candidates.values + block.values[:, None, :]
        for block in candidates.blocks
    ]
    cells, inverse = np.unique(np.concatenate([key.ravel() for key in keys]), return_inverse=True)
    truth_keys = people.classes.cell_classes * candidates.values + people.classes.cell_values
    place = np.minimum(np.searchsorted(truth_keys, cells), len(truth_keys) - 1)
    truth = np.where(truth_keys[place] == cells, people.classes.cell_counts[place], 0)
    first = np.flatnonzero(np.diff(cells // candidates.values, prepend=-1))

    def success(held: Beliefs) -> float:
        parts = [p[:, : block.size].ravel() for block, p in zip(candidates.blocks, held, strict=True)]
        sums = np.bincount(inverse, weights=np.concatenate(parts), minlength=len(cells))
        best = np.repeat(np.maximum.reduceat(sums, first), np.diff(np.append(first, len(cells))))
        top = sums >= best - ABOVE
        right = np.add.reduceat(top * truth, first) / np.add.reduceat(top.astype(np.float64), first)
        return float(right.sum() / candidates.rows)

    return {"success": success(beliefs), "baseline": success(candidates.shares())}


def _add_to_bins(bins: Floats, p: Floats, truth: Floats | None) -> None:
    places = np.minimum((p * BINS).astype(np.int64), BINS - 1).ravel()
    bins[0] += np.bincount(places, minlength=BINS)
    bins[1] += np.bincount(places, weights=p.ravel(), minlength=BINS)
    if truth is not None:
        bins[2] += np.bincount(places, weights=truth.ravel(), minlength=BINS)


def _add_exposed(scores: Scores, above: list[int], excess: list[float], numbers: list[int], size: int) -> None:
    rows = [(a, e, number, size) for a, e, number in zip(above, excess, numbers, strict=True) if a]
    scores.exposed = sorted([*scores.exposed, *rows], key=lambda row: (-row[0], -row[1], row[2]))[:_MOST_EXPOSED]


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None
