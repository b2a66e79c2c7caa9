"""The corrupting attacker: knows the sensitive values of q records of a bucket, and infers those of the rest.

There are two of them.

Random. In a possible world, with fakes drawn from the truth where it is given and otherwise at random, records become
known one after another in random order, and the rest is guessed by the counts that are left. Success, baseline, control
and claims are this attacker's, about the people who are not yet known.

Chosen. An attacker who chooses which q records of others in the bucket to know can put people above their limits;
`Exposure` counts these people. Take a bucket of S rows with c of value x, of which k are among the q known records.
What is left to x for a person whose record is not known is (c - k) / n, with n = S - q, so the fewer of the known ones
have x the better. Of the S - 1 others, all but c - 1 are without x if the person has it, and all but c if not. So the
most that can be left is

    min(c, n) / n           for the c people who have x,
    min(c, n - 1) / n       for the others,

which is above the limit f, for f < 1, iff

    n < c / f                       for those who have x,
    n < c / f and n > 1 / (1 - f)   for the others;

for f = 1 never. An attacker who knows more records than there are others knows all of these: n = 1. A group of values
with a limit is as one value, and c is what the bucket has of all of them (`ChosenGroups`).

With sigma fake values in the bucket, the rule is that of the promise, n = S - q, up to the known records that the
release promises to withstand: it holds whatever the fakes are. Beyond them n = S + sigma - q, which holds if nobody can
tell fake from real. Which slots are fakes is not known, so all c may be somebody's, and the number of people is an
upper bound: it is 0 iff there is nobody. Without fakes it is exact.

Where people left, their places and values stay: S counts places, and those who left are others whose records may be
known. Whose the values of those who are there are is not known, so that the number of people is an upper bound as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.attack.claims import ClaimSums
from dalenius.attack.reading import Target
from dalenius.attack.scoring import group_claims, guesses
from dalenius.infer.candidates import Block, Floats, Integers
from dalenius.model.attack_result import Attack, Claims, Share
from dalenius.release.manifest import Manifest
from dalenius.verify.buckets import WholeBuckets
from dalenius.verify.stated_groups import GroupRuns, StatedGroups

NAME = "corruption"
_FAR = 2**40  # more than any bucket has
_MOST_EXPOSED = 10
_SWEEP = 64  # numbers of known records that are tried

Bits = npt.NDArray[np.bool_]


class ChosenRecords:
    """The chosen records: sees every bucket in passing, and counts the people who can be put above a limit.

    It does so for several numbers of known records; `known` is that of the attack itself. `present` are the people who
    are in each bucket, by its number, if some left.
    """

    present: Integers | None = None

    def __init__(
        self, limits: Sequence[Fraction], fakes: int, promised: int, known: int, numbers: Sequence[int] = ()
    ) -> None:
        self._limits = limits
        self._fakes, self._promised, self._known = fakes, promised, known
        self.numbers = sorted({known, promised, *numbers})
        self._people = dict.fromkeys(self.numbers, 0)
        self._needed: dict[tuple[int, int], int] = {}
        room = [min(_FAR, int(1 / (1 - limit))) if limit < 1 else _FAR for limit in limits]
        self._room = np.array([*room, _FAR], np.int64)  # the last is for values without a limit
        self._most: dict[int, Integers] = {}  # the largest count of each value, by size
        self._exposed: list[tuple[int, int, int]] = []  # -people, bucket, size
        self.rows = 0

    def add(self, whole: WholeBuckets) -> None:
        """The next buckets."""
        if not len(whole.sizes):
            return
        sizes = whole.sizes - self._fakes
        present = sizes if self.present is None else self.present[whole.numbers]
        self.rows += int(present.sum())
        needed = self._needed_by_run(whole)
        others, above = int(sizes.max()) - 1, {}
        for known in self.numbers:
            fakes = self._fakes_that_count(known)
            if (min(known, others), fakes) not in above:
                runs = self._runs_above(whole, sizes, needed, known)
                above[min(known, others), fakes] = self._above(whole, sizes, *runs)
            people = np.minimum(above[min(known, others), fakes], present)
            self._people[known] += int(people.sum())
            if known == self._known:
                first = np.argsort(-people, kind="stable")[:_MOST_EXPOSED]
                rows = zip((-people[first]).tolist(), whole.numbers[first].tolist(), sizes[first].tolist(), strict=True)
                self._exposed = sorted([*self._exposed, *(row for row in rows if row[0])])[:_MOST_EXPOSED]
        self._add_most(whole, np.where(present > 0, sizes, 0))

    def people_above(self, known: int) -> int:
        """People for whom some value can be put above its limit."""
        return self._people[known]

    def worst_ratio(self, known: int) -> float:
        """The largest posterior / limit of any value for anybody."""
        limits = np.array([float(limit) for limit in self._limits])
        fakes = self._fakes_that_count(known)
        return max(
            float((np.minimum(1.0, most / (size + fakes - min(known, size - 1))) / limits).max())
            for size, most in self._most.items()
        )

    def most_exposed(self) -> list[dict[str, int]]:
        """The buckets with the most people of whom a value can be put above its limit."""
        return [
            {"bucket": bucket, "size": size, "people_above_limit": -people} for people, bucket, size in self._exposed
        ]

    def _fakes_that_count(self, known: int) -> int:
        """The fakes of a bucket that the rule counts."""
        return 0 if known <= self._promised else self._fakes

    def _runs_above(self, whole: WholeBuckets, sizes: Integers, needed: Integers, known: int) -> tuple[Bits, Bits]:
        """The runs that can be put above their limit, for people who have the value, and for all others as well."""
        rows = whole.of_runs(sizes)
        left = rows + self._fakes_that_count(known) - np.minimum(known, rows - 1)
        having = left < needed
        return having, having & (left > self._room[np.minimum(whole.codes, len(self._limits))])

    def _above(self, whole: WholeBuckets, sizes: Integers, having: Bits, others: Bits) -> Integers:
        """By bucket, the people above a limit."""
        people = np.add.reduceat(np.where(having, whole.counts, 0), whole.first_runs)
        everyone = np.logical_or.reduceat(others, whole.first_runs)
        above: Integers = np.where(everyone, sizes, np.minimum(people, sizes))
        return above

    def _needed_by_run(self, whole: WholeBuckets) -> Integers:
        """ceil(c / f) of every run: a number is below c / f iff it is below this one."""
        counts = whole.counts
        pairs, inverse = np.unique(np.stack([whole.codes.astype(np.int64), counts]), axis=1, return_inverse=True)
        by_pair = []
        for pair in zip(*pairs.tolist(), strict=True):
            if pair not in self._needed:
                code, count = pair
                limit = self._limits[code] if code < len(self._limits) else Fraction(1)
                above = limit < 1  # nothing is above a limit of 1
                self._needed[pair] = min(_FAR, -(-count * limit.denominator // limit.numerator)) if above else 0
            by_pair.append(self._needed[pair])
        needed: Integers = np.array(by_pair, np.int64)[inverse.ravel()]
        return needed

    def _add_most(self, whole: WholeBuckets, sizes: Integers) -> None:
        by_run = whole.of_runs(sizes)
        listed = whole.codes < len(self._limits)
        for size in np.unique(sizes[sizes > 0]).tolist():
            most = self._most.setdefault(size, np.zeros(len(self._limits), np.int64))
            runs = (by_run == size) & listed
            np.maximum.at(most, whole.codes[runs], whole.counts[runs])


class ChosenGroups(ChosenRecords):
    """The same for groups of values with a limit. People of groups within groups count once."""

    def __init__(self, groups: StatedGroups, values: Sequence[str], fakes: int, promised: int, known: int) -> None:
        super().__init__([limit or Fraction(1) for limit in groups.limits], fakes, promised, known)
        self._runs, self._values = GroupRuns(groups, values), len(values)
        self._parents = np.array([path[-2] if len(path) > 1 else -1 for path in groups.paths], np.int64)
        self._levels = max(map(len, groups.paths))

    def add(self, whole: WholeBuckets) -> None:
        """The next buckets, of values."""
        if len(whole.sizes):
            super().add(self._runs.of(whole, max(self._values, int(whole.codes.max()) + 1)))

    def _above(self, whole: WholeBuckets, sizes: Integers, having: Bits, others: Bits) -> Integers:
        bucket, groups = whole.of_runs(np.arange(len(sizes))), len(self._parents)
        parent = self._parents[whole.codes]
        above = np.searchsorted(bucket * groups + whole.codes, bucket * groups + np.maximum(parent, 0))
        within: Bits = np.zeros(len(bucket), bool)  # another one that is counted
        for _ in range(self._levels - 1):
            within = (parent >= 0) & (having | within)[above]
        people = np.bincount(bucket, np.where(having & ~within, whole.counts, 0), len(sizes)).astype(np.int64)
        everyone = np.bincount(bucket[others], minlength=len(sizes)) > 0
        return np.where(everyone, sizes, np.minimum(people, sizes))


@dataclass
class _World:
    """Sums over the people who are not yet known, by the number of known records; claims for one such number."""

    right: Floats
    control: Floats
    people: Floats
    values: ClaimSums
    groups: ClaimSums | None

    def success(self, known: int) -> float | None:
        """The share of people who are guessed."""
        return float(self.right[known] / self.people[known]) if self.people[known] else None


def corruption(target: Target) -> Attack:
    """Both attackers: people above their limit by the chosen records, guesses by random ones."""
    exposure, candidates, known = target.exposure, target.candidates, target.known
    promised = target.release.manifest.adversary.known_records
    most = max((block.size for block in candidates.blocks), default=1) - 1  # whoever knows more knows all others
    world = _simulate(target, most)
    by_known: list[dict[str, Any]] = [
        {
            "known": q,
            "worst_ratio": exposure.worst_ratio(q),
            "people_above_limit": exposure.people_above(q),
            "success": world.success(min(q, most)),
        }
        for q in exposure.numbers
    ]
    at = min(known, most)
    remaining, above = round(float(world.people[at])), exposure.people_above(known)
    chosen = {"people": exposure.rows, "people_above_limit": above, "worst_ratio": exposure.worst_ratio(known)}
    random = {"people": remaining, "rows": candidates.rows}
    broken = [broken_sentence(exposure.people_above(promised), promised, "a limit")]
    if target.group_exposure is not None:
        broken.append(
            broken_sentence(target.group_exposure.people_above(promised), promised, "the limit of a group of values")
        )
    return Attack(
        name=NAME,
        people=exposure.rows,
        success=Share.of(float(world.right[at]), remaining),
        baseline=Share.of((world.success(0) or 0.0) * remaining, remaining),
        control=Share.of(float(world.control[at]), remaining),
        people_above_limit=above,
        claims=world.values.claims,
        claims_right=round(world.values.right),
        mean_limit=world.values.mean_limit,
        details={
            "known": known,
            "chosen": chosen,
            "random": random,
            "by_known": by_known,
            "most_exposed": exposure.most_exposed(),
        },
        notes=_notes(known, promised, target.release.manifest),
        broken=tuple(filter(None, broken)),
        beyond=known > promised,
        groups=_group_claims(target, world),
    )


def numbers_known(largest: int) -> list[int]:
    """0 .. largest - 1; of many, some."""
    numbers = np.linspace(0, max(0, largest - 1), min(largest, _SWEEP)).astype(np.int64)
    return [int(number) for number in np.unique(numbers)]


def _group_claims(target: Target, world: _World) -> Claims | None:
    if target.groups is None or target.group_exposure is None or world.groups is None:
        return None
    claims = group_claims(world.groups, target.groups, with_truth=True)
    return replace(claims, people_above_limit=target.group_exposure.people_above(target.known))


def broken_sentence(people: int, promised: int, limit: str) -> str:
    """A sentence about the people who can be put above a limit, if there are such people."""
    known = f"{promised:,} records of others in their bucket" if promised else "no record"
    return f"{people:,} people can be put above {limit} by an attacker who knows {known}" if people else ""


def _notes(known: int, promised: int, manifest: Manifest) -> tuple[str, ...]:
    notes, fakes = [], manifest.adversary.fake_values
    if known > promised:
        notes.append(f"The release promises nothing to people of whose bucket more than {promised:,} records are known")
    if fakes and known > promised:
        notes.append("People above their limit are counted as if nobody could tell fake values from real ones")
    if fakes:
        notes.append("People above their limit are at most so many: which values are fakes is not known")
    if manifest.surplus:
        notes.append("People above their limit are at most so many: which values are of people who left is not known")
    return tuple(notes)


def _simulate(target: Target, most: int) -> _World:
    groups = ClaimSums(target.groups.limits) if target.groups is not None else None
    world = _World(np.zeros(most + 1), np.zeros(most + 1), np.zeros(most + 1), ClaimSums(target.limits), groups)
    rng = np.random.default_rng(0)
    for place, block in enumerate(target.candidates.blocks):
        fake = target.people.truth[place][:, -1] if target.people is not None and block.fakes else None
        _reveal(block, fake, target, world, rng)
    return world


def _reveal(block: Block, fake: Floats | None, target: Target, world: _World, rng: np.random.Generator) -> None:
    """Records become known in random order; computed backwards, from all known to none."""
    order = _draw_order(block, fake, rng)
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
        control = left * float((top * target.frequencies[block.values]).sum())
        everyone = left * len(buckets)
        # who knows more records than there are others knows all of these
        here = slice(q, None) if left == 1 else slice(q, q + 1)
        world.right[here] += right
        world.control[here] += control
        world.people[here] += everyone
        if q == min(target.known, block.size - 1):
            p, truth = held[:, None, :] / (left + block.fakes), (held - fakes)[:, None, :]
            world.values.add(p, block.values, truth, left)
            if target.groups is not None and world.groups is not None:
                target.groups.add_claims(world.groups, block, p, truth, left)


def _draw_order(block: Block, fake: Floats | None, rng: np.random.Generator) -> Integers:
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
