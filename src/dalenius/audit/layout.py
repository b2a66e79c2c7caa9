"""The tables' columns and types, and that nothing else travels with them."""

from __future__ import annotations

import base64
import csv
import io

import pyarrow as pa
import pyarrow.parquet

from dalenius.audit.coverage import read_footer
from dalenius.audit.report import SCHEMA, Report
from dalenius.audit.spark_metadata import SPARK_KEYS, says_no_more
from dalenius.errors import ReleaseError
from dalenius.release.folder import ReleaseFolder, TableName

_ARROW_SCHEMA = b"ARROW:schema"
_LONGEST_HEADER = 2**24


def check_layout(release: ReleaseFolder, table: TableName, name: str, report: Report) -> bool:
    """Whether the rows of a file can be read as what the manifest says; what is wrong goes into the report."""
    try:
        wanted = release.schema(table)
    except ReleaseError as error:
        report.found(SCHEMA, error.message)
        return False
    if len(set(wanted.names)) < len(wanted.names):
        report.not_checked([SCHEMA], "the manifest names a column more than once")
        return False
    try:
        if name.endswith(".csv"):
            return _check_header(release, name, wanted, report)
        with release.store.open(name) as binary:  # first, since Arrow ends the program on some damaged footers
            entries = read_footer(binary).entries
        with release.opened(name) as source, pyarrow.parquet.ParquetFile(source) as file:
            _check_metadata(name, file, entries, report)
            return _check_columns(name, file.schema_arrow, wanted, report)
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        report.found(SCHEMA, f"{name} is damaged, or not a {name.rpartition('.')[2]} file")
        return False


def _check_header(release: ReleaseFolder, name: str, wanted: pa.Schema, report: Report) -> bool:
    """A text file has no types; that its cells can be read as the manifest's types is seen while reading."""
    with release.store.open(name) as binary, io.TextIOWrapper(binary, encoding="utf-8", newline="") as file:
        names = next(csv.reader(iter(lambda: file.readline(_LONGEST_HEADER), ""), strict=True), [])
    if names == wanted.names:
        return True
    report.found(SCHEMA, f"the columns of {name} are not the manifest's, or not in its order")
    return False


def _check_columns(name: str, found: pa.Schema, wanted: pa.Schema, report: Report) -> bool:
    if found.names != wanted.names:
        report.found(SCHEMA, f"the columns of {name} are not the manifest's, or not in its order")
        return False
    differing = [
        column for column, kind in zip(wanted.names, wanted.types, strict=True)
        if _plain(found.field(column).type) != _plain(kind)
    ]  # fmt: skip
    if differing:
        first = differing[0]
        report.found(
            SCHEMA,
            f"{name} has {len(differing)} columns of another type than the manifest says; the first: {first!r} is "
            f"{found.field(first).type}, not {wanted.field(first).type}",
            len(differing),
        )
    return not differing


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without the layout of categories, which Parquet files do not keep."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _check_metadata(name: str, file: pyarrow.parquet.ParquetFile, entries: int, report: Report) -> None:
    """Metadata of the source (comments, pandas' index, statistics of tools) is data that nobody meant to publish.

    Arrow shows one of the `entries` for each key.
    """
    keys = dict(file.metadata.metadata or {})
    others = entries - len(keys.keys() & {_ARROW_SCHEMA, *SPARK_KEYS})
    stored = keys.pop(_ARROW_SCHEMA, None)
    if others:
        report.found(SCHEMA, f"{name} has {others} entries of metadata that no release has", others)
    if stored is not None:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored, validate=True)))
        carriers = [schema, *schema]
        found = sum(1 for carrier in carriers if carrier.metadata)
        if found:
            report.found(SCHEMA, f"the schema stored in {name} carries metadata in {found} places", found)
        elif schema.names != file.schema_arrow.names or base64.b64encode(schema.serialize()) != stored:
            report.found(SCHEMA, f"the schema stored in {name} says more than its columns")
    if not says_no_more(keys, file.schema_arrow):
        report.found(SCHEMA, f"what Spark stored in {name} says more than its columns")
