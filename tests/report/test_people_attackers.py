"""What a report says of attackers who know whose rows are whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import dalenius
from dalenius.report.report_files import make_report
from tests.report.people_releases import LIMITS, by_people, visits, with_groups
from tests.report.reading import Read


def report(folder: Path, table: pa.Table, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The text of the page, and its twin."""
    twin = make_report(folder, tmp_path / "report.html", audit=True, truth=table, person="Person")
    page = Read()
    page.feed((tmp_path / "report.html").read_text(encoding="utf-8"))
    return " ".join(" ".join(page.texts).split()), twin


def test_limits_hold_against_those_who_know_whose_rows_are_whose(tmp_path: Path) -> None:
    by_people(tmp_path / "release")
    text, twin = report(tmp_path / "release", visits(), tmp_path)
    assert twin["verify"]["verified"]
    for attack in (twin["audit"][name] for name in ("intersection", "union")):
        assert (attack["people"], attack["claims"]) == (300, 0)
        assert attack["success"] is not None
    assert text.count("The limits hold against this attacker: everybody is in one bucket of people.") == 4
    assert "Disease: intersection" in text  # spelled as the column is


def test_groups_that_known_records_put_above_a_limit(tmp_path: Path) -> None:
    with_groups(tmp_path / "release")
    text, twin = report(tmp_path / "release", visits(), tmp_path)
    above = twin["audit"]["corruption"]["groups"]["people_above_limit"]
    assert above > 0
    assert f"is one of a group exceeds the limit of the group for {above:,} people." in text


def test_people_are_for_the_attackers_alone_if_the_release_is_by_rows(tmp_path: Path) -> None:
    """They do not make the table another one."""
    table = visits()
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "strata": "none"}
    dalenius.publish(table, LIMITS, out=tmp_path / "release", **asked)
    text, twin = report(tmp_path / "release", table, tmp_path)
    assert twin["verify"]["verified"]
    attack = twin["audit"]["intersection"]
    assert 190 <= attack["people"] <= 200  # of 300, a third have one row, and for few no bucket is found
    assert attack["claims_right"] is not None
    assert f"Of {attack['people']} people with several rows" in text
    assert "The limits hold against this attacker" not in text
