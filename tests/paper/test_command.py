"""The command `python -m paper` as scripts and people see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

from paper import theory
from paper.__main__ import reproduce_command
from paper.dataset import census_shaped
from paper.run import NAMES

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run python -m paper --quick in a folder with a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    pyarrow.csv.write_csv(census_shaped(1_200), "people.csv")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(reproduce_command, ["--out", "out", "--quick", *words], catch_exceptions=False)

    return invoke


def test_the_object(run: Run) -> None:
    result = run("--only", "remark-2,theorem", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) == {"format", "out", "data", "notes", "machine", "verdicts", "experiments", "seconds"}
    assert found["data"] == "synthetic, CENSUS-shaped"
    assert [entry["name"] for entry in found["experiments"]] == ["theorem", "remark-2"]
    assert found["verdicts"] == {"agrees": 2, "agrees in part": 1, "does not agree": 1}
    for entry in found["experiments"]:
        assert all(Path("out", name).is_file() for name in entry["files"])


def test_words_for_people(run: Run) -> None:
    result = run("--only", "remark-2")
    assert result.exit_code == 0, result.output
    assert "Of 1 claims, 1 do not agree." in result.stdout
    assert "remark-2 1 measurements ..." in result.stderr


def test_a_table_with_roles(run: Run) -> None:
    words = ["--data", "people.csv", "--title", "a test", "--only", "frequencies,diversity"]
    result = run(*words, "--sensitive", "Marital", "--quasi-identifiers", "Age,Gender", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["data"] == "a test"
    assert any("1,200 rows, fewer than" in note for note in found["notes"])
    header = Path("out/diversity.csv").read_text().splitlines()
    assert len(header) == 1 + 3
    assert "Marital,Marital,2," in header[1]


def test_a_table_is_called_by_its_file_if_nothing_else_is_said(run: Run) -> None:
    result = run("--data", "people.csv", "--only", "frequencies", "--json")
    assert json.loads(result.stdout)["data"] == "people"


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["--only", "relative-eror"], "usage", "Did you mean 'relative-error'?"),
        (["--data", "people.csv", "--sensitive", "Occupaton"], "no-such-column", "Did you mean 'Occupation'?"),
        (["--data", "people.csv", "--quasi-identifiers", "Agee"], "no-such-column", "Did you mean 'Age'?"),
        (["--data", "people.csv", "--sensitive", "Age", "--quasi-identifiers", "Age"], "usage", "--quasi-identifiers"),
        (["--data", "nobody.csv"], "input", ""),
        (["--sensitive", "Age"], "usage", "--data TABLE"),
        (["--only", "remark-2", "--out", "people.csv"], "output", "Give a folder"),
    ],
)
def test_bad_input(run: Run, words: list[str], kind: str, message: str) -> None:
    result = run(*words, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == kind
    assert message in f"{error['message']} {error['hint']}"
    assert not Path("out").exists()


def test_a_table_with_few_rows(run: Run) -> None:
    lines = Path("people.csv").read_text().splitlines()
    Path("few.csv").write_text("\n".join(lines[:100]) + "\n")
    error = json.loads(run("--data", "few.csv", "--json").stdout)["error"]
    assert "99 rows" in error["message"]


def test_ctrl_c(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--only", "theorem").exit_code == 0
    before = Path("out/index.md").read_bytes()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(theory, "count_settings", interrupted)
    result = run("--only", "remark-2")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "the same command continues" in result.stderr
    assert Path("out/index.md").read_bytes() == before


def test_without_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = run("--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "missing-extra"
    assert error["hint"] == "Install it with: pip install 'dalenius[report]'"


def test_the_help_names_every_experiment() -> None:
    option = next(p for p in reproduce_command.params if p.name == "only")
    text = str(getattr(option, "help", ""))
    assert all(name in text for name in NAMES)
