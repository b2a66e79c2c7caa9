"""Spark's daemon that forks Python's workers, with the libraries loaded that each of them would load for itself."""

from __future__ import annotations

import gc

import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

PRELOADED = {"spark.python.daemon.module": "tests.spark.daemon"}  # settings of a session

if __name__ == "__main__":
    gc.freeze()  # workers collect garbage after every task, which takes 30 ms where all modules are looked at
    manager()
