"""What a release tells about p(value | quasi-identifiers): a regularised regression, and how well it is known.

A record r of stratum s with the features z has value x with a probability in proportion to

    exp(b_x + u_sx + z θ_x),      θ_fx ~ N(0, τ_a² λ_fx) for the features f of part a,      u ~ N(0, τ_u²),

and the publisher put the records of every value into the value's slots at random. So a truth has, given the release,
a probability in proportion to the product of these over its records, if every bucket has its values, and 0 otherwise.

**Slopes and levels** maximise the likelihood of the release, summed over all truths, times their prior. Its derivative
is Σ z ⊗ (q - p), with what is left within buckets, q, matched as in `naive_bayes`. Newton's steps use the second
derivatives of `curvature`, mended by what the last steps have shown (limited-memory BFGS).

λ is 1 for most slopes and large for a few: θ has a t distribution with two degrees of freedom. A slope that stands out
is hardly held back (the weight 1 / λ is renewed by its mean, given the slope), and small ones are.

**How much there is to learn** is τ. Were it right, and the variance of derivatives j and their mean slope h, the
squares of a part's slopes would add up to

    Σ τ⁴ (j + h² τ²) / (1 + τ² h)²,

over its main directions. τ² is renewed by the ratio of what they add up to over this (MacKay's rule, for j = h). It has
a prior worth one slope of 0.1. Where there is nothing to learn τ goes towards 0: rows and values are matched at random.

**Draws.** First τ is drawn. With the τ of the fit, squares add up to a chi-square number times their expectation under
another τ', which is like the sum above; the prior is half a Cauchy distribution. Then λ is drawn, given how far the
release pulls at each slope. No slope is believed to be smaller than some 0.5: that columns are silent is a good guess,
and nothing that an interval may rest on. With the precision P' that follows, slopes and levels scatter around

    θ + (H + P')^-1 (P θ - P' θ)

with the covariance (H + P')^-1: so where little is known, draws go as far as the release allows, and the fit does not.
H are the second derivatives as the buckets show them, which is less than h, and less still where slopes differ between
strata. Draws scatter a little more than that, since slopes of real people are never the same for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.curvature import Curvature, Pair, System, Variances, dot
from dalenius.infer.features import Design, Singles, places_in
from dalenius.infer.naive_bayes import MOST_SLOTS, match_values

ROUNDS = 24
_PASSES = 3  # of scaling, in buckets that are too large to be matched exactly
_RENEWED = 2  # rounds, after which curvature and τ are found again
_SETTLED = 8  # rounds, after which curvature is found again half as often
_FARTHEST = 1.5  # that a slope may go in one step
_KEPT = 6  # steps that are remembered
_OVERSHOT = -0.5  # of the slope at the beginning of a step, beyond which it is taken back
_LEAST, _LEAST_SINGLE = 1e-26, 1e-13  # a probability
_PSEUDO = 30.0  # records, that a stratum has beside its own, for its first levels
_BELIEVED = 0.1  # τ, before anything is seen
_FACTOR = 6.0  # by which τ² changes at most at a time
_WIDER = 1.2  # draws scatter by so much more than if slopes were the same for everybody
_FREEDOM = 2.0  # degrees of freedom of the t distribution that slopes of a part have
_FACTORS = np.geomspace(1 / 8, 8**4, 21)  # variances of slopes, as shares of what is usual in their part
_PRIOR = -_FREEDOM / 2 * (np.log(_FACTORS) + 1 / _FACTORS)  # the logarithm of how frequent these are
_TYPICAL = 2.0  # τ, as draws believe: half of all are larger
_ALLOWED = 0.5  # the least deviation of a slope that draws believe in: intervals must not rest on silence
_GRID = np.geomspace(0.01, 10, 61)  # of τ

_Place = tuple[Singles, Singles, Pair]  # q - p, p, and the derivative of the likelihood


@dataclass(frozen=True)
class Regression:
    """A fitted model: its point, every τ (that of levels the last), and what draws need."""

    design: Design
    base: Floats
    point: Pair
    deviations: Floats
    _curvature: Curvature
    _residuals: Singles
    _pulled: Pair
    _damped: Floats
    _beliefs: Floats
    _h: Floats

    def levels(self, point: Pair | None = None) -> Floats:
        """The level of every value in every stratum."""
        levels: Floats = (self.point if point is None else point)[1] + self.base
        return levels

    def logits(self, point: Pair | None = None) -> Singles:
        """The logarithm of every row's share of every value, up to a number for each row."""
        slopes = (self.point if point is None else point)[0]
        return self.design.logits(slopes, self.levels(point))

    def logits_of(self, features: Singles, strata: Integers, point: Pair | None = None) -> Singles:
        """The same for other people: their features, and their strata as buckets have them; -1 for none."""
        levels = self.levels(point)
        levels = self.by_stratum(levels, strata, self.design.stratum_rows @ levels / self.design.rows)
        slopes = (self.point if point is None else point)[0]
        found = features @ slopes.astype(np.float32)
        found += levels
        return found

    def by_stratum(self, table: Floats, strata: Integers, anywhere: Floats) -> Floats:
        """A table's lines for some strata; where nothing was learned of one, what is `anywhere`."""
        numbers = self.design.numbers
        place = np.minimum(np.searchsorted(numbers, strata), len(numbers) - 1)
        lines: Floats = np.where((numbers[place] == strata)[:, None], table[place], anywhere)
        return lines

    def beliefs(self, candidates: Candidates, kind_of: Integers) -> Beliefs:
        """What is left for the rows of buckets whose values are of these kinds."""
        logits, design = self.logits(), self.design
        logits -= logits.max(axis=1, keepdims=True)
        found = []
        for block in candidates.blocks:
            places = block.rows[:, :, None] * design.kinds + kind_of[block.values][:, None, :]
            totals = design.compositions[design.stratum_of[block.buckets]]
            shares = np.exp(logits.ravel().take(places))
            found.append(matched(block, shares, np.take_along_axis(totals, kind_of[block.values], axis=1)))
        return found

    def draw(self, random: np.random.Generator) -> Pair:
        """Slopes and levels that could be behind the release."""
        drawn = np.array([random.choice(_GRID, p=belief) for belief in self._beliefs])
        variances = drawn[self.design.coding.part_of][:, None] ** 2
        variances = np.maximum(variances * self._stretched(variances, random), _ALLOWED**2)
        system = System(self.design, self._curvature, Variances(variances, float(drawn[-1] ** 2)))
        slopes, levels = self._noise(random)
        slopes += np.sqrt(system.slopes) * random.standard_normal(slopes.shape)
        levels += np.sqrt(system.levels) * random.standard_normal(levels.shape)
        held = system.precision(self.point)
        slopes = _WIDER * slopes + self._pulled[0] - held[0]
        levels = _WIDER * levels + self._pulled[1] - held[1]
        apart = system.solve((slopes, levels))
        return self.point[0] + apart[0], self.point[1] + apart[1]

    def _stretched(self, variances: Floats, random: np.random.Generator) -> Floats:
        """By how much the variance of each slope is larger or smaller than that of its part."""
        pulled, h = self._pulled[0] - self.design.means.T.astype(np.float64) @ self._pulled[1], self._h
        seen = (h * self.point[0] + pulled) ** 2 / np.maximum(h, _LEAST)
        best, chosen = np.full(h.shape, -np.inf), np.ones(h.shape)
        for factor, prior in zip(_FACTORS, _PRIOR, strict=True):
            wider = 1 + h * variances * factor
            score = prior - 0.5 * np.log(wider) - 0.5 * seen / wider + random.gumbel(size=h.shape)
            chosen = np.where(score > best, factor, chosen)
            best = np.maximum(score, best)
        return chosen

    def _noise(self, random: np.random.Generator) -> Pair:
        """A deviate of the derivative: that of each bucket times a normal number, and one of what totals tell."""
        design = self.design
        buckets = random.standard_normal(len(design.sizes)).astype(np.float32)
        slopes, levels = design.sums(self._residuals, buckets)
        means = design.means.astype(np.float64)
        slopes = (slopes - means.T @ levels) * self._damped
        strength, directions = np.linalg.eigh(self._curvature.between)
        deviates = np.sqrt(np.maximum(strength, 0)) * random.standard_normal(strength.shape)
        totals = np.einsum("skl,sl->sk", directions, deviates)
        return slopes + means.T @ totals, totals


def fit(design: Design, rounds: int = ROUNDS, each_round: Callable[[], None] | None = None) -> Regression:
    """Fit to the buckets of a design."""
    base = _base(design)
    share = np.exp(base)
    own = design.compositions + _PSEUDO * share
    start: Pair = (np.zeros((design.width, design.kinds)), np.log(own / own.sum(axis=1, keepdims=True)) - base)
    return fit_from(design, start, np.full(len(design.coding.parts) + 1, _BELIEVED), rounds, each_round)


def fit_from(
    design: Design,
    point: Pair,
    deviations: Floats,
    rounds: int = ROUNDS,
    each_round: Callable[[], None] | None = None,
) -> Regression:
    """The same from a point that is nearly a maximum, and every τ there."""
    base, at = _base(design), _at(design, _base(design), point)
    weights = _weights(design, deviations, point)
    steps: list[tuple[Pair, Pair]] = []
    for number in range(rounds):
        if number % _RENEWED == 0:
            if number < _SETTLED or number % (2 * _RENEWED) == 0:
                curvature = Curvature(design, *at[:2])
            if number:
                deviations = _renewed(design, curvature, deviations, weights, point)
                weights = _weights(design, deviations, point)
            system = System(design, curvature, _variances(design, deviations, weights))
        point, at, step = _step(design, base, point, at, system, steps)
        steps = [*steps, step][-_KEPT:]
        if each_round is not None:
            each_round()
    curvature = Curvature(design, *at[:2])
    held, before = system.precision(point), deviations
    deviations = _renewed(design, curvature, deviations, weights, point)
    damped = curvature.as_shown()
    pulled = held[0] * damped**2, held[1]
    beliefs = _believed(design, curvature, before, weights, point)
    return Regression(design, base, point, deviations, curvature, at[0], pulled, damped, beliefs, curvature.diagonal())


def _base(design: Design) -> Floats:
    """b."""
    counts = design.candidates.counts()
    base: Floats = np.log(np.maximum(counts / max(1.0, counts.sum()), 1e-9))
    return base


def _at(design: Design, base: Floats, point: Pair) -> _Place:
    """What the model says at a point, and where it differs from what is left within buckets."""
    shares = design.logits(point[0], point[1] + base)
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    residuals = -shares
    flat = residuals.ravel()
    for block in design.candidates.blocks:
        places = places_in(block, design.kinds)
        totals = design.compositions[design.stratum_of[block.buckets]]
        flat[places] += matched(block, shares.ravel().take(places), np.take_along_axis(totals, block.values, axis=1))
    return residuals, shares, design.sums(residuals)


def matched(block: Block, shares: Floats | Singles, totals: Floats, passes: int = _PASSES) -> Floats:
    """What is left for the rows of a block, given the shares of their values.

    A fake value can be any, as often as it is in the stratum: `totals` says that for the values of every bucket.
    """
    single = block.slots > MOST_SLOTS
    likelihood: Any = shares.astype(np.float32 if single else np.float64)
    if block.fakes:
        likelihood /= np.maximum(totals, _LEAST)[:, None, :]
        likelihood = np.concatenate([likelihood, np.ones_like(likelihood[:, :1])], axis=1)
    likelihood /= np.maximum(likelihood.max(axis=2, keepdims=True), _LEAST)
    np.maximum(likelihood, _LEAST_SINGLE if single else _LEAST, out=likelihood)
    return match_values(block, likelihood, passes)[:, : block.size]


def _step(
    design: Design, base: Floats, point: Pair, at: _Place, system: System, steps: list[tuple[Pair, Pair]]
) -> tuple[Pair, _Place, tuple[Pair, Pair]]:
    """One step of Newton's: the new point, what is there, and how the derivative changed on the way."""
    prior = system.precision(point)
    slope = at[2][0] - prior[0], at[2][1] - prior[1]
    direction = _direction(slope, system, steps)
    far = float(max(np.abs(direction[0]).max(initial=0), np.abs(direction[1]).max(initial=0)))
    length = min(1.0, _FARTHEST / far) if far > 0 else 0.0
    begun = dot(slope, direction)

    def walk(length: float) -> tuple[Pair, _Place, float]:
        new = point[0] + length * direction[0], point[1] + length * direction[1]
        there, pulled = _at(design, base, new), system.precision(new)
        return new, there, dot((there[2][0] - pulled[0], there[2][1] - pulled[1]), direction)

    new, there, end = walk(length)
    moved = length * direction[0], length * direction[1]
    change = at[2][0] - there[2][0], at[2][1] - there[2][1]
    if end < _OVERSHOT * begun:
        new, there, _ = walk(length * begun / (begun - end))
    return new, there, (moved, change)


def _direction(slope: Pair, system: System, steps: list[tuple[Pair, Pair]]) -> Pair:
    """The two loops of limited-memory BFGS around the system."""
    known = []
    for moved, change in steps:
        pulled = system.precision(moved)
        whole = change[0] + pulled[0], change[1] + pulled[1]
        if (size := dot(moved, whole)) > 0:
            known.append((moved, whole, 1 / size))
    rest, parts = slope, []
    for moved, whole, inverse in reversed(known):
        part = inverse * dot(moved, rest)
        rest = rest[0] - part * whole[0], rest[1] - part * whole[1]
        parts.append(part)
    direction = system.solve(rest)
    for (moved, whole, inverse), part in zip(known, reversed(parts), strict=True):
        further = part - inverse * dot(whole, direction)
        direction = direction[0] + further * moved[0], direction[1] + further * moved[1]
    return direction


def _renewed(design: Design, curvature: Curvature, before: Floats, weights: Floats, point: Pair) -> Floats:
    """Every τ."""
    part_of = design.coding.part_of
    found = []
    for part, h in enumerate(curvature.spectra()):
        own = part_of == part
        squares, excess = float((weights[own] * point[0][own] ** 2).sum()), float(curvature.excess[own].mean())
        found.append(_renewed_one(squares, h, 1 / excess, float(before[part])))
    levels = float((point[1] ** 2).sum())
    found.append(_renewed_one(levels, curvature.level_spectrum(), 1.0, float(before[-1])))
    return np.array(found)


def _renewed_one(squares: float, h: Floats, noise: float, before: float) -> float:
    variance = before**2
    expected = float((variance * (noise * h + h**2 * variance) / (1 + variance * h) ** 2).sum())
    renewed = (squares + _BELIEVED**2) / (expected + 1)
    return float(np.sqrt(np.clip(renewed, variance / _FACTOR, variance * _FACTOR)))


def _believed(design: Design, curvature: Curvature, deviations: Floats, weights: Floats, point: Pair) -> Floats:
    """How probable each τ of the grid is, for every part and for levels. `deviations` are those of the fit."""
    found = []
    for part, h in enumerate(curvature.spectra()):
        own = design.coding.part_of == part
        squares = float((weights[own] * point[0][own] ** 2).sum())
        found.append(_posterior(squares, h, float(deviations[part])))
    found.append(_posterior(float((point[1] ** 2).sum()), curvature.level_spectrum(), float(deviations[-1])))
    return np.array(found)


def _posterior(squares: float, h: Floats, before: float) -> Floats:
    """The same, given what the squares of slopes add up to: nearly a chi-square number times its expectation."""
    each = before**4 * h * (1 + h * _GRID[:, None] ** 2) / (1 + before**2 * h) ** 2
    expected = np.maximum(each.sum(axis=1), _LEAST)
    half = expected**2 / np.maximum((each**2).sum(axis=1), _LEAST) / 2
    ratio = np.maximum(squares, _LEAST) / expected
    logs = half * (np.log(half * ratio) - ratio) - _log_gamma(half)
    logs += np.log(_GRID / (1 + (_GRID / _TYPICAL) ** 2))
    logs -= logs.max()
    found: Floats = np.exp(logs) / np.exp(logs).sum()
    return found


def _log_gamma(numbers: Floats) -> Floats:
    return np.array([math.lgamma(number) for number in numbers])


def _weights(design: Design, deviations: Floats, point: Pair) -> Floats:
    """The precision of every slope as a share of its part's: little for slopes that stand out."""
    relative = point[0] / deviations[design.coding.part_of][:, None]
    weights: Floats = (_FREEDOM + 1) / (_FREEDOM + relative**2)
    return weights


def _variances(design: Design, deviations: Floats, weights: Floats) -> Variances:
    return Variances(deviations[design.coding.part_of][:, None] ** 2 / weights, float(deviations[-1] ** 2))
