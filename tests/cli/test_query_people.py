"""query on releases of people with several rows and several sensitive columns, as scripts and people see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from tests.query.people_releases import People
from tests.query.test_people_semantics import PATIENTS, SINGLE

Run = Callable[..., Result]
KEYS = {
    "format",
    "method",
    "estimate",
    "standard_error",
    "interval",
    "coverage",
    "bounds",
    "exact",
    "at_random",
    "note",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with two releases."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    People(PATIENTS.people, sets=PATIENTS.sets, dropped=2).write(Path("people"))
    SINGLE.write(Path("single"))

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(main, list(words), catch_exceptions=False)

    return invoke


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_people_are_counted(run: Run) -> None:
    found = parsed(run("query", "people", "Age <= 31 AND Disease = 'flu'", "--json"))
    assert set(found) == KEYS | {"counted", "dropped"}
    assert (found["counted"], found["dropped"], found["bounds"]) == ("people", 2, [1, 3])
    assert found["method"] == "at random"
    assert found["coverage"] is None
    assert "one row and one value" in found["note"]


def test_rows_are_counted(run: Run) -> None:
    found = parsed(run("query", "people", "Disease = 'flu'", "--count", "rows", "--json"))
    assert (found["counted"], found["bounds"], found["exact"]) == ("rows", [5, 5], True)
    assert found["note"] is None


def test_the_text_says_what_was_counted_and_assumed(run: Run) -> None:
    text = run("query", "people", "Age <= 31 AND Disease = 'flu' AND Drug = 'up'").stdout
    assert "people  (at random in buckets)" in text
    assert "coverage unknown" in text
    said = " ".join(text.split())
    assert "Note: 2 rows of people with many were not published." in said
    assert "Note: nothing was learned." in said
    assert "everybody is equally likely to own every value" in said
    assert "different sensitive columns have nothing to do with each other" in said
    assert "count  5 rows  (exact)" in run("query", "people", "Disease = 'flu'", "--count", "rows").stdout


def test_groups_and_files_of_queries(run: Run) -> None:
    table = run("query", "people", "TRUE", "--group-by", "Disease").stdout.splitlines()
    assert table[0].split()[:2] == ["Disease", "people"]
    Path("queries.txt").write_text("Disease = 'flu'\nAge < 40 AND Drug = 'up'\n")
    found = parsed(run("query", "people", "--queries", "queries.txt", "--group-by", "Drug", "--json"))
    assert [group["group"]["Drug"] for group in found[0]["groups"]] == ["down", "no", "up"]
    assert [len(one["groups"]) for one in found] == [3, 3]


def test_bounds_that_may_not_be_the_closest_are_told(run: Run) -> None:
    query = ("query", "people", "Age <= 31 AND Disease IN ('flu', 'cold')", "--count", "rows")
    assert parsed(run(*query, "--json"))["tight"] is False
    assert "who has several of the values is not known" in run(*query).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("query", "people", "Disease = 'flu' OR Drug = 'up'"), "ties 'Disease' to another sensitive column"),
        (("query", "people", "TRUE", "--mean"), "people have several rows"),
        (("query", "single", "TRUE", "--mean"), "no sensitive column has numbers"),
        (("query", "people", "TRUE", "--count", "heads"), "is not one of"),
        (("workload", "people", "--against", "x.parquet"), "one row and one value"),
        (("workload", "single", "--against", "x.parquet", "--sensitive", "drg"), "no sensitive column 'drg'"),
    ],
)
def test_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_one_column_of_several_is_like_a_plain_release(run: Run) -> None:
    found = parsed(run("query", "single", "Age < 40 AND drug = 'up'", "--no-measure", "--json"))
    assert set(found) == KEYS
    both = parsed(run("query", "single", "Drug = 'up' AND Disease = 'flu'", "--json"))
    assert both["counted"] == "people"
