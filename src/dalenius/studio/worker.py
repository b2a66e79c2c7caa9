"""Exact answers, prices of strata, looks at tables, counts and analyses, from processes that can be killed.

The first question starts two child processes: one works, and one waits, so that the next question need not wait for an
interpreter to start. A child reads questions from its standard input and writes answers to its standard output, one at
a time. It ends when its input ends, so that it never outlives its parent. It has a session of its own, so that Ctrl-C
in a terminal does not reach it. Its standard error goes nowhere.

>>> worker = ExactWorker()
>>> future = worker.submit(counts, policy, options)     # doctest: +SKIP
>>> answer = future.result()                            # doctest: +SKIP
>>> worker.close()
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from dalenius.errors import DaleniusError, SolverError
from dalenius.model.concern import Concern
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.model.progress import Progress, Silent
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.child import AboutRelease, Counted, Look, Question, Step
from dalenius.studio.exploration import Curve, Exploration, TradeOffPoint
from dalenius.tables.killable import Allowance, Watch, python_process, receive

if TYPE_CHECKING:
    from dalenius.publishing.arrangement import StrataPrice
    from dalenius.publishing.options import PublishRequest

# Nice before anything else: importing takes a second, in which quick answers and the browser go first.
_PROGRAM = "import os; os.nice(10); from dalenius.studio.child import serve; serve()"
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_CHILDREN = 2
_KEPT_LOOKS = 32
_COUNTS_AT_ONCE = 2
_PATIENCE = 5.0  # seconds for a killed process to be gone
_UNLIMITED = Allowance(None)


class Abandoned(Exception):  # noqa: N818 (not an error: somebody asked something else)
    """The question was given up, for a newer one or because the worker closed."""


class ExactWorker:
    """Answers the latest question, and gives up those before it. Threads may share it."""

    def __init__(self, children: int = _CHILDREN) -> None:
        """With one child nobody is in waiting: the next one is started for the next question."""
        self._lock = threading.Lock()
        self._closed = False
        self._most = children
        self._pending: Future[Any] | None = None
        self._children: list[_Child] = []  # the one at work, and the one in waiting

    def submit(
        self,
        counts: ValueCounts,
        policy: LimitPolicy,
        options: PlanOptions | None = None,
        not_applicable: tuple[str, ...] = (),
    ) -> Future[Exploration]:
        """Ask for the exact exploration. A question that is not answered yet is abandoned."""
        return self._ask((counts, policy, options or PlanOptions(), not_applicable))

    def trade_off(
        self, counts: ValueCounts, curve: Curve, options: PlanOptions, not_applicable: tuple[str, ...] = ()
    ) -> Future[tuple[TradeOffPoint, ...]]:
        """Ask for the trade-off of the rule by odds. A question that is not answered yet is abandoned."""
        return self._ask((counts, curve, options, not_applicable))

    def price(self, request: PublishRequest) -> Future[StrataPrice]:
        """Ask what strata cost. A question that is not answered yet is abandoned."""
        return self._ask(request)

    def look(self, request: PublishRequest) -> Future[tuple[Concern, ...]]:
        """Ask what there is to know about a table. A question that is not answered yet is abandoned."""
        return self._ask(Look(request))

    def _ask(self, question: Question) -> Future[Any]:
        with self._lock:
            if self._closed:
                raise Abandoned("the worker is closed")
            self._give_up()
            if self._children and not self._children[0].is_alive():
                self._children.pop(0).kill()
            if not self._children:
                self._children.append(_Child())
            self._pending = self._children[0].ask(_Asked(question))
            self._start_missing()
            return self._pending

    def abandon(self) -> None:
        """Stop working on the question that is not answered yet, if there is one."""
        with self._lock:
            self._give_up()

    def close(self) -> None:
        """Give up everything and end the child processes. A second call does nothing."""
        with self._lock:
            self._closed = True
            children, self._children = self._children, []
            pending, self._pending = self._pending, None
            if pending is not None:  # before its process is gone, which would be an error
                _fail(pending, Abandoned("the worker is closed"))
            for child in children:
                child.kill()
        for child in children:
            child.join()

    @property
    def processes(self) -> tuple[int, ...]:
        """The IDs of the process at work and of the one in waiting; none before the first question."""
        with self._lock:
            return tuple(child.number for child in self._children)

    def _give_up(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None or pending.done():
            return
        _fail(pending, Abandoned("a newer question was asked, or none"))  # before its process is gone
        self._children.pop(0).kill()
        if self._most > 1:
            self._start_missing()

    def _start_missing(self) -> None:
        while len(self._children) < self._most:
            self._children.append(_Child())


class Looks:
    """What to know about tables before they are published: one look for each question, and the last ones are kept."""

    def __init__(self) -> None:
        self._worker = ExactWorker(children=1)
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Future[tuple[Concern, ...]]] = OrderedDict()

    def ask(self, key: Hashable, request: PublishRequest) -> Future[tuple[Concern, ...]]:
        """The answer to this question. A look that is going on for another one ends."""
        with self._lock:
            future = self._known.pop(key, None)
            if future is None or (future.done() and (future.cancelled() or future.exception() is not None)):
                future = self._worker.look(request)
            self._known[key] = future
            while len(self._known) > _KEPT_LOOKS:
                self._known.popitem(last=False)
            return future

    def close(self) -> None:
        """End the process."""
        self._worker.close()


class Counting:
    """Counts from releases. Each question has a process of its own, with an allowance; the last one waits for the next.

    Threads may share it. Analyses are the same, one `at_once`: what was learned for one is known for the next.
    """

    def __init__(self, allowance: Allowance, at_once: int = _COUNTS_AT_ONCE) -> None:
        self._allowance, self._at_once = allowance, at_once
        self._lock = threading.RLock()
        self._closed = False
        self._waiting: deque[tuple[_Asked, Future[Counted]]] = deque()
        self._busy: dict[Future[Counted], _Child] = {}
        self._idle: _Child | None = None

    def ask(
        self, question: AboutRelease, progress: Progress | None = None, allowance: Allowance | None = None
    ) -> Future[Counted]:
        """The answer, once there is a process for it: there are few at a time. It may have its own allowance.

        If `progress` raises an error, the process is killed, and the error is the answer.
        """
        future: Future[Counted] = Future()
        with self._lock:
            if self._closed:
                raise Abandoned("the worker is closed")
            self._waiting.append((_Asked(question, allowance or self._allowance, progress or Silent()), future))
            self._go_on()
        return future

    def abandon(self, future: Future[Counted]) -> None:
        """Kill the process of this question, if it is not answered. Others are not disturbed."""
        with self._lock:
            self._waiting = deque(entry for entry in self._waiting if entry[1] is not future)
            child = self._busy.get(future)
            if child is not None:
                child.kill()
        _fail(future, Abandoned("nobody waits for it"))

    def close(self) -> None:
        """Give up everything and end all processes. A second call does nothing."""
        with self._lock:
            self._closed = True
            futures = [*(future for _, future in self._waiting), *self._busy]
            children = [*self._busy.values(), *([self._idle] if self._idle is not None else [])]
            self._idle = None
        for future in futures:
            self.abandon(future)
        for child in children:
            child.kill()
            child.join()

    @property
    def processes(self) -> tuple[int, ...]:
        """The IDs of the processes at work."""
        with self._lock:
            return tuple(child.number for child in self._busy.values())

    def _go_on(self) -> None:
        while self._waiting and len(self._busy) < self._at_once:
            asked, future = self._waiting.popleft()
            child, self._idle = self._idle, None
            if child is None or not child.is_alive():
                child = _Child()
            self._busy[future] = child
            child.ask(asked).add_done_callback(partial(self._answered, child, future))

    def _answered(self, child: _Child, future: Future[Counted], answer: Future[Any]) -> None:
        with self._lock:
            del self._busy[future]
            if self._idle is None and not self._closed and child.is_alive():
                self._idle = child
            else:
                child.kill()
            if not self._closed:
                self._go_on()
        error = answer.exception()
        if error is not None:
            _fail(future, error)
        else:
            with suppress(InvalidStateError):
                future.set_result(answer.result())


@dataclass(frozen=True)
class _Asked:
    """A question, what its answer may take, and who hears how far it is."""

    question: Question
    allowance: Allowance = _UNLIMITED
    progress: Progress = field(default_factory=Silent)


class _Child:
    """A process and the thread that talks to it."""

    def __init__(self) -> None:
        self._process = python_process(_PROGRAM, **_ONE_THREAD)
        self._waiting: SimpleQueue[tuple[_Asked, Future[Any]] | None] = SimpleQueue()
        self._asking, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._talk, name="dalenius-exact", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return not self._ended and self._process.poll() is None

    def ask(self, asked: _Asked) -> Future[Any]:
        future: Future[Any] = Future()
        with self._asking:
            if self._ended:
                _fail(future, _no_answer())
            else:
                self._waiting.put((asked, future))
        return future

    def kill(self) -> None:
        self._process.kill()
        self._waiting.put(None)

    def join(self) -> None:
        self._thread.join(_PATIENCE)

    def _talk(self) -> None:
        """Ask and answer in turn, until the process or the questions end. Questions that are left over then fail."""
        try:
            with suppress(BrokenPipeError):  # of a question to a process that has ended
                self._answer()
        finally:
            with self._asking:
                self._ended = True
            while not self._waiting.empty():
                if (entry := self._waiting.get()) is not None:
                    _fail(entry[1], _no_answer())

    def _answer(self) -> None:
        with self._process as process:
            assert process.stdin is not None  # noqa: S101 (both are pipes)
            assert process.stdout is not None  # noqa: S101
            while (entry := self._waiting.get()) is not None:
                asked, future = entry
                try:
                    pickle.dump(asked.question, process.stdin)
                    process.stdin.flush()
                    watch = Watch(process.pid, asked.allowance)
                    while isinstance(reply := receive(process.stdout.fileno(), watch), Step):
                        reply.tell(asked.progress)
                except Exception as error:  # noqa: BLE001 (half an answer may be anything, and somebody is waiting)
                    with self._asking:  # before anybody hears of it and asks again
                        self._ended = True
                    process.kill()
                    _fail(future, error if isinstance(error, DaleniusError) else _no_answer())
                    break
                if isinstance(reply, DaleniusError):
                    _fail(future, reply)
                elif not isinstance(reply, str):
                    with suppress(InvalidStateError):
                        future.set_result(reply)
                else:
                    _fail(future, SolverError(f"the search failed ({reply})", "This is probably a bug in Dalenius."))
            process.kill()


def _no_answer() -> SolverError:
    return SolverError("the search ended without an answer", "Ask again.")


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)
