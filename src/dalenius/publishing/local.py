"""The engine that is this very process.

The tables of a release, in a folder beside its target until they are published.

A table that is read twice: once to find out what it holds, and once more to place its records.

Where strata are found or counted in between, all records stay in memory from that reading on if there is room for
them, and no further one is needed. Whether there is room changes nothing but the time that it takes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model.progress import Progress, Silent
from dalenius.place.budget import Budget, in_parallel
from dalenius.place.cutting import Cutter, StratumValues, count_strata
from dalenius.place.domains import codes_of
from dalenius.place.packed import PackedRecords, Pieces
from dalenius.place.slots import values_by_bucket
from dalenius.place.stream import CodedRecords, Records, place_coded_records, place_records, read_records
from dalenius.place.survey import Sample, Survey, first_row_bytes, survey
from dalenius.place.wide import WideRecords
from dalenius.publishing.engine import Integers, Job, Numbers, Sampled, SampleWish, TableSpec, Wanted
from dalenius.release.atomic import writable
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import FILE, Manifest, read_manifest
from dalenius.release.staging import Staging, staging
from dalenius.release.two_tables import TableFile
from dalenius.release.writer import FORMATS, Format, PartsWriter, TableWriter
from dalenius.tables.arrays import arrow_array, plain_arrow_errors
from dalenius.tables.arrow import Source
from dalenius.tables.sources import open_source


@dataclass(frozen=True)
class LocalCounted:
    """The counts, and the records themselves where they are kept."""

    totals: Integers
    kept: CodedRecords | None = None

    def renumbered(self, table: Numbers) -> LocalCounted:
        """Strata merged, by a table of old numbers."""
        totals = np.zeros(int(table.max()) + 1, dtype=np.int64)
        np.add.at(totals, table, self.totals.ravel())
        kept = self.kept.renumber(table) if self.kept is not None else None
        return LocalCounted(totals.reshape(-1, self.totals.shape[1]), kept)


@dataclass(frozen=True)
class LocalPlaced:
    """Records that are placed, and the threads that sort them while they are written."""

    records: Records
    workers: Executor


class LocalTable:
    """A source that is open. `scratch` says where records may go that do not fit into memory."""

    def __init__(self, source: Source, budget: Budget, workers: Executor, scratch: Callable[[], Path | None]) -> None:
        self._source, self._budget, self._workers, self._scratch = source, budget, workers, scratch
        self._progress: Progress = Silent()
        self._wish: SampleWish | None = None
        self._sample: Sample | None = None
        self._kept: CodedRecords | None = None

    @property
    def names(self) -> Sequence[str]:
        """All columns."""
        return self._source.names

    def survey(self, wanted: Wanted, progress: Progress) -> Survey:
        """Read the table for the first time, and draw the sample on the way unless all records will be in memory."""
        source, budget = self._source, self._budget
        self._progress = progress
        if wanted.sample is not None:
            row_bytes = first_row_bytes(source, [*wanted.quasi_identifiers, wanted.sensitive])
            rows = max(1, min(wanted.sample.rows, wanted.sample.bytes // max(1, row_bytes)))
            self._wish = SampleWish(wanted.sample.key, rows, wanted.sample.bytes)
            fits = source.rows is not None and budget.copy_fits(source.rows)
            self._sample = Sample(self._wish.key, rows) if not fits else None
        return survey(
            source,
            wanted.sensitive,
            wanted.quasi_identifiers,
            wanted.null_value,
            budget,
            progress.advance,
            self._sample,
        )

    def sampled(self, found: Survey) -> Sampled:
        """From memory, from the first reading, or from a new one, if the records could not be kept after all."""
        wish = self._wish
        if wish is None:
            raise SelfCheckError("a sample was not wished for before the table was read")
        self._keep_if_it_fits(found, self._progress)
        if self._kept is not None:
            self._sample = None
            return Sampled(*self._kept.sample(wish.key, wish.rows))
        sample, self._sample = self._sample, None
        if sample is None:
            sample = Sample(wish.key, wish.rows)
            for batch in self._source.batches(found.schema.names, found.batch_rows):
                sample.add(batch)
        columns = found.sample_columns(sample)
        values = np.concatenate([found.sensitive.encode(one) for one in columns[found.sensitive.name]])
        known = {name: domain for name, domain in found.domains.items() if domain is not None}
        codes = {name: np.concatenate([codes_of(d, one) for one in columns[name]]) for name, d in known.items()}
        return Sampled(values, codes)

    def count(self, found: Survey, cutter: Cutter | None, progress: Progress) -> LocalCounted:
        """Count in memory, or in a further reading; without strata the first one has counted already."""
        if cutter is None:
            return LocalCounted(np.asarray([found.sensitive.counts], dtype=np.int64), self._kept)
        self._keep_if_it_fits(found, progress)
        kept, self._kept = self._kept, None  # its numbers are made anew, and the old ones not kept beside them
        if kept is not None:
            return LocalCounted(*kept.cut(cutter, len(found.sensitive.counts), self._workers))
        virtual = StratumValues(found.sensitive, cutter)
        return LocalCounted(
            count_strata(self._source, found.schema, virtual, self._workers, found.batch_rows, progress.advance)
        )

    @contextmanager
    def place(self, job: Job, progress: Progress) -> Iterator[LocalPlaced]:
        """Place all records, from memory or in a further reading."""
        found, counted = job.survey, job.counted
        counts = [sum(row) for part in job.parts for row in part.quotas]
        progress.stage("Placing", found.rows)
        with writable():
            records = self._records(job)
            try:
                kept = counted.kept if isinstance(counted, LocalCounted) else None
                if kept is not None and isinstance(records, PackedRecords):
                    place_coded_records(kept, job.placement, counts, records, self._workers, progress.advance)
                else:
                    schema = pa.schema([found.schema.field(name) for name in found.domains])
                    numbers = StratumValues(found.sensitive, job.cutter)
                    place_records(
                        self._source,
                        schema,
                        numbers,
                        counts,
                        job.placement,
                        records,
                        self._workers,
                        found.batch_rows,
                        progress.advance,
                    )
                yield LocalPlaced(records, self._workers)
            finally:
                records.close()

    def _keep_if_it_fits(self, found: Survey, progress: Progress) -> None:
        layout = found.layout() if self._kept is None and self._budget.copy_fits(found.rows) else None
        if layout is not None:
            fields = list(found.schema)
            self._kept = read_records(
                self._source, fields, found.sensitive, layout, self._workers, found.batch_rows, progress.advance
            )

    def _records(self, job: Job) -> Records:
        """Where records are kept until they are written."""
        groups, found, scratch = job.groups, job.survey, self._scratch()
        if scratch is None:
            raise SelfCheckError("records are placed, and there is no output for them")
        layout = found.layout(sum(group.buckets for group in groups))
        if layout is not None:
            pieces = Pieces.of(groups, self._budget.piece_rows(groups))
            return PackedRecords(layout, pieces, None if self._budget.keys_fit(found.rows) else scratch)
        schema = pa.schema([*(found.schema.field(name) for name in found.domains), ("bucket", pa.int64())])
        pieces = Pieces.of(groups, self._budget.piece_rows(groups, 6 * found.row_bytes + 40))
        return WideRecords(schema, found.domains, pieces, scratch)


_PART_ROWS = 2**20


class LocalOutput:
    """A staging folder and its target. `disk` is a thread that brings files to the disk while others go on."""

    def __init__(self, stage: Staging, target: Path, force: bool, budget: Budget, form: Format, disk: Executor) -> None:
        self._stage, self._target, self._force = stage, target, force
        self._budget, self._form, self._disk = budget, form, disk
        self._written: Manifest | None = None

    def write(
        self, job: Job, placed: LocalPlaced, qit: TableSpec, st: TableSpec, progress: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT piece by piece, each sorted by another thread; ST, which needs no record, at the same time."""
        progress.stage("Writing", job.survey.rows)
        with writable():
            self._written = None
            records, workers = placed.records, placed.workers
            to_qit, to_st = self._writer("qit", qit), self._writer("st", st)
            writing_st = workers.submit(self._write_st, job, to_st)
            try:
                for columns in in_parallel(records.piece, records.pieces(), workers):
                    to_qit.write(columns)
                    progress.advance(len(columns[-1]))
                return to_qit.finish(), writing_st.result()
            finally:
                to_qit.close()
                writing_st.cancel()

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """The staging folder as a release, manifest and all. Its files go to the disk from now on."""
        with writable():
            with (self._stage.folder / FILE).open("w", encoding="utf-8", newline="\n") as file:
                file.write(manifest.to_json())
            self._written = manifest
            self._stage.sync(self._disk)
            return ReleaseFolder(self._stage.folder, read_manifest(self._stage.folder))

    def commit(self, manifest: Manifest) -> ReleaseFolder:
        """In one step: the folder takes the place of the target."""
        if self._written != manifest:
            self.read_back(manifest)
        with writable():
            self._stage.commit(self._force)
        return ReleaseFolder(self._target, manifest)

    def _writer(self, table: TableName, spec: TableSpec) -> TableWriter | PartsWriter:
        """Into files that do not depend on the memory that there is."""
        if self._form != "parts":
            path = self._stage.folder / f"{table}.{self._form}"
            return TableWriter(path, spec.schema, self._form, spec.group, spec.short)
        folder = self._stage.folder / table
        shutil.rmtree(folder, ignore_errors=True)  # of a `write` before
        rows = max(_PART_ROWS // spec.group, 1) * spec.group
        return PartsWriter(folder, spec.schema, spec.group, rows, spec.short)

    def _write_st(self, job: Job, st: TableWriter | PartsWriter) -> TableFile:
        """ST follows from the quotas alone: no record is looked at."""
        rows = self._budget.piece_rows(job.groups)
        try:
            for buckets, values in values_by_bucket(job.parts, rows):
                st.write([arrow_array(buckets), job.survey.sensitive.decode(values)])
            return st.finish()
        finally:
            st.close()


class LocalEngine:
    """Reads, places and writes within a budget of memory. What does not fit into it goes to the disk of the output."""

    def __init__(self, budget: Budget, format: Format) -> None:  # noqa: A002 (what everybody calls it)
        self._budget, self._format = budget, format
        self._scratch: Path | None = None

    @property
    def formats(self) -> Sequence[str]:
        """How tables can be written, the usual way first."""
        return FORMATS

    @contextmanager
    def open(self, table: Any, name: str | None) -> Iterator[LocalTable]:
        """A path (CSV, TSV, Parquet, DuckDB), a DataFrame, an Arrow table or a DuckDB relation."""
        with (
            plain_arrow_errors(),
            open_source(table, name, self._budget.engine) as source,
            ThreadPoolExecutor(_cores()) as workers,
        ):
            yield LocalTable(source, self._budget, workers, lambda: self._scratch)

    @contextmanager
    def output(self, out: str, force: bool) -> Iterator[LocalOutput]:
        """A staging folder beside the target, which has room for scratch files as well."""
        with staging(Path(out), force) as stage, ThreadPoolExecutor(1) as disk:
            self._scratch = stage.folder
            try:
                yield LocalOutput(stage, Path(out), force, self._budget, self._format, disk)
            finally:
                self._scratch = None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
