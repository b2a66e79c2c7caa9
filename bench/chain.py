"""make bench-chain DATA=...: twenty releases of the same people, published anew each time and as a chain.

DATA is a folder with adult_48842.parquet and census_like_500k.parquet. From one release to the next, 5 % of the people
leave for good, as many come in from people who were set aside, and everybody is a year older. In further runs 1 % have
another value than before, or few people come and go.

The attacker knows in which row of every release a person is, and puts the buckets of all releases so far together, as
`dalenius audit` does with several releases. What audit finds of people whom it links by itself is compared.

    python -m bench.chain DATA [--releases 20] [--only "Adult"] [--show]
    python -m bench.chain DATA --costs [--rows 10000000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import altair

from bench.chain_attack import Both
from bench.chain_costs import costs, table_of_costs
from bench.chain_people import SETTINGS, Setting
from bench.charts import save
from bench.machine import machine
from bench.publish import DOCS, RESULTS

SHOWN = (1, 2, 3, 5, 10, 15, 20)  # releases in the table
METHODS = {"anew": "published anew", "chain": "as a chain"}
Rows = list[dict[str, Any]]


def simulated(setting: Setting, data: Path, releases: int) -> Rows:
    """All releases of both kinds, and what the attacker has after each."""
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="dalenius-bench-") as folder:
        both = Both(setting, Path(folder), compared=3 if setting.name == "Adult" else 0)
        for number, world in enumerate(setting.worlds(data, releases), 1):
            for row in both.publish(number, world):
                rows.append({"setting": setting.name, "release": number, **row})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def summary(found: dict[str, Any]) -> str:
    """The tables of the documentation."""
    lines: list[str] = []
    rows = found.get("rows", [])
    for name in dict.fromkeys(row["setting"] for row in rows):
        own = [row for row in rows if row["setting"] == name]
        lines += [f"**{name}**", ""]
        if any(row["method"] in METHODS for row in own):
            lines += [*_table(own), ""]
        lines += _too_few([row for row in own if row["method"] not in METHODS])
    if checks := [row["audit"] for row in rows if "audit" in row]:
        lines += ["| releases | linked by audit | above a limit, audit | here | one value, audit | here |"]
        lines += ["|---" * 6 + "|"]
        for one in checks:
            cells = [f"{one['releases']}, {one['method']}", *(f"{number:,}" for number in one["figures"])]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _table(rows: Rows) -> list[str]:
    heads = ["releases", "", "people", "above a limit", "claims right", "allowed", "one value left", "of these right"]
    heads += ["moved", "of these above", "beside them", "of these above", "surplus", "MSE", "error of counts"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        if row["release"] not in SHOWN or row["method"] not in METHODS:
            continue
        cells = [str(row["release"]), METHODS[row["method"]], f"{row['people']:,}", f"{row['above']:,}"]
        cells += [_share(row["claims_right"], row["claims"]), _share(row["limits"], row["claims"])]
        cells += [f"{row['pinned']:,}", _share(row["pinned_right"], row["pinned"])]
        movers = [f"{row[key]:,}" for key in ("moved", "moved_above", "beside", "beside_above")]
        cells += movers if row["method"] == "chain" else ["-"] * len(movers)
        cells += [f"{row['surplus']:.1%}", f"{row['mse']:.1f}", f"{row['error']:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _too_few(rows: Rows) -> list[str]:
    """What became of new people who were too few, in each way to go on."""
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method and row["release"] > 1]
        short = [row for row in own if row["too_few"]]
        held, made = max(row["held_back"] for row in own), [row["counterfeits"] for row in short]
        lines.append(
            f"{method}: new people were too few in {len(short)} of {len(own)} releases; at most {held:,} waited; "
            f"{sum(made):,} counterfeits; {sum(row['above'] for row in own)} above a limit; at the end surplus "
            f"{own[-1]['surplus']:.1%}, MSE {own[-1]['mse']:.1f}, error of counts {own[-1]['error']:.1%}"
        )
        lines.append("")
    return lines


def _share(part: float, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def attack_picture(rows: Rows) -> Any:
    """Of the people, how many are above a limit or left with one value, by release."""
    kinds = {"above": "above a limit", "pinned": "one value left"}
    points = [
        {
            "release": row["release"],
            "percent": 100 * row[key] / max(1, row["people"]),
            "who": f"{row['setting']}, {METHODS[row['method']]}",
            "what": what,
        }
        for row in rows
        if row["method"] in METHODS and row["setting"] in {"Adult", "ACS"}
        for key, what in kinds.items()
    ]
    return _lines(points, "people (%)", "Whoever puts all releases together")


def quality_picture(rows: Rows) -> Any:
    """The surplus of the chain, and the error of counts of both."""
    points = [
        {
            "release": row["release"],
            "percent": 100 * row[key],
            "who": f"{row['setting']}, {METHODS[row['method']]}",
            "what": what,
        }
        for row in rows
        if row["method"] in METHODS and row["setting"] in {"Adult", "ACS"}
        for key, what in {"error": "error of counts", "surplus": "surplus"}.items()
        if key == "error" or row["method"] == "chain"
    ]
    return _lines(points, "percent", "What it costs")


_STROKES = altair.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=2, symbolStrokeColor="gray")


def _lines(points: Rows, title: str, name: str) -> Any:
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("release:Q", title="release", axis=altair.Axis(tickMinStep=1)),
        y=altair.Y("percent:Q", title=title),
        color=altair.Color("who:N", title=None, sort=None, legend=altair.Legend(labelLimit=260)),
        strokeDash=altair.StrokeDash("what:N", title=None, sort=None, legend=_STROKES),
    )
    return base.mark_line(strokeWidth=2).properties(title=name, width=330, height=280)


def main() -> None:
    """Run everything, or what is asked for; results of the rest stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--only", action="append", choices=[one.name for one in SETTINGS], help="these simulations")
    parser.add_argument("--costs", action="store_true", help="only what publishing takes")
    parser.add_argument("--no-costs", action="store_true", help="leave out what publishing takes")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the tables that publishing is measured on")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = parser.parse_args()
    results = asked.out / "chain.json"
    found: dict[str, Any] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    if not asked.show:
        chosen = [one for one in SETTINGS if asked.only is None or one.name in asked.only]
        if not asked.costs:
            names = {one.name for one in chosen}
            kept = [row for row in found.get("rows", []) if row["setting"] not in names]
            rows = kept + [row for one in chosen for row in simulated(one, asked.data, asked.releases)]
            order = [one.name for one in SETTINGS]
            found["rows"] = sorted(rows, key=lambda row: order.index(row["setting"]))
        if not asked.no_costs:
            found["costs"] = costs(asked.rows)
        found["machine"] = machine()
        results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (asked.out / "chain.md").write_text(summary(found), encoding="utf-8")
    if found.get("costs"):
        (asked.out / "chain-costs.md").write_text("\n".join([*table_of_costs(found["costs"]), ""]), encoding="utf-8")
    save([attack_picture(found["rows"]), quality_picture(found["rows"])], asked.out / "chain")
    if asked.out == RESULTS:
        (DOCS / "images" / "bench-chain.svg").write_bytes((asked.out / "chain.svg").read_bytes())
    print(summary(found))


if __name__ == "__main__":
    main()
