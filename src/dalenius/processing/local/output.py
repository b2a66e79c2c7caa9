"""The tables of a release, in a folder beside its target until they are published."""

from __future__ import annotations

import shutil
from concurrent.futures import Executor
from pathlib import Path

from dalenius.engines.arrays import arrow_array
from dalenius.model.progress import Progress
from dalenius.place.budget import Budget
from dalenius.place.in_parallel import in_parallel
from dalenius.place.slots import values_by_bucket
from dalenius.processing.engine import Job, TableSpec
from dalenius.processing.local.table import LocalPlaced
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import FILE, Manifest, read_manifest
from dalenius.release.staging import Staging, writable
from dalenius.release.tables import TableFile
from dalenius.release.write import Format, PartsWriter, TableWriter

_PART_ROWS = 2**20


class LocalOutput:
    """A staging folder and its target. `disk` is a thread that brings files to the disk while others go on."""

    def __init__(self, stage: Staging, target: Path, force: bool, budget: Budget, form: Format, disk: Executor) -> None:
        self._stage, self._target, self._force = stage, target, force
        self._budget, self._form, self._disk = budget, form, disk
        self._written: Manifest | None = None

    def write(
        self, job: Job, placed: LocalPlaced, qit: TableSpec, st: TableSpec, told: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT piece by piece, each sorted by another thread; ST, which needs no record, at the same time."""
        told.stage("Writing", job.survey.rows)
        with writable():
            self._written = None
            records, workers = placed.records, placed.workers
            to_qit, to_st = self._writer("qit", qit), self._writer("st", st)
            writing_st = workers.submit(self._write_st, job, to_st)
            try:
                for columns in in_parallel(records.piece, records.pieces(), workers):
                    to_qit.write(columns)
                    told.advance(len(columns[-1]))
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
