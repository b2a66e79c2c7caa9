"""The files of a release: whether they are there, and whether they are the ones that the manifest names.

`Watch` is shared by the threads that read: it says how far the checks are, and passes on the order to stop.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dalenius.errors import ReleaseError
from dalenius.model.progress import Progress, Silent
from dalenius.model.verdict import Signature, SignatureState
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import FILE, SIGNATURE_FILE, parse_manifest
from dalenius.release.store import Store
from dalenius.release.two_tables import TableFile, TablePart, digest_of_parts
from dalenius.verify.findings import FILES, HASHES, SIGNATURE, Report, plural
from dalenius.verify.stated_people import all_tables

if TYPE_CHECKING:
    from dalenius.release.signature import PublicKey

_CHUNK = 2**20
_LISTED = 5


class StoppedError(Exception):
    """The checks were called off; never seen outside of them."""


class Watch:
    """Adds up the rows that were read, and ends the threads that ask it when somebody has called off the checks."""

    def __init__(self, total: int, progress: Progress | None = None) -> None:
        self._progress: Progress = progress or Silent()
        self._left = total
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let every thread end at its next step."""
        self._stopped.set()

    def step(self, rows: int = 0) -> None:
        """So many rows more are read."""
        if self._stopped.is_set():
            raise StoppedError
        if rows:
            with self._lock:
                rows = min(self._left, rows)
                self._left -= rows
                self._progress.advance(rows)


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


def is_there(path: Path, report: Report, name: str | None = None) -> bool:
    """Whether a file of the release is there, and a file: a pipe or a device would never end."""
    shown = name or path.name
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return True
        report.fail(FILES, f"{shown} is not a regular file")
    except OSError as error:
        report.fail(FILES, f"{shown} is not there, or cannot be read: {error.strerror}")
    return False


def table_is_there(release: ReleaseFolder, table: TableName, report: Report) -> bool:
    """Whether all files of a table are there, in a folder of the release's own if they are parts."""
    if release.entry(table).parts is not None and not _is_no_link(release, table, report):
        return False
    lacking = Report()
    listed: set[str] | None = None
    for name in release.files(table):
        path = release.store.local(name)
        if path is not None:
            is_there(path, lacking, name)
            continue
        if listed is None:
            listed = set(release.store.names() or ())
        if name not in listed:  # the store may not know what it has, or not all of it
            _is_there_elsewhere(release.store, name, lacking)
    report.findings += lacking.findings[:_LISTED]
    if len(lacking.findings) > _LISTED:
        more = len(lacking.findings) - _LISTED
        report.fail(FILES, f"{plural(more, 'more file')} of {release.name(table)} are not there", more)
    return not lacking.findings


def _is_no_link(release: ReleaseFolder, table: TableName, report: Report) -> bool:
    """Whether the folder of parts is a folder: what a link leads to is not in the release."""
    name = release.name(table)
    path = release.store.local(name)
    try:
        if path is None or stat.S_ISDIR(path.lstat().st_mode):
            return True
        report.fail(FILES, f"{name} is not a folder")
    except OSError as error:
        report.fail(FILES, f"{name} is not there, or cannot be read: {error.strerror}")
    return False


def _is_there_elsewhere(store: Store, name: str, report: Report) -> None:
    try:
        store.open(name).close()
    except OSError as error:
        why = error.strerror or "the store failed"
        report.fail(FILES, f"{name} is not there, or cannot be read: {why}")


def other_files(release: ReleaseFolder) -> list[str]:
    """Whatever lies in the folder besides the release, as far as anybody can say."""
    known = {FILE, SIGNATURE_FILE, *(name for table in all_tables(release.manifest) for name in table.files)}
    return [name for name in release.store.names() or () if name not in known]


def note_other_files(release: ReleaseFolder, report: Report) -> None:
    """Whatever else lies in the folder is not verified, and might be published by mistake."""
    try:
        others = other_files(release)
    except ReleaseError as error:
        report.fail(FILES, error.message)
        return
    except OSError as error:
        report.fail(FILES, f"what else is in the folder cannot be seen: {error.strerror or 'the store failed'}")
        return
    if others:
        listed = ", ".join(map(repr, others[:_LISTED])) + (" and more" if len(others) > _LISTED else "")
        report.note(f"the folder has {plural(len(others), 'other file')}, not verified: {listed}")


def check_signature(release: ReleaseFolder, key: PublicKey | None, report: Report) -> None:
    """Whether the manifest was signed with the key. Without one, a signature is only looked at: it must be one."""
    if not _may_be_there(release.store, SIGNATURE_FILE):
        if key is not None:
            report.fail(SIGNATURE, f"the release is not signed: it has no {SIGNATURE_FILE}")
        state = SignatureState.ABSENT
    else:
        state = _signature_state(release, key, report)
    report.signature = Signature(state, key.fingerprint if key is not None else None)


def _may_be_there(store: Store, name: str) -> bool:
    """Whether a store has something of that name that is no folder, as far as it can say."""
    path = store.local(name)
    if path is not None:
        return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())
    names = store.names()
    return names is None or name in names


def _signature_state(release: ReleaseFolder, key: PublicKey | None, report: Report) -> SignatureState:
    from dalenius.release.signature import LENGTH, parse_signature  # here, because few releases need it

    check = FILES if key is None else SIGNATURE
    path = release.store.local(SIGNATURE_FILE)
    if path is not None and not is_there(path, report):
        report.not_checked([SIGNATURE], f"{SIGNATURE_FILE} is not a file of the release")
        return SignatureState.INVALID
    try:
        with release.store.open(SIGNATURE_FILE) as file:
            signature = parse_signature(file.read(LENGTH + 1))
        with release.store.open(FILE) as file:
            content = file.read() if key is not None else b""
    except OSError as error:
        report.fail(check, f"{SIGNATURE_FILE} cannot be checked: {error.strerror or 'the store failed'}")
        return SignatureState.INVALID
    if signature is None:
        report.fail(check, f"{SIGNATURE_FILE} is not a signature: one line of 88 characters")
        return SignatureState.INVALID
    if key is None:
        report.note("the release is signed; whose signature it is was not checked, which needs the public key")
        return SignatureState.UNCHECKED
    if not key.has_signed(content, signature):
        report.fail(SIGNATURE, f"{SIGNATURE_FILE} is not a signature of this manifest with the key given")
        return SignatureState.INVALID
    if not _is_manifest(content, release):
        report.fail(SIGNATURE, "the manifest changed while it was being verified")
        return SignatureState.INVALID
    return SignatureState.VALID


def _is_manifest(content: bytes, release: ReleaseFolder) -> bool:
    """Whether what was signed is what everything else is compared with."""
    try:
        return parse_manifest(content.decode()) == release.manifest
    except (ReleaseError, UnicodeDecodeError):
        return False


def check_hashes(release: ReleaseFolder, tables: list[TableName], watch: Watch) -> Report:
    """Length and SHA-256 of each file of each table, read once from start to end."""
    report = Report()
    for table in tables:
        entry = release.entry(table)
        stated: list[TableFile | TablePart] = [entry] if entry.parts is None else [*entry.parts]
        files = zip(entry.files, stated, strict=True)
        every = [_check_file(release, name, statement, watch, report) for name, statement in files]
        digests = [digest for digest in every if digest is not None]
        if entry.parts is not None and len(digests) == len(stated) and digest_of_parts(digests) != entry.sha256:
            report.fail(HASHES, f"the SHA-256 of {entry.file}, made of those of its parts, is not the manifest's")
    return report


def _check_file(
    release: ReleaseFolder, name: str, stated: TableFile | TablePart, watch: Watch, report: Report
) -> str | None:
    """Compare one file with what the manifest says of it. Gives its digest if it can be read."""
    try:
        with release.store.open(name) as file:
            length, digest = _digest(file, watch)
    except OSError as error:
        report.fail(HASHES, f"{name} cannot be read: {error.strerror or 'the store failed'}")
        return None
    if length != stated.bytes:
        report.fail(HASHES, f"{name} has {length:,} bytes, and the manifest says {stated.bytes:,}")
    if digest != stated.sha256:
        report.fail(HASHES, f"the SHA-256 of {name} is not the one in the manifest")
    return digest


def _digest(file: BinaryIO, watch: Watch) -> tuple[int, str]:
    length, digest = 0, hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        length += len(chunk)
        watch.step()
    return length, digest.hexdigest()
