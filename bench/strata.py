"""make bench-strata TABLE=...: ways of cutting a table into strata, by what they do for counts and against learning.

The table is a Parquet file with the columns of the census stand-in; theta is 8 and the base 0.02. How often the
attacker is right is estimated from the table's margins where it is not certain, as `dalenius audit` does.

    python -m bench.strata census.parquet [--rows 300000] [--sensitive Occupation]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import altair
import pyarrow as pa
import pyarrow.parquet

import dalenius
from bench.attacks import COLUMNS
from bench.charts import save
from bench.machine import machine
from bench.publish import DOCS, RESULTS
from dalenius.query.workload import evaluate
from dalenius.release.folder import open_release
from dalenius.strata import growing
from dalenius.strata.growing import kd_tree
from dalenius.strata.tree import Tree

LIMITS = {"theta": 8, "base": "0.02"}
CLEAR: dict[str, Any] = {"min_size": 1, "publish_in_the_clear": True}  # as the paper has it
Rows = list[dict[str, Any]]


def cut_by_medians(leaves: int) -> Callable[..., Tree]:
    """In place of `grow_tree`: a tree that does not look at sensitive values."""
    return lambda codes, _values, _least, _most: kd_tree(codes, leaves)


KINDS: dict[str, dict[str, Any]] = {
    "two sizes, as in the paper": {"method": "two-size", "strata": "none"},
    "one stratum": {"strata": "none"},
    "k-d tree, 40 leaves": {"strata": "auto", "tree": cut_by_medians(40)},
    "k-d tree, 250 leaves": {"strata": "auto", "tree": cut_by_medians(250)},
    "k-d tree, 500 leaves": {"strata": "auto", "tree": cut_by_medians(500)},
    "education or occupation, and gender": {"strata": "columns"},
    "decision tree, at most 20 leaves": {"strata": 20},
    "decision tree, at most 80 leaves": {"strata": 80},
    "decision tree, auto": {"strata": "auto"},
    "decision tree, auto, margin 1": {"strata": "auto", "margin": 1.0},
    "decision tree, auto, margin 0.7": {"strata": "auto", "margin": 0.7},
}


def measured(table: pa.Table, sensitive: str, name: str) -> dict[str, Any]:
    """One release: its loss, the error of count queries, and what the learning attacker gets."""
    asked = dict(KINDS[name])
    tree = asked.pop("tree", growing.grow_tree)
    margin = Fraction(str(asked.pop("margin", growing.MARGIN)))
    others = [column for column in COLUMNS if column != sensitive]
    if asked["strata"] == "columns":
        asked["strata"] = ["Gender", "Education" if sensitive == "Occupation" else "Occupation"]
    started = time.perf_counter()
    with (
        patch("dalenius.publishing.stratify.grow_tree", tree),
        patch("dalenius.strata.growing.MARGIN", margin),
        patch("dalenius.publishing.description.MARGIN", margin),
    ):
        release = dalenius.publish(
            table, LIMITS, sensitive=sensitive, quasi_identifiers=others, seed=1, **CLEAR, **asked
        )
    seconds = time.perf_counter() - started
    error = evaluate(open_release(release.path), table, queries=5000, seed=7)
    learning = release.audit(truth=table, attacks=["learning"])["learning"]
    if learning.success is None or learning.baseline is None:
        raise SystemExit("the attack has no result")
    row = {
        "sensitive": sensitive,
        "cut": name,
        "strata": len(release.manifest.strata.strata) if release.manifest.strata is not None else 1,
        "mse": release.manifest.mse,
        "error": error.mean_relative_error,
        "top1": learning.success.share,
        "baseline": learning.baseline.share,
        "right": learning.right.share if learning.right is not None else None,
        "mean_limit": learning.mean_limit,
        "seconds": seconds,
    }
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def summary(rows: Rows) -> str:
    """The table of the documentation."""
    heads = ("sensitive", "cut", "strata", "MSE", "relative error", "top-1", "baseline", "gain")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        shares = " | ".join(f"{row[key]:.3f}" for key in ("error", "top1", "baseline"))
        lines.append(
            f"| {row['sensitive']} | {row['cut']} | {row['strata']:,} | {row['mse']:.2f} "
            f"| {shares} | {row['top1'] - row['baseline']:.3f} |"
        )
    return "\n".join(lines) + "\n"


FAMILIES = {
    "two sizes": "two sizes, as in the paper",
    "one stratum": "optimal, one stratum",
    "k-d": "k-d tree",
    "education": "named columns",
    "decision tree, a": "decision tree",
}


def picture(rows: Rows, sensitive: str) -> Any:
    """Error of counts against what the learning attacker gains, with the number of strata: down and left is better."""
    points = [
        {
            "gain": 100 * (row["top1"] - row["baseline"]),
            "percent": 100 * row["error"],
            "strata": row["strata"],
            "family": next(family for start, family in FAMILIES.items() if row["cut"].startswith(start)),
        }
        for row in rows
        if row["sensitive"] == sensitive and "margin" not in row["cut"]
    ]
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("percent:Q", title="mean relative error of count queries (%)"),
        y=altair.Y("gain:Q", title="learning attacker above the buckets alone (points)"),
    )
    order = list(FAMILIES.values())
    marks = base.mark_point(filled=True, size=90).encode(
        color=altair.Color("family:N", title=None, sort=order), shape=altair.Shape("family:N", sort=order, legend=None)
    )
    numbers = base.mark_text(align="left", dx=8, dy=-4, fontSize=10).encode(text="strata:Q")
    return (marks + numbers).properties(width=330, height=300, title=f"{sensitive}, with the number of strata")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("table", type=Path)
    options.add_argument("--rows", type=int, default=300_000)
    options.add_argument("--sensitive", action="append", choices=["Occupation", "Education"])
    options.add_argument("--only", action="append", choices=list(KINDS), help="these ways of cutting")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    if not asked.show:
        table = pyarrow.parquet.read_table(asked.table, columns=list(COLUMNS)).slice(0, asked.rows)
        chosen = asked.only or list(KINDS)
        rows = [
            measured(table, sensitive, name)
            for sensitive in asked.sensitive or ["Occupation", "Education"]
            for name in chosen
        ]
        results = {"machine": machine(), "rows": rows, "records": len(table)}
        (asked.out / "strata.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rows = json.loads((asked.out / "strata.json").read_text(encoding="utf-8"))["rows"]
    (asked.out / "strata.md").write_text(summary(rows), encoding="utf-8")
    save([picture(rows, name) for name in dict.fromkeys(row["sensitive"] for row in rows)], asked.out / "strata")
    if asked.out == RESULTS:
        (DOCS / "images" / "bench-strata.svg").write_bytes((asked.out / "strata.svg").read_bytes())
    print(summary(rows))


if __name__ == "__main__":
    main()
