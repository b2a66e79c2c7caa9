"""Means, sums and quantiles of the sensitive numbers of the people who meet a condition.

`numbers` has the mathematics of bounds and variances. Here they become answers: the mean is estimated as the ratio of
the expected sum to the expected number of records, with the variance of the sum of y = number - mean. Quantile q is
estimated as the smallest x up to which a share q of the records is expected. For its interval, y is 1 - q for each
number up to x, and -q for each above it: where the expected sum of y is not significantly different from 0, there the
quantile may be (Woodruff 1952).

**Learning.** Where numbers are in bands, `learner` says how many records of each band meet the condition on rows, N_x
for band x with their covariances, from all buckets together. Then each number counts N_x / (what was expected of its
band at random) times as much as before. Let t_x be the mean y of band x. The sum of y is t N and a rest, y - t_x for
each number: its variance is t Cov(N) t, and that of the rest at random. So numbers are taken to go with
quasi-identifiers by their band alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.errors import QueryError
from dalenius.infer.candidates import Floats
from dalenius.infer.compositions import UnsupportedError
from dalenius.model.estimate import NORMAL_95, Asked, Figure, Figures, Number, RandomFigure
from dalenius.query.attached_tables import both
from dalenius.query.count import MOST_SEPARATE_GROUPS, Counter, json_value, refuse_more_than
from dalenius.query.numbers import ENDS, End, Numbers, band_sql, by_band
from dalenius.query.release_tables import kind_of_type
from dalenius.release.folder import ReleaseFolder

NO_BANDS = "Means, sums and quantiles are learned by band, and the release has no bands."
_TIE = 1e-9  # relative: by which sums of shares may miss each other
_DIGITS = 15  # of a bound that is no number of the column's own type


Key = str | float  # "mean", "sum", or the level of a quantile


@dataclass(frozen=True)
class Bands:
    """What is learned of the bands of numbers: `sql` is the band of {0}, and how many records of each are expected."""

    sql: str
    names: Sequence[str]
    records: dict[str, float]
    covariance: Floats

    def deviation(self, weights: Mapping[str, float]) -> float:
        """The standard deviation of a weighted sum of the numbers of records."""
        t = np.array([weights.get(name, 0.0) for name in self.names])
        return math.sqrt(max(0.0, float(t @ self.covariance @ t)))


def _bands(counter: Counter, rows: str, learn: bool) -> Bands | str | None:
    """What is learned, or why it is not; None if nobody wants to know."""
    if not learn:
        return None
    if counter.manifest.bands is None:
        return NO_BANDS
    learner, reason = counter.learner()
    if learner is None:
        return reason
    try:
        found = learner.bands(rows)
    except UnsupportedError as unsupported:
        return str(unsupported)
    return Bands(
        band_sql(counter.tables, counter.manifest, "{0}"),
        list(found),
        {name: records for name, (records, _) in found.items()},
        np.array([covariances for _, covariances in found.values()]),
    )


def figures(
    counter: Counter,
    expression: str,
    asked: Asked,
    by: Sequence[str] = (),
    *,
    learn: bool = False,
) -> list[Figures]:
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
        found = _answer(Numbers(tables, parts.rows, parts.values), asked, {}, _bands(counter, parts.rows, learn))
        if found is None:
            raise QueryError(
                f"nobody who meets the condition has a number in {sensitive!r}, so there is no mean and no quantile",
                "Ask about more people; query without these options counts them.",
            )
        return [found]
    groups = tables.groups(columns, MOST_SEPARATE_GROUPS + 1)
    refuse_more_than(MOST_SEPARATE_GROUPS, len(groups))
    answers = []
    for cells, own, _ in groups:
        rows = both(parts.rows, own)
        numbers = Numbers(tables, rows, parts.values)
        answers.append(_answer(numbers, asked, dict(zip(columns, cells, strict=True)), _bands(counter, rows, learn)))
    return [answer for answer in answers if answer is not None]


def figures_once(folder: ReleaseFolder, expression: str, asked: Asked, by: Sequence[str], learn: bool) -> list[Figures]:
    """The same from a release, for a process of its own."""
    with Counter(folder) as counter:
        return figures(counter, expression, asked, by, learn=learn)


def _answer(numbers: Numbers, asked: Asked, group: dict[str, Any], bands: Bands | str | None) -> Figures | None:
    """What is asked; None if nobody has a number. Instead of bands, there may be a reason why they are not learned."""
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
    bounds: dict[Key, tuple[Fraction, Fraction]] = {q: numbers.quantile_bounds(q) for q in asked.quantiles}
    if asked.mean:
        bounds["mean"] = numbers.mean_bounds()
    if asked.sum:
        bounds["sum"] = numbers.sum_bounds()
    open_keys = [key for key, (low, high) in bounds.items() if low < high]
    guesses = _guesses(numbers, open_keys, None)
    learned: dict[Key, RandomFigure] = {}
    if isinstance(bands, Bands) and open_keys:
        numbers.weigh(bands.sql, bands.records)
        if numbers.expected().number > 0:
            learned = _guesses(numbers, open_keys, bands)
    reason = bands if isinstance(bands, str) else None

    def figure(key: Key) -> Figure:
        kind = None if key == "mean" else numbers.kind
        if key not in guesses:
            return _exact(float(bounds[key][0]) if kind is None else kind.shown(bounds[key][0]), records)
        own = isinstance(key, float) or (kind is not None and not kind.floating)
        low, high = bounds[key]
        ends: tuple[Number, Number] = outwards(low, "low"), outwards(high, "high")
        if own and kind is not None:
            ends = kind.shown(low), kind.shown(high)
        beside = _cut(guesses[key], ends)
        first = _cut(learned[key], ends) if learned else beside
        return Figure(
            first.estimate,
            ends,
            first.interval,
            first.standard_error,
            False,
            records,
            beside if learned else None,
            reason,
        )

    return Figures(
        records,
        figure("mean") if asked.mean else None,
        figure("sum") if asked.sum else None,
        {q: figure(q) for q in asked.quantiles},
        group,
    )


def _guesses(numbers: Numbers, keys: Sequence[Key], bands: Bands | None) -> dict[Key, RandomFigure]:
    """Estimates of figures, as the shares of numbers are now; with the uncertainty of bands, if they are given."""
    expected = numbers.expected()
    number, mean = expected.number, expected.total / expected.number
    least = {q: (q - _TIE) * number for q in keys if isinstance(q, float)}
    middles = numbers.reaching(least)
    y: dict[Key, str] = {"mean": f"CAST({{0}} AS DOUBLE) - CAST('{mean!r}' AS DOUBLE)", "sum": "CAST({0} AS DOUBLE)"}
    for q, x in middles.items():
        y[q] = f"CASE WHEN {{0}} <= {numbers.kind.literal(x)} THEN {1 - q!r} ELSE {-q!r} END"
    errors = dict(zip(keys, _errors(numbers, [y[key] for key in keys], bands), strict=True))
    firsts = numbers.reaching({q: least[q] - NORMAL_95 * errors[q] for q in middles})
    lasts = numbers.reaching({q: least[q] + NORMAL_95 * errors[q] for q in middles})
    found: dict[Key, RandomFigure] = {q: RandomFigure(middles[q], (firsts[q], lasts[q]), None) for q in middles}
    for key, centre, by in (("mean", mean, number), ("sum", expected.total, 1.0)):
        if key in errors:
            reach = NORMAL_95 * errors[key] / by
            found[key] = RandomFigure(centre, (centre - reach, centre + reach), reach / NORMAL_95)
    return found


def _errors(numbers: Numbers, y: Sequence[str], bands: Bands | None) -> list[float]:
    """Standard errors of sums of y. With bands, y is t of the band and a rest: t Cov t, and the rest is at random."""
    if bands is None or not y:
        return numbers.deviations([one.format("s") for one in y])
    sums = numbers.by_band(bands.sql.format("v"), [one.format("v") for one in y])
    weights = [
        {name: cells[i] / bands.records[name] for name, cells in sums.items() if bands.records[name] > 0}
        for i in range(len(y))
    ]
    rest = numbers.deviations(
        [one.format("s") for one in y], [by_band(bands.sql.format("s"), weight) for weight in weights]
    )
    return [math.hypot(own, bands.deviation(weight)) for own, weight in zip(rest, weights, strict=True)]


def _cut(guess: RandomFigure, bounds: tuple[Number, Number]) -> RandomFigure:
    """An estimate and its interval within the bounds; of means and sums so many digits as do not depend on threads."""
    if guess.standard_error is None:
        estimate, first, last = (min(max(x, bounds[0]), bounds[1]) for x in (guess.estimate, *guess.interval))
        return RandomFigure(estimate, (first, last), None)
    low, high = map(float, bounds)
    estimate, first, last = (min(max(float(f"{x:.12g}"), low), high) for x in (guess.estimate, *guess.interval))
    return RandomFigure(estimate, (first, last), float(f"{guess.standard_error:.12g}"))


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
        "mean": _figure_object(answer.mean) if answer.mean is not None else None,
        "sum": _figure_object(answer.sum) if answer.sum is not None else None,
        "quantiles": [{"quantile": level, **_figure_object(figure)} for level, figure in answer.quantiles.items()],
    } | ({"group": {name: json_value(cell) for name, cell in answer.group.items()}} if answer.group else {})


def _figure_object(figure: Figure) -> dict[str, Any]:
    return {
        "method": figure.method,
        **_estimated(figure),
        "bounds": [_plain(x, end) for x, end in zip(figure.bounds, ENDS, strict=True)],
        "exact": figure.exact,
        "at_random": _estimated(figure.at_random) if figure.at_random is not None else None,
        "note": figure.not_learned,
    }


def _estimated(figure: Figure | RandomFigure) -> dict[str, Any]:
    return {
        "estimate": _plain(figure.estimate, "low"),
        "standard_error": figure.standard_error,
        "interval": [_plain(x, end) for x, end in zip(figure.interval, ENDS, strict=True)],
    }


def _plain(number: Number, end: End) -> int | float:
    return outwards(number, end) if isinstance(number, Decimal) else number
