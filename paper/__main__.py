"""python -m paper: the paper's experiments, on a given table or on a made-up one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.failures import OneCommand, report_errors
from dalenius.cli.shared_options import quasi_identifiers_option

if TYPE_CHECKING:
    from paper.run import Reproduction

_EPILOG = """\b
Examples:
  python -m paper --out figures --quick
  python -m paper --out figures --data census.parquet --title "ACS 2018, CENSUS-shaped"
  python -m paper --out figures --only mse,relative-error
  python -m paper --out figures --data visits.csv --sensitive Disease --quasi-identifiers Age,Gender
"""


@click.command("paper", cls=OneCommand, epilog=_EPILOG)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder for the results, new or that of an earlier run.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="The table to run on (default: a made-up table in the shape of CENSUS).",
)
@click.option("--title", metavar="TEXT", help="The name of TABLE in pictures (default: its file name).")
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option(
    "--sensitive",
    multiple=True,
    metavar="COLUMN",
    help="A sensitive column of TABLE, with a panel of its own; repeatable (default: Occupation and Education).",
)
@quasi_identifiers_option("The columns of TABLE to publish with it (default: all others).")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME,...",
    help="Run only these experiments: frequencies, diversity, mse, relative-error, adversary, runtime-records, "
    "runtime-domain, theorem, remark-2; repeatable.",
)
@click.option("--quick", is_flag=True, help="Use fewer records, thetas and queries: a first look in about a minute.")
@click.option("--fresh", is_flag=True, help="Measure everything again, even what an earlier run left in DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print the claims and verdicts as one JSON object.")
def reproduce_command(
    out: Path,
    data: Path | None,
    title: str | None,
    table_name: str | None,
    sensitive: tuple[str, ...],
    quasi_identifiers: tuple[str, ...],
    only: tuple[str, ...],
    quick: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Run the experiments of the paper's Section 7, draw every figure, and judge every claim.

    Each experiment writes its data (CSV) and its picture (SVG and PNG) to DIR. DIR/index.md says what the paper found,
    what this run found, and whether they agree. A run that was stopped continues where it stopped. This runs in a
    checkout, and needs the extra `report`.
    """
    started = time.perf_counter()
    with report_errors(as_json):
        from dalenius.cli.option_texts import column_names
        from dalenius.cli.progress_bar import show_progress
        from dalenius.errors import UsageError
        from paper import dataset
        from paper.experiment import FULL, QUICK
        from paper.pictures import require_altair
        from paper.run import choose_experiments, reproduce

        if data is None and (title or table_name or sensitive or quasi_identifiers):
            raise UsageError("roles and titles need a table", "Give one with --data TABLE.")
        experiments = column_names(only)
        choose_experiments(experiments)
        require_altair()
        settings = QUICK if quick else FULL
        with show_progress(as_json) as progress:
            progress.stage("Reading")
            if data is None:
                table = dataset.make_dataset(settings.most_rows)
            else:
                table = dataset.read_dataset(
                    data,
                    settings.most_rows,
                    sensitive=column_names(sensitive),
                    quasi_identifiers=column_names(quasi_identifiers),
                    title=title,
                    table_name=table_name,
                )
            try:
                reproduction = reproduce(table, settings, out, only=experiments, fresh=fresh, progress=progress)
            except KeyboardInterrupt:
                progress.tell("The measurements so far are saved: the same command continues from there.")
                raise
        _print(reproduction, time.perf_counter() - started, as_json)


def _print(reproduction: Reproduction, seconds: float, as_json: bool) -> None:
    from paper.page import tally_sentence

    if as_json:
        click.echo(json.dumps(_object(reproduction, seconds)))
        return
    from dalenius.cli.text_table import TextTable, printable

    headings = ("experiment", "claim of the paper", "verdict")
    table = TextTable(headings, left=headings, title=printable(reproduction.data))
    for result in reproduction.results:
        for number, claim in enumerate(result.claims):
            table.add(result.name if not number else "", claim.paper, str(claim.verdict))
    table.show()
    click.echo(f"{tally_sentence(reproduction.results)}. {seconds:.0f} s.")
    click.echo(f"Written: {reproduction.folder}/index.md, and CSV, SVG and PNG for each experiment.")


def _object(reproduction: Reproduction, seconds: float) -> dict[str, Any]:
    from paper.page import tally

    return {
        "format": 1,
        "out": str(reproduction.folder),
        "data": reproduction.data,
        "notes": list(reproduction.notes),
        "machine": reproduction.machine,
        "verdicts": tally(reproduction.results),
        "experiments": [
            {
                "name": result.name,
                "title": result.title,
                "files": [f"{result.name}.{kind}" for kind in ("csv", "svg", "png")],
                "claims": [
                    {"where": c.where, "paper": c.paper, "found": c.found, "verdict": str(c.verdict)}
                    for c in result.claims
                ],
            }
            for result in reproduction.results
        ],
        "seconds": round(seconds, 3),
    }


if __name__ == "__main__":
    reproduce_command(prog_name="python -m paper")
