"""Groups of values in Studio: limits of groups in answers, offers where groups do not fit, and the way to a release."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from dalenius.model.problem import ValueCounts
from dalenius.planning import plan_counts
from dalenius.policy.job import parse_job
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.release.folder import open_release
from dalenius.studio.exploration import Exploration, exploration_object
from dalenius.studio.explorer import Explorer
from dalenius.studio.state import StudioOptions
from tests.studio.site import Site, done, limits, open_site

TREE = {"any cancer": {"breast": ["C50", "D05"], "skin": ["C43", "C44"]}, "any infection": {"gut": ["A04", "A08"]}}
COUNTS = ValueCounts.of([("C50", 60), ("D05", 20), ("C43", 40), ("C44", 30), ("A04", 150), ("A08", 100), ("?", 600)])
GROUPED: dict[str, Any] = {"grouping": {"tree": TREE, "ungrouped": ["?"]}}


def codes(number: int) -> ValueCounts:
    """Codes of three digits, in groups by their first and their first two digits, from frequent to rare."""
    return ValueCounts.of((f"{code:03d}", 60_000 // (code + 1)) for code in range(number))


def keeps_limits(answer: Exploration) -> bool:
    """Whether every group has at most its share of a bucket; at least one group has a limit."""
    assert answer.tree is not None
    shares = answer.tree.shares
    limited = [group for group in answer.tree.groups.groups if group.limit is not None]
    return bool(limited) and all(shares[group.name].share <= (group.limit or 1) for group in limited)


def test_one_limit_of_a_group_after_the_other() -> None:
    """What quick answers learn without groups, and under other limits of groups, does not mislead the next one."""
    counts = codes(300)
    explorer = Explorer(counts)
    for limit in (None, "0.6", "0.5", "0.45", None, "0.5"):
        policy = LimitPolicy.of(odds=4)
        if limit is not None:
            policy = LimitPolicy.of(odds=4, grouping="prefix:1,2", groups={"0": "0.97", "1": limit})
        answer = explorer.quick(policy)
        loss = plan_counts(counts, policy).solution.loss
        assert answer.setting is not None
        assert loss is not None
        assert loss * (1 - 1e-3) <= answer.setting.loss <= 1.1 * loss
        assert limit is None or keeps_limits(answer)


def test_answers_under_other_groups_are_not_mixed_up() -> None:
    explorer = Explorer(COUNTS)
    others: list[dict[str, Any]] = [
        {},
        {"groups": {"any cancer": "0.16"}},
        {"groups": {"any cancer": "0.2"}},
        {"levels": {"level 1": "none"}},
        {"levels": {"level 1": {"odds": "1.1"}}},
    ]
    policies = [LimitPolicy.of(odds=8), *(LimitPolicy.of(odds=8, **GROUPED, **other) for other in others)]
    settings = []
    for policy in policies:
        answer, plan = explorer.explore(policy, exact=True), plan_counts(COUNTS, policy)
        assert answer.setting == plan.solution.setting
        assert explorer.quick(policy).setting == answer.setting
        settings.append(answer.setting)
    assert len(set(settings)) >= 4


def test_an_answer_has_the_tree_with_limits_and_shares() -> None:
    policy = LimitPolicy.of(odds=8, **GROUPED, groups={"any cancer": "0.16"}, levels={"level 2": "none"})
    answer = Explorer(COUNTS).explore(policy, exact=True)
    shown = exploration_object(answer)["groups"]
    place = {name: at for at, name in enumerate(shown["names"])}
    assert set(place) == {"any cancer", "breast", "skin", "any infection", "gut"}
    assert shown["parents"][place["breast"]] == place["any cancer"]
    assert shown["records"][place["any cancer"]] == 150
    assert shown["exact_limits"][place["any cancer"]] == "4/25"
    assert shown["exact_limits"][place["breast"]] is None
    of_value = dict(zip(exploration_object(answer)["values"], shown["of_value"], strict=True))
    assert (of_value["D05"], of_value["?"]) == (place["breast"], -1)
    worst = plan_counts(COUNTS, policy).group_shares
    assert [shown["worst"][place[group.name]] for group in worst] == [float(group.share) for group in worst]
    assert 0.15 <= shown["worst"][place["any cancer"]] <= 0.16
    assert answer.forcing is not None
    assert keeps_limits(answer)


def test_a_group_that_is_too_frequent_gets_an_offer() -> None:
    policy = LimitPolicy.of(odds=8, **GROUPED, groups={"any cancer": "0.1"}, values={"?": "0.5"})
    answer = Explorer(COUNTS).quick(policy)
    assert answer.obstacle is not None
    assert answer.obstacle.message.startswith("1 of 7 values and 1 group are more frequent than the limit allows")
    assert answer.tree is not None
    assert exploration_object(answer)["groups"]["eligible"].count(False) == 1
    offer = answer.obstacle.offer
    assert offer is not None
    assert offer.groups == {"any cancer": "0.15"}
    assert offer.values == {"?": "0.6"}
    better = LimitPolicy.of(odds=8, **GROUPED, groups=offer.groups, values=offer.values)
    assert plan_counts(COUNTS, better).solution.setting is not None


def test_values_that_no_group_knows_can_be_set_apart() -> None:
    answer = Explorer(COUNTS).quick(LimitPolicy.of(odds=8, grouping="icd10"))
    assert answer.obstacle is not None
    assert "1 of 7 sensitive values is unknown to icd10: '?'" in answer.obstacle.message
    assert answer.obstacle.offer is not None
    apart = {"named": "icd10", "ungrouped": list(answer.obstacle.offer.ungrouped)}
    assert keeps_limits(Explorer(COUNTS).quick(LimitPolicy.of(odds=8, grouping=apart)))
    other = Explorer(COUNTS).quick(LimitPolicy.of(odds=8, grouping="icd9")).obstacle
    assert other is not None
    assert other.offer is None  # these are other codes, and not some that belong to no group
    assert len(other.values) == 7


def test_groups_without_values_may_stay() -> None:
    tree = {**TREE, "any injury": ["S06"]}
    grouping = {"tree": tree, "ungrouped": ["?"]}
    answer = Explorer(COUNTS).quick(LimitPolicy.of(odds=8, grouping=grouping))
    assert answer.obstacle is not None
    assert "no value of the data is in 'any injury'" in answer.obstacle.message
    assert answer.obstacle.offer is not None
    assert answer.obstacle.offer.allow_absent
    assert Explorer(COUNTS).quick(LimitPolicy.of(odds=8, grouping=grouping, allow_absent=True)).obstacle is None


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    diagnoses = [value for value, count in zip(COUNTS.values, COUNTS.counts, strict=True) for _ in range(count)]
    frame = pd.DataFrame({"Age": rng.integers(20, 80, len(diagnoses)), "Diagnosis": rng.permutation(diagnoses)})
    path = tmp_path_factory.mktemp("groups") / "diagnoses.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def site(table: Path) -> Iterator[Site]:
    with open_site() as found:
        found.begin(table, sensitive="Diagnosis", quasi_identifiers=["Age"])
        yield found


FILE = b"value,site,kind\nC50,breast,any cancer\nD05,breast,any cancer\nC43,skin,any cancer\nC44,skin,any cancer\n"
FILE += b"A04,gut,any infection\nA08,gut,any infection\n"


def send(site: Site, content: bytes) -> Any:
    headers = {"Origin": site.home, "Content-Type": "application/octet-stream"}
    return site.client.post("/api/groups", params={"name": "../kinds.csv"}, content=content, headers=headers)


def explored(site: Site, **grouped: Any) -> Any:
    given = limits(rule="odds", odds="8", floor="0.02", **grouped)
    return site.send("/api/explore", {"limits": given, "protection": {"strata": "none"}, "exact": True})


def test_from_a_file_of_groups_to_a_release(site: Site, table: Path, tmp_path: Path, monkeypatch: Any) -> None:
    file = done(send(site, FILE)).json()
    assert file["name"] == "kinds.csv"
    grouping = {"source": "file", "file": file["id"], "ungrouped": ["?"]}
    before = explored(site)
    loose = explored(site, grouping=grouping, levels={"site": {}})
    tight = explored(site, grouping=grouping, groups={"any cancer": "16 %"}, levels={"site": {}})
    assert len({found["loss"] for found in (before, loose, tight)}) >= 2
    assert site.state()["group_source"] == file
    assert site.state()["limits"]["groups"] == {"any cancer": "0.16"}
    points = site.send("/api/trade-off")["points"]
    assert points[0]["exposure"] < points[-1]["exposure"]

    assert 0.15 <= site.send("/api/strata-figures")["groups"]["any cancer"] <= 0.16
    release = site.work("/api/publish", {"name": "grouped"})["release"]
    verdict = site.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"] is True
    (cancer,) = [group for group in verdict["groups"] if group["name"] == "any cancer"]
    assert cancer["limit"] == "4/25"
    assert Fraction(cancer["worst"]["count"], cancer["worst"]["size"]) <= Fraction("0.16")
    assert site.ask(f"/api/releases/{release}/outcomes")["own_groups"] == ["any cancer"]

    text = done(site.get(f"/releases/{release}/job.toml")).text
    assert text.partition("\n")[2] == done(site.get("/job.toml")).text.partition("\n")[2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kinds.csv").write_bytes(FILE)
    (tmp_path / "diagnoses.csv").write_bytes(table.read_bytes())
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    job = parse_job(text, tmp_path)
    assert job.policy() == LimitPolicy.of(
        odds=8,
        grouping={"csv": str(tmp_path / "kinds.csv"), "ungrouped": ["?"]},
        groups={"any cancer": "0.16"},
        levels={"site": "none"},
    )
    words = text.partition("\n")[0].removeprefix("# dalenius ").split()
    made = CliRunner().invoke(main, words, catch_exceptions=False)
    assert made.exit_code == 0, made.output
    manifest = open_release(tmp_path / "grouped").manifest
    setting = [{"size": group.size, "buckets": group.buckets} for group in manifest.setting]
    assert setting == [{"size": group["size"], "buckets": group["buckets"]} for group in tight["setting"]]

    with open_site(StudioOptions(table=tmp_path / "diagnoses.csv", job=job, releases=(tmp_path / "grouped",))) as other:
        state = other.state()
        assert state["limits"]["grouping"]["ungrouped"] == ["?"]
        assert state["group_source"]["name"] == "kinds.csv"
        assert parse_job(done(other.get("/job.toml")).text).policy() == job.policy()
        from_manifest = parse_job(done(other.get(f"/releases/{state['releases'][0]['id']}/job.toml")).text)
    resolved = [resolve_limits(one.policy(), COUNTS) for one in (job, from_manifest)]
    assert resolved[0].limits == resolved[1].limits
    by_name = [{group.name: group.limit for group in one.groups.groups} for one in resolved if one.groups is not None]
    assert by_name[0] == by_name[1]


def test_groups_with_known_records_and_fake_values(site: Site) -> None:
    given = limits(rule="odds", odds="8", floor="0.1", grouping={"source": "prefix"}, groups={"C": "0.3"})
    protection = {"known_records": 1, "fake_values": 1, "strata": "none"}
    found = site.send("/api/explore", {"limits": given, "protection": protection})
    cancer = found["groups"]["names"].index("C")
    assert 0 < found["groups"]["worst"][cancer] <= 0.3
    release = site.work("/api/publish", {"name": "protected"})["release"]
    verdict = site.work(f"/api/releases/{release}/verify", {"against": True})
    assert verdict["verified"] is True
    (group,) = [group for group in verdict["groups"] if group["name"] == "C"]
    assert Fraction(group["worst"]["count"], group["worst"]["size"] - 1) <= Fraction("0.3")


def test_a_file_that_cannot_be_used_says_why(site: Site) -> None:
    kept = len(list(site.studio.private.folder("groups").iterdir()))
    twice = send(site, FILE + b"C50,skin,any cancer\n")
    assert twice.status_code == 400
    assert twice.json()["error"]["kind"] == "policy"
    assert "'C50' is in 'breast' and, in row 8" in twice.json()["error"]["message"]
    assert send(site, b"\xff").status_code == 400
    assert len(list(site.studio.private.folder("groups").iterdir())) == kept
    asked = limits(rule="odds", odds="8", floor="0.02", grouping={"source": "file", "file": "../kinds.csv"})
    assert site.post("/api/explore", {"limits": asked}).status_code == 404


def test_groups_that_make_no_sense_do_not_become_the_draft(site: Site) -> None:
    explored(site, grouping={"source": "prefix", "prefix": "1, 2"})
    for prefix in ("0", "x", ""):
        asked = limits(rule="odds", odds="8", floor="0.02", grouping={"source": "prefix", "prefix": prefix})
        answer = site.post("/api/explore", {"limits": asked})
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "policy")
    assert site.state()["limits"]["grouping"]["prefix"] == "1, 2"
    unknown = explored(site, grouping={"source": "icd10"})
    assert unknown["problem"]["values"] == ["?"]
    assert unknown["problem"]["offer"]["ungrouped"] == ["?"]
    assert unknown["groups"] is None
    site.send("/api/roles", {"sensitive": "Age", "quasi_identifiers": ["Diagnosis"]})
    assert site.state()["limits"]["grouping"]["source"] == "none"
