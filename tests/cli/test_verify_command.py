"""The command as scripts and people see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from tests.handmade import edit_manifest, hospital, restate_hashes, rewrite

Run = Callable[..., Result]
CHECKS = ["files", "manifest", "hashes", "schema", "sizes", "limits", "values", "order"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder that has a release and the table that it was made of."""
    monkeypatch.chdir(tmp_path)
    hospital().write(tmp_path / "release")
    pyarrow.parquet.write_table(hospital().source(), "hospital.parquet")
    return lambda *words: CliRunner().invoke(main, ["verify", *words], catch_exceptions=False)


def test_a_right_release(run: Run) -> None:
    result = run("release")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[: len(CHECKS)]] == [[check, "ok"] for check in CHECKS]
    verified, _, exposure, *_ = lines[len(CHECKS) :]
    assert verified == "Verified: 12 rows in 4 buckets keep every limit, each row counted as one person."
    assert exposure.startswith("Nobody's value is published outright")
    assert result.stderr == ""


def test_a_table_that_shows_several_rows_of_people_changes_the_verdict(run: Run) -> None:
    """The release keeps every limit, of rows; whoever compares it with the table is told whose rows to count."""
    twice = hospital(
        rows=[*hospital().rows] * 2,
        values=[*hospital().values] * 2,
        buckets=[1, 1, 2, 2, *[5] * 4, *[6] * 4, 3, 3, 4, 4, *[7] * 4, *[8] * 4],
    )
    twice.write(Path("twice"))
    numbers = pa.array([f"p{row % 12}" for row in range(24)])
    pyarrow.parquet.write_table(twice.source().append_column("patient_id", numbers), "twice.parquet")
    result = run("twice", "--against", "twice.parquet")
    assert result.exit_code == 0
    assert "Verified: 24 rows in 8 buckets keep every limit, each row counted as one person.\n" in result.stdout
    assert "'patient_id' has 12 different values in 24 rows" in result.stdout
    assert "--person patient_id" in result.stdout
    assert result.stdout.splitlines()[-1] == "Verdict: look at this first."
    found = json.loads(run("twice", "--against", "twice.parquet", "--json").stdout)
    assert [(one["code"], one["people"]) for one in found["findings"]] == [("repeated-people", 12)]
    counted = run("twice", "--against", "twice.parquet", "--person", "patient_id")
    assert counted.exit_code == 1
    assert "12 people have several rows in the table" in counted.stdout


def test_json_has_the_keys_of_the_contract(run: Run) -> None:
    result = run("release", "--against", "hospital.parquet", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    keys = ["format", "verified", "rows", "people", "buckets", "checks", "exposure", "groups"]
    assert list(found) == [*keys, "known_columns", "findings", "signature", "notes"]
    assert (found["format"], found["verified"]) == (2, True)
    assert (found["rows"], found["people"], found["buckets"]) == (12, 12, 4)
    assert (found["exposure"]["people"], found["findings"]) == (12, [])
    assert [check["check"] for check in found["checks"]] == [*CHECKS, "source"]
    assert found["checks"][0] == {
        "check": "files",
        "outcome": "passed",
        "passed": True,
        "count": 0,
        "message": "the manifest and both tables are there",
        "findings": [],
    }


def test_a_broken_release(run: Run) -> None:
    def exchanged(rows: list[dict[str, Any]]) -> None:
        flu = next(row for row in rows if row["bucket"] == 3 and row["Disease"] == "Flu")
        hiv = next(row for row in rows if row["bucket"] == 4 and row["Disease"] == "HIV")
        flu["Disease"], hiv["Disease"] = "HIV", "Flu"
        rows.sort(key=lambda row: (row["bucket"], row["Disease"]))

    rewrite(Path("release"), "st", exchanged)
    restate_hashes(Path("release"))
    result = run("release")
    assert result.exit_code == 1
    assert (
        "limits    FAILED  1 bucket holds more of a value than its limit allows; the worst: 'HIV' 2 of 4"
        in result.stdout
    )
    assert result.stdout.splitlines()[-1] == "NOT verified: 2 of 8 checks failed."
    found = json.loads(run("release", "--json").stdout)
    assert found["verified"] is False
    (limits,) = (check for check in found["checks"] if check["check"] == "limits")
    assert limits["outcome"] == "failed"
    assert limits["count"] == 1
    assert limits["findings"] == [{"count": 1, "message": limits["message"]}]


def test_checks_that_could_not_be_made_are_said(run: Run) -> None:
    Path("release/manifest.json").write_text("{}")
    result = run("release")
    assert result.exit_code == 1
    assert "not checked: the manifest cannot be read" in result.stdout
    assert "1 of 8 checks failed, 6 could not be made." in result.stdout
    found = json.loads(run("release", "--json").stdout)
    assert found["rows"] is None


def test_the_job_file_goes_before_the_manifest(run: Run) -> None:
    Path("job.toml").write_text("[limits]\nuniform = '0.5'\n")
    result = run("release", "--job", "job.toml")
    assert result.exit_code == 0
    assert "Note: 2 values have another limit" in result.stdout
    Path("job.toml").write_text("[limits]\nuniform = '0.2'\n")
    assert run("release", "--job", "job.toml").exit_code == 1


def test_a_seeded_release_says_so(run: Run) -> None:
    edit_manifest(Path("release"), lambda m: m.update(randomness="seeded: not for publication"))
    result = run("release")
    assert result.exit_code == 0
    assert "Note: SEEDED" in result.stdout


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["nowhere"], "release"),
        (["hospital.parquet"], "release"),
        ([], "usage"),
        (["release", "--job", "none.toml"], "job-file"),
        (["release", "--job", "empty.toml"], "policy"),
        (["release", "--against", "none.csv"], "input"),
        (["release", "--against", "other.csv"], "no-such-column"),
        (["release", "--table", "x"], "usage"),
    ],
)
def test_wrong_use(run: Run, words: list[str], kind: str) -> None:
    Path("empty.toml").write_text("")
    Path("other.csv").write_text("a,b\n1,2\n")
    result = run(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == kind
    assert run(*words).exit_code == 2


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    Path("release/\x1b[31mred").write_text("")
    result = run("release")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout


def test_nothing_is_left_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = str(Path(sys.executable).parent / "dalenius")
    environment = {**os.environ, "TMPDIR": str(scratch)}
    ended = subprocess.run(
        [command, "verify", "release", "--against", "hospital.parquet"],
        env=environment,
        capture_output=True,
        check=True,
    )
    assert b"Verified" in ended.stdout
    assert list(scratch.iterdir()) == []
    assert sorted(path.name for path in Path("release").iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]
