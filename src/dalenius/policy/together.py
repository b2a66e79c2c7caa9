"""Sensitive columns that are kept together: what people write, and what cannot be.

Each sensitive column has a table of its own, and what goes with what is not published. Of columns that are kept
together it is: a table has the values that are in one row as a tuple. So a column of a tuple is a sensitive set of one
column, since a row has one value of it, and no column is in two tuples, since whoever knows one of them would get on
from there to the other.

Columns are in the order in which they are sensitive, and so are the tuples, by their first columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dalenius.errors import UsageError, nearest_name

if TYPE_CHECKING:
    from dalenius.policy.roles import SensitiveSet

Together = Sequence[str] | Sequence[Sequence[str]]

_EXAMPLE = "Name sensitive columns: --keep-together diag_1,insulin (in a job file: [['diag_1', 'insulin']])."


def read_together(given: Together) -> tuple[tuple[str, ...], ...]:
    """The columns that a Python caller wants kept together: one list of names, or several lists."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise UsageError(f"columns to keep together must be a list of names, got {type(given).__name__}", _EXAMPLE)
    if given and all(isinstance(name, str) for name in given):
        return (tuple(str(name) for name in given),)
    listed = []
    for names in given:
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise UsageError("columns to keep together must be lists of names", _EXAMPLE)
        if not all(isinstance(name, str) for name in names):
            raise UsageError("names of columns must be text", _EXAMPLE)
        listed.append(tuple(names))
    return tuple(listed)


def in_order(together: Sequence[Sequence[str]], sets: Sequence[SensitiveSet]) -> tuple[tuple[str, ...], ...]:
    """The same with columns and tuples in their one order, checked."""
    names = [one.name for one in sets]
    for columns in together:
        _check_columns(columns, sets, names)
    every = [name for columns in together for name in columns]
    twice = next((name for name in every if every.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"the column {twice!r} is kept together with two lists of columns",
            "Name all of them in one list: whoever knows one of its values gets on to those of the other list anyway.",
        )
    tuples = (tuple(sorted(columns, key=names.index)) for columns in together)
    return tuple(sorted(tuples, key=lambda columns: names.index(columns[0])))


def places_of(together: Sequence[Sequence[str]], sets: Sequence[SensitiveSet]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the sensitive sets of each tuple."""
    names = [one.name for one in sets]
    return tuple(tuple(names.index(name) for name in columns) for columns in together)


def _check_columns(columns: Sequence[str], sets: Sequence[SensitiveSet], names: Sequence[str]) -> None:
    if len(sets) < 2:
        raise UsageError(
            "columns are to be kept together, and fewer than two are sensitive",
            f"Name each of them with --sensitive, or leave --keep-together out. {_EXAMPLE}",
        )
    for name in columns:
        _check_column(name, sets, names)
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the column {twice!r} is to be kept together with itself", "Name each column once.")
    if len(columns) < 2:
        what = (
            f"{columns[0]!r} is to be kept together with nothing" if columns else "no columns are to be kept together"
        )
        raise UsageError(what, f"Name two columns or more. {_EXAMPLE}")


def _check_column(name: str, sets: Sequence[SensitiveSet], names: Sequence[str]) -> None:
    own = next((one for one in sets if name == one.name or name in one.columns), None)
    if own is not None and len(own.columns) > 1:
        raise UsageError(
            f"{name!r} cannot be kept together with others: the sensitive set {own.name!r} has {len(own.columns)} "
            "columns, so a row has several values of it, and a tuple has one",
            "Make each of its columns sensitive by itself, or leave it out of --keep-together.",
        )
    if own is None:
        close = nearest_name(name, names)
        raise UsageError(
            f"{name!r} is to be kept together with others, and is not a sensitive column",
            f"Did you mean {close!r}?" if close is not None else f"Name it with --sensitive. {_EXAMPLE}",
        )
