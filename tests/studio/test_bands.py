"""Bands of numbers, codes for missing values and values that do not apply, from Studio's forms to a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dalenius
from dalenius.cli.main import main
from dalenius.model.problem import MOST_VALUES
from dalenius.policy.job import parse_job
from dalenius.release.folder import open_release
from dalenius.studio.state import StudioOptions
from dalenius.verify.judge import verify
from tests.studio.site import Site, done, limits, one, open_site

ROLES: dict[str, Any] = {"sensitive": "Income", "quasi_identifiers": ["Age"]}
BY_BANDS = {"source": "cuts", "cuts": "20000; 40000, 80000"}
NAMES = ["below 20000", "20000 to below 40000", "40000 to below 80000", "80000 and above"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Incomes that hardly repeat, with -9 where nobody knows, and whether somebody works, which children do not."""
    rng = np.random.default_rng(7)
    ages = rng.integers(5, 80, 600)
    income = rng.lognormal(10.5, 0.6, 600).astype(int).astype(str)
    income[rng.random(600) < 0.1] = "-9"
    works = np.where(ages < 16, "N", rng.choice(["full", "part", "?"], 600, p=[0.6, 0.3, 0.1]))
    path = tmp_path_factory.mktemp("bands") / "incomes.csv"
    pd.DataFrame({"Age": ages // 5, "Income": income, "Works": works}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def site(table: Path) -> Iterator[Site]:
    with open_site() as found:
        found.begin(table, sensitive="Income", quasi_identifiers=["Age"], missing=["-9"])
        yield found


def explored(site: Site, **grouped: Any) -> Any:
    given = limits(rule="odds", odds="4", floor="0.02", **grouped)
    return site.send("/api/explore", {"limits": given, "protection": {"strata": "none"}, "exact": True})


def sizes(found: list[Any]) -> list[tuple[int, int]]:
    return [(group["size"], group["buckets"]) for group in found]


def test_bands_are_offered_where_numbers_are_nearly_all_different(site: Site, table: Path) -> None:
    counted = site.state()["counted"]
    assert (counted["numbers"] > 400, counted["bands_advised"]) == (True, True)
    assert explored(site)["notes"] == []  # the page has a button instead of an option
    found = explored(site, grouping={"source": "cuts", "cuts": counted["cuts"]})
    assert found["m"] == counted["cuts"].count(",") + 3  # bands, and what is missing
    assert found["loss"] < explored(site)["loss"] * 50
    site.send("/api/roles", {"sensitive": "Age", "quasi_identifiers": ["Income"]})
    assert site.counted()["bands_advised"] is False
    assert site.state()["limits"]["grouping"]["source"] == "none"
    site.send("/api/roles", {"sensitive": "Income", "quasi_identifiers": ["Age"], "missing": ["-9"]})
    assert site.counted()["status"] == "ready"


def test_from_bands_to_a_release(site: Site, table: Path, tmp_path: Path, monkeypatch: Any) -> None:
    before = explored(site, grouping=BY_BANDS)
    assert before["values"] == [*NAMES, "missing"]
    found = explored(site, grouping=BY_BANDS, values={"80000 and above": "8 %", "missing": "0.9"})
    assert sizes(found["setting"]) != sizes(before["setting"])
    policy = {"odds": 4, "grouping": "cuts:20000,40000,80000", "groups": {NAMES[3]: "0.08", "missing": "0.9"}}
    plan = dalenius.plan(table, policy, sensitive="Income", missing=["-9"])
    assert plan.solution.setting is not None
    assert sizes(found["setting"]) == [(group.size, group.buckets) for group in plan.solution.setting.groups]
    assert site.ask("/api/counts")["counts"] == found["counts"]
    assert site.send("/api/trade-off")["points"]

    concerns = site.send("/api/look", {**ROLES, "missing": ["-9"]})["concerns"]
    assert "nearly-all-different" not in [concern["code"] for concern in concerns]
    release = site.work("/api/publish", {"name": "bands"})["release"]
    verdict = site.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"] is True, verdict
    assert site.ask(f"/api/releases/{release}/outcomes")["verify"]["verified"] is True
    assert done(site.get(f"/releases/{release}/report")).status_code == 200
    assert site.ask(f"/api/releases/{release}/columns")["sensitive"]["kind"] == "number"

    text = done(site.get(f"/releases/{release}/job.toml")).text
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incomes.csv").write_bytes(table.read_bytes())
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    words = text.partition("\n")[0].removeprefix("# dalenius ").split()
    made = CliRunner().invoke(main, words, catch_exceptions=False)
    assert made.exit_code == 0, made.output
    manifest = open_release(tmp_path / "bands").manifest
    assert [(group.size, group.buckets) for group in manifest.setting] == sizes(found["setting"])
    assert (manifest.missing, manifest.bands) == (["-9"], ["20000", "40000", "80000"])

    given = StudioOptions(table=tmp_path / "incomes.csv", job=parse_job(text), releases=(tmp_path / "bands",))
    with open_site(given) as other:
        assert other.counted()["status"] == "ready"
        state = other.state()
        assert (state["missing"], state["limits"]["grouping"]["cuts"]) == (["-9"], "20000, 40000, 80000")
        assert other.ask("/api/counts")["are_bands"] is True
        from_manifest = parse_job(done(other.get(f"/releases/{state['releases'][0]['id']}/job.toml")).text)
    assert verify(tmp_path / "bands", job=from_manifest).verified


def test_what_is_missing_may_not_apply(site: Site) -> None:
    site.send("/api/roles", {**ROLES, "missing": ["-9"], "not_applicable": ["missing"]})
    assert site.counted()["status"] == "ready"
    found = explored(site, grouping=BY_BANDS)
    assert found["values"] == NAMES
    assert "set apart" in found["notes"][0]
    release = site.work("/api/publish", {"name": "apart"})["release"]
    assert site.work(f"/api/releases/{release}/verify", {"against": True})["verified"] is True
    assert one(site.state()["releases"], release)["strata"] == 2
    fakes = {"limits": limits(grouping=BY_BANDS), "protection": {"fake_values": 1}}
    error = site.post("/api/explore", fakes).json()["error"]
    assert (error["kind"], error["hint"]) == ("usage", "Use no fake values, or let every value apply.")


def test_what_makes_no_sense_is_said(site: Site) -> None:
    site.send("/api/roles", {**ROLES, "missing": ["-9"]})
    assert site.counted()["status"] == "ready"
    for bands, why in [
        ({"source": "cuts", "cuts": " "}, "nothing says where bands begin"),
        ({"source": "cuts", "cuts": "5, 3"}, "cuts must ascend"),
        ({"source": "width", "width": "0"}, "width must be above 0"),
        ({"source": "quantiles", "quantiles": "x"}, "quantiles"),
        ({"source": "width", "width": "1"}, "bands, and at most 1,000 are allowed"),
    ]:
        answer = site.post("/api/explore", {"limits": limits(grouping=bands)})
        assert (answer.status_code, why in answer.json()["error"]["message"]) == (400, True), answer.text
    assert explored(site, grouping=BY_BANDS, values={"below 5": "0.5"})["problem"]["kind"] == "policy"
    both = {**ROLES, "missing": ["-9"], "not_applicable": ["-9"]}
    assert "both" in site.post("/api/roles", both).json()["error"]["message"]
    site.send("/api/roles", {**ROLES, "missing": ["-8"]})
    counted = site.counted()
    assert ("no record has it" in counted["error"]["message"], "--" in counted["error"]["hint"]) == (True, False)
    for allowed, status in ((True, "ready"), (None, "failed")):
        site.post("/api/explore", {"limits": limits(allow_absent=allowed)})
        assert site.counted()["status"] == status


def test_values_that_do_not_apply_have_no_limits(site: Site, table: Path) -> None:
    roles = {"sensitive": "Works", "quasi_identifiers": ["Age"], "missing": ["?"]}
    site.send("/api/roles", roles)
    assert site.counted()["status"] == "ready"
    explored(site, values={"N": "0.5", "full": "0.9"})
    works = site.post("/api/look", {**ROLES, "quasi_identifiers": ["Works"]})
    assert works.status_code == 200  # what was chosen for another column is not asked of this one
    (code,) = [one for one in site.send("/api/look", roles | {"missing": []})["concerns"] if one["values"]]
    assert (code["code"], code["values"], "--" in code["answer"]) == ("missing-codes", ["?"], False)
    site.send("/api/roles", {**roles, "not_applicable": ["N"]})
    assert site.state()["limits"]["values"] == {"full": "0.9"}
    found = explored(site, values={"full": "0.9"})
    policy = {"odds": 4, "floor": "0.02", "values": {"full": "0.9"}}
    plan = dalenius.plan(table, policy, sensitive="Works", missing=["?"], not_applicable=["N"])
    assert plan.solution.setting is not None
    assert sizes(found["setting"]) == [(group.size, group.buckets) for group in plan.solution.setting.groups]
    assert sorted(found["values"]) == ["full", "missing", "part"]


def test_more_numbers_than_values_are_allowed_need_bands(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    numbers = np.arange(MOST_VALUES + 1)
    pd.DataFrame({"Age": numbers % 7, "Income": numbers}).to_parquet(path)
    site.begin(path, **ROLES)
    assert site.get("/api/counts").status_code == 400
    assert site.state()["counted"]["bands_advised"] is True
    assert explored(site, grouping={"source": "quantiles", "quantiles": "4"})["m"] == 4
    assert site.ask("/api/counts")["are_bands"] is True
