"""Bring docs/reproduction.md and its pictures up to date with a finished run of `dalenius reproduce`.

    python tools/reproduction_page.py FOLDER

What is above the mark in the page is written by hand, and stays.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from dalenius.reproduce.machine import described
from dalenius.reproduce.page import body
from dalenius.reproduce.run import NAMES, RESULTS, loaded

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = "images/reproduction/"
MARK = "<!-- what follows is written by tools/reproduction_page.py -->\n"


def main(folder: Path) -> None:
    saved = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    results = [loaded(entry) for entry in saved["results"]]
    missing = set(NAMES) - {result.name for result in results}
    if missing:
        raise SystemExit(f"not run yet: {', '.join(sorted(missing))}")
    (DOCS / IMAGES).mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        for kind in ("svg", "csv"):
            shutil.copy(folder / f"{name}.{kind}", DOCS / IMAGES)
    page = DOCS / "reproduction.md"
    by_hand = page.read_text(encoding="utf-8").split(MARK)[0]
    run = f"The run: {saved['run']['title']}. {' '.join(saved['notes'])} On {described(saved['run'])}.\n\n"
    page.write_text(by_hand + MARK + "\n" + run + body(results, IMAGES), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
