"""A clock of the test's own: what rests on a time limit must not depend on how busy the machine is."""

from __future__ import annotations


class Clock:
    """In the place of `time.monotonic`. Time passes by looking at the clock, `step` seconds a look, and not otherwise.

    With a step of 0 it stands still, so that no time limit is ever reached.
    """

    def __init__(self) -> None:
        self.step = 0.0
        self._now = 1000.0

    def __call__(self) -> float:
        self._now += self.step
        return self._now
