"""People who have several rows, and several sensitive columns: from a table to counts, through the API."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dalenius.policy.job import parse_job
from dalenius.query.people_count import open_counter
from dalenius.release.folder import open_release
from dalenius.studio.draft import Draft
from dalenius.studio.messages import on_a_page
from dalenius.studio.state import StudioOptions
from dalenius.verify.judge import verify
from tests.studio.site import Site, done, limits, one, open_site, visits

FRAME = visits()
DIAGNOSIS = {"columns": ["diag_1", "diag_2"], "name": "diagnosis"}
ROLES: dict[str, Any] = {
    "sensitive": "diagnosis",
    "sets": [DIAGNOSIS, {"columns": ["insulin"]}],
    "person": "patient_nbr",
    "quasi_identifiers": ["age", "gender"],
    "identifiers": ["encounter_id"],
}
ODDS = limits(rule="odds", odds="8", floor="0.05")


def having(column: str) -> dict[str, int]:
    """How many people have each value, in any of their rows."""
    people: dict[str, int] = FRAME.groupby(column)["patient_nbr"].nunique().to_dict()
    return people


def with_diagnosis() -> dict[str, int]:
    """How many people have each diagnosis, in any row, as the first or the second."""
    both = pd.concat([FRAME[["patient_nbr", name]].set_axis(["who", "what"], axis=1) for name in DIAGNOSIS["columns"]])
    people: dict[str, int] = both.groupby("what")["who"].nunique().to_dict()
    return people


PEOPLE = FRAME["patient_nbr"].nunique()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("visits") / "visits.parquet"
    FRAME.to_parquet(path)
    return path


@pytest.fixture(scope="module")
def site(table: Path) -> Iterator[Site]:
    with open_site(StudioOptions(table=table)) as found:
        found.table(found.state()["tables"][0]["id"])
        yield found


@pytest.fixture
def drafted(site: Site) -> Site:
    """The site, with these roles and nothing but the rule by odds."""
    site.send("/api/roles", {"sensitive": None, "quasi_identifiers": ["age"]})
    site.send("/api/roles", ROLES)
    assert site.counted()["status"] == "ready"
    explored(site, ODDS)
    return site


def explored(site: Site, given: dict[str, Any], **more: Any) -> Any:
    asked = {"limits": given, "solve": {}, "protection": {"strata": "none"}, "exact": False, **more}
    return site.send("/api/explore", asked)


def refused(site: Site, path: str, body: Any) -> Any:
    answer = site.post(path, body)
    assert answer.status_code >= 400, answer.text
    return answer.json()["error"]


def of_set(site: Site, name: str) -> Any:
    return next(entry for entry in site.state()["of_sets"] if entry["name"] == name)


def test_a_column_of_people_is_suggested(site: Site) -> None:
    columns = {column["name"]: column for column in site.state()["tables"][0]["columns"]}
    assert columns["patient_nbr"]["suggested"] == "person"
    assert f"{PEOPLE:,}" in columns["patient_nbr"]["why"]
    assert f"{len(FRAME):,}" in columns["patient_nbr"]["why"]
    assert columns["patient_nbr"]["repeats"] is True
    assert columns["encounter_id"]["suggested"] == "identifier"
    assert [columns[name]["repeats"] for name in ("encounter_id", "age", "diag_1")] == [False] * 3


def test_an_identifier_that_repeats_is_found(site: Site) -> None:
    hurried = {**ROLES, "sets": [], "sensitive": "insulin", "person": None, "identifiers": ["patient_nbr"]}
    found = {concern["code"]: concern for concern in site.send("/api/look", hurried)["concerns"]}
    assert found["repeated-people"]["columns"] == ["patient_nbr"]
    assert "person" in found["repeated-people"]["answer"]
    careful = site.send("/api/look", ROLES)["concerns"]
    assert "repeated-people" not in {concern["code"] for concern in careful}


def test_counts_are_of_people(drafted: Site) -> None:
    for name, wanted in (("diagnosis", with_diagnosis()), ("insulin", having("insulin"))):
        counts = drafted.ask(f"/api/counts?set={name}")
        assert (counts["column"], counts["total"]) == (name, PEOPLE)
        assert dict(zip(counts["values"], counts["counts"], strict=True)) == wanted
        answer = explored(drafted, ODDS, of_set=name)
        assert (answer["n"], answer["by_people"], answer["setting"]) == (PEOPLE, True, None)
        assert dict(zip(answer["values"], answer["counts"], strict=True)) == wanted
        shares = [max(0.05, 8 * (c / PEOPLE) / (1 - c / PEOPLE + 8 * c / PEOPLE)) for c in answer["counts"]]
        assert answer["limits"] == pytest.approx(shares)
    counted = drafted.state()["counted"]
    assert (counted["total"], counted["rows"], counted["most_rows_of_a_person"]) == (PEOPLE, len(FRAME), 3)
    several = int((FRAME["patient_nbr"].value_counts() > 1).sum())
    assert counted["people_with_several_rows"] == several


def test_no_figure_of_rows_is_given_for_people(drafted: Site) -> None:
    for path in ("/api/strata-price", "/api/strata-figures", "/api/trade-off", "/api/pin"):
        assert refused(drafted, path, {})["kind"] == "by-people"
    state = drafted.state()
    assert (state["strata_price"], state["explored"], state["pinned"]) == (None, None, None)


def test_each_set_has_limits_of_its_own(drafted: Site) -> None:
    explored(drafted, {**ODDS, "values": {"D03": "0.2"}}, of_set="diagnosis")
    explored(drafted, limits(rule="uniform", uniform="0.9"), of_set="insulin", own_rule=True)
    diagnosis, insulin = of_set(drafted, "diagnosis"), of_set(drafted, "insulin")
    assert (diagnosis["own_rule"], diagnosis["limits"]["rule"], diagnosis["limits"]["values"]) == (
        False,
        "odds",
        {"D03": "0.2"},
    )
    assert (insulin["own_rule"], insulin["limits"]["rule"], insulin["limits"]["uniform"]) == (True, "uniform", "0.9")
    explored(drafted, {**ODDS, "odds": "6", "values": {"D03": "0.2"}}, of_set="diagnosis")  # the general rule
    assert drafted.state()["limits"]["odds"] == "6"
    assert of_set(drafted, "insulin")["limits"]["rule"] == "uniform"
    job = parse_job(done(drafted.get("/job.toml")).text)
    assert job.policies() == drafted.studio.draft.policies()
    assert [policy.odds for policy in job.policies()] == [6, None]
    drafted.send("/api/undo")
    assert drafted.state()["limits"]["odds"] == "8"
    drafted.send("/api/roles", {**ROLES, "sets": [DIAGNOSIS]})  # what is left keeps its limits
    assert drafted.state()["limits"]["values"] == {"D03": "0.2"}
    drafted.send("/api/roles", ROLES)
    assert of_set(drafted, "diagnosis")["limits"]["values"] == {"D03": "0.2"}
    assert drafted.state()["limits"]["values"] == {}


def test_a_code_for_what_is_missing_is_named_once_for_all_columns(drafted: Site) -> None:
    drafted.send("/api/roles", {**ROLES, "null_value": "none", "missing": ["Down"]})
    assert drafted.counted()["status"] == "ready"
    answer = explored(drafted, ODDS, of_set="insulin")
    assert dict(zip(answer["values"], answer["counts"], strict=True))["none"] == having("insulin")["Down"]
    assert "'diagnosis': 'Down' is under missing, and no record has it" in answer["problem"]["message"]
    assert answer["problem"]["offer"]["allow_absent"] is True
    answer = explored(drafted, {**ODDS, "allow_absent": True}, of_set="insulin")
    assert answer["problem"] is None
    assert [policy.allow_absent for policy in drafted.studio.draft.policies()] == [True, True]


def test_limits_that_cannot_be_kept_are_named_with_what_would_help(drafted: Site) -> None:
    answer = explored(drafted, limits(rule="uniform", uniform="0.1"), of_set="insulin", own_rule=True)
    assert answer["status"] == "infeasible"
    assert set(answer["problem"]["values"]) == set(having("insulin"))
    offer = answer["problem"]["offer"]["values"]
    assert all(float(offer[name]) >= count / PEOPLE for name, count in having("insulin").items())
    # everybody with three rows has more values than a limit of what all people together have allows
    answer = explored(
        drafted, {**limits(rule="uniform", uniform="0.99"), "values": offer}, of_set="insulin", own_rule=True
    )
    assert "People of a bucket have equally many rows" in answer["problem"]["message"]
    assert "--" not in answer["problem"]["hint"]
    assert answer["most_rows"] >= 1
    task = drafted.task(drafted.send("/api/people-plan")["task"])
    assert task["status"] == "failed"
    assert "People of a bucket have equally many rows" in task["error"]["message"]
    assert task["error"]["most_rows"] == answer["most_rows"]
    drafted.send("/api/roles", {**ROLES, "most_rows": answer["most_rows"]})
    assert drafted.state()["roles"]["most_rows"] == answer["most_rows"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Raise what is too low: --limit 'insulin:No way=0.81' --group-limit d:heart=0.2 --most-rows 5, which "
            "leaves out 2,535 rows.\nOr keep fewer rows of a person, chosen at random: --most-rows 3, which leaves out "
            "9 rows.",
            "Raise what is too low, on the limits page: insulin:No way=0.81, d:heart=0.2, and keep at most 5 rows of a "
            "person, which leaves out 2,535 rows.\nOr keep fewer rows of a person, chosen at random: at most 3, which "
            "leaves out 9 rows.",
        ),
        ("Raise what is too low: --limit No=0.5.", "Raise what is too low, on the limits page: No=0.5."),
        (
            "Relax the limits: one for all values works from 0.7 on (--uniform 0.7).",
            "Relax the limits: one for all values works from 0.7 on.",
        ),
    ],
)
def test_what_would_help_is_said_without_options(said: str, shown: str) -> None:
    assert on_a_page(said, "") == shown


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"not_applicable": ["No"]}, "nobody is set apart"),
        ({"person": "age"}, "more than one role"),
        ({"sets": [DIAGNOSIS, {"columns": ["diag_1"]}]}, "more than one role"),
        ({"sets": [{"columns": ["diag_1", "diag_2"]}, {"columns": ["insulin"]}]}, "no name"),
        ({"person": None, "most_rows": 2}, "most_rows"),
    ],
)
def test_what_cannot_be_is_refused_in_words(drafted: Site, change: dict[str, Any], words: str) -> None:
    error = refused(drafted, "/api/roles", {**ROLES, **change})
    assert words in error["message"]
    assert error["hint"]
    assert "--not" not in error["hint"]


def test_fakes_and_bands_are_refused_in_words(drafted: Site) -> None:
    asked = {"limits": ODDS, "of_set": "insulin"}
    error = refused(drafted, "/api/explore", {**asked, "protection": {"fake_values": 1}})
    assert "fake values are not made for people with several rows" in error["message"]
    assert "--" not in error["hint"]
    bands = {**ODDS, "grouping": {"source": "cuts", "cuts": "3"}}
    assert "bands" in refused(drafted, "/api/explore", {**asked, "limits": bands})["message"]
    assert drafted.state()["protection"]["fake_values"] == 0


def test_a_plan_on_demand_is_that_of_people(drafted: Site) -> None:
    plan = drafted.work("/api/people-plan")
    assert (plan["people"], plan["rows"], plan["dropped_rows"]) == (PEOPLE, len(FRAME), 0)
    rows = FRAME["patient_nbr"].value_counts().value_counts()
    assert {entry["rows"]: entry["people"] for entry in plan["by_rows"]} == rows.to_dict()
    assert plan["buckets"] == sum(entry["buckets"] for entry in plan["by_rows"])
    assert plan["bound"] <= plan["loss"]
    assert plan["in_the_clear"] is None
    assert sum(plan["exposure"]["bands"]) == PEOPLE
    assert (drafted.state()["people_plan"]["stale"], drafted.state()["explored"]) == (False, "feasible")
    explored(drafted, {**ODDS, "odds": "7"}, of_set="insulin")
    assert (drafted.state()["people_plan"]["stale"], drafted.state()["explored"]) == (True, None)


def test_published_by_people(drafted: Site, table: Path, tmp_path: Path) -> None:
    explored(drafted, {**ODDS, "values": {"D03": "0.4"}}, of_set="diagnosis")
    result = drafted.work("/api/publish", {"name": "by-people", "format": "parquet"})
    release = result["release"]
    state = one(drafted.state()["releases"], release)
    assert (state["people"], state["rows"], state["by_people"]) == (PEOPLE, len(FRAME), True)
    assert [entry["column"] for entry in state["sensitive"]] == ["diagnosis", "insulin"]
    assert [entry["values"] for entry in state["sensitive"]] == [24, 4]
    assert state["sensitive"][0]["of"] == DIAGNOSIS["columns"]
    verdict = drafted.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"] is True, [c for c in verdict["checks"] if not c["passed"]]
    assert {check["check"]: check["outcome"] for check in verdict["checks"]}["job"] == "passed"
    audit = drafted.work(f"/api/releases/{release}/audit", {"truth": True})
    assert audit["union"]["success"] is not None  # the attacker who knows which rows are a person's
    assert [other["column"] for other in audit["other_columns"]] == ["insulin"]
    card = drafted.ask(f"/api/releases/{release}/outcomes")["card"]
    assert sum(card["people"]) > 0
    report = done(drafted.get(f"/releases/{release}/report")).text
    assert f"{PEOPLE:,} people" in report

    columns = drafted.ask(f"/api/releases/{release}/columns")
    assert (columns["people"], columns["several_rows"]) == (PEOPLE, True)
    assert columns["sensitive"]["name"] == "diagnosis"
    assert [column["name"] for column in columns["others"]] == ["insulin"]
    counts = {}
    for unit in ("people", "rows"):
        asked = {"expression": "age < 50 AND insulin = 'Up'", "unit": unit, "truth": True}
        got = drafted.send(f"/api/releases/{release}/count", asked)
        (answer,) = got["answers"]
        assert answer["counted"] == unit
        assert (answer["truth"], bool(got["truth_note"])) == (None, True)
        counts[unit] = answer["bounds"]
    folder = drafted.studio.releases.get(release).path
    assert verify(folder, against=table, person="patient_nbr").verified
    for unit in ("people", "rows"):
        with open_counter(open_release(folder), unit=unit) as counter:  # type: ignore[arg-type]
            assert list(counter.count("age < 50 AND insulin = 'Up'").bounds) == counts[unit]
    grouped = drafted.send(f"/api/releases/{release}/count", {"expression": "TRUE", "group_by": ["insulin"]})
    bounds = {answer["group"]["insulin"]: answer["bounds"] for answer in grouped["answers"]}
    assert bounds == {name: [number, number] for name, number in having("insulin").items()}

    job = parse_job(done(drafted.get(f"/releases/{release}/job.toml")).text)
    assert (job.table.person, len(job.table.sets)) == ("patient_nbr", 2)
    with zipfile.ZipFile(io.BytesIO(done(drafted.get(f"/releases/{release}/release.zip")).content)) as archive:
        archive.extractall(tmp_path)
    unpacked = next(tmp_path.rglob("manifest.json")).parent
    assert verify(unpacked, against=table, person="patient_nbr", job=job).verified

    with open_site(StudioOptions(releases=(unpacked,))) as other:
        (opened,) = other.state()["releases"]
        assert (opened["people"], opened["by_people"]) == (PEOPLE, True)
        assert other.work(f"/api/releases/{opened['id']}/verify", {"against": False})["verified"] is True
        text = done(other.get(f"/releases/{opened['id']}/job.toml")).text
        again = parse_job(text)
        assert [one.called for one in again.table.sensitive] == ["diagnosis", "insulin"]  # type: ignore[union-attr]
        assert "does not name" in text  # the column that says whose rows they are
        second = unpacked / "st2.parquet"
        second.write_bytes(second.read_bytes() + b"\n")
        assert other.state()["releases"][0]["verified"] is None  # it is another file


def test_rows_that_are_left_out_are_said_and_verified(drafted: Site) -> None:
    drafted.send("/api/roles", {**ROLES, "most_rows": 2})
    release = drafted.work("/api/publish", {"name": "two-rows", "format": "csv"})["release"]
    state = one(drafted.state()["releases"], release)
    left_out = int((FRAME["patient_nbr"].value_counts() - 2).clip(lower=0).sum())
    assert (state["people"], state["rows"], state["dropped"]) == (PEOPLE, len(FRAME) - left_out, left_out)
    verdict = drafted.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"], [check for check in verdict["checks"] if not check["passed"]]
    answers = drafted.send(f"/api/releases/{release}/count", {"expression": "age < 50 AND insulin = 'Up'"})["answers"]
    assert answers[0]["dropped"] == left_out


def test_a_job_file_to_begin_with_and_another_table(table: Path, tmp_path: Path) -> None:
    FRAME.drop(columns=["diag_2", "patient_nbr"]).to_parquet(tmp_path / "other.parquet")
    job = parse_job(f'[table]\nquasi_identifiers = ["age"]\n{JOBS["one set"]}')
    with open_site(StudioOptions(table=table, job=job)) as site:
        site.table(site.state()["tables"][0]["id"])
        assert site.counted()["total"] == PEOPLE
        state = site.state()
        assert (state["roles"]["person"], state["roles"]["most_rows"]) == ("patient_nbr", 2)
        assert [(one["name"], one["limits"]["values"]) for one in state["of_sets"]] == [("insulin", {"No": "0.9"})]
        for page in ("table", "limits", "protection", "publish"):
            assert done(site.get(f"/{page}")).text
        site.send("/api/roles", {**ROLES, "sets": [{"columns": ["insulin"]}, DIAGNOSIS], "sensitive": "insulin"})
        assert [one["limits"]["values"] for one in site.state()["of_sets"]] == [{"No": "0.9"}, {}]
        other = done(site.upload("other.parquet", (tmp_path / "other.parquet").read_bytes())).json()["id"]
        site.table(other)
        site.send("/api/table", {"id": other})
        assert site.counted()["total"] == len(FRAME)  # nobody says whose rows these are
        state = site.state()
        assert state["roles"]["person"] is None
        assert [(one["name"], one["limits"]["values"]) for one in state["of_sets"]] == [
            ("insulin", {"No": "0.9"}),
            ("diag_1", {}),
        ]


JOBS = {
    "one set": 'sensitive = "insulin"\nperson = "patient_nbr"\nmost_rows = 2\n[limits]\nodds = 8\nvalues = {No = 0.9}',
    "two columns": 'sensitive = ["diag_1", "insulin"]\nmissing = ["?"]\n[limits]\ntheta = 3\nbase = "0.1"',
    "sets with limits": """
        person = "patient_nbr"
        identifiers = ["encounter_id"]
        [[table.sensitive]]
        columns = ["diag_1", "diag_2"]
        name = "diagnosis"
        null_value = "none"
        missing = ["?", "-"]
        groups = "icd9"
        limits = {beta = 3, values = {D01 = "1/7"}, levels = {chapter = "none"}}
        [[table.sensitive]]
        columns = ["insulin"]
        limits = {values = {No = 0.9}}
        [[table.sensitive]]
        columns = ["gender"]
        [limits]
        odds = 8
        floor = "0.03"
        publish_in_the_clear = true
        """,
    "no general rule": """
        sensitive = [{columns = ["diag_1"], limits = {uniform = 0.5}}, {columns = ["insulin"], limits = {odds = 3}}]
        """,
    "a set alone": """
        sensitive = [{columns = ["diag_1", "diag_2"], name = "d", missing = ["?"], limits = {values = {D01 = 0.3}}}]
        [limits]
        odds = 5
        """,
    "a tree of a set": """
        [[table.sensitive]]
        columns = ["diag_1"]
        groups = {tree = {a = ["D01", "D02"]}, ungrouped = ["D03"]}
        limits = {groups = {a = 0.4}}
        [[table.sensitive]]
        columns = ["insulin"]
        [limits]
        odds = 5
        """,
}


@pytest.mark.parametrize("name", JOBS)
def test_job_files_come_back_as_they_were(name: str) -> None:
    job = parse_job(f'[table]\nquasi_identifiers = ["age"]\n{JOBS[name]}')
    draft = Draft.of_job(job)
    again = draft.job(job.report)
    assert again.policies() == job.policies()
    named = zip(job.policies(), job.table.sets, strict=True)
    assert draft.policies() == tuple(policy.ungrouping(one.null_name) for policy, one in named)
    assert again.table.sets == job.table.sets
    for key in ("person", "most_rows", "quasi_identifiers", "identifiers"):
        assert getattr(again.table, key) == getattr(job.table, key)
    assert again.limits.publish_in_the_clear == job.limits.publish_in_the_clear
    assert Draft.of_job(again) == Draft.of_job(Draft.of_job(again).job(job.report))
