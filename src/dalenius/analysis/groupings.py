"""Columns of a cross-tab, and groups: which combination of values everybody has in each of many draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dalenius.analysis.outcomes import Codes, Combinations, Outcomes, Places, possible_values
from dalenius.analysis.rubin import require_pandas
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers
from dalenius.release.folder import ReleaseFolder

if TYPE_CHECKING:
    import pandas as pd

MOST_RANGES = 1000
MOST_VALUES = 1000  # of a column
_MOST_WHOLE = 2**64  # of floating-point numbers that are written as whole ones
_NULL = "null"
Names = str | Sequence[str]
Levels = Mapping[str, str]  # of a sensitive column's groups, such as "chapter"
Bins = Mapping[str, int | Sequence[float]]  # of numbers: how many ranges, or where all but the first begin


@dataclass(frozen=True)
class Coded:
    """A column's values, with null as a word if there are nulls, and for each draw which one every row has."""

    name: str
    values: list[Any]
    codes: Codes
    published: bool  # with the rows, and so alike in all draws


class Axis:
    """The values of some columns together: `labels` is a line for each combination that somebody has in a draw.

    `of_draws` has the line of every row, for each of the first `draws`, or of all.
    """

    def __init__(self, drawn: Outcomes, columns: Sequence[Coded], draws: int | None = None) -> None:
        draws = draws or drawn.draws
        alike = all(column.published for column in columns)
        self._columns = columns
        kinds = [(column.codes, len(column.values)) for column in columns]
        found = Combinations(kinds, drawn.rows.num_rows, 1 if alike else draws)
        self._used, self.number = found.used, len(found.used)
        self.of_draws: Sequence[Places] = [found[0]] * draws if alike else found
        self.codes: dict[str, Integers] = {}  # by column, for each combination
        rest = self._used
        for column in reversed(columns):
            rest, self.codes[column.name] = np.divmod(rest, len(column.values))
        labels = {one.name: [one.values[place] for place in self.codes[one.name]] for one in columns}
        self.labels = _frame(labels, self.number)

    def places_of(self, codes: Mapping[str, Integers], number: int) -> Integers:
        """Where so many combinations are, given by the codes of each column; -1 for those that nobody has."""
        keys = np.zeros(number, np.int64)
        for column in self._columns:
            keys = keys * len(column.values) + codes[column.name]
        places = np.searchsorted(self._used, keys)
        return np.where(np.append(self._used, -1)[places] == keys, places, -1)


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


def coded(drawn: Outcomes, name: str, bins: int | Sequence[float] | None = None, level: str | None = None) -> Coded:
    """Any column; numbers are put into ranges if there are bins, and sensitive values into groups of a level."""
    values, codes = drawn.kinds(name, level)
    if bins is not None:
        values, place = _ranges(name, values, bins, codes[0])
        codes = codes.through(place)
    _require_few(name, values)
    if codes.nulls:
        codes = codes.filled(len(values))
        values = [*values, _NULL if _NULL not in values else f"{_NULL} (no value)"]
    return Coded(name, values, codes, drawn.published(name))


def _require_few(name: str, values: Sequence[Any]) -> None:
    if len(values) > MOST_VALUES:
        raise UsageError(
            f"{name!r} has {len(values):,} different values, more than {MOST_VALUES:,}",
            f"Put numbers into ranges: 8 of them with bins={{{name!r}: 8}}, or --bins {name}=8."
            if are_numbers(values)
            else "Choose another column.",
        )


def require_groups(folder: ReleaseFolder, names: Sequence[str], bins: Bins, levels: Levels | None = None) -> None:
    """Refuse columns that cannot be put together as asked, before anything is learned for nothing."""
    for name in names:
        values = possible_values(folder, name) if name not in (levels or {}) else []
        if name in bins:
            _ranges(name, values, bins[name], np.zeros(0, np.int32))
        else:
            _require_few(name, values)


def _ranges(name: str, values: list[Any], bins: int | Sequence[float], codes: Places) -> tuple[list[Any], Integers]:
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
    _, firsts, place = np.unique(place, return_index=True, return_inverse=True)  # values ascend, and so do ranges
    lasts = [*firsts[1:] - 1, len(values) - 1]
    labels = [_range_text(values[first], values[last]) for first, last in zip(firsts, lasts, strict=True)]
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


def _range_text(low: Any, high: Any) -> str:
    return _text(low) if low == high else f"{_text(low)} to {_text(high)}"


def _text(number: Any) -> str:
    """A number, and whole ones with all of their digits."""
    if isinstance(number, float) and not abs(number) < _MOST_WHOLE:
        return f"{number:.15g}"
    return str(int(number)) if number == int(number) else f"{float(number):.15g}"


def require_bins(bins: object) -> None:
    """Refuse what does not say which column it is about."""
    if not isinstance(bins, Mapping):
        raise UsageError("bins are for named columns", "Write bins={'age': 8}, or bins={'age': [30, 50, 70]}.")


def listed(names: Names) -> list[str]:
    """One name, or several, as a list."""
    return [names] if isinstance(names, str) else list(names)
