"""Texts that people write where something is missing."""

from __future__ import annotations

_TEXTS = """
    ?, ??, -, --, ., n/a, na, n.a., nan, null, nil, missing, unknown, unk, unspecified, undetermined, invalid,
    unknown/invalid, not available, not applicable, not known, not stated, not mapped, not recorded, not in universe,
    no answer, no data, refused, prefer not to say, unbekannt, keine angabe, inconnu, desconocido
"""
MISSING_TEXTS = frozenset(text.strip() for text in _TEXTS.split(","))  # in lower case, without blanks around them


def is_missing_code(text: str) -> bool:
    """Whether a value probably stands for a missing one."""
    return " ".join(text.casefold().split()) in MISSING_TEXTS or not text.strip()
