"""Whatever ends a run: what is published and what the ledger knows never contradict each other, and it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import dalenius
from dalenius.errors import DaleniusError, LedgerError, OutputError, UsageError
from dalenius.release.ledger import OpenLedger
from dalenius.release.ledger_file import LedgerKey
from dalenius.release.staging import Staging
from tests.over_time import People, Years, buckets_of, files_in, table_of
from tests.publishing.test_faults import AtStage, small_disk

STAGES = ["Linking", "Counting", "Solving", "Placing", "Reading", "Writing", "Verifying"]
FIRST: People = {name: (number, "xy"[number % 2]) for number, name in enumerate("abcdefgh")}
SECOND: People = {**{name: one for name, one in FIRST.items() if name != "a"}, "i": (8, "x"), "j": (9, "y")}


@pytest.fixture
def years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Years:
    monkeypatch.delenv("DALENIUS_LEDGER_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return Years(tmp_path)


def holds(years: Years) -> None:
    """There are the releases that we know of, with the ledger of the last, and nothing else; and they follow."""
    names = {f"r{number}" for number in range(1, len(years.releases) + 1)}
    kept = {path.name for path in years.folder.iterdir() if not is_empty(path) and path.suffix != ".parquet"}
    assert kept - {"private"} == names
    if names:
        assert {path.name for path in years.ledger.parent.iterdir()} == {"ledger", "ledger.key"}
    for before, release in zip(years.releases, years.releases[1:], strict=False):
        assert release.verify(previous=before).verified
        old, new = buckets_of(before), buckets_of(release)
        assert all(new[age] == bucket for age, bucket in old.items() if age in new)


def is_empty(path: Path) -> bool:
    """Whether it is a folder through which a release went to its place, before the program was killed."""
    return ".ready-" in path.name and not list(path.iterdir())


def goes_on(years: Years) -> None:
    """The next releases are made as if nothing had happened."""
    for people in (FIRST, SECOND, FIRST)[len(years.releases) :]:
        years.follow(people)
        holds(years)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("first", [True, False], ids=["first", "next"])
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_while_it_is_made(stage: str, first: bool, years: Years) -> None:
    if not first:
        years.follow(FIRST)
    before = files_in(years.folder)
    begun: list[str] = []

    def stop() -> None:
        begun.append(stage)
        interrupt()

    people = FIRST if first else SECOND
    try:
        years.follow(people, progress=AtStage(stage, stop))
    except KeyboardInterrupt:
        after = files_in(years.folder)
        assert before == after
    assert begun or (stage, first) == ("Reading", True)
    goes_on(years)


POINTS: dict[str, tuple[type, str, bool]] = {
    "before the ledger waits": (OpenLedger, "wait", False),
    "when the ledger waits": (OpenLedger, "wait", True),
    "before the release is in its place": (Staging, "commit", False),
    "when the release is in its place": (Staging, "commit", True),
    "before the ledger is settled": (OpenLedger, "settle", False),
    "when the ledger is settled": (OpenLedger, "settle", True),
}


@pytest.mark.parametrize("first", [True, False], ids=["first", "next"])
@pytest.mark.parametrize("point", POINTS)
def test_an_interrupt_while_it_takes_its_place(
    point: str, first: bool, years: Years, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not first:
        years.follow(FIRST)
    place, name, done = POINTS[point]
    whole = getattr(place, name)

    def stopped(self: object, *given: object) -> None:
        if done:
            whole(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, name, stopped)
        with pytest.raises(KeyboardInterrupt):
            years.follow(FIRST if first else SECOND)
    if years.next.exists():
        years.releases.append(dalenius.load(years.next))
        assert "settled" in point or point == "when the release is in its place"
    goes_on(years)


KILLED = """
import os, pathlib, signal, sys
import dalenius
from dalenius.release import ledger, ledger_file, staging
place = {"OpenLedger": ledger.OpenLedger, "Staging": staging.Staging, "LedgerKey": ledger_file.LedgerKey}[sys.argv[1]]
whole = getattr(place, sys.argv[2])
def killed(self, *given):
    if sys.argv[3] == "after":
        whole(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, sys.argv[2], killed)
after = {"after": sys.argv[5]} if len(sys.argv) > 5 else {}
dalenius.publish("table.parquet", {"uniform": "1/2"}, sensitive="value", quasi_identifiers=["age"], person="person",
                 ledger="private/ledger", out=sys.argv[4], **after)
"""


def kill(years: Years, people: People, point: tuple[type, str, bool]) -> None:
    """Publish the next release in a process that is killed at a point."""
    pyarrow.parquet.write_table(table_of(people), years.folder / "table.parquet")
    place, name, done = point
    words = [place.__name__, name, "after" if done else "before", years.next.name]
    words += [years.releases[-1].path.name] if years.releases else []
    done_ = subprocess.run([sys.executable, "-c", KILLED, *words], cwd=years.folder, capture_output=True, check=False)
    assert done_.returncode == -signal.SIGKILL, done_.stderr


@pytest.mark.parametrize("first", [True, False], ids=["first", "next"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_while_it_takes_its_place(point: str, first: bool, years: Years) -> None:
    if not first:
        years.follow(FIRST)
    kill(years, FIRST if first else SECOND, POINTS[point])
    if years.next.exists():
        release = dalenius.load(years.next)
        with pytest.raises(DaleniusError, match=r"published already|follows already|a ledger already") as error:
            years.follow(SECOND, out=years.folder / "again")  # --after as before
        assert "--after" in str(error.value)
        assert not (years.folder / "again").exists()
        years.releases.append(release)
        assert "settled" in point or point == "when the release is in its place"
    goes_on(years)


def test_a_kill_and_then_another_place(years: Years) -> None:
    """The release that was to be is staged for a place that nobody uses again: it is not published, and so it is."""
    years.follow(FIRST)
    kill(years, SECOND, POINTS["when the ledger waits"])
    other = years.follow(SECOND, out=years.folder / "elsewhere")
    assert other.verify(previous=years.releases[0]).verified
    assert {path.name for path in years.ledger.parent.iterdir()} == {"ledger", "ledger.key"}


def test_a_kill_and_then_the_staged_release_is_lost(years: Years) -> None:
    """Nobody can tell whether it was published; whoever can says so by removing the ledger that waits."""
    years.follow(FIRST)
    kill(years, SECOND, POINTS["when the ledger waits"])
    dalenius.publish(
        table_of(FIRST), {"uniform": "1/2"}, sensitive="value", quasi_identifiers=["age"], out=years.next
    )  # something else, which removes what is staged
    with pytest.raises(LedgerError, match="its release is not where it was to be") as error:
        years.follow(SECOND, out=years.folder / "r3")
    assert "'.next' behind the ledger's name" in str(error.value.hint)
    years.ledger.with_name("ledger.next").unlink()
    assert years.follow(SECOND, out=years.folder / "r3").verify(previous=years.releases[0]).verified


def test_a_published_release_that_was_moved_before_anybody_went_on(years: Years) -> None:
    years.follow(FIRST)
    kill(years, SECOND, POINTS["when the release is in its place"])
    years.next.rename(years.folder / "moved")
    with pytest.raises(DaleniusError, match="follows already"):
        years.follow(SECOND)
    years.releases.append(dalenius.load(years.folder / "moved"))
    assert years.follow(FIRST).verify(previous=years.releases[1]).verified


def test_a_kill_between_a_new_key_and_its_first_ledger_says_what_to_do(years: Years) -> None:
    kill(years, FIRST, (LedgerKey, "keep", True))
    with pytest.raises(LedgerError, match="there is the key of a ledger, and the ledger is not there") as error:
        years.follow(FIRST)
    assert "give another --ledger" in str(error.value.hint)


def fail(_self: object, *_given: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("first", [True, False], ids=["first", "next"])
@pytest.mark.parametrize("name", ["os.fsync", "wait", "commit", "settle"])
def test_a_disk_that_is_full_at_the_last_moment(
    name: str, first: bool, years: Years, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not first:
        years.follow(FIRST)
    targets: dict[str, tuple[str, object]] = {
        "os.fsync": ("dalenius.release.ledger_file.os.fsync", fail),
        "wait": ("dalenius.release.ledger_file.LedgerKey.keep", fail),
        "commit": ("dalenius.release.staging.Staging.commit", fail),
        "settle": ("dalenius.release.ledger.waiting", None),
    }
    with monkeypatch.context() as patched:
        if name == "settle":
            whole = OpenLedger.settle

            def settle(self: OpenLedger) -> None:
                patched.setattr(Path, "replace", fail)
                whole(self)

            patched.setattr(OpenLedger, "settle", settle)
        else:
            patched.setattr(*targets[name])
        with pytest.raises(OutputError, match="the disk is full"):
            years.follow(FIRST if first else SECOND)
    if name == "settle":
        years.releases.append(dalenius.load(years.next))
    else:
        assert not years.next.exists()
    goes_on(years)


LIMITED = """
import sys
import dalenius
dalenius.publish("table.parquet", {"uniform": "1/2"}, sensitive="value", quasi_identifiers=["age"], person="person",
                 ledger="disk/ledger", out="release")
"""


def test_a_disk_that_is_too_small_for_the_ledger(years: Years) -> None:
    people = {f"p{number}": (number, "xy"[number % 2]) for number in range(20_000)}
    pyarrow.parquet.write_table(table_of(people), years.folder / "table.parquet")
    disk = years.folder / "disk"
    disk.mkdir()
    prefix = small_disk(disk)
    if prefix is None:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*prefix, "sh", "-c", f'"$@"; ls -A "{disk}"', "sh", sys.executable, "-c", LIMITED],
        cwd=years.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the disk is full" in done.stderr
    assert done.stdout == ""
    assert {path.name for path in years.folder.iterdir()} == {"disk", "table.parquet"}


def test_a_place_where_no_ledger_can_be(years: Years) -> None:
    (years.folder / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="the ledger cannot be written"):
        years.follow(FIRST, ledger=years.folder / "file" / "ledger")
    assert not years.next.exists()


def test_two_runs_at_once(years: Years) -> None:
    years.follow(FIRST)
    refused: list[str] = []

    def the_other() -> None:
        with pytest.raises(LedgerError, match="another run is using the ledger") as error:
            years.follow(SECOND, out=years.folder / "other")
        refused.append(str(error.value.hint))

    years.follow(SECOND, progress=AtStage("Verifying", the_other))
    assert refused == ["Wait until it is done."]
    holds(years)
    goes_on(years)


def test_two_runs_of_the_same_first_release(years: Years) -> None:
    def the_other() -> None:
        years.follow(FIRST, ledger=years.folder / "private" / "second")

    with pytest.raises(UsageError, match="there already"):  # the other one was first
        years.follow(FIRST, progress=AtStage("Verifying", the_other))
    assert len(years.releases) == 1
    assert {path.name for path in years.ledger.parent.iterdir()} == {"second", "second.key"}


def test_the_ledger_of_a_year_ago_is_refused(years: Years) -> None:
    years.follow(FIRST)
    old = years.ledger.read_bytes()
    years.follow(SECOND)
    new = years.ledger.read_bytes()
    years.ledger.write_bytes(old)
    before = files_in(years.folder)
    for after, says in ((years.releases[1], "restored from an older backup"), (years.releases[0], "follows already")):
        with pytest.raises(DaleniusError, match=says):
            years.follow(SECOND, after=after.path)
    assert files_in(years.folder) == before
    years.ledger.write_bytes(new)
    goes_on(years)


def test_force_replaces_another_release_and_the_ledger_follows(years: Years) -> None:
    years.follow(FIRST)
    dalenius.publish(table_of(FIRST), {"uniform": "1/2"}, sensitive="value", quasi_identifiers=["age"], out=years.next)
    with pytest.raises(UsageError, match="there already"):
        years.follow(SECOND)
    years.follow(SECOND, force=True)
    holds(years)
    goes_on(years)


def test_nothing_is_left_of_a_run_that_was_killed_while_it_wrote(years: Years) -> None:
    years.follow(FIRST)
    part = years.ledger.with_name(".ledger.part-0123456789abcdef")
    part.write_bytes(b"half")
    os.utime(part, (0, 0))
    years.follow(SECOND)
    holds(years)
