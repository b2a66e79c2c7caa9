"""The last exploration, and the pinned one: what Studio has answered about limits, and to which question."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from dalenius.studio.draft import Draft, Question
from dalenius.studio.table_entries import CountKey

_STANDING = {"optimal": "feasible", "feasible": "feasible", "infeasible": "infeasible"}


@dataclass(frozen=True)
class LastExploration:
    """The last exploration, for some counts and a draft. A complete one is exact and has the other methods."""

    key: CountKey
    question: Question
    complete: bool
    exploration: dict[str, Any]


class Explored:
    """Both of them. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last: LastExploration | None = None
        self._pinned: tuple[CountKey, dict[str, Any]] | None = None

    def remember(self, key: CountKey, draft: Draft, exploration: dict[str, Any], complete: bool) -> None:
        """Keep the exploration of the draft. A quick one does not replace a complete one."""
        with self._lock:
            if complete or self.known(key, draft, complete=True) is None:
                self._last = LastExploration(key, draft.question, complete, exploration)

    def known(self, key: CountKey, draft: Draft, *, complete: bool = False) -> dict[str, Any] | None:
        """The exploration of these counts and this draft, if it was the last one."""
        with self._lock:
            known = self._last
        if known is None or (known.key, known.question) != (key, draft.question) or (complete and not known.complete):
            return None
        return known.exploration

    def standing(self, key: CountKey, draft: Draft) -> str | None:
        """Whether the limits of the draft can be kept, if that is known."""
        exploration = self.known(key, draft)
        return _STANDING.get(exploration["status"]) if exploration is not None else None

    def pin(self, label: str, key: CountKey, draft: Draft, exploration: dict[str, Any]) -> None:
        """Pin limits, to compare others with them."""
        with self._lock:
            self._pinned = (key, {"label": label, "limits": draft.limits.model_dump(), "exploration": exploration})

    def unpin(self) -> None:
        """Unpin."""
        with self._lock:
            self._pinned = None

    def pinned(self, key: CountKey) -> dict[str, Any] | None:
        """The pinned limits, if they are about these counts."""
        with self._lock:
            return self._pinned[1] if self._pinned is not None and self._pinned[0] == key else None
