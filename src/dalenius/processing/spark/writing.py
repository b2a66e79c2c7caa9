"""Both tables as folders of Parquet files, written by Spark, a file a piece; and what they are, file by file."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dalenius.errors import SelfCheckError
from dalenius.place.pieces import Pieces
from dalenius.processing.engine import TableSpec
from dalenius.processing.spark.paths import literal
from dalenius.release.tables import TableFile, TablePart

_PIECE = re.compile(r"part-(\d{5,})-")
_OPTIONS = {
    "compression": "snappy",
    "maxRecordsPerFile": "0",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.block.size": str(2**29),  # never reached: rows decide
    "parquet.summary.metadata.level": "NONE",
    "parquet.writer.version": "v2",  # the first has no encoding for short numbers
}


def write(frame: DataFrame, folder: str, spec: TableSpec) -> None:
    """A frame whose partitions are the pieces of a table, into a folder that is not there yet.

    Row groups have so many rows each: by default they would end when some buffer is full, and say something of its own.
    Short numbers are stored as such, which takes two thirds of the time and half of the space of a dictionary.
    """
    options = {**_OPTIONS, "parquet.block.row.count.limit": str(spec.group)}
    options |= {f"parquet.enable.dictionary#{name}": "false" for name in spec.short}
    frame.write.mode("error").options(**options).parquet(folder)


def described(spark: SparkSession, folder: str) -> DataFrame:
    """What was written: the name, the length and the hash of every file."""
    files = spark.read.format("binaryFile").load(literal(spark, folder))
    return files.selectExpr("path", "length", "sha2(content, 256) AS sha256")


def table_file(name: str, pieces: Pieces, rows: list[Any]) -> TableFile:
    """A table as the manifest has it, from what `described` says; an error if there is not one file for each piece."""
    found: dict[int, TablePart] = {}
    for row in rows:
        file = str(row["path"]).rpartition("/")[2]
        match = _PIECE.match(file)
        piece = int(match[1]) if match else -1
        if piece in found or not 0 <= piece < len(pieces):
            raise SelfCheckError("the files that Spark wrote are not one for each piece of the release")
        found[piece] = TablePart(
            file=file, rows=int(pieces.rows[piece]), bytes=int(row["length"]), sha256=str(row["sha256"])
        )
    if len(found) < len(pieces):
        raise SelfCheckError(f"Spark wrote {len(found):,} files, and {len(pieces):,} were to be written")
    return TableFile.of_parts(name, [found[piece] for piece in range(len(pieces))])
