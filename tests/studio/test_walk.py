"""The whole way of a publisher through the API: table, roles, limits, publishing, verifying, auditing, counting."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.planning import plan_counts
from dalenius.policy.job import parse_job
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import open_release
from dalenius.studio.explorer import CURVE
from dalenius.studio.state import StudioOptions
from dalenius.verify.judge import verify
from tests.studio.site import HTML_COLUMN, HTML_VALUE, ROLES, Site, done, limits, one, open_site, people

FRAME = people()
COUNTS = ValueCounts.of(FRAME["Disease"].value_counts().items())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table in every kind of file."""
    folder = tmp_path_factory.mktemp("tables")
    FRAME.to_csv(folder / "people.csv", index=False)
    FRAME.to_parquet(folder / "people.parquet")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE TABLE other AS SELECT 1 AS a")
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return folder


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as found:
        yield found


def chosen(site: Site, path: Path) -> str:
    """The table of a file, uploaded, chosen and counted."""
    ids = done(site.upload(path.name, path.read_bytes())).json()["ids"]
    named = [site.table(identifier) for identifier in ids]
    (table,) = [entry for entry in named if len(named) == 1 or entry["name"].endswith(": people")]
    site.send("/api/table", {"id": table["id"]})
    site.send("/api/roles", ROLES)
    assert site.counted()["status"] == "ready"
    return str(table["id"])


def explored(site: Site, **given: Any) -> Any:
    asked = {"limits": limits(), "solve": {}, "protection": {"strata": "none"}, "exact": True, "sequence": 7, **given}
    return site.send("/api/explore", asked)


def published(site: Site, name: str, **given: Any) -> str:
    explored(site, exact=False, **given)
    return str(site.work("/api/publish", {"name": name, "format": "parquet"})["release"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_the_whole_way(site: Site, tables: Path, kind: str, tmp_path: Path) -> None:
    chosen(site, tables / f"people.{kind}")

    counts = site.ask("/api/counts")
    wanted = sorted(zip(COUNTS.values, COUNTS.counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    assert list(zip(counts["values"], counts["counts"], strict=True)) == wanted
    assert (counts["column"], counts["total"]) == ("Disease", len(FRAME))

    given = {"limits": limits(rule="uniform", uniform="1/2", values={HTML_VALUE: "0.3"})}
    found = explored(site, **given)
    plan = plan_counts(COUNTS, LimitPolicy.of(uniform="1/2", values={HTML_VALUE: "0.3"}))
    assert plan.solution.setting is not None
    assert (found["sequence"], found["exact"], found["status"]) == (7, True, "optimal")
    assert (found["n"], found["m"], found["loss"]) == (len(FRAME), len(COUNTS), plan.solution.loss)
    groups = [(group.size, group.buckets) for group in plan.solution.setting.groups]
    assert [(group["size"], group["buckets"]) for group in found["setting"]] == groups
    assert found["values"] == counts["values"]
    assert Fraction(found["exact_limits"][found["values"].index(HTML_VALUE)]) == Fraction(3, 10)
    assert site.state()["limits"]["values"] == {HTML_VALUE: "0.3"}

    result = site.work("/api/publish", {"name": f"from-{kind}", "format": "parquet"})
    release = result["release"]
    state = one(site.state()["releases"], release)
    assert (state["name"], state["rows"], state["values"]) == (f"from-{kind}", len(FRAME), len(COUNTS))
    assert (state["mse"], state["strata"]) == (plan.solution.mse, 1)
    assert (state["with_truth"], state["saved"], state["seeded"]) == (True, False, False)
    assert (state["verified"], state["audited"]) == (None, False)

    verdict = site.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"] is True
    assert [check["check"] for check in verdict["checks"][-2:]] == ["source", "job"]
    audit = site.work(f"/api/releases/{release}/audit", {"truth": True})
    assert audit["broken"] == []
    assert audit["learning"]["success"] is not None
    state = one(site.state()["releases"], release)
    assert (state["verified"], state["audited"]) == (True, True)

    _query(site, release)
    _take_home(site, release, tmp_path)
    assert len(site.heard) > 20
    assert not any(b"person 1" in answer for answer in site.heard)  # the cells of a column that is not published


def _query(site: Site, release: str) -> None:
    found = site.ask(f"/api/releases/{release}/columns")
    assert (found["rows"], found["truth"]) == (len(FRAME), True)
    assert [column["name"] for column in found["columns"]] == ROLES["quasi_identifiers"]
    assert found["columns"][0]["values"] == sorted({str(age) for age in FRAME["Age"]})
    assert found["columns"][2]["values"] == sorted(set(FRAME['Zip "code" & more']))
    assert found["sensitive"]["values"] == sorted(COUNTS.values)
    age, html, zip_code = found["columns"]
    picked = f"{age['sql']} IN ({age['literals'][0]}, {age['literals'][1]})"
    expression = f"{picked} AND {found['sensitive']['sql']} = {found['sensitive']['literals'][0]}"
    asked = {"expression": expression, "group_by": [], "learn": True, "truth": True}
    (answer,) = site.send(f"/api/releases/{release}/count", asked)["answers"]
    first = min(COUNTS.values)
    truth = int((FRAME["Age"].isin([20, 21]) & (FRAME["Disease"] == first)).sum())
    assert (answer["truth"], answer["group"], answer["tight"]) == (truth, {}, True)
    assert answer["bounds"][0] <= truth <= answer["bounds"][1]
    assert answer["at_random"] is not None or answer["note"]
    assert answer["coverage"] is not None

    asked = {"expression": f"{zip_code['sql']} <> 'x'", "group_by": [html["name"], "Disease"], "truth": True}
    answers = site.send(f"/api/releases/{release}/count", asked)["answers"]
    wanted = FRAME.groupby([HTML_COLUMN, "Disease"]).size()
    assert len(answers) == len(wanted)
    for one_answer in answers:
        group = (one_answer["group"][HTML_COLUMN], one_answer["group"]["Disease"])
        assert one_answer["truth"] == wanted[group]
    quiet = site.send(f"/api/releases/{release}/count", {"expression": "Age > 25"})["answers"][0]
    assert (quiet["truth"], quiet["at_random"], quiet["exact"]) == (None, None, True)
    assert quiet["bounds"] == [int((FRAME["Age"] > 25).sum())] * 2


def _take_home(site: Site, release: str, tmp_path: Path) -> None:
    name = one(site.state()["releases"], release)["name"]
    answer = done(site.get(f"/releases/{release}/release.zip"))
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == [
            f"{name}/{file}" for file in ("manifest.json", "qit.parquet", "st.parquet")
        ]
        archive.extractall(tmp_path)
    assert verify(tmp_path / name, against=FRAME).verified

    page = done(site.get(f"/releases/{release}/report"))
    policy = page.headers["content-security-policy"]
    assert "script-src" not in policy
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    assert "frame-ancestors 'self'" in policy
    assert page.headers["x-frame-options"] == "SAMEORIGIN"
    assert page.headers["cache-control"] == "no-store"
    for text in (page.text, done(site.get(f"/releases/{release}/report.html")).text):
        assert HTML_VALUE not in text
        assert "<script>alert" not in text
    twin = json.loads(done(site.get(f"/releases/{release}/report.json")).text)
    assert twin["format"] == 2


def test_the_job_file_makes_the_same_release(site: Site, tables: Path, tmp_path: Path, monkeypatch: Any) -> None:
    chosen(site, tables / "people.csv")
    protection = {"known_records": 1, "fake_values": 1, "avoid_ruled_out": True, "strata": "none"}
    given = {"limits": limits(theta="2", base="1/10", values={HTML_VALUE: "0.45"}), "protection": protection}
    found = explored(site, **given, solve={"min_size": 2, "max_size": None})
    release = site.work("/api/publish", {"name": "first", "format": "csv"})["release"]
    text = done(site.get(f"/releases/{release}/job.toml")).text
    assert done(site.get("/job.toml")).text.partition("\n")[2] == text.partition("\n")[2]
    assert text.startswith("# dalenius publish people.csv --job job.toml --out first --format csv\n")
    job = parse_job(text)
    assert job.table.identifiers == ["Name"]
    assert job.adversary.avoid_ruled_out is True
    assert job.limits.values[HTML_VALUE] == "0.45"

    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes((tables / "people.csv").read_bytes())
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    words = text.partition("\n")[0].removeprefix("# dalenius ").split()
    made = CliRunner().invoke(main, words, catch_exceptions=False)
    assert made.exit_code == 0, made.output
    manifest = open_release(tmp_path / "first").manifest
    setting = [{"size": group.size, "buckets": group.buckets} for group in manifest.setting]
    assert setting == [{"size": group["size"], "buckets": group["buckets"]} for group in found["setting"]]
    state = one(site.state()["releases"], release)
    assert (manifest.mse, manifest.rows) == (state["mse"], state["rows"])
    assert (manifest.adversary.known_records, manifest.adversary.fake_values) == (1, 1)
    verdict = site.work(f"/api/releases/{release}/verify", {"against": False})
    assert verdict["verified"] is True


def test_a_job_file_to_begin_with(tables: Path) -> None:
    job = parse_job(
        """
        [table]
        sensitive = "Disease"
        quasi_identifiers = ["Age", "Nothing"]
        strata = ["Age"]
        [limits]
        beta = "3/2"
        values = {Flu = 0.5}
        [solve]
        max_size = 50
        [adversary]
        corrupted = 1
        """
    )
    with open_site(StudioOptions(table=tables / "people.duckdb", table_name="people", job=job)) as site:
        (table,) = site.state()["tables"]
        site.table(table["id"])
        assert site.counted()["status"] == "ready"
        state = site.state()
        assert state["table"] == table["id"]
        none: dict[str, Any] = {"sets": [], "person": None, "most_rows": None}
        assert state["roles"] == {"sensitive": "Disease", "quasi_identifiers": ["Age"], "identifiers": [], **none}
        assert (state["limits"]["rule"], state["limits"]["beta"]) == ("beta", "3/2")
        assert state["limits"]["values"] == {"Flu": "0.5"}
        assert state["solve"] == {"min_size": None, "max_size": 50, "gap": None}
        assert state["protection"] == {
            "known_records": 1,
            "fake_values": 0,
            "avoid_ruled_out": False,
            "strata": ["Age"],
        }
        assert "people.duckdb --table people" in done(site.get("/job.toml")).text


def test_limits_that_cannot_be_kept(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    given = {"limits": limits(rule="uniform", uniform="0.01")}
    found = explored(site, **given)
    assert (found["status"], found["setting"]) == ("infeasible", None)
    assert found["problem"]["kind"] == "not-eligible"
    assert not any(found["eligible"])
    assert site.state()["limits"]["uniform"] == "0.01"  # the draft has them all the same
    task = site.task(site.send("/api/publish", {"name": "never", "format": "csv"})["task"])
    assert task["status"] == "failed"
    assert (task["error"]["kind"], task["error"]["reason"]) == ("no-solution", "not-eligible")
    assert "never" not in [release["name"] for release in site.state()["releases"]]


def test_asking_does_not_change_the_draft(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    explored(site, exact=False, limits=limits(theta="3"))
    explored(site, exact=False, limits=limits(theta="4"), draft=False)
    assert site.state()["limits"]["theta"] == "3"


def test_the_pin(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    found = explored(site, limits=limits(rule="l_diversity", l_diversity="2"))
    site.send("/api/pin", {"label": "two"})
    explored(site, limits=limits(rule="beta", beta="4"))
    pinned = site.state()["pinned"]
    assert (pinned["label"], pinned["limits"]["rule"]) == ("two", "l_diversity")
    assert pinned["exploration"]["exact"] is True
    assert pinned["exploration"]["loss"] == found["loss"]
    done(site.remove("/api/pin"))
    assert site.state()["pinned"] is None
    site.send("/api/pin", {"label": "again"})
    site.send("/api/roles", {**ROLES, "sensitive": HTML_COLUMN, "quasi_identifiers": ["Age"]})
    state = site.state()
    assert (state["pinned"], state["limits"]["values"]) == (None, {})


def test_another_sensitive_column_is_counted_anew(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    explored(site, exact=False, limits=limits(values={HTML_VALUE: "0.9"}), protection={"strata": ["Age"]})
    site.send("/api/roles", {**ROLES, "quasi_identifiers": ["Age", HTML_COLUMN]})
    state = site.state()
    assert state["limits"]["values"] == {HTML_VALUE: "0.9"}
    assert state["protection"]["strata"] == ["Age"]
    site.send("/api/roles", {"sensitive": HTML_COLUMN, "quasi_identifiers": ["Disease"]})
    assert site.counted()["column"] == HTML_COLUMN
    state = site.state()
    assert state["limits"]["values"] == {}
    assert state["protection"]["strata"] == "auto"
    assert site.ask("/api/counts")["total"] == len(FRAME)


@pytest.mark.parametrize(
    ("roles", "kind"),
    [
        ({"sensitive": "Diseas", "quasi_identifiers": ["Age"]}, "no-such-column"),
        ({"sensitive": "Disease", "quasi_identifiers": ["Age", "Age"]}, "usage"),
        ({"sensitive": "Disease", "quasi_identifiers": ["Disease"]}, "usage"),
        ({"sensitive": None, "quasi_identifiers": ["Age"], "identifiers": ["Age"]}, "usage"),
    ],
)
def test_roles_that_cannot_be(site: Site, tables: Path, roles: dict[str, Any], kind: str) -> None:
    chosen(site, tables / "people.parquet")
    before = site.state()["roles"]
    answer = site.post("/api/roles", roles)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, kind)
    assert site.state()["roles"] == before


def test_nulls_want_a_name(site: Site, tmp_path: Path) -> None:
    frame = FRAME.assign(Disease=FRAME["Disease"].where(FRAME["Age"] > 21))
    frame.to_parquet(tmp_path / "nulls.parquet")
    identifier = done(site.upload("nulls.parquet", (tmp_path / "nulls.parquet").read_bytes())).json()["id"]
    site.table(identifier)
    site.send("/api/table", {"id": identifier})
    site.send("/api/roles", {**ROLES, "null_value": None})
    counted = site.counted()
    assert (counted["status"], counted["error"]["kind"]) == ("failed", "nulls")
    assert site.get("/api/counts").json()["error"]["kind"] == "nulls"
    assert site.post("/api/explore", {"limits": limits()}).json()["error"]["kind"] == "nulls"
    site.send("/api/roles", {**ROLES, "null_value": "unknown"})
    assert site.counted()["status"] == "ready"
    assert dict(zip(*(site.ask("/api/counts")[key] for key in ("values", "counts")), strict=True))["unknown"] == int(
        frame["Disease"].isna().sum()
    )


def test_what_is_not_ready_says_so() -> None:
    with open_site() as site:
        for address, body in (
            ("/api/roles", {"sensitive": "a"}),
            ("/api/explore", {"limits": limits()}),
            ("/api/pin", {"label": ""}),
            ("/api/publish", {"name": "a"}),
            ("/api/strata-price", {}),
        ):
            answer = site.post(address, body)
            assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "no-table"), address
        identifier = done(site.upload("a.csv", b"a,b\n1,2\n")).json()["id"]
        site.table(identifier)
        site.send("/api/table", {"id": identifier})
        for address in ("/api/publish", "/api/strata-price"):
            answer = site.post(address, {"name": "a"} if address == "/api/publish" else {})
            assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "not-ready")
        site.send("/api/roles", {"sensitive": "a"})
        assert site.post("/api/publish", {"name": "a"}).json()["error"]["kind"] == "not-ready"
        assert site.get("/job.toml").status_code == 200


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "a\n", "a\0", "ü", "a" * 61, "a\\b", "~", "-" * 61]
)
def test_names_that_a_release_cannot_have(site: Site, tables: Path, name: str) -> None:
    chosen(site, tables / "people.parquet")
    answer = site.post("/api/publish", {"name": name})
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "usage"


def test_names_are_taken_once(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "there").mkdir(parents=True)
    with open_site(StudioOptions(out=tmp_path / "out")) as site:
        chosen(site, tables / "people.parquet")
        published(site, "A.release_1-x", limits=limits(rule="uniform", uniform="0.5"))
        for name in ("A.release_1-x", "a.RELEASE_1-x", "there"):
            answer = site.post("/api/publish", {"name": name})
            assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "usage")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["A.release_1-x", "there"]
        (release,) = site.state()["releases"]
        assert release["saved"] is True


def test_the_price_of_strata(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    explored(site, exact=False, limits=limits(rule="uniform", uniform="0.5"), protection={"strata": ["Age"]})
    price = site.work("/api/strata-price")
    assert {"strata", "columns", "loss", "mse", "loss_of_one", "mse_of_one", "sentences"} <= set(price)
    plan = plan_counts(COUNTS, LimitPolicy.of(uniform="0.5"), options=PlanOptions())
    assert price["loss_of_one"] == plan.solution.loss
    assert sum(price["exposure"]["bands"]) == price["exposure"]["people"] == COUNTS.total
    assert price["exposure"]["sentence"].startswith("nobody's value is published outright")
    assert price["count_error"]["sentence"].startswith("a count of one value")


def test_nobody_is_published_outright_unless_that_is_meant(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    single = {"min_size": 1, "max_size": None}
    shown = explored(site, solve=single)["exposure"]  # theta 8: every limit is 1
    assert (shown["outright"], shown["bands"][-1], shown["mean"]) == (COUNTS.total, COUNTS.total, 1)
    task = site.task(site.send("/api/publish", {"name": "outright"})["task"])
    assert (task["status"], task["error"]["kind"]) == ("failed", "in-the-clear")
    site.work("/api/publish", {"name": "outright", "in_the_clear": True})
    assert explored(site, limits=limits(rule="odds", odds="8", floor="0"))["exposure"]["outright"] == 0


def test_the_trade_off(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    explored(site, limits=limits(rule="odds", odds="4", floor="0.02"))
    points = site.send("/api/trade-off")["points"]
    assert [point["odds"] for point in points] == list(CURVE)
    plan = plan_counts(COUNTS, LimitPolicy.of(odds=4, floor="0.02"))
    assert plan.exposure is not None
    assert points[3]["exposure"] == pytest.approx(plan.exposure.mean, rel=0.05)
    assert site.send("/api/trade-off")["points"] == points
    explored(site, limits=limits(floor="none"))
    answer = site.post("/api/trade-off", {})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "policy")


def test_without_its_table_a_release_has_no_truth(site: Site, tables: Path) -> None:
    table = chosen(site, tables / "people.parquet")
    release = published(site, "orphan", limits=limits(rule="uniform", uniform="0.5"), protection={"strata": "none"})
    done(site.remove(f"/api/tables/{table}"))
    assert one(site.state()["releases"], release)["with_truth"] is False
    assert site.ask(f"/api/releases/{release}/columns")["truth"] is False
    for address, body in (
        ("verify", {"against": True}),
        ("audit", {"truth": True}),
        ("count", {"expression": "Age > 1", "truth": True}),
    ):
        answer = site.post(f"/api/releases/{release}/{address}", body)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "no-table")
    assert site.work(f"/api/releases/{release}/verify", {"against": False})["verified"] is True


@pytest.mark.parametrize(
    "expression",
    ["", "Age >", "Nothing = 1", "Age IN (SELECT 1)", "read_text('/etc/hostname') = ''", "bucket = 1", "Age"],
)
def test_queries_that_are_none(site: Site, tables: Path, expression: str) -> None:
    releases = site.state()["releases"]
    release = releases[0]["id"] if releases else published_anew(site, tables)
    for truth in (False, True):
        answer = site.post(f"/api/releases/{release}/count", {"expression": expression, "truth": truth})
        assert answer.status_code == 400
        assert answer.json()["error"]["kind"] in ("query", "no-such-column")


def published_anew(site: Site, tables: Path) -> str:
    chosen(site, tables / "people.parquet")
    return published(site, "for-queries", limits=limits(rule="uniform", uniform="0.5"))


def test_a_release_that_was_made_before(tables: Path, tmp_path: Path) -> None:
    words = ["publish", str(tables / "people.csv"), "--sensitive", "Disease", "--quasi-identifiers", "Age"]
    words += ["--uniform", "1/2", "--out", str(tmp_path / "old <b>"), "--seed", "1", "--strata", "none"]
    assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    with open_site(StudioOptions(releases=(tmp_path / "old <b>",))) as site:
        (release,) = site.state()["releases"]
        assert (release["name"], release["saved"], release["seeded"]) == ("old <b>", True, True)
        assert (release["with_truth"], release["strata"]) == (False, 1)
        assert site.work(f"/api/releases/{release['id']}/verify", {"against": False})["verified"] is True
        answer = done(site.get(f"/releases/{release['id']}/release.zip"))
        assert answer.headers["content-disposition"] == 'attachment; filename="old_b_.zip"'
        job = parse_job(done(site.get(f"/releases/{release['id']}/job.toml")).text)
        assert set(job.limits.values) == set(COUNTS.values)
        assert job.limits.policy() == LimitPolicy.of(values=dict.fromkeys(COUNTS.values, "1/2"))
        for page in ("/query", "/publish"):
            assert "old <b>" not in done(site.get(page)).text


def test_pages_embed_nothing_that_could_run(site: Site, tables: Path) -> None:
    chosen(site, tables / "people.parquet")
    explored(site, exact=False, limits=limits(values={HTML_VALUE: "0.9"}))
    for page in ("table", "limits", "protection", "publish", "query"):
        text = done(site.get(f"/{page}")).text
        assert HTML_VALUE not in text
        assert "<script>alert" not in text
        assert "onerror=alert(2)>" not in text
