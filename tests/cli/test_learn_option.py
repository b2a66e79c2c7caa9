"""Learned estimates, and what intervals are worth, as scripts and people see them."""

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
from tests.query.releases import random_buckets, write_release

Run = Callable[..., Result]

PEOPLE = pa.table({"Gender": list("FFMFMM") * 20, "Age": list(range(40)) * 3, "Disease": ["Flu", "HIV", "Cold"] * 40})
SEPARABLE, MIXED = "Gender = 'F' AND Disease = 'Flu'", "Gender = 'F' OR Disease = 'Flu'"
FIGURES = {"estimate", "standard_error", "interval", "coverage"}
KEYS = {*FIGURES, "format", "method", "bounds", "exact", "at_random", "note"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with a release, its table and a file of queries."""
    monkeypatch.chdir(tmp_path)
    write_release(Path("release"), PEOPLE, "Disease", random_buckets(120, 4))
    pyarrow.parquet.write_table(PEOPLE, "people.parquet")
    Path("queries.txt").write_text(f"{SEPARABLE}\n{MIXED}\n")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(main, list(words), catch_exceptions=False)

    return invoke


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_count(run: Run) -> None:
    found = parsed(run("query", "release", SEPARABLE, "--json"))
    assert set(found) == KEYS
    assert (found["format"], found["method"], found["note"]) == (2, "learned", None)
    assert set(found["at_random"]) == FIGURES
    assert set(found["coverage"]) == set(found["at_random"]["coverage"]) == {"share", "queries", "widened"}
    assert found["bounds"][0] <= found["interval"][0] <= found["interval"][1] <= found["bounds"][1]
    plain = parsed(run("query", "release", SEPARABLE, "--no-learn", "--json"))
    assert (plain["method"], plain["at_random"], plain["note"]) == ("at random", None, None)
    assert {key: plain[key] for key in FIGURES - {"coverage"}} == {
        key: found["at_random"][key] for key in FIGURES - {"coverage"}
    }
    assert plain["coverage"] is not None
    text = run("query", "release", SEPARABLE).stdout
    assert "learned from all buckets together" in text
    assert text.count("simulated truths") == 3
    assert "pulled towards it" in text
    assert "learned" not in run("query", "release", SEPARABLE, "--no-learn", "--no-measure").stdout


def test_no_interval_stands_alone(run: Run) -> None:
    found = parsed(run("query", "release", SEPARABLE, "--no-measure", "--json"))
    assert (found["method"], found["coverage"], found["at_random"]["coverage"]) == ("learned", None, None)
    text = run("query", "release", SEPARABLE, "--no-measure").stdout
    assert text.count("coverage unknown") == 2
    assert "was not measured" in text


def test_what_is_exact_needs_no_coverage(run: Run) -> None:
    found = parsed(run("query", "release", "Gender = 'F'", "--json"))
    assert set(found) == KEYS
    assert (found["method"], found["coverage"], found["at_random"], found["note"]) == ("exact", None, None, None)


def test_a_condition_on_both_is_at_random_with_a_note(run: Run) -> None:
    found = parsed(run("query", "release", MIXED, "--json"))
    assert set(found) == KEYS
    assert (found["method"], found["at_random"]) == ("at random", None)
    assert found["coverage"] is not None
    assert "separate them" in found["note"]
    assert "Note: nothing was learned. The condition ties" in run("query", "release", MIXED).stdout


def test_groups_and_files(run: Run) -> None:
    groups = parsed(run("query", "release", "Age < 20", "--group-by", "Disease,Gender", "--json"))
    assert len(groups) == 6
    assert all(set(group) == {*KEYS, "group"} and group["at_random"] for group in groups)
    separable, mixed = parsed(run("query", "release", "--queries", "queries.txt", "--json"))
    assert (separable["method"], mixed["method"]) == ("learned", "at random")
    text = run("query", "release", "Age < 20", "--group-by", "Disease").stdout
    assert "at random" in text
    assert text.count("held") == 3  # two columns, and the sentence about them


def test_workload(run: Run) -> None:
    words = ("workload", "release", "--against", "people.parquet", "--queries", "50", "--selectivity", "0.2")
    found, plain = parsed(run(*words, "--json")), parsed(run(*words, "--no-learn", "--json"))
    learned = found.pop("learned")
    assert set(learned) == {"mean_relative_error", "median_relative_error", "coverage", "mean_interval_width"}
    assert {**found, "seconds": 0} == {**plain, "seconds": 0}
    assert "learned: 95 % interval" in run(*words).stdout
    assert "learned" not in run(*words, "--no-learn").stdout
