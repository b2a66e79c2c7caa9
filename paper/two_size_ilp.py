"""The two-size problem (Definition 5) as one integer linear program, for the paper's runtime figures.

The paper does not show its program. This is the direct one: q sizes S_j, of which at most two may be used, b_j buckets
of each, and a_ij records of value i in buckets of size S_j:

    minimise    sum_j (S_j - 1)^2 b_j
    subject to  sum_j a_ij = o_i                 every record is in a bucket
                sum_i a_ij = S_j b_j             buckets are full
                a_ij <= cap[i, S_j] b_j          and private
                b_j <= (n / S_j) y_j,  sum_j y_j <= 2
                b_j whole, y_j 0 or 1, a_ij >= 0.

Given whole b_j the a_ij are a flow, so whole ones exist if any do, and need not be asked for: that makes the program
several times as fast on the paper's domains. Solved by HiGHS to a relative gap of 1e-4, on one core. Only solving is
timed.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass

import highspy
import numpy as np

from dalenius.model.problem import Problem
from dalenius.solve.caps import Instance, Integers
from dalenius.solve.highs import run_interruptibly

GAP = 1e-4


@dataclass(frozen=True)
class IlpAnswer:
    """`loss` is None if nothing was found in time; `finished` says whether the gap was reached."""

    seconds: float
    finished: bool
    loss: int | None


def two_size_ilp(problem: Problem, seconds: float) -> IlpAnswer:
    """Solve, for at most so many seconds."""
    instance = Instance(problem)
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", GAP), ("time_limit", float(seconds))):
        highs.setOptionValue(option, value)
    highs.passModel(_model(instance.total, instance.sizes, instance.counts, instance.caps(instance.sizes)))
    started = time.perf_counter()
    run_interruptibly(highs, (signal.SIGINT, signal.SIGTERM))
    took = time.perf_counter() - started
    info = highs.getInfo()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    finished = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return IlpAnswer(took, finished, round(info.objective_function_value) if feasible else None)


def _model(total: int, sizes: Integers, counts: Integers, caps: Integers) -> highspy.HighsLp:
    """Columns are all a_ij, value by value, then the b_j, then the y_j."""
    m, q = caps.shape
    most = total // sizes
    a = np.arange(m * q).reshape(m, q)
    b, y = m * q + np.arange(q), m * q + q + np.arange(q)
    blocks = [  # rows of (columns, coefficients), their lower ends and their upper ends
        (a, np.ones((m, q)), counts, counts),
        (np.column_stack([a.T, b]), np.column_stack([np.ones((q, m)), -sizes]), np.zeros(q), np.zeros(q)),
        (
            np.column_stack([a.ravel(), np.tile(b, m)]),
            np.column_stack([np.ones(m * q), -caps.ravel()]),
            np.full(m * q, -highspy.kHighsInf),
            np.zeros(m * q),
        ),
        (
            np.column_stack([b, y]),
            np.column_stack([np.ones(q), -most]),
            np.full(q, -highspy.kHighsInf),
            np.zeros(q),
        ),
        (y[None, :], np.ones((1, q)), np.zeros(1), np.full(1, 2.0)),
    ]
    lengths = np.concatenate([np.full(len(columns), columns.shape[1]) for columns, *_ in blocks])
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = m * q + 2 * q, len(lengths)
    lp.col_cost_ = np.concatenate([np.zeros(m * q), (sizes - 1.0) ** 2, np.zeros(q)])
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.concatenate([np.where(caps > 0, counts[:, None], 0).ravel(), most, np.ones(q)]).astype(float)
    lp.row_lower_ = np.concatenate([low for *_, low, _ in blocks]).astype(float)
    lp.row_upper_ = np.concatenate([high for *_, high in blocks]).astype(float)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate([columns.ravel() for columns, *_ in blocks]).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate([values.ravel() for _, values, *_ in blocks]).astype(float)
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kContinuous] * (m * q) + [kinds.kInteger] * (2 * q)
    return lp
