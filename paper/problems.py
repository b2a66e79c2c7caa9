"""The bucket setting problems of Section 7: counts of a table, the limits of a theta, sizes up to 50."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dalenius.model.problem import Problem, ValueCounts
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.solve.sizes import least_min_size
from paper.experiment import Context

BASE = Fraction(1, 50)  # f'_i = min(1, theta f_i + 0.02)
THETA = 8  # the paper's default
MAX_SIZE = 50  # M'


def limits(theta: int) -> LimitPolicy:
    """f'_i = min(1, theta f_i + 0.02)."""
    return LimitPolicy(theta=Fraction(theta), base=BASE)


def problem(counts: ValueCounts, theta: int) -> Problem:
    """The counts under the limits of theta, with M = min_i ceil(1 / f'_i) and M' = 50."""
    exact = resolve_limits(limits(theta), counts).limits
    return Problem(
        values=counts.values,
        counts=counts.counts,
        limits=exact,
        min_size=least_min_size(exact),
        max_size=MAX_SIZE,
    )


def every_problem(context: Context) -> Iterator[tuple[str, int, Problem]]:
    """Every sensitive column with every theta, and their problem."""
    for sensitive in context.dataset.sensitive:
        counts = context.dataset.counts(sensitive, context.settings.rows)
        for theta in context.settings.thetas:
            yield sensitive, theta, problem(counts, theta)


def scale_domain(counts: ValueCounts, gamma: int, seed: int) -> ValueCounts:
    """Section 7.3.2: every record's value v becomes gamma v + r, r one of 0..gamma-1 with equal chances.

    Of the o_v records the numbers that get each r are multinomial, so they are drawn at once.
    """
    chance = np.random.default_rng([2012, gamma, seed])
    numbers = [chance.multinomial(count, [1 / gamma] * gamma) for count in counts.counts]
    return ValueCounts.of(
        (f"{value} {r}", int(number))
        for value, split in zip(counts.values, numbers, strict=True)
        for r, number in enumerate(split)
        if number
    )
