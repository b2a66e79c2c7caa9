"""Counts that learn across buckets how quasi-identifiers and sensitive values go together.

Value x has o_x records, of which an unknown share p_x satisfies a condition q on quasi-identifiers. For a set C of
values, we estimate N = Σ_{x in C} o_x p_x. Buckets of equal composition are one class; class d has X_dx slots of value
x, and y_d of its rows satisfy q.

What is certain. The publisher gave the o_x records of every value to its slots at random, whatever the data are. So the
matching records of value x are spread over classes by a multivariate hypergeometric distribution, values independently:

    E y = X p,   Cov y = Σ_x s_x (diag(X_x) - X_x X_xᵀ / o_x),   s_x = p_x (1 - p_x) o_x / (o_x - 1).

Classes and values that hang together (a class has a value) are a component. Its y add up to Σ o_x p_x without noise.

What is assumed. Least squares would be unbiased, and useless: X is nearly singular. So the p_x of a component with A_c
matching rows among n_c are taken to scatter around a common mean: by chance, as in any sample of o_x records, and by
association, with variance τ². Given A_c,

    p_x = A_c / n_c + δ_x - Σ_z o_z δ_z / n_c + ε_x,   Cov δ = τ² 1,   Cov ε = s (diag(1 / o) - 1 1ᵀ / n_c),

all normal, y too, with one s: the mean of the s_x of a first round, each weighted by its part in the trace of Cov y.
The prior of τ is 1 / (τ + c), up to what shares between 0 and 1 allow: uniform on a logarithmic scale, but for τ below
c, which the release can hardly tell from none. So estimates are pulled towards no association, the less the more is
seen of it.

What follows. Chance and placement together are noise of the covariance s (diag(n_d) - n_d n_dᵀ / n_c), n_d the rows of
class d: independence. For τ = 0 the estimate is therefore Σ_d y_d X_dC / n_d, the one that takes rows and values to be
matched at random in buckets, and its variance s Σ_d X_dC (1 - X_dC / n_d). With p = centre + Π δ + ε and the singular
values σ of diag(n_d)^-1/2 X Π = Q diag(σ) Rᵀ, the z = Qᵀ diag(n_d)^-1/2 (y - X centre) are independent with variances
s + τ² σ², and with h = Rᵀ Πᵀ (diag(o) - Xᵀ diag(1 / n_d) X) C

    E[N | y, τ] = Σ_d y_d X_dC / n_d + Σ_j h_j σ_j z_j τ² / (s + τ² σ_j²),
    Var[N | y, τ] = s Σ_d X_dC (1 - X_dC / n_d) + Σ_j h_j² s τ² / (s + τ² σ_j²),

where directions that y does not show have σ = 0. Over τ this is a mixture of normal distributions. Its mean, its
standard deviation, and its 2.5 % and 97.5 % quantiles are the answer; they are not cut to bounds here.

Values of nobody. With σ fake values in each bucket, of S records, it has T = S + σ slots, of which S are real: every S
of them with the same chance. Where people left, the slots of those who did are not real either, so that σ differs by
bucket. (That they left says nothing of their values.) Of the X_dx slots of value x in class d, then, R_dx are real.
With sums over the b_d buckets of the class, each with v slots of values in C,

    E R = X' = X Σ S / (b_d T),   E y = X' p,   Var R_dC = v (T - v) Σ S σ / (T² (T - 1)).

X' takes the place of X, and Σ_d X'_dx that of o_x, above. Two variances are added, both rather too large than too
small:

- y scatters by R as well, as R_d p. In a class this has the variance f V Σ S with f = Σ S σ / ((T - 1) Σ S) and V the
  variance of p_x over the slots of a bucket. With c the mean of shares, V = c (1 - c) - mean p_x (1 - p_x), that is,
  about c (1 - c) - s. So the noise is (1 - f) s + f c (1 - c), with the largest f of a class. The s that is found from
  shrunken shares is rather too large than too small, and as f <= 1 so is the noise.
- N = Σ_{x in C} o_x p_x has the o_x that R gives: (E N / o_C)² Σ_d Var R_dC. For τ = 0 and many buckets this makes the
  variance that of the estimate from single buckets; that y says something of R is left out. Where fake values are
  marked so that their shares are fixed for the whole table, as `publish` does, o_x is known better than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.candidates import Floats, Integers

_HALVINGS = 48
_QUANTILES = (0.025, 0.975)
MOST_CLASSES = 2_000
MOST_VALUES = 2_000
_LEAST_NOISE = 0.05  # of the noise that there is without association: what a first round is trusted to find
_LEAST_SINGULAR = 1e-9  # of the largest: below, there is rounding alone
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-8, 1 / _LEAST_NOISE, 64)])  # τ² / s
_COARSE = _RATIOS[::8]
_CELLS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Filling:
    """What the buckets of every class have of rows, where some of their values are nobody's.

    With S rows in a bucket of T slots, these are the number of buckets, Σ S, and Σ S (T - S).
    """

    buckets: Floats
    rows: Floats
    scatter: Floats

    def some(self, classes: slice) -> Filling:
        """That of some of the classes."""
        return Filling(self.buckets[classes], self.rows[classes], self.scatter[classes])

    def times(self, number: int) -> Filling:
        """That of so many times as many buckets."""
        return Filling(self.buckets * number, self.rows * number, self.scatter * number)


class Association:
    """The association as a release shows it: made once from the slots, by class (rows) and value (columns).

    Where values are nobody's, the `filling` of the classes is needed as well.
    """

    def __init__(self, slots: Floats, filling: Filling | None = None) -> None:
        self._fakes = _Fakes.of(slots, filling)
        slots = slots * self._fakes.real[:, None]  # X'
        self.at_once = max(1, _CELLS_AT_ONCE // max(*slots.shape, len(_RATIOS)))  # queries, to bound the memory
        self.classes = len(slots)
        self.records = slots.sum(axis=0)  # o
        self._rows = slots.sum(axis=1)
        self._class_part, self._value_part = components(slots > 0)
        parts = int(self._class_part.max()) + 1
        self.sizes = np.bincount(self._class_part, weights=self._rows, minlength=parts)  # n_c
        several = np.bincount(self._value_part, minlength=parts) > 1
        self._open = np.where(several, self.sizes, 0.0)  # of components with one value, all is known
        self._open /= max(self._open.sum(), 1.0)
        self._noisy = self._noise_weights(slots, several[self._value_part])
        self._slots, self._mix = slots, slots / self._rows[:, None]
        self._members = (self._value_part[:, None] == np.arange(parts)).astype(np.float64)
        left, self.singular, self.directions = np.linalg.svd(
            self._centre(slots / np.sqrt(self._rows)[:, None]), full_matrices=False
        )
        self._scores = left / np.sqrt(self._rows)[:, None]
        self._seen = self._open_directions(np.eye(len(self.records))) @ self.directions.T  # h, by value
        telling = self.singular[self.singular > _LEAST_SINGULAR * self.singular.max()]
        self._smallest = float(1 / np.median(telling)) if len(telling) else 1.0  # c, for s = 1

    def posterior(self, matching: Floats, targets: Floats) -> Posterior:
        """For every query its y, a line of `matching`, and C, a line of zeros and ones in `targets`."""
        noise, most, _ = self._noises(matching, _RATIOS)
        weights = self._weights(self._scores_of(matching), noise, most, _RATIOS)
        return mixture(weights, *self.moments_given(matching, targets, noise, _RATIOS))

    def moments_given(self, matching: Floats, targets: Floats, noise: Floats, ratios: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of N for every query (with its s, or noise) and every ratio τ² / s."""
        gains = ratios[:, None] / (1 + ratios[:, None] * self.singular**2)
        independent, at_random, seen, unseen = self._sums(matching, targets)
        means = independent[:, None] + (seen * self._scores_of(matching) * self.singular) @ gains.T
        hidden = (unseen**2).sum(axis=1)[:, None] * ratios
        variances = noise[:, None] * (at_random[:, None] + hidden + seen**2 @ gains.T)
        if self._fakes.any:
            variances += self._scatter(targets, means)
        return means, variances

    def traits(self, matching: Floats, targets: Floats) -> Traits:
        """The parts, for a pool of several strata."""
        noise, most, shares = self._noises(matching, _COARSE)
        independent, at_random, seen, unseen = self._sums(matching, targets)
        variance = noise * at_random
        if self._fakes.any:
            variance += self._scatter(targets, (targets * shares) @ self.records[:, None])[:, 0]
        return Traits(
            independent=independent,
            variance=variance,
            noise=noise,
            most=most,
            scores=self._scores_of(matching),
            seen=seen,
            unseen=unseen,
        )

    def _sums(self, matching: Floats, targets: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        slots = targets @ self._slots.T
        at_random = (slots * (1 - slots / self._rows)).sum(axis=1)
        open_directions = self._open_directions(targets)
        seen = open_directions @ self.directions.T
        unseen = open_directions - seen @ self.directions
        return (targets * (matching @ self._mix)).sum(axis=1), at_random, seen, unseen

    def _open_directions(self, targets: Floats) -> Floats:
        """Πᵀ (diag(o) - Xᵀ diag(1 / n_d) X) C of every query."""
        return self._centre(targets * self.records - (targets @ self._slots.T) @ self._mix)

    def _centre(self, lines: Floats) -> Floats:
        """Every line times Π."""
        sums = (lines @ self._members) / self.sizes
        centred: Floats = lines - (sums @ self._members.T) * self.records
        return centred

    def _scatter(self, targets: Floats, means: Floats) -> Floats:
        """What values of nobody add to the variance, for every mean of every query."""
        records = np.maximum(targets @ self.records, 1.0)[:, None]
        scatter: Floats = np.clip(means / records, 0, 1) ** 2 * self._fakes.scatter(targets)[:, None]
        return scatter

    def _noises(self, matching: Floats, ratios: Floats) -> tuple[Floats, Floats, Floats]:
        """The s of every query, from the shares of a first round; what τ² may be; and these shares."""
        centres = self._centres(matching)
        most = (centres * (1 - centres)) @ self._open  # τ² is at most this
        scores = self._scores_of(matching)
        weights = self._weights(scores, self._noise(centres[:, self._value_part], most), most, ratios)
        gains = weights @ (ratios[:, None] / (1 + ratios[:, None] * self.singular**2))
        moved = (gains * scores * self.singular) @ self._seen.T
        shares: Floats = np.clip((matching @ self._mix + moved) / self.records, 0, 1)
        return self._noise(shares, most), most, shares

    def _centres(self, matching: Floats) -> Floats:
        totals = np.zeros((len(matching), len(self.sizes)))
        np.add.at(totals.T, self._class_part, matching.T)
        centres: Floats = totals / self.sizes
        return centres

    def _scores_of(self, matching: Floats) -> Floats:
        """The z of every query."""
        scores: Floats = (matching - self._centres(matching)[:, self._class_part] * self._rows) @ self._scores
        return scores

    def _noise_weights(self, slots: Floats, several: npt.NDArray[np.bool_]) -> Floats:
        """How much each s_x counts: the part of value x in the trace of Cov y; where a component has none, records."""
        parts = self.records - (slots**2).sum(axis=0) / self.records
        traces = np.bincount(self._value_part, weights=parts)[self._value_part]
        parts = np.where(several, np.where(traces > 0, parts, self.records), 0.0)
        weights: Floats = parts / max(parts.sum(), 1.0)
        return weights

    def _noise(self, shares: Floats, most: Floats) -> Floats:
        """The s of every query, given the p_x; with values of nobody, the noise of y that takes its place."""
        corrected = self._noisy * self.records / np.maximum(self.records - 1, 1)
        noise: Floats = np.maximum((shares * (1 - shares)) @ corrected, _LEAST_NOISE * most)
        return np.maximum(noise, (1 - self._fakes.part) * noise + self._fakes.part * most)

    def _weights(self, scores: Floats, noise: Floats, most: Floats, ratios: Floats) -> Floats:
        """The weight of every ratio τ² / s: the likelihood of z, times the prior of the τ for which it stands."""
        precise = 1 / (1 + ratios[:, None] * self.singular**2)
        squares = scores**2 / np.where(noise > 0, noise, 1.0)[:, None]
        fit = (np.log(precise).sum(axis=1) - squares @ precise.T) / 2
        allowed = (ratios * noise[:, None] <= most[:, None]) | (ratios == 0)
        fit = np.where(allowed, fit, -np.inf)
        weights = np.exp(fit - fit.max(axis=1, keepdims=True)) * prior(ratios, self._smallest)
        normal: Floats = weights / weights.sum(axis=1, keepdims=True)
        return normal


@dataclass(frozen=True)
class Traits:
    """The parts of the distribution of N, given τ, for every query, in the notation of the module's docstring.

    With unit vectors u_j (`Association.directions`), E[N | y, δ] = independent + Σ_j seen_j u_j δ + unseen δ.
    """

    independent: Floats  # Σ_d y_d X_dC / n_d
    variance: Floats  # of N for τ = 0
    noise: Floats  # s
    most: Floats  # what τ² may be
    scores: Floats  # z, by query and direction
    seen: Floats  # h, by query and direction
    unseen: Floats  # by query and value


@dataclass(frozen=True)
class Posterior:
    """The mean, the standard deviation, and the 2.5 % and 97.5 % quantiles of every query."""

    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats


def mixture(weights: Floats, means: Floats, variances: Floats) -> Posterior:
    """A line for every query, a column for every part of its mixture; the weights of a line add up to 1."""
    mean = (weights * means).sum(axis=1)
    deviation = np.sqrt((weights * (variances + (means - mean[:, None]) ** 2)).sum(axis=1))
    low, high = (_quantile(weights, means, np.sqrt(variances), share) for share in _QUANTILES)
    return Posterior(mean=mean, deviation=deviation, low=low, high=high)


def prior(ratios: Floats, smallest: float) -> Floats:
    """1 / (τ + c), for the stretch of τ for which each ratio stands."""
    roots = np.sqrt(ratios)
    steps = np.diff(roots, prepend=0.0, append=roots[-1])
    weights: Floats = (steps[:-1] + steps[1:]) / (roots + smallest)
    return weights


def components(linked: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """The component of every class (row) and of every value (column), numbered from 0."""
    classes, values = (np.full(size, -1, dtype=np.int64) for size in linked.shape)
    number = 0
    for first in range(len(classes)):
        if classes[first] >= 0:
            continue
        reached = np.zeros(len(classes), dtype=np.bool_)
        edge = np.array([first])
        while edge.size:
            reached[edge] = True
            values[linked[edge].any(axis=0)] = number
            edge = np.flatnonzero(linked[:, values == number].any(axis=1) & ~reached)
        classes[reached] = number
        number += 1
    return classes, values


@dataclass(frozen=True)
class _Fakes:
    """The effect of values of nobody on the slots of every class."""

    any: bool
    real: Floats  # Σ S / (b T)
    part: float  # f
    slots: Floats  # v, by class and value
    factor: Floats  # Σ S σ / (T² (T - 1))

    @classmethod
    def of(cls, slots: Floats, filling: Filling | None) -> _Fakes:
        if filling is None or not filling.scatter.any():
            return cls(any=False, real=np.ones(len(slots)), part=0.0, slots=slots[:, :0], factor=np.zeros(len(slots)))
        each = slots / filling.buckets[:, None]
        every = each.sum(axis=1)  # T
        rest = filling.scatter / np.maximum(every - 1, 1)
        real, part = filling.rows / (filling.buckets * every), float((rest / filling.rows).max())
        return cls(any=True, real=real, part=part, slots=each, factor=rest / every**2)

    def scatter(self, targets: Floats) -> Floats:
        """The variance of the number of records with a value in C, for every query."""
        slots_of_targets = targets @ self.slots.T
        variance: Floats = (slots_of_targets * (self.slots.sum(axis=1) - slots_of_targets)) @ self.factor
        return variance


def _quantile(weights: Floats, means: Floats, deviations: Floats, share: float) -> Floats:
    """The quantile of a mixture of normal distributions, by halving."""
    low, high = (means - 9 * deviations).min(axis=1), (means + 9 * deviations).max(axis=1)
    safe = np.where(deviations > 0, deviations, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        gap = middle[:, None] - means
        below = (weights * np.where(deviations > 0, _normal(gap / safe), gap >= 0)).sum(axis=1) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    quantile: Floats = high
    return quantile


def _normal(z: Floats) -> Floats:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    polynomial = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * polynomial
    result: Floats = np.where(z > 0, 1 - tail, tail)
    return result
