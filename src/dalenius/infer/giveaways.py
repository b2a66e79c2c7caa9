"""What a table gives away whatever the limits are: columns that say the sensitive value.

`determining` measures; here it is put into concerns. Publishing asks before anything is written, and an audit that has
the table asks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from dalenius.infer.determining import (
    Determination,
    Integers,
    Numbers,
    Pairs,
    determination,
    together,
    value_leaks,
)
from dalenius.model.concern import Concern, Severity, name_some, percent, quoted

_STOP, _LOOK = 0.8, 0.4  # strengths of a determination
_LEAST_COVERED = 0.05  # of the people, to speak of all quasi-identifiers together
_COARSER = "Make such columns coarser, or leave them out of the quasi-identifiers"
_NAMED = 3
_LISTED = 50


class SensitiveColumn(Protocol):
    """The sensitive column of a table: its values, and how many records have each."""

    @property
    def name(self) -> str:
        """Of the column."""

    @property
    def texts(self) -> Sequence[str]:
        """Of the values, by their codes."""

    @property
    def counts(self) -> Sequence[int]:
        """Records with each value."""


def determining_concerns(
    sensitive: SensitiveColumn, columns: Mapping[str, Integers], values: Numbers, strata_columns: Sequence[str] = ()
) -> Iterator[Concern]:
    """Columns that determine the sensitive value, alone or together, give single values away, or rule them out.

    `columns` and `values` are codes of the records of a sample. Strata by a column answer what it rules out.
    """
    if not columns or len(values) < 2:
        return
    pairs = {name: Pairs.of(codes, values) for name, codes in columns.items()}
    found = {name: determination(codes, values, pairs[name]) for name, codes in columns.items()}
    strong = {name: one for name, one in found.items() if one.strength >= _LOOK and one.covered >= _LEAST_COVERED}
    for severity, says in ((Severity.STOP, True), (Severity.LOOK, False)):
        some = {name: one for name, one in strong.items() if (one.strength >= _STOP) is says}
        if some:
            yield _columns_concern(sensitive, some, severity)
    all_together = determination(together(list(columns.values())), values) if len(columns) > 1 else None
    best = max(one.strength for one in found.values())
    if all_together is not None and all_together.covered >= _LEAST_COVERED and all_together.strength >= _LOOK:
        stop = all_together.strength >= _STOP
        if best < (_STOP if stop else _LOOK):  # otherwise a single column says as much
            yield _together_concern(sensitive, tuple(columns), all_together, stop)
    yield from _leaks(sensitive, {name: one for name, one in pairs.items() if name not in strong}, strata_columns)


def _columns_concern(sensitive: SensitiveColumn, found: dict[str, Determination], severity: Severity) -> Concern:
    """Columns that determine the value, each by itself."""
    ordered = sorted(found, key=lambda name: -found[name].strength)
    first = found[ordered[0]]
    verb = "determine" if severity is Severity.STOP else "nearly determine"
    if len(ordered) == 1:
        message = (
            f"{quoted(ordered[0])} {verb}s {quoted(sensitive.name)}: whoever knows it guesses "
            f"{percent(first.right)} of the people right, and {percent(first.without)} without it"
        )
    else:
        each = ", ".join(f"{quoted(name)} ({percent(found[name].right)} guessed right)" for name in ordered[:_NAMED])
        more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
        message = (
            f"{len(ordered)} quasi-identifiers {verb} {quoted(sensitive.name)}, each by itself: {each}{more}; "
            f"{percent(first.without)} without them"
        )
    named = "it" if len(ordered) == 1 else "them"
    return Concern(
        code="determining-column",
        severity=severity,
        message=message,
        answer=f"Leave {named} out of the quasi-identifiers (--quasi-identifiers), or make {named} coarser first.",
        people=round(max(one.right * one.covered for one in found.values()) * _rows(sensitive)),
        columns=tuple(ordered),
    )


def _together_concern(sensitive: SensitiveColumn, names: tuple[str, ...], found: Determination, stop: bool) -> Concern:
    return Concern(
        code="determining-column",
        severity=Severity.STOP if stop else Severity.LOOK,
        message=(
            f"all quasi-identifiers together {'determine' if stop else 'nearly determine'} "
            f"{quoted(sensitive.name)}: of people who share theirs with others, {percent(found.right)} are "
            f"guessed right, and {percent(found.without)} without them"
        ),
        answer="Publish fewer quasi-identifiers (--quasi-identifiers), or make some of them coarser first.",
        people=round(found.right * found.covered * _rows(sensitive)),
        columns=names,
    )


def _leaks(sensitive: SensitiveColumn, pairs: dict[str, Pairs], strata_columns: Sequence[str]) -> Iterator[Concern]:
    """Columns that give single values away, and columns that rule single values out."""
    leaks = {name: value_leaks(one) for name, one in pairs.items()}
    of_it = quoted(sensitive.name)
    giving = {name: one for name, one in leaks.items() if len(one.given_away)}
    if giving:
        names = sorted(giving, key=lambda name: -giving[name].share)
        values = _texts(sensitive, [giving[name].given_away for name in names])
        yield Concern(
            code="determining-column",
            severity=Severity.LOOK,
            message=(
                f"{name_some(names)} {'gives' if len(names) == 1 else 'give'} values of {of_it} away: nearly "
                f"everybody with certain entries has {name_some(values, 'or')}"
            ),
            answer=f"{_COARSER} (--quasi-identifiers).",
            people=round(max(one.share for one in giving.values()) * _rows(sensitive)),
            values=tuple(values[:_LISTED]),
            columns=tuple(names),
        )
    ruling = {name: one for name, one in leaks.items() if len(one.ruled_out) and name not in strata_columns}
    if ruling:
        names = sorted(ruling, key=lambda name: -len(ruling[name].ruled_out))
        values = _texts(sensitive, [ruling[name].ruled_out for name in names])
        excluded = min(one.excluded for one in ruling.values())
        yield Concern(
            code="determining-column",
            severity=Severity.LOOK,
            message=(
                f"{name_some(names)} {'rules' if len(names) == 1 else 'rule'} values of {of_it} out: with entries "
                f"that {percent(excluded)} of the people have, hardly anybody has {name_some(values, 'or')}, so it is "
                "somebody else of their bucket"
            ),
            answer=f"Cut strata by such a column (--strata {names[0]}). Or: {_COARSER[0].lower()}{_COARSER[1:]}.",
            people=sum(count for text, count in _counts(sensitive) if text in set(values)),
            values=tuple(values[:_LISTED]),
            columns=tuple(names),
        )


def _texts(sensitive: SensitiveColumn, places: Sequence[Integers]) -> list[str]:
    """Sensitive values by name, the most frequent first."""
    counts, texts = sensitive.counts, sensitive.texts
    return [texts[place] for place in sorted(set(np.concatenate(places).tolist()), key=lambda one: -counts[one])]


def _counts(sensitive: SensitiveColumn) -> Iterator[tuple[str, int]]:
    return zip(sensitive.texts, sensitive.counts, strict=True)


def _rows(sensitive: SensitiveColumn) -> int:
    return sum(sensitive.counts)
