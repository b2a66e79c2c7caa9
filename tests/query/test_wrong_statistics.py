"""Bounds that are called certain hold for whatever verifies, though a Parquet file lies about the range of a column."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dalenius
from tests.handmade import Handmade, restate_hashes

AGES = [40, 45, 50, 60] * 5


@pytest.fixture
def lying(tmp_path: Path) -> Path:
    """A release of format 3 whose file says that nobody is older than 41."""
    rows = [(age, "F" if place % 3 else "M") for place, age in enumerate(AGES)]
    made = Handmade(
        {"Age": pa.int64(), "Gender": pa.string()}, rows, ["Flu", "Cold"] * 10, [1 + k // 4 for k in range(20)]
    )
    folder = made.write(tmp_path / "release", format=3)
    path = folder / "qit.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=20)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    largest, claimed = (60).to_bytes(8, "little"), (41).to_bytes(8, "little")
    assert content.count(largest, footer)
    path.write_bytes(content[:footer] + content[footer:].replace(largest, claimed))
    restate_hashes(folder)
    return folder


def test_statistics_do_not_hide_rows(lying: Path) -> None:
    query = f"SELECT count(*) FROM '{lying / 'qit.parquet'}' WHERE Age > 45"  # noqa: S608
    assert duckdb.connect().execute(query).fetchall() == [(0,)]  # this is how it would be answered
    release = dalenius.load(lying)
    assert release.verify().verified
    answer = release.count("Age > 45", measure=False)
    assert (answer.estimate, answer.bounds, answer.exact) == (10, (10, 10), True)
    both = release.count("Age > 45 AND Disease = 'Flu'", measure=False)
    truth = sum(age > 45 and not place % 2 for place, age in enumerate(AGES))
    assert both.bounds[0] <= truth <= both.bounds[1]


def test_releases_of_today_have_none(tmp_path: Path) -> None:
    release = dalenius.publish(
        pa.table({"Age": AGES, "Disease": ["Flu", "Cold"] * 10}),
        {"uniform": "1/2"},
        sensitive="Disease",
        quasi_identifiers=["Age"],
        out=tmp_path / "release",
    )
    for name in ("qit", "st"):
        group = pq.read_metadata(release.path / f"{name}.parquet").row_group(0)
        assert [group.column(place).statistics for place in range(group.num_columns)] == [None] * group.num_columns
