"""Releases to report on, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import dalenius
from tests.handmade import Handmade


def people(rows: int = 3000) -> pa.Table:
    """People whose disease goes with their age."""
    rng = np.random.default_rng(5)
    age = rng.integers(18, 90, rows)
    diseases = np.array(["Flu", "Cold", "Asthma", "Gout", "HIV", "Cancer"])
    chance = rng.random(rows) + age / 180
    disease = diseases[np.minimum(5, (chance * 4).astype(int))]
    return pa.table(
        {"Gender": pa.array(rng.choice(["F", "M"], rows)), "Age": pa.array(age), "Disease": pa.array(disease)}
    )


def published(folder: Path, seed: int | None = None) -> pa.Table:
    """A release in a folder, in strata, with fakes and room for known records; gives the table it was made of."""
    table = people()
    dalenius.publish(
        table,
        {"theta": 2, "base": "0.1"},
        sensitive="Disease",
        quasi_identifiers=["Gender", "Age"],
        out=folder,
        known_records=1,
        fake_values=1,
        strata=["Gender"],
        seed=seed,
    )
    return table


def many_values(folder: Path, number: int, name: str = "value {}") -> Path:
    """A release with many values, each of three people, in buckets of all of them."""
    values = [name.format(k) for k in range(number)]
    people = [(value, bucket) for bucket in (1, 2, 3) for value in values]
    made = Handmade(
        types={"Age": pa.int64()},
        rows=[(k % 90,) for k in range(len(people))],
        values=[value for value, _ in people],
        buckets=[bucket for _, bucket in people],
        limits={value: f"{k + 2}/{2 * number}" for k, value in enumerate(values)},
    )
    return made.write(folder)
