"""Means, sums and quantiles of the sensitive numbers of the people who meet a condition.

`numbers` has the mathematics of bounds and variances. Here they become answers: the mean is estimated as the ratio of
the expected sum to the expected number of records, with the variance of the sum of (number - mean). Quantile q is
estimated as the smallest x up to which a share q of the records is expected. For its interval, each number up to x
counts 1 - q, and each above it -q: where the expected sum of that is not significantly different from 0, there the
quantile may be (Woodruff 1952).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from dalenius.errors import QueryError
from dalenius.model.estimate import NORMAL_95, Asked, Figure, Figures, Number
from dalenius.query.count import MOST_SEPARATE_GROUPS, Counter, json_value, refuse_more_than
from dalenius.query.numbers import ENDS, End, Numbers
from dalenius.query.release_tables import both, kind_of_type
from dalenius.release.folder import ReleaseFolder

_TIE = 1e-9  # relative: by which sums of shares may miss each other
_DIGITS = 15  # of a bound that is no number of the column's own type


def figures(counter: Counter, expression: str, asked: Asked, by: Sequence[str] = ()) -> list[Figures]:
    """What is asked of the people who meet a SQL condition: one answer, or one for every group that has such people."""
    tables, sensitive = counter.tables, counter.manifest.columns.sensitive.name
    if kind_of_type(tables.types["s"]) != "number":
        raise QueryError(
            f"the sensitive column {sensitive!r} has no numbers, so it has no mean, sum or quantiles",
            "Ask for counts: leave --mean, --sum, --median and --quantile out.",
        )
    columns = [tables.column(name) for name in by]
    if sensitive in columns:
        raise QueryError(
            f"means, sums and quantiles of {sensitive!r} cannot be grouped by {sensitive!r}",
            "Group by quasi-identifiers, and put a range of it into the condition.",
        )
    if len(set(columns)) < len(columns):
        raise QueryError("a column to group by is named twice", "Name it once.")
    parts = counter.parts(expression)
    if parts.mixed is not None:
        raise QueryError(
            f"the condition ties quasi-identifiers to {sensitive!r}: only counts can be had of that",
            f"Join conditions on either side by AND, each of which names {sensitive!r} alone or not at all.",
        )
    if not columns:
        found = _answer(Numbers(tables, parts.rows, parts.values), asked, {})
        if found is None:
            raise QueryError(
                f"nobody who meets the condition has a number in {sensitive!r}, so there is no mean and no quantile",
                "Ask about more people; query without these options counts them.",
            )
        return [found]
    groups = tables.groups(columns, MOST_SEPARATE_GROUPS + 1)
    refuse_more_than(MOST_SEPARATE_GROUPS, len(groups))
    answers = (
        _answer(Numbers(tables, both(parts.rows, own), parts.values), asked, dict(zip(columns, cells, strict=True)))
        for cells, own, _ in groups
    )
    return [answer for answer in answers if answer is not None]


def figures_once(folder: ReleaseFolder, expression: str, asked: Asked, by: Sequence[str]) -> list[Figures]:
    """The same from a release, for a process of its own."""
    with Counter(folder) as counter:
        return figures(counter, expression, asked, by)


def _answer(numbers: Numbers, asked: Asked, group: dict[str, Any]) -> Figures | None:
    """What is asked; None if nobody has a number."""
    expected = numbers.expected()
    records = expected.records
    if not records[1]:
        nothing = not (asked.mean or asked.quantiles or group)
        return Figures(records, None, _exact(0, records), {}, group) if nothing else None
    if not expected.finite:
        raise QueryError(
            "some of the numbers are infinite, or not a number",
            "Leave them out: AND isfinite(...), with the name of the sensitive column.",
        )
    number, mean = expected.number, expected.total / expected.number
    least = {q: (q - _TIE) * number for q in asked.quantiles}
    guesses = numbers.reaching(least)
    y: dict[str | float, str] = {
        q: f"CASE WHEN s <= {numbers.kind.literal(x)} THEN {1 - q!r} ELSE {-q!r} END" for q, x in guesses.items()
    }
    if asked.mean:
        y["mean"] = f"CAST(s AS DOUBLE) - CAST('{mean!r}' AS DOUBLE)"
    if asked.sum:
        y["sum"] = "s"
    errors = dict(zip(y, numbers.deviations(list(y.values())), strict=True))
    firsts = numbers.reaching({q: least[q] - NORMAL_95 * errors[q] for q in guesses})
    lasts = numbers.reaching({q: least[q] + NORMAL_95 * errors[q] for q in guesses})
    return Figures(
        records,
        _figure(mean, errors["mean"] / number, numbers.mean_bounds(), records) if asked.mean else None,
        _figure(expected.total, errors["sum"], numbers.sum_bounds(), records, numbers) if asked.sum else None,
        {
            q: _quantile(guess, (firsts[q], lasts[q]), numbers.quantile_bounds(q), records)
            for q, guess in guesses.items()
        },
        group,
    )


def _figure(
    centre: float,
    error: float,
    bounds: tuple[Fraction, Fraction],
    records: tuple[int, int],
    numbers: Numbers | None = None,
) -> Figure:
    """A mean or, if the numbers are given, a sum: the latter has bounds of their type, unless they are floats."""
    low, high = bounds
    if low == high:
        return _exact(float(low) if numbers is None else numbers.kind.shown(low), records)
    ends = outwards(low, "low"), outwards(high, "high")
    reach = NORMAL_95 * error
    estimate, first, last = (
        min(max(float(f"{x:.12g}"), ends[0]), ends[1]) for x in (centre, centre - reach, centre + reach)
    )
    exactly = ends if numbers is None or numbers.kind.floating else (numbers.kind.shown(low), numbers.kind.shown(high))
    return Figure(estimate, exactly, (first, last), float(f"{error:.12g}"), False, records)


def _quantile(
    guess: Number, interval: tuple[Number, Number], bounds: tuple[Number, Number], records: tuple[int, int]
) -> Figure:
    low, high = bounds
    if low == high:
        return _exact(low, records)
    estimate, first, last = (min(max(x, low), high) for x in (guess, *interval))
    return Figure(estimate, bounds, (first, last), None, False, records)


def _exact(number: Number, records: tuple[int, int]) -> Figure:
    return Figure(number, (number, number), (number, number), 0.0, True, records)


def outwards(number: Fraction | Decimal, end: End) -> float:
    """A bound in as many digits as a float keeps in print: rounded down at the low end, and up at the high end."""
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR if end == "low" else ROUND_CEILING)
    exact = Fraction(number)
    return float(context.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def figures_object(answer: Figures) -> dict[str, Any]:
    """The answer as one JSON object. The keys are a contract (docs/json.md)."""
    return {
        "format": 1,
        "records": list(answer.records),
        "mean": _figure_object(answer.mean),
        "sum": _figure_object(answer.sum),
        "quantiles": [
            {"quantile": level, **(_figure_object(figure) or {})} for level, figure in answer.quantiles.items()
        ],
    } | ({"group": {name: json_value(cell) for name, cell in answer.group.items()}} if answer.group else {})


def _figure_object(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {
        "method": figure.method,
        "estimate": _plain(figure.estimate, "low"),
        "standard_error": figure.standard_error,
        "interval": [_plain(x, end) for x, end in zip(figure.interval, ENDS, strict=True)],
        "bounds": [_plain(x, end) for x, end in zip(figure.bounds, ENDS, strict=True)],
        "exact": figure.exact,
    }


def _plain(number: Number, end: End) -> int | float:
    return outwards(number, end) if isinstance(number, Decimal) else number
