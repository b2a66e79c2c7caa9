"""Drivers in processes of their own, and what Spark wrote down about the work that they gave it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.spark.standalone import ROOT, environment

Told = dict[str, Any]


class Driver:
    """A process that works on jobs, see driver.py. It ends with the block, and so does its JVM."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                text=True,
                env=environment(),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def run(self, job: Told, watch: Callable[[Told], object] = lambda told: None) -> Told:
        """Do a job, give `watch` all that is told about it, and return the last of it: {} if the process died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            told: Told = json.loads(line)
            if "done" in told or "error" in told:
                return told
            watch(told)
        return {}

    def code(self) -> int:
        """How the process ended."""
        return self._process.wait(60)


def events(folder: Path, kind: str) -> Iterator[Told]:
    """What is in Spark's event logs of this kind, without "SparkListener" before it."""
    for log in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")):
        for line in log.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            if told["Event"] == f"SparkListener{kind}":
                yield told
