"""The publisher's private file of a chain of releases: who is in which bucket, and which of its values is theirs.

It belongs to exactly one release, the latest, and the next one is made from both. Persons are in it as keyed hashes,
and all of it is encrypted. Its key is in a file beside it, or in the environment.

A release and its ledger are in two places, so they cannot change in one step. The new ledger is written first, beside
the old one, under a name that says that it waits (`waiting`). The release then takes its place, which decides. Then the
new ledger takes the place of the old. Whoever finds a ledger that waits knows by the release that it names whether that
was published (`open_ledger`): nothing is published twice, and nothing is published that the ledger does not know.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dalenius.errors import InputError, LedgerError, SelfCheckError, UsageError
from dalenius.release.atomic import hidden_name, sync, writable
from dalenius.release.ledger_file import (
    KEY_BYTES,
    KEY_VARIABLE,
    LONGEST_LINE,
    OWNER,
    RESTORE,
    Belongs,
    Entries,
    Ledger,
    LedgerKey,
    read_belongs,
    reading_ledger,
    write_ledger,
)
from dalenius.release.manifest import FILE

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class OpenLedger:
    """A ledger that nobody else can use now, and the one that is to follow on it."""

    def __init__(self, path: Path, key: LedgerKey, now: Ledger | None) -> None:
        self._path, self.key, self.now = path, key, now
        self._part: Path | None = None

    @contextmanager
    def part(self) -> Iterator[None]:
        """A file for the ledger of a release that is about to be published: gone at the end, unless it waits then."""
        self._part = hidden_name(self._path, "part")
        try:
            yield
        finally:
            self._part.unlink(missing_ok=True)

    def write(self, belongs: Belongs | Callable[[], Belongs], entries: Iterable[Entries]) -> None:
        """Write it, from any thread."""
        if self._part is None:
            raise SelfCheckError("a ledger is written that has no file")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with writable("the ledger", "--ledger"), os.fdopen(os.open(self._part, flags, OWNER), "wb") as file:
            write_ledger(file, self.key, belongs, entries)
            file.flush()
            os.fsync(file.fileno())

    def wait(self) -> None:
        """The release is about to take its place: from now on its ledger waits, until `settle` or `withdraw`."""
        with writable("the ledger", "--ledger"):
            self.key.keep()
            if self._part is None:
                raise SelfCheckError("a ledger waits before it is written")
            self._part.rename(waiting(self._path))
            sync(self._path.parent)

    def settle(self) -> None:
        """The release is published: its ledger takes the place of the one before."""
        with writable("the ledger", "--ledger"):
            waiting(self._path).replace(self._path)
            sync(self._path.parent)

    def withdraw(self) -> None:
        """The release was not published: its ledger was never there."""
        with suppress(OSError):
            waiting(self._path).unlink(missing_ok=True)
            self.key.forget()


def waiting(path: Path) -> Path:
    """Where a ledger waits until its release is published."""
    return path.with_name(f"{path.name}.next")


def key_file(path: Path) -> Path:
    """Where the key of a ledger is, unless the environment has it."""
    return path.with_name(f"{path.name}.key")


def digest_of_release(folder: Path) -> str | None:
    """The SHA-256 of the manifest in a folder; None if there is none."""
    path = folder / FILE
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:
        return None


@contextmanager
def open_ledger(path: Path, after: Path | None) -> Iterator[OpenLedger]:
    """The ledger at a path, for whoever publishes `after` the release in a folder, or the first release of a chain.

    What an interrupted run left is settled first. An error if the ledger belongs to another release.
    """
    with _locked(path):
        now: Ledger | None = None
        if after is None:
            key = _new_chain(path)
        else:
            key = _key_of(path)
            digest = digest_of_release(after)
            if digest is None:
                raise InputError("the release to follow on has no manifest that can be read", "Give its folder.")
            now = _ledger_of(path, key, digest)
        yield OpenLedger(path, key, now)


def _new_chain(path: Path) -> LedgerKey:
    """The key for a first release: an error if there is a ledger already."""
    if path.exists():
        raise UsageError(
            "there is a ledger already, of releases that this one would not follow on",
            "Name the last of them: --after. For a release that has nothing to do with them, give another --ledger.",
        )
    if waiting(path).exists():
        key = _key_of(path)
        left = _read_ledger(waiting(path), key)
        if digest_of_release(Path(left.belongs.target)) == left.belongs.manifest:
            waiting(path).replace(path)
            raise UsageError(
                "the first release with this ledger was published already, by a run that was interrupted after that",
                "Name it: --after.",
            )
        _forget(path, left)
        return key
    if os.environ.get(KEY_VARIABLE):
        return _key_of(path)
    if key_file(path).exists():
        raise LedgerError(
            "there is the key of a ledger, and the ledger is not there: is it lost, or elsewhere?",
            "Give its path. For a release that has nothing to do with earlier ones, give another --ledger.",
        )
    return LedgerKey(secrets.token_bytes(KEY_BYTES), key_file(path))


def _ledger_of(path: Path, key: LedgerKey, digest: str) -> Ledger:
    """The ledger of the release with this manifest."""
    now = _read_ledger(path, key) if path.exists() else None
    left = _read_ledger(waiting(path), key) if waiting(path).exists() else None
    if left is not None and left.belongs.manifest == digest:  # published, and then interrupted
        with writable("the ledger", "--ledger"):
            waiting(path).replace(path)
        return Ledger(path, key, left.belongs)
    if now is None:
        raise UsageError(
            "there is no ledger at this path, and without it nobody knows who is in which bucket",
            "Give the --ledger with which the release was published. Is it lost? Then a release of these people can "
            "only be a first one again, without --after; 'dalenius audit' says what both together give away.",
        )
    if now.belongs.manifest != digest:
        if now.belongs.before == digest:
            raise LedgerError(
                "the ledger is of a later release than the one given: another one follows on it already",
                "Give the latest release: --after.",
            )
        raise LedgerError(
            "the ledger belongs to another release than the one given: it was restored from an older backup, or is of "
            "another chain",
            RESTORE,
        )
    if left is not None:
        if digest_of_release(Path(left.belongs.target)) == left.belongs.manifest:
            raise LedgerError(
                "a release that follows on the one given was published already, by a run that was interrupted then",
                "Give that release: --after.",
            )
        _forget(path, left)
    return now


def _forget(path: Path, left: Ledger) -> None:
    """Remove a ledger that waits for a release that was never published; an error if nobody can tell."""
    target = Path(left.belongs.target)
    staged = [*target.parent.glob(".*.staging-*"), *target.parent.glob(".*.ready-*/release")]
    if not any(digest_of_release(folder) == left.belongs.manifest for folder in staged):
        raise LedgerError(
            "a run was interrupted while it published, and its release is not where it was to be",
            "If you have that release, give it as --after. If it is nowhere, remove the ledger that waits for it: the "
            "file with '.next' behind the ledger's name.",
        )
    waiting(path).unlink()


def _read_ledger(path: Path, key: LedgerKey) -> Ledger:
    with reading_ledger(), path.open("rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
            raise LedgerError("others than its owner can read the ledger", "Run: chmod 600 on it.")
        return Ledger(path, key, read_belongs(file, key))


def _key_of(path: Path) -> LedgerKey:
    """From the environment, or from the file beside the ledger."""
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        with reading_ledger("the key of the ledger"):
            file = key_file(path)
            if not file.exists():
                raise LedgerError(
                    "the key of the ledger is not there",
                    f"Put it beside the ledger, with '.key' behind its name, or into {KEY_VARIABLE}.",
                )
            if stat.S_IMODE(file.stat().st_mode) & _OTHERS:
                raise LedgerError("others than its owner can read the key of the ledger", "Run: chmod 600 on it.")
            text = file.read_bytes()[:LONGEST_LINE].decode("ascii", "replace")
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise LedgerError(
            f"the key of the ledger is not {2 * KEY_BYTES} hexadecimal digits",
            "Give the key that was made with the ledger; for a new one: openssl rand -hex 32.",
        )
    return LedgerKey(secret)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else uses the ledger meanwhile."""
    with writable("the ledger", "--ledger"):
        if path.is_dir():
            raise UsageError("the path of the ledger is a folder", "Give --ledger a file.")
        new_parents = [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.with_name(f".{path.name}.lock")
        file = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT, OWNER), "wb")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = name.exists() and os.path.samestat(os.fstat(file.fileno()), name.stat())
        except OSError:
            is_ours = False
        if not is_ours:
            raise LedgerError("another run is using the ledger", "Wait until it is done.")
        try:
            for part in path.parent.glob(f".{glob.escape(path.name)}.part-*"):  # of runs that were killed
                part.unlink(missing_ok=True)
            yield
        finally:
            with suppress(OSError):
                name.unlink()
                for parent in new_parents:  # folders that were made for a ledger that is not there
                    parent.rmdir()
