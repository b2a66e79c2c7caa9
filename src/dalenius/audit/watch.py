"""How far the checks are, and the order to stop: shared by the threads that read."""

from __future__ import annotations

import threading
from collections.abc import Callable

Progress = Callable[[int, int], None]


class StoppedError(Exception):
    """The checks were called off; never seen outside of them."""


class Watch:
    """Adds up the rows that were read, and ends the threads that ask it when somebody has called off the checks."""

    def __init__(self, total: int, progress: Progress | None = None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let every thread end at its next step."""
        self._stopped.set()

    def step(self, rows: int = 0) -> None:
        """So many rows more are read."""
        if self._stopped.is_set():
            raise StoppedError
        if rows and self._progress is not None:
            with self._lock:
                self._done = min(self._total, self._done + rows)
                self._progress(self._done, self._total)
