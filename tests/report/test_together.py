"""Reports on releases with columns that are kept together: what is said of it, and never that parts are unrelated."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object
from tests.report.people_releases import by_people, kept_together, visits
from tests.report.reading import read


@pytest.mark.parametrize("most", [1, 2])
def test_what_somebody_gets_who_knows_one_column(most: int, tmp_path: Path) -> None:
    release = kept_together(tmp_path / "release", most)
    twin = report_object(collect(release.path, audit=True))
    assert twin["release"]["together"] == [["Disease", "Drug"]]
    known = twin["verify"]["known_columns"]
    assert [(one["known"], one["asked"], one["at_least"]) for one in known] == [
        ("Disease", "Drug", most > 1),
        ("Drug", "Disease", most > 1),
    ]
    assert [one["code"] for one in twin["findings"]].count("kept-together") == 1
    page = read(report_html(twin))
    missing = page.parts["not-promised"]
    assert "Columns that are kept together." in missing
    assert "Nothing is promised about that." in missing
    for one in known:
        least = "at least " if most > 1 else ""
        if one["above"]:
            assert f"above its limit for {least}{one['above']:,} of {one['people']:,} people" in missing
        else:
            assert f"gives no value of “{one['asked']}” a probability above its limit" in missing
        if one["pinned"]:
            assert f"knows it outright for {one['pinned']:,}" in missing
    whole = "".join(page.texts)
    assert "A further table has a line for every person and what goes together in a row in Disease, Drug" in whole
    assert "Of columns that are kept together, the release itself says that." in whole
    assert "The release keeps the two together, and says what goes with what." in whole


def test_columns_apart_are_not_said_to_be_together(tmp_path: Path) -> None:
    twin = report_object(collect(by_people(tmp_path / "release").path, audit=True))
    assert twin["release"]["together"] == []
    whole = "".join(read(report_html(twin)).texts)
    assert "kept together" not in whole
    assert "keeps the two together" not in whole


def test_people_of_the_table_are_compared_with_those_of_the_release(tmp_path: Path) -> None:
    """The column that says whose rows are whose is for all that a report does with the table."""
    table = visits(most=2)
    ages = [int(who[1:]) for who in table["Person"].to_pylist()]  # which tell people apart
    table = table.set_column(table.column_names.index("Age"), "Age", pa.array(ages))
    release = kept_together(tmp_path / "release", 2, table)
    twin = report_object(collect(release.path, audit=True, truth=table, person="Person"))
    assert [check["outcome"] for check in twin["verify"]["checks"] if check["check"] == "source"] == ["passed"]
    (first, second) = twin["audit"]["other-column"], twin["audit"]["other_columns"][0]["other-column"]
    assert first["success"] > first["baseline"]
    assert second["details"]["known_column"] == "Disease"
