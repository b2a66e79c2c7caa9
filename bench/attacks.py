"""make bench-attacks TABLE=...: what the simulated attackers find in releases of a real table, and what that takes.

The table is a Parquet file with the columns of the census stand-in. A row number, as text, is published as a
quasi-identifier besides, so that the true value of every row is known; attackers who learn leave it out. Every audit is
a process of its own.

    python -m bench.attacks census.parquet [--rows 300000]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import altair
import duckdb

from bench.charts import save
from bench.machine import machine
from bench.publish import COMMAND, DOCS, ENVIRONMENT, RESULTS

COLUMNS = ("Age", "Gender", "Education", "Marital", "Race", "WorkClass", "Country", "Occupation")
RELEASES: dict[str, tuple[str, ...]] = {
    "as in the paper": ("--strata", "none"),
    "--corrupted 1": ("--strata", "none", "--corrupted", "1"),
    "--corrupted 2": ("--strata", "none", "--corrupted", "2"),
    "--fakes 1": ("--strata", "none", "--fakes", "1"),
    "--corrupted 1 --fakes 1": ("--strata", "none", "--corrupted", "1", "--fakes", "1"),
    "strata": (),
    "strata, --corrupted 1 --fakes 1": ("--corrupted", "1", "--fakes", "1"),
}
ATTACKS = ("corruption", "negative", "learning", "minimality", "order")
KEPT = ("success", "baseline", "control", "people", "people_above_limit", "claims", "claims_right", "mean_limit")
Rows = list[dict[str, Any]]


def run(*words: str) -> tuple[dict[str, Any], float, float]:
    """What a command prints with --json, its seconds from start to end, and its peak memory in MiB."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([COMMAND, *words, "--json"], stdout=out, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            raise SystemExit(f"{words[:2]} failed")
        out.seek(0)
        return json.load(out), seconds, usage.ru_maxrss / 1024


def audits(table: Path, sensitive: str, folder: Path) -> Rows:
    rows: Rows = []
    for number, (name, options) in enumerate(RELEASES.items()):
        release = str(folder / f"{sensitive}{number}")
        quasi = ",".join(["id", *(column for column in COLUMNS if column != sensitive)])
        limits = ("--theta", "8", "--base", "0.02", "--publish-in-the-clear")  # as theta may, in the paper
        made, *_ = run(
            "publish", str(table), "--sensitive", sensitive, "--quasi-identifiers", quasi, *limits, *options,
            "--out", release,
        )  # fmt: skip
        found, seconds, memory = run("audit", release, "--truth", str(table))
        for attack in [name for name in ATTACKS if name in found]:
            kept = {key: found[attack][key] for key in KEPT}
            rows.append({"sensitive": sensitive, "release": name, "attack": attack, "mse": made["mse"], **kept})
        rows.append({"sensitive": sensitive, "release": name, "attack": "all", "seconds": seconds, "MiB": memory})
        print(f"{sensitive}, {name}: {seconds:.1f} s, {memory:.0f} MiB", flush=True)
    return rows


def summary(rows: Rows) -> str:
    """The table of the documentation."""
    kinds = ("success", "baseline", "control")
    heads = ("sensitive", "release", "MSE", "attack", *kinds, "above limit", "claims", "right", "mean limit")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        if row["attack"] == "all":
            continue
        shares = " | ".join(f"{row[kind]:.3f}" for kind in kinds)
        right = f"{row['claims_right'] / row['claims']:.3f} | {row['mean_limit']:.3f}" if row["claims"] else "- | -"
        lines.append(
            f"| {row['sensitive']} | {row['release']} | {row['mse']:.2f} | {row['attack']} | {shares} | "
            f"{row['people_above_limit']:,} | {row['claims']:,} | {right} |"
        )
    runs = [row for row in rows if row["attack"] == "all"]
    seconds, memory = max(row["seconds"] for row in runs), max(row["MiB"] for row in runs)
    return "\n".join([*lines, "", f"Each audit took at most {seconds:.0f} s and {memory:.0f} MiB, as a process.", ""])


def chart(rows: Rows) -> Any:
    shown = [
        {**row, "kind": kind, "share": row[kind]}
        for row in rows
        if row["attack"] != "all"
        for kind in ("success", "baseline", "control")
        if row[kind] is not None
    ]
    return (
        altair.Chart(altair.InlineData(values=shown))
        .mark_bar()
        .encode(
            x=altair.X("attack:N", title=None, axis=altair.Axis(labelAngle=-30)),
            xOffset=altair.XOffset("kind:N", sort=["control", "baseline", "success"]),
            y=altair.Y("share:Q", title="right guesses"),
            color=altair.Color("kind:N", title=None, sort=["control", "baseline", "success"]),
            column=altair.Column("release:N", title=None, sort=list(RELEASES)),
            row=altair.Row("sensitive:N", title=None, sort=["Occupation", "Education"]),
        )
        .properties(width=150, height=170)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=300_000)
    given = parser.parse_args()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        numbered = Path(folder, "table.parquet")
        columns = ", ".join(COLUMNS)
        head = f"(SELECT * FROM '{given.table}' LIMIT {given.rows})"  # noqa: S608
        numbering = f"SELECT format('p{{:07d}}', row_number() OVER ()) AS id, {columns} FROM {head}"  # noqa: S608
        duckdb.execute(f"COPY ({numbering}) TO '{numbered}' (FORMAT parquet)")
        for sensitive in ("Occupation", "Education"):
            rows += audits(numbered, sensitive, Path(folder))
    RESULTS.mkdir(exist_ok=True)
    result = {"machine": machine(duckdb=duckdb.__version__), "rows": given.rows, "attacks": rows}
    (RESULTS / "attacks.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "attacks.md").write_text(summary(rows), encoding="utf-8")
    save([chart(rows)], RESULTS / "attacks")
    shutil.copyfile(RESULTS / "attacks.svg", DOCS / "images" / "bench-attacks.svg")
    print(f"wrote {RESULTS / 'attacks.json'}")


if __name__ == "__main__":
    main()
