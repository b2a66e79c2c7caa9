"""Long work: told about, stopped, and one of a kind at a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dalenius.errors import CancelledError, InputError
from dalenius.model.progress import LAST_STAGE
from dalenius.studio.messages import RequestError
from dalenius.studio.tasks import Task, Tasks


def finished(task: Task) -> dict[str, Any]:
    assert task.over.wait(60)
    return task.state()


def test_what_is_told_of_a_task() -> None:
    going, look = threading.Event(), threading.Event()

    def work(task: Task) -> dict[str, Any]:
        task.stage("Counting")
        task.stage("Placing", 100, "rows")
        task.advance(30)
        task.advance(12)
        task.tell("strata cost nothing")
        look.set()
        assert going.wait(60)
        task.stage("Placing", 100, "rows")
        return {"release": "x"}

    task = Tasks().start("publish", "", work)
    assert look.wait(60)
    state = task.state()
    assert {key: state[key] for key in ("kind", "status", "stage", "done", "total", "unit", "stages", "sentences")} == {
        "kind": "publish",
        "status": "running",
        "stage": "Placing",
        "done": 42,
        "total": 100,
        "unit": "rows",
        "stages": ["Counting", "Placing"],
        "sentences": ["strata cost nothing"],
    }
    assert (state["result"], state["error"]) == (None, None)
    going.set()
    state = finished(task)
    assert (state["status"], state["result"], state["error"]) == ("done", {"release": "x"}, None)
    assert state["seconds"] == task.state()["seconds"]


def test_one_of_a_kind_at_a_time() -> None:
    going, tasks = threading.Event(), Tasks()

    def work(_task: Task) -> dict[str, Any]:
        assert going.wait(60)
        return {}

    first = tasks.start("audit", "", work)
    with pytest.raises(RequestError, match="running already"):
        tasks.start("audit", "", work)
    other = tasks.start("verify", "", work)
    assert set(tasks.running()) == {first, other}
    going.set()
    finished(first), finished(other)
    assert tasks.running() == []
    finished(tasks.start("audit", "", work))
    assert tasks.get(first.id) is first
    with pytest.raises(RequestError, match="nothing with this name"):
        tasks.get("x")


@pytest.mark.parametrize("step", ["stage", "advance", "tell"])
def test_cancelling_ends_it_at_its_next_step(step: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(task: Task) -> dict[str, Any]:
        task.stage("Verifying", 2)
        begun.set()
        assert go_on.wait(60)
        {
            "stage": lambda: task.stage("Writing"),
            "advance": lambda: task.advance(1),
            "tell": lambda: task.tell("a"),
        }[step]()
        return {}

    task = Tasks().start("verify", "", work)
    assert begun.wait(60)
    task.cancel()
    task.cancel()  # twice does no harm
    go_on.set()
    state = finished(task)
    assert (state["status"], state["result"], state["error"]) == ("cancelled", None, None)


def test_it_is_too_late_once_a_release_takes_its_place() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(task: Task) -> dict[str, Any]:
        task.stage(LAST_STAGE)
        begun.set()
        assert go_on.wait(60)
        return {"release": "x"}

    task = Tasks().start("publish", "", work)
    assert begun.wait(60)
    with pytest.raises(RequestError, match="too late to stop"):
        task.cancel()
    go_on.set()
    assert finished(task)["status"] == "done"


def test_how_a_task_fails() -> None:
    def known(_task: Task) -> dict[str, Any]:
        raise InputError("the table is empty", "Give another one.")

    def unknown(_task: Task) -> dict[str, Any]:
        raise ValueError("Jane Doe has HIV")

    tasks = Tasks()
    state = finished(tasks.start("publish", "", known))
    assert state["status"] == "failed"
    assert state["error"] == {"kind": "input", "message": "the table is empty", "hint": "Give another one."}
    state = finished(tasks.start("publish", "", unknown))
    assert state["error"]["kind"] == "internal"
    assert "Jane" not in str(state)


def test_closing_stops_all() -> None:
    tasks, endless = Tasks(), threading.Event()

    def willing(task: Task) -> dict[str, Any]:
        while True:
            task.advance(1)

    def stubborn(_task: Task) -> dict[str, Any]:
        assert endless.wait(60)
        raise CancelledError

    task = tasks.start("audit", "", willing)
    assert tasks.close(30)
    assert task.state()["status"] == "cancelled"
    with pytest.raises(RequestError, match="being closed"):
        tasks.start("audit", "", willing)
    tasks = Tasks()
    tasks.start("publish", "", stubborn)
    assert not tasks.close(0.05)
    endless.set()
