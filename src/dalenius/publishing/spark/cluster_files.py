"""The file system of the cluster, as far as publishing needs it: a folder for the release, and what is in it.

`HadoopFiles` asks the cluster's own file systems, whatever they are. `ConnectFiles` has only what Spark Connect offers:
it can see files, read them and add some, and cannot rename or remove any.

Paths as Spark reads them: by the cluster's file systems, with wildcards, from the folder where Java was started.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlparse

from pyspark.sql import SparkSession

from dalenius.errors import DaleniusError, UsageError
from dalenius.publishing.spark.session import is_remote
from dalenius.publishing.spark.spark_errors import explain, plain_errors
from dalenius.release.atomic import sync

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_WILD = re.compile(r"[*?\[\]{}\\]")


def absolute(spark: SparkSession, path: str) -> str:
    """A path of this machine from its root: Java may have been started elsewhere."""
    if is_remote(spark) or SCHEME.match(path):
        return path
    java: Any = spark._jvm
    system = java.org.apache.hadoop.fs.FileSystem.get(_conf(spark))
    return os.path.abspath(path) if system.getUri().getScheme() == "file" else path  # noqa: PTH100 (follows no links)


def literal(spark: SparkSession, path: str) -> str:
    """A path that is there is meant as it is, whatever wildcards are in it."""
    if is_remote(spark) or not _WILD.search(path) or not is_there(spark, path):
        return path
    return _WILD.sub(r"\\\g<0>", path)


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is something at a path; not known through Spark Connect."""
    if is_remote(spark):
        return False
    system, location = _locate(spark, path)
    return bool(system.exists(location))


def local_path(spark: SparkSession, path: str) -> Path | None:
    """The same path on this machine, if it is one of its file system."""
    if is_remote(spark):
        return None
    system, location = _locate(spark, path)
    return Path(location.toUri().getPath()) if system.getUri().getScheme() == "file" else None


def _locate(spark: SparkSession, path: str) -> tuple[Any, Any]:
    java: Any = spark._jvm
    location = java.org.apache.hadoop.fs.Path(absolute(spark, path))
    return location.getFileSystem(_conf(spark)), location


def _conf(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


_RENAMED_AT_ONCE = 8
_RENAMES = {"hdfs", "viewfs", "webhdfs", "swebhdfs", "o3fs", "ofs"}  # where a rename replaces a file in one step


class Files(Protocol):
    """The folder of one release."""

    @property
    def root(self) -> str:
        """The folder's URL, or its path."""

    @property
    def path(self) -> Path | None:
        """Its path on this machine, if it is there."""

    @property
    def can_remove(self) -> bool:
        """Whether files can be removed."""

    def begin(self) -> None:
        """Before anything is written."""

    def children(self) -> list[str] | None:
        """The names of all that is in the folder; None if there is no folder."""

    def names(self) -> list[str]:
        """All files, in folders within it too."""

    def fetch(self, name: str, to: Path) -> None:
        """A copy of a file on this machine."""

    def write_last(self, name: str, content: bytes) -> None:
        """A small file, in one step: readers see all of it, or what was there before."""

    def remove(self, name: str = "") -> None:
        """Remove a file, a folder with all that is in it, or the folder of the release itself, if it is empty."""

    def tidy(self, name: str, renamed: Callable[[str], str]) -> None:
        """Give the files in a folder their names, and remove what Spark leaves there besides."""


def files_at(spark: SparkSession, out: str) -> Files:
    """The folder at a path or URL, as the cluster understands it."""
    return ConnectFiles(spark, out) if is_remote(spark) else HadoopFiles(spark, out)


class HadoopFiles:
    """By the cluster's own file systems."""

    can_remove = True

    def __init__(self, spark: SparkSession, out: str) -> None:
        java: Any = spark._jvm
        session: Any = spark._jsparkSession
        with _file_errors():
            self._java = java.org.apache.hadoop
            self._conf = session.sessionState().newHadoopConf()
            location = self._java.fs.Path(absolute(spark, out))
            self._system = location.getFileSystem(self._conf)
            self._root = self._system.makeQualified(location)
            self.root = str(self._root.toString())
        url = urlparse(self.root)
        self._scheme = url.scheme
        self.path = Path(self._root.toUri().getPath()) if url.scheme == "file" else None
        self._missing = self._missing_folders()

    def begin(self) -> None:
        """Make the folder where that is cheap: one that cannot be made is known before any work is done."""
        if self.path is not None and not self.path.is_symlink() and not self.path.is_file():
            self.path.mkdir(parents=True, exist_ok=True)

    def children(self) -> list[str] | None:
        """The names of all that is in the folder; None if there is no folder."""
        with _file_errors():
            if not self._system.exists(self._root):
                return None
            return [str(status.getPath().getName()) for status in self._system.listStatus(self._root)]

    def names(self) -> list[str]:
        """All files, in folders within it too; folders without any have a slash behind."""
        return sorted(self._names(self._root, ""))

    def _names(self, folder: Any, before: str) -> Iterator[str]:
        with _file_errors():
            entries = list(self._system.listStatus(folder))
        for entry in entries:
            name = before + str(entry.getPath().getName())
            if entry.isDirectory():
                within = list(self._names(entry.getPath(), f"{name}/"))
                yield from within or [f"{name}/"]
            else:
                yield name

    def fetch(self, name: str, to: Path) -> None:
        """A copy of a file on this machine."""
        with _file_errors():
            self._system.copyToLocalFile(False, self._at(name), self._java.fs.Path(to.as_uri()), True)

    def write_last(self, name: str, content: bytes) -> None:
        """By a rename where that is one step, else by an upload, which is one on object stores."""
        aside = f".{name}.new"
        if self.path is not None:
            (self.path / aside).write_bytes(content)
            sync(self.path / aside)
            (self.path / aside).replace(self.path / name)
            return
        with _file_errors():
            if self._scheme not in _RENAMES:
                self._put(name, content)
                return
            self._put(aside, content)
            self._replace(aside, name)

    def _put(self, name: str, content: bytes) -> None:
        stream = self._system.create(self._at(name), True)
        try:
            stream.write(content)
        finally:
            stream.close()

    def _replace(self, one: str, other: str) -> None:
        rename = getattr(self._java.fs, "Options$Rename")
        options = self._gateway().new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context = self._java.fs.FileContext.getFileContext(self._root.toUri(), self._conf)
        context.rename(self._at(one), self._at(other), options)

    @staticmethod
    def _gateway() -> Any:
        from pyspark import SparkContext

        return SparkContext._gateway

    def remove(self, name: str = "") -> None:
        """Remove a file or a folder; the folder of the release only if it is empty and was not there before."""
        with _file_errors():
            if name:
                self._system.delete(self._at(name), True)
            else:
                for folder in self._missing:
                    if self._system.exists(folder) and not self._system.listStatus(folder):
                        self._system.delete(folder, False)

    def _missing_folders(self) -> list[Any]:
        """The folder and those above it, as far as they are not there yet: the innermost first."""
        missing, folder = [], self._root
        with _file_errors():
            while folder is not None and not self._system.exists(folder):
                missing.append(folder)
                folder = folder.getParent()
        return missing

    def tidy(self, name: str, renamed: Callable[[str], str]) -> None:
        """Remove checksums of local files, and whatever else is not for readers; what is left goes to the disk.

        An object store renames by a copy, which takes a while, and so some files at a time.
        """
        with _file_errors():
            there = [str(status.getPath().getName()) for status in self._system.listStatus(self._at(name))]
        with ThreadPoolExecutor(_RENAMED_AT_ONCE) as workers:
            list(workers.map(lambda file: self._tidy_file(f"{name}/{file}", f"{name}/{renamed(file)}"), there))
        if self.path is not None:  # a checksum of a file that is gone may be left in the folder itself
            for entry in (self.path / name).iterdir():
                if entry.name.startswith((".", "_")):
                    shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()
                else:
                    with suppress(OSError):
                        sync(entry)

    def _tidy_file(self, name: str, to: str) -> None:
        with _file_errors():
            if name.rpartition("/")[2].startswith((".", "_")):
                self._system.delete(self._at(name), True)
            elif name != to and not self._system.rename(self._at(name), self._at(to)):
                raise OSError(5, os.strerror(5))

    def _at(self, name: str) -> Any:
        return self._java.fs.Path(self._root, name)


class ConnectFiles:
    """By what Spark Connect has for files: its readers, and a way to send a file to the default file system."""

    can_remove = False
    path = None

    def __init__(self, spark: SparkSession, out: str) -> None:
        if urlparse(out).scheme or not out.startswith("/"):
            raise UsageError(
                "through Spark Connect a release can be written to the cluster's default file system only",
                "Give --out as an absolute path without a scheme, or submit the job with --master.",
            )
        self._spark, self.root = spark, out.rstrip("/")

    def begin(self) -> None:
        """Nothing."""

    def children(self) -> list[str] | None:
        """The first parts of the names of all files that Spark shows, which are not the hidden ones."""
        names = self._list()
        return None if names is None else sorted({name.partition("/")[0] for name in names})

    def names(self) -> list[str]:
        """All files that Spark shows."""
        return sorted(self._list() or [])

    def _list(self) -> list[str] | None:
        try:
            files = self._spark.read.format("binaryFile").option("recursiveFileLookup", True).load(self.root)
            paths = [SCHEME.sub("", row["path"], count=1) for row in files.select("path").collect()]
        except Exception as error:  # noqa: BLE001 (told apart below)
            ours = explain(error)
            if ours.kind == "input":  # there is no such folder
                return None
            raise ours from None
        return [path[len(self.root) + 1 :] for path in paths]

    def fetch(self, name: str, to: Path) -> None:
        """A copy of a file on this machine."""
        try:
            with plain_errors():
                content = self._spark.read.format("binaryFile").load(f"{self.root}/{name}").select("content").toArrow()
        except DaleniusError:
            raise FileNotFoundError(2, os.strerror(2)) from None
        to.write_bytes(content.column(0)[0].as_py())

    def write_last(self, name: str, content: bytes) -> None:
        """Sent from here, under its name."""
        self.add(name, content)

    def add(self, name: str, content: bytes) -> None:
        """A file that is not there yet, sent from here."""
        with tempfile.TemporaryDirectory(prefix="dalenius-") as folder, plain_errors():
            local = Path(folder) / "file"
            local.write_bytes(content)
            self._spark.copyFromLocalToFs(str(local), f"{self.root}/{name}")

    def remove(self, name: str = "") -> None:
        """Not possible."""

    def tidy(self, name: str, renamed: Callable[[str], str]) -> None:
        """Not possible."""


@contextmanager
def _file_errors() -> Iterator[None]:
    """What file systems complain about, without the paths that they name."""
    try:
        yield
    except (DaleniusError, KeyboardInterrupt, OSError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, it is not shown)
        text = str(error)
        if "FileNotFoundException" in text:
            raise FileNotFoundError(2, os.strerror(2)) from None
        if "AccessControlException" in text or "Permission denied" in text:
            raise PermissionError(13, os.strerror(13)) from None
        if "No FileSystem for scheme" in text or "UnsupportedFileSystem" in text:
            raise UsageError(
                "the cluster knows no file system of the output's scheme", "Check --out, and the cluster's settings."
            ) from None
        raise OSError(5, os.strerror(5)) from None
