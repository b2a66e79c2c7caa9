"""Long work in the background: its progress, its result, and how to stop it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from dalenius.errors import CancelledError, DaleniusError
from dalenius.model.progress import LAST_STAGE
from dalenius.studio.messages import RequestError, error_object, internal_object, not_found

Kind = Literal["strata-price", "people-plan", "publish", "verify", "audit", "report", "crosstab", "completed"]
_MOST_TASKS = 100
_MOST_SENTENCES = 200


class Task:
    """One piece of work. The working thread reports progress, and the page asks for it."""

    def __init__(self, kind: Kind, subject: str = "", about: str = "") -> None:
        self.id, self.kind, self.subject, self.about = secrets.token_urlsafe(12), kind, subject, about
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._status = "running"
        self._stage, self._done, self._unit = "", 0, "rows"
        self._total: int | None = None
        self._stages: list[str] = []
        self._sentences: list[str] = []
        self._result: dict[str, Any] | None = None
        self._error: dict[str, Any] | None = None
        self._cancelled = False
        self.over = threading.Event()

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return not self.over.is_set()

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        """A stage begins."""
        with self._lock:
            self._check()
            self._stage, self._done, self._total, self._unit = name, 0, total, unit
            if name not in self._stages:
                self._stages.append(name)

    def advance(self, number: int) -> None:
        """This many more are done."""
        with self._lock:
            self._check()
            self._done += number

    def tell(self, sentence: str) -> None:
        """Show a sentence while the work goes on."""
        with self._lock:
            self._check()
            if len(self._sentences) < _MOST_SENTENCES:
                self._sentences.append(sentence)

    def cancel(self) -> None:
        """Ask it to stop. It does so at its next step."""
        with self._lock:
            if self._stage == LAST_STAGE and not self._cancelled and self._status == "running":
                raise RequestError(409, "too-late", "it is too late to stop: the release is being put in place")
            self._cancelled = True

    def _check(self) -> None:
        if self._cancelled:
            raise CancelledError

    def run(self, work: Callable[[Task], dict[str, Any]]) -> None:
        """Do the work in this thread."""
        try:
            result = work(self)
            ending: dict[str, Any] = {"_status": "done", "_result": result}
        except CancelledError:
            ending = {"_status": "cancelled"}
        except (DaleniusError, RequestError) as error:
            ending = {"_status": "failed", "_error": error_object(error)}
        except BaseException as error:  # noqa: BLE001 (whatever it is, the page has to know)
            ending = {"_status": "failed", "_error": internal_object(error)}
        with self._lock:
            self.__dict__.update(ending)
            self._ended = time.monotonic()
        self.over.set()

    def require_done(self) -> None:
        """Wait until it is over; an error if it failed or was cancelled."""
        self.over.wait()
        state = self.state()
        if state["status"] == "cancelled":
            raise RequestError(409, "cancelled", "it was cancelled", "Ask again.")
        if error := state["error"]:
            status = 500 if error["kind"] == "internal" else 400
            raise RequestError(status, error["kind"], error["message"], error["hint"])

    def state(self) -> dict[str, Any]:
        """The task for GET /api/tasks/ID."""
        with self._lock:
            return {
                "id": self.id,
                "kind": self.kind,
                "about": self.about,
                "status": self._status,
                "stage": self._stage,
                "done": self._done,
                "total": self._total,
                "unit": self._unit,
                "stages": list(self._stages),
                "sentences": list(self._sentences),
                "seconds": round((self._ended or time.monotonic()) - self._began, 3),
                "result": self._result,
                "error": self._error,
            }


class BusyError(RequestError):
    """Work of this kind is running already."""

    def __init__(self) -> None:
        hint = "Wait until it is done, or cancel it."
        super().__init__(409, "busy", "work of this kind is running already", hint)


class Tasks:
    """The tasks of this server. Only one of each kind runs at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self._closed = False

    def start(self, kind: Kind, subject: str, work: Callable[[Task], dict[str, Any]], about: str = "") -> Task:
        """Start a task in a thread of its own. `subject` is the ID of its table, `about` that of its release."""
        task = Task(kind, subject, about)
        with self._lock:
            if self._closed:
                raise RequestError(409, "busy", "Studio is being closed")
            if any(other.running and other.kind == kind for other in self._tasks.values()):
                raise BusyError
            self._tasks[task.id] = task
            for old in [other for other in self._tasks.values() if not other.running][:-_MOST_TASKS]:
                del self._tasks[old.id]
        threading.Thread(target=task.run, args=(work,), name=f"task {kind}", daemon=True).start()
        return task

    def run(self, kind: Kind, work: Callable[[Task], dict[str, Any]], about: str) -> None:
        """Do a task and wait for it; first for another one of its kind, if that is running."""
        while True:
            with self._lock:
                others = [task for task in self._tasks.values() if task.running and task.kind == kind]
            for other in others:
                other.over.wait()
            with suppress(BusyError):
                self.start(kind, "", work, about).require_done()
                return

    def get(self, identifier: str) -> Task:
        """The task with an ID."""
        with self._lock:
            task = self._tasks.get(identifier)
        if task is None:
            raise not_found()
        return task

    def running(self) -> list[Task]:
        """The tasks that are running."""
        with self._lock:
            return [task for task in self._tasks.values() if task.running]

    def close(self, seconds: float) -> bool:
        """Stop all tasks, and wait this many seconds for them. Returns whether they have ended."""
        with self._lock:
            self._closed = True
        for task in self.running():
            try:
                task.cancel()
            except RequestError:
                continue  # too late to stop it, but it ends soon
        deadline = time.monotonic() + seconds
        return all(task.over.wait(max(0.0, deadline - time.monotonic())) for task in self.running())
