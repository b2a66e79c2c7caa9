"""Signed releases: another release, another key or a changed byte is told; keys are files that are kept safe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import dalenius
from dalenius.cli.main import main
from dalenius.errors import KeyFileError, ReleaseError, UsageError
from dalenius.release.signature import PASSPHRASE, read_public_key, read_signing_key, sign_release, write_new_key
from dalenius.verify.judge import verify
from tests.handmade import edit_manifest, hospital

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder that has a release and two keys, of the publisher and of somebody else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSPHRASE, raising=False)
    hospital().write(tmp_path / "release")
    for name in ("publisher", "other"):
        write_new_key(name)
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


def signature_check(result: Result) -> tuple[str, dict[str, Any]]:
    found = json.loads(result.stdout)
    (check,) = (check for check in found["checks"] if check["check"] == "signature")
    return check["outcome"], found["signature"]


def test_signed_and_verified(run: Run) -> None:
    assert run("sign", "release", "--key", "publisher").exit_code == 0
    result = run("verify", "release", "--signed-by", "publisher.pub", "--json")
    assert result.exit_code == 0
    key = read_public_key("publisher.pub").fingerprint
    assert signature_check(result) == ("passed", {"state": "valid", "key": key})
    assert json.loads(result.stdout)["notes"] == []


def test_the_signature_is_one_of_the_prefix_and_the_manifest_by_an_independent_reading(run: Run) -> None:
    """As docs/verifying.md says, with the library alone."""
    run("sign", "release", "--key", "publisher")
    content = Path("release/manifest.sig").read_bytes()
    assert len(content) == 89
    assert content.endswith(b"==\n")
    key = serialization.load_pem_public_key(Path("publisher.pub").read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    signed = b"dalenius release manifest v1\n" + Path("release/manifest.json").read_bytes()
    key.verify(base64.b64decode(content), signed)


def test_another_key_and_no_signature_fail(run: Run) -> None:
    result = run("verify", "release", "--signed-by", "publisher.pub", "--json")
    assert result.exit_code == 1
    assert signature_check(result)[0] == "failed"
    assert signature_check(result)[1]["state"] == "absent"
    run("sign", "release", "--key", "other")
    result = run("verify", "release", "--signed-by", "publisher.pub", "--json")
    assert result.exit_code == 1
    assert signature_check(result)[1]["state"] == "invalid"
    assert run("verify", "release", "--signed-by", "other.pub").exit_code == 0


def test_without_a_key_nobody_is_named(run: Run) -> None:
    result = json.loads(run("verify", "release", "--json").stdout)
    assert result["signature"] == {"state": "absent", "key": None}
    run("sign", "release", "--key", "other")
    done = run("verify", "release", "--json")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert result["signature"] == {"state": "unchecked", "key": None}
    assert "signature" not in [check["check"] for check in result["checks"]]
    (note,) = result["notes"]
    assert "whose signature it is was not checked" in note


def test_any_change_of_the_manifest_is_told(run: Run) -> None:
    """Even one that means the same."""
    run("sign", "release", "--key", "publisher")
    edit_manifest(Path("release"), lambda manifest: manifest["program"].update(version="0.1.1"))
    assert run("verify", "release").exit_code == 0
    assert run("verify", "release", "--signed-by", "publisher.pub").exit_code == 1
    Path("release/manifest.json").write_text(Path("release/manifest.json").read_text() + " ")
    assert not verify("release", signed_by="publisher.pub")["signature"].passed


def test_a_release_exchanged_for_another_valid_one_is_told(run: Run) -> None:
    run("sign", "release", "--key", "publisher")
    other = hospital(buckets=[1, 2, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4], limits={}).write(Path("another"))
    assert verify(other).verified
    assert not verify(other, signed_by="publisher.pub").verified
    sign_release(other, "other")
    assert not verify(other, signed_by="publisher.pub").verified
    shutil.copy("release/manifest.sig", other)  # the publisher's, of another release
    verdict = verify(other, signed_by="publisher.pub")
    assert [check.check for check in verdict.checks if not check.passed] == ["signature"]


def spellings(signature: bytes) -> dict[str, bytes]:
    """Everything but the one way to write it."""
    text = signature[:-1]
    last = text[-3:-2]
    loose = {b"A": b"B", b"Q": b"R", b"g": b"h", b"w": b"x"}[last]  # bits behind the last byte
    return {
        "empty": b"",
        "no newline": text,
        "two newlines": text + b"\n\n",
        "carriage return": text + b"\r\n",
        "blank before": b" " + signature,
        "blank behind": text + b" \n",
        "two lines": text[:40] + b"\n" + text[40:] + b"\n",
        "no padding": text[:-2] + b"\n",
        "loose bits": text[:-3] + loose + b"==\n",
        "raw bytes": base64.b64decode(text),
        "too short": base64.b64encode(base64.b64decode(text)[:-1]) + b"\n",
        "too long": base64.b64encode(base64.b64decode(text) + b"x") + b"\n",
        "url alphabet": base64.urlsafe_b64encode(bytes([255] * 64)) + b"\n",
        "not base64": b"!" * 88 + b"\n",
        "not ASCII": b"\xff" * 88 + b"\n",
        "something behind": signature + b"the whole table",
        "hexadecimal": base64.b64decode(text).hex().encode() + b"\n",
    }


@pytest.mark.parametrize("spelling", spellings(base64.b64encode(bytes(64)) + b"\n"))
def test_malformed_signatures_are_refused_with_a_key_and_without(run: Run, spelling: str) -> None:
    run("sign", "release", "--key", "publisher")
    path = Path("release/manifest.sig")
    path.write_bytes(spellings(path.read_bytes())[spelling])
    verdict = verify("release")
    assert not verdict["files"].passed
    verdict = verify("release", signed_by="publisher.pub")
    assert [check.check for check in verdict.checks if not check.passed] == ["signature"]
    assert verdict.signature is not None
    assert verdict.signature.state == "invalid"


def test_every_bit_of_a_signature_counts(run: Run) -> None:
    run("sign", "release", "--key", "publisher")
    path, key = Path("release/manifest.sig"), read_public_key("publisher.pub")
    signature, manifest = base64.b64decode(path.read_bytes()), Path("release/manifest.json").read_bytes()
    assert key.has_signed(manifest, signature)
    for bit in range(512):
        changed = bytes(byte ^ (1 << bit % 8 if place == bit // 8 else 0) for place, byte in enumerate(signature))
        assert not key.has_signed(manifest, changed)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_signature_is_a_regular_file(run: Run, kind: str) -> None:
    run("sign", "release", "--key", "publisher")
    path = Path("release/manifest.sig")
    path.rename("elsewhere.sig")
    if kind == "link":
        path.symlink_to(Path("elsewhere.sig").absolute())
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for signed_by in (None, "publisher.pub"):
        verdict = verify("release", signed_by=signed_by)
        # an empty folder of that name is not a signature, and is listed as another file
        assert verdict.verified is (kind == "folder" and signed_by is None)


@pytest.mark.parametrize("wrong", ["private", "rubbish", "rsa", "missing", "folder", "pipe", "empty", "long"])
def test_signed_by_needs_a_public_key(run: Run, wrong: str) -> None:
    run("sign", "release", "--key", "publisher")
    path = Path("wrong.pub")
    if wrong == "private":
        path = Path("publisher")
    elif wrong == "rsa":
        key = rsa.generate_private_key(65537, 1024).public_key()  # noqa: S505 (for nothing)
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        path.write_bytes(key.public_bytes(serialization.Encoding.PEM, form))
    elif wrong == "folder":
        path.mkdir()
    elif wrong == "pipe":
        os.mkfifo(path)
    elif wrong != "missing":
        path.write_bytes({"rubbish": b"key\n", "empty": b"", "long": Path("publisher.pub").read_bytes() * 1000}[wrong])
    result = run("verify", "release", "--signed-by", str(path), "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "key-file"
    assert error["hint"]
    assert "make a key" not in error["hint"]  # that is for others to do
    assert ("private key" in error["message"]) is (wrong == "private")


@pytest.mark.parametrize("wrong", ["public", "rubbish", "traditional", "missing", "openssh"])
def test_signing_needs_a_private_key(run: Run, wrong: str) -> None:
    path = Path("publisher.pub" if wrong == "public" else "wrong")
    if wrong == "rubbish":
        path.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    elif wrong in ("traditional", "openssh"):
        plain = serialization.NoEncryption()
        if wrong == "openssh":
            key = Ed25519PrivateKey.generate()
            content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, plain)
        else:
            other = rsa.generate_private_key(65537, 1024)  # noqa: S505 (for nothing)
            content = other.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        path.write_bytes(content)
    for words in (("sign", "release", "--key", str(path)), ("publish", "t.csv", "--sign", str(path), "--out", "new")):
        result = run(*words, "--json")
        assert result.exit_code == 2
        error = json.loads(result.stdout)["error"]
        assert error["kind"] == "key-file"
        assert "--new-key" in error["hint"]
    assert not Path("release/manifest.sig").exists()


class TestNewKeys:
    """Two files: one for the owner alone, one for everybody. Neither replaces anything."""

    @pytest.fixture(autouse=True)
    def _nobody_is_kept_out(self) -> Any:
        before = os.umask(0)
        yield
        os.umask(before)

    def test_modes(self, run: Run) -> None:
        result = run("sign", "--new-key", "mine")
        assert result.exit_code == 0
        assert "not encrypted" in result.output
        assert stat.S_IMODE(Path("mine").stat().st_mode) == 0o600
        assert stat.S_IMODE(Path("mine.pub").stat().st_mode) == 0o644
        assert Path("mine").read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")
        assert Path("mine.pub").read_bytes().startswith(b"-----BEGIN PUBLIC KEY-----\n")
        assert read_signing_key("mine").public_key.fingerprint == read_public_key("mine.pub").fingerprint
        assert read_public_key("mine.pub").fingerprint in result.output

    @pytest.mark.parametrize("taken", ["mine", "mine.pub"])
    def test_nothing_is_replaced(self, run: Run, taken: str) -> None:
        Path(taken).symlink_to("nowhere")
        assert run("sign", "--new-key", "mine").exit_code == 2
        assert Path(taken).is_symlink()
        assert not Path("nowhere").exists()
        assert not Path({"mine": "mine.pub", "mine.pub": "mine"}[taken]).exists()

    def test_where_nobody_can_write(self, run: Run) -> None:
        result = run("sign", "--new-key", "nowhere/mine", "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["error"]["kind"] == "output"


class TestEncryptedKeys:
    """The passphrase comes from the environment, from Python, or from the terminal."""

    def test_from_the_environment(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(PASSPHRASE, "korrekt häst")
        assert "(encrypted)" in run("sign", "--new-key", "mine").output
        assert Path("mine").read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
        assert run("sign", "release", "--key", "mine").exit_code == 0
        assert run("verify", "release", "--signed-by", "mine.pub").exit_code == 0
        monkeypatch.setenv(PASSPHRASE, "wrong")
        result = run("sign", "release", "--key", "mine", "--force")
        assert result.exit_code == 2
        assert "passphrase" in result.stderr
        monkeypatch.delenv(PASSPHRASE)
        result = run("sign", "release", "--key", "mine", "--force")  # there is no terminal to ask
        assert result.exit_code == 2
        assert PASSPHRASE in result.stderr

    def test_from_python(self, run: Run) -> None:
        write_new_key("mine", "secret")
        sign_release("release", "mine", passphrase="secret")  # noqa: S106 (of a test)
        assert dalenius.load("release").verify(signed_by="mine.pub").verified
        with pytest.raises(KeyFileError, match="is encrypted"):
            sign_release("release", "mine", force=True)

    def test_from_the_terminal(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
        made = CliRunner().invoke(main, ["sign", "--new-key", "mine", "--passphrase"], input="secret\nsecret\n")
        assert "(encrypted)" in made.output
        words = ["sign", "release", "--key", "mine"]
        assert CliRunner().invoke(main, words, input="wrong\n").exit_code == 2
        done = CliRunner().invoke(main, words, input="secret\n")
        assert done.exit_code == 0
        assert "secret" not in made.output + done.output
        assert read_signing_key("mine", "secret").public_key.fingerprint in done.stdout

    def test_a_passphrase_that_nobody_gives_makes_no_key(self, run: Run) -> None:
        assert run("sign", "--new-key", "mine", "--passphrase").exit_code == 2
        assert not Path("mine").exists()


class TestSigning:
    """Only a release is signed, and a signature stays unless it is to be replaced."""

    def test_a_signature_stays(self, run: Run) -> None:
        run("sign", "release", "--key", "publisher")
        before = Path("release/manifest.sig").read_bytes()
        assert run("sign", "release", "--key", "other").exit_code == 2
        assert Path("release/manifest.sig").read_bytes() == before
        result = run("sign", "release", "--key", "other", "--force", "--json")
        key = read_public_key("other.pub").fingerprint
        assert json.loads(result.stdout) == {"format": 1, "signed": "release", "key": key}
        assert run("verify", "release", "--signed-by", "other.pub").exit_code == 0

    @pytest.mark.parametrize("content", [None, "{}", '{"format": 3, "program": {"name": "other"}}'])
    def test_what_is_no_release(self, run: Run, content: str | None) -> None:
        Path("folder").mkdir()
        if content is not None:
            Path("folder/manifest.json").write_text(content)
        with pytest.raises(ReleaseError):
            sign_release("folder", "publisher")
        assert run("sign", "folder", "--key", "publisher").exit_code == 2
        assert [path.name for path in Path("folder").iterdir()] == ([] if content is None else ["manifest.json"])

    @pytest.mark.parametrize(
        "words",
        [
            ("release",),
            ("--key", "publisher"),
            ("release", "--new-key", "mine"),
            ("--new-key", "mine", "--force"),
            ("release", "--key", "publisher", "--passphrase"),
        ],
    )
    def test_wrong_use(self, run: Run, words: tuple[str, ...]) -> None:
        result = run("sign", *words, "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["error"]["kind"] == "usage"

    def test_with_a_certificate_there_is_nothing_signed(self, run: Run) -> None:
        result = run("verify", "--certificate", "proof.json", "--signed-by", "publisher.pub", "--json")
        assert json.loads(result.stdout)["error"]["kind"] == "usage"


TABLE = pa.table({"Gender": ["F", "M"] * 30, "Disease": ["Flu", "Cold", "Flu", "Gout", "Cold", "Flu"] * 10})
ROLES: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Gender"]}
LIMITS = {"uniform": "1/2"}


class TestPublish:
    """A release appears with its signature, or not at all."""

    @pytest.mark.parametrize("form", ["parquet", "csv", "parts"])
    def test_it_is_signed_when_it_appears(self, run: Run, form: Any) -> None:
        made = dalenius.publish(TABLE, LIMITS, out="new", sign="publisher", format=form, **ROLES)
        verdict = made.verify(signed_by="publisher.pub", against=TABLE)
        assert verdict.verified
        assert verdict.notes == ()
        copy = made.save("copy")
        assert copy.verify(signed_by="publisher.pub").verified

    def test_an_unsaved_release_keeps_its_signature(self, run: Run) -> None:
        made = dalenius.publish(TABLE, LIMITS, sign=read_signing_key("publisher"), **ROLES)
        assert made.save("new").verify(signed_by="publisher.pub").verified

    def test_a_signed_release_is_a_release_that_can_be_replaced(self, run: Run) -> None:
        """By an unsigned one too, which then has no signature; but not if something else is in the folder."""
        out = Path("new")
        dalenius.publish(TABLE, LIMITS, out=out, sign="publisher", **ROLES)
        dalenius.publish(TABLE, LIMITS, out=out, sign="other", force=True, **ROLES)
        assert verify(out, signed_by="other.pub").verified
        dalenius.publish(TABLE, LIMITS, out=out, force=True, **ROLES)
        assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]
        (out / "manifest.sig.old").write_text("")
        with pytest.raises(UsageError, match="is not a release"):
            dalenius.publish(TABLE, LIMITS, out=out, force=True, **ROLES)

    def test_by_the_command(self, run: Run) -> None:
        pa.csv.write_csv(TABLE, "table.csv")
        words = ("publish", "table.csv", "--sensitive", "Disease", "--quasi-identifiers", "Gender", "--uniform", "1/2")
        result = run(*words, "--sign", "publisher", "--out", "new")
        key = read_public_key("publisher.pub").fingerprint
        assert result.exit_code == 0, result.output
        assert f"Signed: manifest.sig, with the key whose SHA-256 is {key}" in result.stdout
        assert run("verify", "new", "--signed-by", "publisher.pub").exit_code == 0
        result = run(*words, "--sign", "publisher", "--out", "new", "--force", "--json")
        assert json.loads(result.stdout)["signed_by"] == key
        result = run(*words, "--out", "plain", "--json")
        assert json.loads(result.stdout)["signed_by"] is None

    def test_the_key_is_read_before_anything_else(self, run: Run) -> None:
        result = run("publish", "nowhere.csv", "--sign", "nowhere", "--out", "new", "--json")
        assert json.loads(result.stdout)["error"]["kind"] == "key-file"
        with pytest.raises(KeyFileError):
            dalenius.publish("nowhere.csv", LIMITS, out="new", sign="nowhere", **ROLES)

    @pytest.mark.parametrize("before", [False, True], ids=["nothing there", "a signed release there"])
    def test_a_kill_leaves_nothing_or_what_was_there(self, run: Run, before: bool) -> None:
        """Killed right after the signature was written, and before the release is in its place."""
        old = b""
        if before:
            dalenius.publish(TABLE, LIMITS, out="new", sign="other", **ROLES)
            old = Path("new/manifest.sig").read_bytes()
        pa.csv.write_csv(TABLE, "table.csv")
        done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        (left,) = Path().glob(".new.staging-*")
        assert (left / "manifest.sig").exists(), "it was killed too early to show anything"
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        if before:
            assert Path("new/manifest.sig").read_bytes() == old
            assert verify("new", signed_by="other.pub").verified
        else:
            assert not Path("new").exists()
        dalenius.publish(TABLE, LIMITS, out="new", sign="publisher", force=True, **ROLES)
        assert verify("new", signed_by="publisher.pub").verified
        assert list(Path().glob(".new.*")) == []


KILLED = """
import os, signal, dalenius
from dalenius.release.staging import Staging
Staging.commit = lambda self, replace: os.kill(os.getpid(), signal.SIGKILL)
dalenius.publish("table.csv", {"uniform": "1/2"}, sensitive="Disease", quasi_identifiers=["Gender"], out="new",
                 sign="publisher", force=True)
"""


def test_studio_gives_the_signature_with_the_release(run: Run, tmp_path: Path) -> None:
    from dalenius.studio.studio_release import Fingerprint
    from dalenius.studio.transfers import zip_parts

    folder = Path("release")
    unsigned = Fingerprint.of(folder)
    run("sign", "release", "--key", "publisher")
    about = Fingerprint.of(folder)
    assert about != unsigned, "a signature is a change of the release"
    tables = dalenius.load(folder).manifest.tables
    parts = zip_parts(folder, about, {**tables.qit.digests, **tables.st.digests}, "release")
    Path("release.zip").write_bytes(b"".join(parts))
    with zipfile.ZipFile("release.zip") as archive:
        archive.extractall("unpacked")
    assert verify("unpacked/release", signed_by="publisher.pub").verified
