"""Means and quantiles of sensitive numbers by group, with intervals that know what is unknown.

They are worked out in each of many draws (`outcomes`), and put together by Rubin's rules (`rubin`). Quantile q is the
smallest number up to which a share q of the group is. Where the target is a population, a quantile of so many people
has the standard error that its level has, sqrt(q (1 - q) / people), by the distance of numbers there (Woodruff 1952).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dalenius.analysis.completing import DRAWS
from dalenius.analysis.groupings import Axis, Bins, Names, coded, listed, numbers_of, require_bins
from dalenius.analysis.learned import Lesson
from dalenius.analysis.outcomes import draw_outcomes, sort_out
from dalenius.analysis.rubin import Target, pool_each, require_target
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers
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
    quantiles: Sequence[float] = (0.25, 0.5, 0.75),
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
    for level in quantiles:
        if not 0 <= level <= 1:
            raise UsageError(f"a quantile is between 0 and 1, got {level}", "The median is 0.5.")
        if target == "population" and level in (0, 1):
            raise UsageError(
                "the smallest and the largest number of a population are not to be learned from a sample",
                "Ask for quantiles between 0 and 1, or give target='table'.",
            )
    name = column if column is not None else folder.manifest.sensitive_names[0]
    wanted = listed(by)
    sensitive, identifiers = sort_out(folder, [name, *wanted])
    if name not in sensitive or len(sensitive) != 1:
        raise UsageError("means and quantiles are of one sensitive column, by quasi-identifiers", "See release.fit.")
    drawn = draw_outcomes(folder, [name], identifiers, draws=draws, seed=seed, lesson=lesson, progress=progress)
    values, codes = drawn.kinds(name)
    numbers = numbers_of(name, values)
    axis = Axis(drawn, [coded(drawn, one, (bins or {}).get(one)) for one in wanted])
    order = np.argsort(numbers, kind="stable")
    rank = np.append(np.argsort(order), 0)
    by_draw = [
        _figures(group[own >= 0], rank[own[own >= 0]], numbers[order], axis.number, quantiles)
        for group, own in zip(axis.of_draws, codes, strict=True)
    ]
    estimates = np.array([estimate for estimate, _, _ in by_draw])  # draws x groups x figures
    within: Floats = np.mean([spread for _, spread, _ in by_draw], axis=0)
    records: Floats = np.mean([people for _, _, people in by_draw], axis=0)
    figures = ["mean", *(f"quantile {q:g}" for q in quantiles)]
    found = _described(axis, estimates, within, records, figures, target)
    found.attrs["notes"] = list(drawn.notes)
    return found


def _figures(
    group: Integers, rank: Integers, numbers: Floats, groups: int, quantiles: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Mean and quantiles of every group in one draw, the variances that they would have in a sample, and its size."""
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


def _described(
    axis: Axis, estimates: Floats, within: Floats, records: Floats, figures: list[str], target: Target
) -> pd.DataFrame:
    some = ~np.isnan(estimates).any(axis=(0, 2))  # groups with a number in every draw
    kept = estimates[:, some].reshape(len(estimates), -1)
    pooled = pool_each(kept, within[some].ravel() if target == "population" else None)
    labels = axis.labels[some]
    lines = labels.loc[labels.index.repeat(len(figures))].reset_index(drop=True)
    found = {
        "statistic": figures * len(labels),
        "estimate": pooled.estimates,
        "std_error": pooled.errors,
        "low": pooled.low,
        "high": pooled.high,
        "records": np.repeat(records[some], len(figures)),
    }
    return lines.assign(**{free_name(name, lines.columns): column for name, column in found.items()})
