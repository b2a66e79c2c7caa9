"""dalenius query: count from a release. Engines and rendering are imported when the command runs.

dalenius workload: how well does a release count? For those who hold the raw table.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from dalenius.cli.failures import reported
from dalenius.errors import DaleniusError, InputError, UsageError
from dalenius.model.estimate import Estimate, GroupEstimate

_QUERY_EPILOG = """\b
Examples:
  dalenius query release "Gender = 'F' AND Disease IN ('HIV', 'Flu')"
  dalenius query release "Age BETWEEN 30 AND 39" --group-by Disease
  dalenius query release --queries queries.txt --json
"""
_LONGEST_FILE = 2**24  # characters of a file of queries

Answer = Estimate | list[GroupEstimate]


@click.command("query", epilog=_QUERY_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("expression", required=False, metavar="[EXPRESSION]")
@click.option(
    "--group-by",
    "groups",
    multiple=True,
    metavar="COLUMN[,...]",
    help="One count for every group of these columns' values. Repeatable.",
)
@click.option(
    "--queries", "queries_file", metavar="FILE", help="One expression a line ('-': standard input); # starts a comment."
)
@click.option("--learn", is_flag=True, help="Also estimate from what all buckets together show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or a list.")
def query_command(
    folder: Path, expression: str | None, groups: tuple[str, ...], queries_file: str | None, learn: bool, as_json: bool
) -> None:
    """Estimate from the release in DIR how many records meet EXPRESSION, and say what is certain.

    EXPRESSION is a SQL condition over the quasi-identifiers and the sensitive column. Bounds always hold; the estimate
    and its 95 % interval assume that within a bucket every row is equally likely to own every value.
    """
    with reported(as_json):
        if (expression is None) == (queries_file is None):
            raise UsageError("one of EXPRESSION and --queries is wanted", "Try 'dalenius query --help'.")
        by = _columns(groups)
        queries = [(None, expression)] if expression is not None else _read_queries(str(queries_file))
        answers = _answers(folder, queries, by, learn)
        texts = [text for _, text in queries]
        if as_json:
            _print_json(texts if queries_file is not None else None, answers, learn)
        else:
            from dalenius.cli.render_estimates import show_answers

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
            with Path(name).open(encoding="utf-8-sig") as file:
                text = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"the file of queries cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise InputError("the file of queries is not UTF-8 text", "Save it as UTF-8.") from None
    if len(text) > _LONGEST_FILE:
        raise InputError(f"the file of queries has more than {_LONGEST_FILE:,} characters", "Split it.")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    queries = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not queries:
        raise InputError("the file of queries has no query", "Write one expression a line.")
    return list(queries)


def _answers(folder: Path, queries: Sequence[tuple[int | None, str]], by: Sequence[str], learn: bool) -> list[Answer]:
    """All the answers, before anything is printed."""
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


_WORKLOAD_EPILOG = """\b
Examples:
  dalenius workload release --against hospital.parquet --seed 1
  dalenius workload release --against hospital.parquet --queries 500 --learn --json
"""


@click.command("workload", epilog=_WORKLOAD_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--against", required=True, type=click.Path(path_type=Path), help="The table that the release was made from."
)
@click.option("--table", "table_name", metavar="NAME", help="The table to read from a DuckDB file.")
@click.option("--queries", type=int, default=5_000, show_default=True, metavar="N", help="Number of random queries.")
@click.option(
    "--selectivity",
    type=float,
    default=0.01,
    show_default=True,
    metavar="S",
    help="Expected share of matching records.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Which queries.")
@click.option("--learn", is_flag=True, help="Also measure estimates from what all buckets together show.")
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
    """Compare counts from the release in DIR with the true ones, on the paper's random count queries.

    A tool for the publisher and for research: it reads the raw table, and what it prints was computed from it.
    """
    with reported(as_json):
        from dalenius.cli.render_estimates import show_workload
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
            show_workload(result)
