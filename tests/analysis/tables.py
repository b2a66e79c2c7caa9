"""Made-up tables of people, released, and what any completed table of a release has to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dalenius
from dalenius.analysis.outcomes import plain_values
from dalenius.release.folder import ReleaseFolder, open_release

DISEASES = ["ague", "bile", "cold", "flux", "gout"]
WARDS = ["north", "south", "west"]


def patients(rows: int = 600, *, strength: float = 2.0, seed: int = 0, wards: Sequence[str] = WARDS) -> pa.Table:
    """Gout goes with age and cold with the first ward, the more the stronger. Nobody else has the same name."""
    random = np.random.default_rng(seed)
    age, ward = random.integers(20, 80, rows), random.integers(0, len(wards), rows)
    logits = np.zeros((rows, len(DISEASES)))
    logits[:, 4] = strength * (age - 50) / 20
    logits[:, 2] = strength * (ward == 0)
    disease = np.argmax(logits + random.gumbel(size=logits.shape), axis=1)
    return pa.table(
        {
            "age": pa.array(age),
            "ward": pa.array([wards[place] for place in ward.tolist()]),
            "name": pa.array([f"person {number}" for number in range(rows)]),
            "disease": pa.array([DISEASES[place] for place in disease.tolist()]),
        }
    )


def released(table: pa.Table, folder: Path, sensitive: Any = "disease", **options: Any) -> ReleaseFolder:
    """A release of a table, under odds of 4; all columns that are not sensitive are quasi-identifiers."""
    chosen: dict[str, Any] = {"seed": 1, **options}
    taken = [sensitive] if isinstance(sensitive, str) else sensitive
    identifiers = chosen.pop("quasi_identifiers", [name for name in table.column_names if name not in taken])
    dalenius.publish(table, {"odds": 4}, sensitive=sensitive, quasi_identifiers=identifiers, out=folder, **chosen)
    return open_release(folder)


def truth_of(table: pa.Table, folder: ReleaseFolder, column: str = "disease") -> list[Any]:
    """What everybody really has, in the order of the release; whoever has a name of their own is known by it."""
    by_name = dict(zip(table["name"].to_pylist(), table[column].to_pylist(), strict=True))
    return [by_name[name] for name in folder.table("qit")["name"].to_pylist()]


def lines(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The cells of some columns, row by row."""
    return list(zip(*(plain_values(table)[name].to_pylist() for name in names), strict=True))


def by_bucket(buckets: list[int], cells: Sequence[Any]) -> dict[int, Counter[Any]]:
    """How often each bucket has what."""
    found: dict[int, Counter[Any]] = {}
    for bucket, cell in zip(buckets, cells, strict=True):
        found.setdefault(bucket, Counter())[cell] += 1
    return found


def assert_possible(folder: ReleaseFolder, drawn: pa.Table, columns: Sequence[Sequence[str]]) -> None:
    """A completed table has QIT's rows in their order, and in every bucket its values, less as many as are fakes.

    `columns` are the sensitive ones, by table: those that are kept together in one.
    """
    qit = folder.table("qit")
    bucket, fakes = folder.manifest.columns.bucket, folder.manifest.adversary.fake_values
    identifiers = [name for name in qit.column_names if name != bucket]
    assert lines(drawn, identifiers) == lines(qit, identifiers)
    buckets, names = qit[bucket].to_pylist(), list(folder.manifest.sensitive_names)
    for own in columns:
        if len(own) > 1:
            place = next(place for place, one in enumerate(folder.manifest.together) if set(one.columns) == set(own))
            slots = folder.kept_together(place).table("together")
        else:
            slots = folder.view(names.index(own[0])).table("st")
        held = by_bucket(slots[bucket].to_pylist(), lines(slots, own))
        given = by_bucket(buckets, lines(drawn, own))
        assert set(given) == set(held)
        for number, cells in given.items():
            assert cells <= held[number]
            assert (held[number] - cells).total() == fakes
