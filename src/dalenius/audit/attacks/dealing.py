"""Values dealt out to buckets in turn, and the attacker who walks rows in the order in which they were dealt.

Values are dealt to the buckets of a size one value after another, and each value goes on where the last one ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.audit.attacks.reading import Outline
from dalenius.infer.candidates import Integers


@dataclass(frozen=True)
class Windows:
    """For every size a run of its buckets: where it begins among them, and how many there are."""

    runs: dict[int, tuple[int, int]]
    inside: npt.NDArray[np.bool_]  # by bucket of the outline

    @classmethod
    def drawn(cls, found: Outline, most: int, rng: np.random.Generator) -> Windows:
        """Runs in proportion to the sizes' rows; all buckets if these have no more rows than that."""
        part = min(1.0, most / int(found.sizes.sum()))
        runs, inside = {}, np.zeros(len(found.sizes), bool)
        for size in np.unique(found.sizes).tolist():
            group = np.flatnonzero(found.sizes == size)
            number = max(1, int(part * len(group)))
            first = int(rng.integers(len(group) - number + 1))
            runs[size] = (first, number)
            inside[group[first : first + number]] = True
        return cls(runs, inside)


def walk(
    buckets: Integers, found: Outline, counts: dict[int, Integers], kind: str, windows: Windows | None
) -> Integers:
    """Decode the rows of each size by themselves: rows of all buckets in their order, or those of runs of buckets."""
    place = np.searchsorted(found.numbers, buckets)
    sizes = found.sizes[place]
    guessed = np.full(len(buckets), -1)
    for size in np.unique(sizes).tolist():
        group = np.flatnonzero(found.sizes == size)
        rows = np.flatnonzero(sizes == size)
        first, number = windows.runs[size] if windows is not None else (0, len(group))
        values = np.argsort(-counts[size], kind="stable") if kind == "count" else np.arange(len(counts[size]))
        values = values[counts[size][values] > 0]
        held, turn = dealt(counts[size][values], len(group), first, number)
        guessed[rows] = values[decode(np.searchsorted(group, place[rows]) - first, number, held, turn)]
    return guessed


def decode(buckets: Integers, number: int, counts: Integers, turn: Integers) -> Integers:
    """For each row the value (a place in `counts`) whose turn it is in the row's bucket.

    `turn` is the bucket that each value hits first, of `number`; so many of it are dealt out as `counts` says.
    """
    turn, left = turn.copy(), counts.copy()
    found = np.empty(len(buckets), np.int64)
    for row, bucket in enumerate(buckets.tolist()):
        late = np.where(left > 0, (bucket - turn) % number, number)
        guess = int(late.argmin())
        found[row] = guess
        turn[guess] = (bucket + 1) % number
        left[guess] -= 1
    return found


def dealt(counts: Integers, number: int, first: int, length: int) -> tuple[Integers, Integers]:
    """How many of each value go to a run of the buckets, and which of these is the first to get one.

    Values are dealt to `number` buckets in turn, one value after another, and each goes on where the last one ended.
    """
    start = (np.cumsum(counts) - counts) % number
    rounds, rest = np.divmod(counts, number)
    held = rounds * length
    for shift in (0, number):  # the last round, which may go over the end
        held += np.maximum(0, np.minimum(start + rest, first + length + shift) - np.maximum(start, first + shift))
    inside = (start >= first) & (start < first + length)
    return held, np.where(inside, start - first, 0)
