"""The command as scripts and people see it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.cli.audit_command import show_audit
from dalenius.cli.main import main
from dalenius.model.attack_result import Attack, Audit, Share
from tests.handmade import edit_manifest, hospital

Run = Callable[..., Result]
ATTACKS = ["corruption", "negative", "learning", "order"]
TOP = [
    *["format", "rows", "buckets", "known_records", "fake_values", "sampled", "verdict", "findings", "broken", "notes"],
    *["people", "new_chain"],
]
KEYS = [
    *[
        "column",
        "people",
        "success",
        "success_interval",
        "baseline",
        "baseline_interval",
        "control",
        "control_interval",
    ],
    *["people_above_limit", "claims", "claims_right", "claims_right_interval", "mean_limit", "points"],
    *["worst_values", "groups", "details", "notes", "not_played"],
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder that has a release and the table that it was made of."""
    monkeypatch.chdir(tmp_path)
    hospital().write(tmp_path / "release")
    pyarrow.parquet.write_table(hospital().source(), "hospital.parquet")
    return lambda *words: CliRunner().invoke(main, ["audit", *words], catch_exceptions=False)


def test_json_has_the_keys_of_the_contract(run: Run) -> None:
    result = run("release", "--truth", "hospital.parquet", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert list(found) == [*TOP, *ATTACKS, "other_columns"]
    assert (found["people"], found["other_columns"]) == (None, [])  # rows are people, and there is one column
    assert (found["format"], found["rows"], found["buckets"]) == (2, 12, 4)
    assert (found["known_records"], found["fake_values"], found["sampled"], found["broken"]) == (0, 0, None, [])
    for name in ATTACKS:
        assert list(found[name]) == KEYS
        low, high = found[name]["success_interval"]
        assert 0 <= low <= found[name]["success"] <= high <= 1
        assert found[name]["people_above_limit"] <= found[name]["people"]
    below, above = found["corruption"]["claims_right_interval"]
    assert 0 < below < found["corruption"]["claims_right"] / found["corruption"]["claims"] < above < 1
    assert found["order"]["claims_right_interval"] is None  # there are no claims
    assert set(found["corruption"]["details"]) == {"known", "chosen", "random", "by_known", "most_exposed"}
    assert set(found["corruption"]["details"]["chosen"]) == {"people", "people_above_limit", "worst_ratio"}
    assert set(found["corruption"]["details"]["random"]) == {"people", "rows"}
    assert set(found["corruption"]["details"]["by_known"][0]) == {
        "known",
        "worst_ratio",
        "people_above_limit",
        "success",
    }
    shared = {"mean_belief", "calibration", "most_exposed"}
    assert set(found["learning"]["details"]) == shared | {
        "rounds",
        "columns",
        "learner",
        "learners",
        "by_quasi_identifiers",
    }
    assert set(found["negative"]["details"]) == shared | {"pairs", "strongest", "mean_ruled_out", "left_with_one"}
    assert set(found["order"]["details"]) == {"decoder", "canonical", "decoders"}


def visits(people: int) -> pa.Table:
    """Everybody has two rows; a diagnosis stays the same for two of three people."""
    rows = [(person, visit) for person in range(people) for visit in range(2)]
    return pa.table(
        {
            "person": [person for person, _ in rows],
            "age": [person for person, _ in rows],
            "ward": [visit for _, visit in rows],
            "diagnosis": ["ABCD"[(person + (visit if person % 3 == 0 else 0)) % 4] for person, visit in rows],
            "insulin": ["NY"[(person // 4 + visit) % 2] for person, visit in rows],
        }
    )


def test_json_of_attackers_on_people_and_on_several_columns(run: Run) -> None:
    """As docs/json.md says, by rows and by people."""
    table = visits(240)
    pyarrow.parquet.write_table(table, "visits.parquet")
    known: dict[str, Any] = {"quasi_identifiers": ["age", "ward"], "strata": "none"}
    dalenius.publish(table, {"odds": 4}, sensitive=["diagnosis", "insulin"], **known, out="rows")
    dalenius.publish(table, {"odds": 20}, sensitive=["diagnosis"], person="person", **known, out="people")
    truth = ("--truth", "visits.parquet", "--person", "person", "--json")
    by_rows = json.loads(run("rows", *truth).stdout)
    shown = ["corruption", "negative", "learning", "order", "intersection", "union", "other-column"]
    assert list(by_rows) == [*TOP, *shown, "other_columns"]
    assert by_rows["people"] == 480  # by rows, each is somebody
    assert list(by_rows["other_columns"][0]) == ["column", *shown]
    assert {by_rows[name]["column"] for name in shown} == {"diagnosis"}
    assert by_rows["other_columns"][0]["union"]["column"] == "insulin"
    shared = {"mean_belief", "calibration"}
    of_rows = shared | {"several_rows", "best_claims_right"}
    pinned = {"pinned", "pinned_right", "pinned_right_interval", "nothing_in_common"}
    assert set(by_rows["intersection"]["details"]) == of_rows | pinned
    assert set(by_rows["union"]["details"]) == of_rows
    assert by_rows["union"]["people"] == by_rows["union"]["details"]["several_rows"] == 240
    assert set(by_rows["other-column"]["details"]) == shared | {"known_column", "known_columns", "rounds"}
    tried = {"column", "success", "claims", "kept_together"}
    assert by_rows["other-column"]["details"]["known_columns"][0].keys() == tried
    by_people = json.loads(run("people", *truth).stdout)
    assert list(by_people) == [*TOP, *shown[:3], "minimality", *shown[3:6], "other_columns"]
    assert by_people["people"] == by_people["union"]["people"] == 240
    assert set(by_people["intersection"]["details"]) == shared | {"steady"}
    steady = by_people["intersection"]["details"]["steady"]
    assert set(steady) == {"people", "people_above_limit", "claims", "claims_right", "mean_limit"}
    assert steady["people"] == 160  # two of three
    assert set(by_people["union"]["details"]) == shared
    unplayed = by_people["learning"]
    assert (unplayed["people"], unplayed["details"], unplayed["worst_values"], unplayed["notes"]) == (0, {}, [], [])
    rest = set(KEYS) - {"people", "details", "worst_values", "notes", "not_played"}
    assert all(unplayed[key] is None for key in rest)
    assert "several rows or values" in unplayed["not_played"]
    assert by_people["corruption"]["claims"] is by_people["corruption"]["success"] is None


def test_without_the_truth_nothing_is_said_about_it(run: Run) -> None:
    found = json.loads(run("release", "--json").stdout)
    for name in ("negative", "learning", "order"):
        assert found[name]["success"] is None
        assert found[name]["success_interval"] is None
        assert found[name]["claims_right"] is None
    assert found["corruption"]["success"] is not None


def test_text(run: Run) -> None:
    result = run("release", "--truth", "hospital.parquet")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "12 rows in 4 buckets" in result.stdout
    for name in ATTACKS:
        assert f"\n {name} " in result.stdout
    assert "F'-privacy does not cover what is learned across buckets" in result.stdout
    assert result.stdout.splitlines()[-1] == "Verdict: publish."


def test_a_broken_promise(run: Run) -> None:
    edit_manifest(Path("release"), lambda manifest: manifest["adversary"].update(known_records=1))
    result = run("release", "--attack", "corruption")
    assert result.exit_code == 1
    assert "BROKEN: 12 people" in result.stdout
    again = run("release", "--attack", "corruption", "--json")
    assert again.exit_code == 1
    assert len(json.loads(again.stdout)["broken"]) == 1


def test_some_attacks_and_known_records(run: Run) -> None:
    found = json.loads(run("release", "--attack", "order", "--attack", "corruption", "--known", "2", "--json").stdout)
    assert list(found)[len(TOP) :] == ["corruption", "order", "other_columns"]
    assert found["corruption"]["details"]["known"] == 2
    none = json.loads(run("release", "--attack", "corruption", "--known", "0", "--json").stdout)
    assert none["corruption"]["people_above_limit"] == 0


def test_csv_truth_and_control(run: Run) -> None:
    pyarrow.csv.write_csv(hospital().source(), "hospital.csv")
    by_text = run("release", "--truth", "hospital.csv", "--json").stdout
    assert by_text == run("release", "--truth", "hospital.parquet", "--json").stdout
    strangers = [f"X,{number},99,Flu" for number in range(3)]
    Path("strangers.csv").write_text("\n".join(["Gender,Zipcode,Age,Disease", *strangers]), encoding="utf-8")
    learned, beside = (
        json.loads(run("release", "--truth", "hospital.csv", "--json", *words).stdout)["learning"]
        for words in ([], ["--control", "strangers.csv"])
    )
    assert beside["control"] == 1.0  # nobody is like them, and Flu is the most frequent
    assert beside["control_interval"][1] == 1.0
    assert {**beside, "control": 0, "control_interval": 0} == {**learned, "control": 0, "control_interval": 0}


def test_what_is_null_without_the_truth(run: Run) -> None:
    """As docs/json.md says."""
    found = json.loads(run("release", "--json").stdout)
    null = {name: {key for key, value in found[name].items() if value is None} for name in ATTACKS}
    unknown = {"success", "success_interval", "control", "control_interval", "claims_right", "claims_right_interval"}
    never = {"groups", "column", "not_played"}  # there are no groups, one column, and all attackers were played
    unknown |= {"points", *never}
    assert null["corruption"] == never
    assert null["learning"] - {"mean_limit"} == null["negative"] - {"mean_limit"} == unknown
    assert null["order"] == unknown | {"people_above_limit", "claims", "mean_limit"}
    assert found["order"]["details"]["decoder"] is None
    assert found["order"]["details"]["decoders"][0]["success"] is None


def test_intervals_are_not_shown_where_they_would_promise_too_much() -> None:
    """In a sample whose truth is fitted."""
    share = Share.of(30, 100)
    for approximate, shown in ((False, "30.0% +- 8.8"), (True, "30.0%")):
        found = Audit((Attack("negative", 100, share),), 1000, 300, 0, 0, 100, approximate=approximate)
        with contextlib.redirect_stdout(io.StringIO()) as text:
            show_audit(found)
        assert shown in text.getvalue()
        assert ("+-" in text.getvalue()) != approximate


@pytest.mark.parametrize(
    "words", [[], ["--json"], ["--truth", "hospital.parquet"], ["--truth", "hospital.parquet", "--json"]]
)
def test_no_row_and_no_path_in_the_output(words: list[str], run: Run) -> None:
    output = run("release", *words).output
    for private in ("54321", "61234", "71236", "hospital.parquet", str(Path.cwd())):
        assert private not in output


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["release", "--truth", "nowhere.parquet"], "input"),
        (["release", "--table", "people"], "usage"),
        (["release", "--control", "nowhere.csv"], "input"),
        (["release", "--control", "hospital.parquet", "--attack", "order"], "usage"),
        (["release", "--attack", "magic"], "usage"),
        (["nowhere"], "release"),
    ],
)
def test_wrong_use(words: list[str], kind: str, run: Run) -> None:
    result = run(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == kind


def test_a_truth_without_a_column(run: Run) -> None:
    pyarrow.parquet.write_table(hospital().source().drop_columns(["Zipcode"]), "other.parquet")
    result = run("release", "--truth", "other.parquet", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == "no-such-column"


def damaged(manifest: dict[str, Any]) -> None:
    manifest["values"] = manifest["values"][1:]


def test_a_release_that_is_not_one(run: Run) -> None:
    edit_manifest(Path("release"), damaged)
    result = run("release", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == "release"


def determined(people: int) -> pa.Table:
    """A diagnosis code that determines the chapter, which is the sensitive value."""
    codes = [k % 12 for k in range(people)]
    return pa.table(
        {"Code": codes, "Age": [20 + k % 7 for k in range(people)], "Chapter": [f"c{k // 3}" for k in codes]}
    )


def test_a_release_that_gives_values_away_is_not_cleared(run: Run, tmp_path: Path) -> None:
    table = determined(2400)
    pyarrow.parquet.write_table(table, "visits.parquet")
    dalenius.publish(table, {"odds": 2}, sensitive="Chapter", quasi_identifiers=["Code", "Age"], out=tmp_path / "given")
    result = run("given", "--truth", "visits.parquet")
    assert result.exit_code == 0  # no promise is broken
    assert result.stdout.splitlines()[-1] == "Verdict: do not publish."
    assert "No promise was broken" not in result.stdout
    found = json.loads(run("given", "--truth", "visits.parquet", "--json").stdout)
    assert found["verdict"] == "do not publish"
    (column,) = [finding for finding in found["findings"] if finding["code"] == "determining-column"]
    assert (column["severity"], column["columns"]) == ("stop", ["Code"])
    (learning,) = [finding for finding in found["findings"] if finding["attacker"] == "learning"]
    assert learning["severity"] == "stop"
    attack = found["learning"]
    right = attack["claims_right"] / attack["claims"]
    assert learning["points"] == pytest.approx(100 * (right - attack["mean_limit"]), abs=0.05)
    assert attack["points"] == pytest.approx(learning["points"], abs=0.05)
    assert learning["people"] == attack["people_above_limit"]
    worst = attack["worst_values"]
    assert learning["values"] == [value["value"] for value in worst]
    assert sum(value["claims"] for value in worst) <= attack["claims"]
    assert all(value["claims_right"] > value["claims"] * value["limit"] for value in worst)


def test_points_for_scripts(run: Run, tmp_path: Path) -> None:
    table = determined(2400)
    pyarrow.parquet.write_table(table, "visits.parquet")
    dalenius.publish(table, {"odds": 2}, sensitive="Chapter", quasi_identifiers=["Code", "Age"], out=tmp_path / "given")
    words = ("given", "--truth", "visits.parquet", "--attack", "learning", "--fail-above")
    assert (run(*words, "1").exit_code, run(*words, "99").exit_code) == (1, 0)
    without = run("given", "--fail-above", "1")
    assert without.exit_code == 2
    assert "Give --truth TABLE too." in without.stderr


def test_people_with_several_rows_are_found_in_the_table(run: Run, tmp_path: Path) -> None:
    rows = range(3000)
    table = pa.table(
        {
            "patient_id": [k % 2000 for k in rows],  # 1,000 of them have two rows
            "Age": [20 + (k * k) % 61 for k in rows],
            "Disease": [f"d{(k * 7919) % 5}" for k in rows],
        }
    )
    pyarrow.parquet.write_table(table, "visits.parquet")
    dalenius.publish(table, {"odds": 4}, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "visits")
    found = json.loads(run("visits", "--truth", "visits.parquet", "--attack", "corruption", "--json").stdout)
    (people,) = [finding for finding in found["findings"] if finding["code"] == "repeated-people"]
    assert (people["severity"], people["people"], people["columns"]) == ("look", 1000, ["patient_id"])
    assert people["answer"].startswith("Audit with --person patient_id")
    with_person = ("visits", "--truth", "visits.parquet", "--person", "patient_id", "--attack", "union", "--json")
    told = json.loads(run(*with_person).stdout)["findings"]
    (people,) = [finding for finding in told if finding["code"] == "repeated-people"]
    assert people["answer"].startswith("The attackers on people show what that amounts to.")
    assert found["verdict"] == "look at this first"
