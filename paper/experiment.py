"""What an experiment is, the settings it runs with, and the store of its measurements.

An experiment measures rows, draws them, and judges the paper's claims by them.

Measurements stay in the folder, so that a run that was stopped goes on where it was. Every measurement has a key with
all that it depends on besides the table, the program and the machine, which are the same for the whole file. A file of
another table, program or machine is not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from dalenius.model.progress import Progress
from dalenius.release.atomic import writable, write_file
from paper.dataset import Dataset
from paper.pictures import Figure, Rows

MEASUREMENTS = "measured.json"


class Experiment(Protocol):
    """One table or figure of the paper."""

    name: str  # of its files, and for --only
    title: str
    about: str  # how it was measured, in a few sentences

    def data(self, context: Context) -> str:
        """What the picture calls its data."""

    def steps(self, context: Context) -> int:
        """How many measurements it makes."""

    def run(self, context: Context) -> Rows:
        """The data."""

    def figure(self, rows: Rows, context: Context) -> Figure:
        """How the data is drawn."""

    def table(self, rows: Rows) -> Table | None:
        """What of the data the page shows as a table, if anything."""

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:
        """The paper's claims, each beside what the data say."""


@dataclass(frozen=True)
class Context:
    """The table and the settings of a run, and the store of its measurements."""

    dataset: Dataset
    settings: Settings
    measurements: Measurements
    progress: Progress

    @property
    def data(self) -> str:
        """What pictures call the data."""
        return f"{self.dataset.title}; {self.settings.rows:,} records"

    def points(self, methods: Iterable[str]) -> Iterator[tuple[str, int, str]]:
        """Every sensitive column with every theta and method."""
        return product(self.dataset.sensitive, self.settings.thetas, methods)

    def measure(self, what: str, run: Callable[[], Any], /, **key: Any) -> Any:
        """A measurement, unless it was made before; one step of progress."""
        measurement = self.measurements.get({"what": what, **key}, run)
        self.progress.advance(1)
        return measurement


@dataclass(frozen=True)
class Settings:
    """The paper's, unless said otherwise. Times are medians of so many runs; the paper has means of 100."""

    thetas: tuple[int, ...] = (2, 4, 8, 16, 32)
    rows: int = 300_000  # for everything but the runtimes
    sizes: tuple[int, ...] = (100_000, 200_000, 300_000, 400_000, 500_000)
    gammas: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    queries: int = 5_000
    runs_of_ours: int = 20
    runs_of_searches: int = 3
    limit: float = 60.0  # seconds, for the integer program and for the proof of the exact optimum
    draws: int = 100_000
    quick: bool = False

    @property
    def most_rows(self) -> int:
        """How many rows the experiments can use."""
        return max(self.rows, *self.sizes)

    def within(self, rows: int) -> Settings:
        """The same for a table that has only so many rows."""
        if rows >= self.most_rows:
            return self
        most = self.sizes[-1]
        return replace(self, rows=min(self.rows, rows), sizes=tuple(max(1, size * rows // most) for size in self.sizes))


FULL = Settings()


QUICK = Settings(
    thetas=(2, 8, 32),
    rows=15_000,
    sizes=(10_000, 30_000),
    gammas=(2, 16),
    queries=500,
    runs_of_ours=5,
    runs_of_searches=1,
    limit=2.0,
    draws=20_000,
    quick=True,
)


@dataclass(frozen=True)
class Claim:
    """What the paper says and where, what this run found, and whether they agree. The sentences have no full stop."""

    where: str
    paper: str
    found: str
    verdict: Verdict


class Verdict(StrEnum):
    """Whether a claim of the paper holds here."""

    AGREES = "agrees"
    PARTLY = "agrees in part"
    DIFFERS = "does not agree"
    UNDECIDED = "cannot be said"

    @classmethod
    def of(cls, holds: Iterable[bool | None]) -> Verdict:
        """A claim about several cases: it holds in all of them, in some, or in none. None is an unknown case."""
        cases = [case for case in holds if case is not None]
        if not cases:
            return cls.UNDECIDED
        return cls.AGREES if all(cases) else cls.PARTLY if any(cases) else cls.DIFFERS


@dataclass(frozen=True)
class Table:
    """What the page shows as a table, as text."""

    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, columns: Mapping[str, tuple[str, str]], rows: Rows) -> Table:
        """Some columns of rows: a heading and a format for each; what is not there is a dash."""
        lines = (tuple(format_cell(row.get(name), spec) for name, (_, spec) in columns.items()) for row in rows)
        return cls(tuple(heading for heading, _ in columns.values()), tuple(lines))


class Measurements:
    """Measurements by key, written to the folder one by one."""

    def __init__(self, folder: Path, of: Mapping[str, Any], *, fresh: bool = False) -> None:
        self._path, self._of = folder / MEASUREMENTS, dict(of)
        self._by_key = _read(self._path, self._of)
        self._stale = set(self._by_key) if fresh else set()

    def get(self, key: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """What was measured under the key, now or before. Measurements are JSON values."""
        name = json.dumps(key, sort_keys=True)
        if name not in self._by_key or name in self._stale:
            self._stale.discard(name)
            self._by_key[name] = json.loads(json.dumps(measure()))
            save(self._path, json.dumps({"of": self._of, "found": self._by_key}, indent=1))
        return self._by_key[name]


def _read(path: Path, of: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        if text["of"] == json.loads(json.dumps(of)):
            return dict(text["found"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not ours: everything is measured anew
    return {}


def save(path: Path, content: str | bytes) -> None:
    """Write a file of the results whole, or not at all."""
    with writable("the results"):
        write_file(path, content.encode() if isinstance(content, str) else content)


def format_cell(value: Any, spec: str) -> str:
    """A number in its format; a dash where there is none."""
    return "-" if value is None else format(value, spec)


def rows_by(rows: Rows, *names: str) -> dict[Any, dict[str, Any]]:
    """Rows by the value of a column, or by the values of several."""
    if len(names) == 1:
        return {row[names[0]]: row for row in rows}
    return {tuple(row[name] for name in names): row for row in rows}


def span(numbers: Iterable[float], spec: str) -> str:
    """The smallest and the largest of some numbers: 1.2 to 3.4."""
    ordered = sorted(numbers)
    if not ordered:
        return "nothing"
    low, high = (
        text.lstrip("-") if float(text.replace(",", "")) == 0 else text
        for text in (format(ordered[0], spec), format(ordered[-1], spec))
    )
    return low if low == high else f"{low} to {high}"


def percents(shares: Iterable[float]) -> str:
    """Shares as percentages, from the smallest to the largest: 83 to 97 %."""
    return f"{span((100 * share for share in shares), '.0f')} %"


def cases(rows: Rows, column: str) -> dict[tuple[str, int], dict[str, Any]]:
    """A column by sensitive column and theta, and within that by method."""
    by_case: dict[tuple[str, int], dict[str, Any]] = {}
    for (sensitive, theta, method), row in rows_by(rows, "sensitive", "theta", "method").items():
        by_case.setdefault((sensitive, theta), {})[method] = row[column]
    return by_case
