"""A standalone Spark cluster on loopback, as pyspark brings it: a master and workers, each a process of its own.

Every process is started by a shell that waits for its input to end, and then kills its whole process group. The input
ends when somebody stops the cluster, and also when this program ends in any other way: so nothing is left behind.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).parents[2]
_NO_BETTER_CODE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # tests end before it is worth making: half the work
_NO_CHECKS = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"  # of classes that a package brought
JAVA_OPTIONS = f"{_NO_BETTER_CODE} {_NO_CHECKS}"
_GUARDED = '"$@" & cat >/dev/null; kill -KILL 0'
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_SECONDS = 120  # until something that should happen has to have happened


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What Spark's processes are to find: this Python, and no network but loopback."""
    return {
        **os.environ,
        "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),  # for the daemon
        **(more or {}),
    }


def guarded(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """A process group that ends with its input; the command itself is a child of the process that is returned."""
    return subprocess.Popen(
        ["sh", "-c", _GUARDED, "sh", *command], stdin=subprocess.PIPE, start_new_session=True, **options
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a guarded process group, and wait for it."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_SECONDS)
    eventually("a process group is gone", lambda: not _members({process.pid}))


def eventually(what: str, happened: Callable[[], bool]) -> None:
    """Wait for something."""
    until = time.monotonic() + _SECONDS
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_SECONDS} s: {what}")
        time.sleep(0.05)


class Cluster:
    """A master and workers of one core and 1 GB each. They start with the block, and end with it."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder, self._number = folder, workers
        self._workers: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._all:
            end(self._all.pop())
        self._workers.clear()

    def _start(self) -> None:
        _, log = self._daemon("master", LOOPBACK, "org.apache.spark.deploy.master.Master", [])
        eventually("a master listens", lambda: _MASTER.search(log.read_text(encoding="utf-8")) is not None)
        found = _MASTER.search(log.read_text(encoding="utf-8"))
        assert found is not None
        self.master = found[1]
        logs = []
        for number in range(self._number):
            name = f"worker-{number}"
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name), self.master]
            host = f"127.0.0.{number + 1}"  # all of it is loopback; a task is not done twice on one host
            process, log = self._daemon(name, host, "org.apache.spark.deploy.worker.Worker", own)
            self._workers.append(process)
            logs.append(log)
        for log in logs:
            eventually("a worker is registered", lambda log=log: _REGISTERED in log.read_text(encoding="utf-8"))  # type: ignore[misc]

    def _daemon(self, name: str, host: str, kind: str, own: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        """A master or a worker, and its log."""
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), kind, "--host", host, "--port", "0", "--webui-port", "0", *own]
        log = self._folder / f"{name}.log"
        own_environment = environment({"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host})
        with log.open("wb") as file:
            process = guarded(command, stdout=file, stderr=file, env=own_environment)
        self._all.append(process)
        return process, log

    def executors(self) -> list[int]:
        """The process ids of the executors that run now, of whatever application."""
        groups = {process.pid for process in self._workers}
        return sorted(pid for pid, command in _members(groups).items() if _EXECUTOR in command)

    def kill_executor(self) -> int:
        """End one of them as a crash would, and say which."""
        pid = self.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid


def _members(groups: set[int]) -> dict[int, bytes]:
    """The processes of process groups that are not dead yet, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, group = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
            if int(group) in groups and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
    return found
