"""dalenius query answers from a release; dalenius workload measures, with the raw table, how well it counts.

Engines are imported when a command runs, so that --help need not wait for them.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.failures import report_errors
from dalenius.cli.show_answers import Answer, show_answers
from dalenius.cli.table_output import require_form, table_options, write_lines
from dalenius.cli.text_table import count_allowance, count_options, show_pairs
from dalenius.errors import DaleniusError, InputError, UsageError
from dalenius.model.estimate import Asked, Figures, Unit
from dalenius.tables.delimited import require_regular
from dalenius.tables.killable import in_child

if TYPE_CHECKING:
    from dalenius.query.workload import WorkloadResult

_QUERY_EPILOG = """\b
Examples:
  dalenius query release "Gender = 'F' AND Disease IN ('HIV', 'Flu')"
  dalenius query release "Age BETWEEN 30 AND 39" --group-by Disease
  dalenius query release "Age < 30" --mean --median --quantile 0.9
  dalenius query release --queries queries.txt --json
  dalenius query release TRUE --group-by Age,Disease --format csv > counts.csv
"""
_LONGEST_FILE = 2**24  # characters of a file of queries


@click.command("query", epilog=_QUERY_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("expression", required=False, metavar="[EXPRESSION]")
@click.option(
    "--group-by",
    "groups",
    multiple=True,
    metavar="COLUMN[,...]",
    help="Count every group of these columns' values. Repeatable.",
)
@click.option(
    "--count",
    "unit",
    type=click.Choice(["people", "rows"]),
    default="people",
    show_default=True,
    help="What to count where people have several rows.",
)
@click.option("--mean", is_flag=True, help="Give the mean of the sensitive numbers instead of a count.")
@click.option("--sum", "total", is_flag=True, help="Give their sum.")
@click.option("--median", is_flag=True, help="Give their median.")
@click.option(
    "--quantile", "quantiles", type=float, multiple=True, metavar="Q", help="Give quantile Q, from 0 to 1. Repeatable."
)
@click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="File with one expression per line ('-' for standard input); # starts a comment.",
)
@click.option(
    "--learn/--no-learn",
    default=True,
    show_default=True,
    help="Estimate from the patterns that all buckets show together, or only from single buckets.",
)
@click.option(
    "--measure/--no-measure",
    default=True,
    show_default=True,
    help="Measure on simulated truths how often intervals hold, and widen learned ones. Takes some seconds.",
)
@count_options
@table_options("answer and group")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or a list.")
def query_command(
    folder: Path,
    expression: str | None,
    groups: tuple[str, ...],
    unit: Unit,
    mean: bool,
    total: bool,
    median: bool,
    quantiles: tuple[float, ...],
    queries_file: str | None,
    learn: bool,
    measure: bool,
    timeout: float,
    memory: str | None,
    form: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Estimate from the release in DIR how many people meet EXPRESSION, with bounds that always hold.

    EXPRESSION is a SQL condition over the quasi-identifiers and the sensitive column. The estimate is learned from all
    buckets together where that is possible. Its 95 % interval says how often intervals like it hold the truth.

    Where people have several rows, a person counts if one of their rows meets what EXPRESSION says of
    quasi-identifiers, and one of their values, in any row, meets what it says of each sensitive column. --count rows
    counts rows instead.

    With --mean, --sum, --median and --quantile, the answer is about the sensitive numbers of these records. Estimates
    are learned if the numbers are in bands. Their intervals are too narrow.
    """
    with report_errors(as_json):
        if (expression is None) == (queries_file is None):
            raise UsageError("give either EXPRESSION or --queries", "For all records, the expression is TRUE.")
        require_form(form, out, force, as_json)
        by = _columns(groups)
        queries = [(None, expression)] if expression is not None else _read_queries(str(queries_file))
        allowance = count_allowance(timeout, memory)
        lines, texts = zip(*queries, strict=True)
        how = {"learn": learn, "measure": measure}
        levels = dict.fromkeys([0.5, *quantiles] if median else quantiles)
        asked = Asked(mean=mean, sum=total, quantiles=tuple(levels)) if mean or total or levels else None
        work = partial(_answers, folder, texts, by, asked, how, allowance.engine, unit, as_json)
        answers = _collected(in_child(work, allowance), lines)
        if as_json:
            _print_json(texts if queries_file is not None else None, answers)
        elif form != "text":
            write_lines(list(_lines(texts if queries_file is not None else None, answers)), form, out, force)
        else:
            show_answers(texts if queries_file is not None else None, answers)


def _columns(groups: Sequence[str]) -> list[str]:
    """Columns as a line of CSV: a name with a comma is in double quotes."""
    return [name.strip() for line in groups for name in next(csv.reader([line], skipinitialspace=True), [])]


def _read_queries(name: str) -> list[tuple[int | None, str]]:
    """The queries of a file with their line numbers."""
    try:
        if name == "-":
            text = sys.stdin.read(_LONGEST_FILE + 1)
        else:
            require_regular(Path(name))
            with Path(name).open(encoding="utf-8-sig") as file:
                text = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"the query file cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise InputError("the query file is not UTF-8 text", "Save it as UTF-8.") from None
    if len(text) > _LONGEST_FILE:
        raise InputError(f"the query file has more than {_LONGEST_FILE:,} characters", "Split it.")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    queries = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not queries:
        raise InputError("the query file has no query", "Write one expression per line.")
    return list(queries)


def _answers(
    folder: Path,
    texts: Sequence[str],
    by: Sequence[str],
    asked: Asked | None,
    how: dict[str, bool],
    memory: str,
    unit: Unit,
    as_json: bool,
) -> Iterator[Any]:
    """None once the release is open, then one answer after the other. Libraries are imported by the child alone."""
    from dalenius.query.count import answer_object
    from dalenius.query.people_count import open_counter
    from dalenius.release.folder import open_release

    with open_counter(open_release(folder), memory=memory, unit=unit) as counter:
        yield None
        for text in texts:
            if asked is not None:
                from dalenius.query.figures import figures, figures_object  # here, because counts need no arrays

                found = figures(counter, text, asked, by, learn=how["learn"])
                objects = [figures_object(one) for one in found]
                yield found if not as_json else objects if by else objects[0]
                continue
            answer: Answer = counter.count_by(text, by, **how) if by else counter.count(text, **how)
            yield answer_object(answer) if as_json else answer


def _collected(answers: Iterator[Any], lines: Sequence[int | None]) -> list[Any]:
    """All answers, before anything is printed. An error says in which line its query is."""
    received: list[Any] = []
    try:
        received.extend(answers)
    except DaleniusError as error:
        if received and (line := lines[len(received) - 1]) is not None:
            error.message = f"line {line}: {error.message}"
        raise
    return received[1:]


def _lines(queries: Sequence[str] | None, answers: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """A line for each answer, group and figure; with its query, where they come from a file."""
    for number, answer in enumerate(answers):
        asked = {"query": queries[number]} if queries is not None else {}
        for one in answer if isinstance(answer, list) else [answer]:
            for row in one.as_rows() if isinstance(one, Figures) else [one.as_row()]:
                yield {**asked, **row}


def _print_json(queries: Sequence[str] | None, answers: Sequence[Any]) -> None:
    if queries is None:
        click.echo(json.dumps(answers[0]))
        return
    objects = [
        {"query": query, **({"groups": answer} if isinstance(answer, list) else answer)}
        for query, answer in zip(queries, answers, strict=True)
    ]
    click.echo(json.dumps(objects))


_WORKLOAD_EPILOG = """\b
Examples:
  dalenius workload release --against hospital.parquet --seed 1
  dalenius workload release --against hospital.parquet --queries 500 --json
"""


@click.command("workload", epilog=_WORKLOAD_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--against", required=True, type=click.Path(path_type=Path), help="Table that was published.")
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@click.option("--sensitive", metavar="COLUMN", help="Sensitive column of the queries, if there are several.")
@click.option("--queries", type=int, default=5_000, show_default=True, metavar="N", help="Number of random queries.")
@click.option(
    "--selectivity",
    type=float,
    default=0.01,
    show_default=True,
    metavar="S",
    help="Share of the records that a query is expected to match.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of the random queries."
)
@click.option(
    "--learn/--no-learn",
    default=True,
    show_default=True,
    help="Measure estimates from the patterns that all buckets show together, or only from single buckets.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def workload_command(
    folder: Path,
    against: Path,
    table_name: str | None,
    sensitive: str | None,
    queries: int,
    selectivity: float,
    seed: int,
    learn: bool,
    as_json: bool,
) -> None:
    """Compare counts from the release in DIR with true counts, on the random queries of the paper.

    For the publisher and for research: it reads the raw table, and its output is computed from it.
    """
    with report_errors(as_json):
        from dalenius.query.workload import evaluate, workload_object
        from dalenius.release.folder import open_release

        start = time.perf_counter()
        result = evaluate(
            open_release(folder),
            against,
            table=table_name,
            queries=queries,
            selectivity=selectivity,
            seed=seed,
            learn=learn,
            sensitive=sensitive,
        )
        if as_json:
            click.echo(json.dumps(workload_object(result, selectivity, seed, time.perf_counter() - start, learn)))
        else:
            _show_workload(result)


def _show_workload(result: WorkloadResult) -> None:
    """Print the result for people."""
    pairs = [
        ("queries", f"{result.queries:,}; {result.empty:,} of them match nobody and have no relative error"),
        ("relative error", f"mean {result.mean_relative_error:.4f}, median {result.median_relative_error:.4f}"),
        ("bounds", f"hold for {result.bounds_hold:,}; mean width {result.mean_bounds_width:,.1f}"),
        ("95 % interval", f"holds the truth for {result.coverage:.1%}; mean width {result.mean_interval_width:,.1f}"),
    ]
    if (learned := result.learned) is not None:
        errors = f"mean {learned.mean_relative_error:.4f}, median {learned.median_relative_error:.4f}"
        width = f"mean width {learned.mean_interval_width:,.1f}"
        held = f"holds the truth for {learned.coverage:.1%}; {width}"
        pairs += [("learned: relative error", errors), ("learned: 95 % interval", held)]
    elif result.not_learned is not None:
        pairs.append(("learned", f"nothing. {result.not_learned}"))
    show_pairs(pairs)
