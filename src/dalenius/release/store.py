"""Where the bytes of a release are: on this machine, or wherever else somebody can open them.

Files go by their names in the folder of the release: `manifest.json`, `qit.parquet`, `qit/part-00000.parquet`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Protocol


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
        return (self._folder / name).open("rb")

    def names(self) -> list[str]:
        """Whatever is in the folder, and in folders within it; links are not followed."""
        found: list[str] = []
        for entry in os.scandir(self._folder):
            if entry.is_dir(follow_symlinks=False):
                within = LocalStore(self._folder / entry.name).names()
                found += [f"{entry.name}/{name}" for name in within] or [f"{entry.name}/"]
            else:
                found.append(entry.name)
        return sorted(found)

    def local(self, name: str) -> Path:
        """The path."""
        return self._folder / name
