"""dalenius report: a page about a release that somebody can sign."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from dalenius.cli.failures import CHECK_FAILED, report_errors
from dalenius.cli.progress_bar import show_progress
from dalenius.cli.set_options import person_option
from dalenius.cli.text_table import memory_option
from dalenius.errors import UsageError

_EPILOG = """\b
Examples:
  dalenius report release
  dalenius report release --audit -o reports/2026.html
  dalenius report release --audit --truth hospital.parquet --force
  dalenius report second --previous first
  dalenius report release --title "Discharges 2026" --controller "City Hospital"
"""


@click.command("report", epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--audit", "with_audit", is_flag=True, help="Run the simulated attacks and include their results.")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table that was published: compare its records, measure count queries and score the attackers.",
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file given as --truth.")
@person_option("Column of --truth that says whose rows are whose: attackers who know it are played.")
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table of people who are not in the release, with the same columns: shows how well they are guessed.",
)
@click.option(
    "--previous",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Earlier release of the same chain, to be named in the report; may be given several times.",
)
@click.option("--title", metavar="TEXT", help="Title of the first page.")
@click.option("--dataset", metavar="TEXT", help="Name of the dataset, for the first page.")
@click.option("--controller", metavar="TEXT", help="Who is responsible for the data, for the first page.")
@click.option("--purpose", metavar="TEXT", help="What the release is published for, for the first page.")
@click.option(
    "--job",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Job file (TOML): compare the release with everything that it says. Its section [report] has title, dataset, "
    "controller and purpose; options override those.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="Page to write. Its JSON twin goes beside it, with .json in place of .html.",
)
@memory_option
@click.option("--force", is_flag=True, help="Replace an existing page and its twin.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON twin as well; both files are still written.")
def report_command(
    folder: Path,
    with_audit: bool,
    truth: Path | None,
    table_name: str | None,
    person: str | None,
    control: Path | None,
    previous: tuple[Path, ...],
    title: str | None,
    dataset: str | None,
    controller: str | None,
    purpose: str | None,
    job: Path | None,
    out: Path,
    memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Verify the release in DIR and write a self-contained HTML page about it, with a JSON twin.

    The first page has the verdict (publish, look at this first, or do not publish), how exposed people are, what was
    found, and lines to sign. The second has what attackers get, and the limits. The annex says in plain words what was
    published, what is promised and what is not. Without --audit and --truth no release is cleared.
    Exit code 0, or 1 if a check failed or an attack broke a promise; the page is written all the same and says so.
    Results with --truth and --control are computed from raw tables: such a page is for the publisher, not for
    publication.
    """
    with report_errors(as_json):
        if table_name is not None and truth is None:
            raise UsageError("--table is for a DuckDB file given as --truth", "Give --truth, or leave it out.")
        if person is not None and (truth is None or not with_audit):
            raise UsageError("--person is for attackers with the table", "Give --audit and --truth, or leave it out.")
        if control is not None and not with_audit:
            raise UsageError("--control is for the attackers", "Give --audit, or leave it out.")
        from dalenius.policy.job import Job, read_job
        from dalenius.report.report_files import make_report, twin_path

        asked = read_job(job) if job is not None else Job()
        head = asked.report.but(title=title, dataset=dataset, controller=controller, purpose=purpose)

        with show_progress(as_json, lines=False) as progress:
            twin = make_report(
                folder,
                out,
                force=force,
                audit=with_audit,
                truth=truth,
                table=table_name,
                person=person,
                control=control,
                previous=previous,
                head=head,
                job=asked if asked.says_more_than_a_head else None,
                memory=memory,
                progress=progress,
            )
        if as_json:
            click.echo(json.dumps(twin))
        else:
            _show(twin, out, twin_path(out))
        if not twin["holds"]:
            sys.exit(CHECK_FAILED)


def _show(twin: dict[str, Any], page: Path, beside: Path) -> None:
    """Print what the page says first, and where it is."""
    from dalenius.cli.text_table import LONGEST_NOTE, printable, show_advice, show_concerns
    from dalenius.model.concern import Advice, Concern, Severity
    from dalenius.report.front_page import exposure_in_words

    if twin["exposure"] is not None:  # split() also takes the no-break spaces of the page
        click.echo(printable(" ".join(exposure_in_words(twin["exposure"]).split()), LONGEST_NOTE))
    show_concerns(
        Concern(one["code"], Severity(one["severity"]), one["message"], one["answer"] or "") for one in twin["findings"]
    )
    show_advice(Advice(twin["verdict"]))
    click.echo(f"Written: {page}, {beside}")
