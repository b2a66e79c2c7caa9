"""The corrupting attacker: knows the sensitive values of q records of a bucket, and infers those of the rest.

Chosen. Who may choose which records of others to know can put people above their limits: `exposure` says how many.

Random. In a possible world, with fakes drawn from the truth where it is given and otherwise at random, records become
known one after another in random order, and the rest is guessed by the counts that are left. Success, baseline, control
and claims are this attacker's, about the people who are not yet known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.audit.attacks.exposure import Exposure
from dalenius.audit.attacks.people import People
from dalenius.audit.attacks.scoring import guesses
from dalenius.infer.candidates import Block, Candidates, Floats, Integers
from dalenius.model.attack import Attack, Share

NAME = "corruption"
_SWEEP = 64  # numbers of known records that are tried
_ABOVE = 1e-9


@dataclass
class _World:
    """Sums over the people who are not yet known, by the number of known records; claims for one such number."""

    right: Floats
    control: Floats
    people: Floats
    claims: int = 0
    claims_right: float = 0.0
    limits: float = 0.0

    def success(self, known: int) -> float | None:
        """The share of people who are guessed."""
        return float(self.right[known] / self.people[known]) if self.people[known] else None


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
    most = max((block.size for block in candidates.blocks), default=1) - 1  # whoever knows more knows all others
    world = _simulated(candidates, limits, people, frequencies, most, known)
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
    details = {
        "known": known,
        "chosen": chosen,
        "random": random,
        "by_known": by_known,
        "most_exposed": exposure.exposed(),
    }
    broken = exposure.people_above(promised)
    return Attack(
        NAME,
        exposure.rows,
        Share.of(float(world.right[at]), remaining),
        Share.of((world.success(0) or 0.0) * remaining, remaining),
        Share.of(float(world.control[at]), remaining),
        above,
        world.claims,
        round(world.claims_right),
        world.limits / world.claims if world.claims else None,
        details,
        _notes(known, promised, candidates.fakes),
        (_broken(broken, promised),) if broken else (),
    )


def numbers_known(largest: int) -> list[int]:
    """0 .. largest - 1; of many, some."""
    found: list[int] = np.unique(np.linspace(0, max(0, largest - 1), min(largest, _SWEEP)).astype(np.int64)).tolist()
    return found


def _broken(people: int, promised: int) -> str:
    known = f"{promised:,} records of others in their bucket" if promised else "no record"
    return f"{people:,} people can be put above a limit by an attacker who knows {known}"


def _notes(known: int, promised: int, fakes: int) -> tuple[str, ...]:
    notes = []
    if known > promised:
        notes.append(f"The release promises nothing to people of whose bucket more than {promised:,} records are known")
    if fakes and known > promised:
        notes.append("People above their limit are counted as if nobody could tell fake values from real ones")
    if fakes:
        notes.append("People above their limit are at most so many: which values are fakes is not known")
    return tuple(notes)


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
