"""The entries that Spark writes into every Parquet file: its version, and the columns once more.

They may say what the columns say, in Spark's own spelling, and nothing else: a column's comment would be there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa

_VERSION = b"org.apache.spark.version"
_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"
SPARK_KEYS = frozenset({_VERSION, _COLUMNS})

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


def says_no_more(keys: Mapping[bytes, bytes], schema: pa.Schema) -> bool:
    """Whether Spark's entries, if there are any, are what Spark writes for these columns."""
    version, columns = keys.get(_VERSION), keys.get(_COLUMNS)
    if version is not None and not _VERSIONS.fullmatch(version):
        return False
    return columns is None or columns in [_stated(schema, text) for text in _TEXT]


def _stated(schema: pa.Schema, text: str) -> bytes | None:
    """The columns as Spark states them, with its word for text; None if one has a type that Spark does not write."""
    fields = []
    for column in schema:
        kind = text if column.type == pa.string() else _type(column.type)
        if kind is None:
            return None
        fields.append({"name": column.name, "type": kind, "nullable": column.nullable, "metadata": {}})
    stated = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPED.sub(_in_capitals, stated).encode("utf-8", "surrogatepass")


def _in_capitals(escape: re.Match[str]) -> str:
    """Control characters as Spark's JSON writer spells them."""
    return f"\\u{escape[1][1:].upper()}" if len(escape[1]) > 1 else escape[0]


def _type(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _TYPES.get(kind)
