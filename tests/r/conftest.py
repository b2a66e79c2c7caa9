"""The scripts in R of `docs/analysing`, run on folders of completed tables."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "docs" / "analysing"
PEOPLE, BUCKET, DRAWS = 400, 5, 10
README = "Every draw is a possible truth, and not the data.\n"
_SECONDS = 120  # until a script has to have ended: the machine may be busy
_HAS_PACKAGES = 'for (name in c("mice", "mitools")) find.package(name)'

Columns = dict[str, list[int] | list[str]]


@dataclass(frozen=True)
class Pooled:
    """A coefficient of a model that was pooled over draws."""

    estimate: float
    error: float
    df: float


def run_r(*words: str) -> subprocess.CompletedProcess[str]:
    """Rscript with these arguments; text is UTF-8, wherever it runs."""
    settings = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["Rscript", *words], capture_output=True, text=True, encoding="utf-8", env=settings, timeout=_SECONDS
    )


RunScript = Callable[[str, Path], "subprocess.CompletedProcess[str]"]
PoolInR = Callable[[str, Path], dict[str, Pooled]]


@pytest.fixture(scope="package")
def run_script() -> RunScript:
    """Runs a script of `docs/analysing` on a folder."""
    if shutil.which("Rscript") is None or run_r("-e", _HAS_PACKAGES).returncode:
        pytest.skip("there is no R with mice and mitools: tools/get-r.sh installs it")
    return lambda script, folder: run_r(str(SCRIPTS / script), str(folder))


@pytest.fixture(scope="package")
def pool_in_r(run_script: RunScript) -> PoolInR:
    """What a script of `docs/analysing` finds in a folder of completed tables: its last lines, which are CSV."""

    def pool(script: str, folder: Path) -> dict[str, Pooled]:
        done = run_script(script, folder)
        assert done.returncode == 0, done.stderr
        _, header, lines = done.stdout.rpartition('"term","estimate","std.error","df"\n')
        rows = csv.DictReader((header + lines).splitlines())
        return {row["term"]: Pooled(float(row["estimate"]), float(row["std.error"]), float(row["df"])) for row in rows}

    return pool


@pytest.fixture(scope="package")
def people() -> Columns:
    """The columns of a table in which cancer goes with age and smoking."""
    rng = np.random.default_rng(20)
    age, smoker = rng.integers(20, 90, PEOPLE), rng.random(PEOPLE) < 0.5
    ill = rng.random(PEOPLE) < 1 / (1 + np.exp(4 - 0.05 * age - 0.8 * smoker))
    return {
        "age": [int(years) for years in age],
        "smoker": ["yes" if one else "no" for one in smoker],
        "disease": ["cancer" if one else "flu" for one in ill],
    }


@pytest.fixture(scope="package")
def completed(people: Columns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of completed tables, as `dalenius complete --format csv` writes it: values are drawn within buckets."""
    folder = tmp_path_factory.mktemp("completed")
    (folder / "README.txt").write_text(README, encoding="utf-8")
    rng = np.random.default_rng(21)
    buckets = np.argsort(people["age"], kind="stable").reshape(-1, BUCKET)
    for draw in range(1, DRAWS + 1):
        disease = np.array(people["disease"])
        disease[buckets] = rng.permuted(disease[buckets], axis=1)
        write_draw(folder, draw, {**people, "disease": disease.tolist()})
    return folder


def write_draw(folder: Path, draw: int, columns: Columns) -> None:
    """One completed table, with the number of the draw in its last column."""
    with (folder / f"draw-{draw:02d}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "drawn_not_data"])
        writer.writerows([*row, draw] for row in zip(*columns.values(), strict=True))
