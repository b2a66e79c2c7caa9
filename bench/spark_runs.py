"""Runs on Spark as they were measured, and what they come to stage by stage."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from bench.event_log import SparkStage
from bench.processes import processor_seconds

Rows = list[dict[str, Any]]
_TINY = 0.02  # of the exchange's bytes: what lists and counts may take of the network at most
_MOST_HASHED = 2**24  # bytes of hashes and their counts, some 2**19 at most for each set of columns


@dataclass
class Mark:
    """A stage of publishing as it begins."""

    name: str
    at: float
    cpu: dict[str, float]
    kept: int


@dataclass
class Run:
    """One run: when, how long, and its stages."""

    method: str
    started: float
    seconds: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    peaks: dict[str, float] = field(default_factory=dict)
    release: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> float:
        return self.started + self.seconds


@dataclass
class Compared:
    """All runs on one table."""

    shape: str
    records: int
    source_bytes: int
    runs: list[Run]


class Told:
    """A `Progress` that notes when each stage begins, and what was used until then."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self.marks = spark, list[Mark]()

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        del unit
        if name == "Counting" and total is not None:
            name = "Counting strata"
        if name == "Solving" and total is not None:
            name = "Solving strata"
        self.marks.append(Mark(name, time.time(), processor_seconds(), _kept(self._spark)))

    def advance(self, number: int) -> None:
        del number

    def tell(self, sentence: str) -> None:
        del sentence


def _kept(spark: SparkSession) -> int:
    """Bytes that are kept on the cluster at the moment."""
    java: Any = spark.sparkContext._jsc
    return sum(info.memSize() + info.diskSize() for info in java.sc().getRDDStorageInfo())


def described(compared: Compared, stages: list[SparkStage]) -> Rows:
    """What was measured on one table, a row a method: medians of the rounds that count, and the bytes of the first."""
    found = []
    for method in dict.fromkeys(run.method for run in compared.runs):
        first, *mine = (run for run in compared.runs if run.method == method)
        within = [stage for stage in stages if first.started <= stage.started <= first.ended]
        row = {
            "shape": compared.shape,
            "records": compared.records,
            "source_bytes": compared.source_bytes,
            "method": method,
            "seconds": statistics.median(run.seconds for run in mine),
            "all_seconds": [run.seconds for run in mine],
            "stage_seconds": _by_stage(mine, lambda one, other: other.at - one.at),
            "stage_cpu": {who: _by_stage(mine, _processor(who)) for who in ("driver", "java", "workers")},
            "kept_bytes": max(mark.kept for mark in first.marks),
            "peak_mib": {name: max(run.peaks[name] for run in mine) for name in first.peaks},
            "release": first.release,
            "spark_stages": [_stage_row(stage, first.marks) for stage in within],
            "finished": True,
        }
        if method != "floor":
            _check(row)
        found.append(row)
    return found


def _by_stage(runs: list[Run], difference: Callable[[Mark, Mark], float]) -> dict[str, float]:
    """The median over the runs of what each stage took."""
    found: dict[str, list[float]] = {}
    for run in runs:
        sums: dict[str, float] = {}
        for one, other in zip(run.marks, run.marks[1:], strict=False):
            sums[one.name] = sums.get(one.name, 0.0) + difference(one, other)
        for name, value in sums.items():
            found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def _processor(who: str) -> Callable[[Mark, Mark], float]:
    return lambda one, other: other.cpu[who] - one.cpu[who]


def _stage_row(stage: SparkStage, marks: list[Mark]) -> dict[str, Any]:
    """A stage of Spark, under the name of the stage of publishing that it is part of."""
    part = next((mark.name for mark in reversed(marks[:-1]) if mark.at <= stage.started + 0.001), "Opening")
    if part == "Placing" and stage.shuffle_read:
        part = "Writing"  # the other end of the exchange, which may begin before anybody has looked
    measured = {name: value for name, value in asdict(stage).items() if name not in ("number", "started", "ended")}
    return {"part": part, "seconds": stage.ended - stage.started} | measured


def _check(row: dict[str, Any]) -> None:
    """Placing reads no shuffle. What else is shuffled, but for the hashes by which people who are alone are counted
    (some hundred thousand, of however many rows), is nothing beside the one exchange.
    """
    stages = row["spark_stages"]
    placing = [stage for stage in stages if stage["part"] == "Placing"]
    exchanged = sum(stage["shuffle_written"] for stage in placing)
    others = sum(stage["shuffle_written"] for stage in stages if stage["part"] != "Looking") - exchanged
    hashes = sum(stage["shuffle_written"] for stage in stages if stage["part"] == "Looking")
    if len(placing) != 1 or placing[0]["shuffle_read"] or not exchanged:
        raise SystemExit(f"placement shuffled: {placing}")
    if hashes > _MOST_HASHED:
        raise SystemExit(f"{hashes:,} bytes of hashes were shuffled")
    if others > max(_TINY * exchanged, 2**20):
        raise SystemExit(f"{others:,} bytes were shuffled besides the exchange of {exchanged:,}")
