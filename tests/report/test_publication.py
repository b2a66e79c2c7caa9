"""What speaks against publication, what the publisher has to look at first, and that neither is ever kept quiet."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.statements import exposures
from dalenius.report.twin import report_object
from tests.handmade import Handmade, hospital
from tests.report.reading import read
from tests.report.releases import people, published

pytestmark = pytest.mark.usefixtures("few_queries")

Twin = dict[str, Any]


def twin_of(folder: Path, **asked: Any) -> Twin:
    return report_object(collect(folder, **asked))


def seen(twin: Twin) -> str:
    return read(report_html(twin)).text


def codes(twin: Twin, severity: str) -> list[str]:
    return [one["code"] for one in twin["findings"] if one["severity"] == severity]


def test_a_clean_report_claims_no_more_than_that_nothing_was_found(tmp_path: Path) -> None:
    twin = twin_of(hospital().write(tmp_path / "release"), audit=True, truth=hospital().source())
    assert (twin["verdict"], twin["findings"]) == ("publish", [])
    page = read(report_html(twin))
    assert page.section("verdict").startswith("✓Verdict: Publish Nothing was found against publication")
    assert "who was played is right noticeably more often than the limits allow" in page.section("verdict")
    assert "for the publisher to decide" in page.section("findings")
    assert "Look at this" not in page.text
    assert "fit for publication" not in page.text.lower()


def test_what_was_not_done_is_never_cleared(tmp_path: Path) -> None:
    """Without an audit, and without the table, the verdict is to look first, and says what was not done."""
    folder, table = hospital().write(tmp_path / "release"), hospital().source()
    for asked, expected in (
        ({}, ["not-attacked", "not-compared"]),
        ({"audit": True}, ["not-measured", "not-compared"]),
        ({"truth": table}, ["not-attacked"]),
        ({"audit": True, "control": table}, ["not-measured", "not-compared"]),
        ({"audit": True, "truth": table}, []),
    ):
        twin = twin_of(folder, **asked)
        assert codes(twin, "stop") == []
        assert codes(twin, "look") == expected, asked
        assert twin["verdict"] == ("look at this first" if expected else "publish")
        page = read(report_html(twin))
        words = page.section("verdict")
        assert ("Look at this first" in words) == bool(expected)
        assert ("not attacked" in words) == ("not-attacked" in expected)
        assert ("how often right is not known" in words) == ("not-measured" in expected)
        assert ("Not attacked." in page.section("attackers")) == ("not-attacked" in expected)
        for finding in twin["findings"]:
            assert finding["answer"] in page.section("findings")


def test_other_files_in_the_folder_are_a_finding(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    for number, (name, words) in enumerate([("table.csv", "1 other file,"), (".notes", "2 other files,")], 1):
        (folder / name).write_text("HIV", encoding="utf-8")
        twin = twin_of(folder, audit=True, truth=hospital().source())
        assert twin["other_files"] == number
        [found] = [one for one in twin["findings"] if one["code"] == "other-files"]
        assert words in found["message"]
        assert found["severity"] == "look"
        assert twin["holds"]
        assert words in read(report_html(twin)).section("findings")


def test_what_forbids_publication_comes_first(tmp_path: Path) -> None:
    published(tmp_path / "release", seed=1)
    twin = twin_of(tmp_path / "release")
    assert [one["code"] for one in twin["findings"]] == ["seeded", "not-attacked", "not-compared"]
    assert twin["verdict"] == "do not publish"
    page = read(report_html(twin))
    assert "✗Verdict: Do not publish The release was made with a seed" in page.section("verdict")
    assert "Look at this" not in page.text


def telling(folder: Path) -> pa.Table:
    """A release whose quasi-identifier tells the value, nine times of ten."""
    rng = np.random.default_rng(3)
    values = np.array(["Flu", "Cold", "Asthma", "Gout"])[np.arange(800) % 4]
    ward = np.where(rng.random(800) < 0.9, np.char.add("ward of ", values), "ward of Flu")
    table = pa.table({"Ward": pa.array(ward), "Disease": pa.array(values)})
    dalenius.publish(
        table, {"uniform": "1/3"}, sensitive="Disease", quasi_identifiers=["Ward"], out=folder, strata="none"
    )
    return table


def test_no_promise_was_broken_never_stands_alone(tmp_path: Path) -> None:
    """Attackers who are right more often than the limits allow decide the verdict, whatever was promised."""
    table = telling(tmp_path / "release")
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    assert twin["holds"]
    assert twin["audit"]["learning"]["points"] > 10
    assert twin["verdict"] == "do not publish"
    heaviest = twin["findings"][0]
    assert (heaviest["code"], heaviest["severity"]) == ("above-limit", "stop")
    page = read(report_html(twin))
    assert "is right in" in page.section("verdict")
    rows = {row[0]: row for row in page.tables["attackers-table"][1:]}
    assert rows["learning"][-1] == f"✗ +{twin['audit']['learning']['points']:.1f}"
    assert "No promise broken" not in page.text
    assert "No promise was broken" not in page.text
    assert "Attackers are right more often than the limits allow" in page.section("attacks")


def release_of(folder: Path, limits: dict[str, Any], **how: Any) -> pa.Table:
    table = people(400)
    dalenius.publish(
        table, limits, sensitive="Disease", quasi_identifiers=["Gender", "Age"], out=folder, strata="none", **how
    )
    return table


def in_the_clear(folder: Path) -> tuple[int, int]:
    """Counted in the tables: buckets that show one value for one record, and for several records."""
    shown: dict[int, Counter[str]] = defaultdict(Counter)
    for row in pyarrow.parquet.read_table(folder / "st.parquet").to_pylist():
        shown[row["bucket"]][row["Disease"]] += 1
    filled = [values.total() for values in shown.values() if len(values) == 1]
    return sum(1 for size in filled if size == 1), sum(1 for size in filled if size > 1)


def test_everybody_alone_is_told(tmp_path: Path) -> None:
    """The limit 1 for all: every bucket has one record, whose value is published."""
    table = release_of(tmp_path / "release", {"uniform": 1}, min_size=1, publish_in_the_clear=True)
    assert in_the_clear(tmp_path / "release") == (400, 0)
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    assert twin["holds"]
    [found] = exposures(twin["release"])
    assert found == (
        "400 buckets have a single record: the sensitive values of these 400 people are published in the clear."
    )
    assert codes(twin, "stop") == ["in-the-clear"]
    assert (twin["verdict"], twin["exposure"]["outright"]) == ("do not publish", 400)
    page = seen(twin)
    assert "400 of 400 people (100.0 %) have their value published outright" in page
    assert "published in the clear" in page  # among what is not promised
    assert "whose limit is 100" not in page  # no example of a limit that is none


@pytest.mark.parametrize("smallest", [1, 2, 3])
def test_filled_buckets_are_told_exactly_if_there_are_some(smallest: int, tmp_path: Path) -> None:
    limits = {"values": {"Flu": 1, "Cold": 1}, "uniform": "0.45"}
    table = release_of(tmp_path / "release", limits, min_size=smallest, publish_in_the_clear=True)
    alone, filled = in_the_clear(tmp_path / "release")
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    told = " ".join(exposures(twin["release"]))
    assert ("single record" in told) == bool(alone)
    if not alone:  # of values that stand alone somewhere, the manifest does not say whether they fill other buckets
        assert ("fill" in told) == bool(filled)
    assert bool(told) == bool(alone or filled) == ("in-the-clear" in str(twin["findings"]))
    assert (twin["verdict"] == "do not publish") >= bool(alone)


def filled_bucket(values: str, fakes: str = "", known: int = 0) -> Handmade:
    """Two buckets; a letter a record, and one a fake value."""
    first, second = values.split()
    hidden = list(zip((1, 2), fakes.split(), strict=True)) if fakes else []
    return Handmade(
        types={"Age": pa.int64()},
        rows=[(30 + k,) for k in range(len(first + second))],
        values=[*first, *second],
        buckets=[*[1] * len(first), *[2] * len(second)],
        fakes=[(bucket, letter) for bucket, letters in hidden for letter in letters],
        known_records=known,
    )


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            filled_bucket("ab aaa"),
            "1 value without a limit fills some bucket of several records: everybody in such a bucket",
        ),
        (filled_bucket("aa bb"), "2 values without a limit fill some bucket of several records: everybody in such a"),
        (filled_bucket("a aab"), "1 bucket has a single record: the sensitive value of this person is published in"),
        (filled_bucket("ab abc"), None),
        (
            filled_bucket("a ab", "b c"),
            "1 bucket has a single record: only fake values hide this person's sensitive value",
        ),
        (filled_bucket("aa bc", "c d"), "only fake values leave open whether everybody in it has the value"),
        (filled_bucket("ab ab", "c d"), None),
        (
            filled_bucket("aab abc", known=1),
            "except for 1 record: somebody who knows it knows that all others in such a bucket have the value",
        ),
        (
            filled_bucket("aabc abcd", known=2),
            "except for 2 records: somebody who knows them knows that all others in such a bucket have the",
        ),
        (
            filled_bucket("aab abc", "c d", known=1),
            "For somebody who knows 1 record of it, only fake values leave open whether all",
        ),
        (filled_bucket("abc abc", known=1), None),
    ],
)
def test_what_a_limit_of_1_comes_to(made: Handmade, words: str | None, tmp_path: Path) -> None:
    twin = twin_of(made.write(tmp_path / "release"), truth=made.source())
    assert twin["holds"], twin["verify"]
    told = exposures(twin["release"])
    assert len(told) == (words is not None)
    assert words is None or words in told[0]
    found = [one for one in twin["findings"] if one["code"] in ("in-the-clear", "without-limit")]
    assert [one["code"] for one in found] == (
        [] if words is None else ["without-limit"] if made.fakes or made.known_records else ["in-the-clear"]
    )
    page = seen(twin)
    assert (words is None) == ("None of them" in page)
    if made.fakes or made.known_records:
        for false in ("in the clear", "is known to have", "their value published outright"):
            assert false not in page
