"""dalenius dp-risk: what do differentially private counts tell about people? Imports wait until the command runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dalenius.cli.failures import reported
from dalenius.cli.publish_command import names
from dalenius.cli.shared_options import policy_options, quasi_identifiers_option, read_request, solver_options
from dalenius.errors import UsageError

_EPILOG = """\b
Examples:
  dalenius dp-risk hospital.csv --sensitive Disease --quasi-identifiers Age,Gender,Zipcode \\
      --epsilon 0.01,0.1,1 --theta 8 --base 0.02
  dalenius dp-risk hospital.csv --sensitive Disease --where "Gender = 'F' AND Zipcode = '61434'" \\
      --epsilon 0.1 --uniform 0.2 --json
  dalenius dp-risk hospital.csv --job job.toml --epsilon 0.1,1 --groups groups.parquet
"""


@click.command("dp-risk", epilog=_EPILOG)
@click.argument("table", type=click.Path(path_type=Path), metavar="TABLE")
@click.option("--sensitive", metavar="COLUMN", help="The sensitive column.")
@quasi_identifiers_option("The columns that make the groups.")
@click.option("--epsilon", "epsilons", multiple=True, required=True, metavar="E,...", help="Each above 0. Repeatable.")
@click.option("--where", metavar="EXPRESSION", help="One more group: all who meet this SQL condition.")
@click.option("--draws", type=int, default=1_000, show_default=True, metavar="N", help="Draws of the noise, by OpenDP.")
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option("--null-value", metavar="NAME", help="Count nulls in the sensitive column as this value.")
@click.option(
    "--top",
    type=int,
    default=20,
    show_default=True,
    metavar="N",
    help="List so many groups: those with most people pinned rightly at the smallest epsilon, where there are any.",
)
@click.option(
    "--least-shown",
    type=int,
    default=10,
    show_default=True,
    metavar="K",
    help="Show the quasi-identifiers of groups of at least so many people, in the list and in the file of --groups.",
)
@click.option(
    "--groups",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every group, a row for each value in it and each epsilon, to FILE (.parquet or .csv). "
    "Not for publication.",
)
@click.option("--force", is_flag=True, help="Replace FILE, once the new one is complete.")
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
    **given: Any,
) -> None:
    """Show whom noisy counts of TABLE would pin above the limits, beside an F'-private release of it.

    The observer asks how many people a group has and how many of them carry a value, gets both counts with Laplace
    noise of scale 1/epsilon each, and divides. This is inference from population statistics, which differential
    privacy does not promise to prevent. For the publisher, and not for publication: it reads the raw table. Needs
    the extra dp.
    """
    with reported(as_json):
        asked = read_request(given)
        if asked.sensitive is None:
            raise UsageError(
                "the sensitive column is not named", "Name it with --sensitive COLUMN, or in the job file's [table]."
            )
        if force and groups is None:
            raise UsageError("--force is given, and there is no file to replace", "It goes with --groups FILE.")
        listed = _numbers(epsilons)
        from dalenius.cli.progress_bar import shown_progress
        from dalenius.dp_risk.risk import dp_risk

        with shown_progress(as_json) as progress:
            risk = dp_risk(
                table,
                asked.policy,
                sensitive=asked.sensitive,
                epsilons=listed,
                quasi_identifiers=names(quasi_identifiers) or (asked.quasi_identifiers if where is None else ()),
                where=where,
                draws=draws,
                top=top,
                least_shown=least_shown,
                groups_file=groups,
                force=force,
                null_value=asked.null_value,
                table=table_name,
                method=asked.method,
                options=asked.options,
                progress=progress,
            )
        from dalenius.cli.render_dp_risk import risk_object, show_risk

        if as_json:
            click.echo(json.dumps(risk_object(risk), allow_nan=False))
        else:
            show_risk(risk, groups)


def _numbers(texts: tuple[str, ...]) -> list[float]:
    numbers: list[float] = []
    for text in (part.strip() for given in texts for part in given.split(",")):
        try:
            numbers.append(float(text))
        except ValueError:
            raise UsageError(f"--epsilon wants numbers above 0, got {text!r}", "Write --epsilon 0.01,0.1,1") from None
    return numbers
