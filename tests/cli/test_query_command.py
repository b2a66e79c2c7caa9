"""query and workload as scripts and people see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from tests.query.releases import write_release

Run = Callable[..., Result]

PEOPLE = pa.table(
    {
        "Gender": ["F", "F", "M", "F", "M", None],
        "a,b": [1, 2, 3, 4, 5, 6],
        "Disease": ["HIV", "Flu", "Flu", "Cold", "Flu", "Cold"],
    }
)
KEYS = {
    "estimate",
    "standard_error",
    "interval",
    "coverage",
    "format",
    "method",
    "bounds",
    "exact",
    "at_random",
    "note",
}
QUICK = ("--no-learn", "--no-measure")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with a release, its table and a file of queries."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    write_release(Path("release"), PEOPLE, "Disease", [1, 1, 1, 2, 2, 2])
    pyarrow.parquet.write_table(PEOPLE, "people.parquet")
    Path("queries.txt").write_text("# counts\n\nGender = 'F'\n  Gender = 'F' AND Disease = 'Flu'  \n")

    def invoke(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, list(words), input=stdin, catch_exceptions=False)

    return invoke


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_count(run: Run) -> None:
    found = parsed(run("query", "release", "Gender = 'F' AND Disease = 'Flu'", *QUICK, "--json"))
    assert set(found) == KEYS
    assert found["estimate"] == pytest.approx(2 * 2 / 3 + 1 * 1 / 3)
    assert found["bounds"] == [1, 3]
    assert found["exact"] is False
    text = run("query", "release", "Gender = 'F' AND Disease = 'Flu'", *QUICK).stdout
    assert "estimate        1.7" in text
    assert "certain bounds  1 to 3" in text
    assert "every row is equally likely to own every value" in " ".join(text.split())


def test_an_exact_count_assumes_nothing(run: Run) -> None:
    result = run("query", "release", "Gender = 'F'")
    assert result.stdout == "count  3  (exact)\n"


def test_groups(run: Run) -> None:
    found = parsed(run("query", "release", "Disease = 'Flu'", "--group-by", 'Gender,"a,b"', "--json"))
    assert [entry["group"] for entry in found][-1] == {"Gender": None, "a,b": 6}
    assert all(set(entry) == {"group", *KEYS} for entry in found)
    text = run("query", "release", "Disease = 'Flu'", "--group-by", "Gender", "--group-by", "Disease").stdout
    assert text.count("Flu") == 5 - 2
    assert "Gender" in text


def test_many_queries(run: Run) -> None:
    found = parsed(run("query", "release", "--queries", "queries.txt", "--json"))
    assert [entry["query"] for entry in found] == ["Gender = 'F'", "Gender = 'F' AND Disease = 'Flu'"]
    assert [entry["exact"] for entry in found] == [True, False]
    assert parsed(run("query", "release", "--queries", "-", "--json", stdin="TRUE\n"))[0]["bounds"] == [6, 6]
    grouped = parsed(run("query", "release", "--queries", "queries.txt", "--group-by", "Disease", "--json"))
    assert [entry["group"]["Disease"] for entry in grouped[0]["groups"]] == ["Cold", "Flu", "HIV"]
    text = run("query", "release", "--queries", "queries.txt").stdout
    assert text.index("Gender = 'F'\n") < text.index("Gender = 'F' AND")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_bad_query_in_a_file_is_named_and_nothing_else_is_printed(run: Run, form: str) -> None:
    lines = "Gender = 'F'\n\n# fine so far\nGendr = 'F'\n"
    result = run("query", "release", "--queries", "-", *(["--json"] if form == "json" else []), stdin=lines)
    assert result.exit_code == 2
    if form == "json":
        assert json.loads(result.stdout)["error"] == {
            "kind": "no-such-column",
            "message": "line 4: the release has no column 'Gendr'",
            "hint": "Did you mean 'Gender'?",
        }
    else:
        assert result.stdout == ""
        assert "line 4" in result.stderr


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["release"], "usage"),
        (["release", "TRUE", "--queries", "queries.txt"], "usage"),
        (["release", "--queries", "missing.txt"], "input"),
        (["release", "--queries", "people.parquet"], "input"),
        (["nowhere", "TRUE"], "release"),
        (["release", "(SELECT 1) = 1"], "query"),
        (["release", "TRUE", "--group-by", "bucket"], "query"),
    ],
)
def test_errors(run: Run, words: list[str], kind: str) -> None:
    result = run("query", *words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == kind


@pytest.fixture
def incomes(run: Run) -> Run:
    """The same with a release of numbers in the folder "incomes"."""
    table = pa.table({"Gender": ["F", "F", "M", "F", "M", "M"], "Income": [10, 40, 20, 70, None, 30]})
    write_release(Path("incomes"), table, "Income", [1, 1, 1, 2, 2, 2])
    return run


FIGURE_KEYS = {"method", "estimate", "standard_error", "interval", "bounds", "exact", "at_random", "note"}


def test_means_sums_and_quantiles(incomes: Run) -> None:
    """Two of 10, 20, 40; and one of 30, 70 or nothing."""
    words = ["query", "incomes", "Gender = 'F'", "--mean", "--sum", "--median", "--quantile", "1"]
    found = parsed(incomes(*words, "--json"))
    assert set(found) == {"format", "records", "mean", "sum", "quantiles"}
    assert (found["format"], found["records"]) == (1, [2, 3])
    assert set(found["mean"]) == set(found["sum"]) == FIGURE_KEYS
    assert (found["mean"]["bounds"], found["sum"]["bounds"]) == ([15.0, outwards_of_130_thirds()], [30, 130])
    assert found["sum"]["estimate"] == pytest.approx(2 * 70 / 3 + 100 / 3)
    assert [one.pop("quantile") for one in found["quantiles"]] == [0.5, 1.0]
    assert [one["bounds"] for one in found["quantiles"]] == [[10, 40], [20, 70]]
    assert all(set(one) == FIGURE_KEYS for one in found["quantiles"])
    lines = [line.split() for line in incomes(*words).stdout.splitlines()]
    assert ["sum", "80.0000", "30", "to", "130"] in [line[:5] for line in lines]
    assert ["median", "20", "10", "to", "40"] in [line[:5] for line in lines]
    assert lines[-1][-5:] == ["the", "truth", "may", "lie", "outside."]


def outwards_of_130_thirds() -> float:
    return 43.3333333333334


def test_figures_by_group_and_by_file(incomes: Run) -> None:
    groups = parsed(incomes("query", "incomes", "Income < 70", "--mean", "--group-by", "Gender", "--json"))
    assert [entry["group"] for entry in groups] == [{"Gender": "F"}, {"Gender": "M"}]
    assert [entry["records"] for entry in groups] == [[2, 3], [1, 2]]
    found = parsed(incomes("query", "incomes", "--queries", "-", "--sum", "--json", stdin="TRUE\nIncome > 99\n"))
    assert [(one["query"], one["sum"]["exact"], one["sum"]["bounds"]) for one in found] == [
        ("TRUE", True, [170, 170]),
        ("Income > 99", True, [0, 0]),
    ]
    text = incomes("query", "incomes", "Gender = 'F' AND Income > 60", "--median", "--group-by", "Gender").stdout
    assert "perhaps nobody" in text
    assert incomes("query", "incomes", "Income > 99", "--mean", "--group-by", "Gender").stdout == "no groups\n"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["release", "TRUE", "--mean"], "query"),
        (["incomes", "Income > 99", "--mean"], "query"),
        (["incomes", "Gender = 'F' OR Income > 20", "--sum"], "query"),
        (["incomes", "TRUE", "--median", "--group-by", "Income"], "query"),
        (["incomes", "TRUE", "--quantile", "1.5"], "usage"),
    ],
)
def test_figures_that_cannot_be(incomes: Run, words: list[str], kind: str) -> None:
    result = incomes("query", *words, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == kind
    assert error["hint"]


def test_workload(run: Run) -> None:
    words = ["workload", "release", "--against", "people.parquet", "--queries", "50", "--selectivity", "0.3"]
    found = parsed(run(*words, "--seed", "3", "--no-learn", "--json"))
    assert found.pop("seconds") >= 0
    assert found["queries"] == found["bounds_hold"] == 50
    assert set(found) == {
        "format",
        "queries",
        "selectivity",
        "seed",
        "empty",
        "mean_relative_error",
        "median_relative_error",
        "bounds_hold",
        "coverage",
        "mean_interval_width",
        "mean_bounds_width",
    }
    text = run(*words, "--no-learn")
    assert text.exit_code == 0
    assert "bounds          hold for 50" in text.stdout


def test_workload_errors(run: Run) -> None:
    pyarrow.parquet.write_table(PEOPLE.drop_columns(["Gender"]), "other.parquet")
    for words, kind in (
        (["--against", "other.parquet"], "no-such-column"),
        (["--against", "nowhere.parquet"], "input"),
        (["--against", "people.parquet", "--selectivity", "2"], "usage"),
        (["--against", "people.parquet", "--queries", "0"], "usage"),
        ([], "usage"),
    ):
        result = run("workload", "release", *words, "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["error"]["kind"] == kind
