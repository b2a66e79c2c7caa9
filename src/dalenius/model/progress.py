"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol

LAST_STAGE = "Publishing"  # when it begins, what was made is about to take its place: too late to stop


class Progress(Protocol):
    """Told about stages as they begin, and about rows as they are done."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins; `total` rows are to be done, if that is known."""

    def advance(self, rows: int) -> None:
        """So many more rows are done."""

    def tell(self, sentence: str) -> None:
        """Something to know before the work goes on."""


class Silent:
    """Tells nobody."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Nothing."""

    def advance(self, rows: int) -> None:
        """Nothing."""

    def tell(self, sentence: str) -> None:
        """Nothing."""
