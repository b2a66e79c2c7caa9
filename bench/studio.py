"""make bench-studio: from moving a limit or a slider to the redrawn result, in a real browser.

A made-up table with 50 and with 1,000 sensitive values is opened in Studio, and Chromium moves limits and sliders as a
hand would, an event every 16 ms. The page measures each change itself (User Timing), from the event to after the frame
that shows its answer. Events that come while an answer is under way are answered together with the newest of them:
`answered` are changes that were sent, `all` are all of them, the waiting included. `floor` is the same round trip for a
request that solves nothing.

    python -m bench.studio [--moves 60] [--rule theta]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from playwright.sync_api import Page, expect, sync_playwright

from bench.charts import save
from bench.machine import machine
from bench.publish import DOCS, RESULTS
from tests.browser.studio_process import studio

TARGETS = {50: 100, 1000: 300}  # milliseconds, at the 95th percentile
SHAPES: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "zipf": lambda m, _chance: 1 / np.arange(1, m + 1) ** 1.1,
    "lognormal": lambda m, chance: chance.lognormal(0, 1.5, m),
}
NUMBERS = {"odds": ("odds", "floor"), "theta": ("theta", "base")}  # of a rule
ROWS = 300_000
Rows = list[dict[str, Any]]


def table(values: int, shape: str, path: Path) -> None:
    chance = np.random.default_rng(1977)
    weights = SHAPES[shape](values, chance)
    drawn = chance.choice(values, ROWS - values, p=weights / weights.sum())
    codes = np.concatenate([np.arange(values), drawn])
    names = np.array([f"Disease {code:04d}" for code in range(values)])
    pyarrow.parquet.write_table(
        pa.table({"Age": chance.integers(0, 90, ROWS), "Gender": chance.integers(0, 2, ROWS), "Disease": names[codes]}),
        path,
    )


def hook(page: Page, name: str) -> Any:
    return page.locator(f'[data-test="{name}"]')


def settle(page: Page, timeout: int = 120_000) -> None:
    expect(hook(page, "exact")).to_have_attribute("data-exact", "true", timeout=timeout)


def measured(page: Page) -> tuple[list[float], list[float]]:
    """The changes that were sent and all changes, in milliseconds, since the last time."""
    found: Any = page.evaluate(
        """() => {
            const all = performance.getEntriesByType("measure").map((entry) => [entry.name, entry.duration]);
            performance.clearMeasures();
            return all;
        }"""
    )
    sent = [duration for name, duration in found if name == "change-to-redraw"]
    return sent, [duration for name, duration in found if name in ("change-to-redraw", "overtaken-to-redraw")]


def drag_limits(page: Page, moves: int) -> None:
    """Several values, each dragged down and up again."""
    handles = hook(page, "limit-handle")
    for place in range(1, 6):
        handles.nth(place).scroll_into_view_if_needed()
        box = handles.nth(place).bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(moves):
            page.mouse.move(x - 40 * np.sin(2 * np.pi * step / moves) - 1, y)
            page.wait_for_timeout(16)
        page.mouse.up()
        page.wait_for_timeout(400)


def move_slider(page: Page, name: str, moves: int) -> None:
    hook(page, f"{name}-slider").scroll_into_view_if_needed()
    box = hook(page, f"{name}-slider").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    for step in range(moves):
        page.mouse.move(box["x"] + box["width"] * (0.5 + 0.3 * np.sin(2 * np.pi * step / moves)), y)
        page.wait_for_timeout(16)
    page.mouse.up()
    page.wait_for_timeout(400)


def floor(page: Page) -> list[float]:
    """The round trip of a request that needs no solver."""
    found: Any = page.evaluate(
        """async () => {
            const all = [];
            for (let i = 0; i < 40; i += 1) {
                const start = performance.now();
                await (await fetch("/api/state")).json();
                all.push(performance.now() - start);
            }
            return all;
        }"""
    )
    return list(found)


def row(values: int, shape: str, what: str, sent: list[float], every: list[float], base: float) -> dict[str, Any]:
    def at(share: float, durations: list[float]) -> float:
        return round(float(np.quantile(durations, share)), 1)

    return {
        "values": values,
        "shape": shape,
        "moved": what,
        "changes": len(every),
        "answered": len(sent),
        "median_ms": at(0.5, sent),
        "p95_ms": at(0.95, sent),
        "largest_ms": at(1, sent),
        "all_median_ms": at(0.5, every),
        "all_p95_ms": at(0.95, every),
        "floor_ms": round(base, 1),
        "target_ms": TARGETS[values],
        "durations": [round(duration, 1) for duration in sent],
    }


def visit(page: Page, values: int, shape: str, url: str, moves: int, rule: str) -> Rows:
    page.goto(url)
    hook(page, "use-suggested").click()
    hook(page, "continue").click()
    page.locator("#limits").wait_for()
    settle(page)
    if rule != "odds":
        hook(page, f"rule-{rule}").check(force=True)
        page.wait_for_timeout(500)
        settle(page)
    base = float(np.median(floor(page)))
    rows = []
    ways: dict[str, Callable[[], None]] = {
        "single limits": lambda: drag_limits(page, moves),
        **{name: partial(move_slider, page, name, moves) for name in NUMBERS[rule]},
    }
    for name, move in ways.items():
        page.wait_for_timeout(500)
        measured(page)
        move()
        page.wait_for_timeout(1000)
        rows.append(row(values, shape, name, *measured(page), base))
        print(json.dumps({key: value for key, value in rows[-1].items() if key != "durations"}), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=60, help="Events of each movement.")
    parser.add_argument("--rule", choices=NUMBERS, default="odds", help="The rule whose numbers are moved.")
    given = parser.parse_args()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for values in TARGETS:
            for shape in SHAPES:
                path = Path(folder) / f"{shape}-{values}.parquet"
                table(values, shape, path)
                with studio(str(path)) as url:
                    page = browser.new_page(viewport={"width": 1280, "height": 900})
                    rows += visit(page, values, shape, url, given.moves, given.rule)
                    page.close()
        version = browser.version
        browser.close()
    write(rows, machine(chromium=version))


def write(rows: Rows, on: dict[str, Any]) -> None:
    """The result file, the table of the documentation, and the plot."""
    (RESULTS / "studio.json").write_text(json.dumps({"machine": on, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    heads = {
        "values": "values",
        "shape": "shape",
        "moved": "moved",
        "answered": "answered",
        "changes": "of changes",
        "median_ms": "median ms",
        "p95_ms": "95 % ms",
        "largest_ms": "largest ms",
        "all_p95_ms": "95 % of all, ms",
        "target_ms": "target ms",
        "floor_ms": "floor ms",
    }
    lines = ["| " + " | ".join(heads.values()) + " |", "|" + "---|" * len(heads)]
    lines += [
        "| " + " | ".join(f"{one[key]:,}" if key == "values" else str(one[key]) for key in heads) + " |" for one in rows
    ]
    (RESULTS / "studio.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    points = [
        {"values": f"{one['values']:,} values", "moved": one["moved"], "ms": duration, "target": one["target_ms"]}
        for one in rows
        for duration in one["durations"]
    ]
    charts = []
    for values, target in TARGETS.items():
        title = f"{values:,} values"
        chart = altair.Chart(altair.InlineData(values=[point for point in points if point["values"] == title]))
        ticks = chart.mark_tick(opacity=0.4, thickness=1.5).encode(
            x=altair.X("ms:Q", title="milliseconds from the change to the redrawn result"),
            y=altair.Y("moved:N", title=None),
        )
        limit = chart.mark_rule(color="#8e2a6b", strokeDash=[4, 3]).encode(x=altair.datum(target))
        charts.append(
            (ticks + limit).properties(title=f"{title}; dashed: the target of {target} ms", width=380, height=110)
        )
    save(charts, RESULTS / "studio")
    (DOCS / "images" / "bench-studio.svg").write_bytes((RESULTS / "studio.svg").read_bytes())


if __name__ == "__main__":
    main()
