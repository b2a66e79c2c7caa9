"""Releases on a file system that is not this machine's, as far as Spark can tell: behind a mount table of Hadoop's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import dalenius
from dalenius.errors import OutputError, ReleaseError, SelfCheckError, UsageError
from dalenius.publishing.spark.cluster_files import HadoopFiles
from tests.publishing.test_faults import AtStage
from tests.spark.tables import check_release, publish, town, written

URL = "viewfs://town"


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder of which Spark knows the URL alone."""
    folder = tmp_path / "behind"
    folder.mkdir()
    java: Any = spark.sparkContext._jsc
    conf = java.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.town.link./data", folder.as_uri())
    conf.set("fs.viewfs.impl.disable.cache", "true")
    yield folder
    conf.unset("fs.viewfs.mounttable.town.link./data")


def shown(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))


def test_from_a_url_to_a_url(store: Path) -> None:
    table = town()
    written(table, store / "in")
    release = publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", strata="auto")
    assert release.verify().verified  # through the cluster
    assert release.qit.num_rows == len(table)
    names = shown(store / "out")
    assert names[0] == "manifest.json"
    assert [name.partition("-")[0] for name in names[1:]] == ["qit", "st"]
    check_release(dalenius.load(store / "out"), table)


def test_verifying_fetches_a_file_twice_at_most(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for its hash and once for its rows, however many there are."""
    written(town(), store / "in")
    fetched: Counter[str] = Counter()
    fetch = HadoopFiles.fetch

    def counted(files: HadoopFiles, name: str, to: Path) -> None:
        fetched[name] += 1
        fetch(files, name, to)

    monkeypatch.setattr(HadoopFiles, "fetch", counted)
    monkeypatch.setattr("dalenius.publishing.spark.cluster_table._LEAST_PIECE_ROWS", 30)
    release = publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    tables = release.manifest.tables
    assert set(fetched) == {*tables.qit.files, *tables.st.files}
    assert len(fetched) > 30
    assert max(fetched.values()) <= 2


def test_replacing_leaves_the_new_release_alone(store: Path) -> None:
    table = town()
    written(table, store / "in")
    publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    before = shown(store / "out")
    with pytest.raises(UsageError, match="there already"):
        publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    assert shown(store / "out") == before
    publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", force=True)
    after = shown(store / "out")
    assert len(after) == 3
    assert set(before) & set(after) == {"manifest.json"}
    check_release(dalenius.load(store / "out"), table)


def test_a_failure_before_the_manifest_leaves_what_was_there(store: Path) -> None:
    table = town()
    written(table, store / "in")
    publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    before = shown(store / "out")

    def fail() -> None:
        raise SelfCheckError("on purpose")

    with pytest.raises(SelfCheckError, match="on purpose"):
        publish(
            f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", force=True, progress=AtStage("Verifying", fail)
        )
    assert shown(store / "out") == before
    check_release(dalenius.load(store / "out"), table)
    with pytest.raises(SelfCheckError, match="on purpose"):
        publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/new", progress=AtStage("Verifying", fail))
    assert not (store / "new").exists()


def test_what_a_killed_run_left_is_no_release_and_goes_with_force(store: Path) -> None:
    table = town()
    written(table, store / "in")
    publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    (store / "out" / "manifest.json").unlink()
    left = shown(store / "out")
    with pytest.raises(ReleaseError, match="no manifest"):
        dalenius.load(store / "out")
    with pytest.raises(UsageError, match="unfinished"):
        publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out")
    assert shown(store / "out") == left
    publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", force=True)
    assert not set(left) & set(shown(store / "out"))
    check_release(dalenius.load(store / "out"), table)


def test_what_is_not_a_release_stays(store: Path) -> None:
    written(town(), store / "in")
    (store / "out").mkdir()
    (store / "out" / "thesis.txt").write_text("years of work")
    for force in (False, True):
        with pytest.raises(UsageError):
            publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", force=force)
    (store / "out" / "manifest.json").write_text(json.dumps({"program": {"name": "other"}}))
    with pytest.raises(UsageError):
        publish(f"{URL}/data/in", engine="spark", out=f"{URL}/data/out", force=True)
    assert (store / "out" / "thesis.txt").read_text() == "years of work"


def test_a_scheme_that_nobody_knows(spark: SparkSession, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "in")
    with pytest.raises((UsageError, OutputError)) as failed:
        publish(source, engine="spark", out="nowhere://bucket/out")
    assert "bucket" not in str(failed.value)
