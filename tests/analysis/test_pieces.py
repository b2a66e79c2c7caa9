"""Both tables in step: pieces of any size put together are the whole release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis import pieces as module
from dalenius.analysis.pieces import Piece, distinct_rows, read_pieces, slot_tables
from dalenius.errors import NoSuchColumnError, ReleaseError, UsageError
from dalenius.infer.candidates import Integers
from dalenius.release.folder import ReleaseFolder, open_release
from tests.analysis.tables import lines, patients, released
from tests.handmade import edit_manifest, hospital, restate_hashes, rewrite

SIZES = [1, 2, 7, 60, 10_000]


def damaged(folder: Path, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> ReleaseFolder:
    """A release whose table is changed, and the manifest as if that were right."""
    hospital().write(folder, format=3)
    rewrite(folder, table, change)
    return open_release(folder)


def whole(folder: ReleaseFolder, rows: int, *columns: str) -> list[Piece]:
    return list(read_pieces(folder, slot_tables(folder, columns or None), rows))


@pytest.mark.parametrize("batch", [1, 3, 2**16])
@pytest.mark.parametrize("rows", SIZES)
def test_pieces_of_any_size_are_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, batch: int
) -> None:
    monkeypatch.setattr(module, "_BATCH", batch)
    folder = open_release(hospital().write(tmp_path))
    qit, st = folder.table("qit"), folder.table("st")
    pieces = whole(folder, rows)
    names = [name for name in qit.column_names if name != "bucket"]
    assert [line for piece in pieces for line in lines(piece.rows, names)] == lines(qit, names)
    assert [line for piece in pieces for line in lines(piece.slots[0], ["Disease"])] == lines(st, ["Disease"])
    assert np.concatenate([piece.buckets for piece in pieces]).tolist() == qit["bucket"].to_pylist()
    assert np.concatenate([piece.slot_buckets[0] for piece in pieces]).tolist() == st["bucket"].to_pylist()
    for piece in pieces:
        assert set(piece.buckets.tolist()) == set(piece.slot_buckets[0].tolist())
        assert len(piece) <= rows or len(set(piece.buckets.tolist())) == 1
    seen = [bucket for piece in pieces for bucket in sorted(set(piece.buckets.tolist()))]
    assert len(seen) == len(set(seen))


def test_pieces_are_as_large_as_they_may_be(tmp_path: Path) -> None:
    """Otherwise what is worked out for each is worked out too often."""
    folder = released(patients(300), tmp_path / "r", strata=None)
    largest = max(np.bincount(folder.table("qit")["bucket"].to_numpy()))
    lengths = [len(piece) for piece in whole(folder, 50)]
    assert all(length > 50 - largest for length in lengths[:-1])


@pytest.mark.parametrize("rows", [5, 10_000])
def test_fakes_are_slots_beyond_rows(tmp_path: Path, rows: int) -> None:
    folder = released(patients(120), tmp_path / "r", fake_values=2)
    for piece in whole(folder, rows):
        numbers, counts = np.unique(piece.buckets, return_counts=True)
        assert np.unique(piece.slot_buckets[0]).tolist() == numbers.tolist()
        assert (np.bincount(piece.slot_buckets[0])[numbers] == counts + 2).all()


def several(rows: int = 120) -> pa.Table:
    table, random = patients(rows), np.random.default_rng(1)
    drugs = pa.array([f"drug {place}" for place in random.integers(0, 4, rows).tolist()])
    return table.append_column("drug", drugs).append_column(
        "stay", pa.array(random.integers(1, 6, rows).tolist(), pa.int32())
    )


def test_columns_that_are_kept_together_are_one_table(tmp_path: Path) -> None:
    folder = released(several(), tmp_path / "r", ["disease", "drug", "stay"], keep_together=[["disease", "drug"]])
    tables = slot_tables(folder)
    assert [one.names for one in tables] == [("disease", "drug"), ("stay",)]
    together = folder.kept_together(0).table("together")
    pieces = list(read_pieces(folder, tables, 10))
    found = [line for piece in pieces for line in lines(piece.slots[0], ["disease", "drug"])]
    assert found == lines(together, ["disease", "drug"])
    stays = [line for piece in pieces for line in lines(piece.slots[1], ["stay"])]
    assert stays == lines(folder.view(2).table("st"), ["stay"])


def test_tables_are_those_of_columns_that_are_asked_for(tmp_path: Path) -> None:
    folder = released(several(), tmp_path / "r", ["disease", "drug", "stay"], keep_together=[["disease", "drug"]])
    assert [one.names for one in slot_tables(folder, ["stay"])] == [("stay",)]
    assert [one.names for one in slot_tables(folder, ["drug"])] == [("disease", "drug")]
    assert [one.names for one in slot_tables(folder, ["stay", "drug", "disease", "stay"])] == [
        ("disease", "drug"),
        ("stay",),
    ]
    with pytest.raises(NoSuchColumnError, match="'drugs'"):
        slot_tables(folder, ["drugs"])


def test_some_buckets_of_a_piece(tmp_path: Path) -> None:
    folder = open_release(hospital().write(tmp_path))
    piece = whole(folder, 10_000)[0]
    chosen = np.unique(piece.buckets)[[0, 2]]
    some = piece.some(chosen)
    assert some.buckets.tolist() == [bucket for bucket in piece.buckets.tolist() if bucket in chosen]
    held = zip(piece.slot_buckets[0].tolist(), lines(piece.slots[0], ["Disease"]), strict=True)
    assert lines(some.slots[0], ["Disease"]) == [line for bucket, line in held if bucket in chosen]


def test_people_with_several_rows_are_refused_with_the_reason(tmp_path: Path) -> None:
    table = several(200)
    table = table.set_column(2, "name", pa.array([f"person {number // 2}" for number in range(200)]))
    folder = released(table.drop_columns(["stay", "drug"]), tmp_path / "r", person="name",
                      quasi_identifiers=["age", "ward"])  # fmt: skip
    with pytest.raises(UsageError, match="100 people have 200 rows"):
        slot_tables(folder)


def test_sets_are_refused_with_the_reason(tmp_path: Path) -> None:
    table = several(200)
    sensitive = [{"name": "either", "columns": ["disease", "drug"]}]
    folder = released(table, tmp_path / "r", sensitive=sensitive, quasi_identifiers=["age"])
    with pytest.raises(UsageError, match="is made of 2 columns"):
        slot_tables(folder)


def less_in_st(rows: list[dict[str, Any]]) -> Any:
    return rows[1:]


def more_in_st(rows: list[dict[str, Any]]) -> Any:
    return [rows[0], *rows]


def another_bucket(rows: list[dict[str, Any]]) -> Any:
    return [*rows, {**rows[-1], "bucket": rows[-1]["bucket"] + 1}]


def without_the_last_bucket(rows: list[dict[str, Any]]) -> Any:
    return [row for row in rows if row["bucket"] < rows[-1]["bucket"]]


def without_the_first_bucket(rows: list[dict[str, Any]]) -> Any:
    return [row for row in rows if row["bucket"] > rows[0]["bucket"]]


def turned(rows: list[dict[str, Any]]) -> Any:
    return rows[::-1]


@pytest.mark.parametrize("rows", [1, 10_000])
@pytest.mark.parametrize("table", ["qit", "st"])
@pytest.mark.parametrize(
    "change",
    [less_in_st, more_in_st, another_bucket, without_the_last_bucket, without_the_first_bucket, turned],
)
def test_damaged_releases_are_refused(
    tmp_path: Path, table: str, change: Callable[[list[dict[str, Any]]], Any], rows: int
) -> None:
    folder = damaged(tmp_path, table, change)
    with pytest.raises(ReleaseError, match=r"bucket"):
        whole(folder, rows)


def test_fakes_that_are_not_there_are_missed(tmp_path: Path) -> None:
    hospital().write(tmp_path)
    edit_manifest(tmp_path, lambda manifest: manifest["adversary"].update(fake_values=1))
    restate_hashes(tmp_path)
    with pytest.raises(ReleaseError, match="more rows than values"):
        whole(open_release(tmp_path), 100)


def oracle(table: pa.Table) -> tuple[list[Any], list[int]]:
    """Different rows in the order in which they are found, and the place of every row."""
    cells = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    different = list(dict.fromkeys(cells))
    return different, [different.index(line) for line in cells]


@pytest.mark.parametrize("most", [2**62, 20])
@pytest.mark.parametrize("coded", [False, True])
def test_distinct_rows(monkeypatch: pytest.MonkeyPatch, most: int, coded: bool) -> None:
    """However many kinds there are: keys are made small where they would not fit."""
    monkeypatch.setattr(module, "_MOST_KEY", most)
    random = np.random.default_rng(0)

    def cells(values: list[Any]) -> pa.ChunkedArray:
        drawn = [values[place] for place in random.integers(0, len(values), 60).tolist()]
        chunks = [pa.array(drawn[start : start + 20]) for start in (0, 20, 40)]
        return pa.chunked_array([chunk.dictionary_encode() if coded else chunk for chunk in chunks])

    table = pa.table({"one": cells(["a", "b", None]), "two": cells([1, 2, 3, None]), "three": cells([True, False])})
    different, places = distinct_rows(table)
    found = list(zip(*(column.to_pylist() for column in different.columns), strict=True))
    expected, where = oracle(table)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    own: Integers = places
    assert [found[place] for place in own.tolist()] == [expected[place] for place in where]
