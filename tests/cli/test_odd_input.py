"""What is no file, and signals at bad moments: every command ends, quietly, and leaves nothing in temporary folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from tests.effort import cases
from tests.handmade import hospital

LIMITS = ["--odds", "4"]
ROLES = ["--sensitive", "Disease", "--quasi-identifiers", "Age"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a release, its table, pipes that nobody writes to, and a device that never ends."""
    monkeypatch.chdir(tmp_path)
    hospital().write(tmp_path / "release")
    for table in ("qit", "st"):
        hospital().write(tmp_path / table)
        (tmp_path / table / f"{table}.parquet").unlink()
        os.mkfifo(tmp_path / table / f"{table}.parquet")
    hospital().write(tmp_path / "unnamed")
    (tmp_path / "unnamed" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "unnamed" / "manifest.json")
    pyarrow.parquet.write_table(hospital().source(), "table.parquet")
    for name in ("pipe.csv", "pipe.csv.gz", "pipe.parquet", "pipe.duckdb", "pipe.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    return tmp_path


@pytest.fixture
def watchdog() -> Iterator[None]:
    """A command that waits for a pipe would wait for ever, and the suite with it."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


TABLES = ["pipe.csv", "zero.csv", "pipe.parquet", "pipe.csv.gz", "pipe.duckdb"]
FILES = ["pipe.toml", "zero.toml"]
COMMANDS = [
    *(["plan", name, "--sensitive", "Disease", *LIMITS] for name in TABLES),
    *(["publish", name, *ROLES, *LIMITS, "--out", "out"] for name in TABLES),
    *(["verify", "release", "--against", name] for name in TABLES),
    *(["workload", "release", "--against", name] for name in TABLES[:1]),
    *(["audit", "release", "--truth", name] for name in TABLES[:1]),
    *(["audit", "release", "--truth", "table.parquet", "--control", name] for name in TABLES[:1]),
    *(["report", "release", "--truth", name] for name in TABLES[:1]),
    *(["dp-risk", name, *ROLES, *LIMITS, "--epsilon", "1"] for name in TABLES[:1]),
    *(["plan", "--counts", name, *LIMITS] for name in FILES),
    *(["plan", "table.parquet", "--job", name] for name in FILES),
    *(["publish", "table.parquet", "--job", name, "--out", "out"] for name in FILES),
    *(["verify", "release", "--job", name] for name in FILES),
    *(["report", "release", "--job", name] for name in FILES),
    *(["verify", "--certificate", name, "--counts", "pipe.csv", *LIMITS] for name in FILES),
    *(["query", "release", "--queries", name] for name in FILES),
    *(["query", name, "Age > 20"] for name in ("qit", "st", "unnamed")),
    *(["audit", name] for name in ("qit", "st", "unnamed")),
]


@pytest.mark.usefixtures("watchdog", "folder")
def test_pipes_and_devices_are_refused_at_once() -> None:
    for words in COMMANDS:
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        assert result.exit_code == 2, (words, result.output)
        assert "regular file" in result.output or words[0] == "audit", (words, result.output)


@pytest.mark.usefixtures("watchdog", "folder")
def test_pipes_in_a_release_are_findings_and_no_release_to_replace() -> None:
    for name in ("qit", "st", "unnamed"):
        result = CliRunner().invoke(main, ["verify", name], catch_exceptions=False)
        assert (result.exit_code, "is not a regular file" in result.output) == (1, True)
        words = ["publish", "table.parquet", *ROLES, *LIMITS, "--out", name, "--force"]
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        assert (result.exit_code, "not a release" in result.output) == (2, True)


def test_nothing_stays_in_the_temporary_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = folder / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    for words in (
        ["plan", "table.parquet", "--sensitive", "Disease", *LIMITS],
        ["plan", "table.parquet", "--sensitive", "Nothing", *LIMITS],
        ["publish", "table.parquet", *ROLES, *LIMITS, "--out", "out"],
        ["publish", "table.parquet", *ROLES, "--uniform", "1/9", "--out", "out2"],
        ["verify", "release", "--against", "table.parquet"],
        ["verify", "release", "--against", "release"],
        ["query", "release", "Age > 30", "--no-measure"],
        ["query", "release", "Age > 'x' + 1"],
        ["audit", "release", "--truth", "table.parquet", "--attack", "order"],
    ):
        CliRunner().invoke(main, words, catch_exceptions=False)
        assert list(scratch.iterdir()) == [], words


# A program that sends itself a signal: when a module is imported, when a folder is made or removed, or at its end.
PROGRAM = """
import os, signal, sys, atexit
when, name, number = sys.argv[1:4]
sys.argv[1:4] = []
def send():
    os.kill(os.getpid(), int(number))
class Finder:
    def find_spec(self, module, *_):
        if module == name:
            sys.meta_path.remove(self)
            send()
if when == "import":
    sys.meta_path.insert(0, Finder())
elif when == "exit":
    atexit.register(send)
else:
    def noisy(path, *rest, before=getattr(os, name), **more):
        done = before(path, *rest, **more)
        if "dalenius-" in str(path):
            setattr(os, name, before)
            send()
        return done
    setattr(os, name, noisy)
from dalenius.cli.start import entry
entry()
"""
PLAN = ["plan", "table.csv", "--sensitive", "s", "--odds", "4"]
MOMENTS = [
    ("import", "dalenius.cli.main", signal.SIGINT, 130),
    ("import", "_duckdb", signal.SIGINT, 130),
    ("exit", "", signal.SIGINT, 0),
    ("call", "mkdir", signal.SIGTERM, 130),
    ("import", "numpy", signal.SIGTERM, 130),
    ("import", "click", signal.SIGINT, 130),
    ("call", "rmdir", signal.SIGINT, 130),
    ("import", "highspy", signal.SIGINT, 130),
    ("exit", "", signal.SIGTERM, 0),
]


def run_with_a_signal(when: str, name: str, number: signal.Signals, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "table.csv").write_text("s\nx\ny\n")
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    words = [sys.executable, "-c", PROGRAM, when, name, str(int(number)), *PLAN]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("when", "name", "number", "code"), cases(*MOMENTS, usually=4))
def test_a_signal_at_a_bad_moment(when: str, name: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    done = run_with_a_signal(when, name, number, tmp_path)
    assert (done.returncode, done.stderr in ("", "Error: interrupted\n")) == (code, True), done.stderr
    assert list((tmp_path / "scratch").iterdir()) == []


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As behind nohup, or in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run_with_a_signal("import", "_duckdb", signal.SIGINT, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stderr) == (0, "")
