"""What publishing again costs: a fresh release of a table and one that follows on another, by turns."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from bench.people_costs import measured
from bench.publish import MEMORY
from bench.tables import SHAPES, Shape, write_table

REPEATS = 3
TURNOVER = 20  # one in so many people leaves, and as many come
STEPS = {
    "plain": "first table, by itself",
    "first": "first table, with a ledger",
    "fresh": "second table, by itself",
    "after": "second table, after the first",
}
Rows = list[dict[str, Any]]


def costs(rows: int) -> Rows:
    """Both shapes, each step several times by turns."""
    found: Rows = []
    for name in ("codes", "mixed"):
        with tempfile.TemporaryDirectory(prefix="dalenius-bench-") as folder:
            found += list(_compared(SHAPES[name], rows, Path(folder)))
    return found


def _tables(shape: Shape, rows: int, folder: Path) -> None:
    """A table of so many people, and the same with one in twenty of them gone and as many others there."""
    others = rows // TURNOVER
    write_table(shape, rows + others, folder / "all.parquet")
    conditions = {
        1: f"file_row_number < {rows}",
        2: f"file_row_number >= {rows} OR hash(file_row_number) % {TURNOVER} > 0",
    }
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(folder / "spill")}) as connection:
        for number, condition in conditions.items():
            numbered = connection.read_parquet(str(folder / "all.parquet"), file_row_number=True)
            chosen = numbered.filter(condition).project("* EXCLUDE file_row_number, 'P' || file_row_number AS id")
            chosen.write_parquet(str(folder / f"{number}.parquet"), row_group_size=2**17)
    (folder / "all.parquet").unlink()


def _compared(shape: Shape, rows: int, folder: Path) -> Iterator[dict[str, Any]]:
    _tables(shape, rows, folder)
    words = ["--sensitive", shape.sensitive, "--quasi-identifiers", ",".join(shape.quasi_identifiers), "--theta", "8"]
    words += ["--base", "0.02", "--min-size", "1", "--publish-in-the-clear", "--memory", MEMORY, "--json"]
    ledger = str(folder / "chain" / "ledger")
    chain = ["--person", "id", "--ledger", ledger]
    steps = {
        "plain": ["1.parquet", "--identifiers", "id"],
        "first": ["1.parquet", *chain],
        "fresh": ["2.parquet", "--identifiers", "id"],
        "after": ["2.parquet", *chain, "--after", str(folder / "chain" / "first")],
    }
    runs: dict[str, Rows] = {step: [] for step in steps}
    sizes = 0
    for _ in range(REPEATS):
        (folder / "chain").mkdir()
        (folder / "alone").mkdir()
        for step, (table, *options) in steps.items():
            home = "chain" if step in {"first", "after"} else "alone"
            out = ["--out", str(folder / home / step)]
            runs[step].append(measured("publish", str(folder / table), *words, *options, *out))
        sizes = Path(ledger).stat().st_size
        followed = json.loads(runs["after"][-1].pop("output"))["chain"]
        shutil.rmtree(folder / "chain")
        shutil.rmtree(folder / "alone")
    base = {"plain": "plain", "first": "plain", "fresh": "fresh", "after": "fresh"}
    for step, own in runs.items():
        beside = runs[base[step]]
        row = {"shape": shape.name, "rows": rows, "step": step, "ledger_bytes": sizes, "chain": followed}
        row |= {name: statistics.median(run[name] for run in own) for name in ("seconds", "cpu")}
        row["ratio"] = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(own, beside, strict=True))
        row["peak_mib"] = max(run["peak_mib"] for run in own)
        row["all_seconds"] = [run["seconds"] for run in own]
        print(json.dumps(row), flush=True)
        yield row


def table_of_costs(rows: Rows) -> list[str]:
    """The table of the documentation."""
    lines = ["| table | rows | published | seconds | / by itself | processor, s | peak memory | ledger |"]
    lines.append("|---" * 8 + "|")
    for row in rows:
        cells = [row["shape"], f"{row['rows']:,}", STEPS[row["step"]], f"{row['seconds']:.1f}", f"{row['ratio']:.2f}"]
        ledger = f"{row['ledger_bytes'] / 1e6:,.0f} MB" if row["step"] == "after" else ""
        cells += [f"{row['cpu']:.1f}", f"{row['peak_mib']:,.0f} MiB", ledger]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
