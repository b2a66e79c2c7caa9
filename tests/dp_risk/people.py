"""A small table for all tests of the attack: four groups, three diseases."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dalenius.dp_risk.results import DpRisk
from dalenius.dp_risk.risk import dp_risk

DRAWS = 3_000
LIMITS = {"HIV": "0.3", "Flu": "1", "Cold": "0.6"}
EPSILONS = (0.1, 1.0, 10.0)


def people() -> list[tuple[str | None, int, str]]:
    """Groups of 1 (HIV), 1 (Cold), 6, and 60 people; the gender may be missing, which is a group like any other."""
    rows: list[tuple[str | None, int, str]] = [("F", 30, "HIV"), (None, 30, "Cold")]
    rows += [(None, 40, value) for value in ("HIV", "HIV", "HIV", "Flu", "Cold", "Cold")]
    rows += [("M", 50, value) for value in ["HIV"] * 6 + ["Flu"] * 18 + ["Cold"] * 36]
    return rows


def table(rows: list[tuple[str | None, int, str]] | None = None) -> pa.Table:
    genders, ages, diseases = zip(*(rows or people()), strict=True)
    return pa.table({"Gender": genders, "Age": ages, "Disease": diseases})


def risk(**changed: Any) -> DpRisk:
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Gender", "Age"], "epsilons": EPSILONS}
    return dp_risk(table(), LIMITS, **(settings | {"draws": DRAWS} | changed))


def cells() -> list[tuple[int, int, float]]:
    """x, y and the limit of every person, one by one."""
    sizes = Counter((gender, age) for gender, age, _ in people())
    counts = Counter(people())
    return [
        (sizes[gender, age], counts[gender, age, disease], float(Fraction(LIMITS[disease])))
        for gender, age, disease in people()
    ]
