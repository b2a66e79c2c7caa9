"""Releases made by hand: any table, any buckets. Nothing of the publishing code is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from dalenius.release.column_entries import SensitiveEntry
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import (
    FILE,
    FORMAT,
    Adversary,
    Column,
    Columns,
    Manifest,
    Program,
    SizeGroupPart,
    Value,
    Worst,
)
from dalenius.release.two_tables import TableFile, Tables
from tests.naive_parquet import parquet


def random_buckets(rows: int, size: int, seed: int = 0) -> list[int]:
    """Buckets from 1, each of `size` rows or one more, at random."""
    labels = np.arange(rows) % max(1, rows // size) + 1
    return [int(label) for label in np.random.default_rng(seed).permutation(labels)]


def write_release(
    path: Path,
    table: pa.Table,
    sensitive: str,
    buckets: Sequence[int],
    *,
    csv: bool = False,
    bucket: str = "bucket",
    fakes: Sequence[tuple[int, Any]] = (),
    row_group_size: int = 50,
) -> ReleaseFolder:
    """The release in which row i of the table is in buckets[i]; `fakes` are values added to buckets."""
    path.mkdir(parents=True, exist_ok=True)
    numbers = pa.array(buckets, pa.int64())
    qit = table.drop_columns([sensitive]).append_column(bucket, numbers).sort_by(bucket)
    st = pa.table({bucket: numbers, sensitive: table[sensitive]})
    if fakes:
        columns = [[number for number, _ in fakes], [value for _, value in fakes]]
        st = pa.concat_tables(
            [
                st,
                pa.Table.from_arrays(
                    [pa.array(c, f.type) for c, f in zip(columns, st.schema, strict=True)], schema=st.schema
                ),
            ]
        )
    shuffled = np.random.default_rng(1).permutation(st.num_rows)
    st = st.take(pa.array(shuffled)).sort_by(bucket)
    suffix = "csv" if csv else "parquet"
    for name, part in (("qit", qit), ("st", st)):
        if csv:
            options = pyarrow.csv.WriteOptions(quoting_style="needed")
            pyarrow.csv.write_csv(part, path / f"{name}.csv", options)
        else:
            types = {field.name: field.type for field in part.schema}
            rows = list(zip(*(_cells(column) for column in part.columns), strict=True))
            group = 2 ** (row_group_size - 1).bit_length()
            (path / f"{name}.parquet").write_bytes(parquet(types, rows, bucket=bucket, group=group))
    sizes, numbers_of = np.unique(np.unique(np.array(buckets), return_counts=True)[1], return_counts=True)
    manifest = Manifest(
        format=FORMAT,
        program=Program(name="dalenius", version="0.1.0"),
        randomness="seeded: not for publication",
        tables=Tables(
            qit=TableFile(file=f"qit.{suffix}", rows=qit.num_rows, bytes=1, sha256="0" * 64, parts=None),
            st=TableFile(file=f"st.{suffix}", rows=st.num_rows, bytes=1, sha256="0" * 64, parts=None),
        ),
        columns=Columns(
            bucket=bucket,
            quasi_identifiers=[_column(table, name) for name in table.schema.names if name != sensitive],
            sensitive=SensitiveEntry(**_column(table, sensitive).model_dump(), of=[sensitive]),
        ),
        null_value=None,
        missing=[],
        rows=table.num_rows,
        people=table.num_rows,
        persons=None,
        buckets=len(set(buckets)),
        setting=[SizeGroupPart(size=int(s), buckets=int(b)) for s, b in zip(sizes, numbers_of, strict=True)],
        loss=0,
        mse=0.0,
        method="optimal",  # type: ignore[arg-type]
        status="feasible",  # type: ignore[arg-type]
        bound=None,
        gap=None,
        adversary=Adversary(known_records=0, fake_values=len(fakes) // len(set(buckets))),
        chain=None,
        strata=None,
        groups=None,
        bands=None,
        values=[Value(value="any", count=1, limit="1", worst=Worst(count=1, size=1), group=None, applies=True)],
        group_table=None,
        others=[],
        together=[],
    )
    (path / FILE).write_text(manifest.to_json(), encoding="utf-8")
    return ReleaseFolder(path, manifest)


def _column(table: pa.Table, name: str) -> Column:
    return Column(name=name, type=str(table.schema.field(name).type), nulls=table[name].null_count > 0)


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Days and times as whole numbers, which Python's own may not hold."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.combine_chunks().view(pa.int32() if kind.bit_width == 32 else pa.int64())
    cells: list[Any] = column.to_pylist()
    return cells


def write_long_texts(path: Path) -> ReleaseFolder:
    """A release with texts of 50 kB, on which `SLOW` and `LARGE` take long and much, though both are allowed."""
    rows = 40
    table = pa.table(
        {
            "Text": ["a" * 50_000] * rows,
            "Gender": ["F", "M"] * (rows // 2),
            "Disease": ["Flu", "Cold", "Gout", "HIV"] * (rows // 4),
        }
    )
    return write_release(path, table, "Disease", [1 + row // 4 for row in range(rows)])


# Half an hour: each of these takes some ten seconds, within single calls that nothing interrupts.
SLOW = (
    " OR ".join(f"regexp_matches(Text, 'a{{0,490}}a{{0,490}}{'b' * number}')" for number in range(1, 20))
    + " OR "
    + (" OR ".join(f"regexp_matches(Text, 'a{{0,480}}a{{0,480}}{'c' * number}')" for number in range(1, 40)))
)
LARGE = " OR ".join(f"contains({' || '.join(['Text'] * 64)}, 'b{number}')" for number in range(20))  # gigabytes
BOMB = "'%A'"  # each level makes text three times as long: 20 levels would be 10 GB
for _ in range(20):
    BOMB = f"translate(strftime(DATE '2024-05-01', {BOMB}), 'Wednsay', '%A % %A')"
BOMB += " = 'x'"
REPEATS = f"regexp_matches(Text, '{'a{0,500}' * 20}b')"
