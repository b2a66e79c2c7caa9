"""Each table read once, from its first row to its last, in batches: what it takes does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dalenius.errors import InputError
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.verify.bucket_limits import SizesOfTable
from dalenius.verify.bucket_shares import Scan, Shares
from dalenius.verify.buckets import BucketStream, Integers, NotAscendingError, PresentRows
from dalenius.verify.findings import LIMITS, ORDER, SCHEMA, SIZES, STRATA, VALUES, Report, plural
from dalenius.verify.layout import UnusedEntries, check_layout, in_no_row
from dalenius.verify.parquet_bytes import check_coverage
from dalenius.verify.people_sizes import PlacesOfTable
from dalenius.verify.release_files import Watch
from dalenius.verify.row_order import OrderOfRows, integers
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes
from dalenius.verify.stated_groups import StatedGroups
from dalenius.verify.stated_tree import StrataOfRows, Tree
from dalenius.verify.strict_files import check_nulls, strict_batches

_FIRST_ROWS = 2**11

RESTS_ON: dict[TableName, tuple[str, ...]] = {
    "qit": (SIZES, STRATA, ORDER),
    "st": (SIZES, LIMITS, VALUES, ORDER),
    "groups": (SIZES, LIMITS, VALUES, ORDER),
    "together": (SIZES, VALUES, ORDER),
}


class _UnknownLayoutError(Exception):
    """The columns are not those of the manifest; the report says how."""


class _NullBucketsError(Exception):
    """Rows that belong to no bucket."""


@dataclass(frozen=True)
class Scanner:
    """Reads the tables of one release, `rows` rows at a time.

    `has_tree` if rows can be led through its tree; `groups` are those of its values, if they are a tree. The release
    may be that of one sensitive column out of several. `there` gives how many people some buckets have, by their
    numbers, where it is not as many as their sizes say.
    """

    release: ReleaseFolder
    watch: Watch
    rows: int
    has_tree: bool = False
    groups: StatedGroups | None = None
    is_one_of_several: bool = False
    present: PresentRows | None = None

    def quasi_identifiers(self) -> Scan:
        """QIT: layout, sizes, strata and order."""
        scan = Scan()
        strata: StrataOfRows | None = None
        sizes, order, stream = self._sizes("qit"), self.order("qit"), BucketStream()
        unused: dict[str, UnusedEntries] = {}
        with self.reading("qit", scan):
            for batch in self.batches("qit", scan.report):
                *others, bucket = batch.columns
                numbers = bucket_numbers(bucket)
                for whole in stream.add(numbers):
                    sizes.add(whole)
                strata = strata or self._strata(batch.schema)
                if strata is not None:
                    strata.add(batch, numbers)
                order.add([bucket, *others])
                for name, column in zip(batch.schema.names, others, strict=False):
                    if pa.types.is_dictionary(column.type) and not self.release.manifest.is_strict:
                        unused.setdefault(name, UnusedEntries(self.release.memory)).add(column)
            sizes.add(stream.finish())
            self.conclude("qit", sizes, order, scan)
            if strata is not None:
                strata.conclude(self.file("qit"), self.release.manifest.is_strict, scan.report)
            self._conclude_unused(unused, scan)
        return scan

    def sensitive_values(self, values: Sequence[str], limits: Sequence[Fraction] | None) -> Scan:
        """ST: layout, sizes, order, and every value of every bucket against its limit, if limits are given."""
        scan = Scan()
        sizes, order, stream = self._sizes("st"), self.order("st"), BucketStream()
        manifest = self.release.manifest
        codes = value_codes(manifest, values, self.release.memory)
        shares = Shares(self.release, values, limits, self.groups, self.is_one_of_several, self.present)
        with self.reading("st", scan):
            for batch in self.batches("st", scan.report):
                bucket, sensitive = batch.columns
                for whole in stream.add(bucket_numbers(bucket), codes.of(sensitive)):
                    sizes.add(whole)
                    shares.add(whole, len(codes.texts))
                order.add([bucket, sensitive])
            whole = stream.finish()
            sizes.add(whole)
            shares.add(whole, len(codes.texts))
            self.conclude("st", sizes, order, scan)
            self.conclude_values(codes, shares, scan)
        return scan

    @contextmanager
    def reading(self, table: TableName, scan: Scan) -> Iterator[None]:
        """Whatever keeps a table from being read to its end is a finding; what rests on it was then not checked."""
        file, report = self.file(table), scan.report
        try:
            yield
        except _UnknownLayoutError:
            why = f"{file} is not laid out as the manifest says"
        except NotAscendingError:
            why = f"the buckets of {file} are not in ascending order"
            report.fail(ORDER, why)
        except _NullBucketsError:
            why = f"the bucket column of {file} has nulls"
            report.fail(SCHEMA, why)
        except InputError as error:
            why = f"{file} cannot be read to its end"
            report.fail(SCHEMA, error.message)
        except (pa.ArrowException, UnicodeDecodeError, IndexError, ValueError):
            why = f"{file} cannot be read to its end"
            report.fail(SCHEMA, f"{file} is damaged, or not what the manifest says it is")
        else:
            scan.complete = True
            return
        apart = [STRATA] if table == "st" and self.release.manifest.apart is not None else []
        report.not_checked([*RESTS_ON[table], *apart], why)

    def order(self, table: TableName) -> OrderOfRows:
        """In strict files dictionaries are in order; text files have none."""
        return OrderOfRows(ranked=self.is_ranked(table))

    def is_ranked(self, table: TableName) -> bool:
        """Whether the dictionaries of a table's columns are in the order of their values."""
        return self.release.manifest.is_strict and not self.file(table).endswith(".csv")

    def batches(self, table: TableName, report: Report) -> Iterator[pa.RecordBatch]:
        """The rows of a table, once each file has shown to be laid out as a release is."""
        if self.release.manifest.is_strict:
            nulls = dict.fromkeys(self.release.schema(table).names, 0)
            for batch in strict_batches(self.release, table, nulls):
                yield batch
                self.watch.step(batch.num_rows)
            check_nulls(self.release, table, nulls, report)
        else:
            yield from self._lenient_batches(table, report)

    def _lenient_batches(self, table: TableName, report: Report) -> Iterator[pa.RecordBatch]:
        """By the rules of earlier formats, which let writers choose."""
        files = self.release.files(table)
        if not check_layout(self.release, table, files[0], report):
            raise _UnknownLayoutError
        rows = self._rows_at_a_time(table)
        for place, name in enumerate(files):
            if place and not check_layout(self.release, table, name, report):
                raise _UnknownLayoutError
            read = 0
            for batch in self.release.batches_of(table, name, rows=rows, coded=True):
                read += batch.num_rows
                if batch.num_rows:
                    yield batch
                self.watch.step(batch.num_rows)
            self._conclude_file(table, place, name, read, report)

    def _conclude_file(self, table: TableName, place: int, name: str, read: int, report: Report) -> None:
        parts = self.release.entry(table).parts
        if parts is not None and read != parts[place].rows:
            report.fail(SIZES, f"{name} has {plural(read, 'row')}, and the manifest says {parts[place].rows:,}")
        if name.endswith(".parquet"):
            check_coverage(self.release, name, report)

    def _rows_at_a_time(self, table: TableName) -> int:
        """Fewer where rows are long, judged by the first ones: texts have no limit."""
        batches = self.release.batches(table, rows=min(self.rows, _FIRST_ROWS), coded=True)
        try:
            first = next(batches, None)
        finally:
            batches.close()
        if first is None or not first.num_rows:
            return self.rows
        return max(1, min(self.rows, self.release.memory.batch * int(first.num_rows) // max(1, int(first.nbytes))))

    def conclude(self, table: TableName, sizes: SizesOfTable, order: OrderOfRows, scan: Scan) -> None:
        """Sizes and order, after the last row."""
        manifest = self.release.manifest
        sizes.conclude(self.file(table), manifest.rows if table == "qit" else manifest.slots, scan.report)
        self.conclude_order(table, order, scan)

    def conclude_order(self, table: TableName, order: OrderOfRows, scan: Scan) -> None:
        """Order alone."""
        if order.falls:
            rows = plural(order.falls, "row comes", "rows come")
            scan.report.fail(ORDER, f"in {self.file(table)} {rows} before the row above", order.falls)

    def conclude_values(self, codes: ValueCodes, shares: Shares, scan: Scan) -> None:
        """The values of ST, after the last row."""
        shares.conclude(codes.texts, scan)
        scan.counts = codes.counts
        scan.values_in_order = codes.in_order()
        scan.nulls = codes.nulls
        self._fail_unused("st", self.release.manifest.columns.sensitive.name, codes.unused, scan.report)

    def _conclude_unused(self, unused: dict[str, UnusedEntries], scan: Scan) -> None:
        for name, entries in unused.items():
            suspects = entries.suspects()
            if suspects is not None:
                batches = self.release.batches("qit", [name], rows=self.rows, coded=True)
                never = in_no_row(suspects, (batch.column(0) for batch in batches))
                self._fail_unused("qit", name, never, scan.report)

    def _fail_unused(self, table: TableName, column: str, count: int, report: Report) -> None:
        if count:
            spelled = f"{plural(count, 'value')} of {column!r}"
            report.fail(SCHEMA, f"{self.file(table)} spells out {spelled} that no row has", count)

    def _sizes(self, table: TableName) -> SizesOfTable:
        """Buckets are numbered stratum after stratum, and within a stratum by size."""
        manifest = self.release.manifest
        strata = manifest.strata.strata if manifest.strata is not None else None
        settings = [part.setting for part in strata] if strata is not None else [manifest.setting]
        setting = [(group.size, group.buckets) for groups in settings for group in groups]
        if table == "qit" and manifest.surplus:
            rows = [part.rows for part in strata] if strata is not None else [manifest.rows]
            parts = [(sum(group.buckets for group in own), n) for own, n in zip(settings, rows, strict=True)]
            return PlacesOfTable(setting, parts, self.present)
        return SizesOfTable(setting, manifest.adversary.fake_values if table == "st" else 0)

    def _strata(self, schema: pa.Schema) -> StrataOfRows | None:
        strata = self.release.manifest.strata
        if strata is None or not self.has_tree:
            return None
        tree = Tree.of(strata, dict(zip(schema.names, schema.types, strict=True)))
        return StrataOfRows(strata, tree, self.release.manifest.newest)

    def file(self, table: TableName) -> str:
        """The file of a table, or the folder of its parts."""
        return self.release.name(table)


def bucket_numbers(bucket: pa.Array) -> Integers:
    """The numbers of the buckets of some rows."""
    if bucket.null_count:
        raise _NullBucketsError
    return integers(bucket).view(np.int64)
