"""make bench-figures: how far off means and quantiles are, and how often their intervals hold the truth.

The table is made up: income rises with age, education and sex. It is published with odds 4 in eight bands of about as
many people, without strata and with those that `publish` chooses. Random conditions on these columns are asked of both.

    python -m bench.figures [--rows 300000] [--queries 100]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dalenius
from bench.publish import RESULTS
from dalenius.model.estimate import Asked, Figure, RandomFigure
from dalenius.query.count import Counter
from dalenius.query.figures import figures
from dalenius.release.folder import open_release

LEVELS = {"median": 0.5, "quantile 0.9": 0.9}
ASKED = Asked(mean=True, quantiles=tuple(LEVELS.values()))
TRUTH = ["avg(income)", *(f"quantile_disc(income, {level})" for level in LEVELS.values())]
Row = tuple[
    float, bool, bool, float
]  # relative error, whether interval and bounds hold, relative width of the interval


def made_up(rows: int) -> pa.Table:
    """People whose incomes go with the other columns."""
    random = np.random.default_rng(0)
    age, men = random.integers(18, 80, rows), random.choice(["F", "M"], rows)
    education, region = random.integers(0, 8, rows), random.integers(0, 12, rows)
    logarithm = 9.6 + 0.012 * age + 0.12 * education + 0.15 * (men == "M") + random.normal(0, 0.5, rows)
    income = np.exp(logarithm).astype(np.int64)
    return pa.table({"age": age, "sex": men, "education": education, "region": region, "income": income})


def conditions(number: int) -> list[str]:
    """Random conditions on one to three columns."""
    random = np.random.default_rng(5)
    found = []
    for _ in range(number):
        first = int(random.integers(18, 70))
        parts = [f"age BETWEEN {first} AND {first + int(random.integers(3, 25))}"]
        if random.random() < 0.5:
            comparison = ">=" if random.random() < 0.5 else "<="
            parts.append(f"education {comparison} {random.integers(1, 7)}")
        if random.random() < 0.4:
            parts.append(f"sex = '{random.choice(['F', 'M'])}'")
        found.append(" AND ".join(parts))
    return found


def measured(table: pa.Table, strata: str, queries: list[str]) -> tuple[str, dict[tuple[str, str], list[Row]]]:
    """The name of the strata, and what was found by figure and kind of estimate."""
    connection = duckdb.connect()
    connection.register("people", table)
    rows: dict[tuple[str, str], list[Row]] = {}
    with TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        names = [name for name in table.schema.names if name != "income"]
        limits = {"odds": 4, "grouping": "quantiles:8"}
        dalenius.publish(table, limits, sensitive="income", quasi_identifiers=names, strata=strata, seed=1, out=out)
        release = open_release(out)
        with Counter(release) as counter:
            for query in queries:
                sql = f"SELECT {', '.join(TRUTH)} FROM people WHERE {query}"  # noqa: S608
                (truths,) = connection.execute(sql).fetchall()
                (found,) = figures(counter, query, ASKED, learn=True)
                for name, figure, truth in zip(
                    ("mean", *LEVELS), (found.mean, *found.quantiles.values()), truths, strict=True
                ):
                    assert figure is not None  # noqa: S101
                    for kind, estimate in (("at random", figure.at_random or figure), ("learned", figure)):
                        rows.setdefault((name, kind), []).append(row(estimate, figure, truth))
        parts = release.manifest.strata
        return ("1" if parts is None else f"{len(parts.strata)} (automatic)"), rows


def row(estimate: Figure | RandomFigure, figure: Figure, truth: float) -> Row:
    """How good one answer is."""
    low, high = map(float, estimate.interval)
    least, most = map(float, figure.bounds)
    error = abs(float(estimate.estimate) - truth) / truth
    return error, low <= truth <= high, least <= truth <= most, (high - low) / truth


def main() -> None:
    """Measure, and write the table of the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--queries", type=int, default=100)
    asked = parser.parse_args()
    table, queries = made_up(asked.rows), conditions(asked.queries)
    lines = [
        "| strata | figure | estimate | relative error: mean | median | 95 % interval holds | mean width | bounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for strata in ("none", "auto"):
        name, found = measured(table, strata, queries)
        for (figure, kind), rows in found.items():
            figures_of: Any = np.array(rows, dtype=np.float64)
            error, held, bounds, width = figures_of.mean(axis=0)
            median = float(np.median(figures_of[:, 0]))
            shown = f"{error:.3f} | {median:.3f} | {100 * held:.0f} % | {width:.3f} | {100 * bounds:.0f} %"
            lines.append(f"| {name} | {figure} | {kind} | {shown} |")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "figures.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
