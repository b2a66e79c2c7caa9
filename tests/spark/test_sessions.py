"""Sessions of somebody else: what their tables hold is what is published, and they are left as they were."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession

from dalenius.errors import DaleniusError, InputError
from tests.spark.tables import check_release, publish, town, written


def settings(spark: SparkSession) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


def test_a_session_is_left_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "table")
    before = settings(spark)
    java: Any = spark.sparkContext._jsc
    publish(source, engine="spark", strata="auto", spark_conf={"spark.sql.shuffle.partitions": "3"})
    assert settings(spark) == before
    assert java.getPersistentRDDs().isEmpty()
    with pytest.raises(InputError):
        publish(tmp_path / "nowhere", engine="spark")
    assert settings(spark) == before


def test_names_in_another_case(spark: SparkSession, tmp_path: Path) -> None:
    table = town()
    source = written(table, tmp_path / "table")
    frame = spark.read.schema("AGE long, Gender string, id long, Disease string").parquet(str(source))
    release = publish(frame, quasi_identifiers=["AGE", "Gender"])
    renamed = table.rename_columns(["AGE", "Gender", "id", "Disease"])
    check_release(release, renamed)
    frame.createOrReplaceTempView("Visits")
    check_release(publish("Visits", engine="spark", quasi_identifiers=["AGE"]), renamed)


def test_times_are_those_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"t": ["2024-01-01 12:00:00"] * 6, "s": ["a", "b", "c"] * 2}), tmp_path / "t.csv")
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.schema("t timestamp, s string").csv(str(tmp_path / "t.csv"), header=True)
        release = publish(frame, quasi_identifiers=["t"], sensitive="s", limits={"uniform": "1/2"})
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert release.qit.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert set(release.qit["t"].to_pylist()) == {dt.datetime(2024, 1, 1, 17, tzinfo=dt.UTC)}


@pytest.mark.parametrize("way", ["frame", "view"])
def test_what_a_cast_complains_about_is_shown_nowhere(
    spark: SparkSession, tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    frame = spark.createDataFrame([("secret-1", "a"), ("secret-2", "b")], "v string, s string")
    if way == "frame":
        frame = frame.selectExpr("cast(v AS int) AS v", "s")
        given: Any = frame
    else:
        frame.createOrReplaceTempView("raw")
        spark.sql("SELECT cast(v AS int) AS v, s FROM raw").createOrReplaceTempView("cooked")
        given = "cooked"
    capfd.readouterr()
    spark.sparkContext.setLogLevel("OFF")
    try:
        with pytest.raises(DaleniusError) as failed:
            publish(given, engine="spark", quasi_identifiers=["v"], sensitive="s", limits={"uniform": 1})
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    shown = capfd.readouterr()
    assert "secret" not in shown.out + shown.err + caplog.text + str(failed.value)


def test_text_that_is_not_utf_8(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("city,s\nZürich,a\nZärich,b\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        publish(
            tmp_path / "t.csv", engine="spark", quasi_identifiers=["city"], sensitive="s", limits={"uniform": "1/2"}
        )


def test_text_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('city,age,s\n"a ""b""\nc",007,x\n"",12,y\n,3,z\nü,4,"x"\n', encoding="utf-8")
    columns = ["city", "age"]
    for engine in ("duckdb", "spark"):
        release = publish(
            tmp_path / "t.csv", engine=engine, quasi_identifiers=columns, sensitive="s", limits={"uniform": "1/2"}
        )
        cells = sorted(zip(*(map(repr, release.qit[name].to_pylist()) for name in columns), strict=True))
        assert cells == [("''", "'12'"), ("'a \"b\"\\nc'", "'007'"), ("'ü'", "'4'"), ("None", "'3'")]
        assert release.verify(against=tmp_path / "t.csv").verified
    (tmp_path / "ragged.csv").write_text("city,s\na,x\nb\nc,y\n", encoding="utf-8")
    with pytest.raises(InputError, match="cell"):
        publish(
            tmp_path / "ragged.csv", engine="spark", quasi_identifiers=["city"], sensitive="s", limits={"uniform": 1}
        )


def test_a_stream_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "table")
    stream = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    with pytest.raises(InputError, match="stream"):
        publish(stream)
