"""The output of the local engine: both tables in a staging folder, which takes the place of the target at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dalenius.model.progress import Progress
from dalenius.place.budget import Budget, in_parallel
from dalenius.place.packed import PackedRecords
from dalenius.place.slots import values_by_bucket
from dalenius.place.stream import Records
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.engine import TableSpec
from dalenius.publishing.people_tables import PeopleTables
from dalenius.release.atomic import writable, write_file
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import FILE, SIGNATURE_FILE, Manifest, read_manifest
from dalenius.release.staging import Staging
from dalenius.release.two_tables import TableFile
from dalenius.release.writer import Format, PartsWriter, TableWriter
from dalenius.tables.arrays import arrow_array

Writer = TableWriter | PartsWriter

_PART_ROWS = 2**20
_NAMES: tuple[TableName, TableName] = ("qit", "st")


@dataclass(frozen=True)
class PlacedRecords:
    """Records that are placed, and the threads that sort them while they are written."""

    records: Records
    workers: Executor
    numbers: Records | None = None  # sensitive values that count by bands ...
    carried: bool = False  # ... or each is the last column of its record

    def columns_in_order(self, advance: Callable[[int], None]) -> Iterator[list[pa.Array]]:
        """QIT piece by piece, each sorted by another thread."""
        for columns in in_parallel(self.records.piece, self.records.pieces(), self.workers):
            yield columns
            advance(len(columns[-1]))


class LocalOutput:
    """A staging folder and its target. `disk` is a thread that brings files to the disk while others go on."""

    def __init__(
        self, stage: Staging, target: Path, force: bool, budget: Budget, format: Format, disk: Executor
    ) -> None:
        self._stage, self._target, self._force = stage, target, force
        self._budget, self._format, self._disk = budget, format, disk
        self._written: Manifest | None = None

    @property
    def scratch(self) -> Path:
        """A folder for files that are gone at the end."""
        return self._stage.folder

    def write(
        self, arrangement: Arrangement, placed: PlacedRecords, qit: TableSpec, st: TableSpec, progress: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT piece by piece, each sorted by another thread; ST, which needs no record, at the same time."""
        progress.stage("Writing", arrangement.survey.rows)
        with writable():
            self._written = None
            records, workers = placed.records, placed.workers
            to_qit, to_st = self._writer("qit", qit), self._writer("st", st)
            if placed.carried and isinstance(records, PackedRecords):
                return _write_both(records, workers, to_qit, to_st, progress)
            if placed.numbers is not None:
                writing_st = workers.submit(self._write_numbers, placed.numbers, to_st)
            else:
                writing_st = workers.submit(self._write_st, arrangement, to_st)
            try:
                for columns in placed.columns_in_order(progress.advance):
                    to_qit.write(columns)
                return to_qit.finish(), writing_st.result()
            finally:
                to_qit.close()
                writing_st.cancel()

    def write_columns(
        self, qit: Iterable[list[pa.Array]], st: Iterable[list[pa.Array]], specs: tuple[TableSpec, TableSpec]
    ) -> tuple[TableFile, TableFile]:
        """Both tables of columns that are in order already."""
        written = []
        with writable():
            self._written = None
            for name, columns, spec in zip(_NAMES, (qit, st), specs, strict=True):
                writer = self._writer(name, spec)
                try:
                    for some in columns:
                        writer.write(some)
                    written.append(writer.finish())
                finally:
                    writer.close()
        of_qit, of_st = written
        return of_qit, of_st

    def write_people(self, tables: PeopleTables, progress: Progress) -> Manifest:
        """The tables of a release by people, and the manifest that describes them."""
        progress.stage("Writing")
        with writable():
            self._written = None
            return tables.write(self._stage.folder)

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """The staging folder as a release, manifest and all. Its files go to the disk from now on."""
        with writable():
            with (self._stage.folder / FILE).open("w", encoding="utf-8", newline="\n") as file:
                file.write(manifest.to_json())
            self._written = manifest
            self._stage.sync(self._disk)
            return ReleaseFolder(self._stage.folder, read_manifest(self._stage.folder))

    def commit(self, manifest: Manifest, signature: bytes | None = None) -> ReleaseFolder:
        """In one step: the folder takes the place of the target."""
        if self._written != manifest:
            self.read_back(manifest)
        with writable():
            if signature is not None:
                write_file(self._stage.folder / SIGNATURE_FILE, signature)
            self._stage.commit(self._force)
        return ReleaseFolder(self._target, manifest)

    def _writer(self, table: TableName, spec: TableSpec) -> Writer:
        """Into files that do not depend on the memory that there is."""
        if self._format != "parts":
            path = self._stage.folder / f"{table}.{self._format}"
            return TableWriter(path, spec.schema, self._format, spec.group, spec.bucket)
        folder = self._stage.folder / table
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier `write`
        rows = max(_PART_ROWS // spec.group, 1) * spec.group
        return PartsWriter(folder, spec.schema, spec.group, rows, spec.bucket)

    def _write_st(self, arrangement: Arrangement, st: Writer) -> TableFile:
        """ST follows from the quotas alone: no record is looked at."""
        rows, sensitive = self._budget.piece_rows(arrangement.groups), arrangement.survey.sensitive
        try:
            for buckets, values in values_by_bucket(arrangement.partitions, rows, sensitive.published):
                st.write([arrow_array(buckets), sensitive.decode(values)])
            return st.finish()
        finally:
            st.close()

    def _write_numbers(self, numbers: Records, st: Writer) -> TableFile:
        """Each bucket's numbers in ascending order, which has nothing to do with the order of its records."""
        try:
            for piece in numbers.pieces():
                values, buckets = numbers.piece(piece)
                st.write([buckets, values])
            return st.finish()
        finally:
            st.close()


def _write_both(
    records: PackedRecords, workers: Executor, qit: Writer, st: Writer, progress: Progress
) -> tuple[TableFile, TableFile]:
    """QIT and ST piece by piece, where each record carries its number; each is written by a thread of its own."""
    with ThreadPoolExecutor(1) as writing:
        pending: Future[None] | None = None
        try:
            for of_qit, of_st in in_parallel(records.piece_with_numbers, records.pieces(), workers):
                if pending is not None:
                    pending.result()
                pending = writing.submit(st.write, of_st)
                qit.write(of_qit)
                progress.advance(len(of_qit[-1]))
            if pending is not None:
                pending.result()
            return qit.finish(), st.finish()
        finally:
            writing.shutdown()
            qit.close()
            st.close()
