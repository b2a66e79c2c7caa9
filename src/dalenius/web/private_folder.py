"""A folder for uploads and unsaved releases that nobody else can read, and that is gone at the end.

Whatever ends the program, the folder goes: at the end, at exit, or, after a kill, when Studio is next started. A folder
that was left behind is recognised by its lock being free.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

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
