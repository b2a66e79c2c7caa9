"""A program that publishes through Spark, one job after another, and says how far it is: lines of JSON in and out.

A job has `table`, `out`, `options` (of `dalenius.publish`, the master and Spark's settings among them), and maybe
`die_at`: a stage at whose beginning the program kills itself. What is told: {"stage": ...} as stages begin, with
`tasks` and `of` while Spark works on some of its own, and at last {"done": the number of rows} or {"error": a kind}.
The program ends, with whatever it started, when its input does.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any

from pyspark import SparkContext

import dalenius
from dalenius.publishing.spark import cluster_table as table
from tests.spark.tables import PIECE_ROWS


class Teller:
    """Progress that is told to whoever started the program."""

    def __init__(self, die_at: str | None) -> None:
        self._die_at, self._stage = die_at, ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._tell_tasks, daemon=True)

    def __enter__(self) -> Teller:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    def say(self, **what: Any) -> None:
        with self._lock:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self._stage = name
        self.say(stage=name)
        if name == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def advance(self, number: int) -> None:
        """Nothing."""

    def tell(self, sentence: str) -> None:
        """Nothing."""

    def _tell_tasks(self) -> None:
        """How many of their tasks Spark's own stages have done, whenever it changes."""
        told: dict[int, int] = {}
        while not self._over.wait(0.02):
            context = SparkContext._active_spark_context
            try:
                tracker = context.statusTracker() if context is not None else None
                for number in tracker.getActiveStageIds() if tracker is not None else ():
                    found = tracker.getStageInfo(number) if tracker is not None else None
                    if found is not None and told.get(number) != found.numCompletedTasks:
                        told[number] = found.numCompletedTasks
                        self.say(stage=self._stage, spark=number, tasks=told[number], of=found.numTasks)
            except Exception:  # noqa: BLE001 (the session may end at any time)
                time.sleep(0.1)


def work(job: dict[str, Any]) -> None:
    """One job."""
    with Teller(job.get("die_at")) as teller:
        try:
            release = dalenius.publish(job["table"], out=job["out"], progress=teller, **job["options"])
        except dalenius.DaleniusError as error:
            end: dict[str, Any] = {"error": error.kind, "message": str(error)}
        else:
            end = {"done": release.manifest.rows}
    teller.say(**end)


def main() -> None:
    """Jobs, until there are no more."""
    table._LEAST_PIECE_ROWS, table._FEWEST_PIECES = PIECE_ROWS, 32  # tables are small here, and in several files
    jobs: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    while True:
        work(json.loads(jobs.get()))


if __name__ == "__main__":
    main()
