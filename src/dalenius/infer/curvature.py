"""How sharply a release tells the slopes of a regression: the second derivatives of its likelihood, nearly.

With p the shares that the model gives to the values of row r and q those that are left within its bucket, the
derivative of the log-likelihood in the slopes is Σ_r z_r ⊗ (q_r - p_r). Where quasi-identifiers and values are matched
at random within a stratum s, its variance is

    A_s ⊗ C_s,     A_s = Σ_g S_g (v_g - v_s)(v_g - v_s)',

with the composition v_g of bucket g and of its stratum, and the covariance C_s of features: a bucket says something of
x as far as its composition differs from that of others. To this comes what the totals of strata say of their levels
and of the means of features, W_s ⊗ m_s m_s', with W_s = Σ_r (diag p_r - p_r p_r').

Where much is known already, a bucket tells more than that: its values are nearly assigned to its rows. So every entry
of the diagonal is taken from the rows themselves. It is what complete rows would tell, less what is lost since nobody
knows who has what, and at least what the buckets show:

    h_fx = Σ_r (z_rf - m_f)² p_rx (1 - p_rx) - Σ_g S/(S-1) [Σ_r z_rf² w_rx - (Σ_r z_rf w_rx)² / Σ_r w_rx],

with w = q (1 - q). A ⊗ C is scaled from both sides to have this diagonal. Equations are solved by conjugate gradients;
levels are eliminated, which leaves W (τ² W + I)^-1 in the place of W_s.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.features import ROWS_AT_ONCE, Design, Piece, Singles

_PSEUDO = 0.05  # of the mean of a feature's diagonal: what a rare entry is believed to have
_RANGE = (0.3, 100.0)  # of the scale
_TOLERANCE, _MOST_STEPS = 3e-2, 40
_ROUNDING = 1e-5  # of the largest eigenvalue
_WORKERS = 2  # each holds what is worked out for a piece
_FEW_STRATA = 10  # of which little is learned of how slopes differ between strata

Pair = tuple[Floats, Floats]  # slopes (features x values) and levels (strata x values)


@dataclass(frozen=True)
class Variances:
    """The variance of slopes, by feature and value, and that of levels."""

    slopes: Floats
    levels: float


def _without_noise(strengths: Floats) -> Floats:
    """Eigenvalues, 0 where they are only rounding errors: of directions in which nothing can be seen."""
    return np.where(strengths > _ROUNDING * strengths.max(initial=0), strengths, 0)


def dot(one: Pair, other: Pair) -> float:
    """The inner product of slopes and levels."""
    return float((one[0] * other[0]).sum() + (one[1] * other[1]).sum())


class Curvature:
    """The second derivatives at the point where `residuals` are q - p, and p are the `shares`.

    `scale` makes the diagonal that of h. `excess` is h over the variance that buckets show, by feature and value.
    """

    def __init__(self, design: Design, residuals: Singles, shares: Singles) -> None:
        self._design, self._residuals = design, residuals
        self._means = design.means.astype(np.float64)
        self.within = self._within(residuals)
        self.between = self._between(shares)
        self.scale, self.excess = self._scales(residuals, shares)

    def times(self, point: Pair) -> Pair:
        """The second derivatives times a point."""
        slopes, levels = point
        between = np.einsum("sk,skl->sl", self._means @ slopes + levels, self.between)
        return self.times_within(slopes) + self._means.T @ between, between

    def times_within(self, slopes: Floats) -> Floats:
        """The same within strata."""
        scaled = np.matmul(self._design.spreads, slopes.astype(np.float32) * self.scale)
        total: Floats = (np.matmul(scaled, self.within).sum(axis=0) * self.scale).astype(np.float64)
        return total

    def spectra(self) -> Iterator[Floats]:
        """For every part by itself its h in its main directions, of features times values, within strata."""
        features, values = self._unscaled()
        strength, kinds = np.linalg.eigh(values)
        squares = self.scale.astype(np.float64) ** 2
        for part in range(len(self._design.coding.parts)):
            own = np.flatnonzero(self._design.coding.part_of == part)
            spread, axes = np.linalg.eigh(features[np.ix_(own, own)])
            scales = (axes**2).T @ squares[own] @ kinds**2
            yield (scales * np.outer(_without_noise(spread), _without_noise(strength))).ravel()

    def diagonal(self) -> Floats:
        """h by feature and value, within strata."""
        plain = np.einsum("cmm,ckk->mk", self._design.spreads, self.within).astype(np.float64)
        found: Floats = np.maximum(plain, 0) * self.scale.astype(np.float64) ** 2
        return found

    def as_shown(self) -> Floats:
        """Take what buckets show for the second derivatives, less where slopes differ between strata.

        Gives for every feature and value the standard deviation of slopes' derivatives, as a share of what it is
        bucket by bucket.
        """
        loose = np.sqrt(self._dispersions())[self._design.coding.part_of]
        self.scale = (self.scale / (np.sqrt(self.excess) * loose)).astype(np.float32)
        return 1 / loose

    def _dispersions(self) -> Floats:
        """By part and value, how much more derivatives differ between strata than within: 1 if slopes are alike."""
        design = self._design
        apart, total = np.zeros((2, design.width, design.kinds))
        for stratum, (first, rows) in enumerate(zip(design.first_of_stratum, design.stratum_rows, strict=True)):
            sums = np.zeros((design.width, design.kinds))
            for start in range(first, first + rows, ROWS_AT_ONCE):
                own = slice(start, min(start + ROWS_AT_ONCE, first + rows))
                sums += (design.features(own) - design.means[stratum]).T @ self._residuals[own]
            apart += sums * sums
            total += sums
        apart -= total * total / design.strata
        members = np.eye(len(design.coding.parts))[:, design.coding.part_of]
        ratios = (members @ apart) / np.maximum(members @ self._shown, 1e-9)
        dispersions: Floats = 1 + np.maximum(ratios - 1, 0) * design.strata / (design.strata + _FEW_STRATA)
        return dispersions

    def level_spectrum(self) -> Floats:
        """The same for the levels of strata."""
        spectrum: Floats = np.maximum(np.linalg.eigvalsh(self.between), 0).ravel()
        return spectrum

    def typical(self) -> tuple[Floats, Floats]:
        """One matrix of features and one of values, whose product is nearly the whole."""
        features, values = self._unscaled()
        values += np.eye(len(values)) * (1e-6 * np.trace(values) + 1e-9)
        rows, columns = self.scale.mean(axis=1), self.scale.mean(axis=0)
        columns = columns / columns.mean()
        return rows[:, None] * features * rows[None, :], columns[:, None] * values * columns[None, :]

    def _unscaled(self) -> tuple[Floats, Floats]:
        traces = np.einsum("ckk->c", self.within).astype(np.float64)
        features = np.einsum("c,cmn->mn", traces / max(traces.sum(), 1e-9), self._design.spreads)
        return features.astype(np.float64), self.within.sum(axis=0, dtype=np.float64)

    def _within(self, residuals: Singles) -> Singles:
        """A, added up over the strata of each cell."""
        design, kinds = self._design, self._design.kinds
        self._by_bucket = np.add.reduceat(residuals, design.first_rows, axis=0)
        total = np.zeros((design.cells, kinds, kinds), np.float32)
        ends = np.searchsorted(design.stratum_of, np.arange(design.strata + 1))
        for stratum in range(design.strata):
            own = slice(ends[stratum], ends[stratum + 1])
            sizes, found = design.sizes[own, None], self._by_bucket[own]
            apart = (found - sizes * (found.sum(axis=0) / design.stratum_rows[stratum])) / np.sqrt(sizes)
            apart = apart.astype(np.float32)
            total[design.cell_of[stratum]] += apart.T @ apart
        return total

    def _between(self, shares: Singles) -> Floats:
        """W."""
        design = self._design
        total = np.empty((design.strata, design.kinds, design.kinds))
        for stratum, (first, rows) in enumerate(zip(design.first_of_stratum, design.stratum_rows, strict=True)):
            own = shares[first : first + rows]
            total[stratum] = np.diag(own.sum(axis=0, dtype=np.float64)) - own.T @ own
        return total

    def _scales(self, residuals: Singles, shares: Singles) -> tuple[Singles, Floats]:
        """The square roots of h over the diagonal of A ⊗ C, and h over what buckets show."""
        design = self._design
        shown, told = np.zeros((2, design.width, design.kinds))

        def of_piece(piece: Piece) -> Floats:
            found = np.zeros((2, design.width, design.kinds))
            self._add_diagonal(piece, residuals[piece.rows], shares[piece.rows], *found)
            return found

        with ThreadPoolExecutor(_WORKERS) as workers:
            for own in workers.map(of_piece, design.pieces()):  # in order, so that sums are the same each time
                shown += own[0]
                told += own[1]
        plain = np.einsum("cmm,ckk->mk", design.spreads, self.within).astype(np.float64)
        self._shown = np.maximum(shown, 0)
        pseudo = _PSEUDO * plain.mean(axis=0) + 1e-9
        seen = np.clip((np.maximum(shown, 0) + pseudo) / (plain + pseudo), *_RANGE)
        whole = np.clip((np.maximum(told, np.maximum(shown, 0)) + pseudo) / (plain + pseudo), *_RANGE)
        return np.sqrt(whole).astype(np.float32), whole / seen

    def _add_diagonal(self, piece: Piece, residuals: Singles, shares: Singles, shown: Floats, told: Floats) -> None:
        """What the buckets of a piece show (squares of their derivatives), and h."""
        design = self._design
        buckets = design.candidates.bucket_of[piece.rows] - piece.buckets.start
        firsts = design.first_rows[piece.buckets] - piece.rows.start
        strata, sizes = design.stratum_of[piece.buckets], design.sizes[piece.buckets]
        features = design.features(piece.rows)
        whole = shares * (1 - shares)
        matched = np.clip(residuals + shares, 0, 1)
        matched *= 1 - matched
        every = np.add.reduceat(matched, firsts, axis=0)
        inverse = np.divide(1, every, out=np.zeros_like(every), where=every > 1e-9)
        lost = (sizes / np.maximum(sizes - 1, 1)).astype(np.float32)[:, None]
        totals = self._by_bucket[piece.buckets]
        starts = np.flatnonzero(np.diff(strata, prepend=-1))
        first_rows = firsts[starts]
        means, complete = design.means[strata[starts]], np.add.reduceat(whole, first_rows, axis=0)
        squares = np.add.reduceat(totals * totals, starts, axis=0)
        shown += (means * means).T @ squares
        told += (means * means).T @ complete
        for columns, codes in self._groups(features):
            if codes is None:
                self._add_curve(features[:, columns], columns[0], shown, told, (residuals, whole, matched),
                                (firsts, strata, totals, inverse, lost))  # fmt: skip
                continue
            keys = buckets * len(columns) + codes
            order = np.argsort(keys, kind="stable")
            ordered = keys[order]
            runs = np.flatnonzero(np.diff(ordered, prepend=-1))
            bucket, code = np.divmod(ordered[runs], len(columns))
            mean = design.means[strata[bucket], columns[code]][:, None]
            own = np.add.reduceat(residuals[order], runs, axis=0)
            weight = np.add.reduceat(matched[order], runs, axis=0)
            left = np.add.reduceat(whole[order], runs, axis=0) * (1 - 2 * mean)
            left -= lost[bucket] * (weight - weight * weight * inverse[bucket])
            own = own * own - 2 * mean * own * totals[bucket]
            by_code = np.argsort(code, kind="stable")
            ends = np.flatnonzero(np.diff(code[by_code], prepend=-1))
            targets = columns[code[by_code][ends]]
            shown[targets] += np.add.reduceat(own[by_code], ends, axis=0)
            told[targets] += np.add.reduceat(left[by_code], ends, axis=0)

    def _groups(self, features: Singles) -> Iterator[tuple[Integers, Integers | None]]:
        """Features of which every row has at most one, with which it has; every other feature by itself."""
        coding = self._design.coding
        for part in range(len(coding.parts)):
            columns = np.flatnonzero(coding.part_of == part)
            if part < coding.plain:
                yield columns, features[:, columns].argmax(axis=1)
            else:
                for column in columns:
                    yield np.array([column]), None

    def _add_curve(
        self,
        features: Singles,
        column: int,
        shown: Floats,
        told: Floats,
        rows: tuple[Singles, Singles, Singles],
        by_bucket: tuple[Integers, Integers, Singles, Singles, Singles],
    ) -> None:
        """The same for one feature that is a number."""
        residuals, whole, matched = rows
        firsts, strata, totals, inverse, lost = by_bucket
        mean = self._design.means[strata, column][:, None]
        own = np.add.reduceat(residuals * features, firsts, axis=0)
        shown[column] += (own * own - 2 * mean * own * totals).sum(axis=0)
        weight = np.add.reduceat(matched * features, firsts, axis=0)
        square = np.add.reduceat(matched * features * features, firsts, axis=0)
        told[column] -= (lost * (square - weight * weight * inverse)).sum(axis=0)
        told[column] += (np.add.reduceat(whole * features * features, firsts, axis=0)
                         - 2 * mean * np.add.reduceat(whole * features, firsts, axis=0)).sum(axis=0)  # fmt: skip


class System:
    """The second derivatives and the precision 1 / τ² of slopes and levels, together as a system to be solved."""

    def __init__(self, design: Design, curvature: Curvature, variances: Variances) -> None:
        self._design, self._curvature = design, curvature
        self._means = design.means.astype(np.float64)
        self.slopes = 1 / variances.slopes
        self.levels = 1 / variances.levels
        self._inverse = np.linalg.inv(curvature.between + self.levels * np.eye(design.kinds))
        left = self._inverse @ curvature.between * self.levels
        self._left = (left + left.transpose(0, 2, 1)) / 2
        self._prepare()

    def precision(self, point: Pair) -> Pair:
        """A point times the precision."""
        return self.slopes * point[0], self.levels * point[1]

    def solve(self, right: Pair) -> Pair:
        """The point that the whole times is the right side."""
        levels = np.einsum("sk,skl->sl", right[1], self._inverse)
        rest = right[0] - self._means.T @ np.einsum("sk,skl->sl", levels, self._curvature.between)
        slopes = np.zeros_like(rest)
        near = self._nearly(rest)
        direction, size = near.copy(), float((rest * near).sum())
        least = _TOLERANCE**2 * size
        for _ in range(_MOST_STEPS):
            if size <= least:
                break
            product = self._times(direction)
            step = size / float((direction * product).sum())
            slopes += step * direction
            rest = rest - step * product
            near = self._nearly(rest)
            size, before = float((rest * near).sum()), size
            direction = near + size / before * direction
        moved = np.einsum("sk,skl->sl", self._means @ slopes, self._curvature.between)
        return slopes, levels - np.einsum("sk,skl->sl", moved, self._inverse)

    def _times(self, slopes: Floats) -> Floats:
        between = np.einsum("sk,skl->sl", self._means @ slopes, self._left)
        total: Floats = self._curvature.times_within(slopes) + self._means.T @ between + self.slopes * slopes
        return total

    def _prepare(self) -> None:
        """Directions in which one matrix of features and one of values, nearly the whole, are both diagonal."""
        features, values = self._curvature.typical()
        ratio = float(np.einsum("skk->", self._left) / np.trace(values))
        features = features + ratio / self._design.strata * (self._means.T @ self._means)
        roots = np.exp(-np.log(self.slopes).mean(axis=1, keepdims=True) / 2)
        spread, axes = np.linalg.eigh(roots * features * roots.T)
        strength, self._directions = np.linalg.eigh(values)
        self._axes = roots * axes
        self._whole = np.maximum(spread, 0)[:, None] * np.maximum(strength, 0)[None, :] + 1

    def _nearly(self, right: Floats) -> Floats:
        near: Floats = self._axes @ ((self._axes.T @ right @ self._directions) / self._whole) @ self._directions.T
        return near
