"""The options that say who does the work: this machine, or Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dalenius.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_NAMES = ("engine", "master", "spark_remote")


def engine_options(command: Command) -> Command:
    """The engine, and where its cluster is."""
    for option in reversed(
        [
            click.option(
                "--engine",
                type=click.Choice(["duckdb", "spark"]),
                default="duckdb",
                show_default=True,
                help="Who does the work: DuckDB on this machine, or Spark. With Spark, TABLE is whatever it reads: "
                "files of Parquet, ORC or text by path or URL, or a table of its catalog.",
            ),
            click.option("--master", metavar="URL", help="The master of the Spark cluster, such as spark://HOST:7077."),
            click.option("--spark-remote", metavar="URL", help="A Spark Connect server instead: sc://HOST:PORT."),
            click.option(
                "--conf",
                multiple=True,
                metavar="KEY=VALUE",
                help="A setting of Spark for the session. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def engine_fields(given: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of `PublishOptions`."""
    return {name: given[name] for name in _NAMES} | {"spark_conf": tuple(_settings(given["conf"]).items())}


def is_local(given: dict[str, Any]) -> bool:
    """Whether nothing is said of another engine. Whether what is said goes together is checked later."""
    return given["engine"] == "duckdb" and given["master"] is given["spark_remote"] is None and not given["conf"]


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, setting = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--conf wants KEY=VALUE, got {text!r}", "For example: --conf spark.executor.memory=8g")
        if key.strip() in settings:
            raise UsageError(f"--conf is given twice for {key.strip()!r}", "Keep one of them.")
        settings[key.strip()] = setting
    return settings
