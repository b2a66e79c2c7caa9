"""dalenius audit with several releases, as scripts and people see it."""

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
from tests.chains import begin_chain, follow
from tests.handmade import Handmade

Run = Callable[..., Result]
TOP = [
    *["format", "verdict", "findings", "releases", "link", "linked", "one_bucket", "best_single_release"],
    *["intersection", "baseline", "control", "movers", "new_chain", "notes"],
]
SUMS = [
    *["people", "people_above_limit", "pinned", "pinned_scored", "pinned_right", "contradicted", "largest_ratio"],
    *["expected", "people_scored", "success", "success_interval", "values", "groups"],
]
CLAIMS = ["people_above_limit", "claims", "claims_scored", "claims_right", "claims_right_interval", "mean_limit"]
ILLS = ["ague", "bile", "cold", "dropsy"]

NEW_CHAIN = "A new chain of these people, or any release of them that is not of this one, would put about"


def release(ages: list[int], buckets: list[int], limit: str = "1/2") -> Handmade:
    return Handmade(
        types={"age": pa.int64()},
        rows=[(age,) for age in ages],
        values=ILLS,
        buckets=buckets,
        limits=dict.fromkeys(ILLS, limit),
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a folder with two releases of four people, a year apart, and a chain of two."""
    monkeypatch.chdir(tmp_path)
    now = release([21, 31, 41, 51], [1, 2, 1, 2])
    release([20, 30, 40, 50], [1, 1, 2, 2]).write(tmp_path / "before")
    now.write(tmp_path / "now")
    pyarrow.parquet.write_table(now.source(), "now.parquet")
    release([21, 31, 41, 51], [1, 1, 2, 2]).write(tmp_path / "first")
    begin_chain(tmp_path / "first")
    follow(tmp_path / "first", tmp_path / "second", left=[3])
    return lambda *words: CliRunner().invoke(main, ["audit", *words], catch_exceptions=False)


def test_people_are_found_again_and_left_with_one_value(run: Run) -> None:
    result = run("before", "now", "--advance", "age=1", "--truth", "now.parquet")
    assert result.exit_code == 1
    assert "People linked by 'age': 4 in 2 releases" in result.stdout
    assert "The releases together put 4 of 4 linked people above a limit, and leave 4 with one value." in result.stdout
    assert "Publish releases of the same people as a chain (--ledger FILE, --after PREVIOUS)" in result.stdout
    assert "4 of 4" in result.stdout
    assert result.stdout.endswith("Verdict: do not publish.\n")


def test_json_has_the_keys_of_the_contract(run: Run) -> None:
    found: dict[str, dict[str, Any]] = {}
    for name, more in (("with", ["--truth", "now.parquet"]), ("without", [])):
        result = run("before", "now", "--advance", "age=1", "--json", *more)
        assert result.exit_code == 1
        found[name] = json.loads(result.stdout)
        assert list(found[name]) == TOP
        for key in ("intersection", "baseline", "control"):
            assert list(found[name][key]) == SUMS
            assert list(found[name][key]["values"]) == CLAIMS
    sums = found["with"]["intersection"]
    assert (sums["pinned"], sums["pinned_right"], sums["success"], sums["values"]["claims_right"]) == (4, 4, 1.0, 4)
    assert found["with"]["linked"] == [{"releases": 2, "people": 4}]
    first = {"rows": 4, "buckets": 2, "chain": None, "follows": None, "linked": 4, "above_alone": 0}
    assert found["with"]["releases"][0] == first
    assert (found["with"]["verdict"], found["with"]["findings"][0]["people"]) == ("do not publish", 4)
    unknown = [key for key, value in found["without"]["intersection"].items() if value is None]
    assert unknown == ["pinned_scored", "pinned_right", "people_scored", "success", "success_interval", "groups"]


def test_a_chain_gives_nobody_away(run: Run) -> None:
    result = run("first", "second")
    assert result.exit_code == 0
    assert "number 2, follows 1" in result.stdout
    assert "3 people have the same bucket of a chain in all of their releases" in result.stdout
    assert NEW_CHAIN in result.stdout
    assert "Nobody is above a limit by intersecting these releases." in result.stdout
    found = json.loads(run("first", "second", "--json").stdout)
    assert (found["control"], found["one_bucket"], found["best_single_release"]) == (None, 3, 0)
    assert list(found["movers"]) == [
        *["people", "above_limit", "pinned", "contradicted", "largest_ratio"],
        *["bystanders", "bystanders_above_limit", "bystanders_largest_ratio"],
    ]
    assert list(found["new_chain"]) == ["people", "people_above_limit", "pinned", "expected"]


def test_one_release_of_a_chain_says_what_a_new_chain_would_cost(run: Run) -> None:
    assert NEW_CHAIN in run("first", "--attack", "corruption").stdout
    assert "A new chain" not in run("now", "--attack", "corruption").stdout


def test_nobody_is_linked(run: Run) -> None:
    result = run("before", "now")
    assert result.exit_code == 0
    assert "Nobody is linked by 'age'" in result.stdout
    assert json.loads(run("before", "now", "--json").stdout)["intersection"]["expected"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["before", "now", "--person", "who"], "--person is for the audit of one release"),
        (["before", "now", "--attack", "union"], "--attack is for the audit of one release"),
        (["before", "now", "--known", "0"], "--known is for the audit of one release"),
        (["before", "now", "--fail-above", "0"], "--fail-above is for the audit of one release"),
        (["before", "now", "--control", "x"], "--control is for the audit of one release"),
        (["now", "--link", "age"], "--link links people of several releases"),
        (["now", "--advance", "age=1"], "--advance links people of several releases"),
        (["before", "now", "--advance", "age"], "--advance needs each column once, with a number, got 'age'"),
        (["before", "now", "--advance", "age=1", "--advance", "age=1"], "--advance needs each column once"),
        (["before", "now", "--advance", "age=one"], "'age' cannot advance by what is no number"),
        (["before", "now", "--link", "aeg"], "not every release has a quasi-identifier 'aeg'"),
        (["before", "before"], "the same release is given twice"),
        (["before", "nowhere"], "folder"),
    ],
)
def test_what_cannot_be_asked(run: Run, words: list[str], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
