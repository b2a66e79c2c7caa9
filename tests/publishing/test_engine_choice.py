"""Which engine makes a release, and what goes with which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.errors import NoSuchColumnError, NullsError, UsageError
from dalenius.planning import count_values as counted
from dalenius.policy.limits import bands_in
from dalenius.publishing.engine import count_on_engine
from dalenius.publishing.options import PublishOptions, choose_engine

PEOPLE = pa.table(
    {"age": [31, 42, 53, 64], "when": pa.array([0, 1, 2, 3], pa.date32()), "s": ["Flu", "Flu", None, "Flu"]}
)


def spark_frame(module: str) -> Any:
    """Something that is like a DataFrame of Spark from the outside."""
    return type("DataFrame", (), {"__module__": module})()


@pytest.mark.parametrize("module", ["pyspark.sql.dataframe", "pyspark.sql.classic.dataframe", "pyspark.sql.connect.x"])
def test_a_frame_of_spark_implies_spark(module: str) -> None:
    options = choose_engine(spark_frame(module), PublishOptions())
    assert (options.engine, options.format) == ("spark", "parts")
    named = type("MyFrame", (type(spark_frame(module)),), {})()
    assert choose_engine(named, PublishOptions(engine="spark", spark_conf=(("a", "b"),))).engine == "spark"
    for session in ({"master": "local"}, {"spark_remote": "sc://x"}):
        with pytest.raises(UsageError, match="session of its own"):
            choose_engine(named, PublishOptions(**session))  # type: ignore[arg-type]


@pytest.mark.parametrize("table", [PEOPLE, PEOPLE.to_pandas(), "people.csv", Path("people.csv")], ids=type)
def test_everything_else_stays_here_unless_it_is_said(table: Any) -> None:
    assert choose_engine(table, PublishOptions()) == PublishOptions(format="parquet")
    assert choose_engine(table, PublishOptions(format="parts")).format == "parts"
    assert choose_engine(table, PublishOptions(engine="spark")).format == "parts"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "abacus"}, "no engine 'abacus'"),
        ({"master": "local"}, "--master is for Spark"),
        ({"spark_remote": "sc://x"}, "--spark-remote is for Spark"),
        ({"spark_conf": {"a": "b"}}, "Spark settings are given without Spark"),
        ({"engine": "spark", "master": "local", "spark_remote": "sc://x"}, "both a master and"),
        ({"engine": "spark", "format": "parquet"}, "Spark does not write releases as parquet"),
        ({"engine": "spark", "format": "xml"}, "no format 'xml'"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        dalenius.publish(
            PEOPLE, {"uniform": 1}, sensitive="s", quasi_identifiers=["age"], out=tmp_path / "release", **options
        )
    assert list(tmp_path.iterdir()) == []


WITHOUT = """
import sys
sys.modules["pyspark"] = None
from dalenius.cli.main import main
main()
"""


def test_spark_that_is_not_installed(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(PEOPLE, tmp_path / "people.parquet")
    words = ["people.parquet", "--sensitive", "s", "--uniform", "1", "--engine", "spark", "--json"]
    for command in (["plan", *words], ["publish", *words, "--quasi-identifiers", "age", "--out", "release"]):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        assert '"kind": "missing-extra"' in done.stdout
        assert "dalenius[spark]" in done.stdout
        assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


def test_an_engine_counts_numbers_in_bands_as_plan_does() -> None:
    table = pa.table({"s": [None, *(k * k % 97 for k in range(200))]})
    for grouping in ("quantiles:2:8", "cuts:50:20,50", "width:40:10"):
        bands = bands_in({"grouping": grouping})
        found = count_on_engine(table, "s", PublishOptions(null_value="none"), bands=bands)
        assert found == counted(table, "s", "none", bands=bands)


@pytest.mark.parametrize("sensitive", PEOPLE.schema.names)
def test_an_engine_counts_what_plan_counts(sensitive: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(PEOPLE, tmp_path / "people.parquet")
    PEOPLE.to_pandas().to_csv(tmp_path / "people.csv", index=False)
    for source in (PEOPLE, tmp_path / "people.parquet", tmp_path / "people.csv"):
        found = count_on_engine(source, sensitive, PublishOptions(null_value="none"))
        expected = counted(source, sensitive, "none")
        assert dict(zip(found.values, found.counts, strict=True)) == dict(
            zip(expected.values, expected.counts, strict=True)
        )
    with pytest.raises(NoSuchColumnError, match="no column 'absent'"):
        count_on_engine(PEOPLE, "absent", PublishOptions())
    if sensitive == "s":
        with pytest.raises(NullsError):
            count_on_engine(PEOPLE, sensitive, PublishOptions())
