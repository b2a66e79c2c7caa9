"""The releases that Studio knows, and the private folder for uploads and unsaved releases.

Nobody else can read the private folder, and it is removed however the program ends: when Studio closes, at exit, or,
after a kill, when Studio starts the next time. A folder that was left behind has a lock that is free.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from dalenius.errors import UsageError
from dalenius.policy.job import AdversarySection, Job, LimitsSection, TableSection
from dalenius.release.folder import open_release
from dalenius.release.manifest import Manifest
from dalenius.release.staging import abandon, is_staged, remove_left_behind
from dalenius.studio.messages import not_found
from dalenius.studio.studio_release import StudioRelease

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")


class Releases:
    """All releases, in order of arrival."""

    def __init__(self, out: Path | None, unsaved: Path) -> None:
        """New releases go into folders of their own under `out`, or under `unsaved` if there is no `out`."""
        self._out, self._unsaved = out, unsaved
        self._lock = threading.Lock()
        self._releases: dict[str, StudioRelease] = {}
        self._target: Path | None = None  # of the release that was started last
        if out is not None:
            remove_left_behind(out)

    def target(self, name: str) -> Path:
        """Where to make a new release with this name; an error if the name is taken or not plain."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UsageError(
                "the name of a release has 1 to 60 letters, digits, dots, hyphens and underscores, and no dot first",
                "Give it another name.",
            )
        taken = any(other.name.casefold() == name.casefold() for other in self.all() if other.table or not other.saved)
        path = self._out / name if self._out is not None else self._unsaved / secrets.token_hex(12)
        if taken or path.exists() or path.is_symlink():
            raise UsageError("there is a release with this name already", "Give it another name.")
        return path

    def begin(self, target: Path) -> None:
        """Note that a release is being made at this path."""
        self._target = target

    def add(self, release: StudioRelease) -> None:
        """Add a complete release."""
        with self._lock:
            self._releases[release.id] = release

    def open(self, path: Path) -> None:
        """Add a release that was made before."""
        folder = open_release(path)
        name = path.resolve().name or "release"
        self.add(StudioRelease(id=new_id(), name=name, folder=folder, saved=True, job_text=_job_of(folder.manifest)))

    def get(self, identifier: str) -> StudioRelease:
        """The release with an ID."""
        with self._lock:
            release = self._releases.get(identifier)
        if release is None:
            raise not_found()
        return release

    def all(self) -> list[StudioRelease]:
        """Every release."""
        with self._lock:
            return list(self._releases.values())

    def forget_table(self, identifier: str) -> None:
        """A table is gone: releases that were made from it have no truth any more."""
        for release in self.all():
            if release.table is not None and release.table.id == identifier:
                release.table = None

    def abandon_unfinished(self) -> None:
        """The program ends in the middle of publishing: leave nothing beside the target."""
        if self._target is not None:
            abandon(self._target)

    def has_leftovers(self) -> bool:
        """Whether something is still beside the target of the release that was started last."""
        return self._target is not None and is_staged(self._target)

    def close(self) -> None:
        """Close all files."""
        for release in self.all():
            release.close()


def new_id() -> str:
    """An ID that nobody can guess."""
    return secrets.token_urlsafe(12)


def _job_of(manifest: Manifest) -> str:
    """A job file from a manifest, with the limits one by one: the manifest does not have the rule."""
    from dalenius.policy.job import job_text

    return job_text(
        Job(
            table=TableSection(
                sensitive=manifest.columns.sensitive.name,
                quasi_identifiers=[column.name for column in manifest.columns.quasi_identifiers],
                null_value=manifest.null_value,
                strata="auto" if manifest.strata is not None else "none",
            ),
            limits=LimitsSection(values={value.value: value.limit for value in manifest.values}),
            adversary=AdversarySection(
                corrupted=manifest.adversary.known_records, fakes=manifest.adversary.fake_values
            ),
        )
    )


_PREFIX = "dalenius-studio-"
_LOCK = ".lock"
_ATTEMPTS = 3
_BETWEEN_ATTEMPTS = 0.1  # seconds


class PrivateFolder:
    """A temporary folder with a lock in it."""

    def __init__(self) -> None:
        _remove_left_behind()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # 0700
        self._lock = (self.path / f"{_LOCK}-new").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{_LOCK}-new").rename(self.path / _LOCK)  # so a lock with the final name is always held
        atexit.register(self.remove)

    def folder(self, name: str) -> Path:
        """A folder inside, created if necessary."""
        path = self.path / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def exists(self) -> bool:
        """Whether it still exists."""
        return os.path.lexists(self.path)

    def remove(self) -> None:
        """Remove it with all its content."""
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.exists():
                break
            time.sleep(_BETWEEN_ATTEMPTS)  # a thread that is ending may have written something
        self._lock.close()
        atexit.unregister(self.remove)


def _remove_left_behind() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
