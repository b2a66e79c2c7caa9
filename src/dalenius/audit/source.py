"""Is the release made of this table? The quasi-identifiers, and apart from them the sensitive values, row by row.

With fake values ST has rows that are not the table's: so many in all as the manifest says, and none of the table's own
is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from dalenius.audit.report import SOURCE, Report, plural
from dalenius.audit.watch import Watch
from dalenius.engines.compare import Difference, SourceTable
from dalenius.release.folder import ReleaseFolder, TableName


def check_source(release: ReleaseFolder, source: SourceTable, tables: Sequence[TableName], watch: Watch) -> Report:
    """Both comparisons, as far as the release's tables can be read."""
    report = Report()
    columns = release.manifest.columns
    names = [column.name for column in columns.quasi_identifiers]
    if "qit" in tables and names:
        found = source.difference(_reader(release, "qit", names, watch))
        _add(found, "quasi-identifiers", release.name("qit"), report)
    if "st" in tables:
        values = _reader(release, "st", [columns.sensitive.name], watch)
        found = source.difference_of_values(values, release.manifest.null_value)
        fakes = release.manifest.adversary.fake_values * release.manifest.buckets
        _add(found, "sensitive values", release.name("st"), report, fakes)
    for table in ("qit", "st"):
        if table not in tables:
            report.not_checked([SOURCE], f"{release.name(table)} cannot be read")
    return report


def _add(found: Difference, what: str, file: str, report: Report, fakes: int = 0) -> None:
    """Whatever differs, apart from so many rows that the table has not."""
    surplus = found.extra - fakes
    if found.missing or surplus:
        beside = f" and {plural(fakes, 'fake value')}" if fakes else ""
        lacking = f", {-surplus:,} of the fake values are not there" if surplus < 0 else ""
        report.found(
            SOURCE,
            f"the {what} in {file} are not those of the table{beside}: {found.missing:,} rows are missing, "
            f"{max(0, surplus):,} are too many{lacking}",
            found.missing + abs(surplus),
        )


def _reader(release: ReleaseFolder, table: TableName, columns: list[str], watch: Watch) -> pa.RecordBatchReader:
    """The columns as a stream, categories as what they stand for."""
    kinds = {column: release.schema(table).field(column).type for column in columns}
    plain = {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in kinds.items()}
    schema = pa.schema(list(plain.items()))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in release.batches(table, columns):
            watch.step(batch.num_rows)
            yield batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
