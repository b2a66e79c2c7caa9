"""Upper tails of the hypergeometric distribution, for many at once, in logarithms: tails may be as small as they like.

Of N slots K have a value; n of them are drawn at random, and X of these have it. With

    p(k) = P(X = k) = C(K, k) C(N - K, n - k) / C(N, n),
    p(k + 1) / p(k) = (K - k) (n - k) / ((k + 1) (N - K - n + k + 1)),

the tail P(X >= k) is summed from p(k) upwards where k is above the mean, and is otherwise 1 less what is below, from
p(k - 1) downwards; the sums end where a term no longer counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_NOTHING = 1e-17  # of a sum
_STIRLING = 16.0  # above it the series has sixteen digits


def tails(slots: int, having: Integers, drawn: Integers, least: Integers) -> tuple[Floats, Floats]:
    """log P(X >= least) and E(X | X >= least), for arrays that go together; -inf and 0 where it cannot be."""
    having, drawn, least = (np.asarray(part, np.int64) for part in np.broadcast_arrays(having, drawn, least))
    lowest, highest = np.maximum(0, having + drawn - slots), np.minimum(having, drawn)
    mean = having * (drawn / slots)
    certain, possible = least <= lowest, least <= highest
    upwards = possible & ~certain & (least > mean)
    downwards = possible & ~certain & ~upwards
    logs = np.where(certain, 0.0, -np.inf)
    means = np.where(certain, mean, 0.0)
    if upwards.any():
        first = least[upwards]
        total, moment = _summed(slots, having[upwards], drawn[upwards], first, 1)
        logs[upwards] = log_probability(slots, having[upwards], drawn[upwards], first) + np.log(total)
        means[upwards] = first + moment / total
    if downwards.any():
        first = least[downwards] - 1
        total, moment = _summed(slots, having[downwards], drawn[downwards], first, -1)
        part = np.exp(log_probability(slots, having[downwards], drawn[downwards], first))
        below = np.minimum(part * total, 1 - _NOTHING)
        logs[downwards] = np.log1p(-below)
        means[downwards] = (mean[downwards] - part * (first * total - moment)) / (1 - below)
    return logs, means


def log_probability(slots: int, having: Integers, drawn: Integers, count: Integers) -> Floats:
    """log P(X = count)."""
    others = slots - having
    found: Floats = (
        _log_choose(having, count) + _log_choose(others, drawn - count) - _log_choose(np.full_like(drawn, slots), drawn)
    )
    return found


def _summed(slots: int, having: Integers, drawn: Integers, first: Integers, step: int) -> tuple[Floats, Floats]:
    """The sums of p(k) / p(first), and of the same times |k - first|, over all k on one side."""
    total, moment = np.ones(len(first)), np.zeros(len(first))
    active = np.arange(len(first))
    k, term, distance = first.astype(np.float64), np.ones(len(first)), 0
    size, n = having.astype(np.float64), drawn.astype(np.float64)
    while len(active):
        a, b, at = size[active], n[active], k[active]
        up = (a - at) * (b - at), (at + 1) * (slots - a - b + at + 1)
        down = at * (slots - a - b + at), (a - at + 1) * (b - at + 1)
        numerator, denominator = up if step > 0 else down
        distance += 1
        term[active] *= np.maximum(numerator, 0.0) / denominator
        k[active] += step
        total[active] += term[active]
        moment[active] += distance * term[active]
        active = active[distance * term[active] > _NOTHING * total[active]]
    return total, moment


def _log_choose(of: Integers, chosen: Integers) -> Floats:
    found: Floats = _log_factorial(of) - _log_factorial(chosen) - _log_factorial(of - chosen)
    return found


def _log_factorial(number: Integers) -> Floats:
    """Stirling's series, from a number that is large enough for it; smaller ones are led there by their products."""
    x = number.astype(np.float64) + 1
    product = np.ones_like(x)
    while (small := x < _STIRLING).any():
        product[small] *= x[small]
        x = np.where(small, x + 1, x)
    square = 1 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
    found: Floats = (x - 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    return found
