"""--learn as scripts and people see it."""

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
KEYS = {"estimate", "bounds", "standard_error", "interval", "exact", "learned"}


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
    found = parsed(run("query", "release", SEPARABLE, "--learn", "--json"))
    assert set(found) == KEYS
    assert set(found["learned"]) == {"estimate", "standard_error", "interval"}
    assert (
        found["bounds"][0] <= found["learned"]["interval"][0] <= found["learned"]["interval"][1] <= found["bounds"][1]
    )
    plain = parsed(run("query", "release", SEPARABLE, "--json"))
    assert plain == {key: found[key] for key in KEYS - {"learned"}}
    text = run("query", "release", SEPARABLE, "--learn").stdout
    assert text.index("learned from all buckets together") > text.index("certain bounds")
    assert "pulled towards it" in text
    assert "learned" not in run("query", "release", SEPARABLE).stdout


def test_a_condition_on_both_is_null_with_a_note(run: Run) -> None:
    found = parsed(run("query", "release", MIXED, "--learn", "--json"))
    assert set(found) == {*KEYS, "note"}
    assert found["learned"] is None
    assert "separate them" in found["note"]
    assert "Note: nothing was learned. The condition ties" in run("query", "release", MIXED, "--learn").stdout


def test_groups_and_files(run: Run) -> None:
    groups = parsed(run("query", "release", "Age < 20", "--group-by", "Disease,Gender", "--learn", "--json"))
    assert len(groups) == 6
    assert all(set(group) == {*KEYS, "group"} and group["learned"] for group in groups)
    separable, mixed = parsed(run("query", "release", "--queries", "queries.txt", "--learn", "--json"))
    assert separable["learned"] is not None
    assert mixed["learned"] is None
    text = run("query", "release", "Age < 20", "--group-by", "Disease", "--learn").stdout
    assert "learned 95 % interval" in text


def test_workload(run: Run) -> None:
    words = ("workload", "release", "--against", "people.parquet", "--queries", "50", "--selectivity", "0.2")
    found, plain = parsed(run(*words, "--learn", "--json")), parsed(run(*words, "--json"))
    learned = found.pop("learned")
    assert set(learned) == {"mean_relative_error", "median_relative_error", "coverage", "mean_interval_width"}
    assert {**found, "seconds": 0} == {**plain, "seconds": 0}
    assert "learned: 95 % interval" in run(*words, "--learn").stdout
    assert "learned" not in run(*words).stdout
