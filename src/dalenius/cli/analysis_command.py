"""dalenius complete, export and crosstab: plain tables, weights and cross-tabs from a release."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal

import click

from dalenius.cli.failures import report_errors
from dalenius.cli.progress_bar import show_progress
from dalenius.cli.table_output import require_form, table_options, write_lines
from dalenius.cli.text_table import LONGEST_NOTE, Command, TextTable, memory_option, printable
from dalenius.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from dalenius.analysis.cross_tabs import CrossTab, Independence
    from dalenius.publishing.published import Release

_BETWEEN = 3  # blanks between columns
_NO_TERMINAL = (240, 24)
_SEED = click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Draw the same again (default: new draws each time)."
)


def _draws(least: int) -> Callable[[Command], Command]:
    """How much draws differ is what is unknown: whatever has intervals needs two."""
    kind = click.IntRange(min=least, max=1000)
    return click.option("--draws", type=kind, default=20, show_default=True, metavar="N", help="Number of draws.")


_COMPLETE_EPILOG = """\b
Examples:
  dalenius complete release --out draws
  dalenius complete release --draws 5 --format csv --out draws
  dalenius complete release --format dta --sensitive Disease --out draws
"""


@click.command("complete", epilog=_COMPLETE_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder to make.")
@_draws(1)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "dta", "sav"]),
    default="parquet",
    show_default=True,
    help="Format of the files; dta is Stata's, and sav that of SPSS.",
)
@click.option(
    "--sensitive", multiple=True, metavar="COLUMN", help="Sensitive column to draw. Repeatable (default: all of them)."
)
@_SEED
@memory_option
@click.option("--force", is_flag=True, help="Replace a folder of completed tables.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def complete_command(
    folder: Path,
    out: Path,
    draws: int,
    form: Literal["parquet", "csv", "dta", "sav"],
    sensitive: tuple[str, ...],
    seed: int | None,
    memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write completed tables of the release in DIR: plain tables, each a possible truth.

    Every draw has the quasi-identifiers as published, and in every bucket exactly its sensitive values. Who has which
    is drawn from what the release tells, and differs from draw to draw. No draw is the data: fit a model to each of
    them, and put the results together by Rubin's rules (dalenius.pool in Python, mice or mitools in R).
    """
    with report_errors(as_json):
        from dalenius.analysis.completing import NOT_DATA, Completion
        from dalenius.analysis.draw_files import write_draws
        from dalenius.release.folder import open_release

        release = open_release(folder, memory)
        with show_progress(as_json, lines=False) as progress:
            completion = Completion(release, draws, columns=sensitive or None, seed=seed, progress=progress)
            files = write_draws(completion, out, form, force=force)
        if as_json:
            facts = {"format": 1, "draws": draws, "rows": completion.rows, "columns": completion.names, "files": files}
            click.echo(json.dumps({**facts, "warning": NOT_DATA, "notes": completion.notes}))
            return
        which = f"{files[0]} to {files[-2]}" if draws > 1 else files[0]
        click.echo(f"{draws:,} completed table{'s' if draws > 1 else ''} of {completion.rows:,} rows: {which}.")
        _warn(NOT_DATA)
        _note(completion.notes)


_EXPORT_EPILOG = """\b
Examples:
  dalenius export release --out weighted.parquet
  dalenius export release --weights bucket --out weighted.csv
"""


@click.command("export", epilog=_EXPORT_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File to write: .parquet or .csv."
)
@click.option(
    "--weights",
    type=click.Choice(["learned", "bucket"]),
    default="learned",
    show_default=True,
    help="Probabilities from what all buckets show together, or from each bucket by itself.",
)
@click.option("--sensitive", metavar="COLUMN", help="Sensitive column, if there are several.")
@memory_option
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export_command(
    folder: Path,
    out: Path,
    weights: Literal["learned", "bucket"],
    sensitive: str | None,
    memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the release in DIR as rows with weights: one for every person and value that they may have.

    The weight is the probability that the person has the value. Any tool that takes weights can use the file. Its
    standard errors are too small: it does not know what is unknown. For those, use dalenius complete.
    """
    with report_errors(as_json):
        from dalenius.analysis.draw_files import write_weights
        from dalenius.analysis.weighing import Weighing
        from dalenius.release.folder import open_release

        release = open_release(folder, memory)
        with show_progress(as_json, lines=False) as progress:
            weighing = Weighing(release, weights, sensitive, progress=progress)
            rows = write_weights(weighing, out, force=force)
        if as_json:
            facts = {"format": 1, "rows": rows, "weights": weights}
            click.echo(json.dumps({**facts, "warning": weighing.warning, "notes": weighing.notes}))
            return
        click.echo(f"{rows:,} rows for {release.manifest.rows:,} people.")
        _warn(weighing.warning)
        _note(weighing.notes)


_CROSSTAB_EPILOG = """\b
Examples:
  dalenius crosstab release Gender Disease
  dalenius crosstab release Age,Gender Disease --bins Age=4 --chi2
  dalenius crosstab release Gender Diagnosis --level Diagnosis=chapter
  dalenius crosstab release Age Disease --bins Age=30,50,70 --format csv > ages.csv
"""


@click.command("crosstab", epilog=_CROSSTAB_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("rows", metavar="ROWS")
@click.argument("columns", metavar="COLUMNS")
@click.option(
    "--bins",
    multiple=True,
    metavar="COLUMN=N|A,B,...",
    help="Put a column of numbers into N ranges, or into ranges that begin at A, B and so on. Repeatable.",
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="COLUMN=LEVEL",
    help="Put a sensitive column's values into their groups on this level, such as diagnosis=chapter. Repeatable.",
)
@click.option("--chi2", "test", is_flag=True, help="Test whether rows and columns go together.")
@click.option(
    "--target",
    type=click.Choice(["table", "population"]),
    default="table",
    show_default=True,
    help="Whom the intervals are about: the people of the table, or whatever they are a sample of.",
)
@_draws(2)
@_SEED
@memory_option
@table_options("cell")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def crosstab_command(
    folder: Path,
    rows: str,
    columns: str,
    bins: tuple[str, ...],
    levels: tuple[str, ...],
    test: bool,
    target: Literal["table", "population"],
    draws: int,
    seed: int | None,
    memory: int | None,
    form: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Estimate from the release in DIR how many people have each value of ROWS and of COLUMNS, with 95 % intervals.

    ROWS and COLUMNS are columns of the release, several with commas between them. At least one is sensitive.
    """
    with report_errors(as_json):
        require_form(form, out, force, as_json)
        if test and form != "text":
            raise UsageError("--chi2 is for text and --json", "Leave out --format, or --chi2.")
        names = _columns(rows), _columns(columns)
        ranges: dict[str, Any] = {"bins": dict(map(_bins, bins)), "levels": dict(map(_level, levels))}
        release = _load(folder, memory)
        with show_progress(as_json, lines=False) as progress:
            found = release.crosstab(*names, **ranges, target=target, draws=draws, seed=seed, progress=progress)
        tested = found.chi2 if test else None
        if test and tested is None:
            raise UsageError("there is one row or one column, so there is nothing to test", "Leave out --chi2.")
        lines = found.tidy()
        if as_json:
            click.echo(json.dumps(_crosstab_object(found, tested, lines)))
        elif form != "text":
            write_lines(lines.to_dict("records"), form, out, force)
            _note(found.notes, to_stderr=True)
        else:
            _show(found, tested)


def _crosstab_object(found: CrossTab, tested: Independence | None, lines: pd.DataFrame) -> dict[str, Any]:
    names = [list(axis.names) for axis in (found.table.index, found.table.columns)]
    both = [name for own in names for name in own]
    cells = [
        {
            "group": {
                name: one if isinstance(one, str | int | float) else str(one)
                for name, one in zip(both, row, strict=False)
            },
            "estimate": row[-4],
            "standard_error": row[-3],
            "interval": list(row[-2:]),
        }
        for row in lines.astype(object).itertuples(index=False, name=None)
    ]
    chi2 = tested and {
        "chi2": tested.chi2,
        "interval": list(tested.interval),
        "degrees_of_freedom": tested.dof,
        "p_value": tested.p_value,
        "cramers_v": tested.cramers_v,
    }
    facts: dict[str, Any] = {"format": 1, "rows": names[0], "columns": names[1], "target": found.target}
    return {**facts, "draws": found.draws, "cells": cells, "chi2": chi2, "notes": list(found.notes)}


def _show(found: CrossTab, tested: Independence | None) -> None:
    """Print estimates with their intervals, as many columns at a time as fit into the terminal, but at least one."""
    index, columns = found.table.index, found.table.columns
    heads = [_label(name) for name in index.names]
    labels = [
        [_label(own) for own in (index[row] if index.nlevels > 1 else (index[row],))] for row in range(len(index))
    ]
    cells = [
        [_label(columns[place]), *(_cell(found, row, place) for row in range(len(index)))]
        for place in range(len(columns))
    ]
    widths = [max(map(len, column)) + _BETWEEN for column in cells]
    room = get_terminal_size(_NO_TERMINAL).columns - sum(
        max(map(len, own)) + _BETWEEN for own in zip(heads, *labels, strict=True)
    )
    start = 0
    while start < len(columns):
        stop = start + max(1, sum(wide <= room for wide in accumulate(widths[start:])))
        shown = cells[start:stop]
        table = TextTable([*heads, *(column[0] for column in shown)], left=heads)
        for row, label in enumerate(labels):
            table.add(*label, *(column[row + 1] for column in shown))
        table.show()
        start = stop
    whose = "the table" if found.target == "table" else "a population of as many people"
    click.echo(f"Estimated counts of {whose} with 95 % intervals, from {found.draws:,} draws.")
    if tested is not None:
        click.echo(printable(repr(tested).splitlines()[0], LONGEST_NOTE))
    _note(found.notes)


def _cell(found: CrossTab, row: int, column: int) -> str:
    low, high = found.low.iat[row, column], found.high.iat[row, column]
    return f"{found.table.iat[row, column]:,.0f} ({low:,.0f} to {high:,.0f})"


def _label(value: Any) -> str:
    return printable(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def _columns(text: str) -> list[str]:
    """Columns as a line of CSV: a name with a comma is in double quotes."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]


def _bins(text: str) -> tuple[str, int | list[float]]:
    name, mark, given = text.rpartition("=")
    try:
        if mark and name and given.isdecimal():
            return name, int(given)
        if mark and name:
            return name, [float(edge) for edge in given.split(",")]
    except ValueError:
        pass
    raise UsageError(f"--bins {text!r} is not a column and its ranges", "Write --bins Age=8, or --bins Age=30,50,70.")


def _level(text: str) -> tuple[str, str]:
    name, mark, level = text.rpartition("=")
    if not mark or not name or not level:
        raise UsageError(f"--level {text!r} is not a column and its level", "Write --level diagnosis=chapter.")
    return name, level


def _load(folder: Path, memory: int | None) -> Release:
    from dalenius.publishing.published import Release
    from dalenius.release.folder import open_release

    return Release(open_release(folder, memory))


def _warn(sentence: str) -> None:
    click.echo(click.style(f"Warning: {printable(sentence, LONGEST_NOTE)}", fg="yellow"))


def _note(notes: Sequence[str], *, to_stderr: bool = False) -> None:
    for note in notes:
        click.echo(f"Note: {printable(note, LONGEST_NOTE)}", err=to_stderr)
