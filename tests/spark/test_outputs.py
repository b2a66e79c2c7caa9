"""Where releases go on this machine's disk, and what happens there when things go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import dalenius
from dalenius.errors import SelfCheckError, UsageError
from dalenius.place.marks import Marks
from dalenius.publishing.spark.cluster_files import HadoopFiles
from dalenius.release.signature import write_new_key
from tests.effort import cases
from tests.publishing.test_faults import AtStage
from tests.spark.tables import check_release, publish, town, written

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(town(), tmp_path_factory.mktemp("people") / "table")


class BoomError(Exception):
    """Nothing that Dalenius knows."""


def fail() -> None:
    raise BoomError


@pytest.mark.parametrize("name", cases("ü#y? [a]{b}*", "trailing/", "a%20b", usually=2))
def test_odd_paths(people: Path, tmp_path: Path, name: str) -> None:
    release = publish(people, engine="spark", out=f"{tmp_path}/{name}")
    assert [entry.name for entry in tmp_path.iterdir()] == [name.rstrip("/")]
    check_release(release, town())
    check_release(dalenius.load(tmp_path / name), town())


def test_a_url_of_a_file(people: Path, tmp_path: Path) -> None:
    publish(people.as_uri(), engine="spark", out=(tmp_path / "re lease").as_uri().replace("%20", " "))
    check_release(dalenius.load(tmp_path / "re lease"), town())


def test_relative_paths_are_those_of_this_process(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.parquet").symlink_to(people)
    publish("here.parquet", engine="spark", out="deep/down")
    check_release(dalenius.load(tmp_path / "deep" / "down"), town())


def test_what_is_in_the_way(people: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("file", "link"):
        for force in (False, True):
            with pytest.raises(UsageError, match="not a folder"):
                publish(people, engine="spark", out=tmp_path / name, force=force)
    assert (tmp_path / "file").read_text() == "mine"
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_file_of_somebody_within_a_release_stays(people: Path, tmp_path: Path, engine: str) -> None:
    release = publish(people, engine=engine, out=tmp_path / "release", format="parts")
    note = tmp_path / "release" / release.manifest.tables.qit.file / "notes.txt"
    note.write_text("mine")
    with pytest.raises(UsageError, match="not a release"):
        publish(people, engine="spark", out=tmp_path / "release", force=True)
    assert note.read_text() == "mine"


@pytest.mark.parametrize("stage", ["Placing", "Publishing"])
def test_a_failure_at_any_stage_leaves_what_was_there(people: Path, tmp_path: Path, stage: str) -> None:
    (tmp_path / "empty").mkdir()
    publish(people, out=tmp_path / "old")
    before = sorted((tmp_path / "old").iterdir())
    for out, force in ((tmp_path / "a" / "b" / "new", False), (tmp_path / "empty", False), (tmp_path / "old", True)):
        with pytest.raises(BoomError):
            publish(people, engine="spark", out=out, force=force, progress=AtStage(stage, fail))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["empty", "old"]
    assert not list((tmp_path / "empty").iterdir())
    assert sorted((tmp_path / "old").iterdir()) == before
    check_release(dalenius.load(tmp_path / "old"), town())


def test_an_interruption_right_after_the_manifest(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(people, engine="spark", out=tmp_path / "release", seed=1)
    write_last = HadoopFiles.write_last

    def interrupted(files: HadoopFiles, name: str, content: bytes) -> None:
        write_last(files, name, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(HadoopFiles, "write_last", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(people, engine="spark", out=tmp_path / "release", force=True)
    release = dalenius.load(tmp_path / "release")
    assert release.manifest.randomness == "cryptographic"
    check_release(release, town())


class TestSigned:
    """The signature is there before the manifest, which alone makes a release."""

    @pytest.fixture
    def keys(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("keys")
        for name in ("old", "new"):
            write_new_key(folder / name)
        return folder

    def test_it_comes_and_goes_with_the_release(self, people: Path, keys: Path, tmp_path: Path) -> None:
        """In the place of what a killed run left, which force alone removes; and then without a signature."""
        out = tmp_path / "release"
        (out / f"qit-{'0' * 16}").mkdir(parents=True)
        (out / "manifest.sig").write_text("x")
        with pytest.raises(UsageError, match="unfinished"):
            publish(people, engine="spark", out=out, sign=keys / "old")
        made = publish(people, engine="spark", out=out, sign=keys / "old", force=True)
        assert made.verify(signed_by=keys / "old.pub").verified
        assert len(list(out.iterdir())) == 4
        made = publish(people, engine="spark", out=out, force=True)
        assert len(list(out.iterdir())) == 3
        check_release(made, town())

    def test_stopped_before_the_manifest_it_leaves_what_was_there(
        self, people: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = tmp_path / "old"
        publish(people, out=old, sign=keys / "old")
        write_last = HadoopFiles.write_last

        def stopped(files: HadoopFiles, name: str, content: bytes) -> None:
            if name == "manifest.json":
                raise BoomError
            write_last(files, name, content)

        monkeypatch.setattr(HadoopFiles, "write_last", stopped)
        for out in (old, tmp_path / "new"):
            with pytest.raises(BoomError):
                publish(people, engine="spark", out=out, sign=keys / "new", force=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["old"]
        assert sorted(entry.name for entry in old.iterdir()) == [
            "manifest.json",
            "manifest.sig",
            "qit.parquet",
            "st.parquet",
        ]
        assert dalenius.load(old).verify(signed_by=keys / "old.pub").verified


def test_another_run_was_faster(people: Path, tmp_path: Path) -> None:
    def overtake() -> None:
        publish(people, out=tmp_path / "other", seed=3)
        (tmp_path / "release").mkdir(exist_ok=True)
        for entry in (tmp_path / "other").iterdir():
            entry.rename(tmp_path / "release" / entry.name)

    with pytest.raises(UsageError, match="there already"):
        publish(people, engine="spark", out=tmp_path / "release", progress=AtStage("Publishing", overtake))
    release = dalenius.load(tmp_path / "release")
    assert release.manifest.tables.qit.file == "qit.parquet"
    assert len(list((tmp_path / "release").iterdir())) == 3
    check_release(release, town())


def test_a_round_of_exchanging_fakes_that_fails_leaves_nothing_of_the_round_before(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Marks] = []

    def once_more(_avoiding: Any, _folder: Any, marks: Marks) -> Marks | None:
        asked.append(marks)
        return marks

    def second(number: list[int]) -> None:
        number.append(1)
        if len(number) == 2:
            raise SelfCheckError("on purpose")

    rounds: list[int] = []
    monkeypatch.setattr("dalenius.fakes.avoiding.FakeImprover.improve", once_more)
    with pytest.raises(SelfCheckError, match="on purpose"):
        publish(
            people,
            engine="spark",
            out=tmp_path / "release",
            fake_values=1,
            avoid_ruled_out=True,
            progress=AtStage("Writing", lambda: second(rounds)),
        )
    assert asked
    assert not list(tmp_path.iterdir())


def test_files_that_sparks_own_writer_made_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """It stores texts that are all different as deltas, which Arrow does not read as dictionaries."""
    table = town(300).append_column("name", pa.array([f"somebody {number:05d}" for number in range(300)]))
    frame = spark.read.parquet(str(written(table, tmp_path / "table")))
    frame.coalesce(1).write.option("parquet.writer.version", "v2").parquet(str(tmp_path / "by spark"))
    (file,) = (tmp_path / "by spark").glob("*.parquet")
    assert "DELTA_BYTE_ARRAY" in pyarrow.parquet.read_metadata(file).row_group(0).column(4).encodings
    for source in (file, tmp_path / "by spark"):
        check_release(publish(source, quasi_identifiers=["Age", "name"]), table)


def test_a_part_of_a_release_is_a_table_too(people: Path, tmp_path: Path) -> None:
    release = publish(people, engine="spark", out=tmp_path / "release")
    first = tmp_path / "release" / release.manifest.tables.qit.files[0]
    for engine in ("duckdb", "spark"):
        again = publish(first, engine=engine, quasi_identifiers=["Gender"], sensitive="id", limits={"uniform": "1/2"})
        assert again.manifest.rows == release.manifest.tables.qit.parts[0].rows  # type: ignore[index]
