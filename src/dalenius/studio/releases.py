"""The releases that Studio knows: those it made, and those it was given.

A folder for uploads and unsaved releases that nobody else can read, and that is gone at the end.

Whatever ends the program, the folder goes: at the end, at exit, or, after a kill, when Studio is next started. A folder
that was left behind is recognised by its lock being free.
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
from dalenius.studio.known_release import StudioRelease
from dalenius.studio.messages import not_found

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")


class Releases:
    """All releases, in the order in which they came."""

    def __init__(self, out: Path | None, unsaved: Path) -> None:
        """New ones go into folders of their own under `out`, or, if there is none, under `unsaved`."""
        self._out, self._unsaved = out, unsaved
        self._lock = threading.Lock()
        self._releases: dict[str, StudioRelease] = {}
        self._target: Path | None = None  # of the release that was begun last
        if out is not None:
            remove_left_behind(out)

    def target(self, name: str) -> Path:
        """Where a new release of this name is to be made; an error if the name is taken, or not a plain one."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UsageError(
                "the name of a release is 1 to 60 letters, digits, dots, hyphens and underscores, a dot not first",
                "Give it another name.",
            )
        taken = any(other.name.casefold() == name.casefold() for other in self.all() if other.table or not other.saved)
        path = self._out / name if self._out is not None else self._unsaved / secrets.token_hex(12)
        if taken or path.exists() or path.is_symlink():
            raise UsageError("there is a release of this name already", "Give it another name.")
        return path

    def begin(self, target: Path) -> None:
        """A release is being made there."""
        self._target = target

    def add(self, release: StudioRelease) -> None:
        """A release that is complete."""
        with self._lock:
            self._releases[release.id] = release

    def open(self, path: Path) -> None:
        """A release that was made before."""
        folder = open_release(path)
        name = path.resolve().name or "release"
        self.add(StudioRelease(new_id(), name, folder, saved=True, job_text=_job_of(folder.manifest)))

    def get(self, identifier: str) -> StudioRelease:
        """The release with an ID."""
        with self._lock:
            found = self._releases.get(identifier)
        if found is None:
            raise not_found()
        return found

    def all(self) -> list[StudioRelease]:
        """Every release."""
        with self._lock:
            return list(self._releases.values())

    def without_table(self, identifier: str) -> None:
        """A table is gone: what was made of it has no truth any more."""
        for release in self.all():
            if release.table is not None and release.table.id == identifier:
                release.table = None

    def abandon_unfinished(self) -> None:
        """The program is about to end in the middle of publishing: leave nothing of it beside the target."""
        if self._target is not None:
            abandon(self._target)

    def leave_something(self) -> bool:
        """Whether there is still something beside the target of the release that was begun last."""
        return self._target is not None and is_staged(self._target)

    def close(self) -> None:
        """Let go of all files."""
        for release in self.all():
            release.close()


def new_id() -> str:
    """A name that nobody can guess."""
    return secrets.token_urlsafe(12)


def _job_of(made: Manifest) -> str:
    """A job file from what a manifest says: its limits one by one, for the rule they came from is not in it."""
    from dalenius.policy.job import job_text

    return job_text(
        Job(
            table=TableSection(
                sensitive=made.columns.sensitive.name,
                quasi_identifiers=[column.name for column in made.columns.quasi_identifiers],
                null_value=made.null_value,
                strata="auto" if made.strata is not None else "none",
            ),
            limits=LimitsSection(values={value.value: value.limit for value in made.values}),
            adversary=AdversarySection(corrupted=made.adversary.known_records, fakes=made.adversary.fake_values),
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
        (self.path / f"{_LOCK}-new").rename(self.path / _LOCK)  # so a lock that can be found is taken, always
        atexit.register(self.remove)

    def folder(self, name: str) -> Path:
        """A folder inside, made if it is not there."""
        path = self.path / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def is_there(self) -> bool:
        """Whether something of it is still there."""
        return os.path.lexists(self.path)

    def remove(self) -> None:
        """Remove it with all that it holds."""
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.is_there():
                break
            time.sleep(_BETWEEN_ATTEMPTS)  # a thread that is about to end may have put something there
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
