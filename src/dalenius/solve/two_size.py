"""The optimal two-size bucket setting in closed form (Definition 5; Section 5.1 with two simplifications).

Minimise  b_1 (S_1 - 1)^2 + b_2 (S_2 - 1)^2  over M <= S_1 < S_2 <= M' and b_1, b_2 >= 0 such that PC, FC and CC of
Theorem 3 hold.

The feasible pairs of (S_1, S_2) are (b_1^0 - k D_1, b_2^0 + k D_2), k = 0..K (Lemma 5), and the loss grows with k
(Lemma 6). The paper finds the first valid k by binary search over a three-part list. There is a direct way:

1. PC for value i, min(u_1, o) + min(u_2, o) >= o, is just u_1 + u_2 >= o: if either minimum bites, both hold. u_1 and
   u_2 are linear in k, so PC holds on a half-line of k whose end is one integer division.
2. FC for a size S says that its buckets can be filled: g(b) = sum_i min(c_i b, o_i) - S b >= 0, with c_i = cap[i, S].
   The other size does not enter, g is concave and g(0) = 0, so FC holds exactly for b <= bmax(S) (`most_buckets`),
   again a half-line.

So the valid positions form one integer interval, found for all pairs of sizes at once, and its first element is the
optimum for the pair. Nothing here depends on |T|.

The larger size has to hold every value: cap[i, S_2] >= 1 for all i, since caps do not fall as sizes grow. Where some
limit is small that leaves few pairs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dalenius.errors import UndecidedError
from dalenius.model.problem import BucketSetting, Problem
from dalenius.solve.caps import Instance, Integers, binding_rows
from dalenius.solve.tree_two_size import first_valid_of_groups

_CELLS = 1_000_000  # pairs x values held at once: some tens of MB
_MOST_CELLS = 4_000_000_000  # a minute or two of work; beyond that the exact method is the better tool
_MOST_CAPS = 50_000_000  # sizes x values whose caps are held: 400 MB
_FAR = np.int64(2**62)


def find_two_size_setting(problem: Problem, deadline: float = math.inf) -> BucketSetting | None:
    """The two-size (or one-size) setting of least loss, or None if no valid one exists in the range of sizes.

    Past the deadline (of `time.monotonic`) an unfinished search is an error: half a search proves nothing.
    """
    instance = Instance(problem)
    if instance.last_size < instance.first_size:
        return None
    if (instance.last_size - instance.first_size) * len(instance.counts) > _MOST_CAPS:
        raise _too_much(instance)
    sizes = instance.sizes
    caps = instance.caps(sizes)
    holding = int(np.count_nonzero((caps == 0).any(axis=0)))  # caps do not fall: the first size that holds every value
    if holding == len(sizes):
        return None
    search = _search(instance, sizes, caps)
    pairs = len(sizes) * (len(sizes) - holding) - (len(sizes) - holding) ** 2 // 2
    if pairs * search.rows > _MOST_CELLS:
        raise _too_much(instance)
    best: tuple[int, BucketSetting | None] = (-1, None)
    for first, second in _pair_blocks(len(sizes), max(1, _CELLS // max(1, search.rows)), holding):
        # Every setting of these pairs loses at least n (S - 1)^2 / S for its smallest size S.
        smallest = int(sizes[first[0]])
        if best[1] is not None and instance.total * (smallest - 1) ** 2 >= best[0] * smallest:
            break
        if time.monotonic() > deadline:
            raise _too_much(instance)
        setting = _best_of_block(instance, sizes, first, second, search)
        if setting is not None and (best[1] is None or setting.loss < best[0]):
            best = (setting.loss, setting)
    return best[1]


@dataclass(frozen=True)
class _Search:
    """How the first valid position of a pair of sizes is found: from so many rows a pair."""

    rows: int
    first_valid: Callable[[Positions, Integers, Integers], Integers]


def _search(instance: Instance, sizes: Integers, caps: Integers) -> _Search:
    """By half-lines; with groups, by intervals (`tree_two_size.py`). Sizes are given by their places."""
    forest = instance.forest
    if forest is not None:
        return _Search(
            len(caps),
            lambda positions, first, second: first_valid_of_groups(
                instance,
                forest,
                (sizes[first], sizes[second]),
                (positions.first1, positions.first2),
                (-positions.step1, positions.step2),
                positions.last,
            ),
        )
    most = most_buckets(caps, instance.counts, instance.needs(sizes))
    binding, counts = binding_rows(caps, instance.counts)
    return _Search(
        len(counts),
        lambda positions, first, second: first_valid(
            positions, binding[:, first], binding[:, second], counts, most[first], most[second]
        ),
    )


def _best_of_block(
    instance: Instance, sizes: Integers, first: Integers, second: Integers, search: _Search
) -> BucketSetting | None:
    size1, size2 = sizes[first], sizes[second]
    positions = feasible_positions(size1, size2, instance.total)
    k = search.first_valid(positions, first, second)
    valid = k >= 0
    if not valid.any():
        return None
    buckets1 = (positions.first1 - k * positions.step1)[valid]
    buckets2 = (positions.first2 + k * positions.step2)[valid]
    size1, size2 = size1[valid], size2[valid]
    # Floats cannot overflow; the few that are nearly the least are compared exactly.
    about = buckets1 * (size1 - 1.0) ** 2 + buckets2 * (size2 - 1.0) ** 2
    near = np.flatnonzero(about <= about.min() * (1 + 1e-9))
    settings = (BucketSetting.of([(size1[p], buckets1[p]), (size2[p], buckets2[p])]) for p in near)
    return min(settings, key=lambda setting: setting.loss)


def _pair_blocks(sizes: int, block: int, least: int = 0) -> Iterator[tuple[Integers, Integers]]:
    """Index pairs (j1, j2), j1 < j2 and j2 >= least, in blocks of about `block` pairs, the smallest j1 first."""
    if sizes == 1:  # a single size: the pair with itself, of which the second member stays empty
        yield np.asarray([0]), np.asarray([0])
        return
    start = 0
    while start < sizes - 1:
        stop, pairs = start, 0
        while stop < sizes - 1 and (pairs == 0 or pairs + sizes - max(least, stop + 1) <= block):
            pairs += sizes - max(least, stop + 1)
            stop += 1
        seconds = [np.arange(max(least, j + 1), sizes) for j in range(start, stop)]
        first = np.repeat(np.arange(start, stop), [len(second) for second in seconds])
        second = np.concatenate(seconds)
        for piece in range(0, len(first), block):
            yield first[piece : piece + block], second[piece : piece + block]
        start = stop


def _too_much(instance: Instance) -> UndecidedError:
    sizes = instance.last_size - instance.first_size + 1
    return UndecidedError(
        f"a search for two of {sizes:,} sizes, with {len(instance.counts):,} values, takes longer than the time limit",
        "Use --method optimal, which does not try pairs of sizes, or a smaller --max-size, or a larger --time-limit.",
    )


@dataclass(frozen=True)
class Positions:
    """Gamma(S_1, S_2) of Lemma 5 for many pairs of sizes: the k-th pair is (first1 - k step1, first2 + k step2).

    `last` is K, or -1 where no feasible pair exists.
    """

    first1: Integers
    first2: Integers
    step1: Integers
    step2: Integers
    last: Integers


def feasible_positions(size1: Integers, size2: Integers, total: int) -> Positions:
    """Lemma 5: the first pair, the steps and the length of Gamma for each pair of sizes, S_1 b_1 + S_2 b_2 = n."""
    divisor = np.gcd(size1, size2)
    step1, step2 = size2 // divisor, size1 // divisor
    # The smallest b_2 with S_2 b_2 = n (mod S_1); after division by the gcd it is a modular inverse away.
    reduced = (total // divisor) % step2
    first2 = reduced * _inverse(step1 % step2, step2) % step2
    rest = total - size2 * first2
    first1 = rest // size1
    exists = (total % divisor == 0) & (rest >= 0)
    return Positions(first1=first1, first2=first2, step1=step1, step2=step2, last=np.where(exists, first1 // step1, -1))


def _inverse(number: Integers, modulus: Integers) -> Integers:
    """number^-1 modulo modulus, elementwise (0 modulo 1), by the extended Euclidean algorithm."""
    old, new = modulus.copy(), number.copy()
    old_factor, new_factor = np.zeros_like(number), np.ones_like(number)
    while new.any():
        running = new != 0
        quotient = np.where(running, old // np.where(running, new, 1), 0)
        old, new = np.where(running, new, old), np.where(running, old - quotient * new, 0)
        old_factor, new_factor = (
            np.where(running, new_factor, old_factor),
            np.where(running, old_factor - quotient * new_factor, new_factor),
        )
    return old_factor % modulus


def first_valid(
    positions: Positions, cap1: Integers, cap2: Integers, counts: Integers, most1: Integers, most2: Integers
) -> Integers:
    """The first valid position of each pair of sizes, or -1: the left end of an intersection of half-lines.

    `cap1` and `cap2` have one row a value and one column a pair of sizes, in the units of `counts`.
    """
    low = -((most1 - positions.first1) // positions.step1)  # FC(S_1): b_1 <= bmax(S_1)
    high = np.minimum(positions.last, (most2 - positions.first2) // positions.step2)  # FC(S_2)
    spare = cap1 * positions.first1 + cap2 * positions.first2 - counts[:, None]  # PC at k = 0 ...
    gain = cap2 * positions.step2 - cap1 * positions.step1  # ... and what each step adds
    # spare + k gain >= 0: k >= ceil(spare / -gain) for gain > 0, k <= floor(spare / -gain) for gain < 0.
    ends = spare // np.where(gain == 0, 1, -gain)
    at_least = np.where(gain > 0, _ceil_from_floor(ends, spare, gain), 0)
    at_most = np.where(gain < 0, ends, _FAR)
    at_most[(gain == 0) & (spare < 0)] = -1
    low = np.maximum(np.maximum(low, 0), at_least.max(axis=0, initial=0))
    high = np.minimum(high, at_most.min(axis=0, initial=_FAR))
    return np.where(low <= high, low, -1)


def _ceil_from_floor(floor: Integers, numerator: Integers, gain: Integers) -> Integers:
    """ceil(numerator / -gain), given the floor."""
    return np.asarray(floor + (floor * -gain != numerator))


def most_buckets(caps: Integers, counts: Integers, sizes: Integers) -> Integers:
    """bmax(S) for every size at once, at most n // S. All three are in the same units (`Instance.needs` for sizes).

    Newton's method from the right on the concave, piecewise linear g. At b, with I = {i : c_i b >= o_i}, the line
    through g is  o(I) + (c(not I) - S) b,  and its root is where every solution b' with g(b') >= 0 must end:
    b' <= o(I) / (S - c(not I)). Each step is an integer division; a handful of steps suffice.
    """
    total = int(counts.sum())
    buckets = total // sizes
    active = np.arange(len(sizes))
    while active.size:
        taken = caps[:, active] * buckets[active]
        saturated = taken >= counts[:, None]
        filled = np.where(saturated, counts[:, None], taken).sum(axis=0)
        short = filled < sizes[active] * buckets[active]
        active, saturated = active[short], saturated[:, short]
        supply = np.where(saturated, counts[:, None], 0).sum(axis=0)
        drain = sizes[active] - np.where(saturated, 0, caps[:, active]).sum(axis=0)
        buckets[active] = supply // drain
    return buckets
