"""How often intervals hold the truth, measured on a release by itself, and how much wider learned ones have to be.

Simulated truths (`infer.simulation`) are tables that could be behind the release. Each is placed again and asked random
queries; learned estimates are made from it as from the release. So it is known how often an interval holds the truth.

**Queries.** A condition is on one to three quasi-identifiers; of each it accepts some values: random ones, or for
numbers and dates every other time a range. It is asked with single values, and with several values at once.

**Widening.** Let r be the factor by which an interval has to grow, on the side of the truth, to hold it. It differs
most by value: a value whose share is far from that of the others is pulled towards them. So let e_x be the root mean
square of r over queries on value x alone, pulled towards that of all values as 20 more queries would pull it; for
several values it is the mean of e_x², weighted by records. The interval then grows by c e, at least by 1, with c the
95 % quantile of r / e: one c for single values, and one for several.

**What is reported** is the share of simulated queries that the widened interval holds, if e and c are found from one
half of the truths and judged by the other. The interval at random is not widened. Its share is reported as it is.
Both are those of the 200 simulated queries whose estimates at random are nearest to that of the query.

**Large releases.** At most about 60,000 records are simulated, in random buckets. If they are one of R such parts,
their truth is taken to be that of all parts: the records of a class have R times the mean and R times the variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dalenius.infer.association import Posterior
from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.compositions import Compositions, find_compositions
from dalenius.infer.pooling import Associations
from dalenius.infer.simulation import BucketSample, Simulator
from dalenius.model.estimate import NORMAL_95, Coverage

MOST_RECORDS = 60_000  # that are simulated
STRENGTHS = (0.4, 0.7, 0.7, 1.0)  # of the association, by truth: naive Bayes counts twice what columns share
_CONDITIONS = 100  # for each truth
_SINGLES, _SEVERAL = 4, 2  # sets of values for each condition
_PRIOR_QUERIES = 20
_NOMINAL = 0.95
_LARGEST = 20.0  # of r: an interval of no width would need an infinite one
_LEAST_MATCHES = 5
_SIMILAR = 200  # queries, nearest in size, whose coverage is reported
_TRIES = 20

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Calibration:
    """What simulations say about the intervals of a release."""

    spreads: Floats  # e², by value
    records: Floats
    factors: tuple[float, float]  # c, for single values and for several
    asked: tuple[_Judged, _Judged]  # about single values, and about several

    def widening(self, targets: Floats) -> Floats:
        """By what the interval grows, for every query's set of values."""
        factors: Floats = np.take(self.factors, _kinds(targets)) * _spread(targets, self.spreads, self.records)
        return np.maximum(1.0, factors)

    def widened(self, posterior: Posterior, targets: Floats) -> Posterior:
        """The intervals that hold the truth as often as they should."""
        factor = self.widening(targets)
        mean = posterior.mean
        return Posterior(
            mean=mean,
            deviation=posterior.deviation * factor,
            low=mean - factor * (mean - posterior.low),
            high=mean + factor * (posterior.high - mean),
        )

    def coverages(self, targets: Floats, sizes: Floats) -> list[tuple[Coverage | None, Coverage | None]]:
        """What is known of the learned interval of every query, and of that at random.

        The sizes are the estimates at random.
        """
        kinds, factors = _kinds(targets), self.widening(targets)
        known = []
        for kind, factor, size in zip(kinds.tolist(), factors.tolist(), sizes.tolist(), strict=True):
            similar = self.asked[kind].similar(size)
            learned = _coverage(self.asked[kind].learned[similar], factor)
            known.append((learned, _coverage(self.asked[kind].at_random[similar])))
        return known

    def at_random(self, size: float) -> Coverage | None:
        """What is known of an interval at random, of a query that cannot be learned."""
        asked = self.asked[1]
        return _coverage(asked.at_random[asked.similar(size)])


@dataclass(frozen=True)
class _Judged:
    """Simulated queries by their size: the logarithm of the estimate at random, and which intervals hold."""

    sizes: Floats
    learned: Booleans
    at_random: Booleans

    def similar(self, size: float) -> slice:
        """The queries that are nearest in size."""
        place = int(np.searchsorted(self.sizes, np.log1p(size)))
        first = min(max(0, place - _SIMILAR // 2), max(0, len(self.sizes) - _SIMILAR))
        return slice(first, first + _SIMILAR)


@dataclass(frozen=True)
class _Asked:
    """Queries of one truth: values, estimates at random, r of learned intervals, whether those at random hold."""

    targets: Floats
    means: Floats
    needed: Floats
    at_random: Booleans


def calibrate(sample: BucketSample, parts: int = 1, seed: int = 0) -> Calibration:
    """Simulate truths for a sample that is one of so many parts of the release, and measure."""
    random = np.random.default_rng(seed)
    simulator = Simulator(sample, random)
    trial = _Trial(sample, parts, random)
    asked = []
    for number, strength in enumerate(STRENGTHS):
        if number % 2 == 0:
            weights = simulator.weights()
        truth = simulator.truth(weights, strength)
        asked.append(trial.ask(truth[: sample.rows], simulator.place(truth)))
    records = np.bincount(sample.slot_values, minlength=sample.values).astype(np.float64)
    spreads, factors = _fit(asked, records)
    halves = [_fit(asked[half::2], records) for half in (1, 0)]
    judged = []
    for kind in (0, 1):
        sizes, held, plain = [], [], []
        for number, one in enumerate(asked):
            own = _kinds(one.targets) == kind
            half_spreads, half_factors = halves[number % 2]
            allowed = np.maximum(1.0, half_factors[kind] * _spread(one.targets, half_spreads, records))
            sizes.append(np.log1p(one.means[own]))
            held.append((one.needed <= allowed)[own])
            plain.append(one.at_random[own])
        order = np.argsort(np.concatenate(sizes), kind="stable")
        judged.append(_Judged(*(np.concatenate(part)[order] for part in (sizes, held, plain))))
    return Calibration(spreads, records, factors, (judged[0], judged[1]))


def _coverage(held: Booleans, widened: float = 1.0) -> Coverage | None:
    return Coverage(share=float(held.mean()), queries=len(held), widened=widened) if len(held) else None


def _kinds(targets: Floats) -> Integers:
    """0 for a single value, 1 for several."""
    kinds: Integers = (targets.sum(axis=1) > 1).astype(np.int64)
    return kinds


def _spread(targets: Floats, spreads: Floats, records: Floats) -> Floats:
    """The e of every query."""
    wanted = targets * records
    spread: Floats = np.sqrt((wanted @ spreads) / np.maximum(wanted.sum(axis=1), 1e-9))
    return spread


def _fit(asked: list[_Asked], records: Floats) -> tuple[Floats, tuple[float, float]]:
    """The e² by value, and both c."""
    targets = np.concatenate([one.targets for one in asked])
    needed = np.clip(np.concatenate([one.needed for one in asked]), 0.0, _LARGEST)
    single = _kinds(targets) == 0
    numbers = targets[single].sum(axis=0)
    squares = needed[single] ** 2 @ targets[single]
    pooled = max(float(squares.sum() / max(numbers.sum(), 1.0)), 1e-6)
    spreads = (squares + _PRIOR_QUERIES * pooled) / (numbers + _PRIOR_QUERIES)
    ratios = needed / _spread(targets, spreads, records).clip(1e-3)
    both = [float(np.quantile(ratios[own], _NOMINAL)) if own.any() else 1.0 for own in (single, ~single)]
    return spreads, (both[0], both[1])


class _Trial:
    """Random queries for simulated truths, and their answers from what is placed again."""

    def __init__(self, sample: BucketSample, parts: int, random: np.random.Generator) -> None:
        self._sample, self._parts, self._random = sample, parts, random
        cuts = np.flatnonzero(np.diff(sample.stratum_of)) + 1
        found = find_compositions([(sample.slot_buckets, sample.slot_values)], cuts)
        self._class_of = found.of(np.arange(len(sample.stratum_of)))
        blocks = tuple(replace(b, slots=b.slots * parts, buckets=b.buckets * parts) for b in found.blocks)
        self._compositions = Compositions(blocks, found.firsts, found.classes)
        filling = found.filling(np.arange(len(sample.stratum_of)), np.bincount(sample.row_buckets))
        self._association = Associations(self._compositions, filling.times(parts))
        strata = np.searchsorted(cuts, np.arange(len(sample.stratum_of)), side="right")
        self._row_cells = strata[sample.row_buckets] * sample.values

    def ask(self, truth: Integers, buckets: Integers) -> _Asked:
        """Ask about one truth."""
        classes = self._class_of[buckets]
        matching, targets, actual = [], [], []
        for _ in range(_CONDITIONS):
            rows = self._condition()
            if rows is None:
                continue
            seen = np.bincount(classes[rows], minlength=self._compositions.number).astype(np.float64)
            cells = np.bincount(
                self._row_cells[rows] + truth[rows], minlength=len(self._compositions.blocks) * self._sample.values
            ).reshape(-1, self._sample.values)
            counts = cells.sum(axis=0).astype(np.float64) * self._parts
            if self._parts > 1:
                expected = self._expected(cells)
                seen = self._parts * expected + np.sqrt(self._parts) * (seen - expected)
            for wanted in self._wanted():
                matching.append(seen)
                targets.append(wanted)
                actual.append(float(wanted @ counts))
        if not matching:
            nothing = np.zeros(0)
            return _Asked(np.zeros((0, self._sample.values)), nothing, nothing, nothing.astype(np.bool_))
        return self._judge(np.array(matching), np.array(targets), np.array(actual))

    def _judge(self, matching: Floats, targets: Floats, actual: Floats) -> _Asked:
        means, needed, held = [], [], []
        for first in range(0, len(actual), self._association.at_once):
            some = slice(first, first + self._association.at_once)
            truth, lines, wanted = actual[some], matching[some], targets[some]
            found = self._association.posterior(lines, wanted[:, : self._association.values])
            side = np.where(truth > found.mean, found.high - found.mean, found.mean - found.low)
            # rounded outwards, an interval holds what is less than 1 beyond its ends
            needed.append(np.maximum(np.abs(truth - found.mean) - 1, 0) / np.maximum(side, 1e-9))
            mean, variance = self._at_random(lines, wanted)
            means.append(mean)
            held.append(np.abs(truth - mean) < NORMAL_95 * np.sqrt(variance) + 1)
        return _Asked(targets, np.concatenate(means), np.concatenate(needed), np.concatenate(held))

    def _at_random(self, matching: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """The mean, and on the average over the buckets of a class the variance, of values matched at random."""
        mean, variance, first = np.zeros(len(matching)), np.zeros(len(matching)), 0
        for block in self._compositions.blocks:
            every = block.slots.sum(axis=1)
            share = matching[:, first : first + len(every)] / every
            first += len(every)
            wanted = targets[:, block.values] @ block.slots.T
            mean += (share * wanted).sum(axis=1)
            variance += (np.clip(share * (1 - share), 0, None) * wanted * (1 - wanted / every)).sum(axis=1)
        return mean, variance

    def _expected(self, cells: Integers) -> Floats:
        """The rows of every class that match, in the mean over placements of the sample."""
        means = []
        for block, counts in zip(self._compositions.blocks, cells, strict=True):
            slots = block.slots / self._parts
            means.append(slots @ (counts[block.values] / slots.sum(axis=0)))
        return np.concatenate(means)

    def _condition(self) -> Integers | None:
        """The rows that meet a random condition."""
        columns, random = self._sample.columns, self._random
        for _ in range(_TRIES if columns else 0):
            number = int(random.integers(1, min(3, len(columns)) + 1))
            share = float(np.exp(random.uniform(np.log(0.005), np.log(0.3)))) ** (1 / (number + 1))
            rows = np.ones(self._sample.rows, dtype=np.bool_)
            for place in random.choice(len(columns), number, replace=False):
                column = columns[place]
                accepted = np.zeros(column.kinds, dtype=np.bool_)
                some = min(column.kinds, max(1, int(np.ceil(column.kinds * share))))
                if column.ordered and random.integers(2):
                    start = int(random.integers(column.kinds - some + 1))
                    accepted[start : start + some] = True
                else:
                    accepted[random.choice(column.kinds, some, replace=False)] = True
                rows &= accepted[column.codes[: len(rows)]]
            found = np.flatnonzero(rows)
            if _LEAST_MATCHES <= len(found) < len(rows):
                return found
        return None

    def _wanted(self) -> list[Floats]:
        """Random sets of values, as lines of zeros and ones."""
        values, random = self._sample.values, self._random
        sets = [random.choice(values, 1) for _ in range(_SINGLES)]
        if values > 2:
            for _ in range(_SEVERAL):
                most = max(3.0, 0.6 * values)
                size = int(np.exp(random.uniform(np.log(2), np.log(most))))
                sets.append(random.choice(values, min(size, values - 1), replace=False))
        lines = np.zeros((len(sets), values))
        for line, chosen in zip(lines, sets, strict=True):
            line[chosen] = 1.0
        return list(lines)
