"""The options that choose the engine, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dalenius.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_NAMES = ("engine", "master", "spark_remote")


def engine_options(command: Command) -> Command:
    """The engine, and where to find its cluster."""
    for option in reversed(
        [
            click.option(
                "--engine",
                type=click.Choice(["duckdb", "spark"]),
                default="duckdb",
                show_default=True,
                help="Engine that does the work: DuckDB on this machine, or Spark. With Spark, TABLE is anything Spark "
                "reads: Parquet, ORC or text files by path or URL, or a table of its catalog.",
            ),
            click.option("--master", metavar="URL", help="Master of the Spark cluster, such as spark://HOST:7077."),
            click.option("--spark-remote", metavar="URL", help="Spark Connect server to use instead: sc://HOST:PORT."),
            click.option(
                "--conf",
                multiple=True,
                metavar="KEY=VALUE",
                help="Spark setting for this session. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def engine_fields(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of `PublishOptions`."""
    return {name: arguments[name] for name in _NAMES} | {"spark_conf": tuple(_settings(arguments["conf"]).items())}


def is_local(arguments: dict[str, Any]) -> bool:
    """Whether no option names another engine. Whether the options fit together is checked later."""
    of_spark = (arguments["master"], arguments["spark_remote"], *arguments["conf"])
    return arguments["engine"] == "duckdb" and all(option is None for option in of_spark)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, setting = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--conf needs KEY=VALUE, got {text!r}", "For example: --conf spark.executor.memory=8g")
        if key.strip() in settings:
            raise UsageError(f"--conf is given twice for {key.strip()!r}", "Keep one of them.")
        settings[key.strip()] = setting
    return settings
