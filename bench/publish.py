"""make bench-publish: publishing and verifying against the floor, in one run on the same tables and cores.

The floor is what DuckDB takes to copy the table to Parquet ordered by a random key, with the same memory limit. Every
run is a process of its own, measured from its start: seconds on the clock and peak memory.

    python -m bench.publish [--no-100m] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pyarrow as pa

from bench.charts import line_chart, save
from bench.machine import machine
from bench.tables import SHAPES, Shape, write_table

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"
MEMORY = "2GB"
COMMAND = str(Path(sys.executable).parent / "dalenius")
Rows = list[dict[str, Any]]

FLOOR = """
import duckdb, sys
connection = duckdb.connect(config={"memory_limit": sys.argv[3], "temp_directory": sys.argv[4]})
connection.execute(f"COPY (SELECT * FROM '{sys.argv[1]}' ORDER BY random()) TO '{sys.argv[2]}' (FORMAT parquet)")
"""
# as an installed program runs: with its modules compiled
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
IMPORTS = "import dalenius.publishing, dalenius.cli.publish_command, dalenius.cli.render_release"


def measured(words: list[str]) -> tuple[float, float]:
    """Seconds from start to end of a process, and its peak memory in MiB."""
    started = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{words[:3]} failed")
    return seconds, usage.ru_maxrss / 1024


def row(shape: str, rows: int, method: str, runs: list[tuple[float, float]]) -> dict[str, Any]:
    seconds = statistics.median(run[0] for run in runs)
    memory = max(run[1] for run in runs)
    print(f"  {shape:6} {rows:>11,} {method:11} {seconds:8.2f} s {memory:8.0f} MiB", flush=True)
    return {
        "shape": shape,
        "records": rows,
        "method": method,
        "seconds": seconds,
        "all_seconds": [run[0] for run in runs],
        "peak_mib": memory,
        "finished": True,
    }


def compared(shape: Shape, rows: int, repeats: int, folder: Path) -> Rows:
    """The floor, publishing and verifying on one table, by turns."""
    table, out = folder / "table.parquet", folder / "release"
    write_table(shape, rows, table)
    floor = [sys.executable, "-c", FLOOR, str(table), str(folder / "copy.parquet"), MEMORY, str(folder / "spill")]
    publish = [COMMAND, "publish", str(table), "--sensitive", shape.sensitive]
    publish += ["--quasi-identifiers", ",".join(shape.quasi_identifiers), "--theta", "8", "--base", "0.02"]
    publish += ["--min-size", "1", "--publish-in-the-clear"]  # as the paper has it
    publish += ["--out", str(out), "--force", "--memory", MEMORY, "--json"]
    verify = [COMMAND, "verify", str(out), "--json"]
    words = {"floor": floor, "one stratum": [*publish, "--strata", "none"], "publish": publish, "verify": verify}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in words}
    for _ in range(repeats):
        for name, command in words.items():
            runs[name].append(measured(command))
    made = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["strata"]
    print(f"  {shape.name:6} {rows:>11,} {len(made['strata']) if made else 1:,} strata", flush=True)
    (folder / "copy.parquet").unlink()
    return [row(shape.name, rows, name, found) for name, found in runs.items()]


def summary(results: dict[str, Any]) -> str:
    lines = [
        "| table | rows | floor | one stratum | / floor | strata | / one stratum | verify | / publish | peak memory "
        "| floor's peak |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    found = results["rows"]
    for shape, rows in dict.fromkeys((r["shape"], r["records"]) for r in found):
        by = {r["method"]: r for r in found if (r["shape"], r["records"]) == (shape, rows)}
        floor, one, publish, verify = (by[name]["seconds"] for name in ("floor", "one stratum", "publish", "verify"))
        peaks = f"{by['publish']['peak_mib']:,.0f} MiB | {by['floor']['peak_mib']:,.0f} MiB"
        lines.append(
            f"| {shape} | {rows:,} | {floor:.2f} s | {one:.2f} s | {one / floor:.2f} "
            f"| {publish:.2f} s | {publish / one:.2f} "
            f"| {verify:.2f} s | {verify / publish:.2f} | {peaks} |"
        )
    base = results["imports"]
    lines += ["", f"Importing the libraries alone takes {base['seconds']:.2f} s and {base['peak_mib']:,.0f} MiB."]
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--no-100m", action="store_true", help="leave the largest table out")
    options.add_argument("--quick", action="store_true", help="the smallest table only")
    options.add_argument("--repeats", type=int, default=3, help="runs of each kind; the median counts")
    options.add_argument("--folder", type=Path, help="where the tables go (default: a temporary folder)")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    if asked.show:
        show(json.loads((asked.out / "publish.json").read_text(encoding="utf-8")), asked.out)
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = [("codes", 500_000, asked.repeats)]
    if not asked.quick:
        tables += [("codes", 10_000_000, asked.repeats)]
        tables += [("codes", 100_000_000, 1)] if not asked.no_100m else []
        tables += [("mixed", 10_000_000, asked.repeats), ("wide", 1_000_000, asked.repeats)]
    measured([sys.executable, "-c", IMPORTS])  # compiles what is not compiled yet
    imports = measured([sys.executable, "-c", IMPORTS])
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="dalenius-bench-", dir=asked.folder) as folder:
        for shape, count, repeats in tables:
            rows += compared(SHAPES[shape], count, repeats, Path(folder))
    versions = {"duckdb": duckdb.__version__, "pyarrow": pa.__version__, "numpy": numpy.__version__}
    results = {"machine": machine(**versions), "memory": MEMORY, "rows": rows}
    results |= {"imports": {"seconds": imports[0], "peak_mib": imports[1]}}
    (asked.out / "publish.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(results, asked.out)


def show(results: dict[str, Any], out: Path) -> None:
    """Write the table and the plot of results."""
    (out / "publish.md").write_text(summary(results), encoding="utf-8")
    codes = [r for r in results["rows"] if r["shape"] == "codes"]
    memory = [{**r, "seconds": r["peak_mib"]} for r in codes]
    peak = line_chart(memory, "records", "Peak memory", y_title="MiB")
    save([line_chart(codes, "records", "Publishing against the floor"), peak], out / "publish")
    if out == RESULTS:
        shutil.copy(out / "publish.svg", DOCS / "images" / "bench-publish.svg")
    print(summary(results))
    print(f"Wrote {out}/publish.json, .md, .svg and .png")


if __name__ == "__main__":
    main()
