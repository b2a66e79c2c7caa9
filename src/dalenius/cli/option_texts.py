"""How the texts of options are read: lists of names, what comes first, and which sensitive set they are about."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

from dalenius.errors import UsageError

_NAMED_LIST = re.compile(r'\s*("(?:[^"]|"")+"|[^"=]+?)\s*=(.*)', re.DOTALL)


def column_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Column names from comma-separated lists; double quotes as in CSV."""
    names: list[str] = []
    for text in texts:
        try:
            fields = next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error:
            raise UsageError(f"the list of columns {text!r} has a quote out of place", 'Write "A, B",C.') from None
        names += [name for name in fields if name]
    return tuple(names)


def first_given(*candidates: Any) -> Any:
    """The first that is not None."""
    return next((candidate for candidate in candidates if candidate is not None), None)


def named_columns(text: str) -> tuple[str | None, tuple[str, ...]]:
    """A column by its name, or NAME=A,B for several under one name. In double quotes, a name may have = in it."""
    match = _NAMED_LIST.fullmatch(text)
    if match is not None:
        return column_names((match[1],))[0], column_names((match[2],))
    return None, column_names((text,)) if text.startswith('"') else (text,)


def about_set(text: str, names: Sequence[str]) -> tuple[str | None, str]:
    """The sensitive set that the text of an option begins with, as in diag_1:HIV=0.02, and the rest; or no set."""
    found = max((name for name in names if text.startswith(f"{name}:")), key=len, default=None)
    return found, text if found is None else text[len(found) + 1 :]


def only_one(option: str, texts: Sequence[str]) -> str | None:
    """The text of an option that may be given once."""
    if len(texts) > 1:
        raise UsageError(f"{option} is given {len(texts)} times, for one sensitive column", "Keep one of them.")
    return texts[0] if texts else None
