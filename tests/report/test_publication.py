"""What speaks against publication, what the publisher has to look at first, and that neither is ever kept quiet."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.statements import statements
from dalenius.report.twin import report_object
from tests.handmade import Handmade, hospital
from tests.report.reading import read
from tests.report.releases import people, published

pytestmark = pytest.mark.usefixtures("few_queries")

Twin = dict[str, Any]
NOT_COMPARED, NOT_ATTACKED, OTHER_FILES = "were not compared with the table", "No attack was played", "other file"


def twin_of(folder: Path, **asked: Any) -> Twin:
    return report_object(collect(folder, **asked))


def seen(twin: Twin) -> str:
    return read(report_html(twin)).text


def test_a_clean_report_claims_no_more_than_that_nothing_was_found(tmp_path: Path) -> None:
    table = published(tmp_path / "release")
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    assert (twin["against_publication"], twin["warnings"]) == ([], [])
    last = statements(twin)[-1]
    assert (last.tone, last.title) == ("plain", "Nothing was found against publication")
    page = seen(twin)
    assert "for the publisher to decide" in page
    assert "Fit for publication" not in page
    assert "Look at this" not in page


def test_what_was_not_done_is_a_warning(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    source = hospital().source()
    for asked, expected in (
        ({}, [NOT_COMPARED, NOT_ATTACKED]),
        ({"audit": True}, [NOT_COMPARED]),
        ({"truth": source}, [NOT_ATTACKED]),
        ({"audit": True, "control": source}, [NOT_COMPARED]),
        ({"audit": True, "truth": source}, []),
    ):
        twin = twin_of(folder, **asked)
        assert len(twin["warnings"]) == len(expected), asked
        for words, found in zip(expected, twin["warnings"], strict=True):
            assert words in found
        assert twin["against_publication"] == []
        last = statements(twin)[-1]
        if expected:
            assert (last.tone, last.title) == ("warn", "Look at this before you publish")
            assert list(last.sentences[: len(expected)]) == twin["warnings"]
            assert all(" ".join(found.split()) in seen(twin) for found in twin["warnings"])


def test_other_files_in_the_folder_are_a_warning(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    for number, (name, words) in enumerate([("table.csv", "1 other file,"), (".notes", "2 other files,")], 1):
        (folder / name).write_text("HIV", encoding="utf-8")
        twin = twin_of(folder, audit=True, truth=hospital().source())
        assert twin["other_files"] == number
        [found] = twin["warnings"]
        assert words in found
        assert "If you publish the folder, you publish" in found
        assert twin["holds"]
        assert "Look at this before you publish" in seen(twin)


def test_what_forbids_publication_comes_before_warnings(tmp_path: Path) -> None:
    published(tmp_path / "release", seed=1)
    twin = twin_of(tmp_path / "release")
    assert len(twin["against_publication"]) == 1
    assert len(twin["warnings"]) == 2
    last = statements(twin)[-1]
    assert (last.tone, last.title) == ("bad", "NOT fit for publication")
    assert last.sentences[:2] == (*twin["against_publication"], "Do not publish this release.")
    assert "Look at this" not in seen(twin)


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
    table = release_of(tmp_path / "release", {"uniform": 1})
    assert in_the_clear(tmp_path / "release") == (400, 0)
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    assert twin["holds"]
    [found] = twin["warnings"]
    assert found == (
        "400 buckets have a single record: the sensitive values of these 400 people are published in the clear."
    )
    page = seen(twin)
    assert "Look at this before you publish" in page
    assert page.count("published in the clear") >= 2  # in the summary and among what is not promised
    assert "whose limit is 100" not in page  # no example of a limit that is none


@pytest.mark.parametrize("smallest", [1, 2, 3])
def test_filled_buckets_are_told_exactly_if_there_are_some(smallest: int, tmp_path: Path) -> None:
    limits = {"values": {"Flu": 1, "Cold": 1}, "uniform": "0.45"}
    table = release_of(tmp_path / "release", limits, min_size=smallest)
    alone, filled = in_the_clear(tmp_path / "release")
    twin = twin_of(tmp_path / "release", audit=True, truth=table)
    told = " ".join(twin["warnings"])
    assert ("single record" in told) == bool(alone)
    if not alone:  # of values that stand alone somewhere, the manifest does not say whether they fill other buckets
        assert ("fill" in told) == bool(filled)
    assert bool(twin["warnings"]) == bool(alone or filled)


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
    told = [sentence for sentence in twin["warnings"] if NOT_ATTACKED not in sentence]
    assert len(told) == (words is not None)
    assert words is None or words in told[0]
    page = seen(twin)
    assert (words is None) == ("None of them" in page)
    if made.fakes or made.known_records:
        for false in ("in the clear", "is known to have", "outright"):
            assert false not in page
