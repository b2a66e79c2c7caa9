"""Codes that people write where a value is missing, which otherwise count as values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dalenius.infer.determining import Numbers, count_each
from dalenius.model.concern import Concern, Severity, name_some, quoted
from dalenius.model.entries import is_missing_code
from dalenius.place.domains import Domain, is_integer_like
from dalenius.place.survey import Survey
from dalenius.publishing.engine import SampleCodes

_NUMBERS = frozenset({-1, -9, *(sign * int("9" * length) for length in range(2, 9) for sign in (1, -1))})
_FEWEST_NUMBERS = 4
_NAMED, _NAMED_AT_MOST = 3, 50
_ISOLATED = 0.5  # of the range of the others: how far a number is from them, to be a code


def missing_code_concerns(survey: Survey, sample: SampleCodes, about: str = "") -> Iterator[Concern]:
    """Values that probably stand for a missing one, in the sensitive column and in quasi-identifiers.

    `about` is what options begin with where there are several sensitive columns.
    """
    sensitive = survey.sensitive
    named = sensitive.null_code  # what is missing, under its name
    codes = [place for place, text in enumerate(sensitive.texts) if is_missing_code(text) and place != named]
    found = {sensitive.name: ([sensitive.texts[p] for p in codes], sum(sensitive.counts[p] for p in codes))}
    for name, numbers in sample.codes.items():
        domain = survey.domains[name]
        if domain is not None and len(numbers):
            texts, share = _missing_codes(domain, numbers)
            found[name] = texts, round(share * survey.rows)
    found = {name: one for name, one in found.items() if one[0]}
    if not found:
        return
    each = [f"{quoted(name)} ({name_some(texts)})" for name, (texts, _) in found.items()]
    more = f" and {len(each) - _NAMED} more columns" if len(each) > _NAMED else ""
    answer = "Turn them into nulls first if they are no values."
    if codes:
        listed = ",".join(_csv_field(sensitive.texts[place]) for place in codes[:_NAMED_AT_MOST])
        answer = (
            f"If they are no values, say so: --missing '{about}{listed}' counts them as one, which may have a loose "
            f"limit if it tells nothing about anybody: --limit {shlex.quote(f'{about}missing=0.9')}."
        )
        if len(found) > 1:
            answer += (
                f" In {name_some([name for name in found if name != sensitive.name])}, turn them into nulls first."
            )
    yield Concern(
        code="missing-codes",
        severity=Severity.NOTE,
        message=f"what looks like a code for a missing value counts as a value: {', '.join(each[:_NAMED])}{more}",
        answer=answer,
        people=max(people for _, people in found.values()),
        values=tuple(sensitive.texts[place] for place in codes[:_NAMED_AT_MOST]),
        columns=tuple(found),
    )


def _csv_field(text: str) -> str:
    """A code in a list with commas."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text or text != text.strip() else text


def _missing_codes(domain: Domain, numbers: Numbers) -> tuple[list[str], float]:
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
