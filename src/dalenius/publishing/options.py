"""What a publisher may ask for besides the limits: how a release is made and written.

Which strata a publisher asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dalenius.errors import UsageError, nearest_name
from dalenius.release.writer import Format


@dataclass(frozen=True)
class PublishOptions:
    """How a release is made and written. Without a `format`, as the engine usually does it."""

    null_value: str | None = None
    table: str | None = None
    format: Format | None = None
    force: bool = False
    memory: int | None = None
    seed: int | None = None
    avoid_ruled_out: bool = False
    strata: str | int | Sequence[str] | None = "auto"
    engine: str = "duckdb"
    master: str | None = None
    spark_remote: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()


_FIX = "Give auto, none, a number, or names of quasi-identifiers."
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True)
class StrataWish:
    """`auto`, `none`, at most a `number` of them, or one for each combination of the values of some `columns`."""

    kind: Literal["auto", "none", "number", "columns"]
    number: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: str | int | Sequence[str] | None, quasi_identifiers: Sequence[str]) -> StrataWish:
        """From what was asked for; None is `none`, and a text that is neither word nor number is a column."""
        if asked is None:
            return cls("none")
        if isinstance(asked, str):  # a column of such a name has to be given in a list
            word = asked.strip().casefold()
            if word in ("auto", "none"):
                return cls("auto") if word == "auto" else cls("none")
            if _NUMBER.fullmatch(word):
                asked = int(word)
        if isinstance(asked, int) and not isinstance(asked, bool):
            return cls._at_most(asked)
        return cls("columns", columns=_columns(asked, quasi_identifiers))

    @classmethod
    def _at_most(cls, number: int) -> StrataWish:
        if number < 1:
            raise UsageError(f"there cannot be {number} strata", _FIX)
        return cls("number", number) if number > 1 else cls("none")


def _columns(asked: Any, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
    names = [asked] if isinstance(asked, str) else list(asked) if isinstance(asked, list | tuple) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise UsageError(f"strata are not given by a {type(asked).__name__}", _FIX)
    if not any(name.strip() for name in names):
        raise UsageError("no column is named to make strata of", _FIX)
    for name in names:
        if name not in quasi_identifiers:
            close = nearest_name(name, quasi_identifiers)
            raise UsageError(
                f"strata are made of quasi-identifiers, and {name!r} is not one of them",
                f"Did you mean {close!r}?" if close is not None else _FIX,
            )
    return tuple(dict.fromkeys(names))
