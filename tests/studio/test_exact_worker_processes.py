"""Exact answers from a process of their own: abandoned at once, and never an orphan, however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dalenius.errors import SolverError
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.explorer import Explorer
from dalenius.studio.worker import Abandoned, ExactWorker

SMALL = ValueCounts.of([("Flu", 900), ("Asthma", 400), ("Cancer", 60), ("HIV", 20)])
POLICY = LimitPolicy.of(theta=3, base="0.05")
# limits just above the frequencies of odd counts: a search that takes a minute
HARD = ValueCounts.of((f"v{k}", 1 + (k * 7919) % 2999) for k in range(400))
TIGHT = LimitPolicy.of(theta="1.02")


@pytest.fixture
def worker() -> Iterator[ExactWorker]:
    made = ExactWorker()
    yield made
    made.close()


def test_answers_are_those_of_an_explorer(worker: ExactWorker) -> None:
    for options in (PlanOptions(), PlanOptions(known_records=1), PlanOptions(max_size=2)):
        answer = worker.submit(SMALL, POLICY, options).result(60)
        here = Explorer(SMALL).explore(POLICY, options, exact=True)
        assert replace(answer, seconds=0.0) == replace(here, seconds=0.0)


def test_other_counts_have_other_answers(worker: ExactWorker) -> None:
    other = ValueCounts.of([("x", 70), ("y", 30)])
    assert worker.submit(SMALL, POLICY).result(60).values[0] == "Flu"
    assert worker.submit(other, POLICY).result(60).values == ("x", "y")


def test_a_long_search_is_abandoned_for_a_newer_question_or_for_none(worker: ExactWorker) -> None:
    older = worker.submit(HARD, TIGHT)
    newer = worker.submit(SMALL, POLICY)
    with pytest.raises(Abandoned):
        older.result(60)
    assert newer.result(60).exact
    older = worker.submit(HARD, TIGHT)
    worker.abandon()
    with pytest.raises(Abandoned):
        older.result(60)
    assert worker.submit(SMALL, POLICY).result(60).exact


def test_a_question_that_fails_is_an_error_and_the_next_one_is_answered(worker: ExactWorker) -> None:
    with pytest.raises(SolverError):
        worker.submit("no counts", POLICY).result(60)  # type: ignore[arg-type]
    assert worker.submit(SMALL, POLICY).result(60).exact


def test_a_killed_child_is_an_error_and_the_next_one_answers(worker: ExactWorker) -> None:
    future = worker.submit(HARD, TIGHT)
    os.kill(worker.processes[0], signal.SIGKILL)
    with pytest.raises(SolverError):
        future.result(60)
    assert worker.submit(SMALL, POLICY).result(60).exact


def test_a_closed_worker_has_no_processes_and_takes_no_questions() -> None:
    worker = ExactWorker()
    pending = worker.submit(HARD, TIGHT)
    processes = worker.processes
    worker.close()
    worker.close()
    with pytest.raises(Abandoned):
        pending.result(60)
    assert not any(is_alive(process) for process in processes)
    with pytest.raises(Abandoned):
        worker.submit(SMALL, POLICY)


PARENT = """
import signal, sys, time
sys.path.insert(0, "")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from tests.studio.test_exact_worker_processes import HARD, TIGHT
from dalenius.studio.worker import ExactWorker
worker = ExactWorker()
worker.submit(HARD, TIGHT)
time.sleep(float(sys.argv[1]))
try:
    print(*worker.processes, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("working", [0.0, 2.0], ids=["starting", "searching"])
def test_children_do_not_outlive_their_parent_and_write_nothing(
    ending: signal.Signals, working: float, tmp_path: Path
) -> None:
    """However the parent ends, and whatever its children are doing then; Ctrl-C goes to the whole group."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(working)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        try:
            assert parent.stdout is not None
            children = [int(word) for word in parent.stdout.readline().split()]
            assert len(children) == 2
            os.killpg(parent.pid, ending)
            output, errors = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert (output, errors) == ("", "")
    until = time.monotonic() + 60
    while any(is_alive(child) for child in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(is_alive(child) for child in children)
    assert list(tmp_path.iterdir()) == []


def is_alive(process: int) -> bool:
    """Whether a process is there and is no zombie that nobody has waited for yet."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False
