"""DataFrames that are not the same every time they are computed are refused, and those that are, are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (what everybody calls it)

from dalenius.errors import ChangedInputError
from tests.effort import cases
from tests.spark.tables import check_release, publish, town, written


def other_partitions(frame: DataFrame) -> DataFrame:
    """Every row goes somewhere else each time."""

    def drawn() -> int:
        import secrets

        return secrets.randbelow(1000)

    return frame.repartition(4, F.udf(drawn, "int").asNondeterministic()())


def other_order(frame: DataFrame) -> DataFrame:
    """The same rows in the same partitions, in another order each time."""

    def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import secrets

        import numpy as np

        for batch in batches:
            yield batch.take(pa.array(np.random.default_rng(secrets.randbits(64)).permutation(batch.num_rows)))

    return frame.mapInArrow(shuffled, frame.schema)


def other_cells(frame: DataFrame) -> DataFrame:
    """As many rows of each value in each partition, in the same order, with another cell in each row."""

    def drawn() -> int:
        import secrets

        return secrets.randbits(40)

    return frame.withColumn("id", F.udf(drawn, "long").asNondeterministic()())


@pytest.mark.parametrize(
    ("change", "strata"),
    cases(
        pytest.param(other_partitions, None, id="partitions"),
        pytest.param(other_cells, ["Gender"], id="cells, in strata"),
        pytest.param(other_order, None, id="order"),
        pytest.param(other_order, ["Gender"], id="order, in strata"),
        usually=2,
    ),
)
def test_a_frame_that_differs_each_time(
    spark: SparkSession, change: Callable[[DataFrame], DataFrame], strata: Any, tmp_path: Path
) -> None:
    frame = change(spark.read.parquet(str(written(town(300), tmp_path / "table"))))
    with pytest.raises(ChangedInputError):
        publish(frame, strata=strata, out=tmp_path / "release")
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_frames_that_are_computed(spark: SparkSession, tmp_path: Path) -> None:
    table = town(300)
    frame = spark.read.parquet(str(written(table, tmp_path / "table")))
    kinds = spark.createDataFrame([(name,) for name in ("Flu", "Cold", "Gout", "HIV")], "Disease string")
    for computed in (frame.repartition(3), frame.orderBy(*frame.columns), frame.join(kinds, "Disease"), frame.cache()):
        check_release(publish(computed), table)
    frame.unpersist()
