"""Which engine makes a release: this process, or Spark. Nothing else in publishing knows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from dalenius.errors import MissingExtraError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.model.progress import Silent
from dalenius.place.budget import Budget
from dalenius.publishing.engine import Engine, Wanted
from dalenius.publishing.local import LocalEngine
from dalenius.publishing.options import PublishOptions
from dalenius.release.writer import FORMATS, Format
from dalenius.tables.delimited import missing_column

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
LOCAL, SPARK = "duckdb", "spark"
_FORMATS: dict[str, tuple[Format, ...]] = {LOCAL: FORMATS, SPARK: ("parts",)}


def settled(table: Any, options: PublishOptions) -> PublishOptions:
    """The options with the engine that the table asks for, and its usual format; errors if they do not go together."""
    if options.engine not in _FORMATS:
        raise UsageError(f"there is no engine {options.engine!r}", f"Known: {', '.join(_FORMATS)}.")
    has_session = _is_spark_frame(table)
    engine = SPARK if has_session else options.engine
    if engine != SPARK:
        refuse_url(table, "the table")
        for name, given in (("master", options.master), ("spark-remote", options.spark_remote)):
            if given is not None:
                raise UsageError(f"--{name} is for Spark", "Give --engine spark as well, or leave it out.")
        if options.spark_conf:
            raise UsageError("settings of Spark are given without it", "Give --engine spark, or leave them out.")
    elif options.master is not None and options.spark_remote is not None:
        raise UsageError("both a master and a Spark Connect server are given", "Give --master or --spark-remote.")
    elif has_session and (options.master is not None or options.spark_remote is not None):
        raise UsageError("the DataFrame has a session of its own", "Leave the master and the Spark Connect server out.")
    if engine == SPARK and options.spark_remote is not None and options.avoid_ruled_out:
        raise UsageError(
            "fakes are exchanged by writing again, and through Spark Connect nothing that was written can be removed",
            "Leave --avoid-ruled-out out, or submit the job with --master.",
        )
    usual, *_ = formats = _FORMATS[engine]
    form = options.format if options.format is not None else usual
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}", f"Known: {', '.join(formats)}.")
    if form not in formats:
        raise UsageError(f"Spark does not write releases as {form}", f"Leave the format out, or say {usual}.")
    return replace(options, engine=engine, format=form)


def refuse_url(path: Any, what: str) -> None:
    """A URL is no path of this machine, though one of that name could be made."""
    if isinstance(path, str | os.PathLike) and _URL.match(os.fspath(path)):
        raise UsageError(f"{what} is given by a URL, which Spark alone can read", "Give a path, or --engine spark.")


@contextmanager
def engine_for(table: Any, options: PublishOptions, budget: Budget) -> Iterator[Engine]:
    """The engine, for as long as the context is open. A Spark session that was made for it ends with it."""
    options = settled(table, options)
    if options.engine == LOCAL:
        yield LocalEngine(budget, options.format or FORMATS[0])
        return
    with ExitStack() as stack:
        try:
            from dalenius.publishing.spark.spark_engine import spark_engine

            engine: Engine = stack.enter_context(
                spark_engine(
                    table, budget, master=options.master, remote=options.spark_remote, conf=dict(options.spark_conf)
                )
            )
        except ImportError as error:
            if (error.name or "").partition(".")[0] == "dalenius":
                raise
            raise MissingExtraError.of("pyspark", "spark") from None
        yield engine


def count_values(table: Any, sensitive: str, options: PublishOptions) -> ValueCounts:
    """How often each sensitive value occurs, as the engine counts it."""
    with engine_for(table, options, Budget.of(options.memory)) as engine, engine.open(table, options.table) as opened:
        if sensitive not in opened.names:
            raise missing_column(sensitive, opened.names)
        return opened.survey(Wanted(sensitive, (), options.null_value), Silent()).sensitive.value_counts


def _is_spark_frame(table: Any) -> bool:
    """Judged by its type, since Spark need not be installed."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(table).__mro__
    )
