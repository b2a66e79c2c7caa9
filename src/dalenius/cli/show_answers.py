"""Answers of dalenius query for people: counts, means, sums and quantiles, then what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

import click

from dalenius.cli.text_table import TextTable, printable, show_pairs
from dalenius.model.estimate import (
    AT_RANDOM,
    FIGURES_AT_RANDOM,
    FIGURES_LEARNED,
    LEARNED,
    MEASURED,
    NOT_MEASURED,
    PEOPLE_AT_RANDOM,
    Coverage,
    Estimate,
    Figure,
    Figures,
    GroupEstimate,
    Number,
    RandomMatching,
)

_LONGEST_QUERY = 60  # characters of a query that are printed
_DIGITS = 6  # of a number that is not whole
_LOOSE = "Note: the condition has too many patterns to try them all; the bounds hold, but tighter ones may exist."
_LOOSE_PEOPLE = (
    "Note: who has several of the values is not known, and not all ways were tried; the bounds hold, but tighter ones "
    "may exist."
)
_PERHAPS_NOBODY = "Note: perhaps nobody has such a number. The bounds of means and quantiles hold if anybody has."

Answer = Estimate | list[GroupEstimate]


def show_answers(queries: Sequence[str] | None, answers: Sequence[Answer | list[Figures]]) -> None:
    """Print answers, then once what they rest on."""
    estimates: list[Estimate] = []
    figures: list[Figures] = []
    for i, answer in enumerate(answers):
        if queries is not None:
            click.echo(("\n" if i else "") + printable(queries[i], _LONGEST_QUERY))
        if isinstance(answer, Estimate):
            _show_estimate(answer)
            estimates.append(answer)
            continue
        counts = [one for one in answer if isinstance(one, GroupEstimate)]
        others = [one for one in answer if isinstance(one, Figures)]
        if others:
            _show_figures(others)
        else:
            _show_groups(counts)
        estimates += [one.estimate for one in counts]
        figures += others
    for sentence in (*_reservations(estimates), *_figure_reservations(figures)):
        click.echo(f"\n{sentence}")


def _reservations(estimates: Sequence[Estimate]) -> Iterator[str]:
    """What to keep in mind about these estimates."""
    loose = [estimate for estimate in estimates if not estimate.tight]
    if any(estimate.unit is None for estimate in loose):
        yield _LOOSE
    if any(estimate.unit is not None for estimate in loose):
        yield _LOOSE_PEOPLE
    if dropped := max((estimate.dropped for estimate in estimates), default=0):
        yield f"Note: {dropped:,} rows of people with many were not published. What only they have is not counted."
    uncertain = [estimate for estimate in estimates if not estimate.exact]
    for reason in dict.fromkeys(estimate.not_learned for estimate in uncertain if estimate.not_learned is not None):
        yield f"Note: nothing was learned. {reason}"
    if any(estimate.method == "learned" for estimate in uncertain):
        yield LEARNED
    at_random = [estimate for estimate in uncertain if estimate.method == "at random"]
    if any(estimate.unit is None for estimate in at_random):
        yield AT_RANDOM
    if any(estimate.unit is not None for estimate in at_random):
        yield PEOPLE_AT_RANDOM
    if uncertain:
        yield NOT_MEASURED if any(estimate.coverage is None for estimate in uncertain) else MEASURED


def _show_estimate(estimate: Estimate) -> None:
    low, high = estimate.bounds
    unit = f" {estimate.unit}" if estimate.unit is not None else ""
    if estimate.exact:
        show_pairs([("count", f"{low:,}{unit}  (exact)")])
        return
    source = "learned from all buckets together" if estimate.method == "learned" else "at random in buckets"
    pairs = [
        ("estimate", f"{estimate.estimate:,.1f}{unit}  ({source})"),
        ("certain bounds", f"{low:,} to {high:,}"),
        ("standard error", f"{estimate.standard_error:,.2f}"),
        ("95 % interval", f"{_from_to(estimate)}; {_held(estimate.coverage)}"),
    ]
    if (beside := estimate.at_random) is not None:
        pairs.append(("at random", f"{beside.estimate:,.1f}, {_from_to(beside)}; {_held(beside.coverage)}"))
    show_pairs(pairs)


def _from_to(estimate: Estimate | RandomMatching) -> str:
    return "{:,} to {:,}".format(*estimate.interval)


def _held(coverage: Coverage | None) -> str:
    """What an interval is worth."""
    return (
        "coverage unknown"
        if coverage is None
        else f"held {100 * coverage.share:.0f} % of {coverage.queries} simulated truths"
    )


def _show_groups(groups: Sequence[GroupEstimate]) -> None:
    if not groups:
        click.echo("no groups")
        return
    learned = any(group.estimate.method == "learned" for group in groups)
    by = [printable(name) for name in groups[0].group]
    unit = groups[0].estimate.unit
    numbers = ["estimate" if unit is None else unit, "certain bounds", "standard error", "95 % interval", "held"]
    table = TextTable([*by, *numbers, *(["at random", "interval", "held"] if learned else [])], left=by)
    for group in groups:
        names = ("" if value is None else printable(str(value)) for value in group.group.values())
        table.add(*names, *_cells(group.estimate, learned))
    table.show()


def _cells(estimate: Estimate, learned: bool) -> list[str]:
    low, high = estimate.bounds
    if estimate.exact:
        return [f"{low:,}", "exact", "0", "exact", "", *(["", "", ""] if learned else [])]
    cells = [f"{estimate.estimate:,.1f}", f"{low:,} to {high:,}", f"{estimate.standard_error:,.2f}"]
    cells += [_from_to(estimate), _share(estimate.coverage)]
    beside = estimate.at_random
    if beside is not None:
        cells += [f"{beside.estimate:,.1f}", _from_to(beside), _share(beside.coverage)]
    return cells


def _share(coverage: Coverage | None) -> str:
    return "unknown" if coverage is None else f"{100 * coverage.share:.0f} %"


def _show_figures(answers: Sequence[Figures]) -> None:
    by = [printable(name) for name in answers[0].group]
    learned = any(figure.method == "learned" for answer in answers for _, figure in _named(answer))
    numbers = ["estimate", "certain bounds", "standard error", "model's interval"]
    beside = ["at random", "interval"] if learned else []
    table = TextTable([*by, "figure", *numbers, *beside, "records"], left=[*by, "figure"])
    for answer in answers:
        names = ["" if value is None else printable(str(value)) for value in answer.group.values()]
        records = _range(*answer.records) if answer.records[0] < answer.records[1] else f"{answer.records[0]:,}"
        for name, figure in _named(answer):
            table.add(*names, name, *_figure_cells(figure, learned), records)
    table.show()


def _named(answer: Figures) -> Iterator[tuple[str, Figure]]:
    if answer.mean is not None:
        yield "mean", answer.mean
    if answer.sum is not None:
        yield "sum", answer.sum
    for level, figure in answer.quantiles.items():
        yield "median" if level == 0.5 else f"quantile {level:g}", figure


def _figure_cells(figure: Figure, learned: bool) -> list[str]:
    if figure.exact:
        value = figure.estimate
        shown = f"{value:,.12g}" if isinstance(value, float) else _number(value)
        return [shown, "exact", "0", "exact", *(["", ""] if learned else [])]
    error = "" if figure.standard_error is None else _number(figure.standard_error)
    cells = [_number(figure.estimate), _range(*figure.bounds), error, _range(*figure.interval)]
    beside = figure.at_random
    return cells if beside is None else [*cells, _number(beside.estimate), _range(*beside.interval)]


def _range(low: Number, high: Number) -> str:
    return f"{_number(low, ROUND_FLOOR)} to {_number(high, ROUND_CEILING)}"


def _number(number: Number, rounding: str = ROUND_HALF_EVEN) -> str:
    """A whole number or a decimal as it is, and a float with some digits; ends of ranges are rounded outwards."""
    if not isinstance(number, float):
        return f"{number:,}" if isinstance(number, int) else f"{number:,f}"
    exact = Decimal(repr(number))
    places = max(0, _DIGITS - 1 - exact.adjusted()) if exact else 0
    return f"{exact.quantize(Decimal((0, (1,), -places)), rounding):,f}"


def _figure_reservations(answers: Sequence[Figures]) -> Iterator[str]:
    """What to keep in mind about these figures."""
    if any(not answer.records[0] and (answer.mean or answer.quantiles) for answer in answers):
        yield _PERHAPS_NOBODY
    uncertain = [figure for answer in answers for _, figure in _named(answer) if not figure.exact]
    for reason in dict.fromkeys(figure.not_learned for figure in uncertain if figure.not_learned is not None):
        yield f"Note: nothing was learned. {reason}"
    if any(figure.method == "learned" for figure in uncertain):
        yield FIGURES_LEARNED
    if any(figure.method == "at random" for figure in uncertain):
        yield FIGURES_AT_RANDOM
