"""dalenius studio: choose limits in the browser and see what they cost."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from dalenius.cli.failures import report_errors
from dalenius.cli.text_table import count_allowance, count_options, parse_size
from dalenius.errors import MissingExtraError, UsageError

_EPILOG = """\b
Examples:
  dalenius studio hospital.csv
  dalenius studio store.duckdb --table visits --job job.toml --out releases
  dalenius studio --release releases/march --release releases/april --no-browser
"""


@click.command("studio", epilog=_EPILOG)
@click.argument("table", required=False, type=click.Path(path_type=Path), metavar="[TABLE]")
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@click.option(
    "--job", type=click.Path(path_type=Path), help="Job file (TOML) to start from: roles, limits and protection."
)
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Release to look at and count from. Repeatable.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to keep releases in, each in a folder of its own. Without it, releases are removed at the end.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="Port to listen on, reachable from this machine only (default: a free one).",
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@click.option(
    "--upload-limit",
    default="4GB",
    show_default=True,
    metavar="SIZE",
    help="Largest file that can be dragged in: 500MB, 4GB.",
)
@count_options
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON object.")
def studio_command(
    table: Path | None,
    table_name: str | None,
    job: Path | None,
    releases: tuple[Path, ...],
    out: Path | None,
    port: int,
    no_browser: bool,
    upload_limit: str,
    timeout: float,
    memory: str | None,
    as_json: bool,
) -> None:
    """Choose limits, publish, verify, audit and count in the browser, without leaving this machine.

    Prints an address with a secret token and runs until Ctrl-C. TABLE (CSV, TSV, Parquet or DuckDB) is read in place;
    more tables can be dragged into the page. Raw rows are never sent to the browser.
    """
    with report_errors(as_json):
        most = parse_size(upload_limit, "--upload-limit")
        if most < 1:
            raise UsageError("--upload-limit must be above 0", "Write 4GB, or 500MiB.")
        _require_extras()
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: threads only get into each other's way
        from dalenius.policy.job import read_job
        from dalenius.studio.serve import serve
        from dalenius.studio.state import StudioOptions

        read = read_job(job) if job is not None else None
        if read is not None and (read.solve.method or read.solve.gap is not None or read.solve.time_limit is not None):
            click.echo("Note: the job file's method, gap and time limit are not used in Studio.", err=True)
        options = StudioOptions(table, table_name, read, releases, out, most, count_allowance(timeout, memory))

        def announce(url: str, port: int) -> None:
            click.echo(json.dumps({"format": 1, "url": url, "port": port}) if as_json else url)
            sys.stdout.flush()
            click.echo("Studio is running; Ctrl-C ends it.", err=True)

        serve(options, port, announce, not no_browser)


def _require_extras() -> None:
    if any(find_spec(name) is None for name in ("jinja2", "starlette", "tomli_w", "uvicorn")):
        raise MissingExtraError.of("Starlette", "web")
