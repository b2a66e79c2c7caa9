"""dalenius query counts from a release; dalenius workload measures, with the raw table, how well it counts.

Engines are imported when a command runs, so that --help need not wait for them.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dalenius.cli.failures import report_errors
from dalenius.cli.text_table import TextTable, printable, show_pairs
from dalenius.errors import DaleniusError, InputError, UsageError
from dalenius.model.estimate import ASSUMPTION, LEARNING, Estimate, GroupEstimate, LearnedEstimate

if TYPE_CHECKING:
    from dalenius.query.workload import WorkloadResult

_QUERY_EPILOG = """\b
Examples:
  dalenius query release "Gender = 'F' AND Disease IN ('HIV', 'Flu')"
  dalenius query release "Age BETWEEN 30 AND 39" --group-by Disease
  dalenius query release --queries queries.txt --json
"""
_LONGEST_FILE = 2**24  # characters of a file of queries
_LONGEST_QUERY = 60  # characters of a query that are printed
_LOOSE = "Note: the condition has too many patterns to try them all; the bounds hold, but tighter ones may exist."

Answer = Estimate | list[GroupEstimate]


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
    "--queries",
    "queries_file",
    metavar="FILE",
    help="File with one expression per line ('-' for standard input); # starts a comment.",
)
@click.option("--learn", is_flag=True, help="Also estimate from the patterns that all buckets show together.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or a list.")
def query_command(
    folder: Path, expression: str | None, groups: tuple[str, ...], queries_file: str | None, learn: bool, as_json: bool
) -> None:
    """Estimate from the release in DIR how many records meet EXPRESSION, with bounds that always hold.

    EXPRESSION is a SQL condition over the quasi-identifiers and the sensitive column. The estimate and its 95 %
    interval assume that, within a bucket, every row is equally likely to have every value.
    """
    with report_errors(as_json):
        if (expression is None) == (queries_file is None):
            raise UsageError("give either EXPRESSION or --queries", "Try 'dalenius query --help'.")
        by = _columns(groups)
        queries = [(None, expression)] if expression is not None else _read_queries(str(queries_file))
        answers = _answers(folder, queries, by, learn)
        texts = [text for _, text in queries]
        if as_json:
            _print_json(texts if queries_file is not None else None, answers, learn)
        else:
            _show_answers(texts if queries_file is not None else None, answers)


def _columns(groups: Sequence[str]) -> list[str]:
    """Columns as a line of CSV: a name with a comma is in double quotes."""
    return [name.strip() for line in groups for name in next(csv.reader([line], skipinitialspace=True), [])]


def _read_queries(name: str) -> list[tuple[int | None, str]]:
    """The queries of a file with their line numbers."""
    try:
        if name == "-":
            text = sys.stdin.read(_LONGEST_FILE + 1)
        else:
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


def _answers(folder: Path, queries: Sequence[tuple[int | None, str]], by: Sequence[str], learn: bool) -> list[Answer]:
    """Answer all queries before anything is printed."""
    from dalenius.query.count import Counter
    from dalenius.release.folder import open_release

    answers: list[Answer] = []
    with Counter(open_release(folder)) as counter:
        for line, text in queries:
            try:
                answers.append(counter.count_by(text, by, learn=learn) if by else counter.count(text, learn=learn))
            except DaleniusError as error:
                if line is not None:
                    error.message = f"line {line}: {error.message}"
                raise
    return answers


def _print_json(queries: Sequence[str] | None, answers: Sequence[Answer], learn: bool) -> None:
    from dalenius.query.count import answer_object

    if queries is None:
        click.echo(json.dumps(answer_object(answers[0], learn)))
        return
    objects = []
    for query, answer in zip(queries, answers, strict=True):
        found = answer_object(answer, learn)
        objects.append({"query": query, **({"groups": found} if isinstance(found, list) else found)})
    click.echo(json.dumps(objects))


def _show_answers(queries: Sequence[str] | None, answers: Sequence[Answer]) -> None:
    """Print answers for people, then once what they rest on."""
    for i, answer in enumerate(answers):
        if queries is not None:
            click.echo(("\n" if i else "") + printable(queries[i], _LONGEST_QUERY))
        if isinstance(answer, Estimate):
            _show_estimate(answer)
        else:
            _show_groups(answer)
    for sentence in _reservations([estimate for answer in answers for estimate in _estimates(answer)]):
        click.echo(f"\n{sentence}")


def _estimates(answer: Answer) -> list[Estimate]:
    return [answer] if isinstance(answer, Estimate) else [group.estimate for group in answer]


def _reservations(estimates: Sequence[Estimate]) -> Iterator[str]:
    """What to keep in mind about these estimates."""
    if not all(estimate.tight for estimate in estimates):
        yield _LOOSE
    if not all(estimate.exact for estimate in estimates):
        yield ASSUMPTION
    for reason in dict.fromkeys(estimate.not_learned for estimate in estimates if estimate.not_learned is not None):
        yield f"Note: nothing was learned. {reason}"
    if any(estimate.learned is not None and not estimate.exact for estimate in estimates):
        yield LEARNING


def _show_estimate(estimate: Estimate) -> None:
    low, high = estimate.bounds
    if estimate.exact:
        show_pairs([("count", f"{low:,}  (exact)")])
        return
    bounds = ("certain bounds", f"{low:,} to {high:,}")
    show_pairs([("estimate", f"{estimate.estimate:,.1f}"), bounds, *_spread(estimate)])
    if (learned := estimate.learned) is not None:
        click.echo("\nlearned from all buckets together")
        show_pairs([("estimate", f"{learned.estimate:,.1f}"), *_spread(learned)])


def _spread(estimate: Estimate | LearnedEstimate) -> list[tuple[str, str]]:
    low, high = estimate.interval
    return [("standard error", f"{estimate.standard_error:,.2f}"), ("95 % interval", f"{low:,} to {high:,}")]


def _show_groups(groups: Sequence[GroupEstimate]) -> None:
    if not groups:
        click.echo("no groups")
        return
    learned = any(group.estimate.learned is not None for group in groups)
    by = [printable(name) for name in groups[0].group]
    numbers = ["estimate", "certain bounds", "standard error", "95 % interval"]
    table = TextTable([*by, *numbers, *(["learned estimate", "learned 95 % interval"] if learned else [])], left=by)
    for group in groups:
        names = ("" if value is None else printable(str(value)) for value in group.group.values())
        more = _learned_cells(group.estimate) if learned else ()
        table.add(*names, *_cells(group.estimate), *more)
    table.show()


def _cells(estimate: Estimate) -> tuple[str, str, str, str]:
    low, high = estimate.bounds
    if estimate.exact:
        return f"{low:,}", "exact", "0", "exact"
    (_, error), (_, interval) = _spread(estimate)
    return f"{estimate.estimate:,.1f}", f"{low:,} to {high:,}", error, interval


def _learned_cells(estimate: Estimate) -> tuple[str, str]:
    learned = estimate.learned
    if learned is None:
        return "", ""
    if estimate.exact:
        return f"{estimate.bounds[0]:,}", "exact"
    return f"{learned.estimate:,.1f}", f"{learned.interval[0]:,} to {learned.interval[1]:,}"


_WORKLOAD_EPILOG = """\b
Examples:
  dalenius workload release --against hospital.parquet --seed 1
  dalenius workload release --against hospital.parquet --queries 500 --learn --json
"""


@click.command("workload", epilog=_WORKLOAD_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--against", required=True, type=click.Path(path_type=Path), help="Table that was published.")
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
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
@click.option("--learn", is_flag=True, help="Also measure estimates from the patterns that all buckets show together.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def workload_command(
    folder: Path,
    against: Path,
    table_name: str | None,
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
        (
            "95 % interval",
            f"contains the truth for {result.coverage:.1%}; mean width {result.mean_interval_width:,.1f}",
        ),
    ]
    if (learned := result.learned) is not None:
        errors = f"mean {learned.mean_relative_error:.4f}, median {learned.median_relative_error:.4f}"
        width = f"mean width {learned.mean_interval_width:,.1f}"
        pairs.append(("learned: relative error", errors))
        pairs.append(("learned: 95 % interval", f"contains the truth for {learned.coverage:.1%}; {width}"))
    elif result.not_learned is not None:
        pairs.append(("learned", f"nothing. {result.not_learned}"))
    show_pairs(pairs)
