"""Counts that learn across the buckets of a table that was cut into strata.

Records are placed at random within their stratum only, so the equations of `infer.learned` hold in each stratum k by
itself, with shares p_kx of its own: E y_k = X_k p_k. Placements are independent, and N = Σ_k N_k.

What is assumed. In stratum k, with s_k the noise that `infer.learned` finds there, δ_kx is the association that the
shares of value x have beyond chance. A value that goes with the condition in one stratum mostly does so in others, so

    δ_kx = sqrt(s_k) (γ_x + η_kx),   Cov γ = ρ 1,   Cov η_k = ω 1,

a part that all strata share, and one of each by itself, all normal. Without the common part the errors of strata would
be taken to be independent, and to cancel out, where in truth they add up.

What follows. In each stratum z_k / sqrt(s_k) = diag(σ_k) R_kᵀ (γ + η_k) + noise of variance 1, by the singular value
decomposition there. Given ω, with Λ_k = (1 + ω σ_k²)^-1,

    b = Σ_k R_k σ_k Λ_k z_k / sqrt(s_k),   B = Σ_k R_k diag(σ_k² Λ_k) R_kᵀ,   γ | y  ~  N(C b, C),   C = (1 / ρ + B)^-1,

and with h_k and the unseen part of each stratum as there, t = Σ_k sqrt(s_k) (unseen_k + R_k Λ_k h_k),

    E[N | y] = Σ_k (Σ_d y_d X_dC / n_d + ω h_kᵀ σ_k Λ_k z_k) + tᵀ C b,
    Var[N | y] = Σ_k s_k (Σ_d X_dC (1 - X_dC / n_d) + ω (|unseen_k|² + h_kᵀ Λ_k h_k)) + tᵀ C t,

    log likelihood = ½ Σ_k (log |Λ_k| - z_kᵀ Λ_k z_k / s_k) - ½ log |1 + ρ B| + ½ bᵀ C b.

Strata in which none or all of the rows match have no noise, and drop out. Both ω and ρ have the prior of τ² / s in
`infer.learned`, and N is a mixture over them. A Cholesky decomposition of 1 + ρ B, with b and t as two lines more, has
all of it. It has 64 lines at most: where there are more values, γ is learned in the directions that the strata together
say most about, and in the others it is unknown, which adds ρ times the square of t there to the variance.

A table in one stratum is left to `infer.learned`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dalenius.infer.compositions import Block, Compositions
from dalenius.infer.learned import Association, prior
from dalenius.infer.posterior import Posterior, mixture

_OWN = np.concatenate([[0.0], np.geomspace(1e-4, 10, 6)])  # ω
_COMMON = np.concatenate([[0.0], np.geomspace(1e-5, 1, 6)])  # ρ
_MOST_DIRECTIONS = 64
_CELLS_AT_ONCE = 2**22
_NO_NOISE = 1e-12

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Associations:
    """What a release says of the association in all its strata: `Association`, for one or many of them.

    Queries are lines of matching rows by class, as `Compositions` numbers them, and of wanted values by code.
    """

    def __init__(self, found: Compositions, fake_values: int = 0) -> None:
        self._strata = [_Stratum.of(block, fake_values) for block in found.blocks]
        self.values, self.classes = found.values, found.number
        self.records = np.zeros(self.values)  # by code
        for stratum in self._strata:
            self.records[stratum.values] += stratum.association.records
        if len(self._strata) == 1:
            self.at_once = self._strata[0].association.at_once
        else:
            self._pooled = _Pooled(self._strata, self.values)
            self.at_once = self._pooled.at_once(self.classes)

    def posterior(self, matching: Floats, wanted: Floats) -> Posterior:
        """At most about `at_once` queries should come together, to bound the memory."""
        if len(self._strata) == 1:
            return self._strata[0].association.posterior(matching, wanted[:, self._strata[0].values])
        return self._pooled.posterior(matching, wanted)


@dataclass(frozen=True)
class _Stratum:
    values: Integers
    association: Association

    @classmethod
    def of(cls, block: Block, fake_values: int) -> _Stratum:
        return cls(block.values, Association(block.slots, block.buckets, fake_values))


@dataclass(frozen=True)
class _Sums:
    """Of all strata together, by query: z / sqrt(s) and sqrt(s) h by direction, and what adds up."""

    scores: Floats
    seen: Floats
    noisy: Floats  # by query and stratum: whether there is any
    independent: Floats
    variance: Floats
    hidden: Floats  # Σ s |unseen|²
    common: Floats  # Σ sqrt(s) unseen, in the common directions
    beyond: Floats  # the square of t outside of these
    most: Floats  # of ω + ρ


class _Pooled:
    def __init__(self, strata: Sequence[_Stratum], values: int) -> None:
        self._strata, self._values = strata, values
        self._singular = np.concatenate([stratum.association.singular for stratum in strata])
        ends = np.cumsum([len(stratum.association.singular) for stratum in strata])
        self._spans = [slice(end - len(s.association.singular), end) for end, s in zip(ends, strata, strict=True)]
        self._basis = self._directions()
        self._turned = np.concatenate(
            [stratum.association.directions @ self._basis[stratum.values] for stratum in strata]
        )  # R of all strata, in the common directions
        telling = self._singular[self._singular > 1e-9 * max(self._singular.max(), 1e-300)]
        seen = np.linalg.eigvalsh((self._turned.T * self._singular**2) @ self._turned)
        seen = seen[seen > 1e-9 * max(seen.max(), 1e-300)]
        self._prior = np.outer(
            prior(_OWN, float(1 / np.median(telling)) if len(telling) else 1.0),
            prior(_COMMON, float(1 / np.sqrt(np.median(seen))) if len(seen) else 1.0),
        ).ravel()

    def at_once(self, classes: int) -> int:
        directions = int(self._basis.shape[1])
        return max(1, _CELLS_AT_ONCE // (len(self._singular) + classes + self._values + (directions + 2) ** 2))

    def posterior(self, matching: Floats, wanted: Floats) -> Posterior:
        sums = self._sums(matching, wanted)
        shape = (len(matching), len(_OWN), len(_COMMON))
        fits, means, variances = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for i, own in enumerate(_OWN):
            precise = 1 / (1 + own * self._singular**2)  # Λ
            logs = np.array([np.log(precise[span]).sum() for span in self._spans])
            fits[:, i] = (sums.noisy @ logs - sums.scores**2 @ precise)[:, None] / 2
            moved = own * ((sums.seen * sums.scores) @ (self._singular * precise))
            means[:, i] = (sums.independent + moved)[:, None]
            variances[:, i] = (sums.variance + own * (sums.hidden + sums.seen**2 @ precise))[:, None]
            ends = np.stack(
                [
                    (sums.scores * (self._singular * precise)) @ self._turned,  # b
                    sums.common + (sums.seen * precise) @ self._turned,  # t
                ],
                axis=1,
            )
            information = self._information(sums.noisy, precise)
            for j in range(1, len(_COMMON)):
                gained, moved, left = _common(information, ends, float(_COMMON[j]))
                fits[:, i, j] += gained
                means[:, i, j] += moved
                variances[:, i, j] += left + _COMMON[j] * sums.beyond
        together = np.add.outer(_OWN, _COMMON).ravel()
        allowed = (together <= sums.most[:, None]) | (together == 0)
        flat = (len(matching), -1)
        fit = np.where(allowed, fits.reshape(flat), -np.inf)
        weights = np.exp(fit - fit.max(axis=1, keepdims=True)) * self._prior
        weights /= weights.sum(axis=1, keepdims=True)
        return mixture(weights, means.reshape(flat), variances.reshape(flat))

    def _sums(self, matching: Floats, wanted: Floats) -> _Sums:
        queries = len(matching)
        scores, seen = np.zeros((queries, len(self._singular))), np.zeros((queries, len(self._singular)))
        noisy = np.zeros((queries, len(self._strata)))
        independent, variance, hidden, spread, most = (np.zeros(queries) for _ in range(5))
        unseen, every = np.zeros((queries, self._values)), np.zeros((queries, self._values))
        first = 0
        for k, (stratum, span) in enumerate(zip(self._strata, self._spans, strict=True)):
            association, last = stratum.association, first + stratum.association.classes
            traits = association.traits(matching[:, first:last], wanted[:, stratum.values])
            first = last
            noise = np.where(traits.noise > _NO_NOISE, traits.noise, 0.0)
            root = np.sqrt(noise)[:, None]
            noisy[:, k] = noise > 0
            scores[:, span] = traits.scores / np.where(root > 0, root, np.inf)
            seen[:, span] = traits.seen * root
            independent += traits.independent
            variance += traits.variance
            hidden += noise * (traits.unseen**2).sum(axis=1)
            unseen[:, stratum.values] += root * traits.unseen
            if self._basis.shape[1] < self._values:
                every[:, stratum.values] += root * traits.unseen + seen[:, span] @ association.directions
            rows = association.sizes.sum()
            spread += rows * noise
            most += rows * traits.most
        beyond = np.maximum((every**2).sum(axis=1) - ((every @ self._basis) ** 2).sum(axis=1), 0.0)
        most = most / np.where(spread > 0, spread, 1.0)
        return _Sums(scores, seen, noisy, independent, variance, hidden, unseen @ self._basis, beyond, most)

    def _directions(self) -> Floats:
        """What γ is learned in: the values, or if they are many, what B says most about, by value and direction."""
        if self._values <= _MOST_DIRECTIONS:
            return np.eye(self._values)
        information = np.zeros((self._values, self._values))
        for stratum in self._strata:
            scaled = stratum.association.directions * stratum.association.singular[:, None]
            information[np.ix_(stratum.values, stratum.values)] += scaled.T @ scaled
        basis: Floats = np.linalg.eigh(information)[1][:, -_MOST_DIRECTIONS:]
        return basis

    def _information(self, noisy: Floats, precise: Floats) -> Floats:
        """The B of every query."""
        size = self._turned.shape[1]
        weighted = self._turned * (self._singular**2 * precise)[:, None]
        each = np.stack([(self._turned[span].T @ weighted[span]).ravel() for span in self._spans])
        return (noisy @ each).reshape(-1, size, size)


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
    found, wanted = lower[:, size, :size], lower[:, size + 1, :size]
    return (found**2).sum(axis=1) / 2 - logs, (found * wanted).sum(axis=1), (wanted**2).sum(axis=1)
