"""What somebody gets who knows one of two columns that are kept together.

Of the h people of a bucket with value a, n have the tuple (a, b), so the probability of b is n / h. With several rows
these are the people with both in one row, and the others may have both in different rows: it is n / h at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.verify.buckets import Codes, Integers


@dataclass
class KnownSums:
    """How many people are above a limit, and pinned, for who knows one column; and the largest probability."""

    people: int = 0
    above: int = 0
    pinned: int = 0
    largest: Fraction = Fraction(0)

    def add(self, buckets: Integers, known: Codes, asked: Codes, held: Integers, limits: Sequence[Fraction]) -> None:
        """Whole buckets, line by line; `held` are the people of the bucket with the known value of each line."""
        firsts, both = _firsts(ranks_of([buckets, known, asked]))
        codes, people = asked[firsts], np.maximum(held[firsts], both)
        owners = ranks_of([buckets, known])[firsts]
        of_owner = np.zeros(int(owners.max()) + 1, np.int64)
        of_owner[owners] = people
        self.people += int(of_owner.sum())
        above, pinned = np.zeros(len(of_owner), bool), np.zeros(len(of_owner), bool)
        for code in np.unique(codes[codes < len(limits)]).tolist():
            limit = limits[code]
            if limit == 1:
                continue
            here = codes == code
            over = _is_above(both[here], people[here], limit)
            above[owners[here][over]] = True
            pinned[owners[here][both[here] == people[here]]] = True
            kinds = {*zip(both[here].tolist(), people[here].tolist(), strict=True)}
            self.largest = max([self.largest, *(Fraction(n, h) for n, h in kinds)])
        self.above += int(of_owner[above].sum())
        self.pinned += int(of_owner[pinned].sum())


def _is_above(both: Integers, people: Integers, limit: Fraction) -> np.ndarray:
    """Whether both / people > limit, in whole numbers: the most that the limit allows is its floor."""
    sizes, places = np.unique(people, return_inverse=True)
    most = np.array([limit.numerator * size // limit.denominator for size in sizes.tolist()], np.int64)
    return np.asarray(both > most[places])


def ranks_of(columns: Sequence[Integers | Codes]) -> Integers:
    """A number for each line: the same for those that are alike in all columns."""
    ranks = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own = np.unique(column, return_inverse=True)[1]
        ranks = np.unique(ranks * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    return ranks


def _firsts(ranks: Integers) -> tuple[Integers, Integers]:
    """The first line of each rank, and how many there are."""
    _, firsts, counts = np.unique(ranks, return_index=True, return_counts=True)
    return firsts, counts
