"""Numbers in policies are exact: "0.29" is 29/100, never the nearest binary fraction."""

from __future__ import annotations

import numbers
import re
from decimal import Decimal
from fractions import Fraction

from dalenius.errors import PolicyError

Number = str | int | float | Decimal | Fraction

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
_RATIO = re.compile(r"([+-]?\d+)\s*/\s*(\d+)")
_LONGEST = 100


def exact(number: Number, name: str) -> Fraction:
    """A number as an exact fraction: integers, decimals ("0.02") and ratios ("17/100").

    A Python float is read as the decimal that it prints as. `name` says in errors what the number is.
    """
    if "bool" in type(number).__name__ or not isinstance(number, str | Decimal | numbers.Real):
        raise PolicyError(f"{name} must be a number, got one of the type {type(number).__name__}")
    if isinstance(number, numbers.Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    text = str(number).strip()
    if len(text) > _LONGEST:
        raise PolicyError(f"{name} has {len(text)} characters, and at most {_LONGEST} are read")
    ratio = _RATIO.fullmatch(text)
    if ratio and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    raise PolicyError(f"{name} must be a decimal, an integer or a ratio, got {text!r}", 'Write 0.02, 1 or "17/100".')


def exact_limit(number: Number, name: str) -> Fraction:
    """A limit: an exact fraction in (0, 1]."""
    limit = exact(number, name)
    if not 0 < limit <= 1:
        raise PolicyError(
            f"{name} must be above 0 and at most 1, got {shown(limit)}",
            "A limit is the largest probability with which the value may be inferred; 1 means no limit.",
        )
    return limit


def shown(number: Fraction) -> str:
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
