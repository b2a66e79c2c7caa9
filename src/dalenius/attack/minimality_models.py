"""What may be concluded from a stratum's having been merged of several leaves, under three models.

A stratum has N slots, M_x of them with value x, as ST shows; leaf A has n_A rows, as QIT shows. One of the events

    e = (A, x):   count_x(A) > most_x * n_A

has happened, most_x being the largest share that is fit. Events are taken as exclusive, with weights w_e that sum to 1.
Given e = (A, x) with m = E(count_x(A) | e), the rest is matched at random, so exactly

    E(count_y(A) | e) = m                                       for y = x,    (n_A - m) M_y / (N - M_x)    for others,
    E(count_y(B) | e) = (M_y - E(count_y(A) | e)) n_B / (N - n_A)             in the other leaves B,

and the posterior share of y in B is the sum over e of w_e E(count_y(B) | e) / n_B. Fake values are slots like others.
A group of values with a limit is an event like a value, x being the set of its values: M_x is what the slots have of
them together, and given e each value y of the set has its part of m, m M_y / M_x.
The models differ in w_e and m:

- Random matching: every matching of slots and rows is as likely before, so count_x(A) is hypergeometric, and w_e is in
  proportion to P(e). That is close to the exact posterior where events are improbable. The tails fall so steeply that m
  is hardly above most_x * n_A: whatever the leaf really has, its share comes out near most_x.
- Any count: every leaf, value and count that are unfit and possible are as likely, the possible counts being those from
  max(0, n_A + M_x - N) to min(n_A, M_x). So m is the middle of the unfit ones, and w_e in proportion to how many there
  are. Nothing is believed of leaves' being alike; large leaves and frequent values have more counts, and more weight.
- Likely event, any count: which event it was is weighed by random matching, and how far it went is not. A leaf that
  nearly is unfit by chance is the likely one; but chance does not make leaves, so it may be unfit by any amount.

None is a bound on what may be concluded: other weights and other counts give other shares.

Random matching needs the upper tails of the hypergeometric distribution, for many events at once, and in logarithms,
since they may be as small as they like. Of N slots K have a value; n of them are drawn at random, and X of these have
it. With

    p(k) = P(X = k) = C(K, k) C(N - K, n - k) / C(N, n),
    p(k + 1) / p(k) = (K - k) (n - k) / ((k + 1) (N - K - n + k + 1)),

the tail P(X >= k) is summed from p(k) upwards where k is above the mean, and is otherwise 1 less what is below, from
p(k - 1) downwards; the sums end where a term no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dalenius.infer.candidates import Floats, Integers

Numbers = TypeVar("Numbers", Floats, Integers)

_NOTHING = 1e-17  # of a sum
_STIRLING = 16.0  # above it the series has sixteen digits


@dataclass(frozen=True)
class MergedStratum:
    """A stratum of several leaves: the leaves with rows, how many these have, its values, and how many slots each.

    `groups` are the numbers of its groups of values with a limit, which are behind those of all values, and `holding`
    has for each of its values the groups that hold it, as places in `groups`, filled up with -1.
    """

    stratum: int
    leaves: Integers
    rows: Integers
    values: Integers
    slots: Integers
    groups: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    holding: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @property
    def events(self) -> Integers:
        """The numbers of all that a leaf may have too much of: the values, then the groups."""
        return np.append(self.values, self.groups)

    def with_groups(self, by_value: Numbers) -> Numbers:
        """Numbers by value, in the last axis, as numbers by event: those of a group are the sum over its values."""
        sums = np.zeros((len(self.groups) + 1, *by_value.shape[:-1]), by_value.dtype)
        for level in self.holding.T:
            np.add.at(sums, level, np.moveaxis(by_value, -1, 0))  # what no group holds is added to the last
        return np.concatenate([by_value, np.moveaxis(sums[:-1], 0, -1)], axis=-1)

    def by_value(self, by_event: Floats) -> Floats:
        """Numbers by event as numbers by value: its own, and those of the groups that hold it."""
        own, groups = np.split(by_event, [len(self.values)], axis=-1)
        padded = np.concatenate([groups, np.zeros((*groups.shape[:-1], 1))], axis=-1)
        for level in self.holding.T:
            own = own + padded[..., level]
        return own


@dataclass(frozen=True)
class Suspicion:
    """By leaf and event of a merged stratum, its weight; by leaf and value, the posterior share."""

    stratum: MergedStratum
    weights: Floats
    shares: Floats

    @property
    def lifts(self) -> Floats:
        """The posterior share over that of the stratum."""
        lifts: Floats = self.shares / (self.stratum.slots / self.stratum.slots.sum())
        return lifts

    @property
    def most_suspected(self) -> tuple[int, int]:
        """The leaf of the most probable event, and its place among the events."""
        leaf, event = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        return int(leaf), int(event)


Model = Callable[[MergedStratum, Sequence[Fraction]], Suspicion]


def random_matching(stratum: MergedStratum, most: Sequence[Fraction]) -> Suspicion:
    """Every matching is as likely before: `most` are the largest shares that are fit, of all values and groups."""
    least, slots = least_above(stratum, most), stratum.with_groups(stratum.slots)
    logs, means = tails(int(stratum.slots.sum()), slots[None, :], stratum.rows[:, None], least)
    likely = np.exp(logs - logs.max()) if np.isfinite(logs).any() else np.zeros(logs.shape)
    return _conclude(stratum, likely, means)


def any_count(stratum: MergedStratum, most: Sequence[Fraction]) -> Suspicion:
    """Every leaf, value and count that are unfit and possible are as likely."""
    return _conclude(stratum, *_counts(stratum, most))


def likely_event(stratum: MergedStratum, most: Sequence[Fraction]) -> Suspicion:
    """Events as by random matching, and given an event every count that is unfit and possible as likely."""
    return _conclude(stratum, random_matching(stratum, most).weights, _counts(stratum, most)[1])


def _counts(stratum: MergedStratum, most: Sequence[Fraction]) -> tuple[Floats, Floats]:
    """How many unfit counts are possible, by leaf and event, and the middle of them."""
    rows, slots = stratum.rows[:, None], stratum.with_groups(stratum.slots)[None, :]
    lowest = np.maximum(least_above(stratum, most), rows + slots - int(stratum.slots.sum()))
    highest = np.minimum(rows, slots)
    counts = np.maximum(highest - lowest + 1, 0)
    return counts.astype(np.float64), np.where(counts > 0, (lowest + highest) / 2, 0.0)


MODELS: dict[str, Model] = {
    "random matching": random_matching,
    "any count": any_count,
    "likely event, any count": likely_event,
}


def least_above(stratum: MergedStratum, most: Sequence[Fraction]) -> Integers:
    """The smallest count of each value and group with which its share in each leaf is above these, exactly."""
    shares = [most[number] for number in stratum.events.tolist()]
    rows = stratum.rows.tolist()
    return np.array([[share.numerator * n // share.denominator + 1 for share in shares] for n in rows], np.int64)


def _conclude(stratum: MergedStratum, likely: Floats, means: Floats) -> Suspicion:
    """From how likely each event is, in any unit, and the mean count given it."""
    total, held, rows = int(stratum.slots.sum()), stratum.slots.astype(np.float64), stratum.rows.astype(np.float64)
    of_events = stratum.with_groups(held)
    if not likely.any():  # no leaf can be unfit: there was another reason
        return Suspicion(stratum, np.zeros(likely.shape), np.tile(held / total, (len(rows), 1)))
    weights = likely / likely.sum()
    # in the leaf of the event: its values have their parts of m, and the others theirs of the rest
    rest = weights * (rows[:, None] - means) / np.maximum(total - of_events, 1.0)
    part = weights * means / np.maximum(of_events, 1.0)
    inside = held * (rest.sum(axis=1, keepdims=True) + stratum.by_value(part - rest))
    # in the others: what is left, in proportion to their rows
    outside = (weights.sum(axis=1, keepdims=True) * held - inside) / np.maximum(total - rows, 1.0)[:, None]
    elsewhere = outside.sum(axis=0) - outside
    return Suspicion(stratum, weights, inside / rows[:, None] + elsewhere)


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
        total, moment = _sum_terms(slots, having[upwards], drawn[upwards], first, 1)
        logs[upwards] = log_probability(slots, having[upwards], drawn[upwards], first) + np.log(total)
        means[upwards] = first + moment / total
    if downwards.any():
        first = least[downwards] - 1
        total, moment = _sum_terms(slots, having[downwards], drawn[downwards], first, -1)
        part = np.exp(log_probability(slots, having[downwards], drawn[downwards], first))
        below = np.minimum(part * total, 1 - _NOTHING)
        logs[downwards] = np.log1p(-below)
        means[downwards] = (mean[downwards] - part * (first * total - moment)) / (1 - below)
    return logs, means


def log_probability(slots: int, having: Integers, drawn: Integers, count: Integers) -> Floats:
    """log P(X = count)."""
    others = slots - having
    logs: Floats = (
        _log_choose(having, count) + _log_choose(others, drawn - count) - _log_choose(np.full_like(drawn, slots), drawn)
    )
    return logs


def _sum_terms(slots: int, having: Integers, drawn: Integers, first: Integers, step: int) -> tuple[Floats, Floats]:
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
    logs: Floats = _log_factorial(of) - _log_factorial(chosen) - _log_factorial(of - chosen)
    return logs


def _log_factorial(number: Integers) -> Floats:
    """Stirling's series, from a number that is large enough for it; smaller ones are led there by their products."""
    x = number.astype(np.float64) + 1
    product = np.ones_like(x)
    while (small := x < _STIRLING).any():
        product[small] *= x[small]
        x = np.where(small, x + 1, x)
    square = 1 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
    logs: Floats = (x - 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    return logs
