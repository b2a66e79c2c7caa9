"""Work on all cores, with results in order and bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

_AHEAD = 3  # batches or pieces in the works at a time

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], workers: Executor, ahead: int = _AHEAD
) -> Iterator[Result]:
    """The results of `work` in the order of the items, with a few under way at any time and no more."""
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(workers.submit(work, item))
            if len(under_way) >= ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()
