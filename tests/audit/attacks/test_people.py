"""The truth that attacks are scored by, and tables that are not the truth."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dalenius.audit.audit import audit
from dalenius.errors import InputError, NoSuchColumnError
from tests.audit.attacks.tables import table
from tests.handmade import Handmade, hospital, many_types


def test_every_kind_of_column(tmp_path: Path) -> None:
    made = many_types()
    found = audit(made.write(tmp_path / "r"), truth=made.source())
    assert found["learning"].people == 8
    assert any("certain for 8 of 8 people" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_text_files_as_release_and_as_truth(kind: str, tmp_path: Path) -> None:
    made = table(600, with_id=True)
    pyarrow.csv.write_csv(made.source(), tmp_path / "truth.csv")
    by_file = audit(made.write(tmp_path / "r", kind), truth=tmp_path / "truth.csv")
    by_table = audit(tmp_path / "r", truth=made.source())
    assert by_file == by_table


def test_nulls_in_quasi_identifiers_and_named_ones_in_the_sensitive_column(tmp_path: Path) -> None:
    made = Handmade(
        types={"a": pa.string(), "b": pa.int32()},
        rows=[("x", None), (None, 1), (None, None), ("x", 1)],
        values=["flu", None, None, "cold"],
        buckets=[1, 1, 2, 2],
        null_value="unknown",
        limits={"unknown": "1/2"},
    )
    found = audit(made.write(tmp_path / "r"), truth=made.source())
    assert any("certain for 4 of 4 people" in note for note in found.notes)


def test_the_estimate_keeps_the_margins_of_the_table(tmp_path: Path) -> None:
    """Two of a class in one bucket, whose values the table has: the other bucket's person is known by subtraction."""
    made = Handmade(
        types={"z": pa.string()},
        rows=[("p",), ("p",), ("p",), ("q",)],
        values=["a", "b", "a", "b"],
        buckets=[1, 1, 2, 2],
    )
    found = audit(made.write(tmp_path / "r"), truth=made.source())
    assert any("certain for 2 of 4 people" in note for note in found.notes)


def test_a_missing_column(tmp_path: Path) -> None:
    source = hospital().source()
    folder = hospital().write(tmp_path / "r")
    with pytest.raises(NoSuchColumnError):
        audit(folder, truth=source.drop_columns(["Age"]))
    with pytest.raises(NoSuchColumnError):
        audit(folder, truth=source.drop_columns(["Disease"]))
    with pytest.raises(NoSuchColumnError):
        audit(folder, truth=source, control=source.drop_columns(["Age"]))


@pytest.mark.parametrize("most", [4_000_000, 20])
def test_another_table(most: int, tmp_path: Path) -> None:
    source = hospital().source()
    folder = hospital().write(tmp_path / "r")
    ages = source.column_names.index("Age")
    others = {
        "fewer rows": source.slice(1),
        "other people": source.set_column(ages, "Age", pa.array([99] * 12, pa.uint8())),
        "unknown values": source.set_column(3, "Disease", pa.array(["Mumps"] * 12)),
    }
    for name, other in others.items():
        with pytest.raises(InputError) as raised:
            audit(folder, truth=other, most_entries=most)
        assert "Give the table that the release was made of" in str(raised.value), name
        assert "54321" not in str(raised.value)


def test_other_values_of_the_same_people(tmp_path: Path) -> None:
    source = hospital().source()
    moved = source.set_column(3, "Disease", pa.array(["Flu"] * 11 + ["HIV"]))
    with pytest.raises(InputError, match="sensitive values are others"):
        audit(hospital().write(tmp_path / "r"), truth=moved)
