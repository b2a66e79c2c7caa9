"""Groups of values in what commands print: how near they come to their limits, and that no setting keeps one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main

Run = Callable[..., Result]

PEOPLE = {"F": {"Flu": 900, "HIV": 100}, "M": {"Flu": 600, "HPV": 400}}
TABLE = [
    "Gender,Disease",
    *(f"{g},{d}" for g, held in PEOPLE.items() for d, number in held.items() for _ in [0] * number),
]
LIMITS = (
    *("--sensitive", "Disease", "--uniform", "0.95", "--min-size", "4", "--groups", "groups.csv"),
    *("--level-rule", "group:none", "--group-limit", "virus=1/2"),
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder that has people.csv, and groups.csv with the groups of its values."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("\n".join(TABLE))
    Path("groups.csv").write_text("value,group\nHIV,virus\nHPV,virus\nFlu,airways\n")
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


def share(name: str, limit: str | None, count: int) -> dict[str, Any]:
    """A group that takes so many of a bucket of four. Exposure is counted in a release, and not foreseen."""
    worst = {"count": count, "size": 4}
    return {"name": name, "level": "group", "parent": None, "limit": limit, "worst": worst, "exposure": None}


def line_of(text: str, name: str) -> list[str]:
    (line,) = [line.split() for line in text.splitlines() if line.startswith(f" {name} ")]
    return line


def test_a_plan_shows_groups(run: Run) -> None:
    """500 people with a virus, and 500 buckets of four."""
    words = ("plan", "people.csv", *LIMITS)
    assert json.loads(run(*words, "--json").stdout)["groups"] == [share("airways", None, 3), share("virus", "1/2", 1)]
    text = run(*words).stdout
    assert line_of(text, "virus") == ["virus", "1", "of", "4", "=", "25", "%", "50", "%"]
    assert "1 group of values with a limit" in text
    assert "\n airways " not in text  # it has none


def test_with_strata_groups_are_those_of_the_strata(run: Run) -> None:
    """Of the men 400 have a virus, and they have 250 buckets."""
    words = ("plan", "people.csv", *LIMITS, "--quasi-identifiers", "Gender", "--strata", "Gender")
    found = json.loads(run(*words, "--json").stdout)
    assert found["strata"]["number"] == 2
    assert found["groups"][1] == share("virus", "1/2", 2)
    assert line_of(run(*words).stdout, "virus") == ["virus", "2", "of", "4", "=", "50", "%", "50", "%"]


def test_those_nearest_to_their_limits_come_first(run: Run) -> None:
    text = run("plan", "people.csv", *LIMITS, "--group-limit", "airways=0.8").stdout
    assert "2 groups of values with a limit" in text
    assert text.index("\n airways ") < text.index("\n virus ")  # 3 of 4 against 80 %, and 1 of 4 against 50 %


def test_groups_that_no_setting_keeps(run: Run) -> None:
    words = ("plan", "people.csv", *LIMITS, "--group-limit", "airways=0.3", "--limit", "Flu=0.65")
    result = run(*words)
    assert result.exit_code == 3
    assert "No setting exists: 1 of 3 values and 1 of 2 groups of values are more frequent" in result.stdout
    assert "\n  Flu: frequency 0.75, limit 0.65; " in result.stdout
    assert "\n  group airways: frequency 0.75, limit 0.3; the smallest limit that works is 3/4 (0.75)" in result.stdout
    found = json.loads(run(*words, "--json").stdout)
    assert [(one["value"], one["is_group"]) for one in found["reason"]["values"]] == [("Flu", False), ("airways", True)]
    assert found["groups"] == []


def test_publishing_shows_groups(run: Run) -> None:
    words = ("publish", "people.csv", *LIMITS, "--quasi-identifiers", "Gender", "--strata", "Gender", "--out")
    found = json.loads(run(*words, "release", "--json").stdout)
    flu, virus = found["groups"]
    assert flu["worst"] == {"count": 9, "size": 10}  # of the women, nine in ten have it
    # men: 150 buckets of four with two of them, and 100 with one; women: one of ten
    exposure = {"people": 500, "outright": 0, "mean": (300 / 2 + 100 / 4 + 100 / 10) / 500, "highest": 0.5}
    bands = [0, 100, 100, 0, 0, 300, 0, 0, 0, 0, 0]
    assert virus == {**share("virus", "1/2", 2), "exposure": {**exposure, "bands": bands}}
    text = run(*words, "another").stdout
    assert line_of(text, "virus") == ["virus", "2", "of", "4", "=", "50", "%", "50", "%"]
    assert "every value, and every group of values that has a limit, of every bucket is within its limit" in text
