"""Problems with known answers, which every solver runs."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

from dalenius.model.problem import Problem
from dalenius.solve.sizes import least_min_size

_ACS = json.loads((Path(__file__).parent / "acs2018_counts.json").read_text(encoding="utf-8"))["counts"]


def problem(counts: list[int], limits: list[Fraction], min_size: int | None = None, max_size: int = 50) -> Problem:
    """A problem whose values are named 0, 1, 2, ..."""
    exact = tuple(Fraction(limit) for limit in limits)
    low = least_min_size(exact) if min_size is None else min_size
    return Problem(tuple(map(str, range(len(counts)))), tuple(counts), exact, low, max_size)


def theta_limits(counts: list[int], theta: int, base: Fraction = Fraction(1, 50)) -> list[Fraction]:
    """f'_i = min(1, theta f_i + base), the rule of the paper's Section 7."""
    total = sum(counts)
    return [min(Fraction(1), theta * Fraction(count, total) + base) for count in counts]


def acs(column: str, thousands: int, theta: int, max_size: int = 50) -> Problem:
    """The paper's OCC (column "Occupation") or EDU ("Education") from the ACS 2018, 300 or 500 thousand rows."""
    counts = _ACS[f"{column} {thousands}K"]
    return problem(counts, theta_limits(counts, theta), max_size=max_size)


def example_3(max_size: int = 14) -> Problem:
    """Example 3 of the paper: 50 records, f'_i = 2 f_i + 0.05."""
    counts = [1] * 8 + [6] * 4 + [9] * 2
    return problem(counts, theta_limits(counts, 2, Fraction(1, 20)), max_size=max_size)
