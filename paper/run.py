"""The whole flow: for each experiment measure, judge, draw and write; then the page about all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dalenius.errors import OutputError, UsageError, did_you_mean
from dalenius.model.progress import Progress, Silent
from paper.adversary import Adversary
from paper.dataset import Dataset
from paper.diversity import Diversity
from paper.experiment import FILE, Claim, Context, Experiment, Measured, Table, Verdict
from paper.files import csv_text, machine, writable, written
from paper.frequencies import Frequencies
from paper.inference import Inference
from paper.loss import Loss
from paper.page import Result, body, head
from paper.pictures import picture, require_altair
from paper.relative_error import RelativeError
from paper.remark import Remark
from paper.runtime_domain import RuntimeDomain
from paper.runtime_records import RuntimeRecords
from paper.settings import Settings

EXPERIMENTS: tuple[Experiment, ...] = (
    Frequencies(),
    Diversity(),
    Loss(),
    RelativeError(),
    Adversary(),
    RuntimeRecords(),
    RuntimeDomain(),
    Inference(),
    Remark(),
)
NAMES = tuple(experiment.name for experiment in EXPERIMENTS)
PAGE, RESULTS = "index.md", "results.json"


@dataclass(frozen=True)
class Reproduction:
    """What a run leaves: the results in the folder that belong together, in the paper's order."""

    folder: Path
    data: str
    notes: tuple[str, ...]
    machine: dict[str, str]
    results: tuple[Result, ...]


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments of these names, or all."""
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no experiment {name!r}", did_you_mean(name, NAMES))
    return tuple(e for e in EXPERIMENTS if not names or e.name in names)


def reproduce(
    dataset: Dataset,
    settings: Settings,
    out: Path,
    *,
    only: Sequence[str] = (),
    fresh: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Run the experiments and write tables, pictures and the page to a folder. What was measured before is kept."""
    experiments = chosen(only)
    require_altair()
    progress = progress or Silent()
    settings = settings.within(dataset.rows)
    _prepare(out)
    about = {"data": dataset.fingerprint, "sensitive": dataset.sensitive, "columns": dataset.columns, **machine()}
    context = Context(dataset, settings, Measured(out, about, fresh=fresh), progress)
    run = {"title": dataset.title, "settings": asdict(settings), **about}
    known = _earlier(out, run)
    for experiment in experiments:
        progress.stage(experiment.name, experiment.steps(context), "measurements")
        known[experiment.name] = _result(experiment, context, out)
        _write_page(out, context, run, known)
    return _write_page(out, context, run, known)


def _result(experiment: Experiment, context: Context, out: Path) -> Result:
    rows = experiment.run(context)
    written(out / f"{experiment.name}.csv", csv_text(rows))
    for kind, content in picture(experiment.figure(rows, context), experiment.data(context)).items():
        written(out / f"{experiment.name}.{kind}", content)
    claims = tuple(experiment.claims(rows, context))
    return Result(experiment.name, experiment.title, experiment.about, experiment.table(rows), claims)


def _write_page(out: Path, context: Context, run: dict[str, Any], known: dict[str, Result]) -> Reproduction:
    results = tuple(known[name] for name in NAMES if name in known)
    notes = _notes(context, results)
    text = head(context.dataset.title, notes, machine()) + body(results)
    saved = {"run": run, "notes": notes, "results": [asdict(result) for result in results]}
    written(out / RESULTS, json.dumps(saved, indent=1, default=str))
    written(out / PAGE, text)
    return Reproduction(out, context.dataset.title, notes, machine(), results)


def _notes(context: Context, results: Sequence[Result]) -> tuple[str, ...]:
    settings = context.settings
    notes = [
        *context.dataset.notes,
        f"{settings.rows:,} records are used, and up to {settings.sizes[-1]:,} for runtimes; {settings.queries:,} "
        f"count queries. Times are medians of up to {settings.runs_of_searches} (searches), "
        f"{settings.runs_of_ours} (closed form), {min(5, settings.runs_of_ours)} (exact optimum) and "
        f"1 (integer program) runs; the last two are stopped after {settings.limit:g} s, and points are hollow where "
        "they were. The paper has means of 100 runs.",
    ]
    if settings.quick:
        notes.append("This was a quick run on few records: its verdicts are a first look, not the paper's settings.")
    missing = [name for name in NAMES if name not in {result.name for result in results}]
    if missing:
        notes.append(f"Not run with these settings yet: {', '.join(missing)}.")
    return tuple(notes)


def _earlier(out: Path, run: dict[str, Any]) -> dict[str, Result]:
    """Results of the same run that are in the folder already."""
    try:
        text = json.loads((out / RESULTS).read_text(encoding="utf-8"))
        if text["run"] != json.loads(json.dumps(run, default=str)):
            return {}
        return {entry["name"]: loaded(entry) for entry in text["results"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def loaded(entry: dict[str, Any]) -> Result:
    """A result as it was saved."""
    table = entry["table"]
    if table is not None:
        table = Table(tuple(table["headings"]), tuple(tuple(line) for line in table["lines"]))
    claims = tuple(Claim(c["where"], c["paper"], c["found"], Verdict(c["verdict"])) for c in entry["claims"])
    return Result(entry["name"], entry["title"], entry["about"], table, claims)


def _prepare(out: Path) -> None:
    with writable():
        if out.exists() and not out.is_dir():
            raise OutputError("the path given with --out is a file", "Give a folder, or a path where nothing is.")
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not any((out / name).exists() for name in (FILE, RESULTS)):
            raise OutputError("the folder has other things in it", "Give an empty folder, or that of an earlier run.")
