"""The layout of the tables: columns and types are the manifest's, and nothing else travels in the files.

Three things could travel with the columns:

- Entries of metadata. A release has Arrow's own description of the columns. Files that Spark wrote have two entries of
  Spark's instead, its version and the columns once more: these may say what the columns say, in Spark's own spelling,
  and nothing else, since a column's comment would be there.
- Bytes that nobody reads (`parquet_bytes`).
- Values that a file spells out though no row has them. Parquet keeps text in dictionaries. A writer that is given
  categories writes all of them, including those of records that were taken out before publishing: readers do not show
  them, and anybody who looks into the file sees them (`UnusedEntries`).
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dalenius.errors import ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.verify.findings import SCHEMA, Report
from dalenius.verify.parquet_bytes import read_footer
from dalenius.verify.row_order import as_arrow, integers

_ARROW_SCHEMA = b"ARROW:schema"
_LONGEST_HEADER = 2**24

_VERSION = b"org.apache.spark.version"
_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_KEYS = frozenset({_VERSION, _COLUMNS})

_VERSIONS = re.compile(rb"[0-9]{1,3}(\.[0-9]{1,5}){1,3}([.-][0-9A-Za-z][0-9A-Za-z.-]{0,30})?")
_TYPES = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_TEXT = ("string", "string collate UTF8_BINARY")  # the second through Spark Connect
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)")


def check_layout(release: ReleaseFolder, table: TableName, name: str, report: Report) -> bool:
    """Whether the rows of a file can be read as what the manifest says; what is wrong goes into the report."""
    try:
        stated = release.schema(table)
    except ReleaseError as error:
        report.fail(SCHEMA, error.message)
        return False
    if len(set(stated.names)) < len(stated.names):
        report.not_checked([SCHEMA], "the manifest names a column more than once")
        return False
    try:
        if name.endswith(".csv"):
            return _check_header(release, name, stated, report)
        release.admit(table, name)
        with release.store.open(name) as binary:
            entries = read_footer(binary).entries
        with release.open_file(table, name) as source, pyarrow.parquet.ParquetFile(source) as file:
            _check_metadata(name, file, entries, report)
            return _check_columns(name, file.schema_arrow, stated, report)
    except ReleaseError as error:
        report.fail(SCHEMA, error.message)
        return False
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        report.fail(SCHEMA, f"{name} is damaged, or not a {name.rpartition('.')[2]} file")
        return False


def _check_header(release: ReleaseFolder, name: str, stated: pa.Schema, report: Report) -> bool:
    """A text file has no types; that its cells can be read as the manifest's types is seen while reading."""
    with release.store.open(name) as binary, io.TextIOWrapper(binary, encoding="utf-8", newline="") as file:
        names = next(csv.reader(iter(lambda: file.readline(_LONGEST_HEADER), ""), strict=True), [])
    if names == stated.names:
        return True
    report.fail(SCHEMA, f"the columns of {name} are not the manifest's, or not in its order")
    return False


def _check_columns(name: str, schema: pa.Schema, stated: pa.Schema, report: Report) -> bool:
    if schema.names != stated.names:
        report.fail(SCHEMA, f"the columns of {name} are not the manifest's, or not in its order")
        return False
    differing = [
        column for column, data_type in zip(stated.names, stated.types, strict=True)
        if _plain(schema.field(column).type) != _plain(data_type)
    ]  # fmt: skip
    if differing:
        first = differing[0]
        report.fail(
            SCHEMA,
            f"{name} has {len(differing)} columns of another type than the manifest says; the first: {first!r} is "
            f"{schema.field(first).type}, not {stated.field(first).type}",
            len(differing),
        )
    return not differing


def _plain(data_type: pa.DataType) -> pa.DataType:
    """A type without the layout of categories, which Parquet files do not keep."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _check_metadata(name: str, file: pyarrow.parquet.ParquetFile, entries: int, report: Report) -> None:
    """Metadata of the source (comments, pandas' index, statistics of tools) is data that nobody meant to publish.

    Arrow shows one of the `entries` for each key.
    """
    keys = dict(file.metadata.metadata or {})
    others = entries - len(keys.keys() & {_ARROW_SCHEMA, *_SPARK_KEYS})
    stored = keys.pop(_ARROW_SCHEMA, None)
    if others:
        report.fail(SCHEMA, f"{name} has {others} entries of metadata that no release has", others)
    if stored is not None:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored, validate=True)))
        carriers = [schema, *schema]
        places = sum(1 for carrier in carriers if carrier.metadata)
        if places:
            report.fail(SCHEMA, f"the schema stored in {name} carries metadata in {places} places", places)
        elif schema.names != file.schema_arrow.names or base64.b64encode(schema.serialize()) != stored:
            report.fail(SCHEMA, f"the schema stored in {name} says more than its columns")
    if not _says_no_more(keys, file.schema_arrow):
        report.fail(SCHEMA, f"what Spark stored in {name} says more than its columns")


def _says_no_more(keys: Mapping[bytes, bytes], schema: pa.Schema) -> bool:
    """Whether Spark's entries, if there are any, are what Spark writes for these columns."""
    version, columns = keys.get(_VERSION), keys.get(_COLUMNS)
    if version is not None and not _VERSIONS.fullmatch(version):
        return False
    return columns is None or columns in [_spark_columns(schema, text) for text in _TEXT]


def _spark_columns(schema: pa.Schema, text: str) -> bytes | None:
    """The columns as Spark states them, with its word for text; None if one has a type that Spark does not write."""
    fields = []
    for column in schema:
        data_type = text if column.type == pa.string() else _spark_type(column.type)
        if data_type is None:
            return None
        fields.append({"name": column.name, "type": data_type, "nullable": column.nullable, "metadata": {}})
    columns = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPED.sub(_in_capitals, columns).encode("utf-8", "surrogatepass")


def _in_capitals(escape: re.Match[str]) -> str:
    """Control characters as Spark's JSON writer spells them."""
    return f"\\u{escape[1][1:].upper()}" if len(escape[1]) > 1 else escape[0]


def _spark_type(data_type: pa.DataType) -> str | None:
    if pa.types.is_decimal128(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    return _TYPES.get(data_type)


class UnusedEntries:
    """Watches the dictionaries of one column, batch by batch."""

    def __init__(self, memory: ReadingMemory) -> None:
        self._memory = memory
        self._entries: pa.Array | None = None
        self._used: npt.NDArray[np.bool_] = np.empty(0, bool)
        self._suspects: list[pa.Array] = []

    def add(self, column: pa.DictionaryArray) -> None:
        """The next batch of the column."""
        entries = column.dictionary
        if self._entries is None or not entries.slice(0, len(self._entries)).equals(self._entries):
            self._close()
            self._used = np.zeros(0, bool)
        # Within a row group the reader only appends: to the file's dictionary, texts that stand outside of it.
        self._entries = entries
        self._used = np.append(self._used, np.zeros(len(entries) - len(self._used), bool))
        self._used[integers(column.indices.drop_null())] = True

    def suspects(self) -> pa.Array | None:
        """Entries that no row has where they are spelled out; one further on may."""
        self._close()
        self._entries = None
        return pc.unique(pa.concat_arrays(self._suspects)) if self._suspects else None

    def _close(self) -> None:
        if self._entries is not None and not self._used.all():
            self._suspects.append(self._entries.take(as_arrow(np.flatnonzero(~self._used))).drop_null())
            held = sum(int(entries.nbytes) for entries in self._suspects)
            self._memory.require(2 * held, self._memory.state, "what dictionaries spell out and no row has")


def in_no_row(suspects: pa.Array, columns: Iterable[pa.Array]) -> int:
    """How many of the suspects none of the batches of the column has."""
    for column in columns:
        coded = pa.types.is_dictionary(column.type)
        used = column.dictionary.take(pc.unique(column.indices)) if coded else pc.unique(column)
        suspects = suspects.filter(pc.invert(pc.is_in(suspects, value_set=used.cast(suspects.type))))
        if not len(suspects):
            break
    return len(suspects)
