"""dalenius dp-risk: what do differentially private counts reveal about people? Imports wait until it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dalenius.cli.failures import report_errors
from dalenius.cli.group_options import null_options
from dalenius.cli.option_texts import column_names
from dalenius.cli.set_options import sensitive_option
from dalenius.cli.shared_options import policy_options, quasi_identifiers_option, read_request, solver_options
from dalenius.errors import UsageError

_EPILOG = """\b
Examples:
  dalenius dp-risk hospital.csv --sensitive Disease --quasi-identifiers Age,Gender,Zipcode \\
      --epsilon 0.01,0.1,1 --odds 8
  dalenius dp-risk hospital.csv --sensitive Disease --where "Gender = 'F' AND Zipcode = '61434'" \\
      --epsilon 0.1 --uniform 0.2 --json
  dalenius dp-risk hospital.csv --job job.toml --epsilon 0.1,1 --groups groups.parquet
"""


@click.command("dp-risk", epilog=_EPILOG)
@click.argument("table", type=click.Path(path_type=Path), metavar="TABLE")
@sensitive_option()
@quasi_identifiers_option("Columns that form the groups.")
@click.option(
    "--epsilon",
    "epsilons",
    multiple=True,
    required=True,
    metavar="E,...",
    help="Privacy parameters, each above 0. Repeatable.",
)
@click.option("--where", metavar="EXPRESSION", help="Another group: everybody who meets this SQL condition.")
@click.option(
    "--draws", type=int, default=1_000, show_default=True, metavar="N", help="How often to draw the noise (by OpenDP)."
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@null_options
@click.option(
    "--top",
    type=int,
    default=20,
    show_default=True,
    metavar="N",
    help="List this many groups: those with the most people pinned rightly at the smallest epsilon.",
)
@click.option(
    "--least-shown",
    type=int,
    default=10,
    show_default=True,
    metavar="K",
    help="Name only groups of at least this many people, in the list and in the file of --groups.",
)
@click.option(
    "--groups",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all groups to FILE (.parquet or .csv), with a row for each value and epsilon. Not for publication.",
)
@click.option("--force", is_flag=True, help="Replace FILE once the new one is complete.")
@policy_options
@solver_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def dp_risk_command(
    table: Path,
    quasi_identifiers: tuple[str, ...],
    epsilons: tuple[str, ...],
    where: str | None,
    draws: int,
    table_name: str | None,
    top: int,
    least_shown: int,
    groups: Path | None,
    force: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Show whom noisy counts of TABLE would pin above the limits, next to an F'-private release of it.

    The observer asks how many people a group has and how many of them have a value, gets both counts with Laplace
    noise of scale 1/epsilon, and divides. This is inference from population statistics, which differential privacy
    does not promise to prevent. For the publisher, not for publication: it reads the raw table. Needs the extra dp.
    """
    with report_errors(as_json):
        plan_request = read_request(arguments)
        sensitive = plan_request.require_sensitive()
        plan_request.refuse_people("dp-risk")
        if force and groups is None:
            raise UsageError("--force has no file to replace", "Give --groups FILE as well, or leave out --force.")
        if plan_request.not_applicable:
            raise UsageError(
                "the job file sets people apart to whom the question does not apply, which dp-risk does not do",
                "Give a table without them, and a job file without not_applicable.",
            )
        listed = _numbers(epsilons)
        from dalenius.cli.progress_bar import show_progress
        from dalenius.dp_risk.risk import dp_risk

        with show_progress(as_json) as progress:
            risk = dp_risk(
                table,
                plan_request.policy,
                sensitive=sensitive,
                epsilons=listed,
                quasi_identifiers=column_names(quasi_identifiers)
                or (plan_request.quasi_identifiers if where is None else ()),
                where=where,
                draws=draws,
                top=top,
                least_shown=least_shown,
                groups_file=groups,
                force=force,
                null_value=plan_request.null_value,
                missing=plan_request.missing,
                table=table_name,
                method=plan_request.method,
                options=plan_request.options,
                progress=progress,
            )
        from dalenius.cli.render_dp_risk import risk_object, show_risk

        if as_json:
            click.echo(json.dumps(risk_object(risk), allow_nan=False))
        else:
            show_risk(risk, groups)


def _numbers(texts: tuple[str, ...]) -> list[float]:
    numbers: list[float] = []
    for text in (part.strip() for listed in texts for part in listed.split(",")):
        try:
            numbers.append(float(text))
        except ValueError:
            raise UsageError(f"--epsilon needs numbers above 0, got {text!r}", "Write --epsilon 0.01,0.1,1") from None
    return numbers
