"""What an experiment is: it measures rows, draws them, and judges the paper's claims by them.

What was measured so far, kept in the folder: a run that was stopped goes on where it was.

Every measurement has a key with all that it depends on besides the table, the program and the machine, which are the
same for the whole file. A file of another table, program or machine is not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from dalenius.model.progress import Progress
from paper.dataset import Dataset
from paper.figure import Figure, Rows
from paper.files import written
from paper.settings import Settings

FILE = "measured.json"


class Measured:
    """Measurements by key, written to the folder one by one."""

    def __init__(self, folder: Path, of: Mapping[str, Any], *, fresh: bool = False) -> None:
        self._path, self._of = folder / FILE, dict(of)
        self._found = _read(self._path, self._of)
        self._stale = set(self._found) if fresh else set()

    def get(self, key: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """What was measured under the key, now or before. Measurements are JSON values."""
        name = json.dumps(key, sort_keys=True)
        if name not in self._found or name in self._stale:
            self._stale.discard(name)
            self._found[name] = json.loads(json.dumps(measure()))
            written(self._path, json.dumps({"of": self._of, "found": self._found}, indent=1))
        return self._found[name]


def _read(path: Path, of: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        if text["of"] == json.loads(json.dumps(of)):
            return dict(text["found"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not ours: everything is measured anew
    return {}


class Verdict(StrEnum):
    """Whether a claim of the paper holds here."""

    AGREES = "agrees"
    PARTLY = "agrees in part"
    DIFFERS = "does not agree"
    UNDECIDED = "cannot be said"

    @classmethod
    def of(cls, holds: Iterable[bool | None]) -> Verdict:
        """A claim about several cases: it holds in all of them, in some, or in none. None is a case that is not "
        "known."""
        cases = [case for case in holds if case is not None]
        if not cases:
            return cls.UNDECIDED
        return cls.AGREES if all(cases) else cls.PARTLY if any(cases) else cls.DIFFERS


@dataclass(frozen=True)
class Claim:
    """What the paper says and where, what this run found, and whether they agree. Sentences without a full stop."""

    where: str
    paper: str
    found: str
    verdict: Verdict


@dataclass(frozen=True)
class Context:
    """What experiments run on, and where their measurements are kept."""

    dataset: Dataset
    settings: Settings
    measured: Measured
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
        found = self.measured.get({"what": what, **key}, run)
        self.progress.advance(1)
        return found


@dataclass(frozen=True)
class Table:
    """What the page shows as a table, as text."""

    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, columns: Mapping[str, tuple[str, str]], rows: Rows) -> Table:
        """Some columns of rows: a heading and a format for each; what is not there is a dash."""
        lines = (tuple(shown(row.get(name), form) for name, (_, form) in columns.items()) for row in rows)
        return cls(tuple(heading for heading, _ in columns.values()), tuple(lines))


def shown(value: Any, form: str) -> str:
    """A number in its format; a dash where there is none."""
    return "-" if value is None else format(value, form)


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


def by(rows: Rows, *names: str) -> dict[Any, dict[str, Any]]:
    """Rows by the value of a column, or by the values of several."""
    if len(names) == 1:
        return {row[names[0]]: row for row in rows}
    return {tuple(row[name] for name in names): row for row in rows}


def span(numbers: Iterable[float], form: str) -> str:
    """The smallest and the largest of some numbers: 1.2 to 3.4."""
    found = sorted(numbers)
    if not found:
        return "nothing"
    low, high = (
        text.lstrip("-") if float(text.replace(",", "")) == 0 else text
        for text in (format(found[0], form), format(found[-1], form))
    )
    return low if low == high else f"{low} to {high}"


def percents(shares: Iterable[float]) -> str:
    """Shares as percentages, from the smallest to the largest: 83 to 97 %."""
    return f"{span((100 * share for share in shares), '.0f')} %"


def cases(rows: Rows, column: str) -> dict[tuple[str, int], dict[str, Any]]:
    """A column by sensitive column and theta, and within that by method."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for (sensitive, theta, method), row in by(rows, "sensitive", "theta", "method").items():
        found.setdefault((sensitive, theta), {})[method] = row[column]
    return found
