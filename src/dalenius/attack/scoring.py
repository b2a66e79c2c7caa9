"""How well beliefs fare: guesses against the truth, and claims against the limits.

A guess is a row's most probable value; where several are, each counts for its part. A claim is a (person, value) with
p > limit: by more than 1e-9, since beliefs are floating point and a count may be at its limit exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.attack.people import People
from dalenius.infer.candidates import Beliefs, Candidates, Floats
from dalenius.model.attack_result import Attack, Share

_ABOVE = 1e-9
_TIE = 1e-12
_BINS = 10
_MOST_EXPOSED = 10


@dataclass
class Scores:
    """Sums over people."""

    people: int
    right: float = 0.0
    baseline: float = 0.0
    control: float = 0.0
    above: int = 0
    claims: int = 0
    claims_right: float = 0.0
    limits: float = 0.0
    beliefs: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((3, _BINS)))  # candidates, their beliefs, the truth of them
    exposed: list[tuple[int, float, int, int]] = field(default_factory=list)  # above, excess, bucket, size


def score(
    candidates: Candidates, limits: Sequence[Fraction], beliefs: Beliefs, people: People | None, frequencies: Floats
) -> Scores:
    """Everything that beliefs are judged by. `frequencies` are the shares of all values, for the control."""
    most = np.array([float(limit) for limit in limits])
    found = Scores(candidates.rows)
    for place, block in enumerate(candidates.blocks):
        p = beliefs[place][:, : block.size]
        shares = block.counts / block.slots
        truth = people.truth[place][:, : block.size] if people is not None else None
        top = guesses(p)
        found.control += float((top * frequencies[block.values][:, None, :]).sum())
        if truth is None:
            found.baseline += block.size * float(shares.max(axis=1).sum())
        else:
            found.right += float((top * truth).sum())
            found.baseline += float((guesses(shares[:, None, :]) * truth).sum())
        allowed = most[block.values][:, None, :]
        claims = p > allowed + _ABOVE
        above = claims.any(axis=2).sum(axis=1)
        found.above += int(above.sum())
        found.claims += int(claims.sum())
        found.limits += float((claims * allowed).sum())
        found.beliefs += float(p[claims].sum())
        if truth is not None:
            found.claims_right += float(truth[claims].sum())
        _add_to_bins(found.bins, p, truth)
        excess = ((p - allowed) * claims).sum(axis=(1, 2))
        _add_exposed(found, above.tolist(), excess.tolist(), candidates.numbers[block.buckets].tolist(), block.size)
    return found


def guesses(p: Floats) -> Floats:
    """The most probable values, sharing 1 where there are several."""
    top = p >= p.max(axis=-1, keepdims=True) - _TIE
    shared: Floats = top / top.sum(axis=-1, keepdims=True)
    return shared


def attack(
    name: str,
    found: Scores,
    with_truth: bool,
    details: dict[str, Any],
    notes: tuple[str, ...],
    control: Share | None = None,
) -> Attack:
    """The scores as a result; `control` replaces the one of shuffled truth."""
    people = found.people
    shared = {
        "mean_belief": _mean(found.beliefs, found.claims),
        "calibration": calibration(found.bins, with_truth),
        "most_exposed": most_exposed(found.exposed),
    }
    return Attack(
        name,
        people,
        Share.of(found.right, people) if with_truth else None,
        Share.of(found.baseline, people),
        control or (Share.of(found.control, people) if with_truth else None),
        found.above,
        found.claims,
        round(found.claims_right) if with_truth else None,
        _mean(found.limits, found.claims),
        {**shared, **details},
        notes,
    )


def calibration(bins: Floats, with_truth: bool) -> list[dict[str, Any]]:
    """Of the candidates believed with a probability in each tenth: how many, the mean belief, and how many are true."""
    return [
        {
            "from": place / _BINS,
            "to": (place + 1) / _BINS,
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
        top = sums >= best - _ABOVE
        right = np.add.reduceat(top * truth, first) / np.add.reduceat(top.astype(np.float64), first)
        return float(right.sum() / candidates.rows)

    return {"success": success(beliefs), "baseline": success(candidates.shares())}


def _add_to_bins(bins: Floats, p: Floats, truth: Floats | None) -> None:
    places = np.minimum((p * _BINS).astype(np.int64), _BINS - 1).ravel()
    bins[0] += np.bincount(places, minlength=_BINS)
    bins[1] += np.bincount(places, weights=p.ravel(), minlength=_BINS)
    if truth is not None:
        bins[2] += np.bincount(places, weights=truth.ravel(), minlength=_BINS)


def _add_exposed(found: Scores, above: list[int], excess: list[float], numbers: list[int], size: int) -> None:
    rows = [(a, e, number, size) for a, e, number in zip(above, excess, numbers, strict=True) if a]
    found.exposed = sorted([*found.exposed, *rows], key=lambda row: (-row[0], -row[1], row[2]))[:_MOST_EXPOSED]


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None
