"""The private file of a chain: what is in it, who can read it, and what is said of one that is damaged or another's."""

from __future__ import annotations

import hmac
import os
import random
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dalenius.errors import LedgerError, UsageError
from dalenius.release.ledger import digest_of_release, key_file, open_ledger, waiting
from dalenius.release.ledger_file import (
    ENTRY,
    KEY_BYTES,
    Belongs,
    Entries,
    Ledger,
    LedgerKey,
    frames_of,
    read_belongs,
    write_ledger,
)

KEY = LedgerKey(bytes(range(KEY_BYTES)))


def reference(secret: bytes, text: str) -> bytes:
    """The pseudonym of a text, block by block: what a file of any age was written with."""
    encrypt = Cipher(AES(hmac.digest(secret, b"dalenius ledger v1\npersons\n", "sha256")), ECB()).encryptor()  # noqa: S305

    def added(one: bytes, other: bytes) -> bytes:
        return bytes(a ^ b for a, b in zip(one, other, strict=True))

    content = text.encode()
    message = len(content).to_bytes(4, "little") + content
    message += bytes(-len(message) % 16)
    state = message[:16]
    for start in range(16, len(message), 16):
        state = added(encrypt.update(state), message[start : start + 16])
    return added(encrypt.update(state), state)


TEXTS = [
    "",
    *("x" * length for length in (1, 3, 11, 12, 13, 15, 16, 27, 28, 29, 43, 44, 45, 100, 1000)),
    "x" * 11 + "\0",
    "ä" * 6,
    "naïve 🦊 persönlich",
    "123456",
    "550e8400-e29b-41d4-a716-446655440000",
]


def pseudonyms(key: LedgerKey, texts: list[str], kind: pa.DataType | None = None) -> list[bytes]:
    return [row.astype("<u8").tobytes() for row in key.pseudonyms(pa.array(texts, kind or pa.string()))]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_pseudonyms_are_those_of_a_plain_implementation(kind: pa.DataType) -> None:
    secret = bytes(range(KEY_BYTES))
    assert pseudonyms(LedgerKey(secret), TEXTS, kind) == [reference(secret, text) for text in TEXTS]
    rng = random.Random("pseudonyms")  # noqa: S311 (a test)
    texts = ["".join(rng.choices("ab\0é🦊", k=rng.randrange(60))) for _ in range(500)]
    assert pseudonyms(LedgerKey(secret), texts, kind) == [reference(secret, text) for text in texts]


def test_pseudonyms_of_a_part_of_an_array() -> None:
    whole = pa.array(TEXTS)
    for start in range(len(TEXTS)):
        assert (KEY.pseudonyms(whole.slice(start, 3)) == KEY.pseudonyms(whole)[start : start + 3]).all()
    assert KEY.pseudonyms(whole.slice(0, 0)).shape == (0, 2)
    assert (KEY.pseudonyms(pa.array([""])) == KEY.pseudonyms(whole)[:1]).all()


def test_pseudonyms_differ_by_text_and_by_key() -> None:
    other = LedgerKey(bytes(KEY_BYTES))
    found = [*pseudonyms(KEY, TEXTS), *pseudonyms(other, TEXTS)]
    assert len(set(found)) == 2 * len(TEXTS)
    many = KEY.pseudonyms(pa.array([str(number) for number in range(100_000)]))
    assert len(np.unique(many[:, 0])) == len(many)
    bits = np.unpackbits(many.view(np.uint8), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.01


def test_a_key_does_not_show_itself() -> None:
    secret = secrets.token_bytes(KEY_BYTES)
    for text in (repr(LedgerKey(secret)), str(LedgerKey(secret))):
        assert secret.hex() not in text
        assert repr(secret) not in text


def some_entries(number: int) -> Entries:
    entries = np.zeros(number, ENTRY)
    entries["high"] = np.sort(np.random.default_rng(1).integers(0, 2**64, number, np.uint64))
    entries["bucket"], entries["value"], entries["seen"] = np.arange(number) // 2 + 1, np.arange(number) % 3, 1
    return entries


BELONGS = Belongs(3, "ab" * 32, "cd" * 32, "/somewhere/secret", ["influenza", "HIV positive"], "odds 4")


def write(path: Path, parts: list[Entries], key: LedgerKey = KEY, belongs: Belongs = BELONGS) -> Ledger:
    with path.open("wb") as file:
        write_ledger(file, key, belongs, parts)
    path.chmod(0o600)
    return Ledger(path, key, belongs)


@pytest.mark.parametrize("number", [0, 1, 5, 2**17 - 1, 2**17, 2**17 + 1, 300_000])
def test_entries_are_read_as_they_were_written(number: int, tmp_path: Path) -> None:
    entries = some_entries(number)
    ledger = write(tmp_path / "ledger", [entries[: number // 3], entries[number // 3 :]])
    read = list(ledger.entries())
    assert (np.concatenate([np.empty(0, ENTRY), *read]) == entries).all()
    assert sum(map(len, read)) == number
    content = (tmp_path / "ledger").read_bytes()
    for text in (b"influenza", b"HIV positive", b"secret", b"abababab"):
        assert text not in content
    assert number == 0 or entries["high"][:1].tobytes() not in content


def test_two_files_of_the_same_have_nothing_in_common(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, [some_entries(100)]).path.read_bytes() for name in ("one", "other"))
    assert len(one) == len(other)
    after = one.index(b"\n") + 5
    assert sum(a == b for a, b in zip(one[after:], other[after:], strict=True)) < len(one) / 50


def read_all(content: bytes, key: LedgerKey = KEY) -> list[bytes]:
    return list(frames_of(BytesIO(content), key))


def test_any_byte_that_is_changed_is_found(tmp_path: Path) -> None:
    content = write(tmp_path / "ledger", [some_entries(3), some_entries(2)]).path.read_bytes()
    assert len(read_all(content)) == 2
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ (1 + place % 255)]) + content[place + 1 :]
        with pytest.raises(LedgerError):
            read_all(changed)
    for length in range(len(content)):
        with pytest.raises(LedgerError):
            read_all(content[:length])
    with pytest.raises(LedgerError, match="damaged"):
        read_all(content + b"\0")


def test_frames_that_change_places_or_are_left_out_are_found(tmp_path: Path) -> None:
    content = write(tmp_path / "ledger", [some_entries(2)] * 3).path.read_bytes()
    head, rest = content[: content.index(b"\n") + 1], content[content.index(b"\n") + 1 : -8]
    frames = []
    while rest:
        size = 4 + int.from_bytes(rest[:4])
        frames.append(rest[:size])
        rest = rest[size:]
    *entries, last = frames
    assert len(entries) == 3

    def put_together(head: bytes, order: list[bytes], last: bytes) -> bytes:
        before = head + b"".join(order)
        return before + last + len(before).to_bytes(8)

    assert len(read_all(put_together(head, entries, last))) == 3
    for order in (entries[::-1], entries[:2], entries[1:], [*entries, entries[0]], [], [last, *entries]):
        with pytest.raises(LedgerError, match="damaged"):
            read_all(put_together(head, order, last))
    with pytest.raises(LedgerError, match="damaged"):
        read_all(put_together(head, entries[:2], entries[2]))
    other = write(tmp_path / "other", [some_entries(2)] * 3).path.read_bytes()
    with pytest.raises(LedgerError, match="damaged"):
        read_all(head + other[other.index(b"\n") + 1 :])


def test_what_it_belongs_to_may_be_known_last(tmp_path: Path) -> None:
    told: list[str] = []

    def entries() -> Iterator[Entries]:
        yield some_entries(3)
        told.append("entries")

    def known() -> Belongs:
        told.append("belongs")
        return BELONGS

    with (tmp_path / "ledger").open("wb") as file:
        write_ledger(file, KEY, known, entries())
    assert told == ["entries", "belongs"]
    with (tmp_path / "ledger").open("rb") as written:
        assert read_belongs(written, KEY) == BELONGS


def test_what_is_said_of_other_files() -> None:
    for content in (b"", b"\n", b"PAR1", b"{}\n", b'{"dalenius ledger": 1}\n', b"x" * 5000, b"\xff\xfe\n"):
        with pytest.raises(LedgerError, match="no ledger of Dalenius"):
            read_all(content)
    with pytest.raises(LedgerError, match="later version"):
        read_all(b'{"dalenius ledger": 2, "salt": "00", "check": ""}\n')


# Opening


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The place of a ledger, and a release (as far as a ledger looks at one) that it belongs to."""
    monkeypatch.delenv("DALENIUS_LEDGER_KEY", raising=False)
    release, path = tmp_path / "release", tmp_path / "ledger"
    release.mkdir()
    (release / "manifest.json").write_text("{}", encoding="utf-8")
    with open_ledger(path, None) as ledger, ledger.part():
        ledger.write(belongs(release), iter([some_entries(4)]))
        ledger.wait()
        ledger.settle()
    return path, release


def belongs(release: Path, number: int = 1, before: str | None = None) -> Belongs:
    return Belongs(number, digest_of_release(release) or "", before, str(release), ["flu"], "none")


def open_entries(path: Path, after: Path) -> npt.NDArray[np.void]:
    with open_ledger(path, after) as ledger:
        assert ledger.now is not None
        return np.concatenate(list(ledger.now.entries()))


def test_a_ledger_and_its_key_are_for_their_owner(chain: tuple[Path, Path]) -> None:
    path, release = chain
    assert sorted(one.name for one in path.parent.iterdir()) == ["ledger", "ledger.key", "release"]
    for one in (path, key_file(path)):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert len(bytes.fromhex(key_file(path).read_text(encoding="ascii"))) == KEY_BYTES
    assert (open_entries(path, release) == some_entries(4)).all()
    for one in (path, key_file(path)):
        for mode in (0o644, 0o640, 0o604, 0o602):
            one.chmod(mode)
            with pytest.raises(LedgerError, match="others than its owner can read") as error:
                open_entries(path, release)
            assert error.value.hint == "Run: chmod 600 on it."
        one.chmod(0o400)
        assert len(open_entries(path, release)) == 4
        one.chmod(0o600)


def test_the_mask_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_ledger(tmp_path / "ledger", None) as ledger, ledger.part():
            ledger.write(Belongs(1, "", None, "", [], ""), iter([]))
            ledger.wait()
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["ledger.next", "ledger.key", ".ledger.lock"], 0o600)


def test_the_key_in_the_environment(chain: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, release = chain
    text = key_file(path).read_text(encoding="ascii")
    key_file(path).unlink()
    with pytest.raises(LedgerError, match="the key of the ledger is not there"):
        open_entries(path, release)
    for wrong in ("ab", "x" * 64, text.strip() + "00", "ab" * 31):
        monkeypatch.setenv("DALENIUS_LEDGER_KEY", wrong)
        with pytest.raises(LedgerError, match="not 64 hexadecimal digits") as error:
            open_entries(path, release)
        assert wrong not in str(error.value)
    monkeypatch.setenv("DALENIUS_LEDGER_KEY", "ab" * 32)
    with pytest.raises(LedgerError, match="the key is not the one of this ledger"):
        open_entries(path, release)
    monkeypatch.setenv("DALENIUS_LEDGER_KEY", text.upper())
    assert len(open_entries(path, release)) == 4
    with open_ledger(path.with_name("other"), None) as ledger, ledger.part():
        ledger.write(Belongs(1, "", None, "", [], ""), iter([]))
        ledger.wait()
        ledger.settle()
    assert not key_file(path.with_name("other")).exists()


def test_a_lost_ledger_or_release(chain: tuple[Path, Path]) -> None:
    path, release = chain
    path.rename(path.with_name("moved"))
    with pytest.raises(UsageError, match="there is no ledger at this path"):
        open_entries(path, release)
    lost = "there is the key of a ledger, and the ledger is not there"
    with pytest.raises(LedgerError, match=lost), open_ledger(path, None):
        pass
    path.with_name("moved").rename(path)
    (release / "manifest.json").write_text("{ }", encoding="utf-8")
    with pytest.raises(LedgerError, match="belongs to another release"):
        open_entries(path, release)


def test_a_ledger_that_waits(chain: tuple[Path, Path]) -> None:
    """It takes its place if its release was published; it is no more if its release is still staged; else we ask."""
    path, release = chain
    after = release.with_name("after")
    first = belongs(release).manifest
    key = LedgerKey(bytes.fromhex(key_file(path).read_text(encoding="ascii")))

    def interrupted(place: Path) -> None:
        place.mkdir(parents=True)
        (place / "manifest.json").write_text(f"{{}} {len(str(place))}", encoding="utf-8")
        said = belongs(place, 2, first)._replace(target=str(after))
        write(waiting(path), [some_entries(6)], key, said)

    staged = release.with_name(".after.staging-0123456789abcdef")
    interrupted(staged)
    assert len(open_entries(path, release)) == 4
    assert not waiting(path).exists()
    interrupted(release.with_name(".after.ready-0123456789abcdef") / "release")
    assert len(open_entries(path, release)) == 4
    assert not waiting(path).exists()
    interrupted(release.with_name("moved to elsewhere"))
    with pytest.raises(LedgerError, match="its release is not where it was to be"):
        open_entries(path, release)
    assert waiting(path).exists()
    assert len(open_entries(path, release.with_name("moved to elsewhere"))) == 6
    assert not waiting(path).exists()
    with pytest.raises(LedgerError, match="of a later release than the one given"):
        open_entries(path, release)


HOLD = """
import sys, time
from pathlib import Path
from dalenius.release.ledger import open_ledger
with open_ledger(Path("ledger"), None):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_one_run_at_a_time(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "open\n"
        with (
            pytest.raises(LedgerError, match="another run is using the ledger"),
            open_ledger(tmp_path / "ledger", None),
        ):
            pass
        other.communicate("", timeout=30)
    finally:
        other.kill()
    assert list(tmp_path.iterdir()) == []
    with open_ledger(tmp_path / "ledger", None):
        assert [one.name for one in tmp_path.iterdir()] == [".ledger.lock"]
