"""The whole run: measure, judge, draw and write each experiment, and then the page about all of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dalenius.errors import OutputError, UsageError, did_you_mean
from dalenius.model.progress import Progress, Silent
from dalenius.release.atomic import writable
from paper.adversary import Adversary
from paper.dataset import Dataset
from paper.experiment import MEASUREMENTS, Claim, Context, Experiment, Measurements, Settings, Table, Verdict, save
from paper.frequencies import Diversity, Frequencies
from paper.loss import Loss
from paper.page import Result, body, head, machine
from paper.pictures import Rows, picture, require_altair
from paper.relative_error import RelativeError
from paper.runtime_domain import RuntimeDomain
from paper.runtime_records import RuntimeRecords
from paper.theory import Inference, Remark

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
    """The results of a run, in the paper's order, and the folder that they are in."""

    folder: Path
    data: str
    notes: tuple[str, ...]
    machine: dict[str, str]
    results: tuple[Result, ...]


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
    experiments = choose_experiments(only)
    require_altair()
    progress = progress or Silent()
    settings = settings.within(dataset.rows)
    _prepare(out)
    about = {"data": dataset.fingerprint, "sensitive": dataset.sensitive, "columns": dataset.columns, **machine()}
    context = Context(
        dataset=dataset, settings=settings, measurements=Measurements(out, about, fresh=fresh), progress=progress
    )
    run = {"title": dataset.title, "settings": asdict(settings), **about}
    known = _earlier(out, run)
    for experiment in experiments:
        progress.stage(experiment.name, experiment.steps(context), "measurements")
        known[experiment.name] = _result(experiment, context, out)
        _write_page(out, context, run, known)
    return _write_page(out, context, run, known)


def choose_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments of these names, or all."""
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no experiment {name!r}", did_you_mean(name, NAMES))
    return tuple(e for e in EXPERIMENTS if not names or e.name in names)


def load_result(entry: dict[str, Any]) -> Result:
    """A result as it was saved."""
    table = entry["table"]
    if table is not None:
        table = Table(tuple(table["headings"]), tuple(tuple(line) for line in table["lines"]))
    claims = tuple(Claim(**{**claim, "verdict": Verdict(claim["verdict"])}) for claim in entry["claims"])
    return Result(name=entry["name"], title=entry["title"], about=entry["about"], table=table, claims=claims)


def csv_text(rows: Rows) -> str:
    """Rows as CSV; nothing is an empty field."""
    columns: Sequence[str] = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(row.get(name)) for name in columns} for row in rows)
    return out.getvalue()


def _result(experiment: Experiment, context: Context, out: Path) -> Result:
    rows = experiment.run(context)
    save(out / f"{experiment.name}.csv", csv_text(rows))
    for suffix, content in picture(experiment.figure(rows, context), experiment.data(context)).items():
        save(out / f"{experiment.name}.{suffix}", content)
    claims = tuple(experiment.claims(rows, context))
    return Result(
        name=experiment.name,
        title=experiment.title,
        about=experiment.about,
        table=experiment.table(rows),
        claims=claims,
    )


def _write_page(out: Path, context: Context, run: dict[str, Any], known: dict[str, Result]) -> Reproduction:
    results = tuple(known[name] for name in NAMES if name in known)
    notes = _notes(context, results)
    text = head(context.dataset.title, notes, machine()) + body(results)
    saved = {"run": run, "notes": notes, "results": [asdict(result) for result in results]}
    save(out / RESULTS, json.dumps(saved, indent=1, default=str))
    save(out / PAGE, text)
    return Reproduction(folder=out, data=context.dataset.title, notes=notes, machine=machine(), results=results)


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
        return {entry["name"]: load_result(entry) for entry in text["results"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _prepare(out: Path) -> None:
    with writable("the results"):
        if out.exists() and not out.is_dir():
            raise OutputError("the path given with --out is a file", "Give a folder, or a path where nothing is.")
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not any((out / name).exists() for name in (MEASUREMENTS, RESULTS)):
            raise OutputError("the folder has other things in it", "Give an empty folder, or that of an earlier run.")


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
