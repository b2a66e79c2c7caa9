"""Numbers and names as a page shows them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from dalenius.policy.exact import format_fraction

_LONGEST = 200  # characters of a name; the twin has the rest
_DIGITS = 3
_LONGEST_PERCENT = 6
_MOST_DIGITS = 12
_PERCENT_SIGN = re.compile(r"(?<=\d) ?%")
_LIMIT = re.compile(r"(?<=\blimit )(\d+)/(\d+)\b")
NOTHING = "–"  # stands for a missing number
SPACE = "\N{NO-BREAK SPACE}"  # between a number and what belongs to it


def visible(text: str, longest: int = _LONGEST) -> str:
    """A name from the data, with invisible and direction-changing characters escaped, and cut if too long."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if not escaped.strip():
        return f'"{escaped}"'
    return escaped if len(escaped) <= longest else escaped[: longest - 1] + "…"


def kind(arrow_type: str) -> str:
    """The type of a column; Arrow's name for categories is long."""
    return "categories" if arrow_type.startswith("dictionary<") else visible(arrow_type)


def number(count: int | None) -> str:
    """A count."""
    return NOTHING if count is None else f"{count:,}"


def plain(figure: float | None) -> str:
    """A figure that is not a count: three digits, or the whole of its integer part."""
    if figure is None:
        return NOTHING
    return f"{figure:,.0f}" if abs(figure) >= 10 ** (_DIGITS - 1) else f"{figure:.{_DIGITS}g}"


def percent(share: float | Fraction | None, digits: int = _DIGITS) -> str:
    """A share in three digits. Almost all never looks like all."""
    if share is None:
        return NOTHING
    try:
        hundredfold = float(100 * share)
    except OverflowError:
        return NOTHING
    if not math.isfinite(hundredfold):
        return NOTHING
    text = _digits(hundredfold, digits)
    while digits < _MOST_DIGITS and share != 1 and float(text.replace(",", "")) == 100:
        digits += 1
        text = _digits(hundredfold, digits)
    return f"{text}{SPACE}%"


def _digits(hundredfold: float, digits: int) -> str:
    if 0 < abs(hundredfold) < 1e-4:
        return f"{hundredfold:.1e}"
    if abs(hundredfold) >= 10**digits:
        return f"{hundredfold:,.0f}"
    return f"{hundredfold:.{digits}g}"


def tenths(share: float | None) -> str:
    """A share in tenths of a percent, for columns of them; in more digits where tenths look like none or all."""
    if share is None:
        return NOTHING
    text = f"{100 * share:.1f}"
    return percent(share) if float(text) in (0, 100) and share not in (0, 1) else f"{text}{SPACE}%"


def share_of_limit(share: float | None) -> str:
    """The share of a limit that is used, rounded down, so that 100 % means all of it."""
    if share is None or share > 1e9:
        return NOTHING
    tenths = math.floor(1000 * share + 1e-9)  # floating point makes 0.29 slightly less than 290 tenths of a percent
    return f"{(min(tenths, 999) if share < 1 else tenths) / 10:.1f}".removesuffix(".0") + f"{SPACE}%"


def times(ratio: float) -> str:
    """A ratio in words. Almost once never looks like once."""
    digits = 2
    while digits < _MOST_DIGITS and ratio != 1 and float(f"{ratio:.{digits}f}") == 1:
        digits += 1
    return f"{ratio:.{digits}f} times"


def interval(pair: list[float] | None) -> str:
    """A 95 % interval."""
    if pair is None:
        return NOTHING
    low, high = (percent(end).removesuffix(f"{SPACE}%") for end in pair)
    return f"{low} to {high}{SPACE}%"


def chance(ratio: str | Fraction) -> str:
    """A probability in words and in percent: 1 in 50 (2 %)."""
    probability = Fraction(ratio)
    if probability.numerator == 1 and probability != 1:
        return f"1 in {probability.denominator:,} ({fine_percent(probability)})"
    return fine_percent(probability)


def fine_percent(ratio: Fraction) -> str:
    """A limit: exact if a few digits suffice."""
    exactly = format_fraction(100 * ratio)
    if "/" not in exactly and len(exactly) <= _LONGEST_PERCENT and Fraction(exactly) == 100 * ratio:
        return f"{exactly}{SPACE}%"
    return percent(ratio, _DIGITS + 1)


def percentages(text: str) -> str:
    """A message with percentages as the rest of the page has them, also in place of a limit's fraction."""
    text = _LIMIT.sub(lambda found: fine_percent(Fraction(int(found[1]), int(found[2]) or 1)), text)
    return _PERCENT_SIGN.sub(f"{SPACE}%", text)


def part(count: int, of: int) -> str:
    """A count out of another, with the percentage."""
    return f"{count:,} of {of:,} ({percent(Fraction(count, of))})" if of > 0 else f"{count:,} of {of:,}"


def plural(count: int, thing: str, things: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def listed(words: list[str], most: int = 12) -> str:
    """Words in a sentence."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most:,} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def sentence(text: str) -> str:
    """A message from a check or a note as a sentence: a capital first, and a full stop at the end."""
    words = visible(text, 2000).rstrip()
    first = words.split(" ", 1)[0]
    start = words[:1].upper() + words[1:] if first.isalpha() else words  # a file's name stays as it is
    return start + ("" if words.endswith((".", "!", "?", "…")) else ".")
