"""Where a release goes. No file system is trusted to rename a folder in one step, so none has to.

The tables are written into folders with names of their own beside whatever is there, read back and verified. The
manifest comes last, in one step: it alone makes a release of them, and a reader refuses a folder without one. What it
replaced is removed after that. A run that ends early removes what it wrote, and one that is killed leaves folders that
no manifest names, which the next run with `force` removes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from dalenius.errors import OutputError, UsageError
from dalenius.model.progress import Progress, Silent
from dalenius.model.setting import SizeGroup
from dalenius.place.pieces import Pieces
from dalenius.processing.engine import Job, TableSpec
from dalenius.processing.spark.failures import plain_errors
from dalenius.processing.spark.fetching import SparkStore
from dalenius.processing.spark.files import Files, files_at
from dalenius.processing.spark.frames import spark_schema
from dalenius.processing.spark.placing import SortTask, ValuesTask
from dalenius.processing.spark.replacing import MANIFEST_ASIDE, content, replaceable
from dalenius.processing.spark.table import SparkPlaced, piece_rows
from dalenius.processing.spark.watching import Watched
from dalenius.processing.spark.writing import described, table_file, write
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import FILE, Manifest
from dalenius.release.staging import writable
from dalenius.release.tables import TableFile


class SparkOutput:
    """A folder of the cluster that is to become a release, and what it holds already."""

    def __init__(self, spark: SparkSession, files: Files, force: bool, old: list[str]) -> None:
        self._spark, self._files, self._force, self._old = spark, files, force, old
        self._written: list[str] = []
        self._manifest: bytes | None = None  # once it may be in its place
        self._published = False

    def write(
        self, job: Job, placed: SparkPlaced, qit: TableSpec, st: TableSpec, told: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT by the one shuffle and sort that there is; ST, which needs no record, by itself."""
        if self._written and not self._files.can_remove:
            raise UsageError(
                "fakes are exchanged by writing again, and through Spark Connect nothing can be removed",
                "Leave --avoid-ruled-out out, or submit the job with --master.",
            )
        before = list(self._written)
        token, rows = secrets.token_hex(8), job.survey.rows
        told.stage("Placing", rows)
        watched = Watched(self._spark, told, rows)
        sorting = SortTask(placed.pieces, placed.form, _plain(qit))
        frame = placed.frame.repartitionById(len(placed.pieces), "piece").mapInArrow(sorting, spark_schema(qit.schema))
        made_qit = self._table(
            f"qit-{token}", frame, placed.pieces, qit, watched, lambda _tasks: told.stage("Writing", rows)
        )
        slots = [SizeGroup(group.size + placed.fake_values, group.buckets) for group in job.groups]
        pieces = Pieces.of(slots, piece_rows(sum(group.size * group.buckets for group in slots), 16))
        values = ValuesTask(job.parts, job.survey.sensitive, pieces, sum(group.buckets for group in slots), _plain(st))
        numbers = self._spark.range(0, len(pieces), 1, len(pieces))
        made_st = self._table(
            f"st-{token}",
            numbers.mapInArrow(values, spark_schema(st.schema)),
            pieces,
            st,
            Watched(self._spark, told),
        )
        for name in before:  # of a round before
            self._files.remove(name)
            self._written.remove(name)
        return made_qit, made_st

    def _table(
        self, name: str, frame: Any, pieces: Pieces, spec: TableSpec, watched: Watched, stages: Any = None
    ) -> TableFile:
        self._written.append(name)
        folder = f"{self._files.root}/{name}"
        watched.run(lambda: write(frame, folder, spec), stages)
        with writable():
            self._files.tidy(name)
        with plain_errors():
            files = described(self._spark, folder)
        return table_file(name, pieces, Watched(self._spark, Silent()).rows(files))

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """What was written, under a manifest that is not there yet."""
        return ReleaseFolder(
            Path(self._files.path or self._files.root), manifest, SparkStore(self._files, without=self._old)
        )

    def commit(self, manifest: Manifest) -> ReleaseFolder:
        """The manifest, and then the end of what it replaced."""
        with writable():
            self._old = replaceable(self._files, self._force, self._written)  # it may not be what it was
            self._manifest = manifest.to_json().encode()
            self._files.write_last(FILE, self._manifest)
            self._published = True
            for name in self._old:
                if name != FILE:
                    with suppress(OSError, OutputError):  # the release is there: too late for an error
                        self._files.remove(name)
        return ReleaseFolder(Path(self._files.path or self._files.root), manifest, SparkStore(self._files))

    def undo_if_unpublished(self) -> None:
        """Remove what was written, unless it is a release: an interruption may come right after it became one."""
        if self._published or (self._manifest is not None and content(self._files, FILE) == self._manifest):
            return
        for name in (*self._written, MANIFEST_ASIDE, ""):
            with suppress(OSError, OutputError):
                self._files.remove(name)


@contextmanager
def spark_output(spark: SparkSession, out: str, force: bool) -> Iterator[SparkOutput]:
    """A place for a release. Whatever ends the work before the manifest is there, nothing of it is left."""
    with writable():
        files = files_at(spark, out)
        output = SparkOutput(spark, files, force, replaceable(files, force))
    try:
        with writable():
            files.begin()
        yield output
    finally:
        output.undo_if_unpublished()


def _plain(spec: TableSpec) -> Any:
    """The columns of a table, in which nulls are not spoken of: Spark checks those."""
    return pa.schema([(field.name, field.type) for field in spec.schema])
