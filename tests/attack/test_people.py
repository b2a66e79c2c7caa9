"""The truth that attacks are scored by, and tables that are not the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dalenius.attack.audit import audit
from dalenius.errors import InputError, NoSuchColumnError
from tests.attack.tables import named, table
from tests.handmade import Handmade, hospital, in_strata, many_types


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


def test_values_that_do_not_go_into_the_buckets(tmp_path: Path) -> None:
    """Rows 0 and 1 are in one bucket with a and b: both cannot have b."""
    made = Handmade({"id": pa.int64()}, [(k,) for k in range(4)], ["a", "b", "a", "b"], [1, 1, 2, 2])
    folder = made.write(tmp_path / "r")
    wrong = pa.table({"id": [0, 1, 2, 3], "Disease": ["b", "b", "a", "a"]})
    with pytest.raises(InputError, match="cannot have given this release"):
        audit(folder, truth=wrong)
    other_way_round = pa.table({"id": [0, 1, 2, 3], "Disease": ["b", "a", "a", "b"]})
    assert any("certain for 4 of 4" in note for note in audit(folder, truth=other_way_round).notes)  # may well be


@pytest.mark.parametrize(("swapped", "most"), [(2, 4_000_000), (3000, 4_000_000), (3000, 6000)])
def test_values_shuffled_among_people(swapped: int, most: int, tmp_path: Path) -> None:
    made = table(3000, with_id=True)
    values = list(made.values)
    if swapped == 2:
        other = next(k for k, bucket in enumerate(made.buckets) if bucket != made.buckets[0] and values[k] != values[0])
        values[0], values[other] = values[other], values[0]
    else:
        values = [values[k] for k in np.random.default_rng(0).permutation(3000).tolist()]
    source = made.source()
    shuffled = source.set_column(source.column_names.index("Disease"), "Disease", pa.array(values))
    with pytest.raises(InputError, match="cannot have given this release"):
        audit(made.write(tmp_path / "r"), truth=shuffled, most_entries=most)


def test_classes_of_several_people(tmp_path: Path) -> None:
    """No row is certain of its own: six pairs of twins, whose values do not go into the buckets."""
    made = Handmade(
        types={"z": pa.int64()},
        rows=[(k % 12,) for k in range(24)],
        values=["a", "b"] * 6 + ["a", "b"] * 6,
        buckets=[k % 12 // 2 + 1 for k in range(24)],
    )
    folder = made.write(tmp_path / "r")
    audit(folder, truth=made.source())
    source = made.source()
    wrong = ["a" if z < 6 else "b" for z in source["z"].to_pylist()]
    with pytest.raises(InputError, match="cannot have given this release"):
        audit(folder, truth=source.set_column(1, "Disease", pa.array(wrong)))


def test_a_fit_that_has_not_come_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(3000, agree=0.5)
    folder = made.write(tmp_path / "r")
    assert not any("did not settle" in note for note in audit(folder, truth=made.source()).notes)
    monkeypatch.setattr("dalenius.attack.aligned_rows.ITERATIONS", 8)
    assert any("did not settle" in note for note in audit(folder, truth=made.source()).notes)


@pytest.mark.parametrize("most", [10**6, 3000])
def test_strata_do_not_change_what_is_true(most: int, tmp_path: Path) -> None:
    """People who share their quasi-identifiers are in one stratum: with names, and without, success is the same."""
    made = in_strata(table(1500, agree=0.5), [("noise", 0, 1, 2), 1, ("kind", "kind 2", 3, 4), 2, 1], [3] * 500)
    with_names = named(made)
    attacks = ["learning", "minimality", "corruption"]
    exact = audit(with_names.write(tmp_path / "a"), truth=with_names.source(), attacks=attacks, most_entries=most)
    estimated = audit(made.write(tmp_path / "b"), truth=made.source(), attacks=attacks, most_entries=most)
    for name in attacks:
        one, other = exact[name].success, estimated[name].success
        assert one is not None
        assert other is not None
        assert other.share == pytest.approx(one.share, abs=0.03 if most == 10**6 else 0.06)
