"""A release on the cluster, read from here: where its files are elsewhere, they are fetched one by one."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from dalenius.processing.spark.files import Files


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
            last.copy = self._fetched(name)
        return last.copy.open("rb")

    def _fetched(self, name: str) -> Path:
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
        """The path of a file that is on this machine."""
        return self._files.path / name if self._files.path is not None else None
