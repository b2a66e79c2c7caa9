"""Where the files of a release are: a folder of this machine, or wherever else somebody can open files.

Files go by their names in the folder of the release: `manifest.json`, `qit.parquet`, `qit/part-00000.parquet`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from dalenius.errors import ReleaseError
from dalenius.tables.delimited import NOT_REGULAR, require_regular

_DEEPEST, _MOST_FILES = 16, 2**20  # a release has folders of one depth


class Store(Protocol):
    """The files of one release. What fails is an OSError."""

    def open(self, name: str) -> BinaryIO:
        """A file for reading, in which one can go back and forth."""

    def names(self) -> list[str] | None:
        """All files that are there, and folders without any, with a slash behind; None if nobody can say."""

    def local(self, name: str) -> Path | None:
        """The path of a file, if it is on the file system of this machine."""


class LocalStore:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> BinaryIO:
        """The file by its path."""
        require_regular(self._folder / name)
        return (self._folder / name).open("rb")

    def names(self) -> list[str]:
        """Whatever is in the folder, and in folders within it; links are not followed. ReleaseError for too much."""
        names: list[str] = []
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self._folder / folder) as entries:
                empty = True
                for entry in entries:
                    empty = False
                    if not entry.is_dir(follow_symlinks=False):
                        names.append(folder + entry.name)
                    elif folder.count("/") < _DEEPEST:
                        waiting.append(f"{folder}{entry.name}/")
                    else:
                        raise ReleaseError(f"the folder has folders that are more than {_DEEPEST} deep")
                    if len(names) + len(waiting) > _MOST_FILES:
                        raise ReleaseError(f"the folder has more than {_MOST_FILES:,} files")
            if empty and folder:
                names.append(folder)
        return sorted(names)

    def local(self, name: str) -> Path:
        """The path."""
        return self._folder / name


@contextmanager
def opening(name: str) -> Iterator[None]:
    """Files that cannot be opened, or not read to their end."""
    try:
        yield
    except OSError as error:
        raise ReleaseError(f"{name} cannot be read: {_reason(error)}") from None


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Files that cannot be read, as errors of ours."""
    import pyarrow as pa

    try:
        with opening(name):
            yield
    except (pa.ArrowException, ValueError):
        raise ReleaseError(f"{name} is damaged, or not what the manifest says it is") from None


def _reason(error: OSError) -> str:
    """Why a file cannot be read. Arrow's own words have the path."""
    if error.strerror == NOT_REGULAR:
        return NOT_REGULAR
    return os.strerror(error.errno) if error.errno else "it is damaged"
