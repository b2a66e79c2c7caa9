"""The whole flow on a tiny table: what it leaves, and how it goes on after it was stopped."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dalenius.errors import OutputError
from paper import releases, run
from paper.experiment import MEASUREMENTS
from paper.run import NAMES, reproduce
from tests.paper.tiny import TINY, Steps, table


def test_everything_leaves_data_pictures_and_verdicts(tmp_path: Path) -> None:
    told = Steps()
    few = replace(TINY, thetas=(8,), rows=1_000, sizes=(1_000,), gammas=(2,))
    found = reproduce(table(), few, tmp_path / "out", progress=told)
    assert tuple(told.stages) == NAMES
    assert [result.name for result in found.results] == list(NAMES)
    page = (tmp_path / "out" / "index.md").read_text()
    for result in found.results:
        assert (tmp_path / "out" / f"{result.name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "out" / f"{result.name}.svg").read_text().startswith("<svg")
        with (tmp_path / "out" / f"{result.name}.csv").open() as file:
            assert list(csv.DictReader(file))
        assert f"({result.name}.svg)" in page
        assert result.claims
        for claim in result.claims:
            assert claim.paper.replace("|", "\\|") in page
            assert claim.found in page
    assert "nobody in it exists" in page
    assert "synthetic, CENSUS-shaped" in page
    assert not list((tmp_path / "out").glob(".*"))


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, str]] = []

    def made(_: object, sensitive: str, theta: int, method: str) -> None:
        calls.append((sensitive, theta, method))

    monkeypatch.setattr(releases, "_publish", made)
    names = ["relative-error"]
    with pytest.raises(KeyboardInterrupt):
        reproduce(table(), TINY, tmp_path, only=names, progress=Steps(stop_after=5))
    assert len(calls) == 5
    assert not (tmp_path / "relative-error.csv").exists()
    reproduce(table(), TINY, tmp_path, only=names, progress=Steps())
    assert len(calls) == len(set(calls)) == 2 * (2 * 4 + 1)  # one bucket is the same for every theta
    reproduce(table(), TINY, tmp_path, only=names, progress=Steps())
    assert len(calls) == 18


def test_an_interruption_leaves_what_was_done(tmp_path: Path) -> None:
    done = reproduce(table(), TINY, tmp_path, only=["frequencies"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        reproduce(table(), TINY, tmp_path, only=["diversity"], progress=Steps(stop_after=1))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert [result.name for result in done.results] == ["frequencies"]


def test_results_of_the_same_run_are_gathered_and_others_are_not(tmp_path: Path) -> None:
    reproduce(table(), TINY, tmp_path, only=["frequencies"])
    both = reproduce(table(), TINY, tmp_path, only=["diversity"])
    assert [result.name for result in both.results] == ["frequencies", "diversity"]
    page = (tmp_path / "index.md").read_text()
    assert "Not run with these settings yet: mse" in page
    other = reproduce(table(), replace(TINY, rows=1_500), tmp_path, only=["diversity"])
    assert [result.name for result in other.results] == ["diversity"]
    assert other.results != both.results


def test_a_smaller_table_is_used_whole(tmp_path: Path) -> None:
    settings = replace(TINY, rows=3_000, sizes=(2_000, 4_000))
    reproduce(table(), settings, tmp_path, only=["frequencies"])
    used = json.loads((tmp_path / "results.json").read_text())["run"]["settings"]
    assert (used["rows"], used["sizes"]) == (2_000, [1_000, 2_000])


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="other things"):
        reproduce(table(), TINY, tmp_path, only=["frequencies"])
    with pytest.raises(OutputError, match="is a file"):
        reproduce(table(), TINY, tmp_path / "thesis.txt", only=["frequencies"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_measurements_survive_a_picture_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(run, "picture", failing)
    with pytest.raises(RuntimeError):
        reproduce(table(), TINY, tmp_path, only=["mse"])
    assert len(json.loads((tmp_path / MEASUREMENTS).read_text())["found"]) == 2 * 2 * 5
