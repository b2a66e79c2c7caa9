"""A real cluster on loopback, and what may happen to one: in every case there is a whole release, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import dalenius
from dalenius.cli.main import main
from dalenius.errors import ReleaseError
from tests.spark.daemon import PRELOADED
from tests.spark.driving import Driver, Told, events
from tests.spark.java import need_java
from tests.spark.standalone import LOOPBACK, Cluster, environment, eventually
from tests.spark.tables import COLUMNS, LIMITS, check_release, publish, town, written

FILES = 10
TABLE = town(6000, flu=0.3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """One for all tests that do not kill it: each of their jobs has a session of its own."""
    need_java()
    with Driver(tmp_path_factory.mktemp("driver") / "log") as started:
        yield started


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(TABLE, tmp_path_factory.mktemp("people") / "table", files=FILES)


def settings(folder: Path, **more: str) -> dict[str, str]:
    """Spark's settings: many small tasks, and everything that happens to them is written down."""
    log = folder / "events"
    log.mkdir(parents=True)
    return {
        **PRELOADED,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.files.openCostInBytes": str(128 * 2**20),  # a partition for each file
        "spark.sql.shuffle.partitions": "12",
        "spark.ui.enabled": "false",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def job(cluster: Cluster, people: Path, out: Path, conf: dict[str, str], **more: Any) -> Told:
    options = {
        "limits": LIMITS,
        "sensitive": "Disease",
        "quasi_identifiers": COLUMNS,
        "strata": ["Gender"],
        "fake_values": 1,
        "engine": "spark",
        "master": cluster.master,
        "spark_conf": conf,
        "seed": 7,
        "force": True,
    }
    return {"table": str(people), "out": str(out), "options": options, **more}


@pytest.fixture(scope="module")
def calm(driver: Driver, cluster: Cluster, people: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """QIT of the usual job from the same partitions on one machine, where nothing happens.

    It has the same buckets as if Spark had no part in it, and the same values in them.
    """
    folder = tmp_path_factory.mktemp("calm")
    alone = job(cluster, people, folder / "release", settings(folder))
    alone["options"]["master"] = "local[2]"
    assert driver.run(alone) == {"done": len(TABLE)}
    release = dalenius.load(folder / "release")
    check_release(release, TABLE)
    local = publish(people, seed=7, strata=["Gender"], fake_values=1)
    assert release.qit["bucket"].equals(local.qit["bucket"])
    return release.qit


KILLS: dict[str, Callable[[Told], bool]] = {
    "placement": lambda told: told["of"] == FILES and told["tasks"] >= 3 and told["stage"] in ("Placing", "Writing"),
    "sort": lambda told: told["of"] != FILES and told["tasks"] >= 2 and told["stage"] in ("Placing", "Writing"),
}


def test_executors_are_killed(driver: Driver, cluster: Cluster, people: Path, calm: pa.Table, tmp_path: Path) -> None:
    """One while records are placed, and one while they are sorted."""
    killed: dict[str, int] = {}

    def watch(told: Told) -> None:
        for when, is_time in KILLS.items():
            if when not in killed and "tasks" in told and is_time(told):
                killed[when] = cluster.kill_executor()

    conf = settings(tmp_path)
    assert driver.run(job(cluster, people, tmp_path / "release", conf), watch) == {"done": len(TABLE)}
    assert killed.keys() == KILLS.keys()
    assert len(list(events(tmp_path / "events", "ExecutorRemoved"))) == 2
    release = dalenius.load(tmp_path / "release")
    check_release(release, TABLE)
    assert release.qit.equals(calm)


def go_on(pid: int) -> None:
    with suppress(ProcessLookupError):  # all may be over by now
        os.kill(pid, signal.SIGCONT)


def test_an_executor_is_slow_and_its_tasks_are_done_twice(
    driver: Driver, cluster: Cluster, people: Path, tmp_path: Path
) -> None:
    """It stands still in the middle of placing, until all tasks of that stage are done: its own, by the other one.

    The other stands still for a while when nearly all is written, so that two tasks may want to commit one file.
    """
    stopped: list[int] = []
    stages: list[int] = []

    def watch(told: Told) -> None:
        if "tasks" not in told:
            return
        if not stopped and KILLS["placement"](told):
            stopped.append(cluster.executors()[0])
            stages.append(told["spark"])
            os.kill(stopped[0], signal.SIGSTOP)
        elif len(stopped) == 1 and told["spark"] != stages[0]:
            go_on(stopped[0])
            stopped.append(cluster.executors()[1])
        elif len(stopped) == 2 and told["tasks"] >= told["of"] - 2:
            stopped.append(stopped[1])
            os.kill(stopped[1], signal.SIGSTOP)
            Timer(2, go_on, (stopped[1],)).start()

    speculation = {"spark_speculation": "true", "spark_speculation_interval": "50ms"}
    sooner = {"spark_speculation_multiplier": "1.1", "spark_speculation_quantile": "0.1"}
    plain = job(cluster, people, tmp_path / "release", settings(tmp_path, **speculation, **sooner))
    plain["options"] |= {"strata": None, "fake_values": 0}  # strata are counted first, and executors keep records
    assert driver.run(plain, watch) == {"done": len(TABLE)}
    assert {event["Executor ID"] for event in events(tmp_path / "events", "ExecutorAdded")} == {"0", "1"}
    assert not list(events(tmp_path / "events", "ExecutorRemoved"))
    tasks = [event for event in events(tmp_path / "events", "TaskEnd") if event["Stage ID"] in stages]
    assert any(event["Task Info"]["Speculative"] for event in tasks)
    release = dalenius.load(tmp_path / "release")
    check_release(release, TABLE)
    alone = job(cluster, people, tmp_path / "alone", settings(tmp_path / "log of that"))
    alone["options"] |= {"strata": None, "fake_values": 0, "master": "local[2]"}  # the same partitions elsewhere
    assert driver.run(alone) == {"done": len(TABLE)}
    assert release.qit.equals(dalenius.load(tmp_path / "alone").qit)


def test_a_driver_is_killed_before_the_manifest(driver: Driver, cluster: Cluster, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "release"
    with Driver(tmp_path / "log") as killed:
        assert killed.run(job(cluster, people, out, settings(tmp_path), die_at="Verifying")) == {}
        assert killed.code() == -signal.SIGKILL
    assert not (out / "manifest.json").exists()
    with pytest.raises(ReleaseError):
        dalenius.load(out)
    shown = CliRunner().invoke(main, ["verify", str(out)])
    assert shown.exit_code == 1
    assert "NOT verified" in shown.stdout
    eventually("the executors are gone", lambda: not cluster.executors())
    again = job(cluster, people, out, settings(tmp_path / "again"))
    again["options"] |= {"force": False, "master": "local[1]"}
    told = driver.run(again)
    assert told["error"] == "usage"
    assert "unfinished" in told["message"]
    assert "--force" in told["message"]
    asked = ["--sensitive", "Disease", "--quasi-identifiers", ",".join(COLUMNS), "--uniform", "9/10", "--force"]
    spark = ["--engine", "spark", "--master", "local[1]"]
    said = command("publish", str(people), *asked, *spark, "--out", str(out))
    assert said.returncode == 0, said.stderr
    assert str(tmp_path) not in said.stderr
    check_release(dalenius.load(out), TABLE)
    assert len([path for path in out.iterdir() if path.is_dir()]) == 2  # what the killed run left is gone
    assert CliRunner().invoke(main, ["verify", str(out), "--against", str(people)]).exit_code == 0


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Dalenius from the command line."""
    code = "from dalenius.cli.main import entry; entry()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=environment()
    )
