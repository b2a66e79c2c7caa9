"""The tables' columns and types, and that nothing else travels with them."""

from __future__ import annotations

import base64
import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dalenius.audit.report import SCHEMA, Report
from dalenius.errors import ReleaseError
from dalenius.release.folder import ReleaseFolder, TableName

_ARROW_SCHEMA = b"ARROW:schema"
_LONGEST_HEADER = 2**24
_MAGIC = b"PAR1"


def check_layout(release: ReleaseFolder, table: TableName, report: Report) -> bool:
    """Whether the rows can be read as what the manifest says they are; what is wrong goes into the report."""
    path = release.file(table)
    try:
        wanted = release.schema(table)
    except ReleaseError as error:
        report.found(SCHEMA, error.message)
        return False
    if len(set(wanted.names)) < len(wanted.names):
        report.not_checked([SCHEMA], "the manifest names a column more than once")
        return False
    try:
        if path.suffix == ".csv":
            return _check_header(path, wanted, report)
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_metadata(path.name, file, report)
            return _check_columns(path.name, file.schema_arrow, wanted, report)
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        report.found(SCHEMA, f"{path.name} is damaged, or not a {path.suffix[1:]} file")
        return False


def _check_header(path: Path, wanted: pa.Schema, report: Report) -> bool:
    """A text file has no types; that its cells can be read as the manifest's types is seen while reading."""
    with path.open(encoding="utf-8", newline="") as file:
        names = next(csv.reader(iter(lambda: file.readline(_LONGEST_HEADER), ""), strict=True), [])
    if names == wanted.names:
        return True
    report.found(SCHEMA, f"the columns of {path.name} are not the manifest's, or not in its order")
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


def check_coverage(path: Path, report: Report) -> None:
    """A Parquet file has its columns one after the other, from the first byte to the footer, and nothing else.

    And its row groups say nothing themselves, being all of one size. To be called once the file has been read to its
    end: pyarrow ends the program when asked about a damaged footer.
    """
    metadata = pyarrow.parquet.read_metadata(path)
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if len(set(rows[:-1])) > 1 or (len(rows) > 1 and not 0 < rows[-1] <= rows[0]):
        report.found(SCHEMA, f"the row groups of {path.name} are not all of one size")
    reached = len(_MAGIC)
    for group in groups:
        for place in range(group.num_columns):
            column = group.column(place)
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            if start != reached:
                report.found(SCHEMA, f"{path.name} has bytes that belong to no column")
                return
            reached += column.total_compressed_size
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(size - 8)
        footer = int.from_bytes(file.read(4), "little")
    if reached + footer + 8 != size:
        report.found(SCHEMA, f"{path.name} has bytes that belong to no column")


def _check_metadata(name: str, file: pyarrow.parquet.ParquetFile, report: Report) -> None:
    """Metadata of the source (comments, pandas' index, statistics of tools) is data that nobody meant to publish."""
    keys = dict(file.metadata.metadata or {})
    stored = keys.pop(_ARROW_SCHEMA, None)
    if keys:
        report.found(SCHEMA, f"{name} has {len(keys)} entries of metadata that no release has", len(keys))
    if stored is not None:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored, validate=True)))
        carriers = [schema, *schema]
        found = sum(1 for carrier in carriers if carrier.metadata)
        if found:
            report.found(SCHEMA, f"the schema stored in {name} carries metadata in {found} places", found)
        elif schema.names != file.schema_arrow.names or base64.b64encode(schema.serialize()) != stored:
            report.found(SCHEMA, f"the schema stored in {name} says more than its columns")
