"""Linear programs that grow, and a small integer program, solved by HiGHS. No other module knows HiGHS.

No answer is trusted as it is. A linear program yields multipliers, from which `certificate.py` computes an exact
bound; the integer program yields candidates, which are validated on integers.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import highspy
import numpy as np

from dalenius.solve.caps import Floats, Instance, Integers
from dalenius.solve.cuts import Cut, coefficients
from dalenius.solve.rows import Row

_INFINITY = highspy.kHighsInf
_Status = highspy.HighsModelStatus
_FINE = 1e-7  # a tolerance below 2^-20


@dataclass(frozen=True)
class LinearAnswer:
    """Buckets of each size (fractional), multipliers of the cuts, and by how much the cuts had to give way."""

    buckets: Floats
    multipliers: Floats
    shortfall: float


class LinearMaster:
    """Minimise the loss over fractional b, with cuts as rows and sizes as columns, both added as needed.

    The variables are t(S) = S b(S) / n, the share of the records in buckets of size S, so that numbers do not grow
    with n: minimise sum (S-1)^2/S t(S) with sum t(S) = 1 and, for each cut, sum a(S)/S t(S) + z >= rhs / n, each row
    divided by its largest coefficient. z is 0 unless no t satisfies the cuts; `solve_shortfall` minimises it.
    """

    def __init__(self, instance: Instance, sizes: Integers) -> None:
        self.instance = instance
        self.rows: list[Row] = []
        self.sizes = np.zeros(0, dtype=np.int64)
        self.caps = instance.caps(np.zeros(0, dtype=np.int64))
        self._scales: list[float] = []
        self._coefficients: list[Integers] = []
        self._known: set[object] = set()
        self._highs = _quiet_highs()
        _set_linear_options(self._highs)
        self._highs.addRow(1.0, 1.0, 0, _indices([]), np.zeros(0))
        self._highs.addCol(0.0, 0.0, 0.0, 0, _indices([]), np.zeros(0))  # z
        self.add_sizes(sizes)

    def add_sizes(self, sizes: Integers) -> None:
        """New columns."""
        caps = self.instance.caps(sizes)
        added = coefficients(self.rows, sizes, caps)
        rows = np.ones((len(self.rows) + 1, len(sizes)))
        rows[1:] = added / sizes / np.asarray(self._scales)[:, None]
        losses = (sizes - 1.0) ** 2 / sizes
        starts, index, values = _pack(rows.T)
        ends = np.zeros(len(sizes)), np.full(len(sizes), _INFINITY)
        self._highs.addCols(len(sizes), losses, *ends, len(values), starts, index, values)
        self._coefficients = [np.concatenate(pair) for pair in zip(self._coefficients, added, strict=True)]
        self.sizes = np.concatenate([self.sizes, sizes])
        self.caps = np.concatenate([self.caps, caps], axis=1)

    def add_cuts(self, cuts: Sequence[Row]) -> int:
        """New rows; returns how many of them were not there yet."""
        new = list({cut.key: cut for cut in cuts if cut.key not in self._known}.values())
        if not new:
            return 0
        added = coefficients(new, self.sizes, self.caps)
        rows = np.ones((len(new), len(self.sizes) + 1))
        rows[:, 1:] = added / self.sizes
        scales = np.abs(rows[:, 1:]).max(axis=1, initial=0.0)
        scales[scales == 0.0] = 1.0
        rows[:, 1:] /= scales[:, None]
        rights = np.asarray([cut.right / self.instance.total for cut in new]) / scales
        starts, index, values = _pack(rows)
        self._highs.addRows(len(new), rights, np.full(len(new), _INFINITY), len(values), starts, index, values)
        self._known |= {cut.key for cut in new}
        self.rows += new
        self._scales += scales.tolist()
        self._coefficients += list(added)
        return len(new)

    def matrix(self, columns: Integers) -> Integers:
        """The coefficients of all rows in some columns."""
        if not self._coefficients:
            return np.zeros((0, len(columns)), dtype=np.int64)
        return np.stack([row[columns] for row in self._coefficients])

    def solve(self, allowed_shortfall: float = 0.0) -> LinearAnswer | None:
        """The fractional setting of least loss, or None if the cuts cannot all be satisfied."""
        self._highs.changeColBounds(0, 0.0, allowed_shortfall)
        return self._run()

    def solve_with_room(self, records: float) -> LinearAnswer | None:
        """The same with room for so many records more of every value that has a privacy constraint among the rows."""
        index, above = _indices(range(1, len(self.rows) + 1)), np.full(len(self.rows), _INFINITY)
        rights = np.asarray([cut.right / self.instance.total for cut in self.rows])
        more = [records * cut.units if isinstance(cut, Cut) and not cut.sizes else 0.0 for cut in self.rows]
        raised = rights + np.asarray(more) / self.instance.total
        scales = np.asarray(self._scales, dtype=float)
        self._highs.changeRowsBounds(len(index), index, raised / scales, above)  # type: ignore[attr-defined]
        answer = self.solve()
        self._highs.changeRowsBounds(len(index), index, rights / scales, above)  # type: ignore[attr-defined]
        return answer

    def solve_shortfall(self) -> LinearAnswer:
        """Minimise z alone: 0 iff some fractional setting satisfies all cuts."""
        self._highs.changeColBounds(0, 0.0, _INFINITY)
        answer = self._run_with_costs(1.0, np.zeros(len(self.sizes)))
        if answer is None:
            raise LinearTrouble("no solution to a linear program that always has one")
        return answer

    def solve_for(self, size: int, sign: int) -> LinearAnswer | None:
        """Minimise sign * b(size)."""
        return self._run_with_costs(0.0, np.where(self.sizes == size, sign / self.sizes, 0.0))

    def _run_with_costs(self, shortfall_cost: float, costs: Floats) -> LinearAnswer | None:
        """Solve with other costs than the loss, and put the loss back."""
        columns = _indices(range(len(self.sizes) + 1))
        self._highs.changeColsCost(len(columns), columns, np.concatenate([[shortfall_cost], costs]))
        answer = self._run()
        loss = (self.sizes - 1.0) ** 2 / self.sizes
        self._highs.changeColsCost(len(columns), columns, np.concatenate([[0.0], loss]))
        return answer

    def _run(self) -> LinearAnswer | None:
        self._highs.run()
        if self._highs.getModelStatus() not in (_Status.kOptimal, _Status.kInfeasible):
            self._run_again()
        if self._highs.getModelStatus() == _Status.kInfeasible:
            return None
        solution = self._highs.getSolution()
        values = np.asarray(solution.col_value)
        multipliers = np.maximum(np.asarray(solution.row_dual)[1:], 0.0) / np.asarray(self._scales, dtype=float)
        buckets = np.maximum(values[1:], 0.0) * self.instance.total / self.sizes
        return LinearAnswer(buckets, multipliers, float(values[0]))

    def _run_again(self) -> None:
        """Solve again after a failure: from scratch, then with presolve, looser tolerances, or another algorithm."""
        attempts = ((1e-9, "simplex", "off"), (1e-7, "simplex", "on"), (1e-7, "ipm", "on"))
        for tolerance, solver, presolve in attempts:
            self._highs.clearSolver()
            _set_linear_options(self._highs, tolerance, solver, presolve)
            self._highs.run()
            status = self._highs.getModelStatus()
            _set_linear_options(self._highs)
            if status in (_Status.kOptimal, _Status.kInfeasible):
                return
        raise LinearTrouble(status.name)


class LinearFamily:
    """Minimise costs . t over t >= 0 with sum t = 1 and matrix t >= rights: one matrix, and many right-hand sides.

    A basis that is optimal for one right-hand side is dual feasible for every other, so that each takes a few steps of
    the dual simplex method from the one before. The options leave out what would take longer than those steps.
    """

    def __init__(self, costs: Floats, rows: Floats) -> None:
        self._highs = _quiet_highs()
        _set_linear_options(self._highs)
        self._highs.setOptionValue("simplex_dual_edge_weight_strategy", 0)
        self._highs.setOptionValue("dual_simplex_cost_perturbation_multiplier", 0.0)
        self._highs.setOptionValue("simplex_initial_condition_check", False)
        self._columns = len(costs)
        self._rows = 0
        nothing = np.zeros(0)
        ends = np.zeros(self._columns), np.full(self._columns, _INFINITY)
        self._highs.addCols(self._columns, costs, *ends, 0, _indices([0] * self._columns), _indices([]), nothing)
        self._highs.addRow(1.0, 1.0, self._columns, _indices(range(self._columns)), np.ones(self._columns))
        self.add_rows(rows)

    def add_rows(self, rows: Floats) -> None:
        """New rows of the matrix; `solve` has their right-hand sides."""
        number, columns = rows.shape
        starts, index = columns * np.arange(number), np.tile(np.arange(columns), number)
        free = np.full(number, -_INFINITY), np.full(number, _INFINITY)
        self._highs.addRows(number, *free, rows.size, _indices(starts), _indices(index), rows.ravel())
        self._rows += number

    def solve(self, rights: Floats) -> tuple[Floats, Floats] | None:
        """The optimal t and the multipliers of the rows, or None if no t satisfies them."""
        index, above = np.arange(1, self._rows + 1, dtype=np.int32), np.full(self._rows, _INFINITY)
        self._highs.changeRowsBounds(self._rows, index, rights, above)  # type: ignore[attr-defined]
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == _Status.kInfeasible:
            return None
        if status != _Status.kOptimal:
            self._highs.clearSolver()
            raise LinearTrouble(status.name)
        solution = self._highs.getSolution()
        return np.maximum(solution.col_value, 0.0), np.maximum(solution.row_dual[1:], 0.0)


class LinearTrouble(Exception):  # noqa: N818 (it is handled, and never reaches a user)
    """HiGHS has no answer to a linear program."""


class BoxStatus(Enum):
    """How the search of a box ended."""

    SOLVED = "solved"  # the best point of the box, for the rows given
    TARGET = "target"  # a point that is good enough
    EMPTY = "empty"  # no point satisfies the rows
    STOPPED = "stopped"  # out of time


@dataclass(frozen=True)
class BoxAnswer:
    """A point of the box (if one was found) and a lower bound on the cost over the box."""

    status: BoxStatus
    point: tuple[int, ...] | None
    bound: float


@dataclass(frozen=True)
class Box:
    """Minimise cost . z over integers low <= z <= high with sizes . z = total and rows . z >= rights.

    All numbers are small: z is the distance from a point near the optimum, however many records there are. The rows are
    whole numbers, unless `fractional` says that they are multiples of 1/K (`caps.py`): then HiGHS's tolerance has to be
    below that.
    """

    cost: list[int]
    sizes: list[int]
    total: int
    low: list[int]
    high: list[int]
    rows: list[list[float]]
    rights: list[float]
    fractional: bool = False


def solve_box(box: Box, seconds: float, target: float) -> BoxAnswer:
    """Branch and bound over a box; stops early at a point whose cost is at most `target`."""
    highs = _quiet_highs()
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", 0.5)  # costs are integers
    highs.setOptionValue("time_limit", max(0.01, float(seconds)))
    highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)  # the box is around a good point already
    highs.setOptionValue("objective_target", float(target))
    if box.fractional:
        highs.setOptionValue("mip_feasibility_tolerance", _FINE)
        highs.setOptionValue("primal_feasibility_tolerance", _FINE)
    columns = len(box.sizes)
    for cost, low, high in zip(box.cost, box.low, box.high, strict=True):
        highs.addCol(float(cost), float(low), float(high), 0, _indices([]), np.zeros(0))
    highs.changeColsIntegrality(
        columns, _indices(range(columns)), np.asarray([highspy.HighsVarType.kInteger] * columns)
    )
    highs.addRow(
        float(box.total),
        float(box.total),
        columns,
        _indices(range(columns)),
        np.asarray(box.sizes, dtype=float),
    )
    for row, right in zip(box.rows, box.rights, strict=True):
        values = np.asarray(row, dtype=float)
        filled = np.flatnonzero(values)
        highs.addRow(float(right), _INFINITY, len(filled), _indices(filled), values[filled])
    run_interruptibly(highs)
    return _box_answer(highs)


def run_interruptibly(highs: highspy.Highs, signals: Sequence[signal.Signals] = (signal.SIGINT,)) -> None:
    """Run so that Ctrl-C (or another of the signals) stops the search at once: it sets a flag that HiGHS looks at.

    No exception passes through HiGHS, and no thread outlives it. Outside the main thread signals do not arrive anyway.
    """
    if threading.current_thread() is not threading.main_thread():
        highs.run()
        return
    stopped = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True
        highs.cancelSolve()  # type: ignore[no-untyped-call]

    highs.HandleUserInterrupt = True
    before = {one: signal.signal(one, stop) for one in signals}
    try:
        highs.run()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if stopped:
        raise KeyboardInterrupt


def _box_answer(highs: highspy.Highs) -> BoxAnswer:
    status = highs.getModelStatus()
    if status == _Status.kInfeasible:
        return BoxAnswer(BoxStatus.EMPTY, None, float("inf"))
    info = highs.getInfo()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    point = tuple(int(z) for z in np.rint(highs.getSolution().col_value)) if feasible else None
    endings = {_Status.kOptimal: BoxStatus.SOLVED, _Status.kObjectiveTarget: BoxStatus.TARGET}
    return BoxAnswer(endings.get(status, BoxStatus.STOPPED), point, float(info.mip_dual_bound))


def _quiet_highs() -> highspy.Highs:
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 0)
    return highs


def _set_linear_options(
    highs: highspy.Highs, tolerance: float = 1e-9, solver: str = "simplex", presolve: str = "off"
) -> None:
    highs.setOptionValue("presolve", presolve)
    highs.setOptionValue("solver", solver)
    highs.setOptionValue("primal_feasibility_tolerance", tolerance)
    highs.setOptionValue("dual_feasibility_tolerance", tolerance)


def _pack(rows: Floats) -> tuple[np.typing.NDArray[np.int32], np.typing.NDArray[np.int32], Floats]:
    """Rows without their zeros: where each begins, the columns of what is left, and what is left."""
    filled = rows != 0.0
    starts = np.concatenate(([0], np.cumsum(filled.sum(axis=1))[:-1]))
    return _indices(starts), _indices(np.nonzero(filled)[1]), rows[filled]


def _indices(numbers: Sequence[int] | Integers | range) -> np.typing.NDArray[np.int32]:
    return np.asarray(numbers, dtype=np.int32)
