"""Estimates as text for people."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dalenius.cli.render_plan import printable
from dalenius.model.estimate import ASSUMPTION, LEARNING, Estimate, GroupEstimate
from dalenius.query.workload import WorkloadResult

_LOOSE = "Note: the condition has too many patterns to try all; the bounds hold, and closer ones may hold too."
_LONGEST_QUERY = 60


def show_answers(queries: Sequence[str] | None, answers: Sequence[Estimate | list[GroupEstimate]]) -> None:
    """Answers for people, and what they rest on, once."""
    console = Console(soft_wrap=True)
    for i, answer in enumerate(answers):
        if queries is not None:
            click.echo(("\n" if i else "") + printable(queries[i], _LONGEST_QUERY))
        if isinstance(answer, Estimate):
            _show_estimate(answer)
        else:
            _show_groups(console, answer)
    every = [
        e for answer in answers for e in ([answer] if isinstance(answer, Estimate) else [g.estimate for g in answer])
    ]
    if not all(estimate.tight for estimate in every):
        click.echo(f"\n{_LOOSE}")
    if not all(estimate.exact for estimate in every):
        click.echo(f"\n{ASSUMPTION}")
    for reason in dict.fromkeys(estimate.not_learned for estimate in every if estimate.not_learned is not None):
        click.echo(f"\nNote: nothing was learned. {reason}")
    if any(estimate.learned is not None and not estimate.exact for estimate in every):
        click.echo(f"\n{LEARNING}")


def show_workload(result: WorkloadResult) -> None:
    """The result for people."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row("queries", f"{result.queries:,}, of which {result.empty:,} match nobody and have no relative error")
    grid.add_row("relative error", f"mean {result.mean_relative_error:.4f}, median {result.median_relative_error:.4f}")
    grid.add_row("bounds", f"hold for {result.bounds_hold:,}; mean width {result.mean_bounds_width:,.1f}")
    grid.add_row(
        "95 % interval", f"holds the truth for {result.coverage:.1%}; mean width {result.mean_interval_width:,.1f}"
    )
    if (learned := result.learned) is not None:
        errors = f"mean {learned.mean_relative_error:.4f}, median {learned.median_relative_error:.4f}"
        grid.add_row("learned: relative error", errors)
        width = f"mean width {learned.mean_interval_width:,.1f}"
        grid.add_row("learned: 95 % interval", f"holds the truth for {learned.coverage:.1%}; {width}")
    elif result.not_learned is not None:
        grid.add_row("learned", f"nothing. {result.not_learned}")
    Console(soft_wrap=True).print(grid)


def _show_estimate(estimate: Estimate) -> None:
    low, high = estimate.bounds
    if estimate.exact:
        click.echo(f"count           {low:,}  (exact)")
        return
    click.echo(f"estimate        {estimate.estimate:,.1f}")
    click.echo(f"certain bounds  {low:,} to {high:,}")
    click.echo(f"standard error  {estimate.standard_error:,.2f}")
    click.echo(f"95 % interval   {estimate.interval[0]:,} to {estimate.interval[1]:,}")
    if (learned := estimate.learned) is not None:
        click.echo("\nlearned from all buckets together")
        click.echo(f"estimate        {learned.estimate:,.1f}")
        click.echo(f"standard error  {learned.standard_error:,.2f}")
        click.echo(f"95 % interval   {learned.interval[0]:,} to {learned.interval[1]:,}")


def _show_groups(console: Console, answer: Sequence[GroupEstimate]) -> None:
    if not answer:
        click.echo("no groups")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in answer[0].group:
        table.add_column(Text(printable(name)))
    learned = any(group.estimate.learned is not None for group in answer)
    names = ["estimate", "certain bounds", "standard error", "95 % interval"]
    for name in [*names, *(["learned estimate", "learned 95 % interval"] if learned else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for group in answer:
        e = group.estimate
        numbers = (
            (f"{e.bounds[0]:,}", "exact", "0", "exact")
            if e.exact
            else (
                f"{e.estimate:,.1f}",
                f"{e.bounds[0]:,} to {e.bounds[1]:,}",
                f"{e.standard_error:,.2f}",
                f"{e.interval[0]:,} to {e.interval[1]:,}",
            )
        )
        found = _learned_cells(e) if learned else ()
        table.add_row(*(Text("" if v is None else printable(str(v))) for v in group.group.values()), *numbers, *found)
    whole = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    before, console.width = console.width, max(console.width, whole)
    console.print(table)
    console.width = before


def _learned_cells(estimate: Estimate) -> tuple[str, str]:
    learned = estimate.learned
    if learned is None:
        return "", ""
    if estimate.exact:
        return f"{estimate.bounds[0]:,}", "exact"
    return f"{learned.estimate:,.1f}", f"{learned.interval[0]:,} to {learned.interval[1]:,}"
