"""A table as a DataFrame: the columns to read, under names of our own, with their types.

Every row has a fingerprint that its place in its partition is part of. The fingerprints of a partition, taken together,
say whether a later reading saw the same rows in the same order.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (what everybody calls it)
from pyspark.sql import types as t

from dalenius.errors import InputError
from dalenius.publishing.spark.cluster_files import absolute, is_there, literal, local_path
from dalenius.tables.parquet_folders import ParquetFolder, parquet_folder

FINGERPRINT = "fingerprint"
PACKED = "packed"
SENSITIVE = "s"

_TYPES: dict[type[t.DataType], pa.DataType] = {
    t.ByteType: pa.int8(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.BooleanType: pa.bool_(),
    t.StringType: pa.string(),
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimestampType: pa.timestamp("us", tz="UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
}
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DateType, t.BooleanType)
_TEXT = {".csv": ",", ".tsv": "\t"}


def is_frame(table: Any) -> bool:
    """Whether somebody gave a DataFrame of Spark."""
    return isinstance(table, DataFrame)


def open_frame(spark: SparkSession, table: Any) -> tuple[DataFrame, bool]:
    """A table by its path, URL or name, or as it is; and whether all of it is text."""
    if isinstance(table, DataFrame):
        if table.isStreaming:
            raise InputError("the DataFrame is a stream, and a table is wanted", "Write it to a table first.")
        return table, False
    if not isinstance(table, str | os.PathLike):
        raise InputError(
            "Spark reads no table that is in this process's memory",
            "Give a path, a URL, the name of a table in the catalog, or a DataFrame of Spark.",
        )
    name = os.fspath(table)
    suffix = os.path.splitext(name.rstrip("/"))[1].lower()  # noqa: PTH122 (it may be a URL)
    is_path = "/" in name or suffix in (".parquet", ".pq", ".orc", *_TEXT) or name in (".", "..")
    if not is_path and not (is_there(spark, name) and not _is_in_catalog(spark, name)):
        return spark.table(name), False
    path = literal(spark, absolute(spark, name))
    if suffix in _TEXT:
        return _text(spark, path, _TEXT[suffix]), True
    if suffix == ".orc":
        return spark.read.orc(path), False
    folder = local_path(spark, name)
    if folder is not None and folder.is_dir():
        return _folder(spark, path, parquet_folder(folder)), False
    return spark.read.parquet(path), False


def _is_in_catalog(spark: SparkSession, name: str) -> bool:
    with suppress(Exception):
        return bool(spark.catalog.tableExists(name))
    return False


def _folder(spark: SparkSession, path: str, folder: ParquetFolder) -> DataFrame:
    """A folder of this machine, with the files that one process would read: all, or none."""
    if folder.keys:
        frame = spark.read.parquet(path)
    else:
        frame = spark.read.options(recursiveFileLookup=True, pathGlobFilter="*.{parquet,pq}").parquet(path)
    if len(frame.inputFiles()) != len(folder.files):
        raise InputError(
            "Spark does not read all files of the folder",
            "Give all of them the suffix .parquet, in one folder or below folders such as year=2024.",
        )
    return frame


def _text(spark: SparkSession, path: str, delimiter: str) -> DataFrame:
    """A text file, in which everything is text, and a line with a cell too many or too few is an error."""
    return spark.read.options(
        sep=delimiter,
        header=True,
        inferSchema=False,
        enforceSchema=False,
        quote='"',
        escape='"',
        multiLine=True,
        mode="FAILFAST",
        columnPruning=False,
        unescapedQuoteHandling="RAISE_ERROR",
        nullValue=secrets.token_hex(16),  # what Spark takes an empty cell for: none that is written so, and not ""
        maxCharsPerColumn=-1,
    ).csv(path)


@dataclass(frozen=True)
class SelectedColumns:
    """The columns to read, each under a name of its own, and the types in which Arrow gets them."""

    frame: DataFrame
    schema: pa.Schema  # under the real names, the sensitive column last
    names: dict[str, str]  # the real name of each column: ours

    @classmethod
    def of(cls, table: DataFrame, quasi_identifiers: Sequence[str], sensitive: str) -> SelectedColumns:
        """These columns of a table; an error if one holds what cannot be published."""
        selected = [*quasi_identifiers, sensitive]
        names = {name: f"q{place}" for place, name in enumerate(quasi_identifiers)} | {sensitive: SENSITIVE}
        kinds = {field.name: field.dataType for field in table.schema.fields}
        schema = pa.schema([(name, _arrow_type(name, kinds[name])) for name in selected])
        columns = []
        for name in selected:
            column = F.col(quoted(name))
            if isinstance(kinds[name], t.StringType):
                column = column.cast(t.StringType())  # by its bytes, whatever its collation or padding
            columns.append(column.alias(names[name]))
        return cls(table.select(*columns), schema, names)

    def with_fingerprints(self, *columns: Column) -> DataFrame:
        """Some columns, and the fingerprint of every row."""
        whole = [F.col(name) for name in self.names.values()]
        return self.frame.select(F.xxhash64(*whole, F.monotonically_increasing_id()).alias(FINGERPRINT), *columns)

    def column(self, name: str) -> Column:
        """A column by its real name."""
        return F.col(self.names[name]).alias(self.names[name])

    def is_whole(self, name: str) -> bool:
        """Whether the column is of a type that Spark itself can pack: whole numbers, dates and truth values."""
        return isinstance(self.frame.schema[self.names[name]].dataType, _WHOLE)

    def as_long(self, name: str) -> Column:
        """Such a column as whole numbers in the order of its values."""
        column = F.col(self.names[name])
        kind = self.frame.schema[self.names[name]].dataType
        if isinstance(kind, t.DateType):
            column = F.unix_date(column)
        return column.cast(t.LongType())


def quoted(name: str) -> str:
    """A column's name as Spark's SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def _arrow_type(name: str, kind: t.DataType) -> pa.DataType:
    if isinstance(kind, t.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    for spark, arrow in _TYPES.items():
        if isinstance(kind, spark):
            return arrow
    raise InputError(
        f"the column {name!r} has the type {kind.simpleString()[:60]}, which cannot be published as it is",
        "Turn it into text first, or leave it out.",
    )
