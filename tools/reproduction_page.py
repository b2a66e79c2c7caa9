"""Bring docs/reproduction.md, its pictures, and docs/strata-figures.md up to date with a run of `python -m paper`.

    python tools/reproduction_page.py FOLDER

What is above the mark in the page is written by hand, and stays.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import textwrap
from pathlib import Path

from paper.page import body, describe_machine
from paper.releases import OPTIMAL, STRATA, TWO_SIZE
from paper.run import NAMES, RESULTS, load_result

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = "images/reproduction/"
MARK = "<!-- what follows is written by tools/reproduction_page.py -->\n"


def main(folder: Path) -> None:
    saved = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    results = [load_result(entry) for entry in saved["results"]]
    missing = set(NAMES) - {result.name for result in results}
    if missing:
        raise SystemExit(f"not run yet: {', '.join(sorted(missing))}")
    (DOCS / IMAGES).mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        for kind in ("svg", "csv"):
            shutil.copy(folder / f"{name}.{kind}", DOCS / IMAGES)
    page = DOCS / "reproduction.md"
    by_hand = page.read_text(encoding="utf-8").split(MARK)[0]
    run = f"The run: {saved['run']['title']}. {' '.join(saved['notes'])} On {describe_machine(saved['run'])}.\n\n"
    (DOCS / "strata-figures.md").write_text(strata_figures(folder), encoding="utf-8")
    page.write_text(by_hand + MARK + "\n" + _fold(run + body(results, IMAGES)), encoding="utf-8")


def strata_figures(folder: Path) -> str:
    """Strata against the paper's two sizes and against one stratum, by sensitive column and theta."""
    errors, mse, learned = (_by_release(folder / f"{name}.csv") for name in ("relative-error", "mse", "adversary"))
    heads = "sensitive | θ | MSE, none | with strata | RE, TwoSize | none | with strata | / TwoSize"
    gain = "top-1, none | baseline | top-1, with strata | baseline | gain / none's"
    lines = [f"| {heads} | {gain} |", "|---" * 13 + "|"]
    for sensitive, theta in dict.fromkeys(key[:2] for key in learned):
        two, none, strata = ((sensitive, theta, method) for method in (TWO_SIZE, OPTIMAL, STRATA))
        found = {
            name: [float(table[key][column]) for key in keys]
            for name, table, column, keys in (
                ("mse", mse, "mse", (none, strata)),
                ("error", errors, "percent", (two, none, strata)),
                ("top1", learned, "top1", (none, strata)),
                ("base", learned, "baseline", (none, strata)),
            )
        }
        gains = [top - base for top, base in zip(found["top1"], found["base"], strict=True)]
        cells = [
            *(f"{number:.2f}" for number in found["mse"]),
            *(f"{number / 100:.3f}" for number in found["error"]),
            f"{found['error'][2] / found['error'][0]:.2f}",
            *(f"{found[name][place]:.3f}" for place in (0, 1) for name in ("top1", "base")),
            f"{gains[1] / gains[0]:.2f}",
        ]
        lines.append(f"| {sensitive} | {theta} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _fold(text: str) -> str:
    """The same with paragraphs in short lines. Tables, pictures and headings stay on one line."""
    return "\n".join(
        line if line.startswith(("|", "#", "!")) else textwrap.fill(line, 118, break_long_words=False)
        for line in text.split("\n")
    )


def _by_release(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["sensitive"], row["theta"], row["method"]): row for row in csv.DictReader(file)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
