"""Parquet files written anew by Spark itself: python -m tests.verify.spark_writer FROM TO [FROM TO ...].

FROM is a file whose rows stay in their order, TO a folder. With FROM+note, every column has a comment; with FROM+bloom,
there are Bloom filters.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

CONFIGURATION = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(*paths: str) -> None:
    """Write them one after the other."""
    builder = SparkSession.builder.master("local[1]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        path, _, wish = source.partition("+")
        table = spark.read.parquet(path)
        if wish == "note":
            for name in table.columns:
                table = table.withMetadata(name, {"comment": "Ann has HIV"})
        writer = table.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.option("parquet.bloom.filter.enabled", str(wish == "bloom").lower()).parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
