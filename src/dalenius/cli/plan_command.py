"""dalenius plan: what would it cost?

Engines, solvers and rendering are imported when the command runs, so that --help need not wait for them.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from dalenius.cli.failures import NO_SOLUTION, report_errors
from dalenius.cli.shared_options import (
    PlanRequest,
    adversary_options,
    engine_fields,
    engine_options,
    is_local,
    policy_options,
    read_request,
    read_value_counts,
    solver_options,
)
from dalenius.errors import InputError, UsageError
from dalenius.model.plan import Method, Plan, Status
from dalenius.model.problem import ValueCounts

_EPILOG = """\b
Examples:
  dalenius plan hospital.csv --sensitive Disease --theta 8 --base 0.02
  dalenius plan hospital.parquet --job job.toml --compare
  dalenius plan --counts counts.csv --uniform 0.1 --limit HIV=0.02 --json
  dalenius plan store.duckdb --table visits --sensitive Disease --l-diversity 5
  dalenius plan hospital.csv --job job.toml --corrupted 1 --fakes 2
  dalenius plan s3a://hospital/visits --job job.toml --engine spark --master spark://cluster:7077
"""


@click.command("plan", epilog=_EPILOG)
@click.argument("table", required=False, type=click.Path(), metavar="[TABLE]")
@click.option(
    "--counts",
    "counts_file",
    type=click.Path(path_type=Path),
    help="CSV file with the header value,count, instead of a table.",
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@click.option("--sensitive", metavar="COLUMN", help="Sensitive column.")
@click.option("--null-value", metavar="NAME", help="Count nulls in the sensitive column as this value.")
@policy_options
@solver_options
@adversary_options
@engine_options
@click.option("--compare", is_flag=True, help="Compare all methods side by side.")
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    help="Write the proof of the lower bound to this file (JSON).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan_command(
    table: str | None,
    counts_file: Path | None,
    table_name: str | None,
    compare: bool,
    certificate: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Find the best bucket setting for TABLE and show what it costs. Nothing is published.

    TABLE is a CSV, TSV, Parquet or DuckDB file, or a folder of Parquet files. The limits come from a rule (--theta and
    --base, --uniform, --l-diversity or --beta), from --limit for single values, or from a --job file. With --engine
    spark, a cluster counts the values, and TABLE may be a URL or a table of its catalog.
    """
    with report_errors(as_json):
        plan_request = read_request(arguments)
        counts = _counts(table, counts_file, table_name, plan_request, arguments, as_json)
        from dalenius.planning import compare_counts, plan_counts

        with _working("Solving", as_json):
            if compare:
                plans = compare_counts(counts, plan_request.policy, Method, plan_request.options)
            else:
                plans = [plan_counts(counts, plan_request.policy, plan_request.method, plan_request.options)]
        if plans[0].status is not Status.INFEASIBLE and certificate is not None:
            _write_certificate(certificate, plans[0])
        _print(plans, compare, as_json)
        if plans[0].status is Status.INFEASIBLE:
            sys.exit(NO_SOLUTION)


def _counts(
    table: str | None,
    counts_file: Path | None,
    table_name: str | None,
    plan_request: PlanRequest,
    arguments: dict[str, Any],
    as_json: bool,
) -> ValueCounts:
    if (table is None) == (counts_file is None):
        raise UsageError("give either TABLE or --counts", "Try 'dalenius plan --help'.")
    if is_local(arguments):
        with _working("Counting", as_json):
            path = Path(table) if table is not None else None
            return read_value_counts(path, counts_file, table_name, plan_request, arguments)
    if counts_file is not None:
        raise UsageError("--counts needs no engine", "Leave out the Spark options.")
    sensitive = plan_request.require_sensitive()
    from dalenius.publishing.engine import count_on_engine
    from dalenius.publishing.options import PublishOptions

    options = PublishOptions(null_value=plan_request.null_value, table=table_name, **engine_fields(arguments))
    with _working("Counting", as_json):
        return count_on_engine(table, sensitive, options)


def _working(what: str, as_json: bool) -> AbstractContextManager[Any]:
    """A spinner on a terminal, nothing elsewhere."""
    if as_json or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{what} ...")


def _write_certificate(path: Path, plan: Plan) -> None:
    from dalenius.cli.render_plan import certificate_object

    if plan.solution.certificate is None:
        raise UsageError("there is no certificate to write: the method proved no bound", "Leave out --certificate.")
    try:
        path.write_text(
            json.dumps(certificate_object(plan, plan.solution.certificate), indent=1) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise InputError(f"the certificate cannot be written: {error.strerror}") from None


def _print(plans: list[Plan], compare: bool, as_json: bool) -> None:
    from dalenius.cli.render_plan import plan_object, show_comparison, show_plan

    if as_json:
        objects = [plan_object(plan) for plan in plans]
        click.echo(json.dumps({"plans": objects} if compare else objects[0]))
    elif compare:
        show_comparison(plans)
    else:
        show_plan(plans[0])
