"""A new user in a hurry: nothing is published in the clear and no release is cleared, unless somebody asks for it.

The made-up tables have the traits of real ones that expose people. Where the real ones are at hand, in ../shared/data
beside the checkout, the findings on each of them are compared as well, under a careless and under a sensible policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.cli.main import main
from dalenius.errors import PolicyError
from dalenius.model.concern import Advice

Run = Callable[..., Result]
PAPER = {"theta": 8, "base": "0.02"}
SHARED = Path(__file__).parents[2] / "shared" / "data"


def people(rows: int = 6000) -> pa.Table:
    """Two thirds earn little; visits with codes that say their chapter; some people have several rows."""
    rng = np.random.default_rng(16)
    code = rng.choice(60, rows, p=(weights := 1 / np.arange(1, 61)) / weights.sum())
    loyal, wards = rng.random(rows) < 0.3, rng.integers(0, 4, rows)
    return pa.table(
        {
            "patient_nbr": rng.integers(0, rows * 2 // 3, rows),
            "age": rng.integers(18, 90, rows),
            "sex": rng.choice(["F", "M"], rows),
            "code": [f"d{number:02d}" for number in code],
            "ward": [
                int(number % 4 if kept else other) for number, kept, other in zip(code, loyal, wards, strict=True)
            ],
            "chapter": [("heart", "lungs", "neoplasm", "other")[number % 4] for number in code],
            "income": np.where(rng.random(rows) < 0.24, ">50K", "<=50K"),
        }
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(people(), "people.parquet")
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


def test_limits_that_reach_one_publish_nothing(run: Run) -> None:
    words = ("publish", "people.parquet", "--sensitive", "income", "--quasi-identifiers", "age,sex", "--out", "release")
    refused = run(*words, "--theta", "8", "--base", "0.02")
    assert refused.exit_code == 2
    assert "people would have their value published outright" in refused.stderr
    assert "--odds 8" in refused.stderr
    assert not Path("release").exists()
    alone = run(*words, "--theta", "8", "--base", "0.02", "--min-size", "1")
    assert alone.exit_code == 2
    assert "6,000 of 6,000 people would have their value published outright" in alone.stderr
    hidden = run(*words, "--odds", "8", "--json")
    assert json.loads(hidden.stdout)["exposure"]["outright"] == 0


def test_what_is_published_in_the_clear_by_name_is_never_cleared(run: Run) -> None:
    words = ("publish", "people.parquet", "--sensitive", "income", "--quasi-identifiers", "age,sex", "--out", "release")
    asked = run(*words, "--uniform", "1", "--min-size", "1", "--publish-in-the-clear", "--json")
    assert asked.exit_code == 0
    found = json.loads(asked.stdout)
    assert found["exposure"]["outright"] == 6000
    assert ("in-the-clear", "stop") in [(finding["code"], finding["severity"]) for finding in found["findings"]]
    assert run("verify", "release").stdout.splitlines()[-1] == "Verdict: do not publish."
    assert json.loads(run("audit", "release", "--json").stdout)["verdict"] == "do not publish"


def test_a_column_that_says_the_value_is_told_before_and_after(run: Run) -> None:
    words = ("publish", "people.parquet", "--sensitive", "chapter", "--quasi-identifiers", "age,sex,code")
    published = run(*words, "--odds", "4", "--out", "release")
    assert published.exit_code == 0
    told = next(place for place, line in enumerate(published.stderr.splitlines()) if line.startswith("STOP: 'code'"))
    assert told < published.stderr.splitlines().index("Solving ...")
    audited = json.loads(run("audit", "release", "--truth", "people.parquet", "--json").stdout)
    assert audited["verdict"] == "do not publish"
    codes = {(finding["code"], finding["severity"]) for finding in audited["findings"]}
    assert {("determining-column", "stop"), ("above-limit", "stop"), ("repeated-people", "look")} <= codes
    strict = run(*words, "--odds", "4", "--strict", "--out", "again")
    assert (strict.exit_code, Path("again").exists()) == (2, False)


def test_a_typing_error_in_a_limit_passes_nowhere(run: Run) -> None:
    columns = ("--sensitive", "chapter", "--quasi-identifiers", "age,sex")
    for command in ("plan", "publish"):
        out = ("--out", "release") if command == "publish" else ()
        result = run(command, "people.parquet", *columns, "--odds", "8", "--limit", "neoplsm=0.3", *out)
        assert result.exit_code == 2
        assert "Did you mean 'neoplasm'?" in result.stderr
    assert run("publish", "people.parquet", *columns, "--odds", "8", "--out", "release").exit_code == 0
    Path("job.toml").write_text('[limits]\nodds = 8\n[limits.values]\nneoplsm = "0.3"\n', encoding="utf-8")
    verified = run("verify", "release", "--job", "job.toml")
    assert verified.exit_code == 1
    assert "'neoplsm', which does not occur" in verified.stdout
    Path("job.toml").write_text(
        "[limits]\nodds = 8\nallow_absent = true\n[limits.values]\nebola = 1\n", encoding="utf-8"
    )
    assert run("verify", "release", "--job", "job.toml").exit_code == 0


def test_a_plan_foresees_the_release(run: Run) -> None:
    words = ("--sensitive", "chapter", "--quasi-identifiers", "age,sex,ward", "--odds", "8", "--json")
    planned = json.loads(run("plan", "people.parquet", *words).stdout)
    published = json.loads(run("publish", "people.parquet", *words, "--out", "release").stdout)
    assert planned["strata"]["number"] == published["strata"]["number"] > 1
    assert planned["strata"]["mse"] == published["mse"]
    for key in ("exposure", "count_error"):
        assert planned[key] == published[key]
    assert planned["mse"] < published["mse"]  # that of the table as one


def test_a_second_sensitive_column_is_never_a_second_release(run: Run) -> None:
    """Both are in the same buckets, each under the rule; a limit that does not say whose it is passes nowhere."""
    words = ("--sensitive", "income", "--sensitive", "chapter", "--quasi-identifiers", "age,sex", "--odds", "4")
    for command in ("plan", "publish"):
        out = ("--out", "release") if command == "publish" else ()
        unclear = run(command, "people.parquet", *words, "--limit", "neoplasm=0.3", *out)
        assert unclear.exit_code == 2
        assert "does not say which of 2 sensitive columns it is about" in unclear.stderr
        assert "--limit income:neoplasm=0.3" in unclear.stderr
    assert not Path("release").exists()
    published = json.loads(run("publish", "people.parquet", *words, "--out", "release", "--json").stdout)
    (chapter,) = published["others"]
    assert chapter["column"] == "chapter"
    for value in (*published["values"], *chapter["values"]):
        assert Fraction(value["worst"]["count"], value["worst"]["size"]) <= Fraction(value["limit"]) < 1
    assert run("verify", "release", "--against", "people.parquet").exit_code == 0


def test_people_with_several_rows_are_told_what_to_write(run: Run) -> None:
    """Nobody is told that limits are about people where they are about rows, and no row is left out unasked."""
    words = ("publish", "people.parquet", "--sensitive", "chapter", "--quasi-identifiers", "age,sex", "--odds", "4")
    by_rows = json.loads(run(*words, "--out", "release", "--json").stdout)
    (repeated,) = [finding for finding in by_rows["findings"] if finding["code"] == "repeated-people"]
    assert (repeated["severity"], "--person patient_nbr" in repeated["answer"]) == ("look", True)
    by_people = (*words, "--person", "patient_nbr", "--out", "people")
    refused = run(*by_people)
    assert (refused.exit_code, Path("people").exists()) == (3, False)
    advised = re.search(r"Keep fewer rows .* --most-rows (\d+), which leaves out ([0-9,]+) rows", refused.stderr)
    assert advised is not None
    found = json.loads(run(*by_people, "--most-rows", advised[1], "--json").stdout)
    assert found["dropped_rows"] == int(advised[2].replace(",", "")) == 6000 - found["rows"]
    assert found["people"] == len(set(people()["patient_nbr"].to_pylist()))
    assert "repeated-people" not in [finding["code"] for finding in found["findings"]]


# The real tables: their file, the sensitive column, quasi-identifiers and limits; then what is found, heaviest first.
ADULT, DIABETES = "adult_48842.parquet", "diabetes130_101766.parquet"
CENSUS, INCOME = "census_like_500k.parquet", "acs2018_income_46states.parquet"
REFUSED = [
    (ADULT, "income", "age workclass education occupation race sex hours_per_week", PAPER),
    (DIABETES, "readmitted", "race gender age time_in_hospital medical_specialty", PAPER),
    (CENSUS, "Education", "Age Gender Marital Race WorkClass Occupation", {"theta": 32, "base": "0.02"}),
    (INCOME, "PINCP", "AGEP COW SCHL MAR SEX RAC1P", PAPER),
]
FOUND: list[tuple[str, str, str, int, Advice, set[tuple[str, str]]]] = [
    (ADULT, "education", "age sex education_num", 4, Advice.DO_NOT_PUBLISH, {("determining-column", "stop")}),
    (ADULT, "occupation", "age race sex", 4, Advice.LOOK_FIRST, {("determining-column", "look")}),
    (DIABETES, "insulin", "race gender age", 4, Advice.LOOK_FIRST, {("repeated-people", "look")}),
    (CENSUS, "Occupation", "Age Gender Race", 2, Advice.PUBLISH, set()),
    (INCOME, "PINCP", "SEX RAC1P", 2, Advice.LOOK_FIRST, set()),
]


def real(file: str) -> pa.Table:
    return pyarrow.parquet.read_table(SHARED / file).slice(0, 10_000)


if SHARED.is_dir():

    @pytest.mark.parametrize(("file", "sensitive", "columns", "limits"), REFUSED)
    def test_careless_limits_of_real_tables(file: str, sensitive: str, columns: str, limits: dict[str, Any]) -> None:
        with pytest.raises(PolicyError, match="people would have their value published outright"):
            dalenius.publish(real(file), limits, sensitive=sensitive, quasi_identifiers=columns.split())

    @pytest.mark.parametrize(("file", "sensitive", "columns", "odds", "advice", "heavy"), FOUND)
    def test_findings_on_real_tables(
        file: str, sensitive: str, columns: str, odds: int, advice: Advice, heavy: set[tuple[str, str]]
    ) -> None:
        table = real(file)
        release = dalenius.publish(
            table, {"odds": odds}, sensitive=sensitive, quasi_identifiers=columns.split(), seed=1
        )
        assert release.exposure is not None
        assert release.exposure.outright == 0
        audit = release.audit(truth=table)
        of_table = {(one.code, str(one.severity)) for one in audit.others if str(one.severity) != "note"}
        assert (audit.advice, of_table) == (advice, heavy)
