"""Models by formula, with standard errors that account for who has what being unknown.

The formula's own columns are among what is learned from the release, so that no coefficient that is asked for is held
to be 0 (`infer.features`); then the model is fitted to each completed table (`generalised`), and Rubin's rules put the
fits together (`rubin`). A fit sees how often each outcome is with each line of the design, and no single rows.

A formula is code: `formulaic` evaluates what it calls. So formulas come from the analyst's own program alone, and
neither from a command line that others may write nor from a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa

from dalenius.analysis.completing import DRAWS
from dalenius.analysis.formula_sides import Side, factors_of, looks_around, names_in, quoted, sides_of
from dalenius.analysis.generalised import ByDraw, Family, Lines, Model, fit_draws
from dalenius.analysis.learned import MOST_CELLS
from dalenius.analysis.outcomes import (
    Codes,
    Combinations,
    Outcomes,
    draw_outcomes,
    plain_values,
    possible_values,
    require_one_table,
    some_columns,
    sort_out,
    with_floats,
)
from dalenius.analysis.pieces import distinct_rows
from dalenius.analysis.rubin import Pooled, Target, pool_estimates, require_pandas, require_target
from dalenius.errors import InputError, UsageError
from dalenius.infer.candidates import Floats
from dalenius.infer.features import Singles
from dalenius.model.memory import ReadingMemory
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

if TYPE_CHECKING:
    import pandas as pd

_ANOTHER = "Choose another outcome, and look how its values are spelled."
_MOST_OUTCOMES = 200
_MOST_COEFFICIENTS = 3000
_CELL = 16  # bytes of a row in pandas, and of what is made of it
_COPIES = 4  # of a design, at most, while it is worked on
_AT_A_TIME = 2**12  # lines
_DRAWN = 2**17  # rows at a time, at most
_MOST_ASKED = 300  # columns of a formula that are learned beside those of the release
_NOT_LEARNED = (
    "The formula has {:,} columns, too many to be learned ({:,} at most). As far as strata do not show "
    "interactions and powers, they are held to be silent, and their intervals can be far too narrow."
)


def fit_formula(
    folder: ReleaseFolder,
    formula: str,
    family: Family,
    *,
    target: Target = "population",
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Pooled:
    """Fit a model to completed tables of a release, and pool."""
    require_target(target)
    if family not in get_args(Family):
        raise UsageError(f"there is no family {family!r}", f"There are {', '.join(map(repr, get_args(Family)))}.")
    left, right = sides_of(formula)
    known = [*folder.manifest.sensitive_names, *(one.name for one in folder.manifest.columns.quasi_identifiers)]
    outcome, needed = sort_out(folder, names_in(left, known))
    if len(outcome) != 1 or needed:
        first = folder.manifest.sensitive_names[0]
        raise UsageError(
            "the outcome of a formula is one sensitive column, or says something of it",
            f"Write {quoted(first)}, or I({quoted(first)} == 'value'), in front of the ~.",
        )
    others, identifiers = sort_out(folder, names_in(right, known))
    if outcome[0] in others:
        raise UsageError(f"{outcome[0]!r} is on both sides of the formula", "Leave it out on the right.")
    require_one_table(folder, [*outcome, *others])
    asked = None if others else _Columns(right, _rows(folder, identifiers), folder.memory)
    answers = _Answers(left, outcome[0], family, possible_values(folder, outcome[0]))
    if asked is not None:
        _require_room(family, len(answers.labels), asked.width)
    further = asked if asked is not None and asked.width <= _MOST_ASKED else None
    if further is not None:
        further.require_room(folder.manifest.rows)
    drawn = draw_outcomes(
        folder, [*outcome, *others], identifiers, draws=draws, seed=seed, further=further, progress=progress
    )
    rows, levels = _with_others(drawn, others)
    columns = asked if asked is not None else _Columns(right, rows, folder.memory, levels)
    lines = _lines(columns, drawn, others)
    _require_room(family, len(answers.labels), columns.width)
    codes = answers.of(drawn)
    model = Model(lines.design, columns.names.index("Intercept") if "Intercept" in columns.names else None)
    estimates, covariance = fit_draws(model, lines, codes, len(answers.labels), answers.numbers)
    names = columns.names
    if family == "multinomial":
        names = [f"{label}: {name}" for label in answers.labels[1:] for name in columns.names]
    whole, notes = lines.whole_rows(codes), [answers.note, *drawn.notes]
    if asked is not None and further is None:
        notes.append(_NOT_LEARNED.format(len(columns.names), _MOST_ASKED))
    if whole < drawn.rows.num_rows:
        notes.append(f"{drawn.rows.num_rows - whole:,} rows with nulls in columns of the formula are left out.")
    within = covariance if target == "population" else np.zeros_like(covariance)
    freedom = float(whole - len(names)) if target == "population" else 0.0
    return pool_estimates(names, estimates, within, freedom, tuple(note for note in notes if note))


class _Columns:
    """The right side of a formula, as it was found on whole rows: means, levels and knots are those of all of them.

    It may be called for what is to be learned of other rows.
    """

    def __init__(
        self, right: str, rows: pa.Table, memory: ReadingMemory, levels: Mapping[str, list[Any]] | None = None
    ) -> None:
        self._levels, self._memory = levels or {}, memory
        self._needed = [name for name in rows.column_names if name]
        self._require(rows.num_rows * _CELL * (rows.num_columns + len(factors_of(right))))
        frame = _frame(rows, self._levels)
        frame = frame[~frame.isna().any(axis=1)]
        if not len(frame):
            raise InputError("every row has a null in a column of the formula", "Leave that column out.")
        self._side = Side(right, frame)
        self.names = self._side.names
        if not self.names:
            raise UsageError("the formula has no column on its right side", "Write 1 for a constant.")
        different, places = distinct_rows(rows)
        lines = _frame(different, self._levels)
        self._side.require_each_by_itself(lines[~lines.isna().any(axis=1)])
        design, whole = self.design(different)
        weights = np.bincount(places, minlength=len(design)) * whole
        self._means = weights @ design / max(1.0, weights.sum())
        spread = np.sqrt(np.maximum(weights @ design**2 / max(1.0, weights.sum()) - self._means**2, 0))
        self._scales = np.where(spread > 1e-9, spread, np.inf)  # a constant tells nothing

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.names)

    def require_room(self, rows: int) -> None:
        """A MemoryLimitError if the columns of a sample, or of what is drawn at a time, cannot be held."""
        at_once = min(rows, max(_DRAWN, MOST_CELLS // self.width))
        self._require(at_once * self.width * 2 * np.dtype(np.float32).itemsize)

    def _require(self, needed: int) -> None:
        self._memory.require(needed, self._memory.engine, "the columns of the formula, row by row,")

    def design(self, lines: pa.Table) -> tuple[Floats, Floats]:
        """The columns of the formula for some rows, and for each 1, or 0 if it has a null."""
        self._require(lines.num_rows * len(self.names) * _COPIES * np.dtype(np.float64).itemsize)
        frame = _frame(lines, self._levels)
        whole = (~frame.isna().any(axis=1)).to_numpy()
        design = np.zeros((lines.num_rows, len(self.names)))
        if whole.any():
            design[whole] = self._side.of(frame[whole])
        if not np.isfinite(design).all():
            raise InputError(
                "a column of the formula is infinite for some rows", "Leave these values out, or cap them."
            )
        return design, whole.astype(np.float64)

    def __call__(self, rows: pa.Table) -> Singles:
        """The same with mean 0 and variance 1; zeros for rows with a null."""
        different, places = distinct_rows(some_columns(rows, self._needed))
        found: Singles = np.empty((different.num_rows, self.width), np.float32)
        for start in range(0, len(found), _AT_A_TIME):
            design, whole = self.design(different.slice(start, _AT_A_TIME))
            found[start : start + _AT_A_TIME] = (design - self._means) / self._scales * whole[:, None]
        return found[places]


def _lines(columns: _Columns, drawn: Outcomes, others: Sequence[str]) -> Lines:
    """The different rows of the design, and which of them every row is in each draw."""
    different, places = distinct_rows(drawn.rows)
    of_draws: ByDraw = [places] * drawn.draws
    if others:  # lines go on with the values of other sensitive columns
        own = [drawn.kinds(name) for name in others]
        coded = [(codes.filled(len(values)), len(values) + 1) for values, codes in own]
        found = Combinations([(of_draws, different.num_rows), *coded], len(places), drawn.draws)
        of_draws = found
        rest = found.used
        parts: list[pa.Array] = []
        for values, _ in reversed(own):
            rest, code = np.divmod(rest, len(values) + 1)
            parts.append(pa.array([*values, None]).take(pa.array(code)))
        different = different.take(pa.array(rest))
        for name, part in zip(others, reversed(parts), strict=True):
            different = different.append_column(name, part)
    design, whole = columns.design(different)
    return Lines(design, whole > 0, of_draws)


class _Answers:
    """The left side of a formula: the outcome of each value of a column, or its number."""

    def __init__(self, left: str, column: str, family: Family, values: list[Any]) -> None:
        self._column, self._places = column, np.arange(len(values))
        self.numbers, self.labels, self.note = None, values, ""
        numbers = self._evaluated(left, column, values)
        if family == "linear":
            if numbers is None:
                raise UsageError(
                    f"{column!r} has no numbers, and a linear model is of numbers",
                    f"Use family='multinomial', or 'logit' for one value: I({quoted(column)} == 'value').",
                )
            if not np.isfinite(numbers).all():
                raise InputError(
                    f"{column!r} is infinite for some people, and a linear model is of finite numbers",
                    f"Ask for a condition, with family='logit': I({quoted(column)} > 31000).",
                )
            if len(np.unique(numbers)) < 2:
                raise UsageError(f"{left!r} is the same for everybody, so there is nothing to explain", _ANOTHER)
            self.numbers = numbers
        elif numbers is not None and left != column:
            labels, self._places = np.unique(numbers, return_inverse=True)
            self.labels = labels.tolist()
        if family == "logit":
            if len(self.labels) != 2:
                raise UsageError(
                    f"the outcome of a logit model has two values, and {left!r} has {len(self.labels):,}",
                    f"Ask for one value: I({quoted(column)} == 'value') ~ ..., or use family='multinomial'.",
                )
            self.note = f"Coefficients are of {left} = {self.labels[1]} against {self.labels[0]}."
        if family == "multinomial":
            if len(self.labels) < 2:
                raise UsageError(f"{left!r} is the same for everybody, so there is nothing to explain", _ANOTHER)
            self.note = f"Coefficients are of each value of {left} against {self.labels[0]}."

    def of(self, drawn: Outcomes) -> Codes:
        """The outcome of every row in each draw, -1 for none."""
        return drawn.kinds(self._column)[1].through(self._places)

    @staticmethod
    def _evaluated(left: str, column: str, values: list[Any]) -> Floats | None:
        pd = require_pandas()
        frame = pd.DataFrame({column: [float(value) if hasattr(value, "as_tuple") else value for value in values]})
        if left == column or left == f"`{column}`":
            numeric = all(isinstance(value, (int, float)) or hasattr(value, "as_tuple") for value in values)
            return np.array([float(value) for value in values]) if numeric else None
        side = Side(f"0 + {left}", frame)
        found = side.of(frame)
        if found.shape[1] == 2 and len(factors_of(left)) == 1 and set(np.unique(found)) <= {0.0, 1.0}:
            found = found[:, 1:]  # both levels of a condition: the second says whether it holds
        if found.shape[1] != 1 or len(found) != len(values) or not np.isfinite(found).all():
            raise UsageError(
                "the left side of the formula is not one number or condition for each value",
                f"Write a condition such as I({quoted(column)} == 'value'), or the column alone.",
            )
        if side.keeps:  # of the values as if there were one person with each
            raise looks_around()
        side.require_each_by_itself(frame)
        numbers: Floats = found[:, 0]
        return numbers


def _frame(table: pa.Table, levels: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Rows as pandas has them; decimals are numbers, and some columns have all of their `levels`."""
    frame = with_floats(plain_values(table)).to_pandas()
    for name, own in levels.items():
        frame[name] = require_pandas().Categorical(frame[name], own)
    return frame


def _rows(folder: ReleaseFolder, identifiers: Sequence[str]) -> pa.Table:
    """Some quasi-identifiers of everybody."""
    manifest = folder.manifest
    folder.memory.require(manifest.rows * 16 * (len(identifiers) + 1), folder.memory.engine, "the rows of a formula")
    names = list(identifiers) or [manifest.columns.bucket]
    table = pa.Table.from_batches(list(folder.batches("qit", names, coded=True)))
    return some_columns(table.unify_dictionaries(), identifiers)


def _with_others(drawn: Outcomes, others: Sequence[str]) -> tuple[pa.Table, dict[str, list[Any]]]:
    """The rows of the first draw with other sensitive columns, and the texts of these: other draws may have more."""
    table, levels = drawn.rows, {}
    for name in others:
        values, codes = drawn.kinds(name)
        table = table.append_column(name, pa.array([None, *values]).take(pa.array(codes[0] + 1)))
        if values and isinstance(values[0], str):
            levels[name] = values
    return table, levels


def _require_room(family: Family, outcomes: int, columns: int) -> None:
    number = columns * (outcomes - 1 if family == "multinomial" else 1)
    if family == "multinomial" and outcomes > _MOST_OUTCOMES:
        raise UsageError(
            f"{outcomes:,} outcomes are more than the {_MOST_OUTCOMES} that a multinomial model may have here",
            "Ask for one: I(column == 'value') with family='logit'.",
        )
    if number > _MOST_COEFFICIENTS:
        raise UsageError(
            f"the model has {number:,} coefficients, and may have {_MOST_COEFFICIENTS:,} here",
            "Leave out columns with many values, or put values into ranges.",
        )
