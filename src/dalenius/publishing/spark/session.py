"""A connection to Spark: one that is there already, or a new one that ends with the work."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dalenius.errors import EngineError, MissingExtraError, UsageError
from dalenius.publishing.spark.spark_errors import plain_errors, start_error

BATCH_ROWS = 2**16
_LOOPBACK = "127.0.0.1"
_CONNECT_PORT, _PATIENCE = 15002, 10.0  # seconds
_BATCH_BYTES = 2**26

# What the work rests on, for as long as it takes.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # partitions are what they are
    "spark.sql.files.ignoreCorruptFiles": "false",  # every row, or none
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # 007 stays 007
}
_OWN = {  # of sessions that are made here
    "spark.app.name": "dalenius",
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # Spark's own words may quote a path or a value
}


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, which has no Java in this process."""
    return not hasattr(spark, "_jsparkSession")


@contextmanager
def connect(
    session: SparkSession | None, master: str | None, remote: str | None, conf: Mapping[str, str]
) -> Iterator[SparkSession]:
    """A session, with the settings of this work; one that was made here is stopped at the end."""
    with ExitStack() as stack:
        there = session if session is not None else _active() if master is None and remote is None else None
        if there is None:
            spark = stack.enter_context(_made(master, remote, conf))
        else:
            spark = there
            if not is_remote(spark) and spark.sparkContext._jsc is None:
                raise UsageError("the Spark session of the table has ended", "Begin another, and read the table anew.")
            stack.enter_context(_settings(spark, conf))
        stack.enter_context(_silence())
        stack.enter_context(_settings(spark, _SETTINGS | _pin_settings(spark)))
        _share_code(spark, stack)
        yield spark


def _active() -> SparkSession | None:
    return SparkSession.getActiveSession()


@contextmanager
def _made(master: str | None, remote: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    if _active() is not None:
        raise UsageError(
            "a Spark session is active in this process already, and there can be one only",
            "Stop it, or name neither a master nor a remote: the active session is then used.",
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    if remote is not None:
        if importlib.util.find_spec("grpc") is None:
            raise MissingExtraError.of("the client of Spark Connect", "spark")
        _reach(remote)
        builder = builder.remote(remote)
    else:
        where = master or os.environ.get("SPARK_MASTER") or conf.get("spark.master") or "local[*]"
        settings: dict[str, Any] = dict(_OWN)
        if where.startswith("local"):
            settings |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
        builder = builder.master(where).config(map=settings)
        with _quiet_start(), _no_interrupts():  # Java that is interrupted while it starts may never end
            _start_java(where, {**settings, **conf})
    with _quiet_start(), _own_interrupts():
        try:
            spark = builder.config(map=dict(conf)).getOrCreate()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is not shown)
            raise start_error(error) from None
    logging.getLogger().addFilter(_not_of_the_bridge)
    try:
        yield spark
    finally:
        with suppress(Exception):
            spark.stop()
        logging.getLogger().removeFilter(_not_of_the_bridge)


@contextmanager
def _silence() -> Iterator[None]:
    """Spark's Python side logs every error with what it quotes: the value that could not be cast, or the script."""
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _not_of_the_bridge(record: logging.LogRecord) -> bool:
    """The bridge to Java logs a trace whenever a call is interrupted."""
    return "py4j" not in record.pathname


def _start_java(master: str, settings: Mapping[str, Any]) -> None:
    conf = SparkConf().setMaster(master)
    for name, value in settings.items():
        conf.set(name, str(value))
    try:
        SparkContext._ensure_initialized(conf=conf)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is not shown)
        raise start_error(error) from None


def _reach(remote: str) -> None:
    """The client of Spark Connect tries for a long time, and cannot be interrupted while it does."""
    url = urlparse(remote)
    try:
        socket.create_connection((url.hostname or "", url.port or _CONNECT_PORT), timeout=_PATIENCE).close()
    except (OSError, ValueError):
        raise EngineError(
            "the Spark Connect server cannot be reached", "Check --spark-remote: sc://HOST:PORT, as on the server."
        ) from None


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C, a moment later."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl-C stays what it was: a session would put a handler of its own in its place."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Java's greetings, which come before any setting of a log is heard, go nowhere."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, put back at the end."""
    before: dict[str, str | None] = {}
    try:
        for name, value in settings.items():
            try:
                before[name] = spark.conf.get(name, None)
                spark.conf.set(name, value)
            except Exception:  # noqa: BLE001 (whatever it is, it is about this setting)
                before.pop(name, None)
                raise UsageError(
                    f"the setting {name!r} cannot be given to a session that is there already",
                    "Leave it out, or set it where the session is begun.",
                ) from None
        yield
    finally:
        for name, earlier in before.items():
            with suppress(Exception):
                spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def _pin_settings(spark: SparkSession) -> dict[str, str]:
    """How a table is split must not depend on how many executors there are at the moment."""
    name = "spark.sql.files.minPartitionNum"
    if is_remote(spark) or spark.conf.get(name, None) is not None:
        return {}
    return {name: str(spark.sparkContext.defaultParallelism)}


def _share_code(spark: SparkSession, stack: ExitStack) -> None:
    """Give the executors this very package; what it needs besides (numpy, pyarrow, cryptography) has to be there."""
    master = "" if is_remote(spark) else str(spark.sparkContext.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dalenius-")))
    archive = folder / "dalenius_code.zip"
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(root.rglob("*.py")):
            file.write(path, Path("dalenius") / path.relative_to(root))
    with plain_errors():
        add: Any = spark.addArtifacts
        add(str(archive), pyfile=True)
