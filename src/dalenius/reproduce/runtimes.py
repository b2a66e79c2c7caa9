"""Times of all algorithms for the two-size problem, and of the exact optimum over any number of sizes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from dalenius.errors import SolverError
from dalenius.model.problem import Problem, ValueCounts
from dalenius.reproduce.experiment import Context
from dalenius.reproduce.problems import problem
from dalenius.reproduce.settings import THETA
from dalenius.reproduce.two_size_ilp import GAP, two_size_ilp
from dalenius.solve.caps import Instance
from dalenius.solve.optimal import optimal
from dalenius.solve.two_size import two_size
from dalenius.solve.two_size_paper import full_pruning, loss_pruning, no_pruning, pair_lists

NONE, LOSS, FULL, ILP = "No-pruning", "Loss-pruning", "Full-pruning", "Optimal (two-size ILP)"
CLOSED, EXACT = "closed form (ours)", "exact, any sizes (ours)"
ORDER = (NONE, LOSS, FULL, ILP, CLOSED, EXACT)
SEARCHES = {NONE: no_pruning, LOSS: loss_pruning, FULL: full_pruning}
HOW = (
    f"θ = {THETA}, sizes up to 50, from the counts by value to the setting. The paper's three searches and our closed form solve the "
    "two-size problem and find the same loss. The searches are written in Python, validating pieces of the list at once, "
    "which favours the first two. “Optimal” is the two-size problem as one integer program (HiGHS, one core, to a gap "
    "of 0.01 %): every record count of a value in a size is a variable, and so is every number of buckets; at "
    "most two sizes may be used. “Exact, any sizes” is Dalenius' default method, which solves the harder problem "
    "of any number of sizes."
)


def measured(context: Context, counts: ValueCounts, sensitive: str, **key: Any) -> list[dict[str, Any]]:
    """A row for each algorithm."""
    settings = context.settings
    case = problem(counts, THETA)
    base = {"sensitive": sensitive, "values": len(counts.values), "records": counts.total, **key}
    runs = {CLOSED: settings.runs_of_ours, EXACT: min(5, settings.runs_of_ours)}
    rows = []
    for method in ORDER:
        number = 1 if method == ILP else runs.get(method, settings.runs_of_searches)
        limit = {"limit": settings.ilp_seconds} if method == ILP else {}
        found = context.measure("time", _timing(case, method, number, settings.ilp_seconds), method=method,
                                runs=number, **limit, **base)  # fmt: skip
        rows.append({"table": context.dataset.panel(sensitive), **base, "method": method, "runs": number, **found})
    _check(rows)
    pairs = sum(pairs.last + 1 for pairs in pair_lists(Instance(case)))
    return [{**row, "stopped": not row["finished"], "smallest_size": case.min_size, "feasible_pairs": pairs} for row in rows]


def steps(cases: int) -> int:
    """How many measurements so many cases take."""
    return cases * len(ORDER)


def _timing(case: Problem, method: str, runs: int, limit: float) -> Callable[[], dict[str, Any]]:
    def timed() -> dict[str, Any]:
        if method == ILP:
            answer = two_size_ilp(case, limit)
            return {"seconds": answer.seconds, "finished": answer.finished, "loss": answer.loss}
        return _median(_solver(case, method), runs)

    return timed


def _solver(case: Problem, method: str) -> Callable[[], Any]:
    if method == CLOSED:
        return lambda: two_size(case)
    if method == EXACT:
        return lambda: optimal(case, GAP).setting
    return lambda: SEARCHES[method](case)


def _median(run: Callable[[], Any], runs: int) -> dict[str, Any]:
    """The median time of several runs; one more comes first and does not count, where that costs little."""
    times, setting = [], None
    for number in range(runs + 1):
        started = time.perf_counter()
        setting = run()
        seconds = time.perf_counter() - started
        if number or seconds > 0.2:
            times.append(seconds)
        if len(times) == runs:
            break
    loss = None if setting is None else int(setting.loss)
    return {"seconds": statistics.median(times), "finished": True, "loss": loss}


def _check(rows: list[dict[str, Any]]) -> None:
    """All searches find the same loss, and the integer program the same to within its gap."""
    best = next(row["loss"] for row in rows if row["method"] == CLOSED)
    for row in rows:
        allowed = {EXACT: float("inf"), ILP: (GAP + 1e-9) * (best or 0)}.get(row["method"], 0)
        if row["finished"] and row["method"] != EXACT and (row["loss"] is None) != (best is None):
            raise SolverError(f"{row['method']} and the closed form do not agree on whether there is a setting")
        if row["finished"] and best is not None and row["loss"] is not None and abs(row["loss"] - best) > allowed:
            raise SolverError(f"{row['method']} found a loss of {row['loss']}, and the closed form {best}")
