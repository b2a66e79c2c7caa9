"""The file of a ledger: encrypted, and whole or not at all.

The file: a line of JSON with its version, a salt, and a check of the key; then frames, each with its length before it
and encrypted by itself (AES-256-GCM, its number as the nonce, the first line as associated data). The key is made of
the salt, so no two files have one. Frames have entries. The last one says what the ledger belongs to and how many there
are before it, and eight bytes at the end say where it is: a file that was cut short, or goes on, is found out.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dalenius.errors import LedgerError
from dalenius.release.atomic import sync

KEY_VARIABLE = "DALENIUS_LEDGER_KEY"
# a pseudonym of 96 bits, the person's bucket, the number of their value, and the last release in which they were
ENTRY = np.dtype([("high", "<u8"), ("low", "<u4"), ("bucket", "<u4"), ("value", "<u4"), ("seen", "<u4")])
Entries = npt.NDArray[np.void]

_FORMAT = 1
KEY_BYTES = 32
_SALT_BYTES = 16
_FRAME_ENTRIES = 2**17
_TAG = 16  # bytes that encryption adds
_LARGEST_FRAME = max(ENTRY.itemsize * _FRAME_ENTRIES, 2**26) + _TAG  # the first has texts
LONGEST_LINE = 2**10
_LAST, _PLACE = 2**96 - 1, 8  # the nonce of the last frame; bytes at the end that say where it is
_BLOCK, _LENGTH = 16, 4  # bytes: of AES, and of the length of a text
OWNER = 0o600
RESTORE = "Restore the ledger that was written with that release."


class LedgerKey:
    """The secret that hashes persons and encrypts ledgers. It does not show itself.

    A new one is written to its file with the first ledger.
    """

    def __init__(self, secret: bytes, file: Path | None = None) -> None:
        self._secret, self._file = secret, file
        self._written: Path | None = None

    def keep(self) -> None:
        """Write a new key to its file, which only its owner can read."""
        if self._file is None:
            return
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
        self._written = self._file
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._secret.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync(self._file.parent)
        self._file = None

    def forget(self) -> None:
        """Remove the file of a key that was new: no ledger was written with it."""
        if self._written is not None:
            self._written.unlink(missing_ok=True)

    def derive(self, purpose: bytes, salt: bytes = b"") -> bytes:
        """A key for one purpose."""
        return hmac.digest(self._secret, b"dalenius ledger v1\n" + purpose + b"\n" + salt, "sha256")

    def pseudonyms(self, persons: pa.Array) -> npt.NDArray[np.uint64]:
        """Two numbers for each person, which nobody can link to them without the key, and nobody can turn back with it.

        The state of AES-CBC-MAC over the length of the text and its bytes, encrypted once more and added to itself.
        """
        offsets, data = _bytes_of(persons)
        starts, lengths = offsets[:-1], np.diff(offsets)
        cipher = Cipher(AES(self.derive(b"persons")), ECB()).encryptor()  # noqa: S305 (blocks, chained here)
        state = np.zeros((len(persons), _BLOCK), np.uint8)
        state[:, :_LENGTH] = lengths.astype("<u4").view(np.uint8).reshape(-1, _LENGTH)
        state[:, _LENGTH:] = _part(data, starts, lengths, 0, _BLOCK - _LENGTH)
        at = _BLOCK - _LENGTH
        while len(rest := np.flatnonzero(lengths > at)):
            more = _part(data, starts[rest], lengths[rest], at, _BLOCK)
            state[rest] = _encrypted(cipher, state[rest]) ^ more
            at += _BLOCK
        return (_encrypted(cipher, state) ^ state).view(np.uint64)

    def check(self, salt: bytes) -> str:
        """By which a file knows its key."""
        return self.derive(b"check", salt)[:8].hex()


def _encrypted(cipher: CipherContext, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(cipher.update(blocks.tobytes()), np.uint8).reshape(blocks.shape)


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where each text begins, and last where the last one ends, in the bytes of all of them; there are no nulls.

    There are some bytes more behind the last text.
    """
    _, offsets, data = texts.buffers()
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    found = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    first, last = int(found[0]), int(found[-1])
    own = np.zeros(last - first + _BLOCK, np.uint8)
    if last > first:
        own[: last - first] = np.frombuffer(data, np.uint8)[first:last]
    return found - first, own


def _part(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], at: int, width: int
) -> npt.NDArray[np.uint8]:
    """Some bytes of each text from a place on, and zeros behind its end."""
    windows = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    taken = windows[starts + np.minimum(at, lengths)].view(np.uint8).reshape(len(starts), width)
    left = np.clip(lengths - at, 0, width)
    if len(left) and int(left.min()) < width:
        masks = np.tri(width + 1, width, -1, np.uint8) * np.uint8(255)
        taken &= masks.view(f"V{width}").ravel()[left].view(np.uint8).reshape(taken.shape)
    return taken


class Belongs(NamedTuple):
    """What a ledger belongs to: a release by its number in the chain and the SHA-256 of its manifest.

    `before` is the manifest before, and `target` where the release was to be, which only a ledger that waits needs.
    `values` are the texts of all values, by their numbers, and `rule` is the one that limits were made by at first.
    """

    release: int
    manifest: str
    before: str | None
    target: str
    values: list[str]
    rule: str


@dataclass(frozen=True)
class Ledger:
    """One file of entries, in the order of pseudonyms."""

    path: Path
    key: LedgerKey
    belongs: Belongs

    def entries(self) -> Iterator[Entries]:
        """All entries, some at a time; an error if the file is damaged."""
        with reading_ledger(), self.path.open("rb") as file:
            for frame in frames_of(file, self.key):
                yield np.frombuffer(frame, ENTRY)


def write_ledger(
    file: IO[bytes], key: LedgerKey, belongs: Belongs | Callable[[], Belongs], entries: Iterable[Entries]
) -> None:
    """Write the file of a ledger. What it belongs to may be known only when all entries are written."""
    salt = secrets.token_bytes(_SALT_BYTES)
    head = json.dumps({"dalenius ledger": _FORMAT, "salt": salt.hex(), "check": key.check(salt)}).encode() + b"\n"
    cipher = AESGCM(key.derive(b"file", salt))
    file.write(head)
    number, end = 0, len(head)

    def put(content: bytes, nonce: int) -> None:
        nonlocal end
        sealed = cipher.encrypt(nonce.to_bytes(12), content, head)
        file.write(len(sealed).to_bytes(4))
        file.write(sealed)
        end += 4 + len(sealed)

    for some in entries:
        for start in range(0, len(some), _FRAME_ENTRIES):
            put(some[start : start + _FRAME_ENTRIES].tobytes(), number)
            number += 1
    known = belongs if isinstance(belongs, Belongs) else belongs()
    last = json.dumps({"frames": number, **known._asdict()}, ensure_ascii=False).encode()
    if len(last) > _LARGEST_FRAME - _TAG:
        raise LedgerError("the sensitive values are too long for a ledger", "Shorten their texts.")
    at = end
    put(last, _LAST)
    file.write(at.to_bytes(_PLACE))


def read_belongs(file: IO[bytes], key: LedgerKey) -> Belongs:
    """What the file of a ledger belongs to."""
    said, _ = _opened(file, key)
    try:
        return Belongs(**said)
    except TypeError:
        raise damaged() from None


def frames_of(file: IO[bytes], key: LedgerKey) -> Iterator[bytes]:
    """The entries of a file, frame by frame."""
    _, frames = _opened(file, key)
    yield from frames


def _opened(file: IO[bytes], key: LedgerKey) -> tuple[dict[str, Any], Iterator[bytes]]:
    """What the last frame says, and the frames before it."""
    head = file.readline(LONGEST_LINE)
    try:
        said: Any = json.loads(head)
        salt, check, version = bytes.fromhex(said["salt"]), said["check"], said["dalenius ledger"]
    except (ValueError, KeyError, TypeError):
        raise LedgerError("the file is no ledger of Dalenius", RESTORE) from None
    if version != _FORMAT:
        raise LedgerError("the ledger was written by a later version of Dalenius", "Use that version.")
    if not hmac.compare_digest(str(check), key.check(salt)):
        raise LedgerError(
            "the key is not the one of this ledger", f"Give the key that was made with it: the file, or {KEY_VARIABLE}."
        )
    cipher = AESGCM(key.derive(b"file", salt))
    size = file.seek(0, os.SEEK_END)
    file.seek(max(len(head), size - _PLACE))
    at = int.from_bytes(file.read(_PLACE))
    if not len(head) <= at < size - _PLACE:
        raise damaged()
    file.seek(at)
    last = _read_frame(file, cipher, _LAST, head)
    if file.tell() != size - _PLACE:
        raise damaged()
    try:
        found = json.loads(last)
        frames = int(found.pop("frames"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged() from None

    def before() -> Iterator[bytes]:
        file.seek(len(head))
        for number in range(frames):
            yield _read_frame(file, cipher, number, head)
        if file.tell() != at:
            raise damaged()

    return found, before()


def _read_frame(file: IO[bytes], cipher: AESGCM, nonce: int, head: bytes) -> bytes:
    size = int.from_bytes(file.read(4))
    if not _TAG <= size <= _LARGEST_FRAME:
        raise damaged()
    sealed = file.read(size)
    if len(sealed) < size:
        raise damaged()
    try:
        return cipher.decrypt(nonce.to_bytes(12), sealed, head)
    except InvalidTag:
        raise damaged() from None


def damaged() -> LedgerError:
    """The error for a ledger that is not as it was written."""
    return LedgerError("the ledger is damaged, or was changed", RESTORE)


@contextmanager
def reading_ledger(what: str = "the ledger") -> Iterator[None]:
    """Turn what the file system says into a `LedgerError`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the file system failed"
        raise LedgerError(f"{what} cannot be read: {reason}", "Check the path of --ledger.") from None
