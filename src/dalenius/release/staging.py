"""All or nothing: a release is made in a folder beside its target, and takes its place when it is complete.

Whatever ends the program early, the target is what it was before: the old release, or none. A staging folder that a
killed program left behind is removed by the next one with the same target, or by Studio when it is started with the
same folder; it is recognised by its lock being free.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path

from dalenius.errors import ReleaseError, UsageError
from dalenius.release.atomic import exchange, hidden_name, sync, sync_folder, writable
from dalenius.release.manifest import FILE, SIGNATURE_FILE, tables_of_release
from dalenius.release.store import LocalStore

Ours = Callable[[Path], bool]  # whether a folder is one of a kind, and may be replaced

_LOCK = ".lock"
_OWNER = 0o700
_MOMENT = 60.0  # seconds
_OURS = re.compile(r"\..+\.(staging|new|ready)-[0-9a-f]{16}", re.DOTALL)


class Staging:
    """A folder to write into; `commit` puts it in the place of the target."""

    def __init__(self, folder: Path, target: Path, ours: Ours | None) -> None:
        self.folder, self._target, self._ours = folder, target, ours
        self._around: Path | None = None
        self._syncing: Future[None] | None = None

    def sync(self, workers: Executor) -> None:
        """Begin to bring all files to the disk, while they are being verified; `commit` waits for it."""
        self._syncing = workers.submit(sync_folder, self.folder)

    def commit(self, replace: bool) -> None:
        """Make the release visible, in one step."""
        if self._syncing is not None:
            self._syncing.result()
        else:
            sync_folder(self.folder)
        release = self._enclose()
        (release / _LOCK).unlink()
        release.chmod(_default_mode())
        sync(release)
        check_target(self._target, replace, self._ours)  # something may have been put there meanwhile
        if replace and self._target.is_dir():
            exchange(release, self._target)  # the old release is in our folder now, and goes with it
        else:
            release.rename(self._target)
        with suppress(OSError):  # the release is in its place: too late for an error
            sync(self._target.parent)

    def _enclose(self) -> Path:
        """Move the release into a folder that others may not enter: it can be given its own permissions there.

        So whatever ends the program, nobody else can read what is not in its place, nor an old release that is not any
        more.
        """
        self._around = hidden_name(self._target, "ready")
        self._around.mkdir(mode=_OWNER)
        return self.folder.rename(self._around / "release")

    def remove(self) -> None:
        """Remove what is not in its place."""
        for folder in (self.folder, self._around):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def check_target(target: Path, replace: bool, ours: Ours | None = None) -> None:
    """Refuse a target that is in the way, before any work is done; `ours` are folders that may be replaced."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError("the output path is there already, and is not a folder", "Give another --out.")
    if not target.exists():
        return
    if not replace:
        raise UsageError("the output folder is there already", "Give another --out, or --force to replace it.")
    if any(target.iterdir()) and not (ours or is_release)(target):
        what = "a release: --force replaces releases only" if ours is None else "of this kind: --force replaces it only"
        raise UsageError(
            f"the output folder is there already, and is not {what}",
            "Give another --out, or remove the folder yourself.",
        )


def is_release(folder: Path) -> bool:
    """Whether a folder holds the files of a release and nothing else."""
    tables = tables_of_release(folder)
    if tables is None:
        return False
    try:
        names = LocalStore(folder).names()
    except (ReleaseError, OSError):  # what is in it is not all files of a release, then
        return False
    paths = [folder / name for name in names]
    return {FILE, SIGNATURE_FILE, *tables} >= set(names) and all(
        path.is_file() and not path.is_symlink() for path in paths
    )


@contextmanager
def staging(target: Path, replace: bool, ours: Ours | None = None) -> Iterator[Staging]:
    """A staging folder beside the target, gone at the end whatever happens; `ours` are folders that it may replace."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 (resolve() would follow links)
    if not target.name:
        raise UsageError("the output path has no name", "Give --out a folder that can be made.")
    with writable():
        check_target(target, replace, ours)
        new_parents = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(target)
        stage = Staging(hidden_name(target, "new"), target, ours)
        stage.folder.mkdir(mode=_OWNER)  # nobody else is to see a release that is not verified
    try:
        with writable():
            lock = (stage.folder / _LOCK).open("wb")
        with lock:
            with writable():
                fcntl.flock(lock, fcntl.LOCK_EX)
                stage.folder = stage.folder.rename(hidden_name(target, "staging"))  # so such a folder is locked, always
            yield stage
    finally:
        stage.remove()
        for parent in new_parents:  # folders that were made for a release that is not there
            with suppress(OSError):
                parent.rmdir()


def abandon(target: Path) -> None:
    """Remove what is staged for a target, though it is being written: for a program that ends at once."""
    for folder in _staging_folders(target):
        shutil.rmtree(folder, ignore_errors=True)


def is_staged(target: Path) -> bool:
    """Whether something is staged for a target, or was left behind."""
    return bool(_staging_folders(target))


def _staging_folders(target: Path) -> list[Path]:
    target = Path(os.path.abspath(target))  # noqa: PTH100 (as above)
    return list(target.parent.glob(f".{_literal(target.name)}.staging-*"))


def remove_left_behind(parent: Path) -> None:
    """Remove what killed programs left in a folder of releases, of whatever names."""
    with suppress(OSError):
        for folder in parent.iterdir():
            if _OURS.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                _remove_if_left(folder)


def _remove_left_behind(target: Path) -> None:
    for state in ("staging", "new", "ready"):
        for folder in target.parent.glob(f".{_literal(target.name)}.{state}-*"):
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError, RecursionError):
        if folder.name.rpartition(".")[2].startswith("staging-"):
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        elif time.time() - folder.stat().st_ctime > _MOMENT:  # the others live for a moment only
            shutil.rmtree(folder)


def _default_mode() -> int:
    """The permissions of a folder that is made without any in mind."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o777 & ~mask


def _literal(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
