"""The page promises no more than the privacy promise does, whatever the release is."""

from __future__ import annotations

import copy
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dalenius
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.statements import own_concerns, statements
from dalenius.report.twin import report_object, twin_text
from tests.handmade import Handmade, edit_manifest, hospital, restate_hashes, three_strata
from tests.report.reading import Read, read
from tests.report.releases import people, published

pytestmark = pytest.mark.usefixtures("few_queries")

Twin = dict[str, Any]


def twin_of(folder: Path, **asked: Any) -> Twin:
    return report_object(collect(folder, **asked))


@lru_cache
def read_once(text: str) -> Read:
    return read(report_html(json.loads(text)))


def seen(twin: Twin) -> str:
    return read_once(twin_text(twin)).text


def section(twin: Twin, number: int) -> str:
    """What is seen of a section, by its number."""
    page = read_once(twin_text(twin))
    [name] = [name for name in page.parts if page.section(name).startswith(f"{number} ")]
    return page.section(name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    folder = tmp_path_factory.mktemp("whole") / "release"
    return twin_of(folder, audit=True, truth=published(folder))


ALONE = hospital(limits={"HIV": "1"}, buckets=list(range(1, 13)))
ONE_VALUE = hospital(values=["Flu"] * 12, limits={"Flu": "1"})
HIDDEN = hospital(limits={}, buckets=list(range(1, 13)), fakes=[(bucket, "Ague") for bucket in range(1, 13)])


def test_the_summary_does_not_say_that_nobody_can_tell(whole: Twin, tmp_path: Path) -> None:
    """What the release says about whose a value is hangs on its buckets."""
    usual = "The bucket itself does not show which value is whose"
    assert f"{usual}, or which ones are fake." in section(whole, 1)
    assert f"{usual}." in section(twin_of(hospital().write(tmp_path / "usual")), 1)
    alone = section(twin_of(ALONE.write(tmp_path / "alone")), 1)
    assert "every bucket has a single record" in alone
    assert "In all others" not in alone  # there are none
    assert usual not in alone
    filled = section(twin_of(ONE_VALUE.write(tmp_path / "one")), 1)
    assert usual not in filled
    assert "every value in the release is the same" in filled
    hidden = section(twin_of(HIDDEN.write(tmp_path / "hidden")), 1)
    assert "or which ones are fake" in hidden
    for text in (alone, filled, hidden):
        assert "nobody can tell" not in text


def test_people_with_several_rows_are_one_finding(tmp_path: Path) -> None:
    """Verifying and attacking both see them in the table; the one that says how to attack them is kept."""
    numbers = pa.array([f"p{row % 16}" for row in range(24)])
    source = pa.table(
        {"Age": [20 + row % 5 for row in range(24)], "Disease": ["Flu", "Cold"] * 12, "patient_id": numbers}
    )
    dalenius.publish(
        source, {"uniform": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "release"
    )
    twin = twin_of(tmp_path / "release", audit=True, truth=source)
    (one,) = [finding for finding in twin["findings"] if finding["code"] == "repeated-people"]
    assert (one["people"], one["answer"].startswith("Audit with --person patient_id")) == (8, True)
    assert (one["message"] in seen(twin), twin["verdict"] != "publish") == (True, True)
    alone = twin_of(tmp_path / "release", truth=source)
    (one,) = [finding for finding in alone["findings"] if finding["code"] == "repeated-people"]
    assert one["answer"].startswith("Say whose rows they are")


def test_a_release_that_fails_or_was_seeded_is_not_said_to_hide(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "broken")
    edit_manifest(folder, lambda manifest: manifest["values"][1].update(limit="1/5"))
    published(tmp_path / "seeded", seed=3)
    for name in ("broken", "seeded"):
        text = section(twin_of(tmp_path / name), 1)
        expected = (
            "whether these buckets do is not known" if name == "broken" else "; the seed does, to anybody who has it"
        )
        assert expected in text
        assert "which value is whose." not in text


def test_the_promise_is_about_the_bucket_and_not_about_learning(whole: Twin) -> None:
    text = section(whole, 2)
    assert "with which anybody" not in text
    assert "from the person's bucket" in text
    assert "equally likely" in text
    assert "not a promise against somebody who learns across buckets" in text
    assert "(section 7)" in text
    assert whole["audit"]["learning"]["claims"] > 0  # so the same page has claims above limits
    assert "Section 6 shows how far this goes here." in text
    assert "From a bucket alone" in section(whole, 3)


def test_the_learning_attacker_is_told_with_the_good_news(whole: Twin, tmp_path: Path) -> None:
    text = section(whole, 1)
    assert "learns across buckets guesses the value of" in text
    assert "Nothing is promised against this attacker." in text
    blind = section(twin_of(hospital().write(tmp_path / "release"), audit=True), 1)
    assert "How often this attacker is right is not known" in blind


def test_a_sample_and_attackers_who_were_not_played_are_told(whole: Twin) -> None:
    twin = copy.deepcopy(whole)
    twin |= {"findings": [], "verdict": "publish"}
    twin["audit"]["sampled"] = {"rows": 1000, "of": 3000}
    assert "against a random sample of 1,000 of 3,000 records" in section(twin, 1)
    empty = dict.fromkeys(twin["audit"]["order"]) | {"people": 0, "details": {}, "notes": []}
    twin["audit"] |= {"learning": empty, "order": empty, "sampled": {"rows": 0, "of": 3000}}
    statement = statements(twin)[1]
    assert (statement.tone, statement.title) == ("warn", "Not attacked in full")
    assert "learning and order, who were not played" in statement.sentences[-1]
    [warning] = own_concerns(twin)
    assert (warning.code, str(warning.severity)) == ("not-played", "look")
    assert "learning and order" in warning.message
    assert "section 6" not in section(twin, 2)
    assert "How far this goes here was not measured." in section(twin, 7)


def test_values_without_a_limit_are_promised_nothing(tmp_path: Path) -> None:
    made = hospital(limits={"HIV": "1/4", "Flu": "1"})
    text = section(twin_of(made.write(tmp_path / "release")), 2)
    assert "3 of 4 values have a limit of 1, which is no limit: nothing is promised about them" in text
    assert "has no limit" not in text  # so it is not among those near theirs
    every = twin_of(ALONE.write(tmp_path / "every"))
    assert "All 4 values have a limit of 1, which is no limit: nothing is promised about any of them" in section(
        every, 2
    )
    assert "The values nearest to their limits" not in section(every, 2)
    assert "1 for every value, which is no limit" in section(every, 1)
    assert "exactly at the limit" not in section(every, 3)


def test_proofs_are_about_sizes_that_were_allowed(whole: Twin, tmp_path: Path) -> None:
    """With sizes from 6 on, no setting is as good as the best of all; what is proven says of what."""
    for name, smallest in (("plain", None), ("bounded", 6)):
        dalenius.publish(
            people(500),
            {"uniform": "0.4"},
            sensitive="Disease",
            quasi_identifiers=["Gender"],
            out=tmp_path / name,
            strata="none",
            min_size=smallest,
        )
    best, more = (twin_of(tmp_path / name)["release"] for name in ("plain", "bounded"))
    assert best["loss"] < more["bound"] <= more["loss"]
    for twin in (twin_of(tmp_path / "bounded"), twin_of(tmp_path / "plain"), whole):
        text = section(twin, 5)
        assert "best possible" not in text
        assert "is possible" not in text
        assert "with bucket sizes in the range that was searched" in text
        assert "was not checked here" in text
    assert "of these strata" in section(whole, 5)
    assert "of these strata" not in section(twin_of(tmp_path / "plain"), 5)


def test_fakes_are_counted_as_values_and_not_as_shares(tmp_path: Path) -> None:
    hidden = twin_of(HIDDEN.write(tmp_path / "release"))
    assert hidden["holds"]
    assert "1 of 1" not in section(hidden, 2)
    text = seen(hidden)
    assert "is known to have the value" not in text
    assert "publish that person's value" not in text
    mixed = hospital(
        buckets=[1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3],
        fakes=[(1, "HIV"), (2, "Gout"), (3, "Gout")],
        limits={"HIV": "1/2", "Flu": "3/4", "Cold": "3/4", "Gout": "3/4"},
    )
    twin = twin_of(mixed.write(tmp_path / "mixed"))
    assert twin["holds"]
    near = section(twin, 2)
    assert "fakes included" in near
    assert "“Flu”: 2 values for 4 records (50" in near
    assert "“Flu”: 2 of 4" not in near
    plain = section(twin_of(hospital().write(tmp_path / "plain")), 2)
    assert "fake" not in plain
    assert "“HIV”: 1 of 4 (25" in plain


def test_what_was_compared_goes_by_the_check(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    unknown = "Whether the records are those of the publisher's table"
    source = hospital().source()
    controlled = twin_of(folder, audit=True, control=source)
    assert controlled["from_raw_table"]
    assert unknown in section(controlled, 7)
    assert "from the release alone" not in section(controlled, 7)
    assert "dalenius report . --audit --control TABLE -o ../report.html" in section(controlled, 8)
    compared = twin_of(folder, audit=True, truth=source)
    assert unknown not in section(compared, 7)
    assert "compared separately" in section(compared, 2)
    assert "Whether every value is in the bucket of its record" in section(compared, 7)
    assert "dalenius report . --audit --truth TABLE -o ../report.html" in section(compared, 8)
    both = twin_of(folder, audit=True, truth=source, control=source)
    assert "--truth TABLE --control TABLE" in section(both, 8)
    neither = twin_of(folder)
    assert unknown in section(neither, 7)
    assert "dalenius report . -o ../report.html" in section(neither, 8)


def test_what_the_checks_share_no_code_with(whole: Twin) -> None:
    text = section(whole, 2)
    assert "no code with the program that made them" not in text
    assert (
        "share no code with the parts of the program that choose bucket sizes and that place and write records" in text
    )


def test_hashes_of_a_release_whose_files_are_others(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    assert "the ones that this report is about" in section(twin_of(folder), 8)
    with (folder / "st.parquet").open("ab") as file:
        file.write(b"x")
    text = section(twin_of(folder), 8)
    assert "the ones that this report is about" not in text
    assert "some have other hashes" in text
    restate_hashes(folder)
    assert "the ones that this report is about" in section(twin_of(folder), 8)


def test_one_record_and_one_value(tmp_path: Path) -> None:
    single = Handmade(types={"Age": pa.int64()}, rows=[(40,)], values=["Flu"], buckets=[1])
    for made in (single, ONE_VALUE):
        folder = tmp_path / str(len(made.rows))
        twin = twin_of(made.write(folder), audit=True, truth=made.source())
        assert twin["holds"]
        text = seen(twin)
        assert not re.search(r"\b(?<!,)1 (records|values|buckets|rows)\b|All 1 ", text)
        assert twin["verdict"] == "do not publish"


def test_strata_are_named_in_the_promise(tmp_path: Path) -> None:
    assert "why the table was cut" in section(twin_of(three_strata().write(tmp_path / "strata")), 2)
    assert "why the table was cut" not in section(twin_of(hospital().write(tmp_path / "none")), 2)
