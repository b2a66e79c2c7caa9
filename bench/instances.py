"""The counts that benchmarks run on: ACS 2018 by value, scaled in domain or in size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dalenius.model.problem import Problem
from tests.problems import acs, problem, theta_limits

THETA = 8


def scaled_domain(column: str, gamma: int) -> Problem:
    """The paper's scale-up of |SA| (Section 7.3.2): each of 500K records' value v becomes gamma v + a random digit."""
    counts = acs(column, 500, THETA).counts
    if gamma == 1:
        return acs(column, 500, THETA)
    chance = np.random.default_rng([2012, gamma, *column.encode()])
    split = np.concatenate([chance.multinomial(count, [1 / gamma] * gamma) for count in counts])
    kept = [int(count) for count in split if count]
    return problem(kept, theta_limits(kept, THETA))


def scaled_size(column: str, total: int) -> Problem:
    """The same frequencies with another number of records."""
    counts = [max(1, round(Fraction(count * total, 300_000))) for count in acs(column, 300, THETA).counts]
    return problem(counts, theta_limits(counts, THETA))
