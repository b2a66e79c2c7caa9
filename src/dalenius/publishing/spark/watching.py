"""Work on the cluster, watched from here: how far it is, and an end to it if somebody wants one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dalenius.model.progress import Progress
from dalenius.publishing.spark.session import is_remote
from dalenius.publishing.spark.spark_errors import explain

_MOMENT = 0.2  # seconds between two looks
Result = TypeVar("Result")


class ClusterWork:
    """Runs work on the cluster in a thread of its own, and tells how many of its tasks are done, as rows."""

    def __init__(self, spark: SparkSession, progress: Progress, rows: int = 0) -> None:
        self._spark, self._progress, self._rows = spark, progress, rows

    def rows(self, frame: DataFrame) -> list[Any]:
        """All rows of a small frame."""
        return self.run(frame.collect)

    def table(self, frame: DataFrame) -> pa.Table:
        """The same as Arrow."""
        return self.run(frame.toArrow)

    def run(self, work: Callable[[], Result], stages: Callable[[int], None] | None = None) -> Result:
        """The result of some work. `stages` is called when the last stage of its job begins, with its tasks."""
        tag = f"dalenius-{threading.get_ident()}-{id(work)}"
        done: list[Result] = []
        failed: list[BaseException] = []

        def go() -> None:
            try:
                if is_remote(self._spark):
                    self._spark.addTag(tag)
                else:
                    self._spark.sparkContext.setJobGroup(tag, "dalenius", interruptOnCancel=True)
                done.append(work())
            except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
                failed.append(error)

        thread = threading.Thread(target=go, daemon=True)
        job = _JobProgress(self._spark, self._progress, self._rows, tag, stages)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_MOMENT)
                job.look()
        except BaseException:
            self._cancel(tag)
            thread.join()
            raise
        if failed:
            raise explain(failed[0]) from None
        job.finish()
        return done[0]

    def _cancel(self, tag: str) -> None:
        if is_remote(self._spark):
            self._spark.interruptTag(tag)
        else:
            self._spark.sparkContext.cancelJobGroup(tag)


class _JobProgress:
    """How much of a job is done, as far as the cluster says so."""

    def __init__(
        self, spark: SparkSession, progress: Progress, rows: int, tag: str, stages: Callable[[int], None] | None
    ) -> None:
        self._tracker = None if is_remote(spark) else spark.sparkContext.statusTracker()
        self._progress, self._rows, self._tag, self._stages = progress, rows, tag, stages
        self._advanced = 0
        self._last_begun = False

    def look(self) -> None:
        """Look at the cluster, and report what is new."""
        if self._tracker is None:
            self._progress.advance(0)  # a chance to say that enough is enough
            return
        infos = [
            info
            for job in self._tracker.getJobIdsForGroup(self._tag)
            if (details := self._tracker.getJobInfo(job)) is not None
            for stage in sorted(details.stageIds)
            if (info := self._tracker.getStageInfo(stage)) is not None and info.numTasks
        ]
        if not infos:
            self._progress.advance(0)
            return
        last = infos[-1]
        if self._stages is not None and len(infos) > 1 and not self._last_begun and last.numActiveTasks:
            self._advance(self._rows)
            self._last_begun, self._advanced = True, 0
            self._stages(last.numTasks)
        current = last if self._last_begun else infos[0]
        self._advance(self._rows * current.numCompletedTasks // current.numTasks)

    def _advance(self, rows: int) -> None:
        self._progress.advance(max(0, rows - self._advanced))
        self._advanced = max(rows, self._advanced)

    def finish(self) -> None:
        """All of it is done."""
        if self._stages is not None and not self._last_begun:
            self._advance(self._rows)
            self._advanced = 0
            self._stages(0)
        self._advance(self._rows)
