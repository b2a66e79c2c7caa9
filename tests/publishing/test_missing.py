"""Codes for what is missing: in the sensitive column they count as nulls do, under one name."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.attack.audit import audit
from dalenius.cli.main import main
from dalenius.errors import AbsentCodesError, UsageError
from dalenius.place.budget import Budget
from dalenius.query.count import Counter as QueryCounter
from dalenius.query.true_count import true_count
from dalenius.query.workload import encode, evaluate
from dalenius.release.folder import open_release
from dalenius.verify.judge import verify
from tests.handmade import edit_manifest

DISEASES = ["Flu", "?", "Cold", None, "Unknown", "Gout", "Flu", "HIV", "Cold", "Flu"] * 12
TABLE = pa.table({"Age": [k % 40 for k in range(120)], "Sex": ["F", "M", "X"] * 40, "Disease": DISEASES})
ROLES: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age", "Sex"]}
WANTED = Counter("missing" if one in (None, "?", "Unknown") else one for one in DISEASES)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def _state(codes: list[str], manifest: dict[str, Any]) -> None:
    manifest["missing"] = codes


@pytest.mark.parametrize("changes", [{}, {"strata": ["Sex"]}, {"fake_values": 1}])
@pytest.mark.parametrize("category", [False, True])
def test_codes_count_as_nulls_do(
    changes: dict[str, Any], category: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether records are kept in memory, or read again."""
    monkeypatch.setattr(Budget, "copy_fits", lambda *_: category)
    column = TABLE["Disease"].combine_chunks()
    table = TABLE.set_column(2, "Disease", column.dictionary_encode() if category else column)
    limits = {"odds": 6, "values": {"missing": "0.9"}}
    release = dalenius.publish(table, limits, missing=["Unknown", "?"], out=tmp_path / "r", **ROLES, **changes)
    assert release.manifest.null_value == "missing"
    assert release.manifest.missing == ["?", "Unknown"]
    assert next(value.limit for value in release.manifest.values if value.value == "missing") == "9/10"
    held = Counter(release.st["Disease"].to_pylist())
    assert held == WANTED if "fake_values" not in changes else held >= WANTED
    assert verify(tmp_path / "r", against=TABLE).verified
    other = TABLE.set_column(2, "Disease", pa.array(["Plague" if one == "?" else one for one in DISEASES]))
    assert not verify(tmp_path / "r", against=other).verified


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    numbers = pa.table({"Age": range(80), "Income": [1, -9, 2, 3, None, 1, 2, -9] * 10})
    asked: dict[str, Any] = {"sensitive": "Income", "quasi_identifiers": ["Age"], "missing": "-9"}
    release = dalenius.publish(numbers, {"odds": 6}, null_value="none", out=tmp_path / "r", **asked)
    assert Counter(release.st["Income"].to_pylist()) == {1: 20, 2: 20, 3: 10, None: 30}
    assert release.manifest.columns.sensitive.nulls
    assert verify(tmp_path / "r", against=numbers).verified


def test_a_code_that_is_the_name_too() -> None:
    release = dalenius.publish(TABLE, {"odds": 6}, missing=["?", "Unknown"], null_value="?", **ROLES)
    assert Counter(release.st["Disease"].to_pylist())["?"] == WANTED["missing"]
    assert release.verify(against=TABLE).verified


@pytest.mark.parametrize("name", ["missing", "?"])
def test_a_workload_counts_them_as_the_release_does(name: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"missing": ["?", "Unknown"], "null_value": name}
    dalenius.publish(TABLE, {"odds": 6}, out=tmp_path / "r", **asked, **ROLES)
    truth, release = encode(open_release(tmp_path / "r"), TABLE)
    assert truth.sensitive_domain == len(WANTED)
    assert sorted(np.bincount(truth.sensitive)) == sorted(np.bincount(release.values)) == sorted(WANTED.values())
    numbers = TABLE.set_column(2, "Disease", pa.array([k % 7 if k % 5 else -9 for k in range(120)]))
    dalenius.publish(numbers, {"odds": 6}, missing=["-9"], out=tmp_path / "n", **ROLES)
    assert evaluate(open_release(tmp_path / "n"), numbers, queries=20).bounds_hold == 20


def test_a_code_that_no_record_has(tmp_path: Path) -> None:
    for call in (dalenius.plan, dalenius.publish):
        roles = ROLES if call is dalenius.publish else {"sensitive": "Disease"}
        with pytest.raises(AbsentCodesError, match="'Unkown' is under missing, and no record has it") as caught:
            call(TABLE, {"odds": 6}, missing=["?", "Unkown"], null_value="none", **roles)
        assert "Did you mean 'Unknown'?" in str(caught.value.hint)
        call(TABLE, {"odds": 6, "allow_absent": True}, missing=["?", "Unkown"], null_value="none", **roles)
    with pytest.raises(UsageError, match="must be text"):
        dalenius.publish(TABLE, {"odds": 6}, missing=[9], null_value="none", **ROLES)  # type: ignore[list-item]


def test_what_is_missing_is_in_no_group() -> None:
    limits = {"odds": 6, "grouping": "prefix:1"}
    release = dalenius.publish(TABLE, limits, missing=["?", "Unknown"], **ROLES)
    assert [group.name for group in release.manifest.groups or ()] == ["C", "F", "G", "H"]
    assert release.manifest.values[-1].group is None
    assert release.verify().verified
    plan = dalenius.plan(TABLE, limits, sensitive="Disease", missing=["?", "Unknown"])
    assert plan.problem.groups is not None
    assert plan.problem.counts[plan.problem.values.index("missing")] == WANTED["missing"]
    assert {group.name for group in plan.problem.groups.groups} == {"C", "F", "G", "H"}


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(TABLE, "t.csv")
    roles = "sensitive = 'Disease'\nquasi_identifiers = ['Age', 'Sex']"
    Path("job.toml").write_text(f"[table]\n{roles}\nmissing = ['?', 'Unknown']\n[limits]\nodds = 6\n")
    Path("plain.toml").write_text(f"[table]\n{roles}\nnull_value = 'missing'\n[limits]\nodds = 6\n")
    shown = run("plan", "t.csv", "--job", "plain.toml", "--missing", "?,Unknown", "--strata", "none")
    assert shown.exit_code == 0, shown.output
    by_job = run("plan", "t.csv", "--job", "job.toml", "--strata", "none").output
    assert shown.output.splitlines()[:-1] == by_job.splitlines()[:-1]  # but for the seconds
    assert "missing" in shown.output
    made = run("publish", "t.csv", "--job", "job.toml", "--out", "release")
    assert made.exit_code == 0, made.output
    assert "code for a missing value" not in made.output
    assert "--missing '?,Unknown'" in run("publish", "t.csv", "--job", "plain.toml", "--out", "plain").output
    assert run("verify", "release", "--job", "job.toml", "--against", "t.csv").exit_code == 0
    Path("other.toml").write_text(Path("job.toml").read_text().replace(", 'Unknown'", ", 'HIV'"))
    contradicted = run("verify", "release", "--job", "other.toml").output
    assert "the job says that 'HIV' stands for a missing value, and the release counts it as a value" in contradicted
    assert "the release counts 'Unknown' as missing, and the job does not say so" in contradicted
    assert "'?', 'Unknown' as missing values" in run("verify", "release", "--job", "plain.toml").output


def test_whoever_has_the_table_counts_as_the_release_does(tmp_path: Path) -> None:
    dalenius.publish(TABLE, {"odds": 6}, missing=["?", "Unknown"], out=tmp_path / "r", strata="none", **ROLES)
    with QueryCounter(open_release(tmp_path / "r")) as counter:
        assert true_count(counter, TABLE, "Disease = 'missing'") == WANTED["missing"]
        assert true_count(counter, TABLE, "Disease = '?'") == 0
    audited = audit(tmp_path / "r", truth=TABLE, control=TABLE, attacks=["learning"])
    assert any("certain for 120 of 120" in note for note in audited.notes), audited.notes


def test_no_table_fits_into_the_codes(tmp_path: Path) -> None:
    """They are published, and whoever writes a manifest could put anything there."""
    for codes in (["x" * 301], [str(k) for k in range(101)]):
        with pytest.raises(UsageError, match="at most 100 codes"):
            dalenius.publish(TABLE, {"odds": 6, "allow_absent": True}, missing=codes, **ROLES)
    dalenius.publish(TABLE, {"odds": 6}, missing=["?", "Unknown"], out=tmp_path / "r", **ROLES)
    for codes in (["x" * 301], sorted(str(k) for k in range(101))):
        edit_manifest(tmp_path / "r", partial(_state, codes))
        assert "missing" in verify(tmp_path / "r")["manifest"].summary


def test_a_manifest_that_counts_a_code_twice(tmp_path: Path) -> None:
    dalenius.publish(TABLE, {"odds": 6}, missing=["?", "Unknown"], out=tmp_path / "r", **ROLES)
    for missing, says in (
        (["Flu"], "also listed as codes"),
        (["b", "a"], "not in order"),
        (["a", "a"], "not in order"),
    ):
        edit_manifest(tmp_path / "r", partial(_state, missing))
        assert says in verify(tmp_path / "r")["manifest"].summary
