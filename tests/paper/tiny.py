"""Settings and a table that are small enough for tests."""

from __future__ import annotations

from pathlib import Path

from paper.dataset import Dataset, make_dataset
from paper.experiment import Context, Measurements, Settings

TINY = Settings(
    thetas=(8, 32),
    rows=2_000,
    sizes=(1_000, 2_000),
    gammas=(2, 4),
    queries=50,
    runs_of_ours=1,
    runs_of_searches=1,
    limit=0.2,
    draws=2_000,
)


class Steps:
    """Progress that remembers stages, and may stop everything after so many steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stages: list[str] = []
        self.done = 0
        self._stop_after = stop_after

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self.stages.append(name)

    def advance(self, number: int) -> None:
        self.done += number
        if self._stop_after is not None and self.done >= self._stop_after:
            raise KeyboardInterrupt

    def tell(self, sentence: str) -> None:
        raise AssertionError(sentence)


def table() -> Dataset:
    return make_dataset(TINY.most_rows)


def context(folder: Path, settings: Settings = TINY) -> Context:
    return Context(table(), settings, Measurements(folder, {}), Steps())
