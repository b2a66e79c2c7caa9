"""Sparse linear programs: a large one, solved by HiGHS's interior point method, and families of smaller ones.

The large one is solved from scratch, where `highs.py` has small programs that grow. Its answer is
trusted no more: from the multipliers comes a bound on integers (`units_prices.py`), from the values a dealing that is
checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dalenius.solve.caps import Floats, Integers, Mask
from dalenius.solve.highs import run_interruptibly

_INFINITY = float(highspy.kHighsInf)


@dataclass(frozen=True, eq=False)
class SparseProgram:
    """Minimise costs . x over x >= 0 with lower <= A x <= upper; entry e of A is `values[e]` at (rows[e], columns[e]).

    `fixed` are the values that some x have to have, NaN for the others; None if there are none.
    """

    costs: Floats
    lower: Floats
    upper: Floats
    rows: Integers
    columns: Integers
    values: Floats
    fixed: Floats | None = None


@dataclass(frozen=True, eq=False)
class SparseAnswer:
    """An optimum, and the multiplier of each row: at most 0 where the row holds x back from above."""

    cost: float
    values: Floats
    multipliers: Floats


def solve_sparse(program: SparseProgram, seconds: float) -> SparseAnswer | None:
    """The optimum to the method's accuracy, or None if there is none or it takes longer."""
    highs = _with_model(program)
    highs.setOptionValue("solver", "ipm")
    highs.setOptionValue("run_crossover", "off")
    highs.setOptionValue("ipm_optimality_tolerance", 1e-5)
    highs.setOptionValue("time_limit", max(0.01, float(seconds)))
    run_interruptibly(highs)
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    return SparseAnswer(
        float(highs.getInfo().objective_function_value),
        np.asarray(solution.col_value),
        np.asarray(solution.row_dual),
    )


class SparseFamily:
    """One program with other limits of rows, and other columns that have to be 0; each starts at the one before."""

    def __init__(self, program: SparseProgram) -> None:
        self._program = program
        self._highs = _with_model(program)
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("presolve", "off")

    def multipliers(self, lower: Floats, upper: Floats, usable: Mask) -> Floats | None:
        """Those of the rows at the optimum."""
        rows, columns = len(lower), len(usable)
        ends = np.where(usable, _INFINITY, 0.0)
        index = np.arange(max(rows, columns), dtype=np.int32)
        self._highs.changeRowsBounds(rows, index[:rows], lower, upper)  # type: ignore[attr-defined]
        self._highs.changeColsBounds(columns, index[:columns], np.zeros(columns), ends)
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._highs.clearSolver()
            return None
        return np.asarray(self._highs.getSolution().row_dual)


def whole_corner(columns: int, rows: Integers, entries: Integers, lower: Floats, upper: Floats) -> Floats | None:
    """A corner of 0 <= x <= 1 with lower <= A x <= upper, where A has ones at (rows, entries); None if it is empty."""
    nothing = np.zeros(columns)
    highs = _with_model(SparseProgram(nothing, lower, upper, rows, entries, np.ones(len(rows))))
    index = np.arange(columns, dtype=np.int32)
    highs.changeColsBounds(columns, index, nothing, np.ones(columns))
    highs.setOptionValue("solver", "simplex")
    highs.setOptionValue("random_seed", 0)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.asarray(highs.getSolution().col_value)


def _with_model(program: SparseProgram) -> highspy.Highs:
    order = np.lexsort((program.columns, program.rows))
    number = len(program.lower)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.costs), number
    model.col_cost_ = program.costs
    fixed = np.full(len(program.costs), np.nan) if program.fixed is None else program.fixed
    model.col_lower_ = np.where(np.isnan(fixed), 0.0, fixed)
    model.col_upper_ = np.where(np.isnan(fixed), _INFINITY, fixed)
    model.row_lower_, model.row_upper_ = program.lower, program.upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(program.rows[order], np.arange(number + 1))
    model.a_matrix_.index_ = program.columns[order]
    model.a_matrix_.value_ = program.values[order]
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(model)
    return highs
