"""Times of all algorithms for the two-size problem, and of the exact optimum over any number of sizes.

`runtime_records` and `runtime_domain` measure them on their cases, and share the axes, tables and comparisons here.
"""

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
from paper.experiment import Context, Settings, Table, rows_by
from paper.pictures import Axis, Rows
from paper.problems import THETA, problem
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


def measure_case(context: Context, counts: ValueCounts, sensitive: str, **key: Any) -> list[dict[str, Any]]:
    """A row for each algorithm."""
    settings = context.settings
    case = problem(counts, THETA)
    base = {"sensitive": sensitive, "values": len(counts.values), "records": counts.total, **key}
    rows = []
    for method in ORDER:
        options: dict[str, Any] = {"method": method, "runs": runs(settings, method)}
        if method in (ILP, EXACT):
            options["limit"] = settings.limit
        timing = context.measure("time", partial(_time_method, case, **options), **options, **base)
        rows.append({"table": context.dataset.panel(sensitive), **base, "method": method, **timing})
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


def seconds_axis() -> Axis:
    """Seconds, over several orders of magnitude."""
    return Axis("seconds", "runtime (seconds, log scale)", "log", format=",~f")


def seconds_table(rows: Rows, column: str, heading: str, form: str) -> Table:
    """Seconds by algorithm; those that were stopped have the time limit after a sign."""
    cells: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        line = cells.setdefault((row["sensitive"], row[column]), {"sensitive": row["sensitive"], column: row[column]})
        line["values"] = row["values"]
        line[row["method"]] = f"{'' if row['finished'] else '> '}{row['seconds']:.4g}"
    columns = {"sensitive": ("sensitive", "s"), column: (heading, form), "values": ("values", ",d")}
    return Table.of(columns | {method: (f"{method}, s", "s") for method in ORDER}, list(cells.values()))


def seconds_by(rows: Rows, column: str) -> dict[tuple[str, int], dict[str, float]]:
    """Seconds by sensitive column and another one, and within that by algorithm."""
    cases: dict[tuple[str, int], dict[str, float]] = {}
    for (sensitive, place, method), row in rows_by(rows, "sensitive", column, "method").items():
        cases.setdefault((sensitive, place), {})[method] = row["seconds"]
    return cases


def growth(cases: dict[tuple[str, int], dict[str, float]], method: str) -> list[float]:
    """How many times as long the last case takes as the first, for each sensitive column."""
    ratios = []
    for sensitive in dict.fromkeys(sensitive for sensitive, _ in cases):
        times = [case[method] for (name, _), case in sorted(cases.items()) if name == sensitive]
        ratios.append(times[-1] / times[0])
    return ratios


def grows(rows: Rows, method: str, times: float, column: str) -> list[bool | None]:
    """Whether the last case takes so many times as long as the first; None if runs were stopped before that shows."""
    answers: list[bool | None] = []
    for sensitive in dict.fromkeys(row["sensitive"] for row in rows):
        mine = sorted(
            (r for r in rows if (r["sensitive"], r["method"]) == (sensitive, method)), key=lambda r: r[column]
        )
        first, last = mine[0], mine[-1]
        enough = bool(last["seconds"] >= times * first["seconds"])
        known = first["finished"] and (enough or last["finished"])
        answers.append(enough if known else None)
    return answers


def is_slower(rows: Rows, case: tuple[str, int], method: str, than: str, column: str = "records") -> bool | None:
    """Whether a method takes longer than another; None if that is not known because it was stopped before."""
    sensitive, place = case
    mine = rows_by([row for row in rows if row["sensitive"] == sensitive and row[column] == place], "method")
    longer = bool(mine[method]["seconds"] > mine[than]["seconds"])
    return longer if longer or mine[method]["finished"] else None


def _time_method(case: Problem, method: str, runs: int, limit: float = math.inf) -> dict[str, Any]:
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
        loss, finished, gap = _solve(case, method, limit)
        seconds = time.perf_counter() - started
        if not first or seconds >= _SLOW:
            times.append(seconds)
        if not finished:
            break
        first = False
    timing = {"seconds": statistics.median(times), "runs": len(times), "finished": finished, "loss": loss}
    return timing if gap is None else {**timing, "gap": gap}


def _solve(case: Problem, method: str, limit: float) -> tuple[int | None, bool, float | None]:
    """The loss, whether the method finished, and the gap of the exact method, which stops at a time or at a gap."""
    if method != EXACT:
        setting = find_two_size_setting(case) if method == CLOSED else SEARCHES[method](case)
        return (None if setting is None else setting.loss), True, None
    optimum = find_optimum(case, GAP, limit)
    if optimum.setting is None or optimum.bound is None:
        return None, optimum.setting is None, None
    loss = optimum.setting.loss
    gap = (loss - optimum.bound) / loss if loss else 0.0
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
