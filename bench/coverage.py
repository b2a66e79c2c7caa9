"""make bench-coverage DATA=...: how often the intervals of counts hold the truth, on tables of real people.

DATA is a folder with census_like_500k.parquet (of which the first 300,000 rows are used), adult_48842.parquet and
diabetes130_101766.parquet. Every value may have K times the odds that it has in the table, and at least 1/50; buckets
have at least two records. Two kinds of queries are asked of every release, 5,000 each: those of the paper, and queries
on one to three quasi-identifiers and one sensitive value.

    python -m bench.coverage DATA [--queries 5000] [--only "Adult occupation"]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dalenius
from bench.attacks import COLUMNS
from bench.charts import save
from bench.machine import machine
from bench.publish import DOCS, RESULTS
from dalenius.infer.association import Posterior
from dalenius.query.calibration import Calibration
from dalenius.query.workload import Answers, answer, calibration_of, encode, generate, learned_answers, value_dictionary
from dalenius.release.folder import open_release

LEAST = Fraction(1, 50)
QUERIES: dict[str, dict[str, Any]] = {
    "paper": {"selectivity": 0.01},
    "one value": {"selectivity": 0.05, "most_attributes": 3, "one_value": True},
}
ADULT = (
    "age", "workclass", "education", "marital_status", "race", "sex", "hours_per_week", "native_country", "income",
)  # fmt: skip
DIABETES = (
    "race", "gender", "age", "admission_type_id", "time_in_hospital", "medical_specialty", "number_diagnoses",
    "insulin",
)  # fmt: skip
CHAPTERS = (
    (139, "infectious"), (239, "neoplasms"), (249, "endocrine"), (250, "diabetes"), (279, "endocrine"), (289, "blood"),
    (319, "mental"), (389, "nervous"), (459, "circulatory"), (519, "respiratory"), (579, "digestive"),
    (629, "genitourinary"), (679, "pregnancy"), (709, "skin"), (739, "musculoskeletal"), (759, "congenital"),
    (779, "perinatal"), (799, "symptoms"), (999, "injury"),
)  # fmt: skip
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A table, its sensitive column, and the odds."""

    name: str
    odds: int
    file: str
    sensitive: str
    quasi_identifiers: tuple[str, ...]

    def table(self, data: Path) -> pa.Table:
        """The columns that are published."""
        if self.sensitive == "chapter":
            table = pyarrow.parquet.read_table(data / self.file, columns=[*self.quasi_identifiers, "diag_1"])
            chapters = pa.array([chapter(code) for code in table["diag_1"].to_pylist()])
            return table.append_column("chapter", chapters)
        names = [*self.quasi_identifiers, self.sensitive]
        return pyarrow.parquet.read_table(data / self.file, columns=names).slice(0, 300_000)


def chapter(code: str | None) -> str:
    """The chapter of ICD-9 that a diagnosis is in, diabetes by itself."""
    if code is None or code == "?":
        return "missing"
    if code[0] in "EV":
        return "supplementary"
    number = int(float(code))
    return next(name for last, name in CHAPTERS if number <= last)


def census(sensitive: str, odds: int) -> Case:
    others = tuple(column for column in COLUMNS if column != sensitive)
    return Case(f"ACS {sensitive.lower()}", odds, "census_like_500k.parquet", sensitive, others)


CASES = (
    census("Occupation", 4),
    census("Occupation", 8),
    census("Education", 4),
    census("Education", 8),
    Case("Adult occupation", 4, "adult_48842.parquet", "occupation", ADULT),
    Case("Diabetes-130 chapter", 4, "diabetes130_101766.parquet", "chapter", DIABETES),
)


class Recorder:
    """A calibration that remembers the intervals before they were widened, and what it says of them."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration, self.before, self.targets = calibration, list[Posterior](), list[Any]()

    def widened(self, posterior: Posterior, targets: Any) -> Posterior:
        self.before.append(posterior)
        self.targets.append(targets)
        return self._calibration.widened(posterior, targets)

    def said(self, answers: Answers) -> tuple[float, float]:
        """The mean coverage that the release claims for learned intervals, and for those at random."""
        pairs = self._calibration.coverages(np.concatenate(self.targets), answers.estimate)
        learned, plain = ([one.share for one in ones if one is not None] for ones in zip(*pairs, strict=True))
        return float(np.mean(learned)), float(np.mean(plain))


def figures(answers: Answers) -> dict[str, float]:
    """Coverage, and for queries that somebody meets the median width and the median error, relative to the truth."""
    some = answers.actual > 0
    truth = answers.actual[some]
    within = (answers.interval_low <= answers.actual) & (answers.actual <= answers.interval_high)
    return {
        "coverage": float(within.mean()),
        "width": float(np.median((answers.interval_high - answers.interval_low)[some] / truth)),
        "error": float(np.median(np.abs(answers.estimate[some] - truth) / truth)),
    }


def measured(case: Case, data: Path, strata: str, queries: int) -> Rows:
    """One release, and both kinds of queries."""
    table = case.table(data)
    release = dalenius.publish(
        table,
        {"odds": case.odds},
        sensitive=case.sensitive,
        quasi_identifiers=list(case.quasi_identifiers),
        strata=strata,
        seed=1,
    )
    folder = open_release(release.path)
    kinds = value_dictionary(folder.manifest)
    truth, coded = encode(folder, table, None, kinds)
    started = time.process_time()
    calibration = calibration_of(folder, kinds)
    seconds = time.process_time() - started
    if calibration is None:
        raise SystemExit("nothing is learned from this release")
    rows: Rows = []
    for kind, asked in QUERIES.items():
        pool = generate(truth.domains, truth.sensitive_domain, queries, seed=7, **asked)
        recorder = Recorder(calibration)
        answers = answer(truth, coded, pool, learn=True, calibration=recorder)  # type: ignore[arg-type]
        if answers.learned is None:
            raise SystemExit("nothing is learned from this release")
        said, said_at_random = recorder.said(answers)
        plain = replace(answers, learned=None)
        row = {
            "case": f"{case.name}, odds {case.odds}",
            "strata": len(release.manifest.strata.strata) if release.manifest.strata is not None else 1,
            "queries": kind,
            "at random": {**figures(plain), "said": said_at_random},
            "before": figures(learned_answers(plain, recorder.before)),
            "learned": {**figures(answers.learned), "said": said},
            "mse": release.manifest.mse,
            "seconds": seconds,
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def summary(rows: Rows) -> str:
    """The table of the documentation."""
    heads = ("table", "strata", "queries", "interval", "holds", "said", "width", "error")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        start = f"| {row['case']} | {row['strata']} | {row['queries']} |"
        for name, key in (("at random", "at random"), ("learned, not widened", "before"), ("learned", "learned")):
            own = row[key]
            said = f"{own['said']:.1%}" if "said" in own else "-"
            lines.append(f"{start} {name} | {own['coverage']:.1%} | {said} | {own['width']:.3f} | {own['error']:.3f} |")
            start = "| | | |"
    seconds = [row["seconds"] for row in rows]
    ends = f"{min(seconds):.1f} to {max(seconds):.1f}"
    return "\n".join([*lines, "", f"Measuring the coverage took {ends} seconds of processor time a release.", ""])


def picture(rows: Rows, queries: str) -> Any:
    """How often each interval holds, by release."""
    names = {"at random": "at random", "before": "learned, not widened", "learned": "learned"}
    points = [
        {
            "release": f"{row['case']}, {'strata' if row['strata'] > 1 else 'no strata'}",
            "interval": name,
            "percent": 100 * row[key]["coverage"],
        }
        for row in rows
        if row["queries"] == queries
        for key, name in names.items()
    ]
    base = altair.Chart(altair.InlineData(values=points))
    marks = base.mark_point(filled=True, size=80).encode(
        x=altair.X("percent:Q", title="intervals that hold the truth (%)", scale=altair.Scale(domain=[0, 100])),
        y=altair.Y("release:N", title=None, sort=None, axis=altair.Axis(labelLimit=260)),
        color=altair.Color("interval:N", title=None, sort=list(names.values())),
        shape=altair.Shape("interval:N", title=None, sort=list(names.values())),
    )
    nominal = altair.Chart(altair.InlineData(values=[{"x": 95}])).mark_rule(strokeDash=[4, 3]).encode(x="x:Q")
    return (nominal + marks).properties(width=300, height=300, title=f"queries: {queries}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--queries", type=int, default=5000)
    options.add_argument("--only", action="append", help="cases of this name")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    if not asked.show:
        chosen = [case for case in CASES if asked.only is None or case.name in asked.only]
        found = [
            row
            for case in chosen
            for strata in ("none", "auto")
            for row in measured(case, asked.data, strata, asked.queries)
        ]
        result = {"machine": machine(), "queries": asked.queries, "rows": found}
        (asked.out / "coverage.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    rows = json.loads((asked.out / "coverage.json").read_text(encoding="utf-8"))["rows"]
    (asked.out / "coverage.md").write_text(summary(rows), encoding="utf-8")
    save([picture(rows, queries) for queries in QUERIES], asked.out / "coverage")
    if asked.out == RESULTS:
        (DOCS / "images" / "bench-coverage.svg").write_bytes((asked.out / "coverage.svg").read_bytes())
    print(summary(rows))


if __name__ == "__main__":
    main()
