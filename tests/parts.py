"""Releases of single files written anew in parts, and a store that is no file system."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

import dalenius
from dalenius.release.folder import TableName, open_release
from dalenius.release.manifest import FILE
from dalenius.release.store import LocalStore
from dalenius.release.two_tables import Tables
from dalenius.release.writer import PartsWriter


def into_parts(
    release: Path, out: Path, part_rows: int, group: int | None = None, folders: tuple[str, str] = ("qit", "st")
) -> Path:
    """The same release, each table in parts of so many rows."""
    opened = open_release(release)
    out.mkdir(parents=True)
    tables = {}
    for table, folder in zip(("qit", "st"), folders, strict=True):
        name: TableName = "qit" if table == "qit" else "st"
        whole = part_rows & -part_rows  # the largest power of two that it is a multiple of
        bucket = opened.manifest.columns.bucket
        writer = PartsWriter(out / folder, opened.schema(name), group or whole, part_rows, bucket)
        for batch in opened.batches(name, rows=max(1, part_rows * 2 // 3)):
            writer.write(batch.columns)
        tables[table] = writer.finish()
        writer.close()
    made = opened.manifest.model_copy(update={"tables": Tables(**tables)})
    (out / FILE).write_text(made.to_json(), encoding="utf-8")
    return out


class ElsewhereStore:
    """The bytes of a release without any path: as a store of another machine gives them."""

    def __init__(self, folder: Path, *, lists: bool = True) -> None:
        self._files = {name: (folder / name).read_bytes() for name in LocalStore(folder).names()}
        self._lists = lists
        self.opened: list[str] = []

    def open(self, name: str) -> BinaryIO:
        self.opened.append(name)
        if name not in self._files:
            raise FileNotFoundError(2, "No such file or directory")
        return io.BytesIO(self._files[name])

    def names(self) -> list[str] | None:
        return sorted(self._files) if self._lists else None

    def local(self, name: str) -> Path | None:
        return None


def patients(rows: int = 700) -> pa.Table:
    """Many types and repeated texts, from a seed of its own."""
    rng = np.random.default_rng(5)
    ages = rng.integers(18, 90, rows)
    return pa.table(
        {
            "Age": pa.array(ages, pa.int16()),
            "Town": pa.array([("Bern", "Ulm", "Łódź", None)[place] for place in rng.integers(0, 4, rows)]),
            "Weight": pa.array(np.round(rng.normal(70, 9, rows), 1)),
            "Since": pa.array(rng.integers(10_000, 19_000, rows), pa.int32()).cast(pa.date32()),
            "Disease": pa.array([f"disease {place}" for place in rng.integers(0, 9, rows) * (ages > 30)]),
        }
    )


def published(table: pa.Table | Path, out: Path, **options: Any) -> dalenius.Release:
    """A release of the patients, the same every time."""
    limits = {f"disease {place}": "1/3" for place in range(1, 9)} | {"disease 0": "1"}
    names = ["Age", "Town", "Weight", "Since"]
    return dalenius.publish(table, limits, sensitive="Disease", quasi_identifiers=names, out=out, seed=3, **options)


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON objects say the same: sums of floating point may be added up in another order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)
