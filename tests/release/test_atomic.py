"""A file is in its place whole, or what was there before still is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dalenius.errors import OutputError, UsageError
from dalenius.release.atomic import whole_file, writable, write_file, write_files


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def anything(path: Path) -> None:
    """No place is refused."""


def test_what_arrow_says_of_a_path_is_not_passed_on() -> None:
    """Its errors have a number, and a text of their own."""
    with pytest.raises(OutputError) as caught, writable():
        raise OSError(errno.EMFILE, "Failed to open local file '/home/me/.draws.staging-1/draw-01.parquet'")
    assert "/home" not in str(caught.value)
    assert os.strerror(errno.EMFILE) in str(caught.value)


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        write_file(tmp_path / ("x" * 255), content)  # the longest name that there is
        assert contents(tmp_path) == {"x" * 255: content}


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def failing(descriptor: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(type(failure)):
        write_file(tmp_path / "file", b"new")
    wanted = OutputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(wanted), whole_file(tmp_path / "file", anything, "the file", "--file") as file:
        file.write(b"new")
    assert contents(tmp_path) == {"file": b"old"}


def test_the_error_of_a_full_disk_is_not_lost_when_the_file_is_closed(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        with whole_file(path, anything, "the file", "--file") as file:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, file.fileno())  # from here on every write fails, as on a full disk
            os.close(full)
            file.write(b"some bytes")
            with writable("the file", "--file"):
                file.flush()

    with pytest.raises(OutputError, match="the disk is full") as error:
        fill(tmp_path / "file")
    assert error.value.hint == "Make room there, or give --file another place."
    assert contents(tmp_path) == {}


def test_of_several_files_all_are_replaced_or_none(tmp_path: Path) -> None:
    places = [tmp_path / name for name in "abc"]
    write_files(dict.fromkeys(places[:2], b"old"))

    def refused(path: Path) -> None:
        if path.name == "c":
            raise UsageError("not there")

    with pytest.raises(UsageError):
        write_files(dict.fromkeys(places, b"new"), refused)
    assert contents(tmp_path) == {"a": b"old", "b": b"old"}
    write_files(dict.fromkeys(places, b"new"))
    assert contents(tmp_path) == {"a": b"new", "b": b"new", "c": b"new"}


def test_an_interrupt_after_the_last_move_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / name for name in "ab"]
    write_files(dict.fromkeys(places, b"old"))
    move = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        path = move(self, target)
        if target.name == "b":
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(dict.fromkeys(places, b"new"))
    assert contents(tmp_path) == {"a": b"new", "b": b"new"}


def test_a_file_that_grows_is_its_owners_alone(tmp_path: Path) -> None:
    with whole_file(tmp_path / "file", anything, "the file", "--file") as file:
        file.write(b"one ")
        assert "file" not in contents(tmp_path)
        file.write(b"two")
    assert contents(tmp_path) == {"file": b"one two"}
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left"), "the disk is full", "Make room there, or give another --out."),
        (OSError("[Errno 28] No space left on device"), "the disk is full", "Make room there, or give another --out."),
        (PermissionError(errno.EACCES, "Not allowed"), "the output cannot be written: Permission denied", "Check"),
        (OSError(errno.EIO, None), "the output cannot be written: Input/output error", "Check"),
        (OSError("odd"), "the output cannot be written: the file system failed", "Check"),
    ],
)
def test_what_the_file_system_says(error: OSError, message: str, hint: str) -> None:
    with pytest.raises(OutputError) as caught, writable():
        raise error
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith(hint)
