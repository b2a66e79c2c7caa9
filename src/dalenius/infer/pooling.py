"""Counts that learn across the buckets of a table that was cut into strata.

Records are placed at random within their stratum only, so the equations of `association.py` hold in each stratum k by
itself, with shares p_kx of its own: E y_k = X_k p_k. Placements are independent, and N = Σ_k N_k.

What is assumed. In stratum k, with s_k the noise that `association.py` finds there, δ_kx is the association that the
shares of value x have beyond chance. A value that goes with the condition in one stratum mostly does so in others, so

    δ_kx = sqrt(s_k) (γ_x + η_kx),   Cov γ = ρ 1,   Cov η_k = ω_k 1,

a part that all strata share, and one of each by itself, all normal. Without the common part the errors of strata would
be taken to be independent, and to cancel out, where in truth they add up. And ω differs from stratum to stratum: those
that a tree has split often have little association left, those that were merged have much.

What follows. In each stratum z_k / sqrt(s_k) = diag(σ_k) R_kᵀ (γ + η_k) + noise of variance 1, by the singular value
decomposition there. Given ω_k, with Λ_k = (1 + ω_k σ_k²)^-1, the likelihood of z_k without γ is

    log likelihood = ½ (log |Λ_k| - z_kᵀ Λ_k z_k / s_k).

Each ω_k is one of a few levels, with chances that strata have in common: the prior of τ² / s in `association.py` counts
for as much as 20 strata, and the strata themselves make up the rest (expectation maximisation). What is seen of γ is
taken for a part of η_k here, which makes variances too large rather than too small. With Λ_k the mean over levels,
given what is seen in the stratum,

    b = Σ_k R_k σ_k Λ_k z_k / sqrt(s_k),   B = Σ_k R_k diag(σ_k² Λ_k) R_kᵀ,   γ | y  ~  N(C b, C),   C = (1 / ρ + B)^-1,

and with h_k and the unseen part of each stratum as there, t = Σ_k sqrt(s_k) (unseen_k + R_k Λ_k h_k),

    E[N | y] = Σ_k (Σ_d y_d X_dC / n_d + E ω_k h_kᵀ σ_k Λ_k z_k) + tᵀ C b,
    Var[N | y] = Σ_k (s_k Σ_d X_dC (1 - X_dC / n_d) + own variance) + tᵀ C t,

where the own variance of a stratum, s_k ω_k (|unseen_k|² + h_kᵀ Λ_k h_k), is averaged over the levels, and that of the
mean between them is added. The likelihood of ρ is |1 + ρ B|^-½ exp(½ bᵀ C b), its prior the same as that of ω, and N is
a mixture over ρ. Strata in which none or all of the rows match have no noise, and drop out.

A Cholesky decomposition of 1 + ρ B, with b and t as two lines more, has all that is needed. It has 64 lines at most:
where there are more values, γ is learned in the directions that the strata together say most about, and in the others
it is unknown, which adds ρ times the square of t there to the variance.

A table in one stratum is left to `association.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dalenius.infer.association import Association, Filling, Posterior, mixture, prior
from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.compositions import Block, Compositions

_OWN = np.concatenate([[0.0], np.geomspace(1e-4, 20, 8)])  # the levels of ω
_COMMON = np.concatenate([[0.0], np.geomspace(1e-5, 1, 6)])  # ρ
_PRIOR_STRATA = 20.0  # for as much as these the prior of ω counts
_ROUNDS = 4  # of expectation maximisation
_MOST_DIRECTIONS = 64
_CELLS_AT_ONCE = 2**22
_NO_NOISE = 1e-12
_LEAST_SINGULAR = 1e-9  # of the largest: below, there is rounding alone


class Associations:
    """The association in all strata of a release, one or many.

    Queries are lines of matching rows by class, as `Compositions` numbers them, and of wanted values by code.
    Where values are nobody's, the `filling` of the classes is needed as well.
    """

    def __init__(self, compositions: Compositions, filling: Filling | None = None) -> None:
        ends = np.cumsum([0, *(len(block.slots) for block in compositions.blocks)]).tolist()
        self._strata = [
            _Stratum.of(block, filling.some(slice(first, last)) if filling is not None else None)
            for block, (first, last) in zip(compositions.blocks, pairwise(ends), strict=True)
        ]
        self.values, self.classes = compositions.values, compositions.number
        self.records = np.zeros(self.values)  # by code
        for stratum in self._strata:
            self.records[stratum.values] += stratum.association.records
        if len(self._strata) == 1:
            self.at_once = self._strata[0].association.at_once
        else:
            self._pool = _Pool(self._strata, self.values)
            self.at_once = self._pool.at_once(self.classes)

    def posterior(self, matching: Floats, targets: Floats) -> Posterior:
        """At most about `at_once` queries should come together, to bound the memory."""
        if len(self._strata) == 1:
            return self._strata[0].association.posterior(matching, targets[:, self._strata[0].values])
        return self._pool.posterior(matching, targets)


@dataclass(frozen=True)
class _Stratum:
    values: Integers
    association: Association

    @classmethod
    def of(cls, block: Block, filling: Filling | None) -> _Stratum:
        return cls(block.values, Association(block.slots, filling))


@dataclass(frozen=True)
class _Sums:
    """The sums over all strata, by query: z / sqrt(s) and sqrt(s) h by direction, and the rest added up."""

    scores: Floats
    seen: Floats
    noisy: Floats  # by stratum: 1 where there is noise
    independent: Floats
    variance: Floats
    hidden: Floats  # by stratum: s |unseen|²
    common: Floats  # Σ sqrt(s) unseen, in the common directions
    beyond: Floats  # the square of t outside of these
    most: Floats  # by stratum: of ω


class _Pool:
    def __init__(self, strata: Sequence[_Stratum], values: int) -> None:
        self._strata, self._values = strata, values
        self._singular = np.concatenate([stratum.association.singular for stratum in strata])
        ends = np.cumsum([len(stratum.association.singular) for stratum in strata]).tolist()
        self._spans = [slice(first, last) for first, last in pairwise([0, *ends])]
        self._basis = self._directions()
        self._rotation = np.concatenate(
            [stratum.association.directions @ self._basis[stratum.values] for stratum in strata]
        )  # R of all strata, in the common directions
        self._precise = 1 / (1 + _OWN[:, None] * self._singular**2)  # Λ, by level and direction
        self._logs = np.array([np.log(self._precise[:, span]).sum(axis=1) for span in self._spans])
        self._level_information = self._information()
        own = prior(_OWN, _smallest(self._singular))
        self._own_prior = own / own.sum()
        everything = (self._rotation.T * self._singular**2) @ self._rotation
        self._common_prior = prior(_COMMON, _smallest(np.sqrt(np.maximum(np.linalg.eigvalsh(everything), 0.0))))

    def at_once(self, classes: int) -> int:
        directions = int(self._basis.shape[1])
        cells = len(self._singular) + classes + self._values + (directions + 2) ** 2 + len(self._strata) * len(_OWN)
        return max(1, _CELLS_AT_ONCE // cells)

    def posterior(self, matching: Floats, targets: Floats) -> Posterior:
        sums = self._sums(matching, targets)
        levels = self._levels(sums)
        means, variances, precise = self._own(sums, levels)
        b = (sums.scores * self._singular * precise) @ self._rotation
        t = sums.common + (sums.seen * precise) @ self._rotation
        information = self._common_information(levels)
        shape = (len(matching), len(_COMMON))
        fits, all_means, all_variances = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        all_means += (sums.independent + means)[:, None]
        all_variances += (sums.variance + variances)[:, None]
        for j in range(1, len(_COMMON)):
            ratio = float(_COMMON[j])
            fits[:, j], moved, left = _common(information, np.stack([b, t], axis=1), ratio)
            all_means[:, j] += moved
            all_variances[:, j] += left + ratio * sums.beyond
        weights = np.exp(fits - fits.max(axis=1, keepdims=True)) * self._common_prior
        return mixture(weights / weights.sum(axis=1, keepdims=True), all_means, all_variances)

    def _levels(self, sums: _Sums) -> Floats:
        """How likely each level of ω is, by query and stratum; zero for all where there is no noise."""
        squares = sums.scores**2
        fits = np.stack([squares[:, span] @ self._precise[:, span].T for span in self._spans], axis=1)
        fits = (self._logs - fits) / 2
        fits = np.where((sums.most[:, :, None] >= _OWN) | (_OWN == 0), fits, -np.inf)
        likely = np.exp(fits - fits.max(axis=2, keepdims=True)) * sums.noisy[:, :, None]
        chances = np.tile(self._own_prior, (len(likely), 1))
        strata = sums.noisy.sum(axis=1)[:, None]
        for _ in range(_ROUNDS):
            levels = _shares(likely * chances[:, None])
            chances = (_PRIOR_STRATA * self._own_prior + levels.sum(axis=1)) / (_PRIOR_STRATA + strata)
        return _shares(likely * chances[:, None])

    def _own(self, sums: _Sums, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """What each stratum by itself adds to the mean and to the variance; and Λ, by query and direction."""
        mean, variance, precise = np.zeros(len(levels)), np.zeros(len(levels)), np.zeros_like(sums.scores)
        gains = _OWN[:, None] * self._precise
        for k, span in enumerate(self._spans):
            level, seen = levels[:, k], sums.seen[:, span]
            moved = (seen * sums.scores[:, span] * self._singular[span]) @ gains[:, span].T
            left = seen**2 @ gains[:, span].T + sums.hidden[:, k, None] * _OWN
            own = (level * moved).sum(axis=1)
            mean += own
            variance += (level * (left + (moved - own[:, None]) ** 2)).sum(axis=1)
            precise[:, span] = level @ self._precise[:, span]
        return mean, variance, precise

    def _sums(self, matching: Floats, targets: Floats) -> _Sums:
        queries, strata = len(matching), len(self._strata)
        scores, seen = np.zeros((queries, len(self._singular))), np.zeros((queries, len(self._singular)))
        noisy, hidden, most = (np.zeros((queries, strata)) for _ in range(3))
        independent, variance = np.zeros(queries), np.zeros(queries)
        unseen, every = np.zeros((queries, self._values)), np.zeros((queries, self._values))
        first = 0
        for k, (stratum, span) in enumerate(zip(self._strata, self._spans, strict=True)):
            association, last = stratum.association, first + stratum.association.classes
            traits = association.traits(matching[:, first:last], targets[:, stratum.values])
            first = last
            noise = np.where(traits.noise > _NO_NOISE, traits.noise, 0.0)
            root = np.sqrt(noise)[:, None]
            noisy[:, k] = noise > 0
            scores[:, span] = traits.scores / np.where(root > 0, root, np.inf)
            seen[:, span] = traits.seen * root
            independent += traits.independent
            variance += traits.variance
            hidden[:, k] = noise * (traits.unseen**2).sum(axis=1)
            most[:, k] = traits.most / np.where(noise > 0, noise, 1.0)
            unseen[:, stratum.values] += root * traits.unseen
            if self._basis.shape[1] < self._values:
                every[:, stratum.values] += root * traits.unseen + seen[:, span] @ association.directions
        beyond = np.maximum((every**2).sum(axis=1) - ((every @ self._basis) ** 2).sum(axis=1), 0.0)
        return _Sums(
            scores=scores,
            seen=seen,
            noisy=noisy,
            independent=independent,
            variance=variance,
            hidden=hidden,
            common=unseen @ self._basis,
            beyond=beyond,
            most=most,
        )

    def _directions(self) -> Floats:
        """The directions in which γ is learned: the values, or if they are many, those that B says most about."""
        if self._values <= _MOST_DIRECTIONS:
            return np.eye(self._values)
        information = np.zeros((self._values, self._values))
        for stratum in self._strata:
            scaled = stratum.association.directions * stratum.association.singular[:, None]
            information[np.ix_(stratum.values, stratum.values)] += scaled.T @ scaled
        basis: Floats = np.linalg.eigh(information)[1][:, -_MOST_DIRECTIONS:]
        return basis

    def _information(self) -> npt.NDArray[np.float32]:
        """R diag(σ² Λ) Rᵀ of every stratum and level. Half the digits do: 1 is added to what is made of them."""
        size = self._rotation.shape[1]
        information = np.zeros((len(self._spans), len(_OWN), size * size), dtype=np.float32)
        for k, span in enumerate(self._spans):
            turned, weights = self._rotation[span], self._singular[span] ** 2 * self._precise[:, span]
            for level, weight in enumerate(weights):
                information[k, level] = ((turned.T * weight) @ turned).ravel()
        return information.reshape(-1, size * size)

    def _common_information(self, levels: Floats) -> Floats:
        """The B of every query."""
        size = self._rotation.shape[1]
        information = levels.reshape(len(levels), -1).astype(np.float32) @ self._level_information
        return information.astype(np.float64).reshape(-1, size, size)


def _shares(weights: Floats) -> Floats:
    """Along the last axis they add up to 1, or are zero."""
    sums = weights.sum(axis=-1, keepdims=True)
    shares: Floats = weights / np.where(sums > 0, sums, 1.0)
    return shares


def _smallest(singular: Floats) -> float:
    """The c of a prior, as in `association.py`."""
    telling = singular[singular > _LEAST_SINGULAR * singular.max()]
    return float(1 / np.median(telling)) if len(telling) else 1.0


def _common(information: Floats, ends: Floats, ratio: float) -> tuple[Floats, Floats, Floats]:
    """The logarithm of the likelihood that γ adds, tᵀ C b and tᵀ C t; `ends` are b and t.

    The last two lines of a Cholesky decomposition with b and t below are L^-1 b and L^-1 t, whatever is in the corner.
    """
    queries, size = len(information), information.shape[1]
    whole = np.zeros((queries, size + 2, size + 2))
    whole[:, :size, :size] = ratio * information
    whole[:, size:, :size] = np.sqrt(ratio) * ends
    diagonal = np.einsum("qii->qi", whole)
    diagonal[:, :size] += 1
    diagonal[:, size:] = 2 * ratio * (ends**2).sum(axis=2) + 1  # enough for it to be positive definite
    lower = np.linalg.cholesky(whole)
    logs = np.log(np.einsum("qii->qi", lower)[:, :size]).sum(axis=1)
    end_b, end_t = lower[:, size, :size], lower[:, size + 1, :size]
    return (end_b**2).sum(axis=1) / 2 - logs, (end_b * end_t).sum(axis=1), (end_t**2).sum(axis=1)
