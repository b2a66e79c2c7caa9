"""The fuzzer itself finds what it is to find, and a short run of it finds nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dalenius.errors import DaleniusError
from fuzz import __main__ as watching
from fuzz.releases import Releases, mutated_bytes
from fuzz.targets import TARGETS, FoundError
from fuzz.thrift_tree import read_tree, write_tree
from tests.effort import examples

CASES = {"csv": 120, "job": 600, "manifest": 240, "parquet": 160, "query": 400}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releases]:
    made = Releases(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.counter.__exit__(None, None, None)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_found(target: str, releases: Releases) -> None:
    """In this process: nothing but errors of ours comes out of it."""
    chosen = TARGETS[target]
    found = []
    for number in range(examples(CASES[target])):
        made = chosen.make(Random(f"0-{target}-{number}"), releases)  # noqa: S311
        try:
            chosen.run(made, releases)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
            found.append((number, repr(error)))
    assert found == []


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_the_same_wherever_they_are_made(target: str, releases: Releases, tmp_path: Path) -> None:
    again = Releases(tmp_path)
    for number in range(20):
        one, other = (TARGETS[target].make(Random(number), made) for made in (releases, again))  # noqa: S311
        assert one == other


def test_footers_are_written_as_they_were_read(releases: Releases) -> None:
    for name in releases.with_parquet:
        for path in releases.folders[name].glob("**/*.parquet"):
            content = path.read_bytes()
            footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
            assert write_tree(read_tree(footer)) == footer


def test_bytes_change() -> None:
    changed = sum(mutated_bytes(b"some bytes", Random(number)) != b"some bytes" for number in range(100))  # noqa: S311
    assert changed > 80


def test_a_table_that_is_read_otherwise_is_found(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    TARGETS["csv"].run(b'a,b\n1,"x,y"\n', releases)
    monkeypatch.setattr("dalenius.tables.delimited.read_header", lambda *_: (";", ["a", "b"]))
    with pytest.raises(FoundError, match="otherwise"):
        TARGETS["csv"].run(b'a,b\n1,"x,y"\n', releases)


def test_an_exception_is_found(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dalenius.policy.job.parse_job", broken)
    with pytest.raises((ZeroDivisionError, FoundError)):
        TARGETS["job"].run(b"[limits]\nuniform = 0.5", releases)


WORKER = """
import os, sys, time
number = int(sys.argv[3])
for number in range(number, number + int(sys.argv[4])):
    print("case", number, flush=True)
    if number == 2: print("failed SomeError", flush=True)
    if number == 4: os.abort()
    while number == 6: pass
    if number == 8: held = bytearray(2**26); time.sleep(60)
"""


def test_processes_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Failures, deaths, hangs and growth are told apart, and the cases go on after each of them."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda words, **more: start([sys.executable, str(script), *words[3:]], **more)
    )
    monkeypatch.setattr(watching, "_LONGEST", 1.0)
    monkeypatch.setattr(watching, "MOST_RESIDENT", 2**26)
    tally = watching.Tally(tmp_path / "failures")
    watching.run_cases("query", 7, range(10), time.monotonic() + 60, tally)
    assert tally.cases == {"query": 10}
    assert tally.failed == {
        "query: SomeError": 1,
        "query: the process ended with -6": 1,
        "query: more than 1 seconds": 1,
        "query: more memory than it was given": 1,
    }
    assert {path.name for path in (tmp_path / "failures").iterdir()} == {f"query-7-{place}" for place in (2, 4, 6, 8)}
    assert "FAILED query: SomeError" in capsys.readouterr().out


def test_what_was_kept_is_run_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "job-0-0"
    kept.write_bytes(b"[limits]\nuniform = 0.5\n[table]\nsensitive = 'Disease'")
    assert watching.main(["--replay", str(kept)]) == 0
    assert capfd.readouterr().out == "case 0\n"


def test_errors_of_ours_are_fine(releases: Releases) -> None:
    with pytest.raises(DaleniusError):
        releases.counter.count("nonsense = 1")
    TARGETS["query"].run(b"nonsense = 1", releases)
