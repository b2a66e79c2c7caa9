"""make bench-solvers: the solvers against the paper's searches and against the direct MILP.

Everything is measured in one run on the same counts; results and a plot go to bench/results/. With `--before`, the
solvers of another checkout have their turn as well, and must find the same settings and bounds.

    python -m bench.solvers [--quick] [--peer-seconds 60] [--before CHECKOUT]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import highspy
import numpy
import pyscipopt

from bench.charts import line_chart, save
from bench.direct_milp import by_highs, by_scip
from bench.instances import THETA, scaled_domain, scaled_size
from bench.machine import machine
from dalenius.model.problem import BucketSetting, Problem
from dalenius.solve.multi_size import find_multi_size_setting
from dalenius.solve.optimal import find_optimum, lower_bound
from dalenius.solve.two_size import find_two_size_setting
from paper.two_size_paper import full_pruning, loss_pruning, no_pruning
from tests.problems import acs

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"
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


def answers() -> Rows:
    """What our solvers find on every instance, and the processor time that each took, of several runs the shortest."""
    rows: Rows = []
    problems = [(f"{c} theta {t}", acs(c, 300, t)) for c in COLUMNS for t in (2, 8, 32)]
    problems += [(f"{c} x {g}", scaled_domain(c, g)) for c in COLUMNS for g in (2, 4, 8, 16, 32, 64)]
    problems += [(f"Occupation 10^{exponent}", scaled_size("Occupation", 10**exponent)) for exponent in range(5, 11)]
    solvers: dict[str, Callable[[Problem], tuple[BucketSetting | None, int | None]]] = {
        "two-size": lambda problem: (find_two_size_setting(problem), None),
        "multi-size": lambda problem: (find_multi_size_setting(problem), None),
        "lower bound": lambda problem: (None, lower_bound(problem).bound),
        "optimal": lambda problem: ((best := find_optimum(problem, GAP)).setting, best.bound),
    }
    for instance, problem in problems:
        for method, solver in solvers.items():
            times = []
            for _ in range(4):
                started = time.process_time()
                setting, bound = solver(problem)
                times.append(time.process_time() - started)
            groups = None if setting is None else [[group.size, group.buckets] for group in setting.groups]
            found = {"setting": groups, "bound": bound}
            rows.append({"instance": instance, "method": method, "seconds": min(times), "found": found})
    return rows


def before_and_after(checkout: Path) -> Rows:
    """Every method in another checkout and in this one, in turn: processor time in all, and how much is the same."""
    runs: dict[str, list[Rows]] = {"before": [], "after": []}
    for _ in range(3):
        for name, source in (("before", checkout / "src"), ("after", Path(__file__).parent.parent / "src")):
            words = [sys.executable, "-m", "bench.solvers", "--answers"]
            environment = {**os.environ, "PYTHONPATH": str(source)}
            done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
            runs[name].append(json.loads(done.stdout))
    rows: Rows = []
    for method in dict.fromkeys(one["method"] for one in runs["after"][0]):
        seconds, found = {}, {}
        for name, several in runs.items():
            own = [[one for one in answered if one["method"] == method] for answered in several]
            seconds[name] = sum(min(one["seconds"] for one in same) for same in zip(*own, strict=True))
            found[name] = [one["found"] for one in own[0]]
        same = sum(a == b for a, b in zip(found["before"], found["after"], strict=True))
        rows.append({"method": method, "instances": len(found["after"]), "same": same, **seconds})
        print(f"  {method:28} {json.dumps(rows[-1])}", flush=True)
    return rows


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
            seconds, best = timed(lambda p=problem: find_two_size_setting(p), 20)  # type: ignore[misc]
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
        seconds, found = timed(lambda p=problem: find_two_size_setting(p), 20)  # type: ignore[misc]
        rows.append(row(name, problem, "two-size", seconds, found.loss))
        seconds, found = timed(lambda p=problem: find_multi_size_setting(p), 3)  # type: ignore[misc]
        rows.append(row(name, problem, "multi-size", seconds, found.loss))
        seconds, proof = timed(lambda p=problem: lower_bound(p), 5)  # type: ignore[misc]
        rows.append(row(name, problem, "lower bound", seconds, None, bound=proof.bound))
        seconds, best = timed(lambda p=problem: find_optimum(p, GAP), 5)  # type: ignore[misc]
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
        seconds, found = timed(lambda p=problem: find_two_size_setting(p), 20)  # type: ignore[misc]
        rows.append(row(name, problem, "two-size", seconds, found.loss))
        seconds, best = timed(lambda p=problem: find_optimum(p, GAP), 5)  # type: ignore[misc]
        rows.append(row(name, problem, "optimal", seconds, best.setting.loss, bound=best.bound))
        seconds, best = timed(lambda p=problem: find_optimum(p, 0), 1)  # type: ignore[misc]
        rows.append(row(name, problem, "optimal, gap 0", seconds, best.setting.loss, bound=best.bound))
    return rows


def summary(results: dict[str, Any]) -> str:
    """The tables of the results, in Markdown."""
    machine_words = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    limit = f"{results['peer_seconds']:g} s"
    lines = [
        f"Theta {THETA} unless said otherwise, base 0.02, sizes up to 50. Median seconds, and in brackets how many",
        f"times as long as ours; `>` means not finished within {limit}. Run on: {machine_words}.",
        "",
    ]
    lines += ["### Two sizes: the closed form against the paper's searches", ""]
    lines += _pivot(results["two_size"], ["closed form", "full pruning", "loss pruning", "no pruning"], "closed form")
    lines += ["", f"### All solvers, to gap {results['gap']:g}", ""]
    methods = ["two-size", "multi-size", "lower bound", "optimal", "direct MILP, HiGHS", "direct MILP, SCIP"]
    lines += _pivot(results["domain"], methods, "optimal")
    lines += ["", "### Losses", "", *_losses(results["domain"])]
    lines += ["", "### Growth with the number of records", ""]
    lines += _pivot(results["size"], ["two-size", "optimal", "optimal, gap 0"], None)
    if results.get("before"):
        lines += ["", "### Before limits on groups and after", ""]
        lines += ["Processor seconds for all instances, of three runs in turn the shortest for each.", ""]
        lines += ["| method | instances | same settings and bounds | before | after |", "|---" * 5 + "|"]
        lines += [
            f"| {r['method']} | {r['instances']} | {r['same']} | {r['before']:.3f} | {r['after']:.3f} |"
            for r in results["before"]
        ]
    return "\n".join(lines) + "\n"


def _losses(rows: Rows) -> list[str]:
    lines = ["| instance | m | optimal | proven gap | two-size / optimal | multi-size / optimal |", "|---" * 6 + "|"]
    for name in dict.fromkeys(r["instance"] for r in rows):
        found = {r["method"]: r for r in rows if r["instance"] == name}
        best = found["optimal"]
        ratios = [f"{found[method]['loss'] / best['loss']:.2f}" for method in ("two-size", "multi-size")]
        lines.append(f"| {name} | {best['values']} | {best['loss']:,} | {best['gap']:.1e} | {' | '.join(ratios)} |")
    return lines


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


def versions() -> dict[str, str]:
    """Of the solvers, and of what feeds them."""
    found = {"highspy": highspy.Highs().version(), "numpy": numpy.__version__, "duckdb": duckdb.__version__}  # type: ignore[no-untyped-call]
    return {**found, "scip": str(pyscipopt.Model().version())}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a few instances only")
    options.add_argument("--peer-seconds", type=float, default=60.0, help="limit for each run of a direct MILP")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="draw the results of an earlier run again")
    options.add_argument("--before", type=Path, help="another checkout, whose solvers are compared with these")
    options.add_argument("--answers", action="store_true", help="only print what our solvers find, as JSON")
    asked = options.parse_args()
    if asked.answers:
        print(json.dumps(answers()))
        return
    if asked.show:
        results = json.loads((asked.out / "solvers.json").read_text(encoding="utf-8"))
    else:
        asked.out.mkdir(parents=True, exist_ok=True)
        results = measured(asked.quick, asked.peer_seconds)
    if asked.before is not None:
        print("Before and after")
        results["before"] = before_and_after(asked.before)
    (asked.out / "solvers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(results, asked.out)


def measured(quick: bool, peer_seconds: float) -> dict[str, Any]:
    """Ours and the others', on all instances."""
    print("Two sizes")
    two = two_size_rows(quick)
    print("Growth with the number of records")
    size = size_rows(quick)
    print("All solvers")
    domain = domain_rows(quick, peer_seconds)
    results = {"machine": machine(**versions()), "gap": GAP, "peer_seconds": peer_seconds}
    return results | {"two_size": two, "domain": domain, "size": size}


def show(results: dict[str, Any], out: Path) -> None:
    """Write the tables and the plot of results."""
    (out / "solvers.md").write_text(summary(results), encoding="utf-8")
    charts = []
    for column in COLUMNS:
        two = [r for r in results["two_size"] if column in r["instance"]]
        charts.append(line_chart(two, "records", f"Two sizes, {column}"))
        scaled = [r for r in results["domain"] if column in r["instance"] and " x " in r["instance"]]
        charts.append(line_chart(scaled, "values", f"All solvers, {column} 500K"))
    charts.append(line_chart(results["size"], "records", "Occupation, growing table"))
    save(charts, out / "solvers")
    if out == RESULTS:
        shutil.copy(out / "solvers.svg", DOCS / "images" / "bench-solvers.svg")
    print(f"Wrote {out}/solvers.json, .md, .svg and .png")


if __name__ == "__main__":
    main()
