"""Codes that people write where a value is missing, which otherwise count as values."""

from __future__ import annotations

from collections.abc import Iterator

from dalenius.place.domains import Domain, is_integer_like
from dalenius.publishing.determining import Numbers, count_each

_TEXTS = """
    ?, ??, -, --, ., n/a, na, n.a., nan, null, nil, missing, unknown, unk, unspecified, undetermined, invalid,
    unknown/invalid, not available, not applicable, not known, not stated, not mapped, not recorded, not in universe,
    no answer, no data, refused, prefer not to say, unbekannt, keine angabe, inconnu, desconocido
"""
_KNOWN = frozenset(text.strip() for text in _TEXTS.split(","))
_NUMBERS = frozenset({-1, -9, *(sign * int("9" * length) for length in range(2, 9) for sign in (1, -1))})
_FEWEST_NUMBERS = 4
_ISOLATED = 0.5  # of the range of the others: how far a number is from them, to be a code


def is_missing_code(text: str) -> bool:
    """Whether a value probably stands for a missing one."""
    return " ".join(text.casefold().split()) in _KNOWN or not text.strip()


def missing_codes(domain: Domain, numbers: Numbers) -> tuple[list[str], float]:
    """The codes for missing values that a column of the sample has, and the share of records with one of them."""
    there, counts = count_each(numbers)
    if domain.has_nulls and there[-1] == domain.codes - 1:
        there, counts = there[:-1], counts[:-1]
    if is_integer_like(domain.data_type):
        texts = dict(_isolated(domain, there))
    else:
        values = domain.decode(there).to_pylist()
        texts = {place: one for place, one in enumerate(values) if isinstance(one, str) and is_missing_code(one)}
    return list(texts.values()), sum(int(counts[place]) for place in texts) / len(numbers)


def _isolated(domain: Domain, there: Numbers) -> Iterator[tuple[int, str]]:
    """Numbers such as 999 or -1 at an end of a column, far from all others."""
    if len(there) < _FEWEST_NUMBERS:
        return
    low, second, last, high = domain.decode(there[[0, 1, -2, -1]]).to_pylist()
    if not all(is_number(one) for one in (low, second, last, high)):
        return
    if high in _NUMBERS and high - last > _ISOLATED * (last - low):
        yield len(there) - 1, f"{high:g}"
    if low in _NUMBERS and (low < 0 <= second or second - low > _ISOLATED * (high - second)):
        yield 0, f"{low:g}"


def is_number(text: object) -> bool:
    """Whether a value is a number, or a text that can be read as one."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
