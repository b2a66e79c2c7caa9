"""The processes that look for exact answers: questions get an answer whatever happens, and quick ones go first."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from dalenius.errors import SolverError
from dalenius.model.problem import ValueCounts
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy
from dalenius.studio import worker as workers
from dalenius.studio.worker import Abandoned, ExactWorker

COUNTS = ValueCounts.of({"Flu": 90, "HIV": 10}.items())
POLICY = LimitPolicy.of(values={"Flu": "1", "HIV": "0.2"})
LONGEST = 60.0  # seconds that a test waits


@pytest.fixture
def worker() -> Iterator[ExactWorker]:
    made = ExactWorker()
    yield made
    made.close()


def test_an_answer_is_what_plan_gives(worker: ExactWorker) -> None:
    found = worker.submit(COUNTS, POLICY).result(LONGEST)
    assert found.exact
    assert found.setting == plan_counts(COUNTS, POLICY).solution.setting


def test_a_newer_question_ends_an_older_one(worker: ExactWorker) -> None:
    first, second = worker.submit(COUNTS, POLICY), worker.submit(COUNTS, POLICY)
    assert second.result(LONGEST).exact
    if not (first.done() and first.exception() is None):
        with pytest.raises(Abandoned):
            first.result(0)


def test_children_give_way_to_quick_answers(worker: ExactWorker) -> None:
    wanted = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    deadline = time.monotonic() + LONGEST
    assert not worker.processes  # they start with the first question
    answer = worker.submit(COUNTS, POLICY)
    while [os.getpriority(os.PRIO_PROCESS, process) for process in worker.processes] != [wanted, wanted]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # while they import, too: no other module is there before
    program = workers._PROGRAM.partition("from dalenius")
    assert program[0] == "import os; os.nice(10); "
    assert answer.result(LONGEST).exact


@pytest.mark.parametrize(
    "reply", [b"cno_such_module\nThing\n.", b"not a pickle", b"", b"\x80\x04\x95", b"cbuiltins\nint\n(S'x'\ntR."]
)
def test_a_reply_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, reply: bytes) -> None:
    program = f"import sys; sys.stdin.buffer.read(1); sys.stdout.buffer.write({reply!r})"
    monkeypatch.setattr(workers, "_PROGRAM", program)
    made = ExactWorker()
    try:
        for _ in range(3):  # with children that are started anew, too
            with pytest.raises(SolverError):
                made.submit(COUNTS, POLICY).result(LONGEST)
    finally:
        made.close()


def test_a_child_that_ends_at_once_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PROGRAM", "")
    made = ExactWorker()
    try:
        for _ in range(5):
            with pytest.raises(SolverError):
                made.submit(COUNTS, POLICY).result(LONGEST)
    finally:
        made.close()
    with pytest.raises(Abandoned):
        made.submit(COUNTS, POLICY)
