"""Progress on standard error: bars on a terminal, a line per stage elsewhere, nothing for scripts."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dalenius.model.progress import LAST_STAGE, Progress, Silent

if TYPE_CHECKING:
    import rich.progress


@contextmanager
def protect_last_stage() -> Iterator[Callable[[Progress], Progress]]:
    """Wrap a progress so that nothing can be interrupted from its last stage to the end of the context.

    A run that says it was interrupted has then changed nothing.
    """
    before: dict[signal.Signals, Any] = {}

    def begin() -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, signal.SIG_IGN)

    try:
        yield lambda progress: _ProtectedProgress(progress, begin)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _ProtectedProgress:
    def __init__(self, progress: Progress, begin: Callable[[], None]) -> None:
        self._progress, self._begin = progress, begin
        self.advance, self.tell = progress.advance, progress.tell

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        if name == LAST_STAGE:
            self._begin()
        self._progress.stage(name, total, unit)


@contextmanager
def show_progress(as_json: bool, lines: bool = True) -> Iterator[Progress]:
    """Bars on a terminal; elsewhere a line for each stage, unless they are not wanted or the output is JSON."""
    if not sys.stderr.isatty():
        yield _Lines() if lines and not as_json else Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars)


class _Lines:
    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        click.echo(f"{name} ..." if total is None else f"{name} {total:,} {unit} ...", err=True)

    def advance(self, number: int) -> None:
        pass

    def tell(self, sentence: str) -> None:
        click.echo(sentence, err=True)


class _Bars:
    def __init__(self, bars: rich.progress.Progress) -> None:
        self._bars = bars
        self._task: rich.progress.TaskID | None = None

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:  # noqa: ARG002
        if self._task is not None:
            done = self._bars.tasks[-1].completed
            self._bars.update(self._task, total=done or 1, completed=done or 1)
        self._task = self._bars.add_task(name, total=total)

    def advance(self, number: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, number)

    def tell(self, sentence: str) -> None:
        self._bars.console.print(sentence, markup=False, highlight=False)
