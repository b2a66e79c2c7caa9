"""Counts that learn across buckets how quasi-identifiers and sensitive values go together.

Value x has o_x records, of which an unknown share p_x satisfies a condition q on quasi-identifiers. For a set C of
values, N = Σ_{x in C} o_x p_x is wanted. Buckets of equal composition are one class; class d has X_dx slots of value x,
and y_d of its rows satisfy q.

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

Fake values. With σ fake values in each bucket, of S records, it has S + σ slots, of which S are real: every S of them
with the same chance. Of the X_dx slots of value x in class d, then, R_dx are real, with

    E R = X' = X S / (S + σ),   E y = X' p,   Var R_dC = b_d v (S + σ - v) S σ / ((S + σ)² (S + σ - 1)),

b_d buckets of the class with v slots of values in C each. X' takes the place of X, and Σ_d X'_dx that of o_x, above.
Two variances are added, both rather too large than too small:

- y scatters by R as well, as R_d p. In a bucket this has the variance f S V with f = σ / (S + σ - 1) and V the variance
  of p_x over its slots. With c the mean of shares, V = c (1 - c) - mean p_x (1 - p_x), that is, about c (1 - c) - s. So
  the noise is (1 - f) s + f c (1 - c), with the largest f of a class. The s that is found from shrunken shares is
  rather too large than too small, and as f <= 1 so is the noise.
- N = Σ_{x in C} o_x p_x has the o_x that R gives: (E N / o_C)² Σ_d Var R_dC. For τ = 0 and many buckets this makes the
  variance that of the estimate from single buckets; that y says something of R is left out. Where fake values are
  marked so that their shares are fixed for the whole table, as `publish` does, o_x is known better than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.model.estimate import Learned

MOST_CLASSES = 2_000
MOST_VALUES = 2_000
_LEAST_NOISE = 0.05  # of the noise that there is without association: what a first round is trusted to find
_LEAST_SINGULAR = 1e-9  # of the largest: below, there is rounding alone
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-8, 1 / _LEAST_NOISE, 64)])  # τ² / s
_HALVINGS = 48
_CELLS_AT_ONCE = 2**20
_QUANTILES = (0.025, 0.975)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Posterior:
    """Of every query: the mean, the standard deviation, and the quantiles between which 95 % lie."""

    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class _Fakes:
    """What fake values do to the slots of every class."""

    any: bool
    real: Floats  # S / (S + σ)
    part: float  # f
    slots: Floats  # v, by class and value
    factor: Floats  # b S σ / ((S + σ)² (S + σ - 1))

    @classmethod
    def of(cls, slots: Floats, buckets: Integers | None, fake_values: int) -> _Fakes:
        if buckets is None or not fake_values:
            nothing = np.zeros(len(slots))
            return cls(False, np.ones(len(slots)), 0.0, slots[:, :0], nothing)
        each = slots / buckets[:, None]
        every = each.sum(axis=1)  # S + σ
        records = every - fake_values
        factor = buckets * records * fake_values / (every**2 * np.maximum(every - 1, 1))
        return cls(True, records / every, float((fake_values / np.maximum(every - 1, 1)).max()), each, factor)

    def scatter(self, wanted: Floats) -> Floats:
        """The variance of the number of records with a value in C, for every query."""
        chosen = wanted @ self.slots.T
        variance: Floats = (chosen * (self.slots.sum(axis=1) - chosen)) @ self.factor
        return variance


class Association:
    """What a release says of the association: made once from the slots, by class (rows) and value (columns).

    Where there are fake values in each bucket, the `buckets` of every class are needed as well.
    """

    def __init__(self, slots: Floats, buckets: Integers | None = None, fake_values: int = 0) -> None:
        self._fakes = _Fakes.of(slots, buckets, fake_values)
        slots = slots * self._fakes.real[:, None]  # X'
        self.at_once = max(1, _CELLS_AT_ONCE // max(*slots.shape, len(_RATIOS)))  # queries, to bound the memory
        self.records = slots.sum(axis=0)  # o
        self._rows = slots.sum(axis=1)
        self._class_part, self._value_part = components(slots > 0)
        parts = int(self._class_part.max()) + 1
        self._sizes = np.bincount(self._class_part, weights=self._rows, minlength=parts)  # n_c
        several = np.bincount(self._value_part, minlength=parts) > 1
        self._open = np.where(several, self._sizes, 0.0)  # of components with one value, all is known
        self._open /= max(self._open.sum(), 1.0)
        self._noisy = self._noise_weights(slots, several[self._value_part])
        self._slots, self._mix = slots, slots / self._rows[:, None]
        scaled = slots / np.sqrt(self._rows)[:, None]
        together = self._value_part[:, None] == self._value_part
        centred = np.eye(len(self.records)) - together * (self.records / self._sizes[self._value_part])  # Π
        left, self._singular, right = np.linalg.svd(scaled @ centred, full_matrices=False)
        self._scores = left / np.sqrt(self._rows)[:, None]
        left_open = (np.diag(self.records) - scaled.T @ scaled) @ centred
        self._seen = left_open @ right.T  # h, by value
        self._unseen = left_open - self._seen @ right
        telling = self._singular[self._singular > _LEAST_SINGULAR * self._singular.max()]
        self._smallest = float(1 / np.median(telling)) if len(telling) else 1.0  # c, for s = 1

    def posterior(self, matching: Floats, wanted: Floats) -> Posterior:
        """For every query its y, a line of `matching`, and C, a line of zeros and ones in `wanted`."""
        centres = self._centres(matching)
        most = (centres * (1 - centres)) @ self._open  # τ² is at most this
        common = centres[:, self._value_part]
        weights = self._weights(matching, self._noise(common, most), most)
        noise = self._noise(np.clip(self._estimated_shares(matching, weights), 0, 1), most)
        weights = self._weights(matching, noise, most)
        means, variances = self.given(matching, wanted, noise, _RATIOS)
        mean = (weights * means).sum(axis=1)
        deviation = np.sqrt((weights * (variances + (means - mean[:, None]) ** 2)).sum(axis=1))
        low, high = (_quantile(weights, means, np.sqrt(variances), share) for share in _QUANTILES)
        return Posterior(mean, deviation, low, high)

    def given(self, matching: Floats, wanted: Floats, noise: Floats, ratios: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of N for every query (with its s, or noise) and every ratio τ² / s."""
        gains = ratios[:, None] / (1 + ratios[:, None] * self._singular**2)
        seen = wanted @ self._seen
        unseen = ((wanted @ self._unseen) ** 2).sum(axis=1)
        slots = wanted @ self._slots.T
        at_random = (slots * (1 - slots / self._rows)).sum(axis=1)
        independent = (wanted * (matching @ self._mix)).sum(axis=1)
        means = independent[:, None] + (seen * self._scored(matching) * self._singular) @ gains.T
        variances = noise[:, None] * (at_random[:, None] + unseen[:, None] * ratios + seen**2 @ gains.T)
        if self._fakes.any:
            records = np.maximum(wanted @ self.records, 1.0)[:, None]
            variances += np.clip(means / records, 0, 1) ** 2 * self._fakes.scatter(wanted)[:, None]
        return means, variances

    def _centres(self, matching: Floats) -> Floats:
        totals = np.zeros((len(matching), len(self._sizes)))
        np.add.at(totals.T, self._class_part, matching.T)
        centres: Floats = totals / self._sizes
        return centres

    def _scored(self, matching: Floats) -> Floats:
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
        """The s of every query, given the p_x; with fake values, the noise of y that takes its place."""
        corrected = self._noisy * self.records / np.maximum(self.records - 1, 1)
        noise: Floats = np.maximum((shares * (1 - shares)) @ corrected, _LEAST_NOISE * most)
        return np.maximum(noise, (1 - self._fakes.part) * noise + self._fakes.part * most)

    def _weights(self, matching: Floats, noise: Floats, most: Floats) -> Floats:
        """The weight of every ratio τ² / s: the likelihood of z, times the prior of the τ for which it stands."""
        precise = 1 / (1 + _RATIOS[:, None] * self._singular**2)
        squares = self._scored(matching) ** 2 / np.where(noise > 0, noise, 1.0)[:, None]
        fit = (np.log(precise).sum(axis=1) - squares @ precise.T) / 2
        roots = np.sqrt(_RATIOS)
        steps = np.diff(roots, prepend=0.0, append=roots[-1])
        prior = (steps[:-1] + steps[1:]) / (roots + self._smallest)
        allowed = (_RATIOS * noise[:, None] <= most[:, None]) | (_RATIOS == 0)
        fit = np.where(allowed, fit, -np.inf)
        weights = np.exp(fit - fit.max(axis=1, keepdims=True)) * prior
        normal: Floats = weights / weights.sum(axis=1, keepdims=True)
        return normal

    def _estimated_shares(self, matching: Floats, weights: Floats) -> Floats:
        gains = weights @ (_RATIOS[:, None] / (1 + _RATIOS[:, None] * self._singular**2))
        moved = (gains * self._scored(matching) * self._singular) @ self._seen.T
        shares: Floats = (matching @ self._mix + moved) / self.records
        return shares


def learned(posterior: Posterior, position: int, bounds: tuple[int, int]) -> Learned:
    """One query's answer, cut to bounds that always hold; the interval in whole counts, rounded outwards."""
    mean, deviation = float(posterior.mean[position]), float(posterior.deviation[position])
    return Learned.of(mean, deviation, float(posterior.low[position]), float(posterior.high[position]), bounds)


def components(linked: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """The component of every class (row) and of every value (column), numbered from 0."""
    classes, values = (np.full(size, -1, dtype=np.int64) for size in linked.shape)
    found = 0
    for first in range(len(classes)):
        if classes[first] >= 0:
            continue
        reached = np.zeros(len(classes), dtype=np.bool_)
        edge = np.array([first])
        while edge.size:
            reached[edge] = True
            values[linked[edge].any(axis=0)] = found
            edge = np.flatnonzero(linked[:, values == found].any(axis=1) & ~reached)
        classes[reached] = found
        found += 1
    return classes, values


def _quantile(weights: Floats, means: Floats, deviations: Floats, share: float) -> Floats:
    """Where a mixture of normal distributions has this share below: by halving."""
    low, high = (means - 9 * deviations).min(axis=1), (means + 9 * deviations).max(axis=1)
    safe = np.where(deviations > 0, deviations, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        gap = middle[:, None] - means
        below = (weights * np.where(deviations > 0, _normal(gap / safe), gap >= 0)).sum(axis=1) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Floats = high
    return found


def _normal(z: Floats) -> Floats:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    polynomial = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * polynomial
    result: Floats = np.where(z > 0, 1 - tail, tail)
    return result
