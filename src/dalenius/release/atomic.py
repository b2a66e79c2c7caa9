"""The atomic writer: a file or a folder is in its place whole, or whatever was there before still is.

Everything is written beside its place under another name, brought to the disk, and moved into place in one step. An
error, a full disk or Ctrl-C leaves the old file; a killed program may also leave the file with the other name.

- `writable` turns what the file system says into an `OutputError`.
- `write_file` and `write_files` write contents that are known: one file, or several of which all or none are replaced.
- `whole_file` gives a file to write into bit by bit.
- `hidden_name`, `sync`, `sync_folder` and `exchange` are the steps, for folders (`release.staging`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dalenius.errors import OutputError

Check = Callable[[Path], None]  # raises if a place must not be taken

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD
_OWNER = 0o600


@contextmanager
def writable(what: str = "the output", option: str = "--out") -> Iterator[None]:
    """Turn a failure to write `what` into an `OutputError`. `option` is how a user gives it another place."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):
            another = "another --out" if option == "--out" else f"{option} another place"
            raise OutputError("the disk is full", f"Make room there, or give {another}.") from None
        reason = os.strerror(error.errno) if error.errno else "the file system failed"  # Arrow's own text has paths
        raise OutputError(f"{what} cannot be written: {reason}", "Check the folder and its permissions.") from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, or leave the old one as it is."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes], check: Check = lambda _: None) -> None:
    """Write several files, all of them or none. `check` sees each place just before it is taken."""
    with _parts(contents) as parts:
        for path, part in parts.items():
            with part.open("xb") as file:
                file.write(contents[path])
                _sync_file(file)
        _put(parts, check)


@contextmanager
def whole_file(path: Path, check: Check, what: str, option: str) -> Iterator[IO[bytes]]:
    """A file to write into, which takes its place at the end. Only its owner may read it.

    `check` is asked before the first byte is written and again before the place is taken. `what` and `option` are the
    words of `writable`, which is around all that is done here and not around what the caller does.
    """
    with _parts([path]) as parts:
        with writable(what, option):
            check(path)
            file = os.fdopen(os.open(parts[path], os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER), "wb")
        try:
            yield file
            with writable(what, option):
                _sync_file(file)
        finally:
            with suppress(OSError):  # it is complete already, or there is another error to tell
                file.close()
        with writable(what, option):
            _put(parts, check)


@contextmanager
def _parts(paths: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    """Names for files that are not complete yet. Files that still have them at the end are removed."""
    parts = {path: path.with_name(f".dalenius-{secrets.token_hex(8)}.part") for path in paths}
    try:
        yield parts
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def _put(parts: Mapping[Path, Path], check: Check) -> None:
    """Move each file into its place. The last move decides: until then all can be taken back."""
    *first, (last, last_part) = parts.items()
    before: dict[Path, Path | None] = {}
    try:
        for path, part in first:
            check(path)
            aside = part.with_suffix(".old")
            if os.path.lexists(path):
                shutil.copy2(path, aside, follow_symlinks=False)
                before[path] = aside
            else:
                before[path] = None
            part.replace(path)
        check(last)
        last_part.replace(last)
    except BaseException:
        if last_part.exists():
            _take_back(parts, before)
        raise
    finally:
        for _, part in first:
            part.with_suffix(".old").unlink(missing_ok=True)
    for folder in {path.parent for path in parts}:
        with suppress(OSError):  # the files are in their places: too late for an error
            sync(folder)


def _take_back(parts: Mapping[Path, Path], before: Mapping[Path, Path | None]) -> None:
    for path, aside in before.items():
        if aside is not None:
            aside.replace(path)
        elif not parts[path].exists():  # it went to its place
            path.unlink(missing_ok=True)


def hidden_name(target: Path, state: str) -> Path:
    """A name beside the target that nobody else has."""
    return target.parent / f".{target.name}.{state}-{secrets.token_hex(8)}"


def exchange(one: Path, other: Path) -> None:
    """Swap two folders in one step; in two where the system has no such call."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2") and not libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return
    aside = hidden_name(other, "old")  # which nobody else removes
    other.rename(aside)
    try:
        one.rename(other)
    except BaseException:
        aside.rename(other)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Bring all that is in a folder to the disk."""
    for path in folder.rglob("*"):
        sync(path)


def sync(path: Path) -> None:
    """Bring a file, or the list of files in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
