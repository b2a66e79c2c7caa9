"""What Spark says of its own stages: the event log, added up by stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@dataclass
class SparkStage:
    """A stage that is done. Times are seconds since the epoch; bytes are as they were read, shuffled and written."""

    number: int
    started: float
    ended: float
    tasks: int = 0
    task_seconds: float = 0.0
    input_bytes: int = 0
    shuffle_read: int = 0
    shuffle_written: int = 0
    shuffled_rows: int = 0
    output_bytes: int = 0
    output_rows: int = 0
    spilled: int = 0

    def add(self, metrics: Mapping[str, Any]) -> None:
        """What one task did."""
        read, written = metrics["Shuffle Read Metrics"], metrics["Shuffle Write Metrics"]
        self.tasks += 1
        self.task_seconds += metrics["Executor Run Time"] / 1000
        self.input_bytes += metrics["Input Metrics"]["Bytes Read"]
        self.shuffle_read += read["Remote Bytes Read"] + read["Local Bytes Read"]
        self.shuffle_written += written["Shuffle Bytes Written"]
        self.shuffled_rows += written["Shuffle Records Written"]
        self.output_bytes += metrics["Output Metrics"]["Bytes Written"]
        self.output_rows += metrics["Output Metrics"]["Records Written"]
        self.spilled += metrics["Disk Bytes Spilled"]


def stages_of(folder: Path) -> list[SparkStage]:
    """All stages of all applications whose logs are in a folder, in the order in which they began."""
    found: dict[tuple[str, int, int], SparkStage] = {}
    tasks: list[tuple[tuple[str, int, int], Mapping[str, Any]]] = []
    for path in sorted(folder.iterdir()):
        with path.open(encoding="utf-8") as file:
            for line in file:
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                    key = (path.name, event["Stage ID"], event["Stage Attempt ID"])
                    tasks.append((key, event["Task Metrics"]))
                elif event["Event"] == "SparkListenerStageCompleted":
                    info = event["Stage Info"]
                    key = (path.name, info["Stage ID"], info["Stage Attempt ID"])
                    times = info["Submission Time"] / 1000, info["Completion Time"] / 1000
                    found[key] = SparkStage(info["Stage ID"], *times)
    for key, metrics in tasks:
        if key in found:
            found[key].add(metrics)
    return sorted(found.values(), key=lambda stage: (stage.started, stage.number))
