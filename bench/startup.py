"""make bench-startup: processor seconds that tiny jobs take, nearly all of which are imports.

Each command runs on 300 made-up records, against a floor in the same run: a Python that imports numpy and pyarrow.
Twice: with bytecode that Python has cached, as after the first run of an installed program, and without, as where
PYTHONDONTWRITEBYTECODE is set. Numbers are medians of user and system seconds, children included.

    python -m bench.startup [--runs 7] [--program .venv/bin/dalenius]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import machine

RESULTS = Path(__file__).parent / "results"
TARGET = 0.7  # seconds
FLOOR = "import numpy, pyarrow"
COMMANDS = {
    "--help": "--help",
    "plan (counts)": "plan --counts counts.csv --uniform 0.4",
    "plan (table)": "plan table.csv --sensitive Disease --uniform 0.4",
    "verify": "verify release",
    "query": "query release Gender='F'",
}
PUBLISH = (
    "publish table.csv --sensitive Disease --quasi-identifiers Age,Gender --uniform 0.4 --out release --seed 1 --json"
)
Rows = list[dict[str, Any]]


def make_inputs(folder: Path, program: str) -> None:
    chance = random.Random(1977)  # noqa: S311
    diseases = chance.choices(["Flu", "Cold", "Gout", "Asthma", "HIV"], [30, 30, 20, 15, 5], k=300)
    lines = [f"{chance.randint(20, 80)},{chance.choice('FM')},{disease}" for disease in diseases]
    (folder / "table.csv").write_text("\n".join(["Age,Gender,Disease", *lines, ""]), encoding="utf-8")
    counts = [f"{disease},{diseases.count(disease)}" for disease in sorted(set(diseases))]
    (folder / "counts.csv").write_text("\n".join(["value,count", *counts, ""]), encoding="utf-8")
    subprocess.run([program, *PUBLISH.split()], cwd=folder, check=True, capture_output=True)


def processor_seconds(argv: list[str], folder: Path, environment: dict[str, str], runs: int) -> float:
    """The median over some runs, after one that is not counted."""
    seconds = []
    for _ in range(runs + 1):
        before = os.times()
        subprocess.run(argv, cwd=folder, env=environment, check=True, capture_output=True)
        after = os.times()
        user, system = after.children_user - before.children_user, after.children_system - before.children_system
        seconds.append(user + system)
    return statistics.median(seconds[1:])


def measure(program: str, runs: int) -> Rows:
    python = str(Path(program).parent / "python")
    jobs = {f"floor: {FLOOR}": [python, "-c", FLOOR]}
    jobs |= {name: [program, *words.split()] for name, words in COMMANDS.items()}
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="dalenius-startup-") as scratch:
        folder = Path(scratch)
        make_inputs(folder, program)
        plain = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        environments = {
            "cached": {**plain, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")},
            "uncached": {**plain, "PYTHONPYCACHEPREFIX": str(folder / "none"), "PYTHONDONTWRITEBYTECODE": "1"},
        }
        for name, argv in jobs.items():
            seconds = {
                kind: round(processor_seconds(argv, folder, environment, runs), 3)
                for kind, environment in environments.items()
            }
            rows.append({"job": name, **seconds})
            print(f"{name:<32} {seconds['cached']:.2f} s   without cached bytecode {seconds['uncached']:.2f} s")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Processor seconds of tiny jobs.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--program", default=str(Path(sys.executable).parent / "dalenius"))
    options = parser.parse_args()
    rows = measure(options.program, options.runs)
    result = {"target": TARGET, "runs": options.runs, "machine": machine(), "seconds": rows}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "startup.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    lines = ["| job | processor seconds | without cached bytecode |", "|---|---:|---:|"]
    lines += [f"| {row['job']} | {row['cached']:.2f} | {row['uncached']:.2f} |" for row in rows]
    (RESULTS / "startup.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    slow = [row["job"] for row in rows[1:] if row["cached"] > TARGET]
    print(f"Above {TARGET} s: {', '.join(slow)}" if slow else f"All within {TARGET} s.")


if __name__ == "__main__":
    main()
