"""The intersection of releases: what somebody believes who finds people again in releases of different times.

Of somebody linked in the buckets g_1 ... g_m, of V_k values with c_k(x) of value x, fake values and those of nobody
included, and whose value has not changed, the attacker believes

    p(x) in proportion to prod over k of c_k(x) / V_k.

A bucket that several releases of one chain have is one piece of evidence and counts once. Whoever is in another bucket
of the chain has moved, because their value changed: of what is known of the time before (p) and after (q) they believe

    P(before = x, after = y) in proportion to p(x) q(y), where x is not y.

Beliefs and limits are compared as whole numbers, c_1(x) ... c_m(x) / sum over y of c_1(y) ... c_m(y).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.over_time_links import Asked, SideBySide, read_side_by_side
from dalenius.attack.over_time_result import Movers, OverTime, ReleaseInTime, Sums
from dalenius.attack.over_time_scores import (
    NOWHERE,
    Buckets,
    add_up,
    limits_of_releases,
    new_chain,
    score,
    weigh,
    weigh_beside,
    weights_of,
)
from dalenius.errors import InputError, ReleaseError, UsageError
from dalenius.infer.candidates import Integers
from dalenius.model.attack_result import NewChain
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.verify.judge import verify
from dalenius.verify.release_files import require_folder

_NEEDED = frozenset({"files", "schema"})  # checks of verify without which there is nothing to attack
_ENTRIES = 2**20  # of (person, value) that are looked at at once


def audit_releases(
    releases: Sequence[Any],
    *,
    truth: Any = None,
    table: str | None = None,
    link: Sequence[str] | None = None,
    advance: Mapping[str, int | str | Fraction] | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
    seed: int | None = None,
) -> OverTime:
    """Intersect two or more releases of the same people, given oldest first: folders, or releases that were loaded.

    People are linked by `link`, or by all quasi-identifiers that the releases share. `advance` says by how much numbers
    grow from one release to the next, as {"age": 1}. `truth` is the table that the last release was made of, as in
    `Release.audit`. `memory` is what the whole program may take, in bytes. What a new chain would cost is estimated at
    random, with a `seed` always in the same way.
    """
    if len(releases) < 2:
        raise UsageError("an intersection needs two or more releases", "Give their folders, the oldest first.")
    progress = progress or Silent()
    folders = [_open(one, memory) for one in releases]
    asked = Asked(link, {name: _step(name, step) for name, step in (advance or {}).items()}, truth, table)
    progress.stage("Verifying")
    notes = [note for place, one in enumerate(folders) for note in _verified(one, place, memory)]
    try:
        side = read_side_by_side(folders, asked, progress)
        progress.stage("Intersecting")
        return _Attack(side).play((*notes, *side.notes), np.random.default_rng(_seed(seed)))
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException):
        if not notes:
            raise
        raise ReleaseError("the releases do not hold together", "Run 'dalenius verify' on each.") from None


def _open(release: Any, memory: int | None) -> ReleaseFolder:
    """From a folder, or from a release that knows its folder."""
    if isinstance(release, ReleaseFolder):
        return release if memory is None else release.within(memory)
    folder = Path(release if isinstance(release, (str, os.PathLike)) else release.path)
    require_folder(folder)
    return open_release(folder, memory)


def _step(name: str, step: int | str | Fraction) -> Fraction:
    try:
        return Fraction(str(step))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{name!r} cannot advance by what is no number", "Write --advance age=1.") from None


def _seed(seed: int | None) -> int:
    return secrets.randbits(128) if seed is None else seed


def _verified(release: ReleaseFolder, place: int, memory: int | None) -> Iterator[str]:
    """A note if a release does not verify; an error if there is nothing to attack."""
    failed = [check.check for check in verify(release, memory=memory).checks if not check.passed]
    if not _NEEDED.isdisjoint(failed):
        raise ReleaseError(
            f"release {place + 1} does not hold together ({', '.join(failed)}), so there is nothing to attack",
            "Run 'dalenius verify' on it.",
        )
    if failed:
        yield f"dalenius verify does not pass release {place + 1}: {', '.join(failed)}"


def cost_of_new_chain(release: ReleaseFolder, progress: Progress, seed: int | None = None) -> NewChain | None:
    """What a release beside the chain of this one would give away; None if it is of no chain."""
    if release.manifest.chain is None or not release.manifest.columns.quasi_identifiers:
        return None
    side = read_side_by_side([release], Asked(None, {}, None, None), progress)
    return _beside(side, np.random.default_rng(_seed(seed)))


def _beside(side: SideBySide, rng: np.random.Generator) -> NewChain:
    """The same for the last of the releases, with whoever nobody shares their combination with."""
    own = side.own[-1]
    owners, cells = side.buckets.cells(own)
    first = np.searchsorted(owners, np.arange(len(own) + 1))
    buckets = Buckets(first, side.buckets.values[cells], side.buckets.counts[cells], side.buckets.kinds)
    most = int(buckets.totals.max())
    (limits,), kind = limits_of_releases(side.releases[-1:], side.texts, [most, most])
    return new_chain(buckets, np.searchsorted(own, side.alone), limits, kind, rng)


class _Attack:
    """Plays the attack on everybody who is linked."""

    def __init__(self, side: SideBySide) -> None:
        self._side, self._truth = side, side.truth
        totals = side.buckets.totals
        most = [int(totals[own].max(initial=1)) for own in side.own]
        self._limits, self._kind = limits_of_releases(side.releases, side.texts, most)
        releases = len(side.releases)
        self._last = releases - 1 - np.argmax(side.people[:, ::-1] >= 0, axis=1)
        self._check_truth()

    def play(self, notes: tuple[str, ...], rng: np.random.Generator) -> OverTime:
        """All of it."""
        side = self._side
        since, left, came = moves(side)
        stayed = np.flatnonzero(came < 0)
        moved = np.flatnonzero(came >= 0)
        evidence = without_repeats(side.people)
        several = (evidence >= 0).sum(axis=1) > 1
        both = stayed[several[stayed]]
        intersection, baseline, control = Sums(), Sums(), Sums()
        self._add(stayed, evidence, baseline, intersection)
        if len(both):
            self._add(both, _at_random(side, both), Sums(), control)
        linked = np.bincount((side.people >= 0).sum(axis=1), minlength=len(side.releases) + 1)
        beside = None
        if side.releases[-1].manifest.chain is not None:
            beside = _beside(side, rng)
        return OverTime(
            releases=tuple(self._facts()),
            columns=side.columns,
            linked={number: int(linked[number]) for number in range(2, len(linked))},
            one_bucket=len(stayed) - len(both),
            intersection=intersection,
            baseline=baseline,
            control=control if len(both) else None,
            movers=self._movers(moved, since, left, came) if any(one >= 0 for one in side.follows) else None,
            new_chain=beside,
            with_truth=self._truth is not None,
            notes=notes,
        )

    def _check_truth(self) -> None:
        """Refuse a table that is not that of the last release."""
        if self._truth is None:
            return
        if not (self._truth >= 0).any():
            raise InputError(
                "nobody who is linked is found in the table", "Give the table that the last release was made of."
            )
        there = np.flatnonzero((self._side.people[:, -1] >= 0) & (self._truth >= 0))
        values = self._truth[there]
        known = values < len(self._side.texts)
        counts = self._side.buckets.count(self._side.people[there[known], -1], values[known])
        wrong = int((counts == 0).sum() + (~known).sum())
        if wrong:
            raise InputError(
                f"the table is not that of the last release: {wrong:,} people have values that their buckets have not",
                "Give the table that the last release was made of, with the values as they were published.",
            )

    def _facts(self) -> Iterator[ReleaseInTime]:
        """The releases, with the people who are above their limits by each alone."""
        side, buckets = self._side, self._side.buckets
        of_limits = []
        for limits in self._limits:
            alone = score(
                buckets.owners, buckets.values, buckets.counts.astype(self._kind), len(buckets.totals), limits, None
            )
            of_limits.append(alone.above | alone.above_group)
        for place, one in enumerate(side.releases):
            there = np.flatnonzero(side.people[:, place] >= 0)
            above = sum(
                int(flags[side.people[there[self._last[there] == last], place]].sum())
                for last, flags in enumerate(of_limits)
            )
            manifest, follows = one.manifest, side.follows[place]
            yield ReleaseInTime(
                manifest.rows,
                manifest.buckets,
                manifest.chain.release if manifest.chain is not None else None,
                follows + 1 if follows != NOWHERE else None,
                len(there),
                above,
            )

    def _add(self, people: Integers, evidence: Integers, baseline: Sums, intersection: Sums) -> None:
        """Score some people by all of their evidence, and by the bucket of the last release alone."""
        side = self._side
        for last, limits in enumerate(self._limits):
            of_last = people[self._last[people] == last]
            for part in _parts(side.buckets, side.people[of_last, last]):
                some = of_last[part]
                truth = self._truth[some] if self._truth is not None else None
                alone = side.people[some, last][:, None]
                one = score(*weigh(side.buckets, alone, self._kind), len(some), limits, truth)
                own = score(*weigh(side.buckets, evidence[some], self._kind), len(some), limits, truth)
                baseline.add(one, truth)
                intersection.add(own, truth, otherwise=one)

    def _movers(self, moved: Integers, since: Integers, left: Integers, came: Integers) -> Movers:
        side, kinds = self._side, len(self._side.texts)
        above = pinned = nothing = 0
        ratio = 0.0
        columns = np.arange(len(side.releases))
        for last, limits in enumerate(self._limits):
            of_last = moved[self._last[moved] == last]
            for part in _parts(side.buckets, side.people[of_last, last]):
                some = of_last[part]
                old = (columns >= since[some, None]) & (columns <= left[some, None])
                new = columns >= came[some, None]
                sides = [
                    weigh(side.buckets, without_repeats(np.where(these, side.people[some], NOWHERE)), self._kind)
                    for these in (old, new)
                ]
                found = []
                for (owners, values, weights), (others, other_values, other_weights) in (sides, sides[::-1]):
                    sums = add_up(other_weights, others, len(some))
                    same = weights_of(others * kinds + other_values, other_weights, owners * kinds + values)
                    joint = weights * (sums[owners] - same)
                    able = joint > 0
                    found.append(score(owners[able], values[able], joint[able], len(some), limits, None))
                one, two = found
                above += int((one.above | one.above_group | two.above | two.above_group).sum())
                pinned += int((one.pinned | two.pinned).sum())
                nothing += int(one.nothing.sum())
                ratio = max(ratio, one.ratio, two.ratio)
        return Movers(len(moved), above, pinned, nothing, ratio, *self._bystanders(moved, left, came))

    def _bystanders(self, moved: Integers, left: Integers, came: Integers) -> tuple[int, int, float]:
        """Who shares a bucket of the last release with a mover, how many of them are above a limit by any one mover,
        and the largest belief by its limit."""
        side = self._side
        own = side.own[-1]
        pairs = np.stack([side.people[moved, left[moved]], side.people[moved, came[moved]]], axis=1)
        pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
        pairs = pairs[np.isin(pairs[:, 0], own)]  # of the chain of the last release
        of_movers = side.people[moved, -1]
        people = np.bincount(side.alone, minlength=len(side.buckets.totals))
        people -= np.bincount(of_movers[of_movers >= 0], minlength=len(people))
        there = np.unique(pairs[:, 0])
        most = int(side.buckets.totals.max())
        (limits,), kind = limits_of_releases(side.releases[-1:], side.texts, [most] * 3)
        above, ratio = np.zeros(len(people), bool), 0.0
        for part in _parts(side.buckets, pairs[:, 0]):
            some = pairs[part]
            found = score(*weigh_beside(side.buckets, some[:, 0], some[:, 1], kind), len(some), limits, None)
            flagged = some[found.above | found.above_group, 0]
            above[flagged[people[flagged] > 0]] = True
            ratio = max(ratio, found.ratio)
        return int(people[there].sum()), int(people[above].sum()), ratio


def _parts(buckets: Buckets, own: Integers) -> Iterator[slice]:
    """Some people at a time, by the number of values in a bucket of each."""
    ends = np.cumsum(np.diff(buckets.first)[own])
    start = 0
    while start < len(own):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ENTRIES, side="right")))
        yield slice(start, stop)
        start = stop


def moves(side: SideBySide) -> tuple[Integers, Integers, Integers]:
    """The last move of each person: since which release they were in the old bucket, when they were seen there last,
    and in which release they came into the new one; -1 for those who have not moved.
    """
    number, people = len(side.people), side.people
    since, left, came = np.zeros(number, np.int64), np.full(number, NOWHERE), np.full(number, NOWHERE)
    for place in range(len(side.releases)):
        undecided = people[:, place] >= 0
        for before in side.before(place):
            there = undecided & (people[:, before] >= 0)
            moved = np.flatnonzero(there & (people[:, before] != people[:, place]))
            since[moved] = np.where(came[moved] <= before, np.maximum(came[moved], 0), 0)
            left[moved], came[moved] = before, place
            undecided &= ~there
    return since, left, came


def without_repeats(people: Integers) -> Integers:
    """The buckets of each person, every one once: -1 where one is there again."""
    found = people.copy()
    for column in range(1, people.shape[1]):
        again = (people[:, :column] == people[:, column : column + 1]).any(axis=1)
        found[again, column] = NOWHERE
    return found


def _at_random(side: SideBySide, chosen: Integers) -> Integers:
    """The evidence of people who are linked with somebody else in all releases that are not of the last one's chain."""
    rng = np.random.default_rng(0)  # nothing secret: whom somebody is linked with by chance
    roots = np.array([[place, *side.before(place)][-1] for place in range(len(side.releases))])
    people = np.full_like(side.people, NOWHERE)
    people[chosen] = side.people[chosen]
    for root in np.unique(roots[roots != roots[-1]]).tolist():
        columns = np.flatnonzero(roots == root)
        there = (people[:, columns] >= 0) @ (2 ** np.arange(len(columns)))
        for pattern in np.unique(there[there > 0]).tolist():
            rows = np.flatnonzero(there == pattern)
            people[np.ix_(rows, columns)] = people[np.ix_(rng.permutation(rows), columns)]
    return without_repeats(people)
