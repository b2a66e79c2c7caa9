"""Releases by people to report on: several rows each, several sensitive columns, a set of columns, groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dalenius
from dalenius.publishing.published import Release

GROUPS = {"tree": {"airways": ["Flu", "Cold"], "others": ["Gout", "HIV"]}}
LIMITS = {"odds": 12, "floor": "0.2"}


def visits(people: int = 300, most: int = 3) -> pa.Table:
    """People with one to `most` rows, four diseases, a second diagnosis and a drug."""
    rng = np.random.default_rng(7)
    rows: list[dict[str, Any]] = []
    diseases = ("Flu", "Cold", "Gout", "HIV")
    for who in range(people):
        own = rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])
        age = int(rng.integers(20, 60))
        for visit in range(1 + who % most):
            here = own if rng.random() < 0.8 else rng.integers(4)
            second, drug = diseases[rng.integers(4)], ("none", "steady")[rng.integers(2)]
            row = {"Person": f"p{who}", "Age": age + visit, "Disease": diseases[here], "Second": second, "Drug": drug}
            rows.append(row)
    return pa.Table.from_pylist([rows[place] for place in rng.permutation(len(rows))])


def by_people(out: Path, **options: Any) -> Release:
    """Two sensitive columns of people of whom at most two rows are kept."""
    chosen = {"person": "Person", "most_rows": 2, "sensitive": ["Disease", "Drug"], **options}
    return dalenius.publish(visits(), chosen.pop("limits", LIMITS), quasi_identifiers=["Age"], out=out, **chosen)


def with_groups(out: Path) -> Release:
    """A set of two columns with groups that have limits, and a column beside it."""
    limits = {**LIMITS, "grouping": GROUPS, "groups": {"airways": "0.95", "others": "0.95"}}
    diagnosis = {"columns": ["Disease", "Second"], "name": "Diagnosis", "limits": limits}
    return by_people(out, sensitive=[diagnosis, "Drug"])


def one_row_each(out: Path) -> Release:
    """Two sensitive columns, and nobody has several rows."""
    table = visits(most=1)
    sensitive: Any = ["Disease", "Drug"]
    return dalenius.publish(table, LIMITS, sensitive=sensitive, quasi_identifiers=["Age"], out=out)


def kept_together(out: Path, most: int = 1, table: pa.Table | None = None) -> Release:
    """Two columns that are kept together, and nobody has several rows, or everybody up to two."""
    person: dict[str, Any] = {"person": "Person"} if most > 1 else {}
    sensitive: Any = ["Disease", "Drug"]
    asked: dict[str, Any] = {"sensitive": sensitive, "quasi_identifiers": ["Age"], "keep_together": sensitive, **person}
    return dalenius.publish(visits(most=most) if table is None else table, LIMITS, out=out, **asked)
