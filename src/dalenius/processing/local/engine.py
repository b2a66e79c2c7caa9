"""The engine that is this very process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dalenius.engines.arrays import plain_arrow_errors
from dalenius.engines.sources import open_source
from dalenius.place.budget import Budget
from dalenius.processing.local.output import LocalOutput
from dalenius.processing.local.table import LocalTable
from dalenius.release.staging import staging
from dalenius.release.write import FORMATS, Format


class LocalEngine:
    """Reads, places and writes within a budget of memory. What does not fit into it goes to the disk of the output."""

    def __init__(self, budget: Budget, format: Format) -> None:  # noqa: A002 (what everybody calls it)
        self._budget, self._format = budget, format
        self._scratch: Path | None = None

    @property
    def formats(self) -> Sequence[str]:
        """How tables can be written, the usual way first."""
        return FORMATS

    @contextmanager
    def open(self, table: Any, name: str | None) -> Iterator[LocalTable]:
        """A path (CSV, TSV, Parquet, DuckDB), a DataFrame, an Arrow table or a DuckDB relation."""
        with (
            plain_arrow_errors(),
            open_source(table, name, self._budget.engine) as source,
            ThreadPoolExecutor(_cores()) as workers,
        ):
            yield LocalTable(source, self._budget, workers, lambda: self._scratch)

    @contextmanager
    def output(self, out: str, force: bool) -> Iterator[LocalOutput]:
        """A staging folder beside the target, which has room for scratch files as well."""
        with staging(Path(out), force) as stage, ThreadPoolExecutor(1) as disk:
            self._scratch = stage.folder
            try:
                yield LocalOutput(stage, Path(out), force, self._budget, self._format, disk)
            finally:
                self._scratch = None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
