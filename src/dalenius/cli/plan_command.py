"""dalenius plan: what would it cost?

Engines, solvers and rendering are imported when the command runs, so that --help need not wait for them.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from dalenius.cli.engine_options import engine_fields, engine_options, is_local
from dalenius.cli.failures import NO_SOLUTION, report_errors
from dalenius.cli.group_options import apart_option, group_options, null_options
from dalenius.cli.option_texts import column_names
from dalenius.cli.set_options import people_options
from dalenius.cli.shared_options import (
    PlanRequest,
    adversary_options,
    parse_strata,
    policy_options,
    quasi_identifiers_option,
    read_request,
    read_value_counts,
    solver_options,
    strata_option,
)
from dalenius.errors import InputError, NoSolutionError, UsageError
from dalenius.model.plan import Method, Plan, Status
from dalenius.model.problem import ValueCounts

if TYPE_CHECKING:
    from dalenius.publishing.arrangement import StrataPrice
    from dalenius.publishing.options import PublishOptions, PublishRequest

_EPILOG = """\b
Examples:
  dalenius plan hospital.csv --sensitive Disease --odds 8
  dalenius plan hospital.parquet --job job.toml --compare
  dalenius plan --counts counts.csv --uniform 0.1 --limit HIV=0.02 --json
  dalenius plan store.duckdb --table visits --sensitive Disease --l-diversity 5
  dalenius plan hospital.csv --job job.toml --corrupted 1 --fakes 2
  dalenius plan hospital.csv --sensitive Diagnosis --odds 8 --groups icd10 --group-limit C00-D49=0.1
  dalenius plan visits.parquet --person patient_nbr --sensitive diag_1 --sensitive insulin \\
      --quasi-identifiers race,gender,age --odds 8
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
@people_options
@null_options
@apart_option
@quasi_identifiers_option("Columns to publish along with it, to foresee the strata that publishing would use.")
@strata_option
@policy_options
@group_options
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
    quasi_identifiers: tuple[str, ...],
    strata: str | None,
    compare: bool,
    certificate: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Find the best bucket setting for TABLE and show what it costs. Nothing is published.

    TABLE is a CSV, TSV, Parquet or DuckDB file, or a folder of Parquet files. The limits come from a rule (--odds,
    --theta and --base, --uniform, --l-diversity or --beta), from --limit for single values, or from a --job file. With
    --engine spark, a cluster counts the values, and TABLE may be a URL or a table of its catalog.

    If the quasi-identifiers are named, by option or in the job file, what is shown first (how exposed people are, and
    how far off counts will be) is computed with the strata that publishing would use.
    """
    with report_errors(as_json):
        plan_request = read_request(arguments)
        columns = column_names(quasi_identifiers) or plan_request.quasi_identifiers
        cut = parse_strata(strata) if strata is not None else plan_request.strata
        price: StrataPrice | None = None
        if plan_request.by_people:
            _refuse_for_people(plan_request, table, compare, certificate)
            options = _options(plan_request, table_name, cut, arguments)
            whole = _publish_request(cast("str", table), plan_request, columns, options)
            plain = _as_plain(whole, as_json)
            if plain is None:
                _print_people(whole, as_json)
                return
            plans, price = _price(plain, as_json)
        elif table is not None and counts_file is None and columns and cut != "none" and not compare:
            options = _options(plan_request, table_name, cut, arguments)
            plans, price = _price(_publish_request(table, plan_request, columns, options), as_json)
        else:
            counts = _counts(table, counts_file, table_name, plan_request, arguments, as_json)
            plans = _solve(counts, plan_request, compare, as_json)
        if plans[0].status is not Status.INFEASIBLE and certificate is not None:
            _write_certificate(certificate, plans[0])
        _print(plans, price, compare, as_json)
        if plans[0].status is Status.INFEASIBLE:
            sys.exit(NO_SOLUTION)


def _solve(counts: ValueCounts, request: PlanRequest, compare: bool, as_json: bool) -> list[Plan]:
    """The plan for the counts, or those of all methods."""
    from dalenius.planning import compare_counts, plan_counts

    with _working("Solving", as_json):
        if compare:
            return compare_counts(counts, request.policy, Method, request.options, request.not_applicable)
        return [plan_counts(counts, request.policy, request.method, request.options, request.not_applicable)]


def _refuse_for_people(request: PlanRequest, table: str | None, compare: bool, certificate: Path | None) -> None:
    """An error for what a plan of people cannot have."""
    what = "people with several rows" if request.person is not None else "several sensitive columns"
    if table is None:
        raise UsageError(f"counts do not say who has what, which a plan for {what} needs", "Give the table.")
    if compare:
        raise UsageError(
            f"--compare is about methods for one value a person, and {what} have a method of their own",
            "Leave out --compare.",
        )
    if certificate is not None:
        raise UsageError(
            f"there is no certificate for {what}: its proof is about counts alone, and here it matters who has what",
            "Leave out --certificate. The plan says how far it can be from the optimum.",
        )


def _options(
    request: PlanRequest, table_name: str | None, cut: str | int | tuple[str, ...] | None, arguments: dict[str, Any]
) -> PublishOptions:
    """Those of publishing the same."""
    from dalenius.publishing.options import PublishOptions

    return PublishOptions(
        null_value=request.null_value,
        missing=request.missing,
        not_applicable=request.not_applicable,
        table=table_name,
        strata=cut if cut is not None else "auto",
        most_rows=request.most_rows,
        **engine_fields(arguments),
    )


def _publish_request(
    table: str, request: PlanRequest, quasi_identifiers: tuple[str, ...], options: PublishOptions
) -> PublishRequest:
    from dalenius.publishing.options import PublishRequest

    roles, set_limits = request.roles_and_limits(quasi_identifiers, request.identifiers)
    return PublishRequest(
        table=str(Path(table)) if options.engine == "duckdb" else table,
        roles=roles,
        limits=request.policy,
        set_limits=set_limits,
        method=request.method,
        solving=request.options,
        options=options,
    )


def _as_plain(request: PublishRequest, as_json: bool) -> PublishRequest | None:
    """The same about rows, as which it will be published, if everybody has one row and one value."""
    from dalenius.publishing.people_flow import as_plain

    with _working("Counting", as_json):
        return as_plain(request)


def _print_people(request: PublishRequest, as_json: bool) -> None:
    """What publishing people would come to: all of it but the tables."""
    from dalenius.cli.text_table import show_advice, show_concerns, show_exposure
    from dalenius.model.concern import advise
    from dalenius.publishing.people_flow import plan_people

    with _working("Counting and solving", as_json):
        plan = plan_people(request)
    concerns = plan.solved.concerns
    if as_json:
        from dalenius.cli.render_plan import FORMAT_VERSION

        found = {"verdict": str(advise(concerns)), "findings": [one.as_object() for one in concerns]}
        click.echo(json.dumps({"format": FORMAT_VERSION, **plan.as_object(), **found}))
        return
    show_exposure(plan.exposure)
    for sentence in plan.sentences:
        click.echo(f"{sentence[0].upper()}{sentence[1:]}.")
    show_concerns(concerns)
    if concerns:
        show_advice(advise(concerns))


def _price(whole: PublishRequest, as_json: bool) -> tuple[list[Plan], StrataPrice | None]:
    """The plan for the table as one, and what publishing it in strata would come to: all of publishing but placing."""
    from dalenius.publishing.flow import price_strata

    try:
        with _working("Counting and solving", as_json):
            price = price_strata(whole)
    except NoSolutionError as error:
        return [cast("Plan", error.plan)], None
    return [price.plan], price


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
    from dalenius.policy.limits import bands_in
    from dalenius.publishing.engine import count_on_engine
    from dalenius.publishing.options import PublishOptions

    options = PublishOptions(
        null_value=plan_request.null_value,
        missing=plan_request.missing,
        table=table_name,
        **engine_fields(arguments),
    )
    with _working("Counting", as_json):
        policy = plan_request.policy
        return count_on_engine(table, sensitive, options, policy.allow_absent, bands_in(policy))


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


def _print(plans: list[Plan], price: StrataPrice | None, compare: bool, as_json: bool) -> None:
    from dalenius.cli.render_plan import plan_object, show_comparison, show_plan

    if as_json:
        objects = [plan_object(plan, price) for plan in plans]
        click.echo(json.dumps({"plans": objects} if compare else objects[0]))
    elif compare:
        show_comparison(plans)
    else:
        show_plan(plans[0], price)
