"""Columns of a cross-tab, and groups: which combination of values everybody has in each of many draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dalenius.analysis.outcomes import Outcomes
from dalenius.analysis.pieces import distinct_rows
from dalenius.analysis.rubin import require_pandas
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd

MOST_RANGES = 1000
MOST_VALUES = 1000  # of a column
_MOST_KEY = 2**62
_NULL = "null"
Names = str | Sequence[str]
Levels = Mapping[str, str]  # of a sensitive column's groups, such as "chapter"
Bins = Mapping[str, int | Sequence[float]]  # of numbers: how many ranges, or where all but the first begin


class Axis:
    """The values of some columns together: `labels` is a line for each combination, `of_draws` that of each row."""

    def __init__(self, drawn: Outcomes, names: Sequence[str], bins: Bins, levels: Levels | None = None) -> None:
        self.published = all(name in drawn.rows.column_names for name in names)  # and so alike in all draws
        draws = 1 if self.published else drawn.draws
        keys = [np.zeros(drawn.rows.num_rows, np.int64)] * draws
        kinds: list[list[Any]] = []
        for name in names:
            values, codes = _coded(drawn, name, bins.get(name), (levels or {}).get(name))
            kinds.append(values)
            if math.prod(map(len, kinds)) >= _MOST_KEY:
                raise UsageError("the columns have too many combinations of values", "Choose fewer columns.")
            keys = [key * len(values) + own for key, own in zip(keys, codes[:draws], strict=True)]
        used, places = np.unique(np.concatenate(keys), return_inverse=True)
        self.number = len(used)
        self.of_draws = np.split(places.astype(np.int64), draws) * (drawn.draws // draws)
        labels, rest = {}, used
        for name, values in reversed(list(zip(names, kinds, strict=True))):
            rest, code = np.divmod(rest, len(values))
            labels[name] = [values[place] for place in code]
        self.labels = _frame({name: labels[name] for name in names}, self.number)


def _frame(columns: dict[str, list[Any]], rows: int) -> pd.DataFrame:
    return require_pandas().DataFrame(columns, index=range(rows))


def are_numbers(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are numbers."""
    return bool(values) and all(
        (isinstance(value, (int, float)) and not isinstance(value, bool)) or hasattr(value, "as_tuple")
        for value in values
    )


def numbers_of(name: str, values: Sequence[Any]) -> Floats:
    """Values as numbers; a UsageError if they are none."""
    if not are_numbers(values):
        raise UsageError(
            f"{name!r} has no numbers, so it has neither ranges nor means and quantiles",
            "Take its values as they are, in a cross-tab or a count.",
        )
    return np.array([float(value) for value in values])


def _coded(
    drawn: Outcomes, name: str, bins: int | Sequence[float] | None, level: str | None
) -> tuple[list[Any], list[Integers]]:
    """The values of any column, with null as a word if there are nulls, and for each draw which one every row has."""
    if name in drawn.rows.column_names:
        different, places = distinct_rows(drawn.rows.select([name]))
        every = different.column(0).to_pylist()
        order = sorted((p for p, value in enumerate(every) if value is not None), key=lambda p: _sortable(every[p]))
        rank = np.full(len(every), -1)
        rank[order] = np.arange(len(order))
        values, codes = [every[place] for place in order], [rank[places]] * drawn.draws
    else:
        values, codes = drawn.kinds(name, level)
    if bins is not None:
        values, place = _ranges(name, values, bins, codes[0])
        codes = [np.where(own >= 0, place[own], -1) for own in codes]
    if len(values) > MOST_VALUES:
        raise UsageError(
            f"{name!r} has {len(values):,} different values, more than {MOST_VALUES:,}",
            f"Put numbers into ranges: 8 of them with bins={{{name!r}: 8}}, or --bins {name}=8."
            if are_numbers(values)
            else "Choose another column.",
        )
    if any((own < 0).any() for own in codes[: 1 if name in drawn.rows.column_names else None]):
        codes = [np.where(own >= 0, own, len(values)) for own in codes]
        values = [*values, _NULL if _NULL not in values else f"{_NULL} (no value)"]
    return values, codes


def _sortable(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _ranges(name: str, values: list[Any], bins: int | Sequence[float], codes: Integers) -> tuple[list[Any], Integers]:
    """Values as ranges of numbers, and the range of each: so many with about as many rows each, or with these edges."""
    numbers = numbers_of(name, values)
    if isinstance(bins, int | np.integer):
        if not 2 <= bins <= MOST_RANGES:
            raise UsageError(f"{name!r} cannot be put into {bins} ranges", f"Ask for 2 to {MOST_RANGES:,}.")
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        middles = np.cumsum(counts) - counts / 2
        place = np.minimum(middles * bins / max(1, counts.sum()), bins - 1).astype(np.int64)
    else:
        edges = _edges(name, bins)
        place = np.searchsorted(edges, numbers, side="right")
    used, place = np.unique(place, return_inverse=True)
    labels = [_range_text(numbers[place == number]) for number in range(len(used))]
    return labels, place.astype(np.int64)


def _edges(name: str, given: Any) -> Floats:
    """Where ranges begin, as ascending numbers."""
    try:
        edges = np.array([float(edge) for edge in ([""] if isinstance(given, str) else given)])
    except (TypeError, ValueError):
        raise UsageError(
            f"{name!r} cannot be put into these ranges", "Give how many, as 8, or where: [30, 50, 70]."
        ) from None
    if not len(edges) or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise UsageError(f"the edges of ranges of {name!r} do not ascend", "Give them as [30, 50, 70].")
    return edges


def _range_text(numbers: Floats) -> str:
    low, high = f"{numbers.min():.15g}", f"{numbers.max():.15g}"
    return low if low == high else f"{low} to {high}"


def require_bins(bins: object) -> None:
    """Refuse what does not say which column it is about."""
    if not isinstance(bins, Mapping):
        raise UsageError("bins are for named columns", "Write bins={'age': 8}, or bins={'age': [30, 50, 70]}.")


def listed(names: Names) -> list[str]:
    """One name, or several, as a list."""
    return [names] if isinstance(names, str) else list(names)
