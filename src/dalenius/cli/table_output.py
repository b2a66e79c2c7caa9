"""Answers as tables with a line for each: CSV on standard output, or a file of CSV or Parquet."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.text_table import Command
from dalenius.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


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


def require_form(form: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Refuse formats and files that do not go together."""
    if as_json and (form != "text" or out is not None):
        raise UsageError("--json prints JSON", "Leave out --format and --out, or --json.")
    if form == "parquet" and out is None:
        raise UsageError("--format parquet needs a file", "Give --out FILE.parquet.")
    if form == "text" and out is not None:
        raise UsageError("--out is for --format csv or parquet", "Give one of them.")
    if out is not None:
        from dalenius.analysis.draw_files import require_free

        if out.suffix in (".csv", ".parquet") and out.suffix != f".{form}":
            raise UsageError(f"--format {form} would be in a file whose name ends in {out.suffix}", "Change either.")
        require_free(out, force)


def write_lines(lines: Sequence[dict[str, Any]], form: str, out: Path | None, force: bool) -> None:
    """A table as CSV or Parquet, to a file; as CSV also to standard output."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        content = text.getvalue().encode()
        if out is None:
            sys.stdout.write(text.getvalue())
            return
    else:
        import pyarrow as pa
        import pyarrow.parquet

        held = pa.BufferOutputStream()
        table = pa.table({name: _column([line.get(name) for line in lines]) for name in names})
        pyarrow.parquet.write_table(table, held)
        content = held.getvalue().to_pybytes()
    from dalenius.analysis.draw_files import write_results

    if out is not None:
        write_results(content, out, force=force)


def _column(cells: list[Any]) -> pa.Array:
    """Cells as one type: numbers of several kinds are floating, and whatever else goes together is text."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        if all(cell is None or isinstance(cell, int | float | Decimal) for cell in cells):
            with suppress(OverflowError):  # a whole number can be larger than any that is floating
                return pa.array([None if cell is None else float(cell) for cell in cells])
        return pa.array([None if cell is None else str(cell) for cell in cells])
