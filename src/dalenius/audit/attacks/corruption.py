"""The corrupting attacker: knows the sensitive values of q records of a bucket, and infers those of the rest.

Chosen. If they may choose which q records of others they know, the worst for value x is that none of them has x. With c
the count of x in a bucket of S rows and sigma fake values, what is left to x is

    c / (S - q)                 whatever the fakes are: the promise of a release for q <= Q,
    c / (S + sigma - q)         if nobody can tell fake from real,

and 1 where that is more. It is above the limit f iff S + sigma - q < c / f, that is from

    q* = S + sigma + 1 - ceil(c / f)

known records on, on exact ratios; for f = 1 never. At most S - 1 are others', so q* > S - 1 never comes. A bucket's q*
is the smallest of its values', and that is all that has to be kept of it.

Random. In a possible world, with fakes drawn from the truth where it is given and otherwise at random, records become
known one after another in random order, and the rest is guessed by the counts that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.audit.attacks.people import People
from dalenius.audit.attacks.scoring import guesses
from dalenius.audit.runs import Integers, WholeBuckets
from dalenius.infer.candidates import Block, Candidates, Floats
from dalenius.model.attack import Attack, Share

NAME = "corruption"
_FAR = 2**40  # more than any bucket has
_SWEEP = 64  # numbers of known records that are tried
_MOST_EXPOSED = 10
_ABOVE = 1e-9


class Exposure:
    """Every bucket in passing: from how many known records on a value of it is above its limit."""

    def __init__(self, limits: Sequence[Fraction], fakes: int) -> None:
        self._limits = limits
        self._fakes = fakes
        self._needed: dict[tuple[int, int], int] = {}
        self._people: list[dict[int, int]] = [{}, {}]  # rows by q*, without and with the fakes
        self._most: dict[int, Integers] = {}  # the largest count of each value, by size
        self._exposed: list[tuple[int, int, int]] = []  # q* with the promise's rule, -size, bucket
        self.largest = 0
        self.rows = 0

    def add(self, whole: WholeBuckets) -> None:
        """The next buckets."""
        if not len(whole.sizes):
            return
        sizes = whole.sizes - self._fakes
        self.largest = max(self.largest, int(sizes.max()))
        self.rows += int(sizes.sum())
        needed = np.maximum.reduceat(self._needed_by_run(whole), whole.first_runs)  # the largest ceil(c / f)
        for kind, fakes in enumerate((0, self._fakes)):
            starts = np.maximum(sizes + fakes + 1 - needed, 0)
            reached = np.flatnonzero(starts <= sizes - 1)
            for start in np.unique(starts[reached]).tolist():
                people = int(sizes[reached][starts[reached] == start].sum())
                self._people[kind][start] = self._people[kind].get(start, 0) + people
            if kind == 0:
                first = reached[np.lexsort((-sizes[reached], starts[reached]))][:_MOST_EXPOSED]
                rows = zip(starts[first].tolist(), (-sizes[first]).tolist(), whole.numbers[first].tolist(), strict=True)
                self._exposed = sorted([*self._exposed, *rows])[:_MOST_EXPOSED]
        self._add_most(whole, sizes)

    def people_above(self, known: int, rule: int) -> int:
        """Rows of the buckets with a value above its limit; `rule` 0 is the promise's, 1 counts on the fakes."""
        return sum(people for start, people in self._people[rule].items() if start <= known)

    def worst_ratio(self, known: int, fakes: int) -> float:
        """The largest posterior / limit of any value in any bucket."""
        limits = np.array([float(limit) for limit in self._limits])
        return max(
            float((np.minimum(1.0, most / (size + fakes - min(known, size - 1))) / limits).max())
            for size, most in self._most.items()
        )

    def exposed(self, known: int) -> list[dict[str, int]]:
        """Buckets with a value above its limit after the fewest known records."""
        return [
            {"bucket": bucket, "size": -size, "people_above_limit": -size}
            for start, size, bucket in self._exposed
            if start <= known
        ]

    def _needed_by_run(self, whole: WholeBuckets) -> Integers:
        """ceil(c / f) of every run."""
        counts = whole.counts
        pairs, inverse = np.unique(np.stack([whole.codes.astype(np.int64), counts]), axis=1, return_inverse=True)
        found = []
        for pair in zip(*pairs.tolist(), strict=True):
            if pair not in self._needed:
                code, count = pair
                limit = self._limits[code] if code < len(self._limits) else Fraction(1)
                above = limit < 1  # nothing is above a limit of 1
                self._needed[pair] = min(_FAR, -(-count * limit.denominator // limit.numerator)) if above else 0
            found.append(self._needed[pair])
        needed: Integers = np.array(found, np.int64)[inverse.ravel()]
        return needed

    def _add_most(self, whole: WholeBuckets, sizes: Integers) -> None:
        by_run = whole.of_runs(sizes)
        listed = whole.codes < len(self._limits)
        for size in np.unique(sizes).tolist():
            most = self._most.setdefault(size, np.zeros(len(self._limits), np.int64))
            runs = (by_run == size) & listed
            np.maximum.at(most, whole.codes[runs], whole.counts[runs])


@dataclass
class _World:
    """Sums over the people who are not yet known, by the number of known records; claims for one such number."""

    right: Floats
    control: Floats
    people: Floats
    claims: int = 0
    claims_right: float = 0.0
    limits: float = 0.0


def corruption(
    exposure: Exposure,
    candidates: Candidates,
    limits: Sequence[Fraction],
    people: People | None,
    frequencies: Floats,
    known: int,
    promised: int,
) -> Attack:
    """Both attackers: people above their limit by the chosen records, guesses by random ones."""
    sweep = _numbers_known(exposure.largest, known)
    world = _simulated(candidates, limits, people, frequencies, max(sweep), known)
    fakes = candidates.fakes
    by_known: list[dict[str, Any]] = []
    for q in sweep:
        rule = 0 if q <= promised else 1
        by_known.append(
            {
                "known": q,
                "worst_ratio": exposure.worst_ratio(q, fakes * rule),
                "people_above_limit": exposure.people_above(q, rule),
                "success": float(world.right[q] / world.people[q]) if world.people[q] else None,
            }
        )
    remaining = round(float(world.people[known]))
    details = {"known": known, "by_known": by_known, "most_exposed": exposure.exposed(known)}
    broken = exposure.people_above(promised, 0)
    return Attack(
        NAME,
        remaining,
        Share.of(float(world.right[known]), remaining),
        Share.of(float(world.right[0] / max(1.0, world.people[0])) * remaining, remaining),
        Share.of(float(world.control[known]), remaining),
        exposure.people_above(known, 0 if known <= promised else 1),
        world.claims,
        round(world.claims_right),
        world.limits / world.claims if world.claims else None,
        details,
        _notes(known, promised, fakes),
        (_broken(broken, promised),) if broken else (),
    )


def _broken(people: int, promised: int) -> str:
    known = f"whose attacker knows {promised:,} records of a bucket" if promised else "whose attacker knows no record"
    return f"{people:,} people, {known}, are in a bucket where a value is above its limit"


def _notes(known: int, promised: int, fakes: int) -> tuple[str, ...]:
    notes = []
    if known > promised:
        notes.append(f"The release promises nothing to people of whose bucket more than {promised:,} records are known")
    if fakes and known > promised:
        notes.append("People above their limit are counted as if nobody could tell fake values from real ones")
    return tuple(notes)


def _numbers_known(largest: int, known: int) -> list[int]:
    """0 .. largest - 1, and the one asked for; of many, some."""
    every = np.unique(np.linspace(0, max(0, largest - 1), min(largest, _SWEEP)).astype(np.int64)).tolist()
    return sorted({*every, known})


def _simulated(
    candidates: Candidates,
    limits: Sequence[Fraction],
    people: People | None,
    frequencies: Floats,
    most: int,
    known: int,
) -> _World:
    world = _World(np.zeros(most + 1), np.zeros(most + 1), np.zeros(most + 1))
    rng = np.random.default_rng(0)
    allowed = np.array([float(limit) for limit in limits])
    for place, block in enumerate(candidates.blocks):
        fake = people.truth[place][:, -1] if people is not None and block.fakes else None
        _reveal(block, fake, allowed, frequencies, world, known, rng)
    return world


def _reveal(
    block: Block,
    fake: Floats | None,
    allowed: Floats,
    frequencies: Floats,
    world: _World,
    known: int,
    rng: np.random.Generator,
) -> None:
    """Records become known in random order: told backwards, from all known to none."""
    order = _world(block, fake, rng)
    buckets = np.arange(len(block.buckets))
    held = np.zeros(block.values.shape)
    for slot in range(block.size, block.slots):
        held[buckets, order[:, slot]] += 1
    fakes = held.copy()
    for left in range(1, block.size + 1):
        held[buckets, order[:, left - 1]] += 1
        q = block.size - left
        if q >= len(world.people):
            continue
        top = guesses(held)
        right = float((top * (held - fakes)).sum())
        control = left * float((top * frequencies[block.values]).sum())
        everyone = left * len(buckets)
        # who knows more records than there are others knows all of these
        here = slice(q, None) if left == 1 else slice(q, q + 1)
        world.right[here] += right
        world.control[here] += control
        world.people[here] += everyone
        if q == min(known, block.size - 1):
            claims = held > (allowed[block.values] + _ABOVE) * (left + block.fakes)
            world.claims += left * int(claims.sum())
            world.claims_right += float((held - fakes)[claims].sum())
            world.limits += left * float(allowed[block.values][claims].sum())


def _world(block: Block, fake: Floats | None, rng: np.random.Generator) -> Integers:
    """The slots of each bucket (places among its values) in random order, the fakes last.

    Where the truth says how many fakes of each value to expect, each value has that many, rounded up or down
    (systematic sampling: a step of 1 over the slots' cumulative probabilities, from a random start).
    """
    ends = np.cumsum(block.counts, axis=1)
    value_of: Integers = np.empty((len(ends), block.slots), np.int64)
    for slot in range(block.slots):
        value_of[:, slot] = (ends <= slot).sum(axis=1)
    keys = rng.random(value_of.shape)
    if fake is not None:
        reached = np.cumsum(np.take_along_axis(fake / block.counts, value_of, axis=1), axis=1)
        reached *= block.fakes / np.maximum(reached[:, -1:], 1e-300)
        steps = np.floor(np.round(reached, 9) + rng.random((len(ends), 1)))
        keys += np.diff(steps, axis=1, prepend=0.0) > 0
    return np.take_along_axis(value_of, np.argsort(keys, axis=1), axis=1)
