"""make bench-analysis DATA=...: what analysts get out of a release: models, intervals, cross-tabs; and what it takes.

DATA is a folder with acs2018_income_46states.parquet, census_like_500k.parquet (of which the first 300,000 rows are
used), adult_48842.parquet and diabetes130_101766.parquet. Measured are models of who earns more than 50,000
(`analysis_models`), how often 95 % intervals hold known truths of made-up tables (`analysis_made_up`) and of real ones
(`analysis_tables`), an analysis that fails where tables are joined (`analysis_example`), and time and memory
(`analysis_costs`, which wants a quiet machine).

    python -m bench.analysis DATA [--only models made-up tables example costs] [--releases 200] [--quantities 1000]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import altair

from bench import analysis_costs, analysis_example, analysis_made_up, analysis_models, analysis_tables
from bench.charts import save
from bench.coverage import CASES
from bench.machine import machine
from bench.publish import DOCS, RESULTS

PARTS = ("models", "made-up", "tables", "example", "costs")
Rows = list[dict[str, Any]]


def measured(part: str, asked: argparse.Namespace) -> Rows:
    if part == "models":
        return analysis_models.measured(asked.data, whole=not asked.some)
    if part == "made-up":
        return [row for one in analysis_made_up.DESIGNS for row in analysis_made_up.measured(one, asked.releases)]
    if part == "tables":
        found = []
        for case in CASES:
            found.append(analysis_tables.measured(case, asked.data, asked.quantities))
            print(json.dumps(found[-1]), flush=True)
        return found
    return analysis_example.measured(asked.data) if part == "example" else analysis_costs.measured(asked.data)


def table(heads: tuple[str, ...], lines: list[tuple[Any, ...]]) -> str:
    rows = [heads, ("---",) * len(heads), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows) + "\n"


def summary(found: dict[str, Rows]) -> str:
    """The tables of the documentation."""
    texts: list[str] = []
    heads: tuple[str, ...]
    lines: list[tuple[Any, ...]]
    if rows := found.get("models"):
        lines = [
            (r["from"], r["limits"], r["features"], f"{r['people']:,}", f"{r['accuracy']:.2%}", f"{r['auc']:.4f}")
            for r in rows
        ]
        texts.append(table(("model from", "limits", "features", "people", "accuracy", "area under the curve"), lines))
    if rows := found.get("made-up"):
        lines = [
            (r["design"], f"{r['people']:,}", r["odds"], r["releases"], r["kind"], f"{r['quantities']:,}",
             f"{r['holds']:.1%}", f"{r['ratio']:.2f}")
            for r in rows
        ]  # fmt: skip
        heads = ("design", "people", "odds", "releases", "quantity", "intervals", "hold", "error / standard error")
        texts.append(table(heads, lines))
    if rows := found.get("tables"):
        heads = ("table", "strata", "all", "cells", "shares", "coefficients", "at random", "count", "draws")
        kinds, ways = ("all", *analysis_tables.KINDS), ("at random", "count", "draws")
        lines = [
            (
                r["case"],
                r["strata"],
                *(f"{r['coverage'][kind]['holds']:.1%}" for kind in kinds),
                *(f"{r['errors of counts'].get(way, float('nan')):.3f}" for way in ways),
            )
            for r in rows
        ]
        texts.append(table(heads, lines))
    if rows := found.get("example"):
        lines = [(r["asked"], *(_with_error(r, name) for name in ("truth", "join", "release"))) for r in rows]
        texts.append(table(("asked", "truth", "naive join", "release"), lines))
    if rows := found.get("costs"):
        lines = [
            (r["what"], f"{r['rows']:,}", f"{r['seconds']:.1f}", f"{r['processor']:.1f}", f"{r['mib']:,.0f}")
            for r in rows
        ]
        texts.append(table(("what", "rows", "seconds", "processor seconds", "MiB"), lines))
    return "\n".join(texts)


def _with_error(row: dict[str, Any], name: str) -> str:
    error = f"{name} error"
    if error in row:
        return f"{row[name]:.3f} ± {row[error]:.3f}"
    if name == "release" and "lowest" in row:
        return f"{row[name]:,.0f} ({row['lowest']:,.0f} to {row['highest']:,.0f})"
    return f"{row[name]:,.0f}"


def picture(points: Rows, title: str) -> Any:
    """How often intervals hold."""
    base = altair.Chart(altair.InlineData(values=points))
    across: dict[str, Any] = {"title": "intervals that hold the truth (%)", "scale": altair.Scale(domain=[50, 100])}
    marks = base.mark_point(filled=True, size=80).encode(
        x=altair.X("percent:Q", **across),
        y=altair.Y("of:N", title=None, sort=None, axis=altair.Axis(labelLimit=260)),
        color=altair.Color("quantity:N", title=None),
        shape=altair.Shape("quantity:N", title=None),
    )
    nominal = (
        altair.Chart(altair.InlineData(values=[{"x": 95}]))
        .mark_rule(strokeDash=[4, 3])
        .encode(x=altair.X("x:Q", **across))
    )
    return (nominal + marks).properties(width=300, height=220, title=title)


def pictures(found: dict[str, Rows]) -> list[Any]:
    made_up = [
        {"of": r["design"], "quantity": r["kind"], "percent": 100 * r["holds"]} for r in found.get("made-up", [])
    ]
    real = [
        {"of": r["case"], "quantity": kind, "percent": 100 * r["coverage"][kind]["holds"]}
        for r in found.get("tables", [])
        for kind in analysis_tables.KINDS
    ]
    both = (("tables made up with known truth", made_up), ("real tables", real))
    return [picture(points, title) for title, points in both if points]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--releases", type=int, default=200, help="of each made-up design")
    options.add_argument("--quantities", type=int, default=1000, help="of each real table")
    options.add_argument("--some", action="store_true", help="models from 200,000 people, and not four fifths of all")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    path = asked.out / "analysis.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for part in () if asked.show else asked.only:
        found = {**found, "machine": machine(), part: measured(part, asked)}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (asked.out / "analysis.md").write_text(summary(found), encoding="utf-8")
    if charts := pictures(found):
        save(charts, asked.out / "analysis")
        if asked.out == RESULTS:
            (DOCS / "images" / "bench-analysis.svg").write_bytes((asked.out / "analysis.svg").read_bytes())
    print(summary(found))


if __name__ == "__main__":
    main()
