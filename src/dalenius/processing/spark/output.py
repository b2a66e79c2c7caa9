"""Where a release goes. No file system is trusted to rename a folder in one step, so none has to.

The tables are written into folders with names of their own beside whatever is there, read back and verified. The
manifest comes last, in one step: it alone makes a release of them, and a reader refuses a folder without one. What it
replaced is removed after that. A run that ends early removes what it wrote, and one that is killed leaves folders that
no manifest names, which the next run with `force` removes.
"""

from __future__ import annotations

import json
import re
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
from dalenius.processing.spark.fetching import SparkStore
from dalenius.processing.spark.files import Files, files_at
from dalenius.processing.spark.frames import spark_schema
from dalenius.processing.spark.placing import SortTask, ValuesTask
from dalenius.processing.spark.table import SparkPlaced, piece_rows
from dalenius.processing.spark.watching import Watched
from dalenius.processing.spark.writing import described, table_file, write
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import FILE, Manifest
from dalenius.release.staging import writable
from dalenius.release.tables import TableFile

_OURS = re.compile(r"(qit|st)-[0-9a-f]{16}")
_MANIFEST_ASIDE = f".{FILE}.new"


class SparkOutput:
    """A folder of the cluster that is to become a release, and what it holds already."""

    def __init__(self, spark: SparkSession, files: Files, old: list[str]) -> None:
        self._spark, self._files, self._old = spark, files, old
        self._written: list[str] = []
        self.committed = False

    def write(
        self, job: Job, placed: SparkPlaced, qit: TableSpec, st: TableSpec, told: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT by the one shuffle and sort that there is; ST, which needs no record, by itself."""
        if self._written and not self._files.can_remove:
            raise UsageError(
                "fakes are exchanged by writing again, and through Spark Connect nothing can be removed",
                "Leave --avoid-ruled-out out, or submit the job with --master.",
            )
        before, self._written = self._written, []
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
        return made_qit, made_st

    def _table(
        self, name: str, frame: Any, pieces: Pieces, spec: TableSpec, watched: Watched, stages: Any = None
    ) -> TableFile:
        self._written.append(name)
        folder = f"{self._files.root}/{name}"
        watched.run(lambda: write(frame, folder, spec), stages)
        with writable():
            self._files.tidy(name)
        listed = Watched(self._spark, Silent()).rows(described(self._spark, folder))
        return table_file(name, pieces, listed)

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """What was written, under a manifest that is not there yet."""
        return ReleaseFolder(
            Path(self._files.path or self._files.root), manifest, SparkStore(self._files, without=self._old)
        )

    def commit(self, manifest: Manifest) -> ReleaseFolder:
        """The manifest, and then the end of what it replaced."""
        with writable():
            self._files.write_last(FILE, manifest.to_json().encode())
            self.committed = True
            for name in self._old:
                if name != FILE:
                    with suppress(OSError, OutputError):  # the release is there: too late for an error
                        self._files.remove(name)
        return ReleaseFolder(Path(self._files.path or self._files.root), manifest, SparkStore(self._files))

    def undo(self) -> None:
        """Remove what was written, and the folder if nothing else is in it."""
        with suppress(OSError, OutputError):
            for name in self._written:
                self._files.remove(name)
            self._files.remove(_MANIFEST_ASIDE)
            self._files.remove()


@contextmanager
def spark_output(spark: SparkSession, out: str, force: bool) -> Iterator[SparkOutput]:
    """A place for a release. Whatever ends the work before the manifest is there, nothing of it is left."""
    with writable():
        files = files_at(spark, out)
        output = SparkOutput(spark, files, _replaceable(files, force))
    try:
        yield output
    finally:
        if not output.committed:
            output.undo()


def _replaceable(files: Files, force: bool) -> list[str]:
    """What is in the folder and will be replaced; an error if it may not be."""
    there = files.children()
    if not there:
        return []
    if not files.can_remove:
        raise UsageError(
            "there is something in the output folder, and through Spark Connect nothing can be removed",
            "Give another --out, or remove it yourself.",
        )
    if FILE in there:
        if not force:
            raise UsageError("the output folder is there already", "Give another --out, or --force to replace it.")
        known = {FILE, *_tables(files)}
    else:
        known = set()
        if not force and all(_is_left_behind(name) for name in there):
            raise UsageError(
                "the output folder has an unfinished release in it, of a run that was stopped or still goes on",
                "Give another --out; or, if no run goes on, --force to remove it.",
            )
    if any(name not in known and not _is_left_behind(name) for name in there):
        raise UsageError(
            "the output folder is there already, and is not a release: --force replaces releases only",
            "Give another --out, or remove the folder yourself.",
        )
    return there


def _is_left_behind(name: str) -> bool:
    return _OURS.fullmatch(name) is not None or name in (_MANIFEST_ASIDE, f"{_MANIFEST_ASIDE}.crc", f".{FILE}.crc")


def _tables(files: Files) -> list[str]:
    """The tables of the release that is there, of whatever format."""
    try:
        with SparkStore(files).open(FILE) as file:
            document = json.loads(file.read())
        if document["program"]["name"] != "dalenius":
            return []
        return [str(document["tables"][table]["file"]) for table in ("qit", "st")]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _plain(spec: TableSpec) -> Any:
    """The columns of a table, in which nulls are not spoken of: Spark checks those."""
    return pa.schema([(field.name, field.type) for field in spec.schema])
