"""make bench-solvers: the solvers against the paper's searches and against the direct MILP.

Everything is measured in one run on the same counts; results and a plot go to bench/results/.

    python -m bench.solvers [--quick] [--peer-seconds 60]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import highspy
import numpy
import pyscipopt
from tests.problems import acs

from bench.charts import line_chart, save
from bench.direct_milp import by_highs, by_scip
from bench.instances import THETA, scaled_domain, scaled_size
from dalenius.model.problem import Problem
from dalenius.solve.multi_size import multi_size
from dalenius.solve.optimal import lower_bound, optimal
from dalenius.solve.two_size import two_size
from dalenius.solve.two_size_paper import full_pruning, loss_pruning, no_pruning

RESULTS = Path(__file__).parent / "results"
GAP = 1e-4
COLUMNS = ("Occupation", "Education")
Rows = list[dict[str, Any]]


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median time of several runs, after one that does not count, and the last answer."""
    run()
    times, answer = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - started)
    return statistics.median(times), answer


def row(instance: str, problem: Problem, method: str, seconds: float, loss: int | None, **more: Any) -> dict[str, Any]:
    found = {"instance": instance, "values": len(problem.values), "records": problem.total, "method": method}
    found |= {"seconds": seconds, "loss": loss, "finished": True} | more
    print(f"  {instance:18} m={len(problem.values):<5} {method:28} {seconds:10.4f} s  loss {loss}", flush=True)
    return found


def two_size_rows(quick: bool) -> Rows:
    """The closed form and the paper's three searches, on growing tables."""
    rows: Rows = []
    searches = {"no pruning": no_pruning, "loss pruning": loss_pruning, "full pruning": full_pruning}
    for column in COLUMNS:
        for thousands in (100, 300, 500) if not quick else (100,):
            problem = scaled_size(column, thousands * 1000)
            name = f"{column} {thousands}K"
            seconds, best = timed(lambda p=problem: two_size(p), 20)  # type: ignore[misc]
            rows.append(row(name, problem, "closed form", seconds, best.loss))
            for label, search in searches.items():
                seconds, found = timed(lambda p=problem, s=search: s(p), 1)  # type: ignore[misc]
                if found.loss != best.loss:
                    raise AssertionError(f"{label} found {found.loss} where the closed form found {best.loss}")
                rows.append(row(name, problem, label, seconds, found.loss))
    return rows


def domain_rows(quick: bool, peer_seconds: float) -> Rows:
    """All solvers as the domain grows, and at theta 2, 8 and 32 on the tables as they are."""
    rows: Rows = []
    problems = [(f"{c} theta {t}", acs(c, 300, t)) for c in COLUMNS for t in (2, 8, 32)]
    gammas = (2, 4, 8, 16, 32, 64) if not quick else (2,)
    problems += [(f"{c} x {g}", scaled_domain(c, g)) for c in COLUMNS for g in gammas]
    for name, problem in problems:
        seconds, found = timed(lambda p=problem: two_size(p), 20)  # type: ignore[misc]
        rows.append(row(name, problem, "two-size", seconds, found.loss))
        seconds, found = timed(lambda p=problem: multi_size(p), 3)  # type: ignore[misc]
        rows.append(row(name, problem, "multi-size", seconds, found.loss))
        seconds, proof = timed(lambda p=problem: lower_bound(p), 5)  # type: ignore[misc]
        rows.append(row(name, problem, "lower bound", seconds, None, bound=proof.bound))
        seconds, best = timed(lambda p=problem: optimal(p, GAP), 5)  # type: ignore[misc]
        gap = (best.setting.loss - best.bound) / best.setting.loss
        rows.append(row(name, problem, "optimal", seconds, best.setting.loss, bound=best.bound, gap=gap))
        for label, peer in (("direct MILP, HiGHS", by_highs), ("direct MILP, SCIP", by_scip)):
            answer = peer(problem, GAP, peer_seconds)
            if answer.finished and answer.loss is not None and answer.loss < best.bound:
                raise AssertionError(f"{label} found {answer.loss}, below the proven bound {best.bound}")
            rows.append(row(name, problem, label, answer.seconds, answer.loss, finished=answer.finished))
    return rows


def size_rows(quick: bool) -> Rows:
    """Nothing grows with the number of records."""
    rows: Rows = []
    for exponent in range(5, 11) if not quick else (5, 10):
        problem = scaled_size("Occupation", 10**exponent)
        name = f"Occupation 10^{exponent}"
        seconds, found = timed(lambda p=problem: two_size(p), 20)  # type: ignore[misc]
        rows.append(row(name, problem, "two-size", seconds, found.loss))
        seconds, best = timed(lambda p=problem: optimal(p, GAP), 5)  # type: ignore[misc]
        rows.append(row(name, problem, "optimal", seconds, best.setting.loss, bound=best.bound))
        seconds, best = timed(lambda p=problem: optimal(p, 0), 1)  # type: ignore[misc]
        rows.append(row(name, problem, "optimal, gap 0", seconds, best.setting.loss, bound=best.bound))
    return rows


def summary(two: Rows, domain: Rows, size: Rows) -> str:
    """The tables of the results, in Markdown."""
    lines = [
        "# Solvers",
        "",
        f"Counts: ACS 2018 by value, theta {THETA} unless said otherwise, base 0.02, sizes up to 50.",
    ]
    lines += ["Median seconds. > means not finished within the limit.", ""]
    lines += ["## Two sizes: the closed form against the paper's searches", ""]
    lines += _pivot(two, ["closed form", "full pruning", "loss pruning", "no pruning"], "closed form")
    lines += ["", f"## All solvers, to gap {GAP:g}", ""]
    methods = ["two-size", "multi-size", "lower bound", "optimal", "direct MILP, HiGHS", "direct MILP, SCIP"]
    lines += _pivot(domain, methods, "optimal")
    lines += ["", "## Growth with the number of records", ""]
    lines += _pivot(size, ["two-size", "optimal", "optimal, gap 0"], None)
    return "\n".join(lines) + "\n"


def _pivot(rows: Rows, methods: list[str], ours: str | None) -> list[str]:
    """A line an instance, a column a method; in brackets how many times as long as ours."""
    lines = [f"| instance | m | {' | '.join(methods)} |", "|---" * (len(methods) + 2) + "|"]
    for name in dict.fromkeys(r["instance"] for r in rows):
        by_method = {r["method"]: r for r in rows if r["instance"] == name}
        base = by_method[ours]["seconds"] if ours else None
        cells = [
            _cell(by_method[method], base if "MILP" in method or "pruning" in method else None) for method in methods
        ]
        lines.append(f"| {name} | {next(iter(by_method.values()))['values']} | {' | '.join(cells)} |")
    return lines


def _cell(found: dict[str, Any], base: float | None) -> str:
    sign = "" if found["finished"] else "> "
    times = f" ({sign}{found['seconds'] / base:,.0f}x)" if base else ""
    return f"{sign}{found['seconds']:.4f}{times}"


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {"highspy": highspy.Highs().version(), "numpy": numpy.__version__, "duckdb": duckdb.__version__}  # type: ignore[no-untyped-call]
    versions["scip"] = str(pyscipopt.Model().version())
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version(), **versions}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a few instances only")
    options.add_argument("--peer-seconds", type=float, default=60.0, help="limit for each run of a direct MILP")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    asked = options.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    print("Two sizes")
    two = two_size_rows(asked.quick)
    print("Growth with the number of records")
    size = size_rows(asked.quick)
    print("All solvers")
    domain = domain_rows(asked.quick, asked.peer_seconds)
    results = {"machine": machine(), "gap": GAP, "peer_seconds": asked.peer_seconds}
    results |= {"two_size": two, "domain": domain, "size": size}
    (asked.out / "solvers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (asked.out / "solvers.md").write_text(summary(two, domain, size), encoding="utf-8")
    charts = []
    for column in COLUMNS:
        charts.append(line_chart([r for r in two if column in r["instance"]], "records", f"Two sizes, {column}"))
        scaled = [r for r in domain if column in r["instance"] and " x " in r["instance"]]
        charts.append(line_chart(scaled, "values", f"All solvers, {column} 500K"))
    charts.append(line_chart(size, "records", "Occupation, growing table"))
    save(charts, asked.out / "solvers")
    print(f"Wrote {asked.out}/solvers.json, .md, .svg and .png")


if __name__ == "__main__":
    main()
