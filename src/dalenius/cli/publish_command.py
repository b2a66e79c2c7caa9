"""dalenius publish: the main job."""

from __future__ import annotations

import csv
import ctypes
import json
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from dalenius.cli.failures import NO_SOLUTION, reported
from dalenius.cli.shared_options import (
    adversary_options,
    engine_fields,
    engine_options,
    policy_options,
    quasi_identifiers_option,
    read_request,
    solver_options,
)
from dalenius.errors import NoSolutionError, UsageError
from dalenius.model.progress import Progress

if TYPE_CHECKING:
    from dalenius.model.plan import Plan
    from dalenius.publishing.options import PublishRequest
    from dalenius.publishing.published import Release


_EPILOG = """\b
Examples:
  dalenius publish hospital.csv --sensitive Disease --quasi-identifiers Age,Gender,Zipcode \\
      --identifiers Name --theta 8 --base 0.02 --out release
  dalenius publish hospital.parquet --job job.toml --out release --force
  dalenius publish store.duckdb --table visits --job job.toml --out release --format csv --json
  dalenius publish hospital.csv --job job.toml --corrupted 1 --fakes 1 --out release
  dalenius publish hospital.csv --job job.toml --strata Gender,Zipcode --out release
  dalenius publish s3a://hospital/visits --job job.toml --out s3a://public/visits \\
      --engine spark --master spark://cluster:7077 --conf spark.executor.memory=8g
"""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_PLENTY = 15 * 10**8  # bytes
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@click.command("publish", epilog=_EPILOG)
@click.argument("table", type=click.Path(), metavar="TABLE")
@click.option("--sensitive", metavar="COLUMN", help="The sensitive column.")
@quasi_identifiers_option("The columns to publish beside it.")
@click.option(
    "--identifiers",
    multiple=True,
    metavar="N,...",
    help="Columns that identify people: never published. Repeatable.",
)
@click.option("--out", type=click.Path(), required=True, metavar="DIR", help="The folder to make.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "parts"]),
    help="How to write the two tables: a file each, or in parts, a folder of Parquet files each (default parquet; "
    "with Spark always parts).",
)
@click.option("--force", is_flag=True, help="Replace the release in DIR, once the new one is complete and verified.")
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option("--null-value", metavar="NAME", help="Count nulls in the sensitive column as this value.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="The most memory that the whole program may take: 2GB, 512MiB (default: half of the machine's).",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="A reproducible release for tests; the manifest then says that it is not for publication.",
)
@click.option(
    "--strata",
    metavar="auto|none|N|A,...",
    shell_complete=lambda _context, _option, begun: [word for word in ("auto", "none") if word.startswith(begun)],
    help="Cut the table by quasi-identifiers, and put each part into buckets of its own: as many parts as are good for "
    "counts, one, at most N, or by the values of columns (default auto).",
)
@policy_options
@solver_options
@adversary_options
@click.option(
    "--avoid-ruled-out",
    is_flag=True,
    help="Exchange fakes that what can be learned from the release rules out; it has a price (see the documentation).",
)
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def publish_command(
    table: str,
    quasi_identifiers: tuple[str, ...],
    identifiers: tuple[str, ...],
    out: str,
    kind: Any,
    force: bool,
    table_name: str | None,
    memory: str | None,
    seed: int | None,
    strata: str | None,
    avoid_ruled_out: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Publish TABLE as two tables that are linked by bucket alone, under limits on what may be inferred.

    Reads TABLE (CSV, TSV, Parquet or DuckDB, or a folder of Parquet files), cuts it into strata, solves for the best
    bucket sizes, places every record at random within its stratum, writes DIR with qit, st and manifest.json, and
    verifies it. Columns that are in no role are left out. DIR appears only when all of this is done. With --engine
    spark a cluster does the same, and TABLE and DIR may be URLs.
    """
    started = time.perf_counter()
    with reported(as_json):
        asked = read_request(given)
        if asked.sensitive is None:
            raise UsageError(
                "the sensitive column is not named", "Name it with --sensitive COLUMN, or in the job file's [table]."
            )
        columns = names(quasi_identifiers) or asked.quasi_identifiers
        hidden = names(identifiers) or asked.identifiers
        size = bytes_of(memory) if memory is not None else None
        if size is None or size >= _PLENTY:
            _keep_freed_memory()
        avoid = avoid_ruled_out or asked.avoid_ruled_out
        if avoid and not asked.options.fake_values:
            raise UsageError(
                "there are no fake values, so none is to be exchanged",
                "Give --fakes N as well, or leave --avoid-ruled-out (in a job file: avoid_ruled_out) out.",
            )
        from dalenius.cli.progress_bar import finishing
        from dalenius.policy.roles import Roles
        from dalenius.publishing.options import PublishOptions, PublishRequest

        cut = strata_of(strata) if strata is not None else asked.strata
        options = PublishOptions(
            null_value=asked.null_value,
            table=table_name,
            format=kind,
            force=force,
            memory=size,
            seed=seed,
            avoid_ruled_out=avoid,
            strata=cut if cut is not None else "auto",
            **engine_fields(given),
        )
        if options.engine == "duckdb":
            table, out = str(Path(table)), str(Path(out))
        request = PublishRequest(
            table=table,
            roles=Roles(asked.sensitive, columns, hidden),
            limits=asked.policy,
            method=asked.method,
            solving=asked.options,
            options=options,
        )
        with finishing() as to_the_end:
            try:
                release = _publish(request, out, as_json, to_the_end)
            except NoSolutionError as error:
                _print_no_solution(cast("Plan", error.plan), as_json)
                sys.exit(NO_SOLUTION)
            _print(release, out, time.perf_counter() - started, as_json)


def _keep_freed_memory() -> None:
    """Let the C library use freed memory again, rather than give it back: every new page has to be cleared first.

    Batches and pieces come and go by the hundred, so without this a fifth of the time goes into clearing pages.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_TRIM_THRESHOLD, 64 * 2**20)


def names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Column names from comma-separated lists; double quotes as in CSV."""
    found: list[str] = []
    for text in texts:
        try:
            fields = next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error:
            raise UsageError(f"the list of columns {text!r} has a quote out of place", 'Write "A, B",C.') from None
        found += [name for name in fields if name]
    return tuple(found)


def strata_of(text: str) -> str | tuple[str, ...]:
    """One word as it is, which may be auto, none or a number; several, or one in quotes, are names of columns."""
    found = names((text,))
    return text.strip() if found == (text.strip(),) else found


def bytes_of(text: str, option: str = "--memory") -> int:
    """A size such as 2GB (10^9 bytes each) or 512MiB (2^20 bytes each)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} wants a size, got {text!r}", "Write 2GB, or 512MiB.")
    power = " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _publish(request: PublishRequest, out: str, as_json: bool, to_the_end: Callable[[Progress], Progress]) -> Release:
    from dalenius.cli.progress_bar import shown_progress
    from dalenius.publishing.flow import publish_request

    with shown_progress(as_json) as progress:
        return publish_request(request, out, to_the_end(progress))


def _print(release: Release, out: str, seconds: float, as_json: bool) -> None:
    from dalenius.cli.render_release import release_object, show_release

    if as_json:
        click.echo(json.dumps(release_object(release, out, seconds)))
    else:
        show_release(release, out, seconds)


def _print_no_solution(plan: Plan, as_json: bool) -> None:
    from dalenius.cli.render_plan import plan_object, show_plan

    if as_json:
        click.echo(json.dumps(plan_object(plan)))
    else:
        show_plan(plan)
