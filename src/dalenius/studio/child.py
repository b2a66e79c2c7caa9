"""The other end of `worker`: a process that answers one question after the other until its input ends.

Libraries are imported for the first question that needs them: whoever counts needs no solver.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

from dalenius.errors import DaleniusError
from dalenius.model.estimate import (
    AT_RANDOM,
    LEARNED,
    MEASURED,
    NOT_MEASURED,
    PEOPLE_AT_RANDOM,
    Estimate,
    GroupEstimate,
    Unit,
)
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import MOST_VALUES, ValueCounts
from dalenius.policy.limits import LimitPolicy
from dalenius.tables.killable import out_of_memory, private_output, send

if TYPE_CHECKING:
    from dalenius.analysis.draw_files import Format
    from dalenius.model.concern import Concern
    from dalenius.model.progress import Progress
    from dalenius.publishing.arrangement import StrataPrice
    from dalenius.publishing.options import PublishRequest
    from dalenius.query.count import Counter, Known
    from dalenius.query.people_count import PeopleCounter
    from dalenius.query.release_tables import PublishedColumn
    from dalenius.release.folder import ReleaseFolder
    from dalenius.studio.analyst import Analyst
    from dalenius.studio.exploration import Curve, Exploration, TradeOffPoint
    from dalenius.studio.explorer import Explorer


_NO_TRUTH = "Studio does not count in the table where people have several rows or values: there is no true count here."


@dataclass(frozen=True)
class Look:
    """A request to publish, whose table is to be looked at."""

    request: PublishRequest


@dataclass(frozen=True)
class OpenRelease:
    """A release to read, a mark of its files, what DuckDB may take, and what is known of its intervals."""

    folder: ReleaseFolder
    about: str
    memory: str
    calibration: Known = None


@dataclass(frozen=True)
class ReadColumns:
    """What columns does a release have?"""

    release: OpenRelease


@dataclass(frozen=True)
class Count:
    """How many? `truth` is the table that the release was made from, and its name there, if the true count is asked."""

    release: OpenRelease
    expression: str
    group_by: tuple[str, ...]
    learn: bool
    truth: tuple[Path, str | None] | None
    unit: Unit = "people"


@dataclass(frozen=True)
class Tabulate:
    """How many people have each value of some columns and each of some others? `bins` put numbers into ranges."""

    release: OpenRelease
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    bins: dict[str, int | list[float]]
    draws: int


@dataclass(frozen=True)
class Complete:
    """Write completed tables, with some of the sensitive columns, into a folder that is not there yet."""

    release: OpenRelease
    columns: tuple[str, ...]
    draws: int
    format: Format
    target: Path


AboutRelease: TypeAlias = "ReadColumns | Count | Tabulate | Complete"


@dataclass(frozen=True)
class Counted:
    """An answer from a release, as JSON, and what is known of its intervals now."""

    content: dict[str, Any]
    calibration: Known = None


@dataclass(frozen=True)
class Step:
    """How far an answer is that takes long: a call of a method of `Progress`. Any number of them come before it."""

    method: Literal["stage", "advance", "tell"]
    arguments: tuple[Any, ...]

    def tell(self, progress: Progress) -> None:
        """Make the call."""
        getattr(progress, self.method)(*self.arguments)


# Counts, limits, options and what does not apply for an exact answer; the same with a curve for the trade-off of the
# rule by odds; a request to publish for the price of its strata, or to look at its table; a question about a release.
Limits: TypeAlias = "tuple[ValueCounts, LimitPolicy | Curve, PlanOptions, tuple[str, ...]]"
Question: TypeAlias = "Limits | PublishRequest | Look | AboutRelease"
Reply: TypeAlias = (  # or the type of an error, or an error of somebody who counts or looks
    "Exploration | tuple[TradeOffPoint, ...] | StrataPrice | tuple[Concern, ...] | Counted | str | DaleniusError"
)


def serve() -> None:
    """Answer questions from standard input, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(private_output(), "wb")
    questions: SimpleQueue[Question] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    try:
        _answer(questions, answers)
    finally:
        os._exit(1)  # nothing is left to do, and Python would wait for the other thread


def _answer(questions: SimpleQueue[Question], answers: BinaryIO) -> None:
    exploring, counting = _Exploring(), _Counting()
    analyst: Analyst | None = None
    while True:
        question = questions.get()
        reply: Reply
        try:
            if isinstance(question, ReadColumns | Count):
                reply = counting.answer(question)
            elif isinstance(question, Tabulate | Complete):
                from dalenius.studio.analyst import Analyst

                analyst = analyst or Analyst(answers)
                reply = analyst.answer(question)
            elif isinstance(question, Look):
                from dalenius.publishing.flow import inspect_table

                reply = inspect_table(question.request)
            elif isinstance(question, tuple):
                reply = exploring.answer(*question)
            else:
                from dalenius.publishing.flow import price_strata

                reply = price_strata(question)
        except Exception as error:  # noqa: BLE001 (whatever it is, somebody is waiting)
            reply = error if isinstance(question, Look) and isinstance(error, DaleniusError) else type(error).__name__
        send(answers, reply)


class _Exploring:
    """Explores the counts of the last question."""

    def __init__(self) -> None:
        self._explorer: Explorer | None = None
        self._known: tuple[ValueCounts, tuple[str, ...]] | None = None

    def answer(
        self, counts: ValueCounts, asked: LimitPolicy | Curve, options: PlanOptions, not_applicable: tuple[str, ...]
    ) -> Reply:
        from dalenius.studio.explorer import Explorer

        if self._explorer is None or (counts, not_applicable) != self._known:
            self._explorer, self._known = Explorer(counts, not_applicable), (counts, not_applicable)
        if isinstance(asked, LimitPolicy):
            return self._explorer.explore(asked, options, exact=True)
        return self._explorer.trade_off(asked, options)


class _Counting:
    """Counts from the release of the last question, which stays open."""

    def __init__(self) -> None:
        self._counter: Counter | PeopleCounter | None = None
        self._about: tuple[str, Unit] | None = None

    def answer(self, question: ReadColumns | Count) -> Counted | DaleniusError:
        try:
            counter = self._open(question.release, question.unit if isinstance(question, Count) else "people")
            content = _columns(counter) if isinstance(question, ReadColumns) else _count(counter, question)
            return Counted(content, counter.calibration)
        except DaleniusError as error:
            return error
        except MemoryError:
            return out_of_memory()

    def _open(self, release: OpenRelease, unit: Unit) -> Counter | PeopleCounter:
        from dalenius.query.people_count import open_counter

        about = (release.about, unit)
        if self._counter is not None and self._about != about:
            self._counter.__exit__(None, None, None)
            self._counter = None
        if self._counter is None:
            self._counter = open_counter(
                release.folder, memory=release.memory, calibration=release.calibration, unit=unit
            )
            self._about = about
        return self._counter


def _columns(counter: Counter | PeopleCounter) -> dict[str, Any]:
    from dalenius.query.count import Counter
    from dalenius.query.release_tables import published_columns
    from dalenius.release.release_views import sensitive_columns

    manifest = counter.manifest
    tables = counter.tables if isinstance(counter, Counter) else counter.tables()
    columns = published_columns(tables, [column.name for column in manifest.columns.quasi_identifiers])
    first, *others = [published_columns(tables, [name], MOST_VALUES)[0] for name in sensitive_columns(manifest)]
    return {
        "rows": manifest.rows,
        "people": manifest.people,
        "several_rows": manifest.persons is not None,
        "columns": [_column(column) for column in columns],
        "sensitive": _column(first),
        "others": [_column(column) for column in others],
    }


def _column(column: PublishedColumn) -> dict[str, Any]:
    ends = {"min": column.smallest, "max": column.largest}
    return {
        "name": column.name,
        "type": column.type,
        "kind": column.kind,
        "sql": column.sql,
        "nulls": column.nulls,
        "values": list(column.values) if column.values is not None else None,
        "literals": list(column.literals) if column.literals is not None else None,
        **ends,
        **{f"{end}_literal": None if text is None else column.literal(text) for end, text in ends.items()},
    }


def _count(counter: Counter | PeopleCounter, asked: Count) -> dict[str, Any]:
    from dalenius.query.count import answer_object

    began = time.perf_counter()
    if asked.group_by:
        groups = counter.count_by(asked.expression, asked.group_by, learn=asked.learn, measure=True)
    else:
        estimate: Estimate = counter.count(asked.expression, learn=asked.learn, measure=True)
        groups = [GroupEstimate({}, estimate)]
    truths, note = _truths(counter, asked, groups)
    return {
        "answers": [
            {"group": {}, "tight": True, **answer, "truth": truth}
            for answer, truth in zip(answer_object(groups), truths, strict=True)
        ],
        "assumption": _assumption([group.estimate for group in groups]),
        "truth_note": note,
        "seconds": round(time.perf_counter() - began, 3),
    }


def _assumption(estimates: Sequence[Estimate]) -> str:
    """What the estimates rest on, in words."""
    methods = {estimate.method for estimate in estimates if estimate.unit is None}
    words = [text for method, text in (("learned", LEARNED), ("at random", AT_RANDOM)) if method in methods]
    uncertain = [estimate for estimate in estimates if not estimate.exact]
    if any(estimate.unit is not None for estimate in uncertain):
        return " ".join([*words, PEOPLE_AT_RANDOM, NOT_MEASURED])
    return " ".join([*words, MEASURED] if words else [])


def _truths(
    counter: Counter | PeopleCounter, asked: Count, groups: list[GroupEstimate]
) -> tuple[list[Any], str | None]:
    """The true counts, where they are asked for; or why there are none."""
    from dalenius.query.count import Counter
    from dalenius.query.true_count import true_count, true_counts_of

    if asked.truth is None:
        return [None] * len(groups), None
    plain = counter if isinstance(counter, Counter) else counter.plain_counter(asked.expression, asked.group_by)
    if plain is None:
        return [None] * len(groups), _NO_TRUTH
    path, table = asked.truth
    if asked.group_by:
        return [*true_counts_of(plain, path, asked.expression, groups, table=table)], None
    return [true_count(plain, path, asked.expression, table=table)], None


def _listen(stream: BinaryIO, questions: SimpleQueue[Question]) -> None:
    """Pass on questions. When the input ends, the parent is gone: end too."""
    try:
        while True:
            questions.put(pickle.load(stream))  # noqa: S301 (from the parent process)
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)
