"""Answers as tables with a line for each: CSV on standard output, or a file of CSV or Parquet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from dalenius.cli.text_table import Command
from dalenius.errors import UsageError


def table_options(line: str) -> Callable[[Command], Command]:
    """Text or a table, which has a line for each of what is named; and where it goes."""

    def add(command: Command) -> Command:
        for option in (
            click.option("--force", is_flag=True, help="Replace an existing file."),
            click.option(
                "--out", type=click.Path(path_type=Path), metavar="FILE", help="File for --format csv or parquet."
            ),
            click.option(
                "--format",
                "form",
                type=click.Choice(["text", "csv", "parquet"]),
                default="text",
                show_default=True,
                help=f"Give text, or a table with a line for each {line}.",
            ),
        ):
            command = option(command)
        return command

    return add


def require_form(form: str, out: Path | None, as_json: bool) -> None:
    """Refuse formats and files that do not go together."""
    if as_json and (form != "text" or out is not None):
        raise UsageError("--json prints JSON", "Leave out --format and --out, or --json.")
    if form == "parquet" and out is None:
        raise UsageError("--format parquet needs a file", "Give --out FILE.parquet.")
    if form == "text" and out is not None:
        raise UsageError("--out is for --format csv or parquet", "Give one of them.")


def write_lines(lines: Sequence[dict[str, Any]], form: str, out: Path | None, force: bool) -> None:
    """A table as CSV or Parquet, to a file; as CSV also to standard output."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    if out is None:
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return
    import pyarrow as pa

    from dalenius.analysis.draw_files import write_table

    table = pa.table({name: [line.get(name) for line in lines] for name in names})
    write_table(table, out, as_csv=form == "csv", force=force)
