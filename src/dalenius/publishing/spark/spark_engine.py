"""Spark behind the verbs of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pyspark.sql import SparkSession

from dalenius.errors import UsageError
from dalenius.place.budget import Budget
from dalenius.publishing.spark.cluster_table import SparkTable
from dalenius.publishing.spark.frames import is_frame, open_frame
from dalenius.publishing.spark.output import SparkOutput, spark_output
from dalenius.publishing.spark.session import connect
from dalenius.publishing.spark.spark_errors import plain_errors


class SparkEngine:
    """One session of Spark. `budget` is for the driver; executors have what the cluster gives them."""

    def __init__(self, spark: SparkSession, budget: Budget) -> None:
        self._spark, self._budget = spark, budget

    @contextmanager
    def open(self, table: Any, name: str | None) -> Iterator[SparkTable]:
        """A path, a URL, the name of a table in the catalog, or a DataFrame."""
        if name is not None:
            raise UsageError("a table name is only for DuckDB files", "Leave it out, and name the table itself.")
        with plain_errors():
            frame, untyped = open_frame(self._spark, table)
            opened = SparkTable(frame, untyped, self._budget)
        try:
            yield opened
        finally:
            opened.close()

    def output(self, out: str, force: bool) -> AbstractContextManager[SparkOutput]:
        """A folder, by its path or URL."""
        return spark_output(self._spark, out, force)


@contextmanager
def spark_engine(
    table: Any, budget: Budget, *, master: str | None, remote: str | None, conf: Mapping[str, str]
) -> Iterator[SparkEngine]:
    """Spark, in the session of the table if it has one, in the active one, or in a new one that ends with the work."""
    session = table.sparkSession if is_frame(table) else None
    with connect(session, master, remote, conf) as spark:
        yield SparkEngine(spark, budget)
