"""Several things at once: questions that overtake each other, tabs that share a draft, work that is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dalenius.model.problem import ValueCounts
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.state import StudioOptions
from tests.studio.site import HTML_COLUMN, ROLES, Site, limits, one, open_site, people, until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A Studio whose table has 300 sensitive values with counts of all sizes: an exact answer takes a while."""
    rng = np.random.default_rng(2)
    numbers = np.minimum(rng.zipf(1.3, 60_000), 300)
    frame = pd.DataFrame({"Disease": [f"disease {number}" for number in numbers], "Age": rng.integers(0, 90, 60_000)})
    frame.to_parquet(tmp_path / "many.parquet")
    with open_site(StudioOptions(out=tmp_path / "out")) as found:
        found.begin(tmp_path / "many.parquet", sensitive="Disease", quasi_identifiers=["Age"])
        yield found


def test_a_newer_question_ends_an_older_exact_one(site: Site) -> None:
    exact = {"limits": limits(theta="3", base="0.011"), "protection": {"known_records": 2, "fake_values": 1}}
    exact["solve"] = {"gap": 0.0}  # which takes minutes
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(site.post, "/api/explore", {**exact, "exact": True, "sequence": 1})
        until(lambda: site.state()["limits"]["theta"], lambda theta: theta == "3")
        newer = site.send("/api/explore", {"limits": limits(theta="4"), "exact": False, "sequence": 2})
        answer = slow.result()
    assert newer["sequence"] == 2
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "abandoned")
    assert site.state()["limits"]["theta"] == "4"
    again = site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.9"), "exact": True, "sequence": 3})
    assert (again["exact"], again["sequence"]) == (True, 3)


def test_questions_side_by_side_get_their_own_answers(tmp_path: Path) -> None:
    frame = people()
    frame.to_parquet(tmp_path / "people.parquet")
    counts = ValueCounts.of(frame["Disease"].value_counts().items())
    with open_site() as site:
        site.begin(tmp_path / "people.parquet", **{**ROLES, "null_value": None})
        asked = [f"{number}/20" for number in range(8, 20)]

        def explored(limit: str) -> Any:
            return site.send("/api/explore", {"limits": limits(rule="uniform", uniform=limit), "draft": False})

        with ThreadPoolExecutor(6) as tabs:
            answers = list(tabs.map(explored, asked))
    for limit, answer in zip(asked, answers, strict=True):
        assert set(answer["exact_limits"]) == {str(LimitPolicy.of(uniform=limit).uniform)}
        plan = plan_counts(counts, LimitPolicy.of(uniform=limit))
        assert plan.solution.loss is not None
        assert answer["loss"] >= plan.solution.loss


def test_tabs_share_one_draft(tmp_path: Path) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    with open_site() as site:
        site.begin(tmp_path / "people.parquet", **{**ROLES, "null_value": None})
        problems: list[Any] = []

        def changing(number: int) -> None:
            for step in range(10):
                if number % 2:
                    body = {**ROLES, "sensitive": "Disease" if step % 2 else "Age", "quasi_identifiers": [HTML_COLUMN]}
                    answer = site.post("/api/roles", body)
                else:
                    answer = site.post("/api/explore", {"limits": limits(theta=str(step + 1))})
                if answer.status_code >= 500:
                    problems.append(answer.text)
                site.state()

        tabs = [threading.Thread(target=changing, args=(number,)) for number in range(4)]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.join()
        assert problems == []
        assert site.state()["limits"]["theta"] == "10"


def test_cancelling_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.9")})
    task = site.send("/api/publish", {"name": "stopped", "format": "csv"})["task"]
    busy = site.post("/api/publish", {"name": "other"})
    assert (busy.status_code, busy.json()["error"]["kind"]) == (409, "busy")
    assert [entry["id"] for entry in site.state()["tasks"]] == [task]
    site.send(f"/api/tasks/{task}/cancel")
    ended = site.task(task)
    assert (ended["status"], ended["result"], ended["error"]) == ("cancelled", None, None)
    assert site.state()["tasks"] == []
    assert site.state()["releases"] == []
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []
    release = site.work("/api/publish", {"name": "stopped", "format": "parquet"})["release"]
    for what, body in (("verify", {"against": True}), ("audit", {"truth": True})):
        task = site.send(f"/api/releases/{release}/{what}", body)["task"]
        site.send(f"/api/tasks/{task}/cancel")
        assert site.task(task)["status"] == "cancelled"
    state = one(site.state()["releases"], release)
    assert (state["verified"], state["audited"]) == (None, False)


def test_a_table_that_is_worked_on_stays(site: Site) -> None:
    table = site.state()["table"]
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.9")})
    task = site.send("/api/publish", {"name": "going-on"})["task"]
    answer = site.remove(f"/api/tables/{table}")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "busy")
    site.send(f"/api/tasks/{task}/cancel")
    site.task(task)
    assert site.remove(f"/api/tables/{table}").status_code == 200


def test_the_end_in_the_middle_of_publishing(tmp_path: Path) -> None:
    people(5_000).to_parquet(tmp_path / "people.parquet")
    with open_site(StudioOptions(out=tmp_path / "out")) as site:
        site.begin(tmp_path / "people.parquet", **{**ROLES, "null_value": None})
        site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.5")})
        site.send("/api/publish", {"name": "never", "format": "csv"})
        folder = site.studio.private.path
    assert not folder.exists()
    assert not (tmp_path / "out").exists() or [path.name for path in (tmp_path / "out").iterdir()] in ([], ["never"])
