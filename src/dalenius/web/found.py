"""What was found out about a release: all of it about the same files, or none of it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalenius.audit.audit import Audit
from dalenius.audit.verify import Verdict
from dalenius.release.manifest import FILE
from dalenius.release.store import LocalStore

_OURS = re.compile(rf"{re.escape(FILE)}|(qit|st)(\.parquet|\.csv|(-[0-9a-f]{{16}})?/[^/]+)", re.DOTALL)

Mark = tuple[int, ...]  # what a file looks like from outside


@dataclass(frozen=True)
class Fingerprint:
    """Which files a folder has now. If this is another one later, something was changed, put there or taken away.

    The manifest is known by its SHA-256, and has those of the tables in it; `marks` are of the files that a release can
    have, by their names. `names` are all that is in the folder, for whoever publishes it publishes that.
    """

    manifest_sha256: str | None
    marks: dict[str, Mark]
    names: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> Fingerprint:
        """Of the folder as it is; of one that is not there, too."""
        try:
            names = tuple(LocalStore(folder).names())
        except OSError:
            names = ()
        marks = {name: mark for name in names if _OURS.fullmatch(name) and (mark := _mark(folder / name)) is not None}
        return cls(_digest(folder / FILE), marks, names)


def mark_of(found: os.stat_result) -> Mark:
    """A file as it is: which one it is, and when it was written to or exchanged."""
    return (found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def open_file(path: Path) -> int:
    """A descriptor of a regular file; OSError for a link, a pipe or whatever else has its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return descriptor


def _mark(path: Path) -> Mark | None:
    try:
        return mark_of(path.lstat())
    except OSError:
        return None


def _digest(path: Path) -> str | None:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@dataclass(frozen=True)
class Audited:
    """What attackers got out of a release. With the truth, its figures are for the publisher alone."""

    audit: Audit
    with_truth: bool


@dataclass(frozen=True)
class Found:
    """What is known of the files that `about` tells; the report's `twin` says the rest of it."""

    about: Fingerprint
    verdict: Verdict | None = None
    audited: Audited | None = None
    twin: dict[str, Any] | None = None

    @property
    def verified(self) -> bool | None:
        """Whether every check was passed; None if none was made."""
        return self.verdict.verified if self.verdict is not None else None
