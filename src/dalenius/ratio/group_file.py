"""A file of the publisher's own, Parquet or CSV by its suffix, written batch by batch: whole, or not at all.

It is made beside its target under another name, which nobody else may read, and takes the target's place when it is
complete. Whatever goes wrong, what was there before is still there.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dalenius.errors import OutputError, UsageError

_SUFFIXES = (".parquet", ".csv")


class GroupFile:
    """A file to write batches into."""

    def __init__(self, file: IO[bytes], suffix: str) -> None:
        self.rows = 0
        self._file, self._suffix = file, suffix
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. The first batch says which columns there are."""
        with _writable():
            if self._writer is None:
                kind = pyarrow.parquet.ParquetWriter if self._suffix == ".parquet" else pyarrow.csv.CSVWriter
                self._writer = kind(self._file, batch.schema)
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """Bring everything to the disk."""
        with _writable():
            self.close()
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file, complete or not."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


@contextmanager
def group_file(path: str | Path, replace: bool, source: Any) -> Iterator[GroupFile]:
    """A file to write into, in its place at the end. `source` is the table that is read: it is never replaced."""
    target = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow links)
    if target.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"groups are not written to files of the kind {target.suffix!r}", "Name it .parquet or .csv.")
    with _writable():
        _check(target, replace, source)
        descriptor, name = tempfile.mkstemp(prefix=".dalenius-groups-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writing = GroupFile(file, target.suffix.lower())
            try:
                yield writing
                writing.finish()
            finally:
                with suppress(OSError, pa.ArrowException):  # the first error is the one to tell
                    writing.close()
        with _writable():
            _check(target, replace, source)  # something may have been put there meanwhile
            Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _check(target: Path, replace: bool, source: Any) -> None:
    """Refuse a target that is in the way."""
    try:
        target.lstat()
    except FileNotFoundError:
        return
    if target.is_dir():
        raise UsageError("the file of groups would be where a folder is", "Give --groups another name.")
    if isinstance(source, str | os.PathLike) and target.exists() and Path(source).exists() and target.samefile(source):
        raise UsageError("the file of groups would take the place of the table itself", "Give --groups another name.")
    if not replace:
        raise UsageError("the file of groups is there already", "Give --groups another name, or --force to replace it.")


@contextmanager
def _writable() -> Iterator[None]:
    """Files that cannot be written, as errors of ours."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):
            raise OutputError("the disk is full", "Make room there, or give --groups another place.") from None
        reason = error.strerror or (os.strerror(error.errno) if error.errno else "the file system failed")
        raise OutputError(
            f"the file of groups cannot be written: {reason}", "Check the folder and its permissions."
        ) from None
