"""What the analyst's pages ask beyond counting, in the process that answers: cross-tabs, and completed tables as files.

The release of the last question stays open, with what was learned of it: the next question needs no learning.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

from dalenius.errors import DaleniusError
from dalenius.model.progress import Progress
from dalenius.publishing.published import Release
from dalenius.studio.child import Complete, Counted, OpenRelease, Step, Tabulate
from dalenius.tables.killable import out_of_memory, send

if TYPE_CHECKING:
    import pandas as pd

    from dalenius.analysis.cross_tabs import CrossTab, Independence

SEED = 1  # the same question has the same answer, here and in Python
_BETWEEN_STEPS = 0.1  # seconds, between messages of how far it is


class Analyst:
    """Answers one question after the other, and says meanwhile how far it is."""

    def __init__(self, answers: BinaryIO) -> None:
        self._steps = _Steps(answers)
        self._release: Release | None = None
        self._about = ""
        self._learned: set[frozenset[str]] = set()  # of which sensitive columns

    def answer(self, question: Tabulate | Complete) -> Counted | DaleniusError:
        """The answer as JSON, or why there is none."""
        began = time.monotonic()
        try:
            release = self._open(question.release)
            sensitive = frozenset(question.columns) | frozenset(question.rows if isinstance(question, Tabulate) else ())
            sensitive &= frozenset(release.manifest.sensitive_names)
            known = sensitive in self._learned
            content = self._tabulate(release, question) if isinstance(question, Tabulate) else self._write(question)
            self._learned.add(sensitive)
        except DaleniusError as error:
            return error
        except MemoryError:
            return out_of_memory(what="this")
        return Counted({**content, "learned_before": known, "seconds": round(time.monotonic() - began, 3)})

    def _open(self, opened: OpenRelease) -> Release:
        if self._release is None or self._about != opened.about:
            self._release, self._about = Release(opened.folder), opened.about
            self._learned = set()
        return self._release

    def _tabulate(self, release: Release, asked: Tabulate) -> dict[str, Any]:
        found = release.crosstab(
            asked.rows, asked.columns, bins=asked.bins, draws=asked.draws, seed=SEED, progress=self._steps
        )
        return {**cross_tab_object(found), "python": _in_python(asked)}

    def _write(self, asked: Complete) -> dict[str, Any]:
        names = self._open(asked.release).write_completed(
            asked.target, asked.draws, format=asked.format, columns=asked.columns, progress=self._steps
        )
        return {"files": names, "bytes": sum((asked.target / name).stat().st_size for name in names)}


def cross_tab_object(found: CrossTab) -> dict[str, Any]:
    """A cross-tab and its test as JSON. Values are texts, as people read them."""
    parts = {"estimate": found.table, "std_error": found.std_error, "low": found.low, "high": found.high}
    return {
        "rows": _axis(found.table.index),
        "columns": _axis(found.table.columns),
        **{name: part.to_numpy().tolist() for name, part in parts.items()},
        "test": _test_object(found.chi2) if found.chi2 is not None else None,
        "draws": found.draws,
        "notes": list(found.notes),
    }


def _test_object(test: Independence) -> dict[str, Any]:
    return {
        "chi2": test.chi2,
        "interval": list(test.interval),
        "dof": test.dof,
        "p_value": test.p_value,
        "cramers_v": test.cramers_v,
        "missing": test.missing,
    }


def _axis(index: pd.Index) -> dict[str, Any]:
    levels = [[_text(value) for value in index.get_level_values(number)] for number in range(index.nlevels)]
    return {"names": [str(name) for name in index.names], "values": [list(line) for line in zip(*levels, strict=True)]}


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _in_python(asked: Tabulate) -> str:
    """How to repeat it; names and numbers are written as Python's own literals."""
    rows, columns = (names[0] if len(names) == 1 else list(names) for names in (asked.rows, asked.columns))
    bins = f", bins={asked.bins!r}" if asked.bins else ""
    how = f"{rows!r}, {columns!r}{bins}, draws={asked.draws}, seed={SEED}"
    return f'import dalenius\n\nrelease = dalenius.load("release")\nrelease.crosstab({how})\nrelease.chi2({how})\n'


class _Steps(Progress):
    """Sends steps to the parent, a few each second. Threads may share it."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers, self._lock = answers, threading.Lock()
        self._done, self._sent = 0, 0.0

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        """A stage begins."""
        with self._lock:
            self._done = 0
            send(self._answers, Step("stage", (name, total, unit)))

    def advance(self, number: int) -> None:
        """This many more are done."""
        with self._lock:
            self._done += number
            if time.monotonic() - self._sent > _BETWEEN_STEPS:
                send(self._answers, Step("advance", (self._done,)))
                self._done, self._sent = 0, time.monotonic()

    def tell(self, sentence: str) -> None:
        """A sentence to know."""
        with self._lock:
            send(self._answers, Step("tell", (sentence,)))
