"""Work in a child process: what comes back, and how it ends. Temporary folders: none is left, no other's is taken."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dalenius.errors import MemoryLimitError, NoSuchColumnError, SolverError, TimeLimitError
from dalenius.tables.killable import (
    Allowance,
    PrivateFolder,
    Watch,
    in_child,
    in_new_process,
    remove_left_behind,
    scratch_folder,
)

FREE = Allowance(None)


def numbers(until: int, pause: float = 0.0) -> Iterator[int]:
    for number in range(until):
        time.sleep(pause)
        yield number


def fail(error: BaseException) -> Iterator[int]:
    yield 1
    raise error


def end(how: signal.Signals) -> Iterator[int]:
    os.kill(os.getpid(), how)
    yield 1


def grow() -> Iterator[int]:
    held = []
    while True:
        held.append(b"x" * 2**26)
        yield len(held)


class Local(Exception):  # noqa: N818
    """An error that cannot be sent: it takes two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)
        self.two = two


def test_what_comes_back() -> None:
    assert list(in_child(partial(numbers, 1000), FREE)) == list(range(1000))
    assert list(in_child(lambda: ["x" * 10**6, None], FREE)) == ["x" * 10**6, None]
    assert in_new_process(sorted, [3, 1, 2], allowance=FREE) == [1, 2, 3]


def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(NoSuchColumnError) as caught:
        list(in_child(partial(fail, NoSuchColumnError("no column", "Did you mean it?")), FREE))
    assert (caught.value.message, caught.value.hint) == ("no column", "Did you mean it?")
    with pytest.raises(ZeroDivisionError) as other:
        list(in_child(partial(fail, ZeroDivisionError("x")), FREE))
    assert "in fail" in other.value.__notes__[0]  # DALENIUS_TRACEBACK shows where it happened
    with pytest.raises(RuntimeError, match="Local"):
        list(in_child(partial(fail, Local(1, 2)), FREE))
    with pytest.raises(MemoryLimitError, match="--memory"):
        list(in_child(partial(fail, MemoryError()), FREE))


def test_how_it_may_end() -> None:
    with pytest.raises(MemoryLimitError):  # the system kills when it has no memory left
        list(in_child(partial(end, signal.SIGKILL), FREE))
    with pytest.raises(SolverError, match=r"ended early \(-10\)"):
        list(in_child(partial(end, signal.SIGUSR1), FREE))
    with pytest.raises(SolverError, match="ended early"):
        in_new_process(os._exit, 3, allowance=FREE)


def test_each_item_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    received = []
    for item in in_child(partial(numbers, 4), Allowance(10)):
        received.append(item)
        now += 8
    assert received == [0, 1, 2, 3]
    watch = Watch(os.getpid(), Allowance(10))
    now += 9
    assert watch.overrun() is None
    now += 2
    assert isinstance(watch.overrun(), TimeLimitError)
    watch.restart()
    assert watch.overrun() is None


def test_time_and_memory() -> None:
    with pytest.raises(TimeLimitError, match="--timeout"):
        list(in_child(partial(numbers, 1, 600), Allowance(0.2)))
    with pytest.raises(MemoryLimitError, match="MiB"):
        list(in_child(grow, Allowance(None, 2**30)))


def test_a_folder_is_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as path, scratch_folder():
        assert len(list(tmp_path.iterdir())) == 2
        assert Path(path).stat().st_mode & 0o777 == 0o700
        remove_left_behind()  # those of a living program stay
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_left_behind_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def folder(name: str, *files: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        for file in files:
            (path / file).touch()
        return path

    left = folder("dalenius-left", ".lock", "upload.csv")
    kept = {
        folder("dalenius-of-somebody", "upload.csv"),
        folder("dalenius-new"),
        folder("another", ".lock"),
        folder("dalenius-busy", ".lock"),
    }
    old = [folder("dalenius-old"), folder("dalenius-old-too", ".lock-new")]
    old_but_full = folder("dalenius-full", "upload.csv")
    for path in (*old, old_but_full):
        os.utime(path, (1, 1))
    (tmp_path / "dalenius-link").symlink_to(folder("elsewhere", ".lock"))
    (tmp_path / "dalenius-file").touch()
    with (tmp_path / "dalenius-busy" / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_left_behind()
    assert not left.exists()
    assert not any(path.exists() for path in old)
    others = {old_but_full, tmp_path / "elsewhere", tmp_path / "dalenius-link", tmp_path / "dalenius-file"}
    assert set(tmp_path.iterdir()) == kept | others


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "dalenius-theirs"
    folder.mkdir()
    (folder / ".lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    remove_left_behind()
    assert folder.exists()


def test_a_killed_program_leaves_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def work() -> Iterator[str]:
        made = PrivateFolder("test-")
        (made.path / "upload.csv").touch()
        yield str(made.path)
        time.sleep(600)

    with pytest.raises(TimeLimitError):
        list(in_child(work, Allowance(0.5)))
    assert list(tmp_path.iterdir()) == []
