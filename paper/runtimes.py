"""Times of all algorithms for the two-size problem, and of the exact optimum over any number of sizes."""

from __future__ import annotations

import math
import statistics
import time
from functools import partial
from typing import Any

from dalenius.errors import SolverError
from dalenius.model.problem import Problem, ValueCounts
from dalenius.solve.caps import Instance
from dalenius.solve.optimal import find_optimum
from dalenius.solve.two_size import find_two_size_setting
from paper.experiment import Context
from paper.problems import THETA, problem
from paper.settings import Settings
from paper.two_size_ilp import GAP, two_size_ilp
from paper.two_size_paper import full_pruning, loss_pruning, no_pruning, pair_lists

NONE, LOSS, FULL, ILP = "No-pruning", "Loss-pruning", "Full-pruning", "Optimal (two-size ILP)"
CLOSED, EXACT = "closed form (ours)", "exact, any sizes (ours)"
ORDER = (NONE, LOSS, FULL, ILP, CLOSED, EXACT)
_SLOW, _ENOUGH = 0.2, 10.0  # seconds
SEARCHES = {NONE: no_pruning, LOSS: loss_pruning, FULL: full_pruning}
HOW = (
    f"θ = {THETA}, sizes up to 50, from the counts by value to the setting. The paper's three searches and our closed "
    "form solve the two-size problem and find the same loss. The searches are written in Python, validating pieces of "
    "the list at once, which favours the first two. “Optimal” is the two-size problem as one integer program (HiGHS, "
    "one core, to a gap of 0.01 %): every record count of a value in a size is a variable, and so is every number of "
    "buckets; at most two sizes may be used. “Exact, any sizes” is Dalenius' default method, which solves the harder "
    "problem of any number of sizes."
)


def measured(context: Context, counts: ValueCounts, sensitive: str, **key: Any) -> list[dict[str, Any]]:
    """A row for each algorithm."""
    settings = context.settings
    case = problem(counts, THETA)
    base = {"sensitive": sensitive, "values": len(counts.values), "records": counts.total, **key}
    rows = []
    for method in ORDER:
        asked: dict[str, Any] = {"method": method, "runs": runs(settings, method)}
        if method in (ILP, EXACT):
            asked["limit"] = settings.limit
        found = context.measure("time", partial(_timed, case, **asked), **asked, **base)
        rows.append({"table": context.dataset.panel(sensitive), **base, "method": method, **found})
    _check(rows)
    pairs = sum(pairs.last + 1 for pairs in pair_lists(Instance(case)))
    more = {"smallest_size": case.min_size, "feasible_pairs": pairs}
    return [{**row, "stopped": not row["finished"], **more} for row in rows]


def runs(settings: Settings, method: str) -> int:
    """How often an algorithm is run."""
    few = {ILP: 1, EXACT: min(5, settings.runs_of_ours), CLOSED: settings.runs_of_ours}
    return few.get(method, settings.runs_of_searches)


def steps(cases: int) -> int:
    """How many measurements so many cases take."""
    return cases * len(ORDER)


def _timed(case: Problem, method: str, runs: int, limit: float = math.inf) -> dict[str, Any]:
    """The median time of several runs, of fewer if they take long; and what the last of them found.

    A first run that took a fifth of a second or more counts as well; a shorter one may be slow for other reasons.
    """
    if method == ILP:
        answer = two_size_ilp(case, limit)
        return {"seconds": answer.seconds, "runs": 1, "finished": answer.finished, "loss": answer.loss}
    times: list[float] = []
    first, began = True, time.perf_counter()
    while len(times) < runs and (not times or time.perf_counter() - began < _ENOUGH):
        started = time.perf_counter()
        loss, finished, gap = _solved(case, method, limit)
        seconds = time.perf_counter() - started
        if not first or seconds >= _SLOW:
            times.append(seconds)
        if not finished:
            break
        first = False
    found = {"seconds": statistics.median(times), "runs": len(times), "finished": finished, "loss": loss}
    return found if gap is None else {**found, "gap": gap}


def _solved(case: Problem, method: str, limit: float) -> tuple[int | None, bool, float | None]:
    """The loss, and whether the method came to its end: the exact one stops at a time, or at a gap, which comes "
    "third."""
    if method != EXACT:
        setting = find_two_size_setting(case) if method == CLOSED else SEARCHES[method](case)
        return (None if setting is None else setting.loss), True, None
    found = find_optimum(case, GAP, limit)
    if found.setting is None or found.bound is None:
        return None, found.setting is None, None
    loss = found.setting.loss
    gap = (loss - found.bound) / loss if loss else 0.0
    return loss, gap <= GAP, gap


def _check(rows: list[dict[str, Any]]) -> None:
    """All searches find the same loss, and the integer program the same to within its gap."""
    best = next(row["loss"] for row in rows if row["method"] == CLOSED)
    for row in rows:
        allowed = {EXACT: float("inf"), ILP: (GAP + 1e-9) * (best or 0)}.get(row["method"], 0)
        if row["finished"] and row["method"] != EXACT and (row["loss"] is None) != (best is None):
            raise SolverError(f"{row['method']} and the closed form do not agree on whether there is a setting")
        if row["finished"] and best is not None and row["loss"] is not None and abs(row["loss"] - best) > allowed:
            raise SolverError(f"{row['method']} found a loss of {row['loss']}, and the closed form {best}")
