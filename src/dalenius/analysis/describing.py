"""Means and quantiles of sensitive numbers by group, with intervals that know what is unknown.

They are worked out in each of many draws (`outcomes`), and put together by Rubin's rules (`rubin`). Quantile q is the
smallest number up to which a share q of the group is. Where the target is a population, a quantile of so many people
has the standard error that its level has, sqrt(q (1 - q) / people), by the distance of numbers there (Woodruff 1952).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dalenius.analysis.completing import DRAWS
from dalenius.analysis.groupings import Axis, Bins, Names, coded, listed, numbers_of, require_bins, require_groups
from dalenius.analysis.learned import Lesson
from dalenius.analysis.outcomes import Places, draw_outcomes, possible_values, sort_out
from dalenius.analysis.rubin import Each, Target, pool_each, require_target
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats
from dalenius.model.estimate import free_name
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

if TYPE_CHECKING:
    import pandas as pd


def describe(
    folder: ReleaseFolder,
    column: str | None = None,
    by: Names = (),
    *,
    quantiles: float | Sequence[float] = (0.25, 0.5, 0.75),
    bins: Bins | None = None,
    target: Target = "table",
    draws: int = DRAWS,
    seed: int | None = None,
    lesson: Lesson | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Mean and quantiles of a numeric sensitive column, for each group of some quasi-identifiers.

    A line for each group and figure, with its standard error and 95 % interval; `attrs` have the notes.
    """
    require_target(target)
    require_bins(bins or {})
    levels = _levels(quantiles, target)
    wanted = listed(by)
    name = _described_column(folder, column, wanted, bins or {})
    numbers_of(name, possible_values(folder, name))  # before anything is learned for nothing
    require_groups(folder, wanted, bins or {})
    drawn = draw_outcomes(folder, [name], wanted, draws=draws, seed=seed, lesson=lesson, progress=progress)
    values, codes = drawn.kinds(name)
    numbers = numbers_of(name, values)
    axis = Axis(drawn, [coded(drawn, one, (bins or {}).get(one)) for one in wanted])
    by_draw = [
        _figures(group[own >= 0], own[own >= 0], numbers, axis.number, levels)
        for group, own in zip(axis.of_draws, codes, strict=True)
    ]
    estimates, spreads, people = (np.array(part) for part in zip(*by_draw, strict=True))
    some = (people > 0).all(axis=0)  # groups with a number in every draw
    lines = estimates[:, some].reshape(draws, -1)
    pooled = pool_each(lines, spreads.mean(axis=0)[some].ravel() if target == "population" else None)
    if target == "table":  # no number of the table is beyond these, and neither is a mean
        low, high = np.maximum(pooled.low, numbers[0]), np.minimum(pooled.high, numbers[-1])
        means = pooled.estimates  # which rounding may have put beyond
        pooled = replace(pooled, low=np.minimum(low, means), high=np.maximum(high, means))
    figures = ["mean", *(f"quantile {level:g}" for level in levels)]
    found = _lines(axis.labels[some], figures, pooled, people.mean(axis=0)[some])
    without = drawn.rows.num_rows - float(people.sum(axis=1).mean())
    found.attrs["notes"] = [*drawn.notes, *_left_out(without, int((~some).sum()))]
    return found


def _levels(quantiles: float | Sequence[float], target: Target) -> list[float]:
    """Levels of quantiles, which are numbers from 0 to 1."""
    several = isinstance(quantiles, Iterable) and not isinstance(quantiles, str)
    try:
        levels = [float(level) for level in (quantiles if several else [quantiles])]  # type: ignore[arg-type, union-attr]
    except (TypeError, ValueError):
        raise UsageError("quantiles are given as numbers between 0 and 1", "The median is 0.5.") from None
    for level in levels:
        if not 0 <= level <= 1:
            raise UsageError(f"a quantile is between 0 and 1, got {level}", "The median is 0.5.")
        if target == "population" and level in (0, 1):
            raise UsageError(
                "the smallest and the largest number of a population are not to be learned from a sample",
                "Ask for quantiles between 0 and 1, or give target='table'.",
            )
    return levels


def _described_column(folder: ReleaseFolder, column: str | None, by: Sequence[str], bins: Bins) -> str:
    """The sensitive column; a UsageError where it is not clear which it is, or groups are not by quasi-identifiers."""
    names = folder.manifest.sensitive_names
    if column is None and len(names) > 1:
        raise UsageError(
            f"the release has {len(names):,} sensitive columns, and one of them is described at a time",
            f"Say which: {', '.join(map(repr, names))}.",
        )
    name = column if column is not None else names[0]
    sensitive, _ = sort_out(folder, [name, *by, *(one for one in bins if one not in by)])
    if any(one not in by for one in bins):
        raise UsageError("bins are given for a column that is not in the groups", "Leave them out.")
    if sensitive != [name]:
        raise UsageError("means and quantiles are of one sensitive column, by quasi-identifiers", "See release.fit.")
    if len(set(by)) < len(by):
        raise UsageError("groups are by different columns", "Name each once.")
    return name


def _left_out(records: float, groups: int) -> Iterator[str]:
    if records > 0:
        number = f"{records:,.1f}".removesuffix(".0")
        yield f"{number} records without a number are left out (the mean of all draws)."
    if groups:
        number = f"{groups:,} groups are" if groups > 1 else "1 group is"
        yield f"{number} left out: in some draws nobody there has a number."


def _figures(
    group: Places, rank: Places, numbers: Floats, groups: int, quantiles: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Mean and quantiles of every group in one draw, the variances that they would have in a sample, and its size.

    `numbers` ascend, and `rank` says which of them a row has.
    """
    order = np.lexsort((rank, group))
    sizes = np.bincount(group, minlength=groups)
    firsts = np.cumsum(sizes) - sizes
    ordered = numbers[rank[order]]
    people = np.maximum(sizes, 1).astype(np.float64)
    mean = np.bincount(group, weights=numbers[rank], minlength=groups) / people
    apart = np.bincount(group, weights=(numbers[rank] - mean[group]) ** 2, minlength=groups)
    alone = np.where(sizes > 1, 1, np.nan)  # nobody knows how much groups of one scatter
    estimates, spreads = [np.where(sizes > 0, mean, np.nan)], [alone * apart / np.maximum(people - 1, 1) / people]

    def at(level: Floats) -> Floats:
        place = np.clip(np.ceil(np.clip(level, 0, 1) * sizes - 1e-9) - 1, 0, np.maximum(sizes - 1, 0)).astype(np.int64)
        found = ordered[np.minimum(firsts + place, len(ordered) - 1)] if len(ordered) else np.zeros(groups)
        return np.where(sizes > 0, found, np.nan)

    for level in quantiles:
        reach = np.sqrt(level * (1 - level) / people)
        estimates.append(at(np.full(groups, level)))
        spreads.append(alone * ((at(level + reach) - at(level - reach)) / 2) ** 2)
    return np.array(estimates).T, np.array(spreads).T, sizes.astype(np.float64)


def _lines(labels: pd.DataFrame, figures: Sequence[str], pooled: Each, records: Floats) -> pd.DataFrame:
    """A line for each group and figure."""
    lines = labels.loc[labels.index.repeat(len(figures))].reset_index(drop=True)
    found = {
        "statistic": [*figures] * len(labels),
        "estimate": pooled.estimates,
        "std_error": pooled.errors,
        "low": pooled.low,
        "high": pooled.high,
        "records": np.repeat(records, len(figures)),
    }
    return lines.assign(**{free_name(name, lines.columns): column for name, column in found.items()})
