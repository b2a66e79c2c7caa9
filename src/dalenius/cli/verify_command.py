"""dalenius verify: is the release what it says, and does it keep every limit?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dalenius.cli.failures import CHECK_FAILED, reported
from dalenius.errors import PolicyError, UsageError
from dalenius.model.verdict import Check, Outcome, Verdict

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy


_EPILOG = """\b
Examples:
  dalenius verify release
  dalenius verify release --job job.toml
  dalenius verify release --against hospital.parquet --json
"""
_MARKS = {Outcome.PASSED: ("ok", "green"), Outcome.FAILED: ("FAILED", "red"), Outcome.NOT_CHECKED: ("?", "yellow")}


@click.command("verify", epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--job", type=click.Path(path_type=Path), help="Hold the release against the limits of this job file (TOML)."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="The table that was published: check that the release has exactly its records.",
)
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file given as --against.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify_command(folder: Path, job: Path | None, against: Path | None, table_name: str | None, as_json: bool) -> None:
    """Check the release in DIR from its files alone: every bucket against every limit, and all that the manifest says.

    Shares no code with what publishes. Nothing is written. Exit code 0 if every check passed, 1 if one did not.
    """
    with reported(as_json):
        if table_name is not None and against is None:
            raise UsageError("--table is for a DuckDB file given as --against", "Give --against, or leave it out.")
        policy = _policy(job) if job is not None else None
        from dalenius.verify.judge import verify

        with _progress(as_json) as progress:
            verdict = verify(folder, policy=policy, against=against, table=table_name, progress=progress)
        if as_json:
            from dalenius.verify.findings import verdict_object

            click.echo(json.dumps(verdict_object(verdict)))
        else:
            _show(verdict)
        if not verdict.verified:
            sys.exit(CHECK_FAILED)


def _policy(job: Path) -> LimitPolicy:
    from dalenius.policy.job import read_job
    from dalenius.policy.limits import LimitPolicy

    policy = read_job(job).limits.policy()
    if policy == LimitPolicy():
        raise PolicyError("the job file gives no limits", "Give it a [limits] section, or leave --job out.")
    return policy


def _show(verdict: Verdict) -> None:
    from dalenius.cli.render_plan import printable

    longest = max(len(check.check) for check in verdict.checks)
    for check in verdict.checks:
        mark, color = _MARKS[check.outcome]
        lines = [found.message for found in check.findings] or [check.summary]
        start = f"{check.check:<{longest}}  {click.style(f'{mark:<6}', fg=color)}  "
        for line in lines:
            click.echo(start + printable(line, 2000))
            start = " " * (longest + 10)
    for note in verdict.notes:
        click.echo(click.style(f"Note: {printable(note, 2000)}.", fg="yellow"))
    click.echo(_sentence(verdict))


def _sentence(verdict: Verdict) -> str:
    if verdict.verified:
        size = f"{verdict.rows:,} rows in {verdict.buckets:,} buckets"
        return click.style("Verified", fg="green", bold=True) + f": {size} keep every limit."
    failed = _number(verdict.checks, Outcome.FAILED)
    skipped = _number(verdict.checks, Outcome.NOT_CHECKED)
    rest = f", {skipped} could not be made" if skipped else ""
    return (
        click.style("NOT verified", fg="red", bold=True) + f": {failed} of {len(verdict.checks)} checks failed{rest}."
    )


def _number(checks: tuple[Check, ...], outcome: Outcome) -> int:
    return sum(1 for check in checks if check.outcome is outcome)


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal, nothing elsewhere."""
    if as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Verifying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
