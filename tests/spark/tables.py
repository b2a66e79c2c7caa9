"""Tables for both engines, as folders of Parquet files, and how they are published and judged."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dalenius

LIMITS = {"Flu": "0.9", "Cold": "0.8", "Gout": "0.8", "HIV": "0.6"}
COLUMNS = ["Age", "Gender", "id"]
PIECE_ROWS = 256  # of a file of a release


def written(table: pa.Table, folder: Path, files: int = 3) -> Path:
    """The rows in so many files of about the same length. In these tests, Spark has a partition for each."""
    folder.mkdir(parents=True)
    edges = np.linspace(0, len(table), files + 1).astype(int)
    for number, (first, last) in enumerate(pairwise(edges)):
        pyarrow.parquet.write_table(table.slice(first, last - first), folder / f"{number:03d}.parquet")
    return folder


def town(rows: int = 600, seed: int = 1, flu: float = 0.0) -> pa.Table:
    """People of two genders (or none said), whose diseases go by age; a share of them has flu, whoever they are."""
    rng = np.random.default_rng(seed)
    age, gender = rng.integers(0, 80, rows), rng.choice(["F", "M"], rows).astype(object)
    shares = np.array([[6, 3, 2, 1], [1, 4, 3, 2], [2, 2, 2, 4], [1, 1, 5, 3]])
    kind = 2 * (age >= 40) + (gender == "F")
    disease = (rng.random(rows)[:, None] > np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)[kind]).sum(1)
    disease[rng.random(rows) < flu] = 0
    gender[rng.random(rows) < 0.05] = None
    return pa.table(
        {
            "Age": pa.array(age, mask=rng.random(rows) < 0.05),
            "Gender": pa.array(gender, pa.string()),
            "id": pa.array(rng.integers(0, rows // 2, rows)),  # some rows are there twice
            "Disease": np.array(["Flu", "Cold", "Gout", "HIV"])[disease],
        }
    )


def publish(table: Any, **changes: Any) -> dalenius.Release:
    given: dict[str, Any] = {"limits": LIMITS, "sensitive": "Disease", "quasi_identifiers": COLUMNS, "strata": None}
    return dalenius.publish(table, **(given | changes))


def cells(table: pa.Table, columns: list[str]) -> Counter[tuple[str, ...]]:
    """The rows, however often each is there. NaN is NaN here, and -0.0 is not 0.0."""
    return Counter(zip(*(map(repr, table[name].to_pylist()) for name in columns), strict=True))


def check_release(release: dalenius.Release, table: pa.Table, against: Any = None) -> None:
    """Every row once, every value once, and all that `verify` looks for."""
    made = release.manifest
    columns = [column.name for column in made.columns.quasi_identifiers]
    assert cells(release.qit, columns) == cells(table, columns)
    assert [str(table.schema.field(name).type) for name in columns] == [
        column.type for column in made.columns.quasi_identifiers
    ]
    verdict = release.verify(against=table if against is None else against)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]
    sizes = Counter(release.qit[made.columns.bucket].to_pylist())
    assert sorted(Counter(sizes.values()).items()) == [(group.size, group.buckets) for group in made.setting]
    fakes = made.adversary.fake_values
    shown = Counter(release.st[made.columns.bucket].to_pylist())
    assert shown == {bucket: size + fakes for bucket, size in sizes.items()}


def _decimals(texts: list[str | None]) -> list[Decimal | None]:
    return [None if text is None else Decimal(text) for text in texts]


_MOMENTS = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(9999, 12, 31)]  # noqa: DTZ001
_BIG = "1234567890123456789012345678.0123456789"

# eight rows of all that both engines have a type for, with the cells that are easily got wrong
TYPED = pa.table(
    {
        "byte": pa.array([-128, 127, None, 0] * 2, pa.int8()),
        "short": pa.array([-(2**15), 2**15 - 1, None, 0] * 2, pa.int16()),
        "int": pa.array([-(2**31), 2**31 - 1, None, 0] * 2, pa.int32()),
        "long": pa.array([-(2**63), 2**63 - 1, None, 0] * 2, pa.int64()),
        "float": pa.array([0.1, -0.0, 0.0, float("nan"), None, float("inf"), 1e-45, -1.5], pa.float32()),
        "double": pa.array([0.1, -0.0, 0.0, float("nan"), None, float("-inf"), 5e-324, -1.5], pa.float64()),
        "small decimal": pa.array(_decimals(["1.10", "-9999999.99", None, "9999999.99"]) * 2, pa.decimal128(9, 2)),
        "large decimal": pa.array(_decimals([_BIG, "-" + _BIG, None, "0E-10"]) * 2, pa.decimal128(38, 10)),
        "boolean": pa.array([True, False, None, True] * 2),
        "string": ["Zoë", "", "naïve \U0001f600", None, 'quo"te', "line\nbreak", "\uffff", "\U00010000"],
        "binary": pa.array([b"", b"\x00\xff", None, b"x"] * 2),
        "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1582, 10, 10)] * 2),
        "instant": pa.array(_MOMENTS * 2, pa.timestamp("us", tz="UTC")),
        "local time": pa.array(_MOMENTS * 2, pa.timestamp("us")),
        "s": ["a", "b"] * 4,
    }
)
