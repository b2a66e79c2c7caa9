"""Releases with a known truth, made by hand: who is in which bucket, and what goes together, is up to the test."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dalenius
from tests.handmade import Handmade, edit_manifest, restate_hashes, rewrite

VALUES = ["ague", "bile", "cold", "dropsy", "evil", "flux"]


def table(
    rows: int = 3000, agree: float = 1.0, *, with_id: bool = False, size: int = 3, seed: int = 0, limit: str = "2/5"
) -> Handmade:
    """Buckets of different values at random, and a column `kind` that tells them with probability `agree`."""
    rng = np.random.default_rng(seed)
    held = np.concatenate([rng.permutation(len(VALUES))[:size] for _ in range(rows // size)])
    order = rng.permutation(rows)
    values, buckets = held[order], order // size + 1
    kinds = np.where(rng.random(rows) < agree, values, rng.integers(0, len(VALUES), rows))
    columns = [[f"kind {kind}" for kind in kinds.tolist()], rng.integers(0, 4, rows).tolist()]
    types: dict[str, pa.DataType] = {"kind": pa.string(), "noise": pa.int16()}
    if with_id:
        columns.append(list(range(rows)))
        types["id"] = pa.int64()
    return Handmade(
        types=types,
        rows=list(zip(*columns, strict=True)),
        values=[VALUES[value] for value in values.tolist()],
        buckets=buckets.tolist(),
        limits=dict.fromkeys(VALUES, limit),
    )


def named(made: Handmade) -> Handmade:
    """With a name for everybody: it tells the truth of every row, and nothing is learned from it."""
    rows = [(*row, f"person {number}") for number, row in enumerate(made.rows)]
    return replace(made, types={**made.types, "name": pa.string()}, rows=rows)


def published(rows: int, agree: float, fakes: int) -> Handmade:
    """The buckets of a release that the program made of such a table, with what everybody really has."""
    source = named(table(rows, agree)).source()
    with tempfile.TemporaryDirectory() as folder:
        limits = {"uniform": "1/3"}
        columns = ["kind", "noise", "name"]
        dalenius.publish(
            source,
            limits,
            sensitive="Disease",
            quasi_identifiers=columns,
            fake_values=fakes,
            strata=None,
            out=folder,
            force=True,
            seed=7,
        )
        qit, st = (pyarrow.parquet.read_table(Path(folder) / f"{name}.parquet") for name in ("qit", "st"))
    value_of = dict(zip(source["name"].to_pylist(), source["Disease"].to_pylist(), strict=True))
    values = [value_of[name] for name in qit["name"].to_pylist()]
    buckets = qit["bucket"].to_pylist()
    left = Counter(zip(st["bucket"].to_pylist(), st["Disease"].to_pylist(), strict=True))
    left -= Counter(zip(buckets, values, strict=True))
    return Handmade(
        types={"kind": pa.string(), "noise": pa.int16()},
        rows=list(zip(qit["kind"].to_pylist(), qit["noise"].to_pylist(), strict=True)),
        values=values,
        buckets=buckets,
        limits=dict.fromkeys(VALUES, "1/3"),
        fakes=list(left.elements()),
    )


def add_fakes(folder: Path, values: Sequence[str]) -> None:
    """One fake value for every bucket, in the order of the buckets; the limits stay as they are."""

    def added(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        name = next(key for key in rows[0] if key != "bucket")
        fakes = [{"bucket": number + 1, name: value} for number, value in enumerate(values)]
        return sorted([*rows, *fakes], key=lambda row: (row["bucket"], row[name]))

    def noted(manifest: dict[str, Any]) -> None:
        manifest["adversary"]["fake_values"] = 1
        manifest["tables"]["st"]["rows"] += len(values)

    rewrite(folder, "st", added)
    edit_manifest(folder, noted)
    restate_hashes(folder)
