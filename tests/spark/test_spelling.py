"""The files that Spark writes are those that this process would write for the same rows, byte by byte."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import dalenius
from dalenius.model.problem import SizeGroup
from dalenius.place.domains import Domain
from dalenius.place.packed import Layout, Pieces
from dalenius.place.survey import layout_of
from dalenius.publishing.spark.cluster_table import piece_rows
from dalenius.publishing.spark.output import _ranges, write
from dalenius.publishing.spark.placing import ENCODED
from dalenius.release.parquet_file import FileLayout, walk
from dalenius.release.parquet_pages import FileWriter
from dalenius.verify.judge import verify
from tests.spark.tables import TYPED, publish, town, written

GROUP_BITS = 4


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several row groups in a file, and several files."""
    monkeypatch.setattr("dalenius.publishing.description._GROUP_BITS", GROUP_BITS)
    monkeypatch.setattr("dalenius.publishing.spark.cluster_table._LEAST_PIECE_ROWS", 70)


def encoded(table: pa.Table, schema: pa.Schema, bucket: str, group_rows: int) -> bytes:
    """The rows as this process writes them."""
    content = io.BytesIO()
    writer = FileWriter(content, schema, bucket)
    for first in range(0, len(table), group_rows):
        group = table.slice(first, group_rows).combine_chunks()
        writer.write_group([column.chunk(0) for column in group.columns])
    writer.finish()
    return content.getvalue()


def check_spelling(release: dalenius.Release, group_rows: int = 2**GROUP_BITS) -> list[int]:
    """Every file against its rows; gives the rows of the parts of QIT."""
    made = release.manifest
    bucket, fakes = pa.field(made.columns.bucket, pa.int64(), nullable=False), made.adversary.fake_values
    for entry in (made.tables.qit, made.tables.st):
        whole = pq.read_table([release.path / name for name in entry.files])
        stated = made.columns.quasi_identifiers if entry is made.tables.qit else [made.columns.sensitive]
        fields = [
            pa.field(name.name, whole.schema.field(name.name).type, whole[name.name].null_count > 0) for name in stated
        ]
        schema = pa.schema([*fields, bucket] if entry is made.tables.qit else [bucket, *fields])
        assert [str(field.type) for field in fields] == [column.type for column in stated]
        assert entry.parts is not None
        assert entry.files == tuple(f"{entry.file}/part-{number:05d}.parquet" for number in range(len(entry.parts)))
        for name, part in zip(entry.files, entry.parts, strict=True):
            content = (release.path / name).read_bytes()
            assert content == encoded(pq.read_table(release.path / name), schema, bucket.name, group_rows)
            walk(io.BytesIO(content), FileLayout(schema, bucket.name), part.rows)
        extra = fakes if entry is made.tables.st else 0
        assert [part.rows for part in entry.parts] in _cuts(release, extra)
    return [part.rows for part in made.tables.qit.parts or ()]


def _cuts(release: dalenius.Release, extra: int) -> list[list[int]]:
    """The rows of parts by every power of two."""
    made = release.manifest
    strata = [part.setting for part in made.strata.strata] if made.strata is not None else [made.setting]
    groups = [SizeGroup(group.size + extra, group.buckets) for setting in strata for group in setting]
    return [Pieces.of(groups, 2**bits).rows.tolist() for bits in range(12)]


@pytest.mark.usefixtures("spark")
def test_every_byte_follows_from_the_rows(tmp_path: Path) -> None:
    table, out = town(), tmp_path / "release"
    release = publish(written(table, tmp_path / "table"), engine="spark", out=out, strata=["Gender"], fake_values=2)
    assert len(check_spelling(release)) > 4
    there = {str(path.relative_to(out)) for path in out.rglob("*.*")}
    assert there == {"manifest.json", *release.manifest.tables.qit.files, *release.manifest.tables.st.files}
    assert verify(out, against=table).verified


@pytest.mark.parametrize("wide", [False, True], ids=["packed", "wide"])
@pytest.mark.usefixtures("spark")
def test_all_types_with_and_without_nulls(wide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of eight different cells fit into 64 bits, unless there is no list of them."""
    some = TYPED.take(np.random.default_rng(1).integers(0, len(TYPED), 300))
    table = (
        some.append_column("all there", pa.array(np.arange(300) % 7))
        .append_column("s'", pa.array([None, "x", "y", "z"] * 75))
        .drop_columns(["s"])
    )
    layouts: list[Layout | None] = []

    def found(domains: Mapping[str, Domain | None], buckets: int = 1) -> Layout | None:
        layouts.append(None if wide else layout_of(domains, buckets))
        return layouts[-1]

    monkeypatch.setattr("dalenius.publishing.spark.cluster_table.layout_of", found)
    columns = [name for name in table.column_names if name != "s'"]
    out = tmp_path / "release"
    release = publish(
        written(table, tmp_path / "table"),
        engine="spark",
        out=out,
        quasi_identifiers=columns,
        sensitive="s'",
        limits={"uniform": "1/2"},
        null_value="none",
    )
    assert {one is None for one in layouts} == {wide}
    assert len(check_spelling(release)) > 2
    assert verify(out, against=table).verified


def test_the_writer_of_text_writes_any_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Also with the cluster's own wish to compress what is written."""

    def files(batches: Any) -> Any:
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                content = odd_bytes(piece)
                yield pa.record_batch(
                    [pa.array([piece], pa.int32()), pa.array([content], pa.binary())], names=["piece", "content"]
                )

    def odd_bytes(piece: int) -> bytes:
        drawn = np.random.default_rng(piece).bytes(5000 * piece)
        return b"PAR1" + drawn + b"\r\n\xff\xfe\xed\xa0\x80\0PAR1\nPAR1"

    java: Any = spark.sparkContext._jsc
    conf = java.hadoopConfiguration()
    conf.set("mapreduce.output.fileoutputformat.compress", "true")
    try:
        write(spark.range(0, 4, 1, 4).mapInArrow(files, ENCODED), str(tmp_path / "out"))
    finally:
        conf.unset("mapreduce.output.fileoutputformat.compress")
    found = sorted(path for path in (tmp_path / "out").iterdir() if not path.name.startswith("."))
    assert [path.suffix for path in found] == [".txt"] * 4
    for piece, path in enumerate(found):
        assert path.read_bytes() == odd_bytes(piece)


def test_what_comes_through_spark_connect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.publishing.spark.output._SENT_AT_ONCE", 10)
    lengths = {3: 1, 0: 4, 1: 6, 2: 1, 4: 99, 5: 10, 6: 1}
    assert list(_ranges(lengths)) == [(0, 1), (2, 3), (4, 4), (5, 5), (6, 6)]


@pytest.mark.parametrize("rows", [1, 5000, 131_072, 10**6, 10**9])
@pytest.mark.parametrize("row_bytes", [0, 9, 16, 1000, 10**9])
def test_pieces_have_powers_of_two(rows: int, row_bytes: int) -> None:
    found = piece_rows(rows, row_bytes)
    assert found.bit_count() == 1
    assert found * row_bytes <= 2**26 or found == 1
    assert found <= 2**20
