"""Cross-tabs, tests of independence, and means and quantiles by group, with intervals that know what is unknown.

Everything is worked out in each of many draws (`outcomes`), and put together by Rubin's rules (`rubin`). What is
estimated is the table that was published, or with target='population' whatever its people are a sample of.

**Counts.** Those of a table are whole, and within what is certain of each cell. For a population, a count c among n
people has the variance n p (1 - p) of a sample besides, where p = (c + 2) / (n + 4), as Agresti and Coull (1998) have
it. With p = c / n, a cell that nobody has in any draw would seem to be known exactly. The interval is cut to 0 .. n.

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
from dalenius.analysis.groupings import Axis, Bins, Levels, Names, coded, listed, require_bins, require_groups
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
_COPIES = 4  # of the counts of all draws
_ENDLESS = 1e9
_PAIRS = 2**16  # of people and values of buckets, at a time
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
    counts = tables.reshape(draws, -1)
    if target == "table":
        pooled, certain = pool_each(counts, None), made.certain()
        low, high = np.floor(pooled.low + _CERTAIN), np.ceil(pooled.high - _CERTAIN)
    else:
        people = counts[0].sum()
        shares = (counts.mean(axis=0) + 2) / (people + 4)
        pooled, certain = pool_each(counts, people * shares * (1 - shares)), (np.zeros(1), np.full(1, people))
        low, high = pooled.low, pooled.high
    return CrossTab(
        table=made.frame(pooled.estimates),
        std_error=made.frame(pooled.errors),
        low=made.frame(np.clip(low, *certain)),
        high=made.frame(np.clip(high, *certain)),
        chi2=chi_square(list(tables), made.notes),
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


def _bounds(buckets: Places, people: Axis, values: Axis, wanted: Integers) -> tuple[Floats, Floats]:
    """How many have a combination of `people` and one of `values` at least and at most, summed over buckets.

    `wanted` has such pairs as numbers: the place of the one times how many of the other there are, and the place of the
    other. Nobody has what is below 0.
    """
    sizes = np.bincount(buckets)
    (bucket, own, a), (holding, value, c) = _runs(buckets, people), _runs(buckets, values)
    firsts = np.searchsorted(holding, np.arange(len(sizes) + 1))
    partners = np.diff(firsts)[bucket]  # of every run of people, as many as its bucket has values
    ends = np.cumsum(partners)
    order = np.argsort(wanted)
    low, high = np.zeros((2, len(wanted)))
    start = 0
    while start < len(bucket):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] - partners[start] + _PAIRS, side="right")))
        part, number = slice(start, stop), partners[start:stop]
        run = np.repeat(firsts[bucket[part]] - (np.cumsum(number) - number), number) + np.arange(number.sum())
        having, size = np.repeat(a[part], number), np.repeat(sizes[bucket[part]], number)
        pairs = np.repeat(own[part], number) * values.number + value[run]
        place = np.minimum(np.searchsorted(wanted, pairs, sorter=order), len(wanted) - 1)
        there = wanted[order[place]] == pairs
        cell = order[place[there]]
        least, most = np.maximum(having + c[run] - size, 0), np.minimum(having, c[run])
        low += np.bincount(cell, weights=least[there], minlength=len(wanted))
        high += np.bincount(cell, weights=most[there], minlength=len(wanted))
        start = stop
    return low, high


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
        require_groups(folder, both, bins, levels)
        drawn = draw_outcomes(folder, sensitive, identifiers, draws=draws, seed=seed, lesson=lesson, progress=progress)
        coded_columns = {name: coded(drawn, name, bins.get(name), levels.get(name)) for name in both}
        self._rows, self._columns = (Axis(drawn, [coded_columns[name] for name in own]) for own in names)
        self.notes, self._drawn = drawn.notes, drawn
        self._of_nobody = folder.manifest.adversary.fake_values > 0 or folder.manifest.surplus > 0
        self._parts = [[coded_columns[name] for name in own] for own in (identifiers, sensitive)]
        if self._rows.number * self._columns.number > MOST_CELLS:
            raise UsageError(
                f"the cross-tab has {self._rows.number:,} x {self._columns.number:,} cells, more than {MOST_CELLS:,}",
                "Put numbers into ranges: bins={'age': 8}; or choose fewer columns.",
            )

    def tables(self) -> Floats:
        """Draws by rows by columns."""
        number, columns = self._rows.number * self._columns.number, self._columns.number
        memory = self._drawn.folder.memory
        memory.require(
            _COPIES * 8 * number * self._drawn.draws, memory.engine, "a cross-tab of so many cells and draws"
        )
        found = np.empty((self._drawn.draws, self._rows.number, columns))
        for table, row, column in zip(found, self._rows.of_draws, self._columns.of_draws, strict=True):
            table[:] = np.bincount(row * columns + column, minlength=number).reshape(table.shape)
        return found

    def certain(self) -> tuple[Floats, Floats]:
        """What every cell has at least and at most, whatever the truth is.

        A cell asks for quasi-identifiers and for values, whichever of them are its row and its column. If a of the S
        people of a bucket have the quasi-identifiers, and c of its values are those, then max(0, a + c - S) to
        min(a, c) of its people are in the cell. Where values are nobody's, as many are in it at most as have
        the quasi-identifiers.
        """
        shape = self._rows.number, self._columns.number
        codes = {name: np.repeat(own, shape[1]) for name, own in self._rows.codes.items()}
        codes |= {name: np.tile(own, shape[0]) for name, own in self._columns.codes.items()}
        people, values = (Axis(self._drawn, own, 1) for own in self._parts)  # the first draw has what all of them have
        who, what = (axis.places_of(codes, shape[0] * shape[1]) for axis in (people, values))
        if self._of_nobody:
            having = np.append(np.bincount(people.of_draws[0], minlength=people.number), 0).astype(np.float64)
            return np.zeros(len(who)), having[who]
        wanted = np.where((who >= 0) & (what >= 0), who * values.number + what, -1)
        return _bounds(self._drawn.buckets, people, values, wanted)

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
