"""Did you mean ...? The nearest known name to one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, if one is like it at all."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold().strip(), candidate)
    found = difflib.get_close_matches(name.casefold().strip(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, or lists the known ones."""
    names = list(known)
    close = nearest(name, names)
    if close is not None:
        return f"Did you mean {close!r}?"
    listed = ", ".join(repr(known_name) for known_name in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else ''}." if names else ""
