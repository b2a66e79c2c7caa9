"""Reports on chained releases: the number, what is nobody's, who waits, and which releases come before."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from dalenius.errors import UsageError
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object
from tests.attack.tables import table
from tests.chains import begin_chain, follow
from tests.handmade import edit_manifest
from tests.report.reading import read

Twin = dict[str, Any]


def twin_of(folder: Path, **asked: Any) -> Twin:
    return report_object(collect(folder, **asked))


def seen(twin: Twin) -> str:
    return re.sub(r"\s+", " ", read(report_html(twin)).text)


def leaving(of: int, people: int) -> list[int]:
    """Places of so many people, at random."""
    return [int(place) for place in np.random.default_rng(2).permutation(of)[:people]]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three releases: 300 people, of whom 60 leave, and then 90 more, when 30 others come."""
    path = tmp_path_factory.mktemp("chain")
    begin_chain(table(300).write(path / "first"))
    follow(path / "first", path / "second", leaving(300, 60))
    table(30, seed=3).write(path / "others")
    follow(path / "second", path / "third", leaving(240, 90), path / "others")
    return path


def codes(twin: Twin) -> set[str]:
    return {one["code"] for one in twin["findings"]}


def test_a_report_says_where_a_release_is_in_its_chain(chain: Path) -> None:
    for name, number, surplus, rows in (("first", 1, 0, 300), ("second", 2, 60, 240), ("third", 3, 150, 180)):
        twin = twin_of(chain / name)
        found = twin["release"]["chain"]
        assert (found["release"], found["surplus"], found["places"]) == (number, surplus, rows + surplus)
        assert found["surplus_share"] == pytest.approx(surplus / (rows + surplus))
        assert twin["holds"]
        text = seen(twin)
        assert f"This is release {number} of a chain" in text
        assert (f"{surplus} of {rows + surplus}" in text) == (surplus > 0)
        assert ("Every place in a bucket is somebody's" in text) == (surplus == 0)
        assert (
            ("Consider a new chain" in text)
            == (name == "third")
            == found["advises_new_chain"]
            == ("surplus" in codes(twin))
        )
        assert twin["earlier"] == []


def test_what_is_in_no_chain_has_no_section(tmp_path: Path) -> None:
    twin = twin_of(table(30).write(tmp_path / "alone"))
    assert twin["release"]["chain"] is None
    assert "chain" not in seen(twin)
    begin_chain(table(30).write(tmp_path / "first"))
    with pytest.raises(UsageError, match="in no chain"):
        collect(tmp_path / "alone", previous=[tmp_path / "first"])


def test_a_third_is_not_too_much(tmp_path: Path) -> None:
    for left, advised in ((10, False), (11, True)):
        path = tmp_path / str(left)
        begin_chain(table(30).write(path / "first"))
        follow(path / "first", path / "second", range(left))
        assert twin_of(path / "second")["release"]["chain"]["advises_new_chain"] is advised


def test_people_who_wait_are_counted(chain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(chain / "third", tmp_path / "release")
    edit_manifest(folder, lambda manifest: manifest["chain"].update(held_back=4))
    assert "4 new people are held back" in seen(twin_of(folder))


def test_earlier_releases_are_named_by_their_numbers(chain: Path) -> None:
    twin = twin_of(chain / "third", previous=[chain / "first", chain / "second"])
    assert [(one["release"], one["rows"], one["buckets"], one["precedes"]) for one in twin["earlier"]] == [
        (1, 300, 100, True),
        (2, 240, 100, True),
    ]
    assert [check["check"] for check in twin["verify"]["checks"] if not check["passed"]] == []
    assert "chain" in {check["check"] for check in twin["verify"]["checks"]}
    assert "not-preceding" not in codes(twin)
    text = seen(twin)
    assert "Release 1, with 300 records in 100 buckets, precedes this one." in text
    assert "Release 2, with 240 records in 100 buckets, precedes this one." in text
    assert str(chain) not in report_html(twin)


def test_what_does_not_precede_is_said(chain: Path, tmp_path: Path) -> None:
    """Another chain, a gap, a later release, and one that was changed."""
    begin_chain(table(300, seed=9).write(tmp_path / "other"))
    changed = shutil.copytree(chain / "second", tmp_path / "changed")
    edit_manifest(changed, lambda manifest: manifest["chain"].update(held_back=1))
    table(30).write(tmp_path / "alone")
    for release, given in (
        ("second", [tmp_path / "other"]),
        ("third", [chain / "first"]),
        ("second", [chain / "third"]),
        ("second", [chain / "second"]),
        ("third", [changed, chain / "first"]),
        ("second", [tmp_path / "alone"]),
    ):
        twin = twin_of(chain / release, previous=given)
        assert not any(one["precedes"] for one in twin["earlier"])
        assert "not-preceding" in codes(twin)
        assert seen(twin).count("does not precede this one, or") == len(given)
        assert "chain" not in {check["check"] for check in twin["verify"]["checks"]}


def test_sizes_are_counted_in_places(chain: Path) -> None:
    twin = twin_of(chain / "third")
    (row,) = twin["release"]["setting"]
    assert row["people"] == 330
    text = seen(twin)
    assert "All 330 places are in 110 buckets of 3." in text
    assert "every sensitive value in the release belongs to somebody, or did" in text


def test_the_command_takes_earlier_releases(chain: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    asked = ["report", str(chain / "third"), "-o", str(page), "--previous", str(chain / "second")]
    found = CliRunner().invoke(main, [*asked, "--previous", str(chain / "first"), "--json"])
    assert found.exit_code == 0, found.output
    assert "Release 1, with 300 records in 100 buckets, precedes this one." in re.sub(r"\s+", " ", page.read_text())
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (empty, tmp_path / "nowhere"):
        found = CliRunner().invoke(main, [*asked, "--force", "--previous", str(folder)])
        assert found.exit_code == 2
        assert str(tmp_path) not in found.output


def test_an_audit_with_the_truth_is_in_the_report(chain: Path) -> None:
    """Nothing is divided by what is not there: attackers, workload and page are about those who are there."""
    made = table(300)
    order = sorted(range(300), key=lambda place: (made.buckets[place], made.rows[place]))
    left = set(leaving(300, 60))
    there = made.source().take([order[place] for place in range(300) if place not in left])
    twin = twin_of(chain / "second", audit=True, truth=there)
    assert twin["audit"]["rows"] == 240
    assert twin["audit"]["minimality"]["not_played"] is not None
    assert twin["workload"]["bounds_hold"] == twin["workload"]["queries"]
    assert "which ones are nobody's" in seen(twin)
