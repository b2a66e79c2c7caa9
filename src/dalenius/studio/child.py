"""The other end of `worker`: a process that answers one question after the other until its input ends."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from dalenius.model.concern import Concern
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.exploration import Exploration, TradeOffPoint
from dalenius.studio.explorer import Explorer

if TYPE_CHECKING:  # importing publishing takes time, which exact answers do not have
    from dalenius.publishing.arrangement import StrataPrice
    from dalenius.publishing.options import PublishRequest


@dataclass(frozen=True)
class Look:
    """A request to publish, whose table is to be looked at."""

    request: PublishRequest


# Counts, limits and options for an exact answer; counts, the floor and options for the trade-off of the rule by odds; a
# request to publish for the price of its strata, or to look at its table.
Question: TypeAlias = "tuple[ValueCounts, LimitPolicy | Fraction, PlanOptions] | PublishRequest | Look"
Reply: TypeAlias = "Exploration | tuple[TradeOffPoint, ...] | StrataPrice | tuple[Concern, ...] | str"  # or an error


def serve() -> None:
    """Answer questions from standard input, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (what a library prints is not an answer)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    questions: SimpleQueue[Question] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    try:
        _answer(questions, answers)
    finally:
        os._exit(1)  # nothing is left to do, and Python would wait for the other thread


def _answer(questions: SimpleQueue[Question], answers: BinaryIO) -> None:
    explorer: Explorer | None = None
    known: ValueCounts | None = None
    while True:
        question = questions.get()
        reply: Reply
        try:
            if isinstance(question, Look):
                from dalenius.publishing.flow import inspect_table

                reply = inspect_table(question.request)
            elif not isinstance(question, tuple):
                from dalenius.publishing.flow import price_strata

                reply = price_strata(question)
            else:
                counts, asked, options = question
                if explorer is None or counts != known:
                    explorer, known = Explorer(counts), counts
                if isinstance(asked, LimitPolicy):
                    reply = explorer.explore(asked, options, exact=True)
                else:
                    reply = explorer.trade_off(asked, options)
        except Exception as error:  # noqa: BLE001 (whatever it is, somebody is waiting)
            reply = type(error).__name__
        pickle.dump(reply, answers)
        answers.flush()


def _listen(stream: BinaryIO, questions: SimpleQueue[Question]) -> None:
    """Pass on questions. When the input ends, the parent is gone: end too."""
    try:
        while True:
            questions.put(pickle.load(stream))  # noqa: S301 (from the parent process)
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)
