"""The direct formulation of Definition 4, with every quota a_ij a variable: what the paper calls Optimal.

    minimise    sum_j (S_j - 1)^2 b_j
    subject to  sum_j a_ij = o_i,   sum_i a_ij = S_j b_j,   a_ij <= cap[i, S_j] b_j,   all whole, none negative.

Solved by HiGHS and by SCIP to the same gap as ours. Only the solving is timed, not the building of the model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import highspy
import numpy as np
import pyscipopt

from dalenius.model.problem import Problem
from dalenius.solve.caps import Instance


@dataclass(frozen=True)
class DirectAnswer:
    """`loss` is None if no solution was found in time; `finished` says whether the gap was reached."""

    seconds: float
    finished: bool
    loss: int | None


def by_highs(problem: Problem, gap: float, seconds: float) -> DirectAnswer:
    instance = Instance(problem)
    sizes, counts = instance.sizes, instance.counts
    caps = instance.caps(sizes)
    m, q = caps.shape
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("time_limit", float(seconds))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = m * q + q, m + q + m * q
    lp.col_cost_ = np.concatenate([np.zeros(m * q), (sizes - 1.0) ** 2])
    lp.col_lower_ = np.zeros(lp.num_col_)
    most = np.where(caps > 0, counts[:, None], 0).ravel()
    lp.col_upper_ = np.concatenate([most, instance.total // sizes]).astype(float)
    lp.row_lower_ = np.concatenate([counts, np.zeros(q), np.full(m * q, -highspy.kHighsInf)]).astype(float)
    lp.row_upper_ = np.concatenate([counts, np.zeros(q), np.zeros(m * q)]).astype(float)
    # Column a_ij has a 1 in row i, in row m + j and in its own row; column b_j has -S_j and all of -cap[., j].
    i, j = np.divmod(np.arange(m * q), q)
    a_index = np.stack([i, m + j, m + q + np.arange(m * q)], axis=1).ravel()
    own_rows = m + q + np.arange(m * q).reshape(m, q)
    b_index = np.concatenate([np.concatenate([[m + k], own_rows[:, k]]) for k in range(q)])
    b_value = np.concatenate([np.concatenate([[-sizes[k]], -caps[:, k]]) for k in range(q)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    starts = np.concatenate([np.arange(m * q) * 3, 3 * m * q + np.arange(q + 1) * (m + 1)])
    lp.a_matrix_.start_ = starts.astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate([a_index, b_index]).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate([np.ones(3 * m * q), b_value]).astype(float)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
    highs.passModel(lp)
    started = time.perf_counter()
    highs.run()
    took = time.perf_counter() - started
    finished = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return DirectAnswer(took, finished, round(info.objective_function_value) if found else None)


def by_scip(problem: Problem, gap: float, seconds: float) -> DirectAnswer:
    instance = Instance(problem)
    sizes, counts = instance.sizes.tolist(), instance.counts.tolist()
    caps = instance.caps(instance.sizes).tolist()
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParam("limits/gap", gap)
    model.setParam("limits/time", float(seconds))
    b = [model.addVar(vtype="I", ub=instance.total // size, obj=(size - 1) ** 2) for size in sizes]
    a = [
        [model.addVar(vtype="I", ub=count if cap else 0) for cap in row]
        for row, count in zip(caps, counts, strict=True)
    ]
    for row, count in zip(a, counts, strict=True):
        model.addCons(pyscipopt.quicksum(row) == count)
    for j, size in enumerate(sizes):
        model.addCons(pyscipopt.quicksum(row[j] for row in a) == size * b[j])
    for quotas, row in zip(a, caps, strict=True):
        for j, cap in enumerate(row):
            if cap:
                model.addCons(quotas[j] <= cap * b[j])
    started = time.perf_counter()
    model.optimize()
    took = time.perf_counter() - started
    finished = model.getStatus() in ("optimal", "gaplimit")
    return DirectAnswer(took, finished, round(model.getObjVal()) if model.getNSols() else None)
