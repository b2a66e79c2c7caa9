"""Groups of values in a report: the tree, the promise, and what is not promised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dalenius.model.groups import MOST_LEVELS
from dalenius.report import group_tree
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object
from tests.handmade import edit_manifest, grouped_hospital, hospital
from tests.report.reading import Read, read

Twin = dict[str, Any]


def twin_of(folder: Path, **asked: Any) -> Twin:
    return report_object(collect(folder, **asked))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    made = grouped_hospital()
    return twin_of(made.write(tmp_path_factory.mktemp("groups") / "release"), audit=True, truth=made.source())


@pytest.fixture(scope="module")
def page(whole: Twin) -> Read:
    return read(report_html(whole))


def test_the_twin_has_the_groups_with_their_worst_cases(whole: Twin) -> None:
    chronic = {"name": "Chronic", "level": "level 1", "parent": None, "limit": "1/2", "count": 4, "values": 2}
    found = whole["release"]["groups"]
    assert [group["name"] for group in found] == ["Airways", "Chronic", "Joints"]
    assert found[1] == {**chronic, "worst": {"count": 2, "size": 4}, "probability": "1/2", "share_of_limit": 1.0}
    assert (found[2]["parent"], found[2]["limit"], found[2]["share_of_limit"]) == (1, None, None)
    limits = {value["value"]: (value["group"], value["group_limit"]) for value in whole["release"]["values"]}
    assert limits == {"HIV": (1, "1/2"), "Gout": (2, "1/2"), "Flu": (0, None), "Cold": (0, None)}


def test_exposure_by_group(whole: Twin) -> None:
    """Flu, cold / flu, gout / HIV, flu, flu, cold / HIV, cold, gout, flu."""
    airways, chronic, joints = (group["exposure"] for group in whole["verify"]["groups"])
    assert (airways["people"], airways["outright"], airways["mean"]) == (8, 2, (2 * 1 + 0.5 + 3 * 0.75 + 2 * 0.5) / 8)
    assert (chronic["people"], chronic["outright"], chronic["mean"]) == (4, 0, (0.5 + 0.25 + 2 * 0.5) / 4)
    assert (joints["people"], joints["mean"], joints["highest"]) == (2, (0.5 + 0.25) / 2, 0.5)


def test_the_page_shows_the_tree(whole: Twin, page: Read) -> None:
    html = report_html(whole)
    tree = html[html.index('<ul class="tree">') :]
    (within,) = re.findall(r"<details><summary><bdi class=\"name\">(.*?)</bdi>.*?</details>", tree, re.DOTALL)[:1]
    assert within == "Chronic"
    opened = tree[tree.index("<details>") : tree.index("</details>")]
    assert "Joints" in opened
    assert "Airways" not in opened
    text = page.section("values")
    assert "1 of 3 groups of values has a limit. There are 2 levels of groups: level 1 and level 2." in text
    assert "limit 50 % · at most 2 of 4 (50 %), 100 % of the limit · 4 people, 2 values · mean exposure 43.8 %" in text
    assert (
        "no limit · at most 2 of 2 (100 %) · 8 people, 2 values · mean exposure 71.9 % · certain for 2 people" in text
    )


def test_front_page_and_promise_speak_of_groups(page: Read) -> None:
    assert (
        "One group of values has a limit too. The largest share of a bucket that “Chronic” has is 50.0 %; its limit is "
        "50 %." in page.section("exposure")
    )
    promised = page.section("promised")
    assert "1 group of values has a limit too: the largest probability with which somebody may infer that" in promised
    assert "and that the value is one of a group with at most the limit of the group" in promised
    assert "“Chronic”: 2 of 4 (50 %). The limit is 1 in 2 (50 %); this is exactly the limit." in promised
    assert "every value keeps its limit, and so does every group of values" in promised
    assert "every value, and every group of values that has a limit, of every bucket is within" in page.section(
        "summary"
    )
    assert "1 in 2 (50 %) for 1 group of values" in page.section("summary")
    assert "Other groups of values." in page.section("not-promised")


def test_attackers_claims_about_groups_are_shown(whole: Twin, page: Read) -> None:
    claims = whole["audit"]["corruption"]["groups"]
    assert (claims["people_above_limit"], claims["claims"]) == (5, 4)
    assert "corruption: groups" in page.section("attackers")
    assert "order: groups" not in page.section("attackers")
    text = page.section("attacks")
    assert f"{claims['claims']} claims that somebody's value is one of a group are above the limit of the group" in text
    assert "A claim is a value, or a group of values, that the attacker believes" in text


def test_a_value_without_a_limit_of_its_own_may_have_that_of_its_group(tmp_path: Path) -> None:
    limits = {"HIV": "1", "Gout": "1", "Flu": "3/4", "Cold": "1/2"}
    text = read(report_html(twin_of(grouped_hospital(limits=limits).write(tmp_path)))).text
    assert "which is no limit: nothing is promised" not in text
    assert "Values without a limit." not in text
    assert "to 1, which is no limit of its own; 1 in 2 (50 %) for 1 group of values" in text
    alone = {**limits, "Flu": "1"}  # in a group, which has no limit
    text = read(report_html(twin_of(grouped_hospital(limits=alone).write(tmp_path / "other")))).text
    assert "1 of 4 values has a limit of 1, which is no limit: nothing is promised about it" in text


def test_without_groups_the_page_says_that_none_has_a_limit(tmp_path: Path) -> None:
    twin = twin_of(hospital().write(tmp_path))
    page = read(report_html(twin))
    assert twin["release"]["groups"] == []
    assert "tree" not in report_html(twin).split("</style>")[1]
    assert "No group of values has a limit here." in page.section("not-promised")
    assert "every value of every bucket is within its limit" in page.section("summary")
    assert "roup" not in page.section("exposure")


def test_names_of_groups_are_text(whole: Twin) -> None:
    bad = [{**group, "name": f"<i>{group['name']}</i>", "level": "<b>"} for group in whole["release"]["groups"]]
    html = report_html({**whole, "release": {**whole["release"], "groups": bad}})
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;i&gt;Chronic" in html


def test_of_very_many_groups_the_page_has_some(whole: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_tree, "MOST_GROUPS", 2)
    page = read(report_html(whole))
    assert "The first 2 are below; the JSON twin of this report lists them all." in page.section("values")
    assert "Joints" not in page.section("values")


def test_groups_deeper_than_any_release_has_are_shown_beside_each_other(whole: Twin) -> None:
    chronic = whole["release"]["groups"][1]
    deep = [{**chronic, "name": f"deep {k}", "parent": k - 1 if k else None} for k in range(group_tree.MOST_GROUPS)]
    html = report_html({**whole, "release": {**whole["release"], "groups": deep}})
    assert f"deep {group_tree.MOST_GROUPS - 1}" in html
    assert html.count('<ul class="tree">') == MOST_LEVELS


def test_a_manifest_whose_groups_are_no_tree_still_has_a_report(tmp_path: Path) -> None:
    folder = grouped_hospital().write(tmp_path)
    edit_manifest(folder, lambda manifest: manifest["groups"][1].update(parent=2))
    twin = twin_of(folder)
    assert not twin["verify"]["verified"]
    assert twin["verify"]["groups"] == []
    text = read(report_html(twin)).section("exposure")
    assert "50.0 %, as the manifest says; its limit is 50 %." in text
