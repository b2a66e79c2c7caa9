"""What is said before a table is published, values in the clear, and the one verdict on a release."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dalenius
from dalenius.model.attack_result import ATTACKS
from dalenius.model.concern import Concern, Severity
from dalenius.policy.icd import groups_to_offer
from dalenius.policy.job import parse_job
from dalenius.studio.messages import on_a_page
from dalenius.studio.state import StudioOptions
from tests.studio.site import Site, done, limits, one, open_site

ROWS = 600
ROLES: dict[str, Any] = {
    "sensitive": "Disease",
    "quasi_identifiers": ["Age", "Ward"],
    "identifiers": ["Patient"],
    "null_value": None,
}
IN_THE_CLEAR = {"limits": limits(rule="uniform", uniform="1"), "solve": {"min_size": 1}}
HIDDEN = {"limits": limits(rule="uniform", uniform="0.6"), "protection": {"strata": "none"}}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People who are there twice, and a ward that says what they have."""
    rng = np.random.default_rng(1)
    disease = rng.choice(["Flu", "Cold", "Gout"], ROWS)
    frame = pd.DataFrame(
        {
            "Patient": [f"secret {row // 2}" for row in range(ROWS)],
            "Age": rng.integers(20, 30, ROWS),
            "Ward": [f"{name} ward" for name in disease],
            "Disease": disease,
        }
    )
    path = tmp_path_factory.mktemp("card") / "visits.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def site(table: Path) -> Iterator[Site]:
    job = parse_job('[report]\ntitle = "Visits 2026"\n')
    with open_site(StudioOptions(job=job)) as found:
        found.begin(table, **ROLES)
        yield found


def publish(site: Site, name: str, given: dict[str, Any], **asked: Any) -> str:
    site.send("/api/explore", given)
    return str(site.work("/api/publish", {"name": name, **asked})["release"])


def card(site: Site, release: str) -> Any:
    return site.ask(f"/api/releases/{release}/outcomes")["card"]


def codes(findings: list[Any]) -> list[tuple[str, str]]:
    return [(finding["code"], finding["severity"]) for finding in findings]


def test_a_table_is_looked_at_with_roles_that_nobody_has_saved(site: Site) -> None:
    before = site.state()["history"]
    concerns = site.send("/api/look", ROLES)["concerns"]
    assert ("determining-column", "stop") in codes(concerns)
    assert ("repeated-people", "stop") in codes(concerns)
    assert [one["tone"] for one in concerns] == sorted(
        (one["tone"] for one in concerns), key=["bad", "warn", "plain"].index
    )
    assert not any("--" in one["answer"] for one in concerns)
    fewer = site.send("/api/look", {**ROLES, "quasi_identifiers": ["Age"]})["concerns"]
    assert "determining-column" not in dict(codes(fewer))
    assert site.send("/api/look", ROLES)["concerns"] == concerns
    assert site.state()["history"] == before
    assert site.post("/api/look", {**ROLES, "sensitive": "Nothing"}).status_code == 400
    assert not any(b"secret 1" in answer for answer in site.heard)


def test_one_look_for_one_question(site: Site) -> None:
    roles = site.studio.draft.roles
    assert site.studio.look(roles) is site.studio.look(roles)


def test_values_in_the_clear_are_refused_until_somebody_says_that_they_are_meant(site: Site) -> None:
    site.send("/api/explore", IN_THE_CLEAR)
    price = site.send("/api/strata-figures")
    assert price["in_the_clear"]["of"] == ROWS
    assert price["in_the_clear"]["people"] == price["exposure"]["outright"] > 0
    assert sum(one["people"] for one in price["in_the_clear"]["values"]) == price["in_the_clear"]["people"]
    refused = site.task(site.send("/api/publish", {"name": "clear"})["task"])
    assert refused["error"]["kind"] == "in-the-clear"
    assert "--" not in refused["error"]["hint"]
    assert site.state()["releases"] == []

    release = publish(site, "clear", IN_THE_CLEAR, in_the_clear=True)
    assert "publish_in_the_clear = true" in done(site.get(f"/releases/{release}/job.toml")).text
    assert "publish_in_the_clear" not in done(site.get("/job.toml")).text
    assert site.task(site.send("/api/publish", {"name": "again"})["task"])["error"]["kind"] == "in-the-clear"
    for work in (f"/api/releases/{release}/verify", f"/api/releases/{release}/audit"):
        site.work(work, {"against": True} if work.endswith("verify") else {"truth": True})
    known = site.ask(f"/api/releases/{release}/outcomes")
    assert known["verify"]["verified"] is True
    assert known["audit"]["broken"] == []
    assert (known["card"]["advice"], known["card"]["verdict"]["tone"]) == ("do not publish", "bad")
    assert "in-the-clear" in dict(codes(known["card"]["findings"]))
    assert sum(known["card"]["people"]) == ROWS
    assert known["card"]["people"][-1] == price["exposure"]["outright"]


def test_nothing_is_cleared_before_it_was_attacked(site: Site) -> None:
    site.send("/api/roles", {**ROLES, "quasi_identifiers": ["Age"], "identifiers": []})
    release = publish(site, "hidden", HIDDEN)
    assert site.ask(f"/api/releases/{release}/outcomes")["card"] is None
    site.work(f"/api/releases/{release}/verify", {"against": True})
    found = card(site, release)
    assert (found["advice"], found["attackers"]) == ("look at this first", [])
    assert ("not-attacked", "look") in codes(found["findings"])
    site.work(f"/api/releases/{release}/audit", {"truth": True})
    known = site.ask(f"/api/releases/{release}/outcomes")
    assert "not-attacked" not in dict(codes(known["card"]["findings"]))
    played = [one["name"] for one in known["attackers"]]
    assert played == [name for name in ATTACKS if name in known["audit"]]
    assert [row["name"] for row in known["card"]["attackers"]] == played
    assert {len(row["cells"]) for row in known["card"]["attackers"]} == {7}
    site.send("/api/roles", ROLES)


def test_the_look_at_the_table_counts_for_the_verdict(site: Site) -> None:
    release = publish(site, "told", HIDDEN)
    site.work(f"/api/releases/{release}/verify")
    found = card(site, release)
    assert found["advice"] == "do not publish"
    assert ("determining-column", "stop") in codes(found["findings"])
    twin = done(
        site.get(f"/releases/{release}/report.json")
    ).json()  # which may leave the house, and has no such figure
    assert twin["from_raw_table"] is False
    assert "determining-column" not in dict(codes(twin["findings"]))
    site.work(f"/api/releases/{release}/audit", {"truth": True})
    again = codes(card(site, release)["findings"])
    assert again.count(("determining-column", "stop")) == 1


def test_the_head_of_the_report_is_kept_for_releases_of_the_table(site: Site) -> None:
    release = publish(site, "headed", HIDDEN)
    site.work(f"/api/releases/{release}/verify")
    twin = f"/releases/{release}/report.json"
    assert done(site.get(twin)).json()["title"] == "Visits 2026"
    head = {"title": "Visits", "dataset": " ", "controller": "City  Hospital", "purpose": "Research"}
    kept = site.send(f"/api/releases/{release}/head", head)["report"]
    assert kept == {"title": "Visits", "dataset": None, "controller": "City Hospital", "purpose": "Research"}
    assert {name: done(site.get(twin)).json()[name] for name in kept} == kept
    assert one(site.state()["releases"], release)["report"] == kept
    for address in ("/job.toml", f"/releases/{release}/job.toml"):
        assert parse_job(done(site.get(address)).text).report.model_dump() == kept
    other = publish(site, "headed-too", HIDDEN)
    assert one(site.state()["releases"], other)["report"] == kept
    assert site.post(f"/api/releases/{release}/head", {"title": "x" * 101}).status_code == 400


def test_a_release_that_was_made_elsewhere_has_a_card_too(table: Path, tmp_path: Path) -> None:
    dalenius.publish(
        table, {"uniform": "0.6"}, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "old", seed=1
    )
    with open_site(StudioOptions(releases=(tmp_path / "old",))) as site:
        (release,) = site.state()["releases"]
        site.work(f"/api/releases/{release['id']}/verify")
        found = card(site, release["id"])
        assert (found["advice"], found["findings"][0]["code"]) == ("do not publish", "seeded")
        compared = next(finding for finding in found["findings"] if finding["code"] == "not-compared")
        assert "Studio does not have the table" in compared["answer"]
        site.send(f"/api/releases/{release['id']}/head", {"title": "Old"})
        assert 'title = "Old"' in done(site.get(f"/releases/{release['id']}/job.toml")).text


def test_no_answer_names_an_option_on_a_page() -> None:
    """Every text with an option, in the modules that have concerns."""
    source = Path(dalenius.__file__).parent
    parts = (
        "infer/giveaways",
        "publishing/missing_codes",
        "report/statements",
        "verify/findings",
        "model/attack_result",
    )
    texts = []
    for part in (*parts, "publishing/inspection"):
        for node in ast.walk(ast.parse((source / f"{part}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "answer":
                texts += [_plain(node.value)]
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Concern" and len(node.args) > 3:
                texts += [_plain(node.args[3])]
    with_options = [text for text in texts if "--" in text]
    assert len(with_options) >= 5
    codes = ("not-attacked", "not-measured", "not-compared")
    left = [text for text in with_options if "--" in on_a_page(text, "") and not re.search("--truth|--audit", text)]
    assert left == []
    assert not any("--" in on_a_page("Audit with --truth TABLE.", code) for code in codes)
    offer = groups_to_offer([*(f"{letter}{number}" for letter in "CEI" for number in range(10, 20)), "?", "not known"])
    assert (
        on_a_page(f"{offer}.", "")
        == "let chapters and blocks of codes have limits too: choose ICD-10 on the limits page."
    )


def _plain(node: ast.expr) -> str:
    """A text of the source, with x for whatever is filled in."""
    parts = ast.walk(node)
    return "x".join(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def test_a_concern_is_the_same_after_json() -> None:
    given = Concern("a", Severity.LOOK, "b", people=3, points=1.5, attacker="order", values=("x",), columns=("y", "z"))
    assert Concern.of_object(given.as_object()) == given
