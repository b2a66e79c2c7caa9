"""What may be concluded from a stratum's having been merged of several leaves, under three models.

A stratum has N slots, M_x of them with value x, as ST shows; leaf A has n_A rows, as QIT shows. One of the events

    e = (A, x):   count_x(A) > most_x * n_A

has happened, most_x being the largest share that is fit. Events are taken as exclusive, with weights w_e that sum to 1.
Given e = (A, x) with m = E(count_x(A) | e), the rest is matched at random, so exactly

    E(count_y(A) | e) = m                                       for y = x,    (n_A - m) M_y / (N - M_x)    for others,
    E(count_y(B) | e) = (M_y - E(count_y(A) | e)) n_B / (N - n_A)             in the other leaves B,

and the posterior share of y in B is the sum over e of w_e E(count_y(B) | e) / n_B. Fake values are slots like others.
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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.audit.attacks.tails import tails
from dalenius.infer.candidates import Floats, Integers


@dataclass(frozen=True)
class Merged:
    """A stratum of several leaves: the leaves with rows, how many these have, its values, and how many slots each."""

    stratum: int
    leaves: Integers
    rows: Integers
    values: Integers
    slots: Integers


@dataclass(frozen=True)
class Suspicion:
    """By leaf and value of a merged stratum: the weight of its event, and the posterior share."""

    merged: Merged
    weights: Floats
    shares: Floats

    @property
    def lifts(self) -> Floats:
        """The posterior share over that of the stratum."""
        found: Floats = self.shares / (self.merged.slots / self.merged.slots.sum())
        return found

    @property
    def most_suspected(self) -> tuple[int, int]:
        """The leaf and value of the most probable event."""
        leaf, value = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        return int(leaf), int(value)


Model = Callable[[Merged, Sequence[Fraction]], Suspicion]


def random_matching(merged: Merged, most: Sequence[Fraction]) -> Suspicion:
    """Every matching is as likely before: `most` are the largest shares that are fit, of all values."""
    least = least_above(merged, most)
    logs, means = tails(int(merged.slots.sum()), merged.slots[None, :], merged.rows[:, None], least)
    likely = np.exp(logs - logs.max()) if np.isfinite(logs).any() else np.zeros(logs.shape)
    return _concluded(merged, likely, means)


def any_count(merged: Merged, most: Sequence[Fraction]) -> Suspicion:
    """Every leaf, value and count that are unfit and possible are as likely."""
    return _concluded(merged, *_counts(merged, most))


def likely_event(merged: Merged, most: Sequence[Fraction]) -> Suspicion:
    """Events as by random matching, and given an event every count that is unfit and possible as likely."""
    return _concluded(merged, random_matching(merged, most).weights, _counts(merged, most)[1])


def _counts(merged: Merged, most: Sequence[Fraction]) -> tuple[Floats, Floats]:
    """How many unfit counts are possible, by leaf and value, and the middle of them."""
    rows, slots = merged.rows[:, None], merged.slots[None, :]
    lowest = np.maximum(least_above(merged, most), rows + slots - int(merged.slots.sum()))
    highest = np.minimum(rows, slots)
    counts = np.maximum(highest - lowest + 1, 0)
    return counts.astype(np.float64), np.where(counts > 0, (lowest + highest) / 2, 0.0)


MODELS: dict[str, Model] = {
    "random matching": random_matching,
    "any count": any_count,
    "likely event, any count": likely_event,
}


def least_above(merged: Merged, most: Sequence[Fraction]) -> Integers:
    """The smallest count of each value with which its share in each leaf is above these, exactly."""
    shares = [most[value] for value in merged.values.tolist()]
    rows = merged.rows.tolist()
    return np.array([[share.numerator * n // share.denominator + 1 for share in shares] for n in rows], np.int64)


def _concluded(merged: Merged, likely: Floats, means: Floats) -> Suspicion:
    """From how likely each event is, in any unit, and the mean count given it."""
    total, held, rows = int(merged.slots.sum()), merged.slots.astype(np.float64), merged.rows.astype(np.float64)
    if not likely.any():  # no leaf can be unfit: there was another reason
        return Suspicion(merged, np.zeros(likely.shape), np.tile(held / total, (len(rows), 1)))
    weights = likely / likely.sum()
    # in the leaf of the event: m of its value, and of the others their part of the rest
    rest = weights * (rows[:, None] - means) / np.maximum(total - held, 1.0)
    inside = weights * means + held * (rest.sum(axis=1, keepdims=True) - rest)
    # in the others: what is left, in proportion to their rows
    outside = (weights.sum(axis=1, keepdims=True) * held - inside) / np.maximum(total - rows, 1.0)[:, None]
    elsewhere = outside.sum(axis=0) - outside
    return Suspicion(merged, weights, inside / rows[:, None] + elsewhere)
