"""Where a release goes on a cluster. No file system is trusted to rename a folder in one step, so none has to.

The tables become folders of Parquet files, a file a piece, in folders with names of their own beside whatever is
there; they are read back and verified. The manifest comes last, in one step: it alone makes a release of them, and a
reader refuses a folder without one. What it replaced is removed after that. A run that ends early removes what it
wrote, and one that is killed leaves folders that no manifest names, which the next run with `force` removes.

Tasks encode the files, and Spark writes them, byte by byte (`write`). Through Spark Connect nothing can be renamed, so
they come here, some at a time, and are sent back under their names (`SparkOutput._send`).

A release may be replaced, and what a killed run left may be removed, if that was asked for. Anything else stays. Where
the files of a release are not on this machine, they are fetched one by one to be read.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from dalenius.errors import OutputError, SelfCheckError, UsageError
from dalenius.model.progress import Progress, Silent
from dalenius.place.packed import Pieces
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.engine import TableSpec
from dalenius.publishing.spark.cluster_files import ConnectFiles, Files, files_at, literal
from dalenius.publishing.spark.cluster_table import SparkPlacement
from dalenius.publishing.spark.placing import PieceEncoder
from dalenius.publishing.spark.spark_errors import plain_errors
from dalenius.publishing.spark.watching import ClusterWork
from dalenius.release.atomic import writable
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import FILE, SIGNATURE_FILE, Manifest, tables_in
from dalenius.release.parquet_file import MAGIC
from dalenius.release.two_tables import TableFile, TablePart
from dalenius.release.writer import part_name


class _Last(threading.local):
    """The file that a thread has looked at last, and its copy: whoever reads a file opens it several times in a row."""

    name: str | None = None
    copy: Path | None = None


class SparkStore:
    """The files of a release on the cluster, but for some that are to be gone."""

    def __init__(self, files: Files, without: Sequence[str] = ()) -> None:
        self._files, self._without = files, set(without)
        self._last = _Last()
        self._folder: Path | None = None
        self._lock = threading.Lock()

    def open(self, name: str) -> BinaryIO:
        """A file, or the copy of one, which can be read as long as it is open."""
        path = self.local(name)
        if path is not None:
            return path.open("rb")
        last = self._last
        if last.copy is None or last.name != name:
            if last.copy is not None:
                last.copy.unlink()
            last.name, last.copy = name, None
            last.copy = self._fetch(name)
        return last.copy.open("rb")

    def _fetch(self, name: str) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="dalenius-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{threading.get_ident()}-{name.replace('/', '_')}"
        self._files.fetch(name, path)
        return path

    def names(self) -> list[str]:
        """All files that are there."""
        return [name for name in self._files.names() if name.partition("/")[0] not in self._without]

    def local(self, name: str) -> Path | None:
        """The path of a file that is on this machine, and not to be gone."""
        path = self._files.path
        return path / name if path is not None and name.partition("/")[0] not in self._without else None


MANIFEST_ASIDE = f".{FILE}.new"
SIGNATURE_ASIDE = f".{SIGNATURE_FILE}.new"

_FOLDER = re.compile(r"(qit|st)-[0-9a-f]{16}")
_LEFT_BEHIND = re.compile(r"(qit|st)-[0-9a-f]{16}/(\.?part-[^/]*|[._][^/]*(/.*)?)?")  # temporary files of Spark too


def find_replaceable(files: Files, force: bool, own: Collection[str] = ()) -> list[str]:
    """The names of what is in the folder and will be replaced, without our own; an error if it may not be."""
    if files.path is not None and (files.path.is_symlink() or files.path.is_file()):
        raise UsageError("the output path is there already, and is not a folder", "Give another --out.")
    there = [name for name in files.children() or () if name not in own and not _is_aside(name)]
    if there:
        _check_permission(files, there, force)
        _check_is_release(files, there, own)
    return there


def _check_permission(files: Files, there: Sequence[str], force: bool) -> None:
    if not files.can_remove:
        raise UsageError(
            "there is something in the output folder, and through Spark Connect nothing can be removed",
            "Give another --out, or remove it yourself.",
        )
    if FILE in there and not force:
        raise UsageError("the output folder is there already", "Give another --out, or --force to replace it.")
    if not force and all(_FOLDER.fullmatch(name) or name == SIGNATURE_FILE for name in there):
        raise UsageError(
            "the output folder has an unfinished release in it, of a run that was stopped or is still going",
            "Give another --out; or, if no run is going, --force to remove it.",
        )


def _check_is_release(files: Files, there: Sequence[str], own: Collection[str]) -> None:
    """An error if the folder holds a file that neither a release nor an unfinished one would have."""
    tables = {SIGNATURE_FILE, *((FILE, *_tables(files)) if FILE in there else ())}  # it comes before the manifest
    for name in files.names():
        is_own = name.partition("/")[0] in own or _is_aside(name)
        if name not in tables and not is_own and not _LEFT_BEHIND.fullmatch(name):
            raise UsageError(
                "the output folder is there already, and is not a release: --force replaces releases only",
                "Give another --out, or remove the folder yourself.",
            )


def content(files: Files, name: str) -> bytes | None:
    """All of a small file; None if there is none."""
    try:
        with SparkStore(files).open(name) as file:
            return file.read()
    except (OSError, OutputError):
        return None


def _is_aside(name: str) -> bool:
    asides = (MANIFEST_ASIDE, SIGNATURE_ASIDE)
    return name in (*asides, *(f".{one}.crc" for one in (*asides, FILE, SIGNATURE_FILE)))


def _tables(files: Files) -> list[str]:
    """The files of the release that is there, of whatever format."""
    manifest = content(files, FILE)
    return (tables_in(manifest) or []) if manifest is not None else []


_BY_SPARK = re.compile(r"^part-(\d{5,})-.*$")
_SENT_AT_ONCE = 2**26  # bytes
_OPTIONS = {
    "compression": "none",
    "encoding": "UTF-8",
    "lineSep": MAGIC.decode(),
    "maxRecordsPerFile": "0",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

FileFacts = tuple[str, int, str]  # the name, the length and the hash of a file


def write(frame: DataFrame, folder: str) -> None:
    """A frame of files, one in a partition, into a folder that is not there yet.

    Spark has no writer for bytes. Its writer of text is one: it takes bytes that are said to be text as they are, and
    ends every line with a word that can be chosen. A file is a line. It ends with the four bytes that it begins with.
    """
    line = f"cast(substring(content, 1, length(content) - {len(MAGIC)}) AS string) AS line"
    frame.selectExpr(line).write.mode("error").options(**_OPTIONS).text(folder)


def read_file_facts(spark: SparkSession, folder: str) -> DataFrame:
    """What was written: the name, the length and the hash of every file."""
    files = spark.read.format("binaryFile").load(literal(spark, folder))
    return files.selectExpr("substring_index(path, '/', -1)", "length", "sha2(content, 256)")


def table_file(name: str, pieces: Pieces, files: Iterable[FileFacts]) -> TableFile:
    """A table as the manifest has it; an error if there is not one file for each piece."""
    facts = {file: (int(length), str(digest)) for file, length, digest in files}
    names = [part_name(piece) for piece in range(len(pieces))]
    if facts.keys() != set(names):
        raise SelfCheckError(f"{len(facts):,} files were written, which are not the {len(pieces):,} of the table")
    parts = [
        TablePart(file=file, rows=int(rows), bytes=facts[file][0], sha256=facts[file][1])
        for file, rows in zip(names, pieces.rows, strict=True)
    ]
    return TableFile.of_parts(name, parts)


class SparkOutput:
    """A folder of the cluster that is to become a release, and what it holds already."""

    def __init__(self, spark: SparkSession, files: Files, force: bool, old: list[str]) -> None:
        self._spark, self._files, self._force, self._old = spark, files, force, old
        self._written: list[str] = []
        self._manifest: bytes | None = None  # once it may be in its place
        self._old_signature: bytes | None = None  # once another one may be in its place
        self._published = False

    def write(
        self, arrangement: Arrangement, placed: SparkPlacement, qit: TableSpec, st: TableSpec, progress: Progress
    ) -> tuple[TableFile, TableFile]:
        """QIT, and then ST."""
        if self._written and not self._files.can_remove:
            raise UsageError(
                "fakes are exchanged by writing again, and through Spark Connect nothing can be removed",
                "Leave --avoid-ruled-out out, or submit the job with --master.",
            )
        before = list(self._written)
        token, rows = secrets.token_hex(8), arrangement.survey.rows
        progress.stage("Placing", rows)
        with placed.tables(self._spark, _encoder(qit), _encoder(st)) as (of_qit, of_st):
            qit_file = self._table(
                f"qit-{token}", *of_qit, progress, rows, lambda _tasks: progress.stage("Writing", rows)
            )
            st_file = self._table(f"st-{token}", *of_st, progress)
        for name in before:  # of a round before
            self._files.remove(name)
            self._written.remove(name)
        return qit_file, st_file

    def _table(
        self, name: str, frame: DataFrame, pieces: Pieces, progress: Progress, rows: int = 0, stages: Any = None
    ) -> TableFile:
        self._written.append(name)
        watched = ClusterWork(self._spark, progress, rows)
        if isinstance(self._files, ConnectFiles):
            kept = frame.persist(StorageLevel.DISK_ONLY)
            try:
                lengths = watched.run(kept.selectExpr("piece", "length(content)").collect, stages)
                sent = self._send(self._files, name, kept, dict(map(tuple, lengths)), progress)
            finally:
                kept.unpersist()
            return table_file(name, pieces, sent)
        folder = f"{self._files.root}/{name}"
        watched.run(lambda: write(frame, folder), stages)
        with writable():
            self._files.tidy(name, lambda file: _BY_SPARK.sub(lambda match: part_name(int(match[1])), file))
        with plain_errors():
            files = read_file_facts(self._spark, folder)
        return table_file(name, pieces, ClusterWork(self._spark, Silent()).rows(files))

    def _send(
        self, files: ConnectFiles, name: str, kept: DataFrame, lengths: Mapping[int, int], progress: Progress
    ) -> list[FileFacts]:
        """Files that come here, some at a time, and go back under their names."""
        facts: list[FileFacts] = []

        def send(some: DataFrame) -> None:
            for row in some.toLocalIterator():
                file, content = part_name(row["piece"]), bytes(row["content"])
                files.add(f"{name}/{file}", content)
                facts.append((file, len(content), hashlib.sha256(content).hexdigest()))

        for first, last in _ranges(lengths):
            some = kept.where(f"piece BETWEEN {first} AND {last}")
            ClusterWork(self._spark, progress).run(partial(send, some))
        return facts

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """What was written, under a manifest that is not there yet."""
        return ReleaseFolder(
            Path(self._files.path or self._files.root), manifest, SparkStore(self._files, without=self._old)
        )

    def commit(self, manifest: Manifest, signature: bytes | None = None) -> ReleaseFolder:
        """The signature, the manifest, and then the end of what they replaced."""
        with writable():
            self._old = find_replaceable(self._files, self._force, self._written)  # it may not be what it was
            if signature is not None:
                self._old_signature = content(self._files, SIGNATURE_FILE) if SIGNATURE_FILE in self._old else None
                self._written.append(SIGNATURE_FILE)
                self._files.write_last(SIGNATURE_FILE, signature)
            self._manifest = manifest.to_json().encode()
            self._files.write_last(FILE, self._manifest)
            self._published = True
            for name in self._old:
                if name not in (FILE, *self._written):
                    with suppress(OSError, OutputError):  # the release is there: too late for an error
                        self._files.remove(name)
        return ReleaseFolder(Path(self._files.path or self._files.root), manifest, SparkStore(self._files))

    def undo_if_unpublished(self) -> None:
        """Remove what was written, unless it is a release: an interruption may come right after it became one."""
        if self._published or (self._manifest is not None and content(self._files, FILE) == self._manifest):
            return
        for name in (*self._written, MANIFEST_ASIDE, SIGNATURE_ASIDE, ""):
            with suppress(OSError, OutputError):
                self._files.remove(name)
        if self._old_signature is not None:  # the release that was to be replaced is still there
            with suppress(OSError, OutputError):
                self._files.write_last(SIGNATURE_FILE, self._old_signature)


@contextmanager
def spark_output(spark: SparkSession, out: str, force: bool) -> Iterator[SparkOutput]:
    """A place for a release. Whatever ends the work before the manifest is there, nothing of it is left."""
    with writable():
        files = files_at(spark, out)
        output = SparkOutput(spark, files, force, find_replaceable(files, force))
    try:
        with writable():
            files.begin()
        yield output
    finally:
        output.undo_if_unpublished()


def _encoder(spec: TableSpec) -> PieceEncoder:
    return PieceEncoder(spec.schema, spec.bucket, spec.group)


def _ranges(lengths: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Pieces that come at once, from one to another: as many bytes as there is room for, and one piece at least."""
    first, held = 0, 0
    for piece in sorted(lengths):
        if held and held + lengths[piece] > _SENT_AT_ONCE:
            yield first, piece - 1
            first, held = piece, 0
        held += lengths[piece]
    yield first, max(lengths, default=0)
