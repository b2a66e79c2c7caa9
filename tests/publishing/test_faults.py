"""Whatever goes wrong, the target is what it was before: the old release, or none. Nothing half made is left."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.errors import ChangedInputError, InputError, OutputError, ReleaseError, UsageError
from dalenius.release.manifest import FORMAT
from tests.handmade import edit_manifest

STAGES = ["Counting", "Solving", "Placing", "Writing", "Verifying"]


class AtStage:
    """Does something when a stage begins."""

    def __init__(self, name: str, what: Callable[[], object]) -> None:
        self._name, self._what = name, what

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        if name == self._name:
            self._what()

    def advance(self, number: int) -> None:
        pass

    def tell(self, sentence: str) -> None:
        pass


def table(rows: int = 300, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"q": pa.array(rng.integers(0, 50, rows)), "s": pa.array(np.arange(rows) % 5)})


def publish(
    source: object, out: Path, progress: AtStage | None = None, force: bool = False, form: Any = None
) -> dalenius.Release:
    return dalenius.publish(
        source,
        {"uniform": "1/3"},
        sensitive="s",
        quasi_identifiers=["q"],
        out=out,
        progress=progress,
        force=force,
        format=form,
    )


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("before", [False, True], ids=["nothing there", "a release there"])
@pytest.mark.parametrize("form", ["parquet", "parts"])
def test_an_interrupt_leaves_what_was_there(name: str, before: bool, form: str, tmp_path: Path) -> None:
    out = tmp_path / "release"
    old = publish(table(), out, form=form).manifest if before else None
    with pytest.raises(KeyboardInterrupt):
        publish(table(400), out, AtStage(name, interrupt), force=True, form=form)
    assert [p.name for p in tmp_path.iterdir()] == (["release"] if before else [])
    if before:
        assert dalenius.load(out).manifest == old
        assert dalenius.load(out).verify(against=table()).verified


KILLED = """
import os, signal, sys, dalenius
class Kill:
    def stage(self, name, total=None, unit="rows"):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
    def advance(self, rows):
        pass
    def tell(self, sentence):
        pass
dalenius.publish("table.parquet", {"uniform": "1/3"}, sensitive="s", quasi_identifiers=["q"], out="release",
                 force=True, progress=Kill(), format=sys.argv[2])
"""


@pytest.mark.parametrize(("name", "form"), [*((name, "parquet") for name in STAGES), ("Verifying", "parts")])
def test_a_kill_leaves_what_was_there_and_the_next_run_cleans_up(name: str, form: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(table(), tmp_path / "table.parquet")
    out = tmp_path / "release"
    old = publish(table(200), out, form=form).manifest
    done = subprocess.run([sys.executable, "-c", KILLED, name, form], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert dalenius.load(out).manifest == old
    assert dalenius.load(out).verify(against=table(200)).verified
    left = [p for p in tmp_path.iterdir() if p.name.startswith(".release.staging-")]
    assert len(left) == 1
    assert not (left[0] / "manifest.json").exists() or name == "Verifying"
    new = publish(tmp_path / "table.parquet", out, force=True)
    assert new.verify(against=table()).verified
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release", "table.parquet"]


def test_a_run_beside_another_leaves_its_staging_alone(tmp_path: Path) -> None:
    out = tmp_path / "release"

    def the_other() -> None:
        publish(table(100, seed=9), out)

    with pytest.raises(UsageError, match="there already"):  # the other one was first
        publish(table(), out, AtStage("Verifying", the_other))
    assert dalenius.load(out).verify(against=table(100, seed=9)).verified
    assert [p.name for p in tmp_path.iterdir()] == ["release"]


def replace(path: Path, other: pa.Table) -> Callable[[], object]:
    return lambda: pyarrow.parquet.write_table(other, path)


@pytest.mark.parametrize("name", STAGES[1:3])
@pytest.mark.parametrize("change", ["more rows", "fewer rows", "other values", "same counts", "truncated", "removed"])
def test_an_input_that_changes_between_its_readings(name: str, change: str, tmp_path: Path) -> None:
    path, out = tmp_path / "table.parquet", tmp_path / "release"
    pyarrow.parquet.write_table(table(), path)
    changes: dict[str, Callable[[], object]] = {
        "more rows": replace(path, table(310)),
        "fewer rows": replace(path, table(290)),
        "other values": replace(path, table().set_column(1, "s", pa.array(np.arange(300) % 6))),
        "same counts": replace(path, table(seed=1)),
        "truncated": lambda: os.truncate(path, 500),
        "removed": path.unlink,
    }
    with pytest.raises(InputError) as error:
        publish(path, out, AtStage(name, changes[change]))
    if change not in ("truncated", "removed"):
        assert isinstance(error.value, ChangedInputError)
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] in ([["table.parquet"], []])


def test_a_text_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = ["q,s", *(f"{k % 9},{k % 4}" for k in range(200))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def grow() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write("1,1\n")

    with pytest.raises(ChangedInputError):
        publish(path, tmp_path / "release", AtStage("Solving", grow))
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("name", ["Placing", "Writing", "Verifying"])
def test_the_output_folder_is_removed_midway(name: str, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    with pytest.raises(dalenius.DaleniusError):
        publish(table(), parent / "release", AtStage(name, lambda: shutil.rmtree(parent)))
    assert not (parent / "release").exists()


def test_damaged_and_unreadable_input(tmp_path: Path) -> None:
    whole = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table(5000), whole)
    data = whole.read_bytes()
    (tmp_path / "short.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "spoilt.parquet").write_bytes(data[:100] + bytes(200) + data[300:])
    packed = gzip.compress(b"q,s\n" + b"".join(b"%d,%d\n" % (k, k % 3) for k in range(5000)))
    (tmp_path / "short.csv.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "ragged.csv").write_text("q,s\n1,2\n3\n4,5,6\n", encoding="utf-8")
    (tmp_path / "empty.parquet").write_bytes(b"")
    for name in ("short.parquet", "spoilt.parquet", "short.csv.gz", "ragged.csv", "empty.parquet", "none.csv"):
        with pytest.raises(InputError) as error:
            publish(tmp_path / name, tmp_path / "release")
        assert str(tmp_path) not in str(error.value)
    assert not (tmp_path / "release").exists()
    assert not list(tmp_path.glob(".release*"))


def test_a_file_that_opens_and_cannot_be_read(tmp_path: Path) -> None:
    for name in ("unreadable.csv", "unreadable.parquet"):
        (tmp_path / name).symlink_to("/proc/self/mem")  # reading its first page is an input/output error
        with pytest.raises(InputError):
            publish(tmp_path / name, tmp_path / "release")
    assert not (tmp_path / "release").exists()


LATE = {
    "ragged": b"SECRET NAME 555,HIV,x\n",
    "quote": b'"SECRET NAME 555"x,HIV\n',
    "encoding": b"SECRET NAME \xff\xfe,HIV\n",
}


@pytest.mark.parametrize("bad", LATE)
def test_a_bad_line_late_in_a_text_file_is_told_without_its_content(bad: str, tmp_path: Path) -> None:
    rows = b"".join(b"%d,%d\n" % (k, k % 3) for k in range(120_000))
    (tmp_path / "late.csv").write_bytes(b"q,s\n" + rows + LATE[bad])
    with pytest.raises(InputError) as error:
        publish(tmp_path / "late.csv", tmp_path / "release")
    assert "SECRET" not in str(error.value)
    assert error.value.__context__ is None or error.value.__suppress_context__
    assert [p.name for p in tmp_path.iterdir()] == ["late.csv"]


def test_force_spares_what_is_put_into_the_target_meanwhile(tmp_path: Path) -> None:
    out = tmp_path / "release"

    def somebody_works_there() -> None:
        out.mkdir()
        (out / "thesis.txt").write_text("draft", encoding="utf-8")

    with pytest.raises(UsageError, match="not a release"):
        publish(table(), out, AtStage("Verifying", somebody_works_there), force=True)
    assert (out / "thesis.txt").read_text(encoding="utf-8") == "draft"
    assert [p.name for p in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_force_spares_a_folder_with_a_manifest_of_something_else(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "extension"
    (out / "manifest.json").mkdir(parents=True) if kind == "folder" else out.mkdir()
    (out / "manifest.json" / "x" if kind == "folder" else out / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="not a release"):
        publish(table(), out, force=True)
    assert (out / "manifest.json").exists()


def test_force_replaces_a_release_of_an_earlier_format(tmp_path: Path) -> None:
    out = tmp_path / "release"
    publish(table(), out)
    edit_manifest(out, lambda manifest: manifest.update(format=1, strata=[]))  # and parts, which it did not have
    with pytest.raises(ReleaseError, match="format"):
        dalenius.load(out)
    assert publish(table(), out, force=True).verify().verified
    edit_manifest(out, lambda manifest: manifest.update(format=FORMAT + 1))
    with pytest.raises(UsageError, match="not a release"):
        publish(table(), out, force=True)


def test_folders_made_for_a_release_that_fails_are_gone(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        publish(tmp_path / "none.csv", tmp_path / "a" / "b" / "release")
    assert list(tmp_path.iterdir()) == []


def test_a_termination_is_cleaned_up_after(tmp_path: Path) -> None:
    rows = "\n".join(f"{k},{k % 5}" for k in range(300_000))
    (tmp_path / "large.csv").write_text("q,s\n" + rows + "\n", encoding="utf-8")
    command = [sys.executable, "-c", FULL.replace(', "--json", *sys.argv[3:]', ""), "large.csv", "release"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Placing"):
            break
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert [p.name for p in tmp_path.iterdir()] == ["large.csv"]


FULL = """
import sys
from dalenius.cli.main import entry
sys.argv = ["dalenius", "publish", sys.argv[1], "--sensitive", "s", "--quasi-identifiers", "q", "--uniform", "1/3",
            "--out", sys.argv[2], "--json", *sys.argv[3:]]
entry()
"""


def small_disk(folder: Path) -> list[str] | None:
    """A command that runs another one with a tmpfs of 64 kB on the folder; None where that is not allowed."""
    prefix = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        f'mount -t tmpfs -o size=64k none "{folder}" && "$@"',
        "sh",
    ]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else None


@pytest.mark.parametrize("form", ["parquet", "parts"])
def test_a_full_disk(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    big = pa.table({"q": pa.array(rng.integers(0, 2**40, 60_000)), "s": pa.array(np.arange(60_000) % 5)})
    pyarrow.parquet.write_table(big, tmp_path / "table.parquet")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [sys.executable, "-c", FULL, str(tmp_path / "table.parquet"), str(disk / "release")]
    command += ["--format", form]
    prefix = small_disk(disk)
    if prefix is not None:
        listing = 'r=0; "$@" || r=$?; ls -A "' + str(disk) + '" >&2; exit $r'
        done = subprocess.run(
            [*prefix, "sh", "-c", listing, "sh", *command], capture_output=True, text=True, check=False
        )
        assert '"the disk is full"' in done.stdout
        assert done.stderr == ""  # nothing is left on it
    else:  # no right to mount: files that may not grow beyond 64 kB fail at the same places

        def limited() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))

        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited)
        assert '"kind": "output"' in done.stdout
    assert done.returncode == 2
    assert list(disk.iterdir()) == []


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        publish(table(), tmp_path / "file" / "release")
