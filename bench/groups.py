"""make bench-groups DATA=...: limits on groups of diagnoses, and on bands of numbers.

DATA is a folder with diabetes130_101766.parquet. Its first diagnosis is published under odds 8 (at least 1/50) on codes
alone, and on codes and chapters of ICD-9: the largest share of each chapter in any bucket, before and after. Then
numbers that are made on the spot, 10 million of them with some 10,000 or a million different ones, are published in
eight bands, against the same table with the names of the bands in their place.

    python -m bench.groups DATA [--rows 10000000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dalenius
from bench.charts import save
from bench.machine import machine
from bench.publish import DOCS, RESULTS
from dalenius.policy.grouping import Grouping, resolve_groups

ODDS: dict[str, Any] = {"odds": 8, "floor": "0.02"}
CHAPTERS: dict[str, Any] = {
    **ODDS,
    "grouping": {"named": "icd9", "ungrouped": ["?"]},
    "levels": {"block": "none"},
}
QUASI_IDENTIFIERS = ["race", "gender", "age"]
CUTS = (10_000, 20_000, 30_000, 40_000, 55_000, 75_000, 110_000)
REPEATS = 7
Rows = list[dict[str, Any]]


def chapters_of(release: dalenius.Release) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The chapters, and the rows of ST by bucket and chapter, with the buckets' sizes: counted in the files."""
    st = release.st
    codes = st["diag_1"].unique().to_pylist()
    tree = resolve_groups(Grouping("icd9", ungrouped=("?",)), codes)
    top = {code: tree.path(place)[0] for place, code in enumerate(codes) if tree.path(place)}
    names = sorted({tree.groups[group].name for group in top.values()})
    place = {code: names.index(tree.groups[group].name) for code, group in top.items()}
    bucket = st["bucket"].to_numpy()
    chapter = np.array([place.get(code, len(names)) for code in st["diag_1"].to_pylist()])
    counts = np.zeros((bucket.max() + 1, len(names) + 1), np.int64)
    np.add.at(counts, (bucket, chapter), 1)
    return names, counts[1:, :-1], counts[1:].sum(axis=1)


def diagnoses(data: Path) -> dict[str, Any]:
    """Both releases, as one stratum and with strata, and how long they took."""
    source = data / "diabetes130_101766.parquet"
    found: dict[str, Any] = {"releases": [], "chapters": []}
    shares: dict[str, Any] = {}
    for name, limits in (("codes", ODDS), ("codes and chapters", CHAPTERS)):
        for strata in ("none", "auto"):
            started = time.perf_counter()
            release = dalenius.publish(
                source, limits, sensitive="diag_1", quasi_identifiers=QUASI_IDENTIFIERS, strata=strata
            )
            seconds = time.perf_counter() - started
            names, counts, sizes = chapters_of(release)
            manifest = release.manifest
            row = {"limits": name, "strata": len(manifest.strata.strata) if manifest.strata else 1}
            row |= {"loss": manifest.loss, "bound": manifest.bound, "gap": manifest.gap, "publish": seconds}
            row["nine_tenths"] = int(sizes[(10 * counts >= 9 * sizes[:, None]).any(axis=1)].sum())
            if strata == "none":
                shares[name] = (counts / sizes[:, None]).max(axis=0)
                plan = dalenius.plan(source, limits, sensitive="diag_1")
                row["solve"] = plan.solution.seconds
                stated = {group.name: group for group in plan.group_shares}
                total = counts.sum(axis=0)
            found["releases"].append(row)
            print(json.dumps(row), flush=True)
    for place, name in enumerate(names):
        limit = stated[name].limit
        found["chapters"].append(
            {
                "chapter": name,
                "share": float(total[place] / sizes.sum()),
                "limit": None if limit is None else float(limit),
                "before": float(shares["codes"][place]),
                "after": float(shares["codes and chapters"][place]),
            }
        )
    return found


def incomes(rows: int, step: int, folder: Path) -> tuple[Path, Path, int]:
    """A table with numbers, the same with the names of their bands, and how many numbers differ."""
    rng = np.random.default_rng(18)
    wide = 1.75 if step == 1 else 0.9  # a million different numbers need a long tail
    income = np.minimum(rng.lognormal(10.5, wide, rows), 40_000_000).astype(np.int64) // step * step
    columns = {
        "age": pa.array(rng.integers(18, 90, rows).astype(np.int16)),
        "sex": pa.array(np.where(rng.integers(0, 2, rows), "F", "M")),
        "region": pa.array(rng.integers(0, 50, rows).astype(np.int16)),
    }
    names = np.array([f"band {band}" for band in range(len(CUTS) + 1)])
    paths = folder / f"numbers{step}.parquet", folder / f"plain{step}.parquet"
    plain = names[np.searchsorted(CUTS, income, side="right")]
    for path, sensitive in zip(paths, (pa.array(income), pa.array(plain)), strict=True):
        pyarrow.parquet.write_table(pa.table({**columns, "income": sensitive}), path)
    return *paths, len(np.unique(income))


def published(table: Path, out: Path, *options: str) -> float:
    """The seconds of a publication, in a process of its own."""
    words = [str(Path(sys.executable).with_name("dalenius")), "publish", str(table), "--sensitive", "income"]
    words += ["--quasi-identifiers", "age,sex,region", "--odds", "4", "--out", str(out), "--force", "--json", *options]
    started = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    return time.perf_counter() - started


def numbers(rows: int) -> Rows:
    """Numbers in bands against the same table with plain values, in turn, and the time to solve."""
    found: Rows = []
    bands = "cuts:" + ",".join(map(str, CUTS))
    for step in (100, 1):
        with tempfile.TemporaryDirectory() as folder:
            table, plain, different = incomes(rows, step, Path(folder))
            plan = dalenius.plan(table, {"odds": 4, "grouping": bands}, sensitive="income")
            pairs = [
                (published(table, Path(folder, "a"), "--groups", bands), published(plain, Path(folder, "b")))
                for _ in range(REPEATS + 1)
            ][1:]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        row = {"different": different, "rows": rows, "solve": plan.solution.seconds, "numbers": ours, "plain": theirs}
        row["ratio"] = statistics.median(a / b for a, b in pairs)
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def summary(found: dict[str, Any]) -> str:
    """The tables of the documentation."""
    heads = ("limits on", "strata", "loss", "bound", "people in buckets nine tenths of one chapter", "publish, s")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in found["releases"]:
        cells = [row["limits"], row["strata"], f"{row['loss']:,}", f"{row['bound']:,}", f"{row['nine_tenths']:,}"]
        lines.append(f"| {' | '.join(map(str, cells))} | {row['publish']:.1f} |")
    solved = [row["solve"] for row in found["releases"] if "solve" in row]
    lines += ["", f"Solving took {solved[0]:.2f} and {solved[1]:.2f} seconds.", ""]
    lines += ["| chapter | of the table | limit | largest share, codes alone | codes and chapters |", "|---" * 5 + "|"]
    for row in found["chapters"]:
        limit = "none" if row["limit"] is None else f"{row['limit']:.1%}"
        lines.append(f"| {row['chapter']} | {row['share']:.1%} | {limit} | {row['before']:.1%} | {row['after']:.1%} |")
    heads = ("different numbers", "rows", "solve, s", "publish, s", "eight plain values, s", "ratio")
    lines += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in found["numbers"]:
        cells = [f"{row['different']:,}", f"{row['rows']:,}", f"{row['solve']:.3f}", f"{row['numbers']:.2f}"]
        lines.append(f"| {' | '.join(cells)} | {row['plain']:.2f} | {row['ratio']:.2f} |")
    return "\n".join([*lines, ""])


def picture(chapters: Rows) -> Any:
    """The largest share of each chapter, before and after, and its limit."""
    points = [
        {"chapter": row["chapter"], "percent": 100 * row[key], "what": what}
        for row in chapters
        for key, what in (("before", "limits on codes"), ("after", "on codes and chapters"), ("limit", "limit"))
        if row[key] is not None
    ]
    order = [row["chapter"] for row in sorted(chapters, key=lambda row: -row["share"])]
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("percent:Q", title="largest share of a bucket, %", scale=altair.Scale(domain=[0, 100])),
        y=altair.Y("chapter:N", title=None, sort=order, axis=altair.Axis(labelLimit=320)),
        color=altair.Color("what:N", title=None),
        shape=altair.Shape("what:N", title=None),
    )
    return base.mark_point(filled=True, size=70, opacity=0.9).properties(
        title="Diabetes-130: the largest share of each chapter in any bucket", width=420, height=380
    )


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    found = {**diagnoses(options.data), "numbers": numbers(options.rows), "machine": machine()}
    (RESULTS / "groups.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "groups.md").write_text(summary(found), encoding="utf-8")
    save([picture(found["chapters"])], RESULTS / "groups")
    (DOCS / "images" / "bench-groups.svg").write_bytes((RESULTS / "groups.svg").read_bytes())


if __name__ == "__main__":
    main()
