"""The tables and the plot of `bench.spark`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import altair

from bench.charts import line_chart, save
from bench.publish import DOCS, RESULTS

Rows = list[dict[str, Any]]
_STAGES = ("Counting", "Looking", "Solving", "Counting strata", "Solving strata", "Placing", "Writing", "Verifying")
_READING = ("Counting", "Counting strata", "Placing")


def show(results: dict[str, Any], out: Path) -> None:
    """Write the tables and the plot of results."""
    rows: Rows = results["rows"]
    (out / "spark.md").write_text(_ratios(rows) + "\n" + _seconds(rows), encoding="utf-8")
    (out / "spark-costs.md").write_text(_bytes(rows) + "\n" + _exchanges(rows) + "\n" + _cpu(rows), encoding="utf-8")
    codes = [row for row in rows if row["shape"] == "codes"]
    save([line_chart(codes, "records", "Publishing on Spark against its floor"), _stage_chart(codes)], out / "spark")
    if out == RESULTS:
        shutil.copy(out / "spark.svg", DOCS / "images" / "bench-spark.svg")
    for name in ("spark.md", "spark-costs.md"):
        print((out / name).read_text(encoding="utf-8"))
    print(f"Wrote {out}/spark.json, spark.md, spark-costs.md, .svg and .png")


def _table(heads: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines]) + "\n"


def _ours(rows: Rows) -> Rows:
    return [row for row in rows if row["method"] != "floor"]


def _named(row: dict[str, Any]) -> list[str]:
    return [row["shape"], f"{row['records']:,}", row["method"]]


def _ratios(rows: Rows) -> str:
    """Seconds of all runs, and the ratio of the medians."""
    lines = []
    for row in rows:
        floor = next(
            r for r in rows if (r["shape"], r["records"], r["method"]) == (row["shape"], row["records"], "floor")
        )
        runs = ", ".join(f"{seconds:.1f}" for seconds in row["all_seconds"])
        ratio = "" if row is floor else f"{row['seconds'] / floor['seconds']:.2f}"
        strata = str(row["release"].get("strata", ""))
        cpu = sum(sum(stages.values()) for stages in row["stage_cpu"].values())
        lines.append([*_named(row), strata, f"{row['seconds']:.1f} s", runs, ratio, f"{cpu:.1f} s"])
    return _table(["table", "rows", "method", "strata", "median", "all runs (s)", "/ floor", "processor time"], lines)


def _seconds(rows: Rows) -> str:
    """Seconds by stage of publishing."""
    lines = [[*_named(row), *(_number(row["stage_seconds"].get(name)) for name in _STAGES)] for row in _ours(rows)]
    return _table(["seconds", "rows", "method", *(name.lower() for name in _STAGES)], lines)


def _bytes(rows: Rows) -> str:
    """Bytes for each row of the table, and peaks of memory."""
    lines = []
    for row in _ours(rows):
        n, stages, made = row["records"], row["spark_stages"], row["release"]
        read = {part: sum(s["input_bytes"] for s in stages if s["part"] == part) for part in _READING}
        lines.append(
            [
                *_named(row),
                f"{row['source_bytes'] / n:.1f}",
                *(f"{read[part] / n:.1f}" for part in _READING),
                f"{_written(row) / n:.1f}",
                f"{row['kept_bytes'] / n:.1f}",
                f"{made['qit_bytes'] / n:.1f} + {made['st_bytes'] / n:.1f}",
                f"{made['parts']}",
                *(f"{row['peak_mib'][who]:,.0f}" for who in ("worker", "java", "driver")),
            ]
        )
    heads = ["bytes a row", "rows", "method", "in the source", *(f"read: {part.lower()}" for part in _READING)]
    heads += ["shuffled", "kept", "written (QIT + ST)", "files of QIT", "worker MiB", "Java MiB", "driver MiB"]
    return _table(heads, lines)


def _exchanges(rows: Rows) -> str:
    """Every stage of Spark's in the largest of the tables of codes, one line each."""
    largest = max(
        (row for row in _ours(rows) if row["shape"] == "codes"), key=lambda row: (row["records"], row["method"])
    )
    lines = [
        [
            stage["part"].lower(),
            f"{stage['tasks']:,}",
            *(f"{stage[name]:,}" for name in ("input_bytes", "shuffle_read", "shuffle_written", "output_bytes")),
        ]
        for stage in largest["spark_stages"]
    ]
    name = f"{largest['records']:,} rows, {largest['method']}"
    return f"{name}, stage by stage:\n\n" + _table(
        ["stage of Spark", "tasks", "bytes in", "shuffle read", "shuffle written", "bytes out"], lines
    )


def _cpu(rows: Rows) -> str:
    """Processor seconds for a million rows, by stage: of Java, of Python workers, and of the driver."""
    lines = []
    for row in _ours(rows):
        cpu, millions = row["stage_cpu"], row["records"] / 10**6
        cells = []
        for name in _STAGES:
            parts = [cpu[who].get(name) for who in ("java", "workers", "driver")]
            cells.append("" if parts[0] is None else " + ".join(f"{part / millions:.2f}" for part in parts))
        lines.append([*_named(row), *cells])
    return _table(["cpu s / 10<sup>6</sup> rows", "rows", "method", *(name.lower() for name in _STAGES)], lines)


def _written(row: dict[str, Any]) -> int:
    return sum(stage["shuffle_written"] for stage in row["spark_stages"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _stage_chart(rows: Rows) -> Any:
    """Microseconds for each row, stage by stage, as bars."""
    bars = [
        {
            "run": f"{row['records']:,}, {row['method']}",
            "stage": name.lower(),
            "order": place,
            "microseconds": 10**6 * row["stage_seconds"][name] / row["records"],
        }
        for row in _ours(rows)
        for place, name in enumerate(_STAGES)
        if name in row["stage_seconds"]
    ]
    names = [name.lower() for name in _STAGES]
    return (
        altair.Chart(altair.InlineData(values=bars))
        .mark_bar()
        .encode(
            x=altair.X("microseconds:Q", title="microseconds a row"),
            y=altair.Y("run:N", title=None, sort=None),
            color=altair.Color("stage:N", title=None, sort=names),
            order=altair.Order("order:Q"),
        )
        .properties(title="Where the time goes", width=330, height=240)
    )
