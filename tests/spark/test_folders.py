"""Folders of Parquet files: what one engine reads, the other reads, or both refuse."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import dalenius
from dalenius.errors import EngineError, InputError, UsageError
from dalenius.publishing.spark.session import _reach
from tests.spark.tables import check_release, publish, town, written


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    return str(request.param)


def put(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)


def test_folders_below_are_read_and_other_files_are_not(engine: str, tmp_path: Path) -> None:
    table = town()
    put(table.slice(0, 200), tmp_path / "t" / "a.parquet")
    put(table.slice(200, 300), tmp_path / "t" / "sub" / "deep" / "b.pq")
    put(table.slice(500), tmp_path / "t" / "sub" / "c.parquet")
    put(table.slice(0, 7), tmp_path / "t" / "_old" / "d.parquet")
    (tmp_path / "t" / "readme.txt").write_text("about these files")
    check_release(publish(tmp_path / "t", engine=engine), table, against=tmp_path / "t")


def test_folders_named_by_a_value_are_text_that_keeps_its_zeros(engine: str, tmp_path: Path) -> None:
    table = town()
    for number, first in enumerate(range(0, 600, 200)):
        put(table.slice(first, 200), tmp_path / "t" / f"code={number:03d}" / "a.parquet")
    release = publish(tmp_path / "t", engine=engine, quasi_identifiers=["Age", "code"])
    assert sorted(set(release.qit["code"].to_pylist())) == ["000", "001", "002"]
    assert release.verify(against=tmp_path / "t").verified


def test_numbers_in_the_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    """They are text to Spark and numbers to DuckDB, and the release is the same table all the same."""
    table = town()
    for year, first in ((2023, 0), (2024, 300)):
        put(table.slice(first, 300), tmp_path / "t" / f"year={year}" / "a.parquet")
    release = publish(tmp_path / "t", engine="spark", quasi_identifiers=["Age", "year"])
    assert release.verify(against=tmp_path / "t").verified


def columns_differ(folder: Path) -> None:
    put(town(300), folder / "a.parquet")
    put(town(300).drop_columns(["Gender"]), folder / "b.parquet")


def types_differ(folder: Path) -> None:
    table = town(300)
    put(table, folder / "a.parquet")
    put(table.set_column(0, "Age", table["Age"].cast(pa.string())), folder / "b.parquet")


def no_files(folder: Path) -> None:
    folder.mkdir()
    (folder / "readme.txt").write_text("nothing")


def a_release(folder: Path) -> None:
    publish(town(), out=folder, format="parts")


@pytest.mark.parametrize("make", [columns_differ, types_differ, no_files, a_release])
def test_what_is_not_one_table_is_refused(engine: str, make: Any, tmp_path: Path) -> None:
    make(tmp_path / "t")
    with pytest.raises(InputError):
        publish(tmp_path / "t", engine=engine, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_by_its_bare_name(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(town(), tmp_path / "people")
    monkeypatch.chdir(tmp_path)
    check_release(publish("people", engine=engine), town())


def test_a_name_is_the_catalogs_first(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(town(100), tmp_path / "visitors")
    spark.read.parquet(str(written(town(), tmp_path / "t"))).createOrReplaceTempView("visitors")
    monkeypatch.chdir(tmp_path)
    check_release(publish("visitors", engine="spark"), town())


def test_a_url_is_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--engine spark"):
        publish(town(), out="s3a://bucket/out")
    with pytest.raises(UsageError, match="--engine spark"):
        publish("s3a://bucket/in", out="out")
    assert not list(tmp_path.iterdir())


def test_a_scheme_that_the_cluster_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file system"):
        publish("nowhere://secret/in", engine="spark", out=tmp_path / "out")


def test_an_output_that_cannot_be_made_is_known_at_once(spark: SparkSession, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "t")
    began: list[str] = []

    class Stages:
        def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
            began.append(name)

        def advance(self, number: int) -> None:
            pass

        def tell(self, sentence: str) -> None:
            pass

    with pytest.raises(dalenius.DaleniusError) as failed:
        publish(source, engine="spark", out="/proc/no/such", progress=Stages())
    assert failed.value.kind == "output"
    assert not began


def test_a_setting_that_a_session_does_not_take(spark: SparkSession, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "t")
    with pytest.raises(UsageError, match=r"spark\.executor\.memory"):
        publish(source, engine="spark", spark_conf={"spark.executor.memory": "1g"})


def test_a_connect_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match="cannot be reached"):
            _reach(f"sc://127.0.0.1:{port}")
