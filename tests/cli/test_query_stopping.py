"""A query ends when it is told to, whatever it is doing, and keeps to its time and its memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import dalenius
from dalenius.errors import QueryError, TimeLimitError
from tests.query.releases import BOMB, LARGE, REPEATS, SLOW, write_long_texts

COMMAND = [sys.executable, "-c", "from dalenius.cli.main import entry; entry()", "query"]
HANG = 60.0  # seconds after which something hangs


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_long_texts(tmp_path_factory.mktemp("long") / "release").path


@contextmanager
def running(release: Path, scratch: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*COMMAND, str(release), *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, err = process.communicate(timeout=HANG)
    assert err == ""
    return process.returncode, json.loads(out)


def child_of(process: subprocess.Popen[str]) -> int:
    """The process that counts, once it works hard: it has made its temporary folder, and takes processor time."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            with suppress(OSError, IndexError):
                spent = Path(f"/proc/{children[0]}/stat").read_text().rpartition(")")[2].split()
                if int(spent[11]) / os.sysconf("SC_CLK_TCK") > 0.7:  # user seconds
                    return int(children[0])
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def gone(number: int) -> bool:
    """Whether a process has ended, though nobody may have asked for its status yet."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until_gone(number: int) -> None:
    deadline = time.monotonic() + HANG
    while not gone(number):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("expression", [BOMB, REPEATS], ids=["text", "repeats"])
def test_what_could_not_be_stopped_is_refused(release: Path, tmp_path: Path, expression: str) -> None:
    with running(release, tmp_path / "t", expression) as process:
        code, found = ended(process)
    assert (code, found["error"]["kind"]) == (2, "query")
    assert "characters" in found["error"]["message"] or "times as long" in found["error"]["message"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(release: Path, tmp_path: Path, how: signal.Signals) -> None:
    with running(release, tmp_path / "t", SLOW) as process:
        child = child_of(process)
        process.send_signal(how)
        code, found = ended(process)
        assert gone(child)
    assert (code, found["error"]["kind"]) == (130, "interrupted")
    assert list((tmp_path / "t").iterdir()) == []


def test_the_child_does_not_outlive_a_killed_parent(release: Path, tmp_path: Path) -> None:
    with running(release, tmp_path / "t", SLOW) as process:
        child = child_of(process)
        process.kill()
        until_gone(child)
    (behind,) = (tmp_path / "t").iterdir()
    assert behind.stat().st_mode & 0o777 == 0o700
    with running(release, tmp_path / "t", "Gender = 'F'") as process:
        assert ended(process)[1]["bounds"] == [20, 20]
    assert list((tmp_path / "t").iterdir()) == []  # and the next one removes what was left


def test_it_keeps_to_its_time(release: Path, tmp_path: Path) -> None:
    with running(release, tmp_path / "t", SLOW, "--timeout", "1") as process:
        code, found = ended(process)
    assert (code, found["error"]["kind"]) == (2, "timeout")
    assert found["error"]["message"] == "the count took more than 1 seconds, and was stopped"
    assert "--timeout" in found["error"]["hint"]
    assert list((tmp_path / "t").iterdir()) == []


def test_it_keeps_to_its_memory(release: Path, tmp_path: Path) -> None:
    with running(release, tmp_path / "t", LARGE, "--memory", "300MiB") as process:
        code, found = ended(process)
    assert (code, found["error"]["kind"]) == (2, "memory")
    assert "--memory" in found["error"]["hint"]
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.parametrize(
    "words", [["--timeout", "-1"], ["--timeout", "nan"], ["--memory", "1MB"], ["--memory", "much"]]
)
def test_impossible_budgets(release: Path, tmp_path: Path, words: list[str]) -> None:
    with running(release, tmp_path / "t", "TRUE", *words) as process:
        code, found = ended(process)
    assert (code, found["error"]["kind"]) == (2, "usage")


def test_no_limit_is_no_limit(release: Path, tmp_path: Path) -> None:
    with running(release, tmp_path / "t", "Gender = 'F'", "--timeout", "0", "--memory", "400 MiB") as process:
        assert ended(process)[1]["bounds"] == [20, 20]


def test_in_python(release: Path) -> None:
    loaded = dalenius.load(release)
    with pytest.raises(TimeLimitError, match="1 seconds"):
        loaded.count(SLOW, timeout=1)
    there = loaded.count("Gender = 'F'", ["Disease"], timeout=HANG)
    assert loaded._calibration is not None  # measured there, and kept here
    assert loaded.count("Gender = 'F'", ["Disease"]) == there
    with pytest.raises(QueryError, match="not allowed"):
        loaded.count("random() > 1", timeout=HANG)
