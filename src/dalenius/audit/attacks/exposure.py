"""Who can be put above a limit by somebody who chooses which q records of others of the bucket to know.

Take a bucket of S rows with c of value x, of which k are among the q known records. What is left to x for a person
whose record is not known is (c - k) / n, with n = S - q, so the fewer of the known ones have x the better. Of the
S - 1 others, all but c - 1 are without x if the person has it, and all but c if not. So the most that can be left is

    min(c, n) / n           for the c people who have x,
    min(c, n - 1) / n       for the others,

which is above the limit f, for f < 1, iff

    n < c / f                       for those who have x,
    n < c / f and n > 1 / (1 - f)   for the others;

for f = 1 never. Who knows more records than there are others knows all of these: n = 1.

With sigma fake values in the bucket this is the promise's rule, n = S - q, which holds whatever the fakes are, up to
the known records that the release promises to withstand; beyond them n = S + sigma - q, which holds if nobody can tell
fake from real. Which slots are fakes is not known, so all c may be somebody's, and the people found are at most so
many: there is somebody iff there may be somebody. Without fakes they are exactly so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dalenius.audit.runs import Integers, WholeBuckets

_FAR = 2**40  # more than any bucket has
_MOST_EXPOSED = 10


class Exposure:
    """Every bucket in passing, for several numbers of known records; `known` is that of the attack itself."""

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
        self.rows += int(sizes.sum())
        needed = self._needed_by_run(whole)
        others, done = int(sizes.max()) - 1, {}
        for known in self.numbers:
            fakes = self._counted(known)
            if (min(known, others), fakes) not in done:
                done[min(known, others), fakes] = self._above(whole, sizes, needed, known, fakes)
            people = done[min(known, others), fakes]
            self._people[known] += int(people.sum())
            if known == self._known:
                first = np.argsort(-people, kind="stable")[:_MOST_EXPOSED]
                rows = zip((-people[first]).tolist(), whole.numbers[first].tolist(), sizes[first].tolist(), strict=True)
                self._exposed = sorted([*self._exposed, *(row for row in rows if row[0])])[:_MOST_EXPOSED]
        self._add_most(whole, sizes)

    def people_above(self, known: int) -> int:
        """People for whom some value can be put above its limit."""
        return self._people[known]

    def worst_ratio(self, known: int) -> float:
        """The largest posterior / limit of any value for anybody."""
        limits = np.array([float(limit) for limit in self._limits])
        fakes = self._counted(known)
        return max(
            float((np.minimum(1.0, most / (size + fakes - min(known, size - 1))) / limits).max())
            for size, most in self._most.items()
        )

    def exposed(self) -> list[dict[str, int]]:
        """The buckets with the most people of whom a value can be put above its limit."""
        return [
            {"bucket": bucket, "size": size, "people_above_limit": -people} for people, bucket, size in self._exposed
        ]

    def _counted(self, known: int) -> int:
        """The fakes that count."""
        return 0 if known <= self._promised else self._fakes

    def _above(self, whole: WholeBuckets, sizes: Integers, needed: Integers, known: int, fakes: int) -> Integers:
        """By bucket, the people above a limit."""
        rows = whole.of_runs(sizes)
        left = rows + fakes - np.minimum(known, rows - 1)
        having = left < needed
        others = having & (left > self._room[np.minimum(whole.codes, len(self._limits))])
        people = np.add.reduceat(np.where(having, whole.counts, 0), whole.first_runs)
        everyone = np.logical_or.reduceat(others, whole.first_runs)
        found: Integers = np.where(everyone, sizes, np.minimum(people, sizes))
        return found

    def _needed_by_run(self, whole: WholeBuckets) -> Integers:
        """ceil(c / f) of every run: a number is below c / f iff it is below this one."""
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
