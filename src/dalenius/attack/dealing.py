"""How values are dealt to buckets in turn, and how an attacker decodes rows that are in the order of dealing.

Values are dealt to the buckets of a size, and with strata of a size in a stratum, one value after another, and each
value goes on where the last one ended. Such buckets are a group: groups have nothing to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.attack.reading import Outline, strata_of
from dalenius.infer.candidates import Integers
from dalenius.verify.buckets import WholeBuckets

Group = tuple[int, int]  # the stratum, from 0, and the size


class SlotCounts:
    """How many slots of each value the buckets of each group have together, from every bucket in passing."""

    def __init__(self, values: int, fakes: int, last_buckets: Integers) -> None:
        self.totals: Integers = np.zeros(values, np.int64)
        self._fakes, self._last_buckets = fakes, last_buckets
        self._groups: dict[Group, tuple[Integers, Integers]] = {}  # values, and how often

    def add(self, whole: WholeBuckets) -> None:
        """The next buckets."""
        if not len(whole.sizes):
            return
        strata, sizes = strata_of(self._last_buckets, whole.numbers), whole.sizes - self._fakes
        changes = np.flatnonzero((strata[1:] != strata[:-1]) | (sizes[1:] != sizes[:-1])) + 1
        listed = whole.codes < len(self.totals)
        codes, counts = whole.codes.astype(np.int64), np.where(listed, whole.counts, 0)
        np.add.at(self.totals, codes[listed], counts[listed])
        firsts = np.append(0, changes)
        runs = [*whole.first_runs[firsts].tolist(), len(counts)]
        for place, first in enumerate(firsts.tolist()):
            part = np.flatnonzero(listed[runs[place] : runs[place + 1]]) + runs[place]
            group = int(strata[first]), int(sizes[first])
            before = self._groups.get(group, (codes[:0], counts[:0]))
            every, inverse = np.unique(np.append(before[0], codes[part]), return_inverse=True)
            sums: Integers = np.zeros(len(every), np.int64)
            np.add.at(sums, inverse, np.append(before[1], counts[part]))
            self._groups[group] = every, sums

    def of(self, group: Group) -> tuple[Integers, Integers]:
        """The values of a group, ascending, and how many slots have them."""
        return self._groups[group]

    def strata(self) -> dict[int, tuple[Integers, Integers]]:
        """The same of strata, from 0: (value, slots) pairs as two arrays, a value perhaps more than once."""
        by_stratum: dict[int, list[tuple[Integers, Integers]]] = {}
        for (stratum, _), pair in self._groups.items():
            by_stratum.setdefault(stratum, []).append(pair)
        return {
            stratum: (np.concatenate([values for values, _ in pairs]), np.concatenate([slots for _, slots in pairs]))
            for stratum, pairs in by_stratum.items()
        }


@dataclass(frozen=True)
class Windows:
    """For every group that is walked a run of its buckets: where it begins among them, and how many there are."""

    runs: dict[Group, tuple[int, int]]
    inside: npt.NDArray[np.bool_]  # by bucket of the outline

    @classmethod
    def draw(cls, outline: Outline, most: int, rng: np.random.Generator) -> Windows:
        """Runs in proportion to the groups' rows; all buckets if these have no more rows than that.

        A run has a bucket at least. Where groups are so many that this alone is too much, some are left out.
        """
        part = min(1.0, most / int(outline.sizes.sum()))
        groups = outline.groups()
        numbers = {group: max(1, int(part * len(places))) for group, places in groups.items()}
        rows = sum(number * size for (_, size), number in numbers.items())
        runs: dict[Group, tuple[int, int]] = {}
        inside = np.zeros(len(outline.sizes), bool)
        for group, places in groups.items():
            if rows > 2 * most and rng.random() > most / rows and runs:
                continue
            first = int(rng.integers(len(places) - numbers[group] + 1))
            runs[group] = (first, numbers[group])
            inside[places[first : first + numbers[group]]] = True
        return cls(runs, inside)


def walk(buckets: Integers, outline: Outline, slots: SlotCounts, first: str, windows: Windows | None) -> Integers:
    """Decode the rows of each group by themselves: rows of all buckets in their order, or those of runs of buckets.

    `first` says in which order values were dealt: by "count", the largest first, or by "value".
    """
    place = np.searchsorted(outline.numbers, buckets)
    guessed = np.full(len(buckets), -1)
    of_row = outline.group_of[place]
    order = np.argsort(of_row, kind="stable")
    numbers, starts = np.unique(of_row[order], return_index=True)
    groups = outline.groups()
    listed = list(groups)
    for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        group = listed[number]
        if windows is not None and group not in windows.runs:
            continue
        start, length = windows.runs[group] if windows is not None else (0, len(groups[group]))
        values, counts = slots.of(group)
        if first == "count":
            values, counts = values[(turn := np.argsort(-counts, kind="stable"))], counts[turn]
        held, turns = deal_to_run(counts, len(groups[group]), start, length)
        guessed[rows] = values[decode(np.searchsorted(groups[group], place[rows]) - start, length, held, turns)]
    return guessed


def decode(buckets: Integers, number: int, counts: Integers, turn: Integers) -> Integers:
    """For each row the value (a place in `counts`) whose turn it is in the row's bucket.

    `turn` is the bucket that each value hits first, of `number`; so many of it are dealt out as `counts` says.
    """
    turn, left = turn.copy(), counts.copy()
    guesses = np.empty(len(buckets), np.int64)
    for row, bucket in enumerate(buckets.tolist()):
        late = np.where(left > 0, (bucket - turn) % number, number)
        guess = int(late.argmin())
        guesses[row] = guess
        turn[guess] = (bucket + 1) % number
        left[guess] -= 1
    return guesses


def deal_to_run(counts: Integers, number: int, first: int, length: int) -> tuple[Integers, Integers]:
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
