"""Cross-tabs, tests of independence, and means and quantiles by group, with intervals that know what is unknown.

Everything is worked out in each of many draws (`outcomes`), and put together by Rubin's rules (`rubin`). What is
estimated is the table that was published, or with target='population' whatever its people are a sample of.

**Independence.** In each draw, with the counts n_ij, let X² be Pearson's statistic and G² = 2 Σ n_ij log (n_ij n / n_i
n_j). What is reported is the mean of X² over the draws: they differ from the table as the table may differ from what is
known, so this is what is to be expected of the table's own. For the test, let g be the mean of G², and ĝ the G² of the
mean counts. With the k degrees of freedom of the cross-tab and m draws (Chan and Meng 2022),

    r = max(0, (m + 1) / (k (m - 1)) (g - ĝ)),     D = ĝ / (k (1 + r)),

and D has the F distribution with k and w degrees of freedom (Li, Raghunathan and Rubin 1991), where with t = k (m - 1)
w = 4 + (t - 4) (1 + (1 - 2 / t) / r)² if t > 4, and t (1 + 1 / k) (1 + 1 / r)² / 2 otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dalenius.analysis.completing import DRAWS
from dalenius.analysis.groupings import Axis, Bins, Levels, Names, coded, listed, require_bins
from dalenius.analysis.learned import Lesson
from dalenius.analysis.outcomes import Places, draw_outcomes, require_one_table, sort_out
from dalenius.analysis.rubin import Target, pool_each, require_pandas, require_target, statistics, t_quantile
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers
from dalenius.model.estimate import free_name
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

if TYPE_CHECKING:
    import pandas as pd

MOST_CELLS = 50_000
_ENDLESS = 1e9
_PAIRS = 2**21  # of rows and columns of buckets, at a time
_SMALLEST = 1e-300
_CERTAIN = 1e-9  # as good as 0


@dataclass(frozen=True)
class Independence:
    """A chi-square test. `chi2` is what the table's own is expected to be, with an interval; `p_value` is the test's.

    `missing` is r: how much more the draws vary than a whole table would, because nobody knows who has what.
    """

    chi2: float
    interval: tuple[float, float]
    dof: int
    p_value: float
    cramers_v: float
    missing: float
    draws: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        low, high = self.interval
        said = f"chi2 {self.chi2:,.1f} (95 %: {low:,.1f} to {high:,.1f}), {self.dof:,} degrees of freedom, "
        p = f"p = {self.p_value:.3g}" if self.p_value > _SMALLEST else f"p < {_SMALLEST:g}"
        more = f"{p}, Cramér's V {self.cramers_v:.3f}; from {self.draws} draws"
        return "\n".join([said + more, *self.notes])


@dataclass(frozen=True)
class CrossTab:
    """Estimated counts, their standard errors, and 95 % intervals: tables of the same shape.

    `chi2` is the test of independence from the same draws; None if there is one row or one column.
    """

    table: pd.DataFrame
    std_error: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    chi2: Independence | None
    target: Target
    draws: int
    notes: tuple[str, ...] = ()

    def tidy(self) -> pd.DataFrame:
        """A line for each cell; where a column is called like a figure, the figure is `estimate_2`, and so on."""
        pd = require_pandas()
        parts = {"estimate": self.table, "std_error": self.std_error, "low": self.low, "high": self.high}
        names = [*self.table.index.names, *self.table.columns.names]
        rows, columns = len(self.table.index), len(self.table.columns)
        places = np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)
        keys = [
            axis.get_level_values(level).take(own)
            for axis, own in zip((self.table.index, self.table.columns), places, strict=True)
            for level in range(axis.nlevels)
        ]
        lines = {name: np.asarray(key) for name, key in zip(names, keys, strict=True)}
        figures = {free_name(name, names): part.to_numpy().ravel() for name, part in parts.items()}
        return pd.DataFrame({**lines, **figures})

    def __repr__(self) -> str:
        about = f"Estimated counts of {_whose(self.target)}, from {self.draws} draws; see std_error, low and high."
        return "\n".join([repr(self.table.round(1)), about, *self.notes])


def cross_tab(
    folder: ReleaseFolder,
    rows: Names,
    columns: Names,
    *,
    bins: Bins | None = None,
    levels: Levels | None = None,
    target: Target = "table",
    draws: int = DRAWS,
    seed: int | None = None,
    lesson: Lesson | None = None,
    progress: Progress | None = None,
) -> CrossTab:
    """How many people have each value of some columns and each of some others."""
    require_target(target)
    require_bins(bins or {})
    made = _Cells(folder, (rows, columns), bins or {}, levels or {}, draws, seed, lesson, progress)
    tables = made.tables()
    counts = np.array([table.ravel() for table in tables])
    shares = counts.mean(axis=0) / max(1.0, counts[0].sum())
    pooled = pool_each(counts, counts[0].sum() * shares * (1 - shares) if target == "population" else None)
    low, high = np.maximum(pooled.low, 0), pooled.high
    if target == "table":  # a table has whole counts, the margins that it has in every draw, and what is certain
        certain = made.certain()
        low = np.clip(np.floor(low + _CERTAIN), *certain)
        high = np.clip(np.ceil(high - _CERTAIN), certain[0], np.minimum(certain[1], made.most(counts)))
    return CrossTab(
        table=made.frame(pooled.estimates),
        std_error=made.frame(pooled.errors),
        low=made.frame(low),
        high=made.frame(high),
        chi2=chi_square(tables, made.notes),
        target=target,
        draws=draws,
        notes=made.notes,
    )


def chi_square(tables: Sequence[Floats], notes: tuple[str, ...]) -> Independence | None:
    """The test, from the counts of each draw; None if there is nothing to test."""
    draws, mean = len(tables), np.mean(tables, axis=0)
    some = np.ix_(mean.sum(axis=1) > 0, mean.sum(axis=0) > 0)
    mean = mean[some]
    if min(mean.shape) < 2:
        return None
    k = (mean.shape[0] - 1) * (mean.shape[1] - 1)
    chi2 = np.array([_pearson(table[some]) for table in tables])
    stacked = _likelihood_ratio(mean)
    ratio = float(np.mean([_likelihood_ratio(table[some]) for table in tables]))
    r = max(0.0, (draws + 1) / (k * (draws - 1)) * (ratio - stacked))
    reach = float(t_quantile(0.975, draws - 1)) * math.sqrt((1 + 1 / draws) * float(chi2.var(ddof=1)))
    people = float(mean.sum())
    found = float(chi2.mean())
    return Independence(
        chi2=found,
        interval=(max(0.0, found - reach), found + reach),
        dof=k,
        p_value=_p_value(stacked / (k * (1 + r)), k, r, draws),
        cramers_v=math.sqrt(found / people / (min(mean.shape) - 1)),
        missing=r,
        draws=draws,
        notes=notes,
    )


def _runs(buckets: Places, axis: Axis) -> tuple[Integers, Integers, Integers]:
    """Which values of an axis each bucket has, by bucket, and how often."""
    keys, counts = np.unique(buckets.astype(np.int64) * axis.number + axis.of_draws[0], return_counts=True)
    bucket, value = np.divmod(keys, axis.number)
    return bucket, value, counts


def _pearson(counts: Floats) -> float:
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    apart = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(expected), where=expected > 0)
    return float(apart.sum())


def _likelihood_ratio(counts: Floats) -> float:
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    there = counts > 0
    return float(2 * (counts[there] * np.log(counts[there] / expected[there])).sum())


def _p_value(statistic: float, k: int, r: float, draws: int) -> float:
    t = k * (draws - 1)
    if r <= 0:
        freedom = _ENDLESS
    elif t > 4:
        freedom = 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2
    else:
        freedom = t * (1 + 1 / k) * (1 + 1 / r) ** 2 / 2
    return float(statistics().f.sf(statistic, k, min(freedom, _ENDLESS)))


class _Cells:
    """The counts of a cross-tab in every draw."""

    def __init__(
        self,
        folder: ReleaseFolder,
        asked: tuple[Names, Names],
        bins: Bins,
        levels: Levels,
        draws: int,
        seed: int | None,
        lesson: Lesson | None,
        progress: Progress | None,
    ) -> None:
        require_pandas()
        names = listed(asked[0]), listed(asked[1])
        both = [*names[0], *names[1]]
        if not names[0] or not names[1] or len(set(both)) < len(both):
            raise UsageError("a cross-tab has different columns for its rows and its columns", "Name each once.")
        sensitive, identifiers = sort_out(folder, [*both, *(name for name in (*bins, *levels) if name not in both)])
        if any(name not in both for name in (*bins, *levels)):
            raise UsageError("bins or levels are given for a column that is not in the cross-tab", "Leave them out.")
        if any(name not in sensitive or name in bins for name in levels):
            raise UsageError("levels are for the groups of sensitive columns without bins", "Leave them out.")
        if not sensitive:
            raise UsageError(
                "a cross-tab of quasi-identifiers alone needs no estimates", "QIT has them as they are: release.qit."
            )
        require_one_table(folder, sensitive)
        drawn = draw_outcomes(folder, sensitive, identifiers, draws=draws, seed=seed, lesson=lesson, progress=progress)
        coded_columns = {name: coded(drawn, name, bins.get(name), levels.get(name)) for name in both}
        self._rows, self._columns = (Axis(drawn, [coded_columns[name] for name in own]) for own in names)
        self.notes = drawn.notes
        self._buckets, self._fakes = drawn.buckets, folder.manifest.adversary.fake_values
        if self._rows.number * self._columns.number > MOST_CELLS:
            raise UsageError(
                f"the cross-tab has {self._rows.number:,} x {self._columns.number:,} cells, more than {MOST_CELLS:,}",
                "Put numbers into ranges: bins={'age': 8}; or choose fewer columns.",
            )

    def tables(self) -> list[Floats]:
        """Rows by columns, for every draw."""
        shape = self._rows.number, self._columns.number
        return [
            np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for row, column in zip(self._rows.of_draws, self._columns.of_draws, strict=True)
        ]

    def certain(self) -> tuple[Floats, Floats]:
        """What every cell has at least and at most, whatever the truth is.

        If a of the S people of a bucket are in a row of the cross-tab, and c values of the bucket in a column, then the
        cell has max(0, a + c - S) to min(a, c) of its people. This is so where one axis is published, and no value is
        fake.
        """
        cells = self._rows.number * self._columns.number
        if self._fakes or self._rows.published == self._columns.published:
            return np.zeros(cells), np.full(cells, np.inf)
        one, other = (self._rows, self._columns) if self._rows.published else (self._columns, self._rows)
        sizes = np.bincount(self._buckets)
        (bucket, row, a), (buckets, values, c) = (_runs(self._buckets, axis) for axis in (one, other))
        firsts = np.searchsorted(buckets, np.arange(len(sizes) + 1))
        partners = np.diff(firsts)[bucket]  # of every (bucket, row), as many as its bucket has values
        ends = np.cumsum(partners)
        low, high = np.zeros((2, one.number * other.number))
        start = 0
        while start < len(bucket):
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] - partners[start] + _PAIRS, side="right")))
            part, number = slice(start, stop), partners[start:stop]
            place = np.repeat(firsts[bucket[part]] - (np.cumsum(number) - number), number) + np.arange(number.sum())
            people, size = np.repeat(a[part], number), np.repeat(sizes[bucket[part]], number)
            cell = np.repeat(row[part], number) * other.number + values[place]
            low += np.bincount(cell, weights=np.maximum(people + c[place] - size, 0), minlength=len(low))
            high += np.bincount(cell, weights=np.minimum(people, c[place]), minlength=len(high))
            start = stop
        shape = one.number, other.number
        found = [bound.reshape(shape) if one is self._rows else bound.reshape(shape).T for bound in (low, high)]
        return found[0].ravel(), found[1].ravel()

    def most(self, counts: Floats) -> Floats:
        """What every cell has at most, since margins that are the same in all draws are known."""
        tables = counts.reshape(len(counts), self._rows.number, self._columns.number)
        people = tables[0].sum()
        rows, columns = tables.sum(axis=2), tables.sum(axis=1)
        least = np.minimum(
            np.where(np.ptp(rows, axis=0) == 0, rows[0], people)[:, None],
            np.where(np.ptp(columns, axis=0) == 0, columns[0], people)[None, :],
        )
        whole: Floats = least.ravel()
        return whole

    def frame(self, numbers: Floats) -> pd.DataFrame:
        """Numbers of cells as a table with names."""
        pd = require_pandas()
        shape = self._rows.number, self._columns.number
        axes = [
            pd.MultiIndex.from_frame(one.labels) if one.labels.shape[1] > 1 else pd.Index(one.labels.iloc[:, 0])
            for one in (self._rows, self._columns)
        ]
        return pd.DataFrame(numbers.reshape(shape), index=axes[0], columns=axes[1])


def _whose(target: Target) -> str:
    return "the table" if target == "table" else "a population of as many people"
