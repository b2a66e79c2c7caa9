"""dalenius workload: how well does a release count? For those who hold the raw table."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from dalenius.cli.failures import reported

_EPILOG = """\b
Example:
  dalenius workload release --against hospital.parquet --seed 1
"""


@click.command("workload", epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--against", required=True, type=click.Path(path_type=Path), help="The table that the release was made from."
)
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option("--queries", type=int, default=5_000, show_default=True, metavar="N", help="Number of random queries.")
@click.option(
    "--selectivity",
    type=float,
    default=0.01,
    show_default=True,
    metavar="S",
    help="Expected share of matching records.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Which queries.")
@click.option("--learn", is_flag=True, help="Also measure estimates from what all buckets together show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def workload_command(
    folder: Path,
    against: Path,
    table_name: str | None,
    queries: int,
    selectivity: float,
    seed: int,
    learn: bool,
    as_json: bool,
) -> None:
    """Compare counts from the release in DIR with the true ones, on the paper's random count queries.

    A tool for the publisher and for research: it reads the raw table, and what it prints was computed from it.
    """
    with reported(as_json):
        from dalenius.cli.estimates import show_workload
        from dalenius.query.against import evaluate
        from dalenius.query.objects import workload_object
        from dalenius.release.folder import open_release

        start = time.perf_counter()
        result = evaluate(
            open_release(folder),
            against,
            table=table_name,
            queries=queries,
            selectivity=selectivity,
            seed=seed,
            learn=learn,
        )
        if as_json:
            click.echo(json.dumps(workload_object(result, selectivity, seed, time.perf_counter() - start, learn)))
        else:
            show_workload(result)
