"""dalenius audit: what do simulated attackers get out of a release?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dalenius.cli.failures import CHECK_FAILED, reported
from dalenius.cli.progress_bar import shown_progress
from dalenius.errors import UsageError
from dalenius.model.attack_result import ATTACKS
from dalenius.model.progress import Progress, Silent

_EPILOG = """\b
Examples:
  dalenius audit release
  dalenius audit release --truth hospital.parquet
  dalenius audit release --truth hospital.parquet --attack corruption --known 2 --json
"""


@click.command("audit", epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="The table that was published: says how often the attackers are right.",
)
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file given as --truth.")
@click.option(
    "--attack",
    "attacks",
    multiple=True,
    type=click.Choice(list(ATTACKS)),
    help="Play this attacker only. Repeatable; all of them by default.",
)
@click.option(
    "--known",
    type=click.IntRange(min=0),
    metavar="Q",
    help="Records of a bucket that the corrupting attacker knows. By default what the release withstands, at least 1.",
)
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="People with the same columns who are not in the release: how well are they guessed?",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit_command(
    folder: Path,
    truth: Path | None,
    table_name: str | None,
    attacks: tuple[str, ...],
    known: int | None,
    control: Path | None,
    as_json: bool,
) -> None:
    """Play simulated attackers against the release in DIR, and say what each of them gets.

    Nothing is written. Exit code 0, or 1 if an attack broke a promise of the release. What --truth shows was computed
    from the raw table: it is for the publisher, and not for publication.
    """
    with reported(as_json):
        if table_name is not None and truth is None:
            raise UsageError("--table is for a DuckDB file given as --truth", "Give --truth, or leave it out.")
        if control is not None and attacks and "learning" not in attacks:
            raise UsageError("--control is for the learning attack", "Give --attack learning, or leave it out.")
        from dalenius.attack.audit import audit

        with _progress(as_json) as progress:
            found = audit(
                folder,
                truth=truth,
                table=table_name,
                attacks=attacks or tuple(ATTACKS),
                known=known,
                control=control,
                progress=progress,
            )
        if as_json:
            from dalenius.attack.audit import audit_object

            click.echo(json.dumps(audit_object(found)))
        else:
            from dalenius.cli.render_audit import show_audit

            show_audit(found)
        if found.broken:
            sys.exit(CHECK_FAILED)


@contextmanager
def _progress(as_json: bool) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere."""
    if as_json or not sys.stderr.isatty():
        yield Silent()
        return
    with shown_progress(as_json) as progress:
        yield progress
