"""Spark in local mode, one JVM for the whole package. It ends with the package, and leaves other tests alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.spark.daemon import PRELOADED
from tests.spark.java import need_java
from tests.spark.standalone import JAVA_OPTIONS, LOOPBACK, ROOT
from tests.spark.tables import PIECE_ROWS

LOCAL = {
    **PRELOADED,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.files.openCostInBytes": str(128 * 2**20),  # a partition for each file
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # to make code takes longer than to do without; a cluster does
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The active session, which publishing finds and leaves running."""
    need_java()
    folder: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        patch.setenv("SPARK_LOCAL_IP", LOOPBACK)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(ROOT))
        builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        builder = builder.config("spark.local.dir", str(folder / "scratch"))
        for name, value in LOCAL.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
        _end_java()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of some thousand rows in several files, as large ones are."""
    monkeypatch.setattr("dalenius.publishing.spark.cluster_table._LEAST_PIECE_ROWS", PIECE_ROWS)
    monkeypatch.setattr("dalenius.publishing.spark.cluster_table._FEWEST_PIECES", 32)


def _end_java() -> None:
    """pyspark keeps its JVM as long as Python runs, for the next session; there is none."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None
