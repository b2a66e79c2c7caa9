"""The publisher's signature of a release: Ed25519, over the bytes of the manifest, which has the hashes of both tables.

What is signed is `b"dalenius release manifest v1\\n"` and the bytes of manifest.json behind it, so that no signature
made for something else can be passed off as one of a release. manifest.sig has the 64 bytes of the signature as one
line of base64: 88 characters and a newline. There is no other way to write it.

Keys are PEM files: PKCS#8 for the private key, with a passphrase or without, and SubjectPublicKeyInfo for the public
one. Who has which key is for people to say; no service is asked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from dalenius.errors import KeyFileError, ReleaseError, UsageError
from dalenius.release.atomic import writable, write_files
from dalenius.release.manifest import FILE, SIGNATURE_FILE, tables_in

PASSPHRASE = "DALENIUS_KEY_PASSPHRASE"  # noqa: S105 (the variable that has it)
PREFIX = b"dalenius release manifest v1\n"
LENGTH = 89  # bytes of manifest.sig

_BYTES = 64  # of a signature
_LARGEST_KEY = 2**16  # bytes
_LARGEST_MANIFEST = 2**28  # bytes
_PLAIN, _ENCRYPTED = b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_PUBLIC = b"-----BEGIN PUBLIC KEY-----"

KeyPath = str | os.PathLike[str]


class PublicKey:
    """Tells whether a manifest was signed with the private key that belongs to it."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the key as DER, in hexadecimal digits."""
        der = self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    @property
    def pem(self) -> bytes:
        """The content of a file."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def has_signed(self, manifest: bytes, signature: bytes) -> bool:
        """Whether the 64 bytes are a signature of this manifest."""
        try:
            self._key.verify(signature, PREFIX + manifest)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """Signs manifests. It does not show itself."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key(self) -> PublicKey:
        """What others need to check a signature."""
        return PublicKey(self._key.public_key())

    def sign(self, manifest: bytes) -> bytes:
        """The content of manifest.sig for the bytes of a manifest."""
        return base64.b64encode(self._key.sign(PREFIX + manifest)) + b"\n"

    def pem(self, passphrase: str | None) -> bytes:
        """The content of a file."""
        encryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def parse_signature(content: bytes) -> bytes | None:
    """The 64 bytes that manifest.sig has; None if it is not written exactly as it has to be."""
    try:
        signature = base64.b64decode(content[:-1], validate=True)
    except binascii.Error:
        return None
    return signature if len(signature) == _BYTES and base64.b64encode(signature) + b"\n" == content else None


def read_public_key(path: KeyPath) -> PublicKey:
    """The public key in a PEM file."""
    content = _read(path, "it is the .pub file that the publisher made with the key.")
    if b"PRIVATE KEY-----" in content:
        raise KeyFileError(
            "the file has a private key, and a public one is needed",
            "Give the public key, which 'dalenius sign --new-key' put beside it with .pub behind its name.",
        )
    try:
        key = load_pem_public_key(content) if content.lstrip().startswith(_PUBLIC) else None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(
            "the file has no public key of Ed25519 in PEM", "Give the .pub file that 'dalenius sign --new-key' made."
        )
    return PublicKey(key)


def read_signing_key(
    path: KeyPath, passphrase: str | None = None, ask: Callable[[], str | None] | None = None
) -> SigningKey:
    """The private key in a PEM file. If it is encrypted, the passphrase is the one given, that of the environment
    variable DALENIUS_KEY_PASSPHRASE, or whatever `ask` says."""
    content = _read(path, "or make a key: dalenius sign --new-key KEY writes KEY and KEY.pub.").lstrip()
    secret = None
    if content.startswith(_ENCRYPTED):
        secret = passphrase or os.environ.get(PASSPHRASE) or (ask() if ask is not None else None)
        if not secret:
            raise KeyFileError("the key is encrypted", f"Give its passphrase in the environment variable {PASSPHRASE}.")
    elif not content.startswith(_PLAIN):
        raise _no_private_key()
    try:
        key = load_pem_private_key(content, secret.encode() if secret else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if secret:
            raise KeyFileError("the key cannot be opened with this passphrase", "Check the passphrase.") from None
        raise _no_private_key() from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_private_key()
    return SigningKey(key)


def _no_private_key() -> KeyFileError:
    return KeyFileError(
        "the file has no private key of Ed25519 in PEM (PKCS#8)", "Make one with 'dalenius sign --new-key KEY'."
    )


def write_new_key(path: KeyPath, passphrase: str | None = None) -> SigningKey:
    """Make a key pair: the private key at the path, for its owner alone, and the public one with .pub behind the name.

    Neither replaces a file that is there.
    """
    private, public = Path(path), Path(f"{os.fspath(path)}.pub")
    key = SigningKey(Ed25519PrivateKey.generate())
    for place in (private, public):
        if os.path.lexists(place):
            raise _taken()
    with writable("the key", "--new-key"):
        _create(private, key.pem(passphrase), 0o600)
        try:
            _create(public, key.public_key.pem, 0o644)
        except BaseException:
            private.unlink()
            raise
    return key


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet, or nothing."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise _taken() from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _taken() -> UsageError:
    return UsageError("there is a file with the name of the new key already", "Give another name: keys stay.")


def sign_release(
    folder: KeyPath, key: KeyPath | SigningKey, *, passphrase: str | None = None, force: bool = False
) -> SigningKey:
    """Sign the release in a folder, as it is: put manifest.sig beside its manifest. Gives the key.

    Nothing is verified: `verify` it before. `key` is a key, or the path of its file. A signature that is there is
    replaced only with `force`.
    """
    signing = key if isinstance(key, SigningKey) else read_signing_key(key, passphrase)
    release = Path(folder)
    target = release / SIGNATURE_FILE

    def is_free(_: Path) -> None:
        if os.path.lexists(target) and not force:
            raise UsageError("the release is signed already", "Give --force to replace the signature.")

    is_free(target)
    signature = signing.sign(_manifest_of(release))
    with writable("the signature", "the release"):
        write_files({target: signature}, check=is_free)
    return signing


def _manifest_of(release: Path) -> bytes:
    try:
        content = _read_regular(release / FILE, _LARGEST_MANIFEST)
    except OSError as error:
        why = error.strerror or "it is not a regular file, or too long"
        raise ReleaseError(
            f"the folder has no manifest that can be read: {why}", "Give the folder of a release."
        ) from None
    if tables_in(content) is None:
        raise ReleaseError("the manifest is not that of a release", "Give the folder of a release.")
    return content


def _read(path: KeyPath, otherwise: str) -> bytes:
    try:
        return _read_regular(Path(path), _LARGEST_KEY)
    except FileNotFoundError:
        raise KeyFileError("there is no such key file", f"Check the path; {otherwise}") from None
    except OSError as error:
        why = error.strerror or "it is not a regular file, or too long for a key"
        raise KeyFileError(f"the key file cannot be read: {why}", "Check the path.") from None


def _read_regular(path: Path, most: int) -> bytes:
    """All of a file; an OSError without a number if it is a pipe, a folder or too long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode) or state.st_size > most:
        os.close(descriptor)
        raise OSError("not a regular file, or too long")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)
