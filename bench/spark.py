"""make bench-spark: publishing on Spark against Spark's own floor, in one run, one session and by turns.

The floor is what Spark takes to read the table, order it by a random key and write it. The session has two cores
(local[2]) and a driver of 4 GB. Publishing includes verification. Bytes are Spark's own, from its event log; memory and
processor time are those of the processes. The first round warms up: its bytes are looked at, and its seconds are not.

    python -m bench.spark [--quick] [--large] [--rows 1000000 ...] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import dalenius
from bench.event_log import SETTINGS, stages_of
from bench.machine import machine
from bench.processes import Peaks
from bench.publish import RESULTS
from bench.spark_results import show
from bench.spark_runs import Compared, Run, Told, described
from bench.tables import SHAPES, Shape, write_folder

CORES, DRIVER_MEMORY = 2, "4g"
LIMITS = {"theta": 8, "base": "0.02"}
METHODS = ("floor", "one stratum", "strata")
_THREADS = "parquet.hadoop.vectored.io.enabled"


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    log = folder / "events"
    log.mkdir()
    return (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("bench")
        .config(
            map={
                "spark.driver.memory": DRIVER_MEMORY,
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.log.level": "ERROR",
                "spark.local.dir": str(folder / "scratch"),
                "spark.eventLog.dir": log.as_uri(),
                **SETTINGS,
            }
        )
        .getOrCreate()
    )


class Bench:
    """One session, and the runs in it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def compared(self, shape: Shape, rows: int, repeats: int, methods: tuple[str, ...]) -> Compared:
        """All methods by turns on one table, in one round more than counts."""
        table = self._folder / f"{shape.name}-{rows}"
        write_folder(shape, rows, table)
        source = sum(path.stat().st_size for path in table.iterdir())
        runs = []
        for number in range(repeats + 1):
            if number == 0:  # of what Parquet reads in threads of its own, Spark counts no byte
                self._spark.conf.set(_THREADS, "false")
            else:
                self._spark.conf.unset(_THREADS)
            for method in methods:
                run = self._measured(shape, table, method)
                what = f"{run.seconds:7.2f} s" + ("" if number else "  (warm-up)")
                print(f"  {shape.name:6} {rows:>11,} {method:12} {what}", flush=True)
                runs.append(run)
        shutil.rmtree(table)
        return Compared(shape.name, rows, source, runs)

    def _measured(self, shape: Shape, table: Path, method: str) -> Run:
        out = self._folder / "out"
        told = Told(self._spark)
        work: Callable[[], Any] = (
            (lambda: self._floor(shape, table, out))
            if method == "floor"
            else self._ours(shape, table, out, method, told)
        )
        run = Run(method, time.time())
        told.stage("Opening")
        begun = time.perf_counter()
        with Peaks() as peaks:
            made = work()
        run.seconds = time.perf_counter() - begun
        told.stage("")
        run.marks, run.peaks, run.release = told.marks, peaks.mib, made
        shutil.rmtree(out)
        return run

    def _floor(self, shape: Shape, table: Path, out: Path) -> dict[str, Any]:
        read = self._spark.read.parquet(str(table)).select(*shape.quasi_identifiers, shape.sensitive)
        read.orderBy(F.rand()).write.parquet(str(out))
        return {}

    def _ours(self, shape: Shape, table: Path, out: Path, method: str, told: Told) -> Callable[[], dict[str, Any]]:
        def go() -> dict[str, Any]:
            made = dalenius.publish(
                str(table),
                LIMITS,
                sensitive=shape.sensitive,
                quasi_identifiers=shape.quasi_identifiers,
                strata="none" if method == "one stratum" else "auto",
                min_size=1,  # as the paper has it
                publish_in_the_clear=True,
                out=str(out),
                engine="spark",
                progress=told,
            ).manifest
            strata = made.strata
            return {
                "strata": len(strata.strata) if strata is not None else 1,
                "qit_bytes": made.tables.qit.bytes,
                "st_bytes": made.tables.st.bytes,
                "parts": len(made.tables.qit.parts or ()),
                "values": len(made.values),
            }

        return go


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", help="rows of the tables (default 1 and 10 million)")
    options.add_argument("--quick", action="store_true", help="a quarter of a million rows and one million, once each")
    options.add_argument("--large", action="store_true", help="30 million rows as well")
    options.add_argument("--repeats", type=int, help="rounds that count (default 3)")
    options.add_argument("--folder", type=Path, help="where tables and releases go (default: a temporary folder)")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if not asked.show:
        results = measured(asked)
        (asked.out / "spark.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(json.loads((asked.out / "spark.json").read_text(encoding="utf-8")), asked.out)


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """All runs, and what came of them."""
    sizes = asked.rows or ([250_000, 1_000_000] if asked.quick else [1_000_000, 10_000_000])
    sizes += [30_000_000] if asked.large else []
    repeats = asked.repeats or (1 if asked.quick else 3)
    tables: list[tuple[str, int, tuple[str, ...]]] = [("codes", rows, METHODS) for rows in sorted(sizes)]
    tables += [(name, min(sizes), ("floor", "one stratum")) for name in ("mixed", "wide")]
    with tempfile.TemporaryDirectory(prefix="dalenius-bench-", dir=asked.folder) as name:
        folder = Path(name)
        spark = _session(folder)
        try:
            bench = Bench(spark, folder)
            compared = [bench.compared(SHAPES[shape], rows, repeats, methods) for shape, rows, methods in tables]
        finally:
            spark.stop()
        stages = stages_of(folder / "events")
    rows = [row for one in compared for row in described(one, stages)]
    versions = {"spark": pyspark.__version__, "pyarrow": pa.__version__, "numpy": numpy.__version__}
    return {"machine": machine(**versions), "master": f"local[{CORES}]", "memory": DRIVER_MEMORY, "rows": rows}


if __name__ == "__main__":
    main()
