"""The files of a release: whether they are there, and whether they are the ones that the manifest names."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from dalenius.audit.report import FILES, HASHES, Report, plural
from dalenius.audit.watch import Watch
from dalenius.errors import ReleaseError
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import FILE

_CHUNK = 2**20
_LISTED = 5


def require_folder(folder: Path) -> None:
    """A release is a folder; anything else is wrong use, not a release that fails."""
    try:
        if not folder.exists():
            raise ReleaseError("there is no folder at the path given", "Check the path.")
        if not folder.is_dir():
            raise ReleaseError("the path given is not a folder", "Give the folder of a release.")
        next(folder.iterdir(), None)
    except OSError as error:
        raise ReleaseError(f"the folder cannot be read: {error.strerror}", "Check its permissions.") from None


def is_there(path: Path, report: Report) -> bool:
    """Whether a file of the release is there, and a file: a pipe or a device would never end."""
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return True
        report.found(FILES, f"{path.name} is not a regular file")
    except OSError as error:
        report.found(FILES, f"{path.name} is not there, or cannot be read: {error.strerror}")
    return False


def note_other_files(release: ReleaseFolder, report: Report) -> None:
    """Whatever else lies in the folder is not verified, and might be published by mistake."""
    known = {FILE, release.file("qit").name, release.file("st").name}
    others = sorted(entry.name for entry in release.path.iterdir() if entry.name not in known)
    if others:
        listed = ", ".join(map(repr, others[:_LISTED])) + (" and more" if len(others) > _LISTED else "")
        report.note(f"the folder has {plural(len(others), 'other file')}, not verified: {listed}")


def check_hashes(release: ReleaseFolder, tables: list[TableName], watch: Watch) -> Report:
    """Length and SHA-256 of each table, read once from start to end."""
    report = Report()
    entries = {"qit": release.manifest.tables.qit, "st": release.manifest.tables.st}
    for table in tables:
        entry = entries[table]
        try:
            length, digest = _digest(release.file(table), watch)
        except OSError as error:
            report.found(HASHES, f"{entry.file} cannot be read: {error.strerror}")
            continue
        if length != entry.bytes:
            report.found(HASHES, f"{entry.file} has {length:,} bytes, and the manifest says {entry.bytes:,}")
        if digest != entry.sha256:
            report.found(HASHES, f"the SHA-256 of {entry.file} is not the one in the manifest")
    return report


def _digest(path: Path, watch: Watch) -> tuple[int, str]:
    length, digest = 0, hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            digest.update(view[:read])
            length += read
            watch.step()
    return length, digest.hexdigest()
