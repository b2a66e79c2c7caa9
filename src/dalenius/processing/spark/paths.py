"""Paths as Spark reads them: by the cluster's file systems, with wildcards, from the folder where Java was started."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dalenius.processing.spark.session import is_remote

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_WILD = re.compile(r"[*?\[\]{}\\]")


def absolute(spark: SparkSession, path: str) -> str:
    """A path of this machine from its root: Java may have been started elsewhere."""
    if is_remote(spark) or SCHEME.match(path):
        return path
    java: Any = spark._jvm
    system = java.org.apache.hadoop.fs.FileSystem.get(_conf(spark))
    return os.path.abspath(path) if system.getUri().getScheme() == "file" else path  # noqa: PTH100 (follows no links)


def literal(spark: SparkSession, path: str) -> str:
    """A path that is there is meant as it is, whatever wildcards are in it."""
    if is_remote(spark) or not _WILD.search(path) or not is_there(spark, path):
        return path
    return _WILD.sub(r"\\\g<0>", path)


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is something at a path; not known through Spark Connect."""
    if is_remote(spark):
        return False
    system, given = _located(spark, path)
    return bool(system.exists(given))


def local_path(spark: SparkSession, path: str) -> Path | None:
    """The same path on this machine, if it is one of its file system."""
    if is_remote(spark):
        return None
    system, given = _located(spark, path)
    return Path(given.toUri().getPath()) if system.getUri().getScheme() == "file" else None


def _located(spark: SparkSession, path: str) -> tuple[Any, Any]:
    java: Any = spark._jvm
    given = java.org.apache.hadoop.fs.Path(absolute(spark, path))
    return given.getFileSystem(_conf(spark)), given


def _conf(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()
