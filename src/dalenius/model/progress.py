"""How work that takes long reports how far it is."""

from __future__ import annotations

from typing import Protocol

LAST_STAGE = "Publishing"  # when it begins, the new files are about to take their place: too late to stop


class Progress(Protocol):
    """Hears about stages as they begin, and about rows (or what a stage counts in) as they are done."""

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        """A stage begins; so many of the unit are to be done, if that is known."""

    def advance(self, number: int) -> None:
        """`number` more are done."""

    def tell(self, sentence: str) -> None:
        """Something to know before the work goes on."""


class Silent:
    """Ignores everything."""

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        """Nothing."""

    def advance(self, number: int) -> None:
        """Nothing."""

    def tell(self, sentence: str) -> None:
        """Nothing."""
