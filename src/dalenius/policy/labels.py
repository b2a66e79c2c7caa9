"""The text by which a sensitive value is known, whatever its type: the same that the table engine makes of it."""

from __future__ import annotations

from typing import Any

from dalenius.errors import InputError


def label(value: Any) -> str:
    """A value as text; nulls have none."""
    if value is None or value != value:
        raise InputError("a sensitive value is null", "Give it a name, such as 'unknown'.")
    if "bool" in type(value).__name__:
        return str(value).lower()
    return str(value)
