"""The draft of now, the drafts before it, and those that were undone; and who changed it last.

Every change gives the draft another number. A tab says which number it shows. If another tab has changed the draft
since, its change is refused: nobody overwrites what they have not seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dalenius.studio.draft import Draft
from dalenius.studio.messages import RequestError


class Tab(NamedTuple):
    """Who asks: a tab of the browser, and the number of the draft that it shows."""

    id: str
    shows: int


_MOST_STEPS = 200
_MOST_LIMITS = 500_000  # of single values, in all steps together
_PARTS = ("roles", "limits", "own", "solve", "protection")


class History:
    """The draft, those before it, and those that were undone. Not safe for threads by itself."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.number = draft, 0
        self._saved = draft
        self._past: list[Draft] = []
        self._undone: list[Draft] = []
        self._gesture = ""
        self._author, self._since = "", 0  # the tab that made the last changes, and the number of the first of them

    def is_stale(self, tab: Tab | None) -> bool:
        """Whether somebody else has changed the draft since this tab read it. Without a tab nobody can tell."""
        if tab is None or tab.shows == self.number:
            return False
        return tab.id != self._author or tab.shows < self._since - 1

    def require_fresh(self, tab: Tab | None) -> None:
        """Refuse a tab that shows an older draft."""
        if self.is_stale(tab):
            raise RequestError(
                409, "stale", "another tab has changed the draft", "Take over the newer draft, then change it."
            )

    def change(self, draft: Draft, tab: Tab | None = None, gesture: str = "") -> None:
        """Another draft. Changes of the same gesture are one step."""
        if draft == self.draft:
            return
        self.require_fresh(tab)
        if not gesture or gesture != self._gesture:
            forms = [draft.limits, *(one.limits for one in draft.own.values())]
            kept = 1 + sum(len(one.values) + len(one.groups) + len(one.grouping.ungrouped) for one in forms)
            most = max(2, min(_MOST_STEPS, _MOST_LIMITS // kept))
            self._past = [*self._past, self.draft][-most:]
        self._undone.clear()
        self._move(draft, tab, gesture)

    def step(self, tab: Tab | None, *, back: bool) -> None:
        """Undo the last change, or redo what was undone last. Without any, nothing happens."""
        self.require_fresh(tab)
        source, target = (self._past, self._undone) if back else (self._undone, self._past)
        if source:
            target.append(self.draft)
            self._move(source.pop(), tab)

    def restart(self, draft: Draft, tab: Tab | None = None, *, forget: bool) -> None:
        """The draft for another table, or for other columns. It is no step, and with `forget` there is no way back."""
        if forget:
            self._past, self._undone = [], []
        if forget or draft != self.draft:
            self._move(draft, tab)

    def _move(self, draft: Draft, tab: Tab | None, gesture: str = "") -> None:
        author = tab.id if tab is not None else ""
        self.draft, self._gesture = draft, gesture
        self.number += 1
        if author != self._author or not author:
            self._author, self._since = author, self.number

    def saved(self, draft: Draft) -> None:
        """Somebody has the job file of this draft."""
        self._saved = draft

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it: the number, what can be undone and redone, and whether the job file was saved."""
        return {
            "number": self.number,
            "undo": _changed_part(self.draft, self._past),
            "redo": _changed_part(self.draft, self._undone),
            "saved": self.draft == self._saved,
        }


def _changed_part(draft: Draft, others: list[Draft]) -> str | None:
    """The part of the draft in which it differs from the last of the others."""
    if not others:
        return None
    part = next((part for part in _PARTS if getattr(draft, part) != getattr(others[-1], part)), _PARTS[0])
    return "limits" if part == "own" else part
