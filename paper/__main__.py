"""python -m paper: the paper's experiments, on a table or on one that is made up."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from dalenius.cli.failures import OneCommand, report_errors
from dalenius.cli.shared_options import quasi_identifiers_option

_EPILOG = """\b
Examples:
  python -m paper --out figures --quick
  python -m paper --out figures --data census.parquet --title "ACS 2018, CENSUS-shaped"
  python -m paper --out figures --only mse,relative-error
  python -m paper --out figures --data visits.csv --sensitive Disease --quasi-identifiers Age,Gender
"""


@click.command("paper", cls=OneCommand, epilog=_EPILOG)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The folder for the results."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="The table to run on (default: a CENSUS-shaped one is made up).",
)
@click.option("--title", metavar="TEXT", help="What to call TABLE in pictures (default: by its file's name).")
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option(
    "--sensitive",
    multiple=True,
    metavar="COLUMN",
    help="A sensitive column of TABLE; repeatable, a panel each (default: Occupation and Education).",
)
@quasi_identifiers_option("The columns of TABLE to publish beside it (default: all others).")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME,...",
    help="Only these: frequencies, diversity, mse, relative-error, adversary, runtime-records, runtime-domain, "
    "theorem, remark-2. Repeatable.",
)
@click.option("--quick", is_flag=True, help="Fewer records, thetas and queries: a first look in about a minute.")
@click.option("--fresh", is_flag=True, help="Measure everything anew, even what an earlier run left in DIR.")
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

    Each experiment leaves its data (CSV), its picture (SVG and PNG) and, in index.md, what the paper found, what this
    run found, and whether they agree. A run that was stopped goes on where it was. Needs the extra report.
    """
    started = time.perf_counter()
    with report_errors(as_json):
        from dalenius.cli.progress_bar import show_progress
        from dalenius.cli.shared_options import column_names
        from dalenius.errors import UsageError
        from paper import dataset
        from paper.pictures import require_altair
        from paper.run import chosen, reproduce
        from paper.settings import FULL, QUICK

        if data is None and (title or table_name or sensitive or quasi_identifiers):
            raise UsageError("roles and titles are for a table that is given", "Give one with --data TABLE.")
        wanted = column_names(only)
        chosen(wanted)
        require_altair()
        settings = QUICK if quick else FULL
        with show_progress(as_json) as progress:
            progress.stage("Reading")
            if data is None:
                table = dataset.synthetic(settings.most_rows)
            else:
                table = dataset.given(
                    data,
                    settings.most_rows,
                    sensitive=column_names(sensitive),
                    quasi_identifiers=column_names(quasi_identifiers),
                    title=title,
                    table_name=table_name,
                )
            try:
                found = reproduce(table, settings, out, only=wanted, fresh=fresh, progress=progress)
            except KeyboardInterrupt:
                progress.tell("What was measured so far is kept: the same command goes on from there.")
                raise
        _print(found, time.perf_counter() - started, as_json)


def _print(found: Any, seconds: float, as_json: bool) -> None:
    from paper.page import counted

    if as_json:
        click.echo(json.dumps(_object(found, seconds)))
        return
    from dalenius.cli.text_table import TextTable, printable

    headings = ("experiment", "claim of the paper", "verdict")
    table = TextTable(headings, left=headings, title=printable(found.data))
    for result in found.results:
        for number, claim in enumerate(result.claims):
            table.add(result.name if not number else "", claim.paper, str(claim.verdict))
    table.show()
    click.echo(f"{counted(found.results)}. {seconds:.0f} s.")
    click.echo(f"Written: {found.folder}/index.md, and CSV, SVG and PNG for each experiment.")


def _object(found: Any, seconds: float) -> dict[str, Any]:
    from paper.page import tally

    return {
        "format": 1,
        "out": str(found.folder),
        "data": found.data,
        "notes": list(found.notes),
        "machine": found.machine,
        "verdicts": tally(found.results),
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
            for result in found.results
        ],
        "seconds": round(seconds, 3),
    }


if __name__ == "__main__":
    reproduce_command(prog_name="python -m paper")
