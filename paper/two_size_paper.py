"""The paper's own three searches for the optimal two-size setting (Section 5.1), for its runtime figures.

All three walk the pairs of sizes in the paper's order, and the list Gamma(S_1, S_2) of Lemma 5 for each pair:

- no pruning: validate every pair (b_1, b_2) of every list;
- loss pruning: cut the list where it can no longer beat the best loss so far (Lemma 7) and stop at the first valid
pair;
- full pruning: find the valid part of the cut list by binary search, for FC (Lemma 8) and for PC in three parts
  (Lemma 9 and Corollary 3), as Algorithm 1 does.

They return the same loss as the closed form in `two_size.py`. Validation is vectorised over values and over pieces of
the list, which favours the first two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dalenius.model.problem import BucketSetting, Problem
from dalenius.solve.caps import Instance, Integers, Mask
from dalenius.solve.two_size import feasible_positions

_PIECE = 2048  # positions validated at once


@dataclass(frozen=True)
class PairList:
    """Gamma(S_1, S_2) for one pair of sizes, and the caps at those sizes, in units of 1 / `units` record."""

    size1: int
    size2: int
    first1: int
    first2: int
    step1: int
    step2: int
    last: int
    cap1: Integers
    cap2: Integers
    units: int

    def pair(self, k: int) -> tuple[int, int]:
        """The k-th pair (b_1, b_2)."""
        return self.first1 - k * self.step1, self.first2 + k * self.step2

    def loss(self, k: int) -> int:
        """The loss of the k-th pair."""
        b1, b2 = self.pair(k)
        return b1 * (self.size1 - 1) ** 2 + b2 * (self.size2 - 1) ** 2

    def valid(self, k: Integers, counts: Integers) -> Mask:
        """Theorem 3 at each of the positions k, as the paper states it (CC holds on the whole list)."""
        b1, b2 = self.first1 - k * self.step1, self.first2 + k * self.step2
        most1 = np.minimum(self.cap1[:, None] * b1, counts[:, None])
        most2 = np.minimum(self.cap2[:, None] * b2, counts[:, None])
        privacy = (most1 + most2 >= counts[:, None]).all(axis=0)
        fill = (most1.sum(axis=0) >= self.need1 * b1) & (most2.sum(axis=0) >= self.need2 * b2)
        return np.asarray(privacy & fill)

    @property
    def need1(self) -> int:
        """What it takes to fill a bucket of the smaller size."""
        return self.size1 * self.units

    @property
    def need2(self) -> int:
        """What it takes to fill a bucket of the larger size."""
        return self.size2 * self.units


def pair_lists(instance: Instance) -> Iterator[PairList]:
    """The lists of all pairs of sizes that have feasible pairs, smaller sizes first."""
    caps = instance.caps(instance.sizes)
    for j1, size1 in enumerate(instance.sizes[:-1]):
        rest = instance.sizes[j1 + 1 :]
        p = feasible_positions(np.full_like(rest, size1), rest, instance.total)
        for j, size2 in enumerate(rest):
            if p.last[j] >= 0:
                yield PairList(
                    int(size1),
                    int(size2),
                    first1=int(p.first1[j]),
                    first2=int(p.first2[j]),
                    step1=int(p.step1[j]),
                    step2=int(p.step2[j]),
                    last=int(p.last[j]),
                    cap1=caps[:, j1],
                    cap2=caps[:, j1 + 1 + j],
                    units=instance.units,
                )


Search = Callable[[PairList, Integers, int | None], int | None]


def _best(problem: Problem, search: Search) -> BucketSetting | None:
    """The setting of least loss over all pairs of sizes; `search` returns the best position of one list, if any."""
    instance = Instance(problem)
    best: tuple[int, PairList, int] | None = None
    for pairs in pair_lists(instance):
        k = search(pairs, instance.counts, None if best is None else best[0])
        if k is not None and (best is None or pairs.loss(k) < best[0]):
            best = (pairs.loss(k), pairs, k)
    if best is None:
        return None
    _, pairs, k = best
    b1, b2 = pairs.pair(k)
    return BucketSetting.of([(pairs.size1, b1), (pairs.size2, b2)])


def _cut(pairs: PairList, best_loss: int | None) -> int:
    """Lemma 7: the last position of Gamma' that is worth a look."""
    if best_loss is None:
        return pairs.last
    slope = pairs.step2 * (pairs.size2 - 1) ** 2 - pairs.step1 * (pairs.size1 - 1) ** 2
    return min(pairs.last, max(0, (best_loss - pairs.loss(0)) // slope))


def no_pruning(problem: Problem) -> BucketSetting | None:
    """Validate every feasible pair."""

    def search(pairs: PairList, counts: Integers, _best_loss: int | None) -> int | None:
        position = None
        for start in range(0, pairs.last + 1, _PIECE):
            k = np.arange(start, min(start + _PIECE, pairs.last + 1))
            valid = np.flatnonzero(pairs.valid(k, counts))
            if position is None and valid.size:
                position = start + int(valid[0])
        return position

    return _best(problem, search)


def loss_pruning(problem: Problem) -> BucketSetting | None:
    """Search Gamma' from its front up to the first valid pair."""

    def search(pairs: PairList, counts: Integers, best_loss: int | None) -> int | None:
        last = _cut(pairs, best_loss)
        for start in range(0, last + 1, _PIECE):
            k = np.arange(start, min(start + _PIECE, last + 1))
            valid = np.flatnonzero(pairs.valid(k, counts))
            if valid.size:
                return start + int(valid[0])
        return None

    return _best(problem, search)


def full_pruning(problem: Problem) -> BucketSetting | None:
    """Algorithm 1: binary search of Gamma' for the first valid pair."""

    def search(pairs: PairList, counts: Integers, best_loss: int | None) -> int | None:
        last = _cut(pairs, best_loss)
        low, high = _fill_interval(pairs, counts, last)
        if low > high:
            return None
        private_low, private_high = _privacy_interval(pairs, counts, last)
        low, high = max(low, int(private_low.max())), min(high, int(private_high.min()))
        return low if low <= high else None

    return _best(problem, search)


def _first_true(holds: Callable[[Integers], Mask], low: Integers, high: Integers) -> Integers:
    """For a monotone condition, the first position in [low, high] where it holds, or high + 1; elementwise."""
    low, high = low.copy(), high + 1
    while (low < high).any():
        middle = (low + high) // 2
        yes = holds(middle)
        low, high = np.where(yes | (low >= high), low, middle + 1), np.where(yes & (low < high), middle, high)
    return low


def _fill_interval(pairs: PairList, counts: Integers, last: int) -> tuple[int, int]:
    """Lemma 8: FC(S_1) is monotone and FC(S_2) anti-monotone."""

    def fills1(k: Integers) -> Mask:
        b1 = pairs.first1 - k * pairs.step1
        return np.asarray(np.minimum(pairs.cap1[:, None] * b1, counts[:, None]).sum(axis=0) >= pairs.need1 * b1)

    def fails2(k: Integers) -> Mask:
        b2 = pairs.first2 + k * pairs.step2
        return np.asarray(np.minimum(pairs.cap2[:, None] * b2, counts[:, None]).sum(axis=0) < pairs.need2 * b2)

    ends = np.asarray([0]), np.asarray([last])
    return int(_first_true(fills1, *ends)[0]), int(_first_true(fails2, *ends)[0]) - 1


def _privacy_interval(pairs: PairList, counts: Integers, last: int) -> tuple[Integers, Integers]:
    """Lemma 9 and Corollary 3: H(PC(x_i)) as a front, a middle and a back part, for every value at once."""
    cap1, cap2 = pairs.cap1, pairs.cap2
    zero, end = np.zeros_like(counts), np.full_like(counts, last)
    front = _first_true(lambda k: cap1 * (pairs.first1 - k * pairs.step1) < counts, zero, end)  # [0, front)
    back = _first_true(lambda k: cap2 * (pairs.first2 + k * pairs.step2) >= counts, zero, end)  # [back, last]
    rising = cap2 * pairs.step2 >= cap1 * pairs.step1  # Equation 10

    def both(k: Integers) -> Mask:
        b1, b2 = pairs.first1 - k * pairs.step1, pairs.first2 + k * pairs.step2
        return np.asarray(cap1 * b1 + cap2 * b2 >= counts)

    # In the middle [front, back) the sum u_1 + u_2 decides: monotone where it rises, anti-monotone where it falls.
    turn = _first_true(lambda k: both(k) == rising, front, np.maximum(back - 1, front - 1))
    low = np.where(front > 0, 0, np.where(rising, turn, np.where(turn > front, front, back)))
    high = np.where(back <= last, last, np.where(rising, np.where(turn < back, back - 1, front - 1), turn - 1))
    return low, high
