"""What there is to pick from in a release: a query made of a picked value finds the rows that have it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.query.count import Counter
from dalenius.query.release_tables import PublishedColumn, published_columns
from dalenius.release.folder import open_release

ROWS = 1_300


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    day = datetime.date(2024, 2, 27)
    moment = datetime.datetime(2024, 2, 27, 12, tzinfo=datetime.UTC)
    picked = rng.integers(0, 4, ROWS).tolist()
    return pa.table(
        {
            "Age": pa.array(rng.integers(20, 60, ROWS).tolist(), pa.int32()),
            'Zip "code"': pa.array([["x'y", "<script>", "", None][i] for i in picked], pa.string()),
            "Seen": pa.array([day + datetime.timedelta(days=i) for i in picked], pa.date32()),
            "At": pa.array([moment + datetime.timedelta(minutes=i) for i in picked], pa.timestamp("us", "UTC")),
            "Local": pa.array([moment.replace(tzinfo=None) + datetime.timedelta(seconds=i) for i in picked]),
            "Dose": pa.array([[0.1, 2.5e-9, float("inf"), -0.5][i] for i in picked], pa.float64()),
            "Short": pa.array([[0.1, 1.5, 3e10, -0.5][i] for i in picked], pa.float32()),
            "Member": pa.array([bool(i % 2) for i in picked]),
            "Kind": pa.array([["b", "a", "c", "a"][i] for i in picked]).dictionary_encode(),
            "Number": pa.array(range(ROWS), pa.int64()),
            "Disease": pa.array([["Flu", "HIV", "Cold", "it's"][i] for i in rng.integers(0, 4, ROWS)]),
        }
    )


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_every_value_that_can_be_picked_is_found(tmp_path: Path, kind: Any) -> None:
    people = table()
    if kind == "csv":
        people = people.set_column(1, people.schema.names[1], people.column(1).fill_null("none"))
    names = people.schema.names[:-1]
    dalenius.publish(
        people,
        {"uniform": "1/2"},
        sensitive="Disease",
        quasi_identifiers=names,
        format=kind,
        strata="none",
        out=tmp_path / "release",
    )
    with Counter(open_release(tmp_path / "release")) as counter:
        columns = published_columns(counter.tables, names)
        (sensitive,) = published_columns(counter.tables, ["Disease"])
        assert [column.name for column in (*columns, sensitive)] == people.schema.names
        for column in (*columns, sensitive):
            held = people.column(column.name).to_pylist()
            assert column.nulls == (None in held)
            if column.name == "Number":
                assert column.values is None
                assert column.literals is None
                assert (column.smallest, column.largest) == ("0", str(ROWS - 1))
                continue
            counts = [_exact(counter, f"{column.sql} = {text}") for text in column.literals or ()]
            assert sorted(counts) == sorted(held.count(value) for value in set(held) if value is not None)
            assert (column.smallest, column.largest) == (None, None)
    assert _kinds(columns) == [
        "number",
        "text",
        "date",
        "date",
        "date",
        "number",
        "number",
        "boolean",
        "text",
        "number",
    ]
    assert sensitive.values == ("Cold", "Flu", "HIV", "it's")


def test_more_values_than_are_listed(tmp_path: Path) -> None:
    dalenius.publish(table(), {"uniform": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "r")
    with Counter(open_release(tmp_path / "r")) as counter:
        (column,) = published_columns(counter.tables, ["Age"], most=39)
        assert (column.values, column.smallest, column.largest) == (None, "20", "59")
        assert column.literal("20") == "20"
        (column,) = published_columns(counter.tables, ["Age"], most=40)
        assert column.values == tuple(str(age) for age in range(20, 60))
        assert published_columns(counter.tables, []) == ()


def _exact(counter: Counter, expression: str) -> int:
    low, high = counter.count(expression).bounds
    assert low == high
    return low


def _kinds(columns: tuple[PublishedColumn, ...]) -> list[str]:
    return [column.kind for column in columns]
