"""Through Spark Connect: a server of its own, and no Java in the process that publishes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import dalenius
from dalenius.errors import ReleaseError
from dalenius.release.signature import write_new_key
from tests.spark.daemon import PRELOADED
from tests.spark.driving import Driver, Told
from tests.spark.java import need_java
from tests.spark.standalone import LOOPBACK, end, environment, eventually, guarded
from tests.spark.tables import COLUMNS, LIMITS, check_release, publish, town, written
from tests.spark.test_spelling import check_spelling

_STARTED = re.compile(r"Spark Connect server started at: \S+?:(\d+)")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that may write to the local file system, where the release is to go."""
    need_java()
    folder = tmp_path_factory.mktemp("connect")
    conf = {
        **PRELOADED,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.memory": "1g",
        "spark.sql.artifact.copyFromLocalToFs.allowDestLocal": "true",
        "spark.sql.files.openCostInBytes": str(128 * 2**20),
        "spark.ui.enabled": "false",
    }
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    log = folder / "log"
    with log.open("wb") as file:
        command = [program, "--master", "local[2]", *settings, "--class", kind]
        process = guarded(command, stdout=file, stderr=file, env=environment(), cwd=folder)
    try:
        eventually("a server listens", lambda: _STARTED.search(log.read_text(encoding="utf-8")) is not None)
        found = _STARTED.search(log.read_text(encoding="utf-8"))
        assert found is not None
        yield f"sc://{LOOPBACK}:{found[1]}"
    finally:
        end(process)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver") / "log") as started:
        yield started


def job(remote: str, table: Path, out: Path, **options: Any) -> Told:
    given = {"limits": LIMITS, "sensitive": "Disease", "quasi_identifiers": COLUMNS, "seed": 7}
    return {
        "table": str(table),
        "out": str(out),
        "options": given | {"engine": "spark", "spark_remote": remote} | options,
    }


def test_the_release_is_that_of_one_machine(remote: str, driver: Driver, tmp_path: Path) -> None:
    table = town(1500)
    source = written(table, tmp_path / "table")
    write_new_key(tmp_path / "key")
    signed = {"sign": str(tmp_path / "key")}
    ways: list[dict[str, Any]] = [{"strata": "auto"}, {"strata": ["Gender"], "fake_values": 1, **signed}]
    for number, options in enumerate(ways):
        out = tmp_path / f"release {number}"
        assert driver.run(job(remote, source, out, **options)) == {"done": len(table)}
        release = dalenius.load(out)
        check_release(release, table)
        assert len(check_spelling(release, 2**17)) > 4
        assert release.st.equals(publish(source, seed=7, **options).st)
        assert release.verify(signed_by=tmp_path / "key.pub").verified is ("sign" in options)


def test_what_cannot_be_done_is_said(remote: str, driver: Driver, tmp_path: Path) -> None:
    source = written(town(), tmp_path / "table")
    out = tmp_path / "release"
    assert driver.run(job(remote, source, out)) == {"done": 600}
    before = (out / "manifest.json").read_bytes()
    told = driver.run(job(remote, source, out, force=True))
    assert told["error"] == "usage"
    assert "Spark Connect" in told["message"]
    assert (out / "manifest.json").read_bytes() == before
    told = driver.run(job(remote, source, Path("relative")))
    assert told["error"] == "usage"
    told = driver.run(job(remote, tmp_path / "nowhere", tmp_path / "other"))
    assert (told["error"], (tmp_path / "other").exists()) == ("input", False)
    told = driver.run(job(remote, source, tmp_path / "impossible", limits={"uniform": "1/100"}))
    assert told["error"] == "no-solution"
    with pytest.raises(ReleaseError):
        dalenius.load(tmp_path)
