"""Folders of Parquet files as tables: which files count, which columns folders make, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dalenius
from dalenius.cli.main import main
from dalenius.errors import ChangedInputError, DaleniusError, InputError, UsageError
from dalenius.tables.describe import describe
from dalenius.tables.open_table import open_table
from dalenius.tables.sources import open_source
from tests.handmade import hospital
from tests.parts import into_parts, patients, published


def put(path: Path, rows: dict[str, list[Any]] | pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), path)
    return path


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    with open_table(folder) as table:
        return table.relation.fetchall()


def streamed(folder: Path) -> pa.Table:
    with open_source(folder) as source:
        names = list(source.names)
        return pa.Table.from_batches(source.batches(names, 2), source.schema(names))


def test_files_in_the_order_of_their_names_and_not_those_of_writers(tmp_path: Path) -> None:
    put(tmp_path / "t" / "part-00001.parquet", {"n": [3, 4]})
    put(tmp_path / "t" / "part-00000.snappy.parquet", {"n": [1, 2]})
    put(tmp_path / "t" / "z" / "last.PQ", {"n": [5]})
    for other in ("_temporary/0/part-00000.parquet", ".part-00000.parquet", "_metadata.parquet", ".hidden/a.parquet"):
        put(tmp_path / "t" / other, {"other": ["x"]})
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / ".part-00000.parquet.crc").touch()
    (tmp_path / "t" / "notes.txt").write_text("not a table", encoding="utf-8")
    assert rows_of(tmp_path / "t") == [(1,), (2,), (3,), (4,), (5,)]
    assert streamed(tmp_path / "t").to_pylist() == [{"n": n} for n in (1, 2, 3, 4, 5)]
    assert describe(tmp_path / "t").rows == 5


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.duckdb", "t"])
def test_the_name_of_a_folder_says_nothing(tmp_path: Path, name: str) -> None:
    put(tmp_path / name / "a.parquet", {"n": [1, 2], "t": ["007", None]})
    assert streamed(tmp_path / name).to_pylist() == [{"n": 1, "t": "007"}, {"n": 2, "t": None}]
    with open_source(tmp_path / name) as source:
        assert not source.untyped


def test_folders_below_are_columns(tmp_path: Path) -> None:
    for year in ("2023", "2024", "__HIVE_DEFAULT_PARTITION__"):
        for town in ("Bern", "A%2FB"):
            put(tmp_path / "t" / f"year={year}" / f"town={town}" / "a.parquet", {"n": [1]})
    found = streamed(tmp_path / "t")
    assert found.schema.names == ["n", "year", "town"]
    assert found.schema.field("year").type == pa.int64()
    assert set(found.to_pydict()["year"]) == {2023, 2024, None}
    assert set(found.to_pydict()["town"]) == {"Bern", "A/B"}
    assert rows_of(tmp_path / "t" / "year=2023") == [(1, "A/B"), (1, "Bern")]
    assert rows_of(tmp_path / "t" / "year=2023" / "town=Bern") == [(1,)]


def test_numbers_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    for code in ("007", "7"):
        put(tmp_path / "t" / f"code={code}" / "a.parquet", {"n": [1]})
    assert sorted(rows_of(tmp_path / "t")) == [(1, "007"), (1, "7")]


def test_folders_above_are_no_columns(tmp_path: Path) -> None:
    put(tmp_path / "run=5" / "t" / "year=2023" / "a.parquet", {"n": [1]})
    assert rows_of(tmp_path / "run=5" / "t") == [(1, 2023)]
    put(tmp_path / "n=5" / "t" / "year=2023" / "a.parquet", {"n": [1]})
    with pytest.raises(InputError, match="folder above the table"):
        rows_of(tmp_path / "n=5" / "t")
    assert rows_of(tmp_path / "n=5" / "t" / "year=2023") == [(1,)]


def test_names_with_wildcards(tmp_path: Path) -> None:
    put(tmp_path / "t[1]*?" / "k=[x]" / "a*.parquet", {"n": [1]})
    put(tmp_path / "t1xx" / "k=x" / "ab.parquet", {"n": [2]})
    assert rows_of(tmp_path / "t[1]*?") == [(1, "[x]")]


def _text_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.csv").write_text("n\n1\n", encoding="utf-8")


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "nothing": lambda folder: folder.mkdir(),
    "a text file": _text_file,
    "writers' files alone": lambda folder: put(folder / "_a.parquet", {"n": [1]}),
}
DIFFERENT: dict[str, pa.Table] = {
    "another order": pa.table({"t": ["b"], "n": [2]}),
    "a column less": pa.table({"n": [2]}),
    "a column more": pa.table({"n": [2], "t": ["b"], "more": [1]}),
    "another name": pa.table({"N": [2], "t": ["b"]}),
    "another type": pa.table({"n": [2.5], "t": ["b"]}),
    "a narrower type": pa.table({"n": pa.array([2], pa.int8()), "t": ["b"]}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_without_a_table(tmp_path: Path, name: str) -> None:
    FOLDERS[name](tmp_path / "t")
    with pytest.raises(InputError, match="no Parquet files") as caught:
        rows_of(tmp_path / "t")
    assert "Give a folder of .parquet files" in str(caught.value)
    with pytest.raises(InputError, match="no Parquet files"):
        streamed(tmp_path / "t")


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("first", ["a", "z"])
def test_files_that_differ(tmp_path: Path, name: str, first: str) -> None:
    put(tmp_path / "t" / "m.parquet", {"n": [1], "t": ["a"]})
    put(tmp_path / "t" / f"{first}.parquet", DIFFERENT[name])
    with pytest.raises(InputError, match="have not all the same columns"):
        rows_of(tmp_path / "t")


def test_nulls_and_categories_are_no_difference(tmp_path: Path) -> None:
    required = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.string())])
    put(tmp_path / "t" / "a.parquet", pa.table({"n": [1], "t": ["a"]}, schema=required))
    put(tmp_path / "t" / "b.parquet", pa.table({"n": [2], "t": pa.array(["b"]).dictionary_encode()}))
    assert rows_of(tmp_path / "t") == [(1, "a"), (2, "b")]


PARTITIONS: dict[str, tuple[list[str], str]] = {
    "of different depth": (["a.parquet", "k=1/a.parquet"], "different names"),
    "of different names": (["j=1/a.parquet", "k=1/a.parquet"], "different names"),
    "of the name of a column": (["n=1/a.parquet"], "columns 1 and 2 have the same name"),
    "of the name of a column in capitals": (["N=1/a.parquet"], "columns 1 and 2 have the same name"),
    "of one name twice": (["k=1/k=2/a.parquet"], "columns 2 and 3 have the same name"),
    "without a name": (["=1/a.parquet"], "name=value"),
    "with two signs": (["k=1=2/a.parquet"], "name=value"),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_folders_that_make_no_columns(tmp_path: Path, name: str) -> None:
    paths, message = PARTITIONS[name]
    for path in paths:
        put(tmp_path / "t" / path, {"n": [1]})
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / "t")


def test_what_is_no_file_or_no_parquet_or_a_circle(tmp_path: Path) -> None:
    put(tmp_path / "t" / "a.parquet", {"n": [1]})
    os.mkfifo(tmp_path / "t" / "b.parquet")
    with pytest.raises(InputError, match="not a regular file"):
        rows_of(tmp_path / "t")
    (tmp_path / "t" / "b.parquet").unlink()
    (tmp_path / "t" / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a complete Parquet file"):
        rows_of(tmp_path / "t")
    (tmp_path / "t" / "b.parquet").unlink()
    (tmp_path / "t" / "again").symlink_to(tmp_path / "t")
    with pytest.raises(InputError, match="a link"):
        rows_of(tmp_path / "t")
    (tmp_path / "t" / "again").unlink()
    put(tmp_path / "elsewhere" / "b.parquet", {"n": [2]})
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "elsewhere")
    assert rows_of(tmp_path / "t") == [(1,), (2,)]


def test_a_table_name_is_for_databases(tmp_path: Path) -> None:
    put(tmp_path / "t" / "a.parquet", {"n": [1]})
    with pytest.raises(UsageError, match="DuckDB files"), open_table(tmp_path / "t", "visits"):
        pass


def test_the_connection_reaches_these_files_alone(tmp_path: Path) -> None:
    put(tmp_path / "t" / "a.parquet", {"n": [1]})
    other = put(tmp_path / "t" / "_b.parquet", {"n": [1]})
    with open_table(tmp_path / "t") as table:
        assert table.query(f"SELECT * FROM read_parquet('{tmp_path / 't' / 'a.parquet'}')").fetchall() == [(1,)]  # noqa: S608
        with pytest.raises(duckdb.Error, match="disabled by configuration"):
            table.query(f"SELECT * FROM read_parquet('{other}')")  # noqa: S608


def _written(folder: Path) -> None:
    put(folder / "a.parquet", {"n": [3]})


def _added(folder: Path) -> None:
    put(folder / "c.parquet", {"n": [3]})


def _removed(folder: Path) -> None:
    (folder / "b.parquet").unlink()


@pytest.mark.parametrize("change", [_written, _added, _removed])
def test_a_folder_that_changes_while_it_is_read(tmp_path: Path, change: Callable[[Path], None]) -> None:
    for name in ("a", "b"):
        put(tmp_path / "t" / f"{name}.parquet", {"n": [1]})
    with pytest.raises(ChangedInputError), open_source(tmp_path / "t"):
        change(tmp_path / "t")
    with open_source(tmp_path / "t"):
        (tmp_path / "t" / "_SUCCESS").touch()


class TestReleases:
    """A release is a folder of two tables, and no table."""

    @pytest.mark.parametrize("kind", ["parts", "files"])
    def test_it_is_refused(self, tmp_path: Path, kind: str) -> None:
        folder = hospital().write(tmp_path / "whole")
        if kind == "parts":
            folder = into_parts(folder, tmp_path / "parts", 4)
        with pytest.raises(InputError, match="is a release, and a table is wanted") as caught:
            dalenius.plan(folder, {"HIV": "1/2"}, sensitive="Disease")
        assert "its folder st" in str(caught.value)
        with pytest.raises(DaleniusError, match="is a release"):
            streamed(folder)

    def test_its_tables_are_tables(self, tmp_path: Path) -> None:
        folder = into_parts(hospital().write(tmp_path / "whole"), tmp_path / "parts", 4)
        limits = dict.fromkeys(("HIV", "Flu", "Cold", "Gout"), "1/2")
        one = dalenius.plan(tmp_path / "whole" / "st.parquet", limits, sensitive="Disease")
        many = dalenius.plan(folder / "st", limits, sensitive="Disease")
        assert (many.problem, many.solution.setting) == (one.problem, one.solution.setting)
        assert len(streamed(folder / "qit")) == 12

    def test_another_manifest_is_nothing_special(self, tmp_path: Path) -> None:
        put(tmp_path / "t" / "a.parquet", {"n": [1]})
        (tmp_path / "t" / "manifest.json").write_text('{"program": {"name": "other"}}', encoding="utf-8")
        assert rows_of(tmp_path / "t") == [(1,)]


def test_from_a_folder_to_a_release_and_back(tmp_path: Path) -> None:
    """Publish, verify, audit and count against the folder, as against the table in memory."""
    table = patients(300)
    for place in range(3):
        put(tmp_path / "t" / f"part-0000{place}.parquet", table.slice(place * 100, 100))
    made = published(tmp_path / "t", tmp_path / "release")
    assert made.verify(against=tmp_path / "t").verified
    assert made.verify(against=table).verified
    like = published(table, tmp_path / "like")
    assert made.manifest.values == like.manifest.values
    assert made.manifest.setting == like.manifest.setting
    assert made.audit(truth=tmp_path / "t", attacks=["corruption"]) == made.audit(truth=table, attacks=["corruption"])
    other = put(tmp_path / "other" / "a.parquet", table.slice(0, 299)).parent
    assert not made.verify(against=other)["source"].passed
    runner = CliRunner()
    words = [str(tmp_path / "release"), "Age > 50 AND Disease = 'disease 3'", "--json"]
    assert runner.invoke(main, ["query", *words]).exit_code == 0
    found = runner.invoke(main, ["verify", str(tmp_path / "release"), "--against", str(tmp_path / "t")])
    assert found.exit_code == 0
    found = runner.invoke(main, ["workload", str(tmp_path / "release"), "--against", str(tmp_path / "t"), "--json"])
    assert found.exit_code == 0
