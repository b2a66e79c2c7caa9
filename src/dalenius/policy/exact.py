"""Numbers and names as policies write them: exact numbers, limits, and lists of values in a message.

Numbers in policies are exact: "0.29" is 29/100, never the nearest binary fraction.
"""

from __future__ import annotations

import numbers
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dalenius.errors import InputError, PolicyError
from dalenius.model.problem import ValueCounts

Number = str | int | float | Decimal | Fraction

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
_RATIO = re.compile(r"([+-]?\d+)\s*/\s*(\d+)")
_LONGEST = 100
MOST_LISTED = 10


def exact_fraction(number: Number, name: str) -> Fraction:
    """A number as an exact fraction: integers, decimals ("0.02") and ratios ("17/100").

    A Python float is read as the decimal that it prints as. `name` says in errors what the number is.
    """
    if "bool" in type(number).__name__ or not isinstance(number, str | Decimal | numbers.Real):
        raise PolicyError(f"{name} must be a number, got the type {type(number).__name__}")
    if isinstance(number, numbers.Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    text = str(number).strip()
    if len(text) > _LONGEST:
        raise PolicyError(f"{name} is {len(text)} characters long, and at most {_LONGEST} are allowed")
    ratio = _RATIO.fullmatch(text)
    if ratio and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    raise PolicyError(f"{name} must be a decimal, an integer or a ratio, got {text!r}", 'Write 0.02, 1 or "17/100".')


def written_number(value: object) -> object:
    """A number of a job file as it is written, for `exact_fraction` to read; refuse anything else."""
    real = isinstance(value, str | int | Decimal) and not isinstance(value, bool)
    if not real or (isinstance(value, Decimal) and not value.is_finite()):
        raise ValueError("expected a number: 8, 0.02 or a quoted ratio such as '17/100'")
    return value


def written_numbers(value: object) -> object:
    """The same of numbers in lists. Whether lists make sense is checked with the groups."""
    if isinstance(value, list):
        for entry in value:
            written_numbers(entry)
    elif value is not None:
        written_number(value)
    return value


def exact_limit(number: Number, name: str) -> Fraction:
    """A limit: an exact fraction in (0, 1]."""
    limit = exact_fraction(number, name)
    if not 0 < limit <= 1:
        raise PolicyError(
            f"{name} must be above 0 and at most 1, got {format_fraction(limit)}",
            "A limit is the largest probability with which the value may be inferred; 1 means no limit.",
        )
    return limit


def format_fraction(number: Fraction) -> str:
    """A fraction for people to read: as a decimal where that is exact and short, else as a ratio."""
    reduced = number.denominator
    for prime in (2, 5):
        while reduced % prime == 0:
            reduced //= prime
    if reduced == 1 and number.denominator <= 10**8:
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    ratio = f"{number.numerator}/{number.denominator}"
    if number.denominator <= 1000 or Fraction(f"{float(number):.6g}") == round(float(number)):
        return ratio
    return f"{float(number):.6g}"


def not_negative(number: Number, name: str) -> Fraction:
    """An exact number of at least 0."""
    value = exact_fraction(number, name)
    if value < 0:
        raise PolicyError(f"{name} must not be negative, got {format_fraction(value)}")
    return value


def label(value: object) -> str:
    """The text of a value; nulls have none."""
    if value is None or value != value:
        raise InputError("a sensitive value is null", "Give it a name, such as 'unknown'.")
    if "bool" in type(value).__name__:
        return str(value).lower()
    return str(value)


def quote_names(values: Sequence[str]) -> str:
    """The values in quotes: the first ten, and how many more there are."""
    listed = ", ".join(repr(value) for value in values[:MOST_LISTED])
    return listed + (f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else "")


def look_alikes(counts: ValueCounts) -> list[str]:
    """Notes on values that differ only in case, blanks or character encoding: perhaps one value written in two ways."""
    groups: dict[str, list[str]] = {}
    for value in counts.values:
        folded = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
        groups.setdefault(folded, []).append(value)
    return [
        f"{quote_names(alike)} differ only in case or blanks, and count as different values"
        for alike in groups.values()
        if len(alike) > 1
    ]
